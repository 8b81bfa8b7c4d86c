// A backend that we did not write: what it gives is looked at before others use it, and what goes wrong in it is said to be its
// own.
#pragma once

#include <string>

#include "backends/backend.h"

namespace pycandle {

// Around the backend that `make` gives, for good. `library` names it in errors. An exception that is no Error is an internal one
// of the library; results of another number, dtype or shape than the program says are bad_input. bad_input also when its name is
// empty or that of a backend of ours.
const Backend& guarded_backend(const std::string& library, const Backend& (*make)());

}  // namespace pycandle
