// Matrices in fewer bytes, as files keep them, output by output: the scales of int8 (f32, one an output) or int4 (bf16, one a
// group), zeros up to a multiple of 64 bytes, then the numbers (int4: two a byte, the first one low; an output begins at a byte).
// bf16, f16: the numbers alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/weight_format.h"

namespace pycandle {

uint64_t bytes_in(WeightFormat, uint64_t outputs, uint64_t inputs);

// Where a matrix in memory has element (output, input).
struct MatrixPlace {
  int64_t outputs = 0, inputs = 0;
  int64_t output_stride = 0, input_stride = 1;
  // Of a matrix whose inputs lie along this axis.
  static MatrixPlace of(int64_t rows, int64_t columns, int64_t axis) {
    return axis == 1 ? MatrixPlace{rows, columns, columns, 1} : MatrixPlace{columns, rows, 1, columns};
  }
};
// Numbers that come back from such bytes are kept as they are when they are stored again.
void to_bytes(WeightFormat, const float* x, const MatrixPlace&, std::byte* out);
void from_bytes(WeightFormat, const std::byte* bytes, const MatrixPlace&, float* out);

}  // namespace pycandle
