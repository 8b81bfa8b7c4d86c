# A folder of src/ is a static library whose headers are seen only by the folders that depend on it.
#
# The include directory of a folder is not src/ but a small tree of links in the build directory:
#
#     <build>/seams/base/base  ->  src/base        so  #include "base/error.h"  works in base and in what depends on it
#     <build>/seams/ops/ops    ->  src/ops         and #include "ops/core/catalogue.h"  in src/base finds no file
#
# A subfolder with a CMakeLists.txt of its own (src/backends/reference) is a target of its own, and its headers are not
# part of its parent's seam.

# Makes the links of one folder: of the whole folder, or of its entries when a subfolder is a target of its own.
function(pycandle_seam folder seam)
  set(source "${PROJECT_SOURCE_DIR}/src/${folder}")
  set(link "${seam}/${folder}")
  file(GLOB own_targets CONFIGURE_DEPENDS "${source}/*/CMakeLists.txt")
  file(REMOVE_RECURSE "${seam}")
  if(NOT own_targets)
    get_filename_component(parent "${link}" DIRECTORY)
    file(MAKE_DIRECTORY "${parent}")
    file(CREATE_LINK "${source}" "${link}" SYMBOLIC)
    return()
  endif()
  file(MAKE_DIRECTORY "${link}")
  file(GLOB entries CONFIGURE_DEPENDS RELATIVE "${source}" "${source}/*")
  foreach(entry IN LISTS entries)
    if(NOT EXISTS "${source}/${entry}/CMakeLists.txt")
      file(CREATE_LINK "${source}/${entry}" "${link}/${entry}" SYMBOLIC)
    endif()
  endforeach()
endfunction()

# The sources of a folder: its own, and those of its subfolders that are no targets of their own (src/ops/shape).
function(pycandle_sources folder result)
  set(source "${PROJECT_SOURCE_DIR}/src/${folder}")
  file(GLOB sources CONFIGURE_DEPENDS "${source}/*.cpp")
  file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true "${source}/*")
  foreach(entry IN LISTS entries)
    if(IS_DIRECTORY "${entry}" AND NOT EXISTS "${entry}/CMakeLists.txt")
      file(GLOB more CONFIGURE_DEPENDS "${entry}/*.cpp")
      list(APPEND sources ${more})
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# What a target links: libraries, and the targets of folders.
function(pycandle_libraries result links)
  set(libraries ${links})
  foreach(folder IN LISTS ARGN)
    pycandle_target_name(${folder} name)
    list(APPEND libraries ${name})
  endforeach()
  set(${result} ${libraries} PARENT_SCOPE)
endfunction()

# The headers that most files include, none of them ours: parsed once, a third of the build's time otherwise.
set(PYCANDLE_COMMON_HEADERS <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <charconv> <cmath>
  <complex> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string> <unordered_map>
  <utility> <variant> <vector>)
# Parsed for `owner`, the first target with the same effort of compilation; other targets share its result.
function(pycandle_common_headers target owner)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${PYCANDLE_COMMON_HEADERS})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# pycandle_folder(<folder> [QUICK|SMALL] [FLAT] [DEPENDS <folder>...] [LINKS <library>...]): src/<folder>/*.cpp and
# src/<folder>/*/*.cpp as pycandle_<folder> (pycandle_backend_reference for backends/reference). QUICK: it is never hot, and
# is compiled with less effort. SMALL: the same for a folder of the library, compiled for size. FLAT: without its subfolders.
function(pycandle_folder folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK;SMALL;FLAT" "" "DEPENDS;LINKS")
  pycandle_target_name(${folder} target)
  set(seam "${PROJECT_BINARY_DIR}/seams/${target}")
  pycandle_seam(${folder} "${seam}")
  if(arg_FLAT)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp")
  else()
    pycandle_sources(${folder} sources)
  endif()
  pycandle_libraries(libraries "${arg_LINKS}" ${arg_DEPENDS})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    if(arg_SMALL)
      pycandle_common_headers(${target} pycandle_passes)
    else()
      pycandle_common_headers(${target} pycandle_base)
    endif()
    target_link_libraries(${target} PRIVATE pycandle_flags $<$<BOOL:${arg_QUICK}>:pycandle_quick_to_compile>
      $<$<BOOL:${arg_SMALL}>:pycandle_small>)
  else()
    add_library(${target} INTERFACE)  # headers only, for now or for good
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} "${seam}" "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(${target} ${scope} ${libraries})
endfunction()

# The same for a folder that is a program; no target when it has no source.
function(pycandle_program folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME" "DEPENDS;LINKS")
  pycandle_target_name(${folder} target)
  set(seam "${PROJECT_BINARY_DIR}/seams/${target}")
  pycandle_seam(${folder} "${seam}")
  pycandle_sources(${folder} sources)
  if(NOT sources)
    return()
  endif()
  pycandle_libraries(libraries "${arg_LINKS}" ${arg_DEPENDS})
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  target_include_directories(${target} PRIVATE "${seam}")
  target_precompile_headers(${target} PRIVATE ${PYCANDLE_COMMON_HEADERS} <filesystem> <nlohmann/json.hpp>)
  target_link_libraries(${target} PRIVATE pycandle_flags pycandle_quick_to_compile ${libraries})
  if(SKBUILD)
    install(TARGETS ${target} RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  else()
    install(TARGETS ${target})
  endif()
endfunction()

# Adds every backend that is present and names them in PYCANDLE_BACKENDS.
macro(pycandle_backends)
  file(GLOB backend_lists CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/src/backends/*/CMakeLists.txt"
    "${PROJECT_SOURCE_DIR}/src/backends/*/*/CMakeLists.txt")
  set(PYCANDLE_BACKENDS)
  foreach(backend_list IN LISTS backend_lists)
    get_filename_component(backend "${backend_list}" DIRECTORY)
    add_subdirectory("src/${backend}")
    list(APPEND PYCANDLE_BACKENDS "${backend}")
  endforeach()
endmacro()

function(pycandle_target_name folder result)
  string(REGEX REPLACE "^backends/" "backend_" name "${folder}")
  string(REPLACE "/" "_" name "${name}")
  set(${result} "pycandle_${name}" PARENT_SCOPE)
endfunction()
