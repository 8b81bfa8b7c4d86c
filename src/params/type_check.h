// Values that come from outside against the type that the program gives them.
#pragma once

#include <string>

#include "base/array.h"
#include "ir/graph.h"

namespace pycandle {

// The type has no symbols. Another one is bad_input; `what` and `where` name the value in it: "state count", "memory".
void check_type(const Array&, const std::string& what, const Type&, const std::string& where);

}  // namespace pycandle
