// A primitive by the evaluator of its op, as the reference does it: what a backend has no kernel for.
#pragma once

#include "backends/backend.h"

namespace pycandle {

struct Evaluator {
  const Bindings& bindings;
  uint64_t seed;
  uint64_t* random_ops;  // executed so far in this run; null where none can be

  // `operands` in the node's order; what stands for an absent one is not looked at.
  std::vector<Array> run(const Graph&, const Node&, const std::vector<Array>& operands);
  std::vector<Array> run_region(const Graph&, std::vector<Array> inputs);
};

// The array itself, or a copy when its memory is that of one of these.
Array own_memory(Array, const std::vector<Array>& others);

}  // namespace pycandle
