// What both kernels of attention share.
#pragma once

#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr float kLog2E = 1.44269504f;  // scores are kept times this: powers of two are cheaper than those of e

// A mask times log2(e). Models mask with the lowest float: it must not become -inf, which would mean another thing.
INLINE F in_powers_of_two(F mask) {
  const F limit = set(__FLT_MAX__);
  return select(le(absolute(mask), limit), min2(limit, max2(-limit, mask * set(kLog2E))), mask);
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
