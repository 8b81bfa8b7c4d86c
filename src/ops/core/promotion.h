// torch's type promotion and broadcasting: the one place for importer and front end.
#pragma once

#include <optional>
#include <string_view>
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

// add, sub, mul, div, … of two operands as torch computes it: promoted, broadcast, and for f16 and bf16 with torch's own
// choice of where a number is rounded: mul and div take their second operand unrounded (x * 0.1 is float(x) * 0.1f,
// rounded once), all others round the number to the tensor's dtype first. bool add and mul are or and and.
ValueId arithmetic(Builder&, std::string_view op, const Operand& a, const Operand& b, std::optional<DType> to = {});
// A number or dim as a 0-d tensor of that dtype; a tensor is cast.
ValueId materialise(Builder&, const Operand&, DType);
// torch.promote_types.
DType promote_types(DType, DType);

// Integers and bools become the default float type f32 (as torch does for division, sqrt, mean, …).
DType float_result(DType);

}  // namespace pycandle
