// Weights in narrow formats, as narrow_layout.h has them.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/narrow_layout.h"
#include "base/half.h"
#include "base/weight_format.h"

namespace pycandle::cpu {
namespace {

static_assert(kGroup4 == kInt4Group && kGroup16 == kInt16Group);

// One column of a panel: `x` has k numbers, `out` is the panel.
void pack_halves(const PackNarrow& g, const float* x, int64_t column, uint8_t* out) {
  for (int64_t i = 0; i < g.k; ++i) {
    const bool is_bf16 = g.format == WeightFormat::bf16;
    const uint16_t bits = is_bf16 ? detail::double_to_bf16(static_cast<double>(x[i]))
                                  : detail::double_to_f16(static_cast<double>(x[i]));
    const int64_t at = is_bf16 ? (i / 2 * g.panel + column) * 2 + i % 2 : i * g.panel + column;
    std::memcpy(out + at * 2, &bits, 2);
  }
}

void pack_int8(const PackNarrow& g, const float* x, int64_t column, uint8_t* out) {
  const Grid grid = int8_grid(x, g.k);
  std::memcpy(out + column * 4, &grid.scale, 4);
  uint8_t* numbers = out + narrow_head(g.format, g.panel);
  for (int64_t i = 0; i < g.k; ++i)
    numbers[(i / 2 * g.panel + column) * 2 + i % 2] = static_cast<uint8_t>(static_cast<int8_t>(grid.index_of(x[i])));
}

void pack_int4(const PackNarrow& g, const float* x, int64_t column, uint8_t* out) {
  for (int64_t begin = 0; begin < g.k; begin += kInt4Group) {
    const int64_t count = std::min(kInt4Group, g.k - begin);
    const Grid grid = int4_grid(x + begin, count);
    uint8_t* group = out + narrow_body(g.format, begin, g.panel);
    const auto scale = static_cast<uint16_t>(std::bit_cast<uint32_t>(grid.scale) >> 16);
    std::memcpy(group + column * 2, &scale, 2);
    for (int64_t w = 0; w < 4; ++w) {
      uint32_t word = 0;
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t at = w * 8 + i;
        const int index = at < count ? grid.index_of(x[begin + at]) : 0;
        word |= static_cast<uint32_t>(index + 8) << (i / 2 * 4 + i % 2 * 16);
      }
      std::memcpy(group + g.panel * 2 + (w * g.panel + column) * 4, &word, 4);
    }
  }
}

}  // namespace

int64_t narrow_panels(const PackNarrow& g) { return (g.n + g.panel - 1) / g.panel; }
int64_t narrow_size(const PackNarrow& g) { return narrow_panels(g) * narrow_panel_bytes(g.format, g.k, g.panel); }

void pack_narrow(const PackNarrow& g, int64_t begin, int64_t end) {
  const auto pack = g.format == WeightFormat::int8 ? pack_int8 : g.format == WeightFormat::int4 ? pack_int4 : pack_halves;
  const int64_t bytes = narrow_panel_bytes(g.format, g.k, g.panel);
  std::vector<float> columns(static_cast<size_t>(g.k * g.panel));
  for (int64_t p = begin; p < end; ++p) {
    uint8_t* out = g.out + p * bytes;
    std::memset(out, 0, static_cast<size_t>(bytes));
    const int64_t first = p * g.panel, count = std::min<int64_t>(g.panel, g.n - first);
    // Row by row: the memory is read in the order in which it lies, whichever that is.
    for (int64_t i = 0; g.b_row != 1 && i < g.k; ++i)
      for (int64_t c = 0; c < count; ++c) columns[c * g.k + i] = g.b[i * g.b_row + (first + c) * g.b_col];
    for (int64_t c = 0; c < count; ++c) pack(g, g.b_row == 1 ? g.b + (first + c) * g.b_col : columns.data() + c * g.k, c, out);
  }
}

}  // namespace pycandle::cpu
