// Weights of eight bits (--weights int8): the pass narrow-weights rounded each output of a matrix to whole numbers times a scale,
// and the file keeps those. Products widen a block of them at a time, lookups a row.
#pragma once

#include <optional>

#include "backends/c/generator.h"

namespace pycandle::c {

// Does the program have such weights? Then matrices are looked at, and kept in bytes where that loses nothing.
bool has_int8_weights(const Graph&);

// A matrix of weights, by the steps in memory between outputs and between inputs.
struct WeightMatrix {
  View view;
  int64_t outputs = 0, inputs = 0, output_stride = 0, input_stride = 0;
};

// In panels of 16 outputs, as products of f32 have them; nothing when the matrix is not what int8 gives.
std::optional<Int8Weight> int8_weight(Generator&, const WeightMatrix&);

// The rows of a matrix that the indices name, from its panels.
void take_int8(Site&, const Int8Weight&);

}  // namespace pycandle::c
