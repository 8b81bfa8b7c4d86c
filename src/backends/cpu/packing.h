// Weights of products in the order in which gemm reads them: made once for the process, in huge pages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/planner.h"

namespace pycandle::cpu {

// The constant `weight` as gemm's packed b[k, n]: [k, n] itself, or [n, k] transposed. scales: every column times its
// number, here and below; they are part of the format's name.
View packed_right(Planner&, ValueId weight, int64_t k, int64_t n, bool is_transposed, const std::vector<double>& scales = {});

// The right side of a product with the constant `weight`, as above: packed, or, in a plan that does not pack, where it lies.
// Weights that are to stand side by side are then several products, each with its columns.
struct RightSide {
  int64_t column = 0, n = 0;
  View view;
  bool is_packed = false;
  int64_t b_row = 0, b_col = 1;  // when it is not
};
// With a scale for each column of b, or nothing in a plan that does not pack.
std::optional<View> scaled_right(Planner&, ValueId weight, int64_t k, int64_t n, const std::vector<double>& scales);
std::vector<RightSide> right_sides(Planner&, ValueId weight, int64_t k, int64_t n, bool is_transposed);

// The constant `weight` where it is one that is kept in fewer bytes along `axis`, or a half, packed for narrow_gemm and
// gather_narrow: products with any number of rows and lookups read the same bytes. Nothing when it is not.
struct NarrowWeight {
  View bytes;
  WeightFormat format = WeightFormat::f32;
  int64_t k = 0, n = 0;  // numbers of an output, and outputs
};
std::optional<NarrowWeight> narrow_weight(Planner&, ValueId weight, int64_t axis);

// The constant `weight`, `groups` matrices of [m, k], as gemm's packed a: one after the other.
struct PackedLeft {
  View all;
  int64_t group = 0;  // floats from one to the next
};
PackedLeft packed_left(Planner&, ValueId weight, int64_t groups, int64_t m, int64_t k, const std::vector<double>& scales);

// The constant `weight` as blocked_convolution reads it for this shape, and as blocked_depthwise does.
View packed_blocked(Planner&, ValueId weight, const BlockedConvolution& shape, const std::vector<double>& scales);
// And as winograd does, or nothing in a plan that does not pack: transforming takes longer than one run saves.
std::optional<View> packed_winograd(Planner&, ValueId weight, const Winograd& shape, const std::vector<double>& scales);
View packed_depthwise(Planner&, ValueId weight, const BlockedConvolution& shape, const std::vector<double>& scales);

}  // namespace pycandle::cpu
