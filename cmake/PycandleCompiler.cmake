# The language, the warnings and the sanitizers of everything we compile.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# -O3 where it was measured to matter; elsewhere it only costs compile time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set_source_files_properties(src/ops/linalg/blocked_product.cpp PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)

# One cache for all build directories: ccache sees paths relative to the checkout.
find_program(PYCANDLE_CCACHE ccache)
if(PYCANDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros "${PYCANDLE_CCACHE}")
endif()

add_library(pycandle_flags INTERFACE)
target_compile_options(pycandle_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror
  -Wshadow$<$<CXX_COMPILER_ID:GNU>:=local>  # a constructor's argument may have its member's name
  -ffp-contract=off                         # "the exact op, one rounding": no fused multiply-add behind our back
  -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(pycandle_flags INTERFACE -fdiagnostics-color=auto)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(pycandle_flags INTERFACE -Wno-restrict)  # gcc 12 sees overlaps in "text" + std::string (PR105651)
  endif()
endif()

# For code that is run once and never hot (commands, tests): compiles faster.
add_library(pycandle_quick_to_compile INTERFACE)
target_compile_options(pycandle_quick_to_compile INTERFACE $<$<CONFIG:Release>:-O1>)

# For code of the library that is never hot: a fifth to a quarter smaller than with -O2.
add_library(pycandle_small INTERFACE)
target_compile_options(pycandle_small INTERFACE $<$<CONFIG:Release>:-Os>)

if(PYCANDLE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(PYCANDLE_SANITIZE)
  add_compile_options(-fsanitize=${PYCANDLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PYCANDLE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # gcc 12 no longer follows a std::variant through the checks it inserts
    target_compile_options(pycandle_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
