// What a program costs at given sizes: arithmetic, parameters, memory.
#pragma once

#include "ir/op_def.h"

namespace pycandle {

struct Cost {
  double flops = 0;                    // a multiply-add is two
  int64_t parameter_elements = 0;      // tied tensors once
  int64_t parameter_bytes = 0;
  int64_t peak_activation_bytes = 0;   // when each value is freed after its last use
  std::vector<double> node_flops;      // per node of the program form, in order
};

// Functionals are counted by their decomposition; data-bound sizes count as their example.
Cost program_cost(const Program&, const OpTable&, const Bindings& sizes);
// The sizes of the recorded input.
Bindings example_sizes(const Program&);

}  // namespace pycandle
