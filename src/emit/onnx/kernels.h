// In which dtypes ONNX Runtime's kernels for the processor compute. f16 is not asked for: it casts there and back itself.
#pragma once

#include <string>

#include "base/dtype.h"

namespace pycandle::emit::onnx {

// The dtype to compute in: this one, or a wider one that has a kernel and holds all its values.
DType kernel_dtype(const std::string& op, DType);
// How many inputs, from the first on, are such values; the others are sizes, axes and indices.
size_t values_among_inputs(const std::string& op, size_t inputs);

}  // namespace pycandle::emit::onnx
