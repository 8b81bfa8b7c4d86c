# The backend kit: what a backend is written with that is a shared library of its own (docs/adding-a-backend.md). Its headers are
# backends/kit.h, suite/backend_tests.h and all that they include, as they stand in src/.
set(queue backends/kit.h suite/backend_tests.h)
set(PYCANDLE_KIT_HEADERS)
while(queue)
  list(POP_FRONT queue header)
  if(header IN_LIST PYCANDLE_KIT_HEADERS OR NOT EXISTS "${PROJECT_SOURCE_DIR}/src/${header}")
    continue()  # seen already, or one of include/
  endif()
  list(APPEND PYCANDLE_KIT_HEADERS ${header})
  file(STRINGS "src/${header}" includes REGEX "^#include \"")
  list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
  list(APPEND queue ${includes})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "src/${header}")
endwhile()

# A library like that links nothing of ours: it finds these functions in the process that loads it. So they are visible there.
file(GLOB kit_sources CONFIGURE_DEPENDS src/base/dim*.cpp src/base/shape.cpp src/base/strides.cpp src/base/threads.cpp
  src/base/hash.cpp src/base/file.cpp src/ir/tap_id.cpp src/ir/graph.cpp src/ir/op_def.cpp src/ir/builder*.cpp src/ir/evaluation.cpp
  src/ir/text_p*.cpp src/ir/verifier.cpp src/ops/core/catalogue.cpp src/params/parameters.cpp src/params/derived.cpp
  src/passes/pipeline.cpp src/passes/rewriter.cpp src/passes/constants.cpp src/backends/*.cpp)
set_property(SOURCE ${kit_sources} APPEND PROPERTY COMPILE_OPTIONS -fvisibility=default -fno-semantic-interposition)
set_property(SOURCE ${kit_sources} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
file(GLOB kit_calls CONFIGURE_DEPENDS src/backends/*.cpp)  # made once for a program, never hot
set_property(SOURCE ${kit_calls} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)

# A program or an extension in which such libraries find them, used there or not.
function(pycandle_hosts_backends target)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:pycandle_backends>)
  target_link_options(${target} PRIVATE LINKER:--export-dynamic-symbol=_ZN8pycandle*,--export-dynamic-symbol=_ZNK8pycandle*
    LINKER:--export-dynamic-symbol=_ZT?N8pycandle*)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
