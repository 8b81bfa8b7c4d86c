# Third-party libraries, all from the distribution's packages (scripts/setup.sh names them). Linked statically where
# the wheel needs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# Debian ships fmt as a shared library and as headers. Instantiating the headers once, here, links it statically and
# compiles faster than header-only mode.
add_library(pycandle_fmt STATIC "${CMAKE_CURRENT_LIST_DIR}/fmt_instantiations.cpp")

find_library(PYCANDLE_XXHASH_LIBRARY NAMES libxxhash.a xxhash REQUIRED)
add_library(pycandle_xxhash INTERFACE)
target_link_libraries(pycandle_xxhash INTERFACE "${PYCANDLE_XXHASH_LIBRARY}")
