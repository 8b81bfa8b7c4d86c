// Passes rebuild a program node by node: the old graph is read in order, a new one is written, and every reference
// (outputs, taps, states) follows.
#pragma once

#include <functional>

#include "ir/builder.h"

namespace pycandle {

// What one node becomes: its results in the new graph, or nullopt to keep the node as it is.
// `operands` are the node's operands in the new graph (kNoValue stays).
using RewriteRule = std::function<std::optional<Values>(Builder& b, const Node& node, const Values& operands)>;

Program rewrite(const Program&, const OpTable&, const RewriteRule&);
// Removes nodes that no output, state, tap or (if asked) check needs.
Program without_dead_nodes(const Program&, const OpTable&);

}  // namespace pycandle
