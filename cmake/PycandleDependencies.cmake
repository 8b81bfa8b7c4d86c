# Third-party libraries, all from the distribution's packages (scripts/setup.sh names them). Linked statically where
# the wheel needs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# Debian ships fmt as a shared library and as headers. Instantiating the headers once, here, links it statically and
# compiles faster than header-only mode.
add_library(pycandle_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt_instantiations.cpp")

# Only its header: it is compiled into base/hash.cpp.
find_path(PYCANDLE_XXHASH_INCLUDE xxhash.h REQUIRED)

# Headers alone: protobuf messages, of ONNX files.
find_path(PYCANDLE_PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)

# The tokenizer's regular expressions and Unicode tables, as static libraries: neither is on a user's machine.
function(pycandle_static_library name file header)
  find_library(${name}_FILE NAMES ${file} REQUIRED)
  find_path(${name}_INCLUDE ${header} REQUIRED)
  add_library(${name} STATIC IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${${name}_FILE}"
    INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE}")
endfunction()

# The objects of a static library, unpacked.
function(pycandle_objects_of name result)
  set(folder "${PROJECT_BINARY_DIR}/objects/${name}")
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND "${CMAKE_AR}" x "${${name}_FILE}" WORKING_DIRECTORY "${folder}" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB unpacked "${folder}/*.o")
  set_source_files_properties(${unpacked} PROPERTIES EXTERNAL_OBJECT ON)
  set(${result} ${unpacked} PARENT_SCOPE)
endfunction()
# For what is loaded beside other libraries: names of the static ones stay inside. Their code is not compiled for a shared
# object, and links into one only so.
set(PYCANDLE_HIDES_STATIC_LIBRARIES "LINKER:--exclude-libs,libpcre2-8.a:libutf8proc.a")
pycandle_static_library(pycandle_pcre2 libpcre2-8.a pcre2.h)
pycandle_static_library(pycandle_utf8proc libutf8proc.a utf8proc.h)
