// Where the numbers of a packed narrow weight lie. A weight b[k, n] is cut into panels of `panel` columns, one after the
// other; a panel is one straight stream that serves products with one row and with many:
//
//   bf16, f16   [k / 2][column][2] for bf16, [k][column] for f16, two bytes each
//   int8        [column] scales (f32), then [k / 2][column][2], one byte each
//   int4        for each 32 of k: [column] scales (bf16), then [4][column] words; word w holds k = 8w … 8w + 7:
//               bits 4i of its lower half are k = 8w + 2i, those of its upper half 8w + 2i + 1, plus 8 each
//
// Pairs lie together because the instructions that multiply 16-bit numbers add two neighbours. What is missing of k or of
// the columns is 0.
#pragma once

#include <cstdint>

#include "pycandle/weight_format.h"

// Static: a shared inline function compiled for AVX-512 could be the copy that the linker keeps.
#define PYCANDLE_NARROW [[gnu::always_inline, maybe_unused]] static inline

namespace pycandle::cpu {

constexpr int64_t kGroup4 = 32, kGroup16 = 128;  // kInt4Group and kInt16Group of base/weight_format.h

PYCANDLE_NARROW int64_t narrow_depth(WeightFormat f, int64_t k) {
  const int64_t multiple = f == WeightFormat::int4 ? kGroup4 : 2;
  return (k + multiple - 1) / multiple * multiple;
}
// Bytes before the numbers of a panel.
PYCANDLE_NARROW int64_t narrow_head(WeightFormat f, int64_t panel) { return f == WeightFormat::int8 ? panel * 4 : 0; }
// Bytes of k numbers of every column, k as of narrow_depth.
PYCANDLE_NARROW int64_t narrow_body(WeightFormat f, int64_t k, int64_t panel) {
  switch (f) {
    case WeightFormat::int8: return k * panel;
    case WeightFormat::int4: return k / kGroup4 * (panel * 2 + panel * 16);
    default: return k * panel * 2;
  }
}
PYCANDLE_NARROW int64_t narrow_panel_bytes(WeightFormat f, int64_t k, int64_t panel) {
  const int64_t bytes = narrow_head(f, panel) + narrow_body(f, narrow_depth(f, k), panel);
  return (bytes + 63) / 64 * 64;
}

}  // namespace pycandle::cpu
