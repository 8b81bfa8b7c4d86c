#include "base/weight_format.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/half.h"

namespace pycandle {
namespace {

struct Format {
  std::string_view name;
  WeightFormat format;
};
constexpr std::array kFormats = {Format{"f32", WeightFormat::f32}, Format{"bf16", WeightFormat::bf16},
                                 Format{"f16", WeightFormat::f16}, Format{"int8", WeightFormat::int8},
                                 Format{"int4", WeightFormat::int4}};

// The number that is furthest from 0, with its sign; NaN when one is not finite.
float extreme(const float* x, int64_t count) {
  float found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    if (std::fabs(x[i]) > std::fabs(found)) found = x[i];
  }
  return found;
}

// Numbers so small that the scale would lose its digits become 0.
float usable(float scale) { return std::fabs(scale) < FLT_MIN ? 0 : scale; }

template <Grid (*grid_of)(const float*, int64_t), int64_t group> void through_grids(const float* x, int64_t count, float* out) {
  for (int64_t begin = 0; begin < count; begin += group) {
    const int64_t end = std::min(count, begin + group);
    const Grid grid = grid_of(x + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) out[i] = grid.value_of(grid.index_of(x[i]));
  }
}

template <uint16_t (*narrow)(double), float (*wide)(uint16_t)> void through_halves(const float* x, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = wide(narrow(static_cast<double>(x[i])));
}

constexpr int64_t kAll = std::numeric_limits<int64_t>::max() / 2;

}  // namespace

std::string_view name_of(WeightFormat format) { return kFormats[static_cast<size_t>(format)].name; }

std::optional<WeightFormat> weight_format_from_name(std::string_view name) {
  for (const Format& f : kFormats)
    if (f.name == name) return f.format;
  return std::nullopt;
}

WeightFormat parse_weight_format(std::string_view name) {
  if (const auto format = weight_format_from_name(name)) return *format;
  throw Error(ErrorCode::usage, "this is not a format of weights")
      .expected("one of f32, bf16, f16, int8, int4")
      .found(std::string(name));
}

int Grid::index_of(float x) const {
  if (scale == 0 || std::isnan(scale)) return 0;
  return std::clamp(static_cast<int>(std::nearbyint(x / scale)), least, most);
}

Grid int8_grid(const float* x, int64_t count) { return {usable(std::fabs(extreme(x, count)) / 127), -127, 127}; }
Grid int16_grid(const float* x, int64_t count) { return {usable(std::fabs(extreme(x, count)) / 32767), -32767, 32767}; }
// The grid has one more point on the side of the extreme.
Grid int4_grid(const float* x, int64_t count) {
  const float scale = extreme(x, count) / -8;
  return {usable(detail::bf16_to_float(detail::double_to_bf16(static_cast<double>(scale)))), -8, 7};
}

RoundTrip round_trip(std::string_view format) {
  if (format == "bf16") return through_halves<detail::double_to_bf16, detail::bf16_to_float>;
  if (format == "f16") return through_halves<detail::double_to_f16, detail::f16_to_float>;
  if (format == "int8") return through_grids<int8_grid, kAll>;
  if (format == "int4") return through_grids<int4_grid, kInt4Group>;
  if (format == "int16") return through_grids<int16_grid, kInt16Group>;
  return nullptr;
}

}  // namespace pycandle
