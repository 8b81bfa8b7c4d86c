// Reading the numbers that stand in a graph.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace pycandle {

// The node that defines a value; nullptr for an input of the graph.
const Node* defining_node(const Graph&, ValueId);
// The value of a "constant", whatever its shape: all its elements are this number.
std::optional<Scalar> constant_value(const Graph&, ValueId);
// The size that a 0-d i64 tensor stands for: a "dim", or an integer constant.
std::optional<Dim> dim_value(const Graph&, ValueId);

}  // namespace pycandle
