# The Python extension pycandle._core (src/python/*.cpp, with nanobind) and its type stub.
file(GLOB python_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/python/*.cpp")
if(NOT python_sources)
  return()
endif()

find_package(Python 3.11 COMPONENTS Interpreter Development.Module REQUIRED)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

set(python_output "${PROJECT_BINARY_DIR}/python/pycandle")
nanobind_add_module(_core NB_STATIC ${python_sources})
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${python_output}")
target_link_libraries(_core PRIVATE pycandle_flags pycandle_verify pycandle_generate $<LINK_ONLY:pycandle_text>)
pycandle_hosts_backends(_core)
target_link_options(_core PRIVATE ${PYCANDLE_HIDES_STATIC_LIBRARIES} LINKER:-Bsymbolic-functions
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
set_target_properties(_core PROPERTIES LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/exports.map")

nanobind_add_stub(pycandle_stub MODULE _core OUTPUT "${python_output}/_core.pyi" PYTHON_PATH "${python_output}" DEPENDS _core)

# Libraries lie beside it as they do in a wheel.
file(MAKE_DIRECTORY "${python_output}" "${PROJECT_BINARY_DIR}/lib")
file(CREATE_LINK "${PROJECT_BINARY_DIR}/lib" "${python_output}/lib" SYMBOLIC)

install(TARGETS _core LIBRARY DESTINATION pycandle)
