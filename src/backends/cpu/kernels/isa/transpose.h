// A square of kLanes vectors, turned in registers: at each stage, rows whose numbers differ in one bit swap the lanes
// whose numbers differ in that bit.
#pragma once

#include "backends/cpu/kernels/isa/vector.h"

namespace pycandle::cpu::PYCANDLE_ISA {

template <int... j> struct LaneList {};
#if defined(__AVX512F__)
using AllLanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
#elif defined(__AVX2__)
using AllLanes = LaneList<0, 1, 2, 3, 4, 5, 6, 7>;
#else
using AllLanes = LaneList<0, 1, 2, 3>;
#endif

template <int d, int... j> INLINE void swap_lanes(F& a, F& b, LaneList<j...>) {
  const F low = __builtin_shufflevector(a, b, ((j & d) == 0 ? j : j - d + kLanes)...);
  const F high = __builtin_shufflevector(a, b, ((j & d) == 0 ? j + d : j + kLanes)...);
  a = low;
  b = high;
}

// Lanes 0, 2, 4, ... of a and b in a row.
template <int... j> INLINE F even_lanes(F a, F b, LaneList<j...>) { return __builtin_shufflevector(a, b, (2 * j)...); }

template <int d> INLINE void swap_stage(F (&rows)[kLanes]) {
  for (int i = 0; i < kLanes; ++i)
    if ((i & d) == 0) swap_lanes<d>(rows[i], rows[i + d], AllLanes{});
}

INLINE void transpose_square(F (&rows)[kLanes]) {
  swap_stage<1>(rows);
  swap_stage<2>(rows);
  if constexpr (kLanes > 4) swap_stage<4>(rows);
  if constexpr (kLanes > 8) swap_stage<8>(rows);
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
