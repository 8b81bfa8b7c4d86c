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
