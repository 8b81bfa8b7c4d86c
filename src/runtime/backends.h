// The backends that this build has. Each is a target of its own, so the list stands here, above all of them.
#pragma once

#include "backends/backend.h"

namespace pycandle {

const Backend& find_backend(const std::string& name);  // a usage error lists the names
std::vector<std::string> backend_names();
// Where a person names none: PYCANDLE_BACKEND, or this one.
std::string usual_backend(const char* otherwise = "cpu");

}  // namespace pycandle
