// Passes rebuild a program node by node: the old graph is read in order, a new one is written, and every reference
// (outputs, taps, states, module calls) follows.
#pragma once

#include <functional>
#include <optional>

#include "ir/builder.h"

namespace pycandle {

// What one node becomes: its results in the new graph, or nullopt to keep the node as it is. The results must have the
// types of the old ones; dims that are equal only at run time are reconciled, with a run-time check.
// `operands` are the node's operands in the new graph (kNoValue stays). New nodes get the old node's origin.
using RewriteRule = std::function<std::optional<Values>(Builder& b, const Node& node, const Values& operands)>;

// Every node of the program and of its regions, in order. Takes the program over: move it in when it is not needed
// afterwards, and nothing but the changed nodes is built anew.
Program rewrite(Program, const OpTable&, const RewriteRule&);
// The same for the nodes of the program's own graph alone: its regions stay as they are, so a rule may know values of
// the old graph by their numbers.
Program rewrite_outside_regions(Program, const OpTable&, const RewriteRule&);
// The same for the nodes inside regions alone.
Program rewrite_inside_regions(Program, const OpTable&, const RewriteRule&);
// How often each value of the program's graph is looked at: by nodes, outputs, states, taps and module calls.
PerValue<int32_t> use_counts(const Program&);
// Removes nodes that no output, state or tap needs, in regions too.
Program without_dead_nodes(Program);

}  // namespace pycandle
