// What the machine can do at best: loops of nothing but fused multiply-adds, and of nothing but loads.
#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

static int64_t fma_loop(int64_t rounds, float* sink) {
  constexpr int kChains = 12;  // enough to hide the latency of each
  F sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = set(static_cast<float>(i));
  const F a = set(0.999f), b = set(0.001f);
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = fma(sum[i], a, b);
  F total = sum[0];
  for (int i = 1; i < kChains; ++i) total = total + sum[i];
  *sink = pycandle::cpu::PYCANDLE_ISA::sum(total);
  return rounds * kChains * kLanes * 2;
}

// In `streams` (1, 2 or 4) straight lines far apart: which is quickest depends on the memory.
static void read_loop(const float* x, int64_t n, int streams, float* sink) {
  F sum[8];
  for (F& s : sum) s = set(0);
  const int64_t length = n / streams, each = 8 / streams;
  for (int64_t i = 0; i + each * kLanes <= length; i += each * kLanes)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sum[j] = max2(sum[j], load(x + j / each * length + i + j % each * kLanes));
  F total = sum[0];
  for (int i = 1; i < 8; ++i) total = max2(total, sum[i]);
  *sink = max_of(total);
}

void fill_machine(Kernels& k) {
  k.fma_loop = fma_loop;
  k.read_loop = read_loop;
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
