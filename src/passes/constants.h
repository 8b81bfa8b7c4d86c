// Reading the numbers that stand in a graph.
#pragma once

#include <optional>
#include <string_view>

#include "ir/op_def.h"

namespace pycandle {

// The node that defines a value; nullptr for an input of the graph.
const Node* defining_node(const Graph&, ValueId);
// The same when it is a node of this op, else nullptr.
const Node* defined_by(const Graph&, ValueId, std::string_view op);
// Operands and attributes of a node by name.
Call call_of(const Graph&, const Node&);
// The value of a "constant", whatever its shape: all its elements are this number.
std::optional<Scalar> constant_value(const Graph&, ValueId);
// The size that a 0-d i64 tensor stands for: a "dim", or an integer constant.
std::optional<Dim> dim_value(const Graph&, ValueId);

}  // namespace pycandle
