// Weights of products in the order in which gemm reads them: made once for the process, in huge pages.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/planner.h"

namespace pycandle::cpu {

// The constant `weight` as gemm's packed b[k, n]: [k, n] itself, or [n, k] transposed. scales: every column times its
// number, here and below; they are part of the format's name.
View packed_right(Planner&, ValueId weight, int64_t k, int64_t n, bool is_transposed, const std::vector<double>& scales = {});

// The constant `weight`, `groups` matrices of [m, k], as gemm's packed a: one after the other.
struct PackedLeft {
  View all;
  int64_t group = 0;  // floats from one to the next
};
PackedLeft packed_left(Planner&, ValueId weight, int64_t groups, int64_t m, int64_t k, const std::vector<double>& scales);

}  // namespace pycandle::cpu
