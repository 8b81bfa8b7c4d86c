// Numbers as narrow formats keep them: what a weight is after it was packed. Kernels, the op stored_as and tests agree
// because they all ask here.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "pycandle/weight_format.h"

namespace pycandle {

std::string_view name_of(WeightFormat);
std::optional<WeightFormat> weight_format_from_name(std::string_view);
// For options; a usage error that lists the names.
WeightFormat parse_weight_format(std::string_view);

// A grid of whole numbers times one scale.
struct Grid {
  float scale = 0;  // 0: all are zero; NaN: one of them is not finite
  int least = 0, most = 0;
  int index_of(float x) const;  // the nearest point, ties to even; 0 when the scale is 0 or NaN
  float value_of(int index) const { return static_cast<float>(index) * scale; }
};
Grid int8_grid(const float* x, int64_t count);
Grid int4_grid(const float* x, int64_t count);   // its scale is a bf16 number
Grid int16_grid(const float* x, int64_t count);  // what kernels make of activations

constexpr int64_t kInt4Group = 32;    // inputs that share a scale
constexpr int64_t kInt16Group = 128;  // activations that share one

// x[0], x[1], … as they come back from a format: "bf16", "f16", "int8", "int4", or "int16" for activations.
using RoundTrip = void (*)(const float* x, int64_t count, float* out);
RoundTrip round_trip(std::string_view format);  // null when there is no such format

}  // namespace pycandle
