// Fusion: which nodes may run as one loop over their elements, so that what lies between them is never stored.
//
//   %2 = mul(%0, %1)                             group 1: mul, relu     reads %0 %1, gives %3
//   %3 = relu(%2)                       →
//   %4 = dot_general(%3, %w)                     group 2: dot_general   reads %3 %w, gives %4
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace pycandle {

struct LoopGroup {
  std::vector<NodeId> nodes;  // in the program's order: one node of any kind, or several that share a loop
  Values inputs;              // read from outside, each once, by first use
  Values outputs;             // wanted outside: by other groups, as outputs and states of the program, by taps
};

enum class Taps { kept, swallowed };

// The groups in an order in which they can run. `joins` says which nodes may share a loop: those with one result, of which an
// element depends on nothing but the elements of the operands at the same place, where an operand has the result's shape; an
// operand of another shape (of a broadcast) is read from outside. Taps::swallowed: a tap alone does not make a value wanted.
std::vector<LoopGroup> fused_groups(const Program&, const std::function<bool(const Node&)>& joins, Taps = Taps::swallowed);

}  // namespace pycandle
