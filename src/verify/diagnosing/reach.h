// Which nodes of a slice can have made it wrong.
#pragma once

#include <vector>

#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

// Does what the node gives have a part in every element that is wrong? It is changed, and what follows is looked at.
bool reaches_error(const Slice&, const Trials&, const std::vector<Array>& inputs, const Array& golden, const Node&);

}  // namespace pycandle
