// Checks a program's invariants: definitions before uses, arities, attribute kinds, inferred types, symbols bound,
// outputs, states and taps that exist, regions that are closed. Throws internal with the node and the pass that made it.
#pragma once

#include <string_view>

#include "ir/op_def.h"

namespace pycandle {

void verify(const Program&, std::string_view after);  // after: "import", "canonicalise", ...

}  // namespace pycandle
