// Rows of a cache that are kept in 16 bits.
#pragma once

#include <optional>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/planner.h"

namespace pycandle::cpu {

std::optional<WeightFormat> half_format(DType);
// Rows [batch, heads, keys, size] as f32: themselves, or a copy in which the first starts[b] + fresh of each sequence are filled
// in.
View widened_rows(Planner&, const View& rows, const View& starts, int64_t fresh);

}  // namespace pycandle::cpu
