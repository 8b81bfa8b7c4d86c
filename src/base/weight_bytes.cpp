#include "base/weight_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/half.h"

namespace pycandle {
namespace {

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
constexpr uint64_t groups_of(uint64_t inputs) { return (inputs + kInt4Group - 1) / kInt4Group; }

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// The grid of x, and of the numbers that it makes of x: a scale whose last bit would move once more is moved here, so that what
// is packed again stays as it is.
Grid stable_int8_grid(std::vector<float>& x) {
  const auto count = static_cast<int64_t>(x.size());
  Grid grid = int8_grid(x.data(), count);
  for (int round = 0; round < 4; ++round) {
    for (float& v : x) v = grid.value_of(grid.index_of(v));
    const Grid again = int8_grid(x.data(), count);
    if (same(again.scale, grid.scale)) break;
    grid = again;
  }
  return grid;
}

void int4_row(const std::vector<float>& x, uint16_t* scales, uint8_t* numbers) {
  const auto count = static_cast<int64_t>(x.size());
  std::memset(numbers, 0, (x.size() + 1) / 2);
  for (int64_t begin = 0; begin < count; begin += kInt4Group) {
    const int64_t size = std::min(kInt4Group, count - begin);
    const Grid grid = int4_grid(x.data() + begin, size);
    scales[begin / kInt4Group] = detail::double_to_bf16(static_cast<double>(grid.scale));
    for (int64_t i = begin; i < begin + size; ++i)
      numbers[i / 2] = static_cast<uint8_t>(
          numbers[i / 2] | (static_cast<unsigned>(grid.index_of(x[static_cast<size_t>(i)]) & 15) << (i % 2 * 4)));
  }
}

}  // namespace

uint64_t bytes_in(WeightFormat format, uint64_t outputs, uint64_t inputs) {
  switch (format) {
    case WeightFormat::f32: return outputs * inputs * 4;
    case WeightFormat::bf16:
    case WeightFormat::f16: return outputs * inputs * 2;
    case WeightFormat::int8: return aligned(outputs * 4) + outputs * inputs;
    case WeightFormat::int4: return aligned(outputs * groups_of(inputs) * 2) + outputs * ((inputs + 1) / 2);
  }
  internal_error("a format of weights has no size");
}

void to_bytes(WeightFormat format, const float* x, const MatrixPlace& place, std::byte* out) {
  const auto [outputs, inputs, output_stride, input_stride] = place;
  std::vector<float> row(static_cast<size_t>(inputs));
  const uint64_t groups = groups_of(static_cast<uint64_t>(inputs)), half = (static_cast<uint64_t>(inputs) + 1) / 2;
  auto* halves = reinterpret_cast<uint16_t*>(out);
  const auto n = static_cast<uint64_t>(outputs), k = static_cast<uint64_t>(inputs);
  std::byte* numbers = out + (bytes_in(format, n, k) - (format == WeightFormat::int4 ? n * half : n * k));
  if (format == WeightFormat::int8 || format == WeightFormat::int4) std::memset(out, 0, static_cast<size_t>(numbers - out));
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) row[static_cast<size_t>(i)] = x[o * output_stride + i * input_stride];
    switch (format) {
      case WeightFormat::f32: std::memcpy(out + static_cast<uint64_t>(o) * k * 4, row.data(), k * 4); break;
      case WeightFormat::bf16:
        for (const float v : row) *halves++ = detail::double_to_bf16(static_cast<double>(v));
        break;
      case WeightFormat::f16:
        for (const float v : row) *halves++ = detail::double_to_f16(static_cast<double>(v));
        break;
      case WeightFormat::int8: {
        const Grid grid = stable_int8_grid(row);
        std::memcpy(out + o * 4, &grid.scale, 4);
        for (const float v : row) *numbers++ = static_cast<std::byte>(static_cast<int8_t>(grid.index_of(v)));
        break;
      }
      case WeightFormat::int4:
        int4_row(row, halves + static_cast<uint64_t>(o) * groups,
                 reinterpret_cast<uint8_t*>(numbers) + static_cast<uint64_t>(o) * half);
        break;
    }
  }
}

void from_bytes(WeightFormat format, const std::byte* bytes, const MatrixPlace& place, float* out) {
  const auto [outputs, inputs, output_stride, input_stride] = place;
  const auto n = static_cast<uint64_t>(outputs), k = static_cast<uint64_t>(inputs);
  const uint64_t groups = groups_of(k), half = (k + 1) / 2;
  const auto* halves = reinterpret_cast<const uint16_t*>(bytes);
  const std::byte* numbers = bytes + (bytes_in(format, n, k) - (format == WeightFormat::int4 ? n * half : n * k));
  for (int64_t o = 0; o < outputs; ++o) {
    float* to = out + o * output_stride;
    switch (format) {
      case WeightFormat::f32:
        for (int64_t i = 0; i < inputs; ++i) std::memcpy(to + i * input_stride, bytes + (o * inputs + i) * 4, 4);
        break;
      case WeightFormat::bf16:
        for (int64_t i = 0; i < inputs; ++i) to[i * input_stride] = detail::bf16_to_float(halves[o * inputs + i]);
        break;
      case WeightFormat::f16:
        for (int64_t i = 0; i < inputs; ++i) to[i * input_stride] = detail::f16_to_float(halves[o * inputs + i]);
        break;
      case WeightFormat::int8: {
        float scale;
        std::memcpy(&scale, bytes + o * 4, 4);
        const auto* row = reinterpret_cast<const int8_t*>(numbers) + o * inputs;
        for (int64_t i = 0; i < inputs; ++i) to[i * input_stride] = static_cast<float>(row[i]) * scale;
        break;
      }
      case WeightFormat::int4: {
        const auto* row = reinterpret_cast<const uint8_t*>(numbers) + static_cast<uint64_t>(o) * half;
        for (int64_t i = 0; i < inputs; ++i) {
          const int number = ((row[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;  // with its sign
          const float scale = detail::bf16_to_float(
              halves[static_cast<uint64_t>(o) * groups + static_cast<uint64_t>(i / kInt4Group)]);
          to[i * input_stride] = static_cast<float>(number) * scale;
        }
        break;
      }
    }
  }
}

}  // namespace pycandle
