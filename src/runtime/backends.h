// The backends that there are. Each of this build is a target of its own, so their list stands here, above all of them; others
// are libraries of their own (runtime/plugins.h).
#pragma once

#include "backends/backend.h"

namespace pycandle {

// One that this program has and the library leaves out; before any thread asks for one.
void add_backend(const Backend&);
// One of this build, the path of a library (./libmine.so), the name of one in a folder of PYCANDLE_BACKEND_PATH, or of one that
// ships with PyCandle. A usage error lists the names.
const Backend& find_backend(const std::string& name);
std::vector<std::string> backend_names();       // of this build
std::vector<std::string> all_backend_names();   // and of the libraries that can be loaded
// Where a person names none: PYCANDLE_BACKEND, or this one.
std::string usual_backend(const char* otherwise = "cpu");

}  // namespace pycandle
