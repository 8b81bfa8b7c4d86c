# The library that other programs link: the objects of all folders in one archive and one shared object, with the public
# headers, a CMake package and a pkg-config file. A wheel carries the same inside the Python package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(parts pycandle_fmt)
# What writes C is in the program, and a library of its own beside this one, which stays small.
set(backends_of_library ${PYCANDLE_BACKENDS})
list(REMOVE_ITEM backends_of_library backends/c)
foreach(folder base ir ops import params passes backends ${backends_of_library} runtime generate verify/judging verify/diagnosing
    verify capture text)
  pycandle_target_name(${folder} part)
  list(APPEND parts ${part})
endforeach()
set(objects ${parts})
list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")

# The archive carries the objects of the static libraries, the shared library links them and hides their names.
set(static_libraries pycandle_pcre2 pycandle_utf8proc)
foreach(library IN LISTS static_libraries)
  pycandle_objects_of(${library} its_objects)
  list(APPEND foreign_objects ${its_objects})
endforeach()

add_library(pycandle STATIC ${objects} ${foreign_objects})
add_library(pycandle_shared SHARED ${objects})
target_link_libraries(pycandle_shared PRIVATE ${static_libraries})
target_link_options(pycandle_shared PRIVATE ${PYCANDLE_HIDES_STATIC_LIBRARIES})
set_target_properties(pycandle PROPERTIES EXPORT_NAME pycandle)
set_target_properties(pycandle_shared PROPERTIES EXPORT_NAME shared OUTPUT_NAME pycandle)
if(NOT SKBUILD)  # a wheel has no links: it would carry the library three times
  set_target_properties(pycandle_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()
set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
target_link_options(pycandle_shared PRIVATE LINKER:--gc-sections LINKER:-Bsymbolic-functions LINKER:--version-script=${exports}
  LINKER:-O2,-z,noseparate-code)  # without padding between its segments
set_target_properties(pycandle_shared PROPERTIES LINK_DEPENDS "${exports}")
add_library(pycandle::pycandle ALIAS pycandle)
add_library(pycandle::shared ALIAS pycandle_shared)

if(SKBUILD)
  set(inside pycandle)  # the Python package
  set(lib ${inside}/lib)
  set(headers ${inside}/include)
else()
  set(lib ${CMAKE_INSTALL_LIBDIR})
  set(headers ${CMAKE_INSTALL_INCLUDEDIR})
endif()
set(package ${lib}/cmake/pycandle)
foreach(library pycandle pycandle_shared)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX)
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_include_directories(${library} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${headers}>)
  target_link_libraries(${library} PUBLIC Threads::Threads)
endforeach()

# The backend kit, headers alone. A build has them side by side, as an installation has.
add_library(pycandle_kit INTERFACE)
set_target_properties(pycandle_kit PROPERTIES EXPORT_NAME kit)
add_library(pycandle::kit ALIAS pycandle_kit)
set(built_kit "${PROJECT_BINARY_DIR}/kit")
file(REMOVE_RECURSE "${built_kit}")
foreach(header IN LISTS PYCANDLE_KIT_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  file(MAKE_DIRECTORY "${built_kit}/${folder}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/${header}" "${built_kit}/${header}" SYMBOLIC)
  install(FILES "src/${header}" DESTINATION "${headers}/pycandle/kit/${folder}" COMPONENT library)
endforeach()
target_compile_features(pycandle_kit INTERFACE cxx_std_20)
target_compile_definitions(pycandle_kit INTERFACE PYCANDLE_INSIDE)
target_include_directories(pycandle_kit INTERFACE $<BUILD_INTERFACE:${built_kit}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${headers}/pycandle/kit> $<INSTALL_INTERFACE:${headers}>)

# The tests of a backend, for test programs: their code, and the folder with PyTorch's values.
set(pack "${PROJECT_SOURCE_DIR}/tests/backend/pack")
add_library(pycandle_backend_tests STATIC $<TARGET_OBJECTS:pycandle_suite>)
set_target_properties(pycandle_backend_tests PROPERTIES EXPORT_NAME backend_tests LINKER_LANGUAGE CXX)
add_library(pycandle::backend_tests ALIAS pycandle_backend_tests)
target_link_libraries(pycandle_backend_tests PUBLIC pycandle pycandle_kit)
target_compile_definitions(pycandle_backend_tests INTERFACE
  "PYCANDLE_BACKEND_TESTS_FOLDER=\"$<BUILD_INTERFACE:${pack}>$<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${lib}/backend_tests>\"")
install(DIRECTORY "${pack}/" DESTINATION ${lib}/backend_tests COMPONENT library)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
file(CREATE_LINK "${pack}" "${PROJECT_BINARY_DIR}/lib/backend_tests" SYMBOLIC)

# A build is a place to link from too: build/release/lib/cmake/pycandle.
set(built "${PROJECT_BINARY_DIR}/lib/cmake/pycandle")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/pycandleConfig.cmake.in" "${built}/pycandleConfig.cmake"
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${built}/pycandleConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH prefix_from_pkgconfig "/${lib}/pkgconfig" "/${lib}/..")
file(RELATIVE_PATH headers_from_prefix "/${lib}/.." "/${headers}")
get_filename_component(lib_from_prefix "${lib}" NAME)
configure_file("${PROJECT_SOURCE_DIR}/cmake/pycandle.pc.in" "${PROJECT_BINARY_DIR}/pycandle.pc" @ONLY)

install(TARGETS pycandle pycandle_shared pycandle_kit pycandle_backend_tests EXPORT pycandleTargets
  ARCHIVE DESTINATION ${lib} COMPONENT library
  LIBRARY DESTINATION ${lib} COMPONENT library NAMELINK_COMPONENT library)
install(TARGETS pycandle_c_plugin LIBRARY DESTINATION ${lib}/pycandle_backends COMPONENT library)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/pycandle" DESTINATION ${headers} COMPONENT library)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/rust/pycandle" DESTINATION ${lib}/rust COMPONENT library
  PATTERN target EXCLUDE PATTERN .gitignore EXCLUDE)
install(EXPORT pycandleTargets NAMESPACE pycandle:: DESTINATION ${package} COMPONENT library)
install(FILES "${built}/pycandleConfig.cmake" "${built}/pycandleConfigVersion.cmake" DESTINATION ${package}
  COMPONENT library)
install(FILES "${PROJECT_BINARY_DIR}/pycandle.pc" DESTINATION ${lib}/pkgconfig COMPONENT library)
export(EXPORT pycandleTargets NAMESPACE pycandle:: FILE "${built}/pycandleTargets.cmake")
