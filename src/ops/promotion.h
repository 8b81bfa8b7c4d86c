// torch's type promotion and broadcasting: the one place for importer and front end.
#pragma once

#include <variant>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

// A tensor, a Python number, or a symbolic size used as a number.
using Operand = std::variant<ValueId, Scalar, Dim>;

// torch.result_type over any number of operands: dimensioned tensors before 0-d tensors before numbers.
DType result_type(const Builder&, const std::vector<Operand>&);

// All operands cast to the common dtype (or `to`, when given) and broadcast to the common shape.
Values promote_and_broadcast(Builder&, const std::vector<Operand>&, std::optional<DType> to = {});
// Casts only: numbers and dims become 0-d tensors.
Values promote(Builder&, const std::vector<Operand>&, std::optional<DType> to = {});

// Integers and bools become the default float type f32 (as torch does for division, sqrt, mean, …).
DType float_result(DType);

}  // namespace pycandle
