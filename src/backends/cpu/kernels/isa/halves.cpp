#include "backends/cpu/kernels/isa/halves.h"

namespace pycandle::cpu::PYCANDLE_ISA {

void widen(WeightFormat format, const uint16_t* x, int64_t n, float* out) {
  if (format == WeightFormat::bf16) {
    for (int64_t i = 0; i < n; ++i) out[i] = bf16_value(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = half_value(x[i]);
  }
}

void narrow(WeightFormat format, const float* x, int64_t n, uint16_t* out) {
  if (format == WeightFormat::bf16) {
    for (int64_t i = 0; i < n; ++i) out[i] = bf16_bits(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = half_bits(x[i]);
  }
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
