// The part of a program between one value and the goldens nearest before it, as a small program of its own.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

struct Slice {
  // One output; inputs are the values below, parameters stay parameters. A slice has no tables of calls and files: all that
  // is known of a node's origin is `sliced_from`, its number in the original program, also in a slice of a slice.
  Program program;
  Values inputs;             // in the original program, in the order of program.inputs
  std::string last_op;       // the op that gives the value, in program form
  Origin origin;             // its place, in the original program
  bool has_random_op = false;
};

bool draws_numbers(const Node&);  // a random op, or a branch with one in it

// Reshapes, casts and the like: people ask what was computed, not how it lies in memory.
bool only_moves(const Node&);

// What people call it: the id of a tap, the name of an input or of a state; else "".
std::string name_of_value(const Program&, ValueId);

// Work for a slice is in proportion to the slice, not to the program.
class Slicer {
 public:
  // is_known: values that a slice begins with (per value of the graph); inputs and states of the program are too.
  Slicer(const Program&, PerValue<bool> is_known);
  // Values that no node computes have no slice: ask only for results of nodes.
  Slice slice(ValueId);

 private:
  struct Mark {
    int32_t slice = -1;      // the slice for which `value` holds
    ValueId value = kNoValue;
  };
  std::vector<NodeId> nodes_of(ValueId);

  const Program& program_;
  PerValue<bool> is_known_;
  PerValue<int32_t> parameter_of_;  // per value, or -1
  PerNode<int32_t> node_mark_;      // per node: the last slice it was in
  PerValue<Mark> in_slice_;         // per value of the program: its value in the slice
  int32_t count_ = 0;
};

}  // namespace pycandle
