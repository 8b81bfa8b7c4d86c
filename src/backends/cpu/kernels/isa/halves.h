// Numbers of 16 bits: bf16 and f16 from and to f32, rounded to nearest even.
#pragma once

#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// n of them.
void widen(WeightFormat format, const uint16_t* x, int64_t n, float* out);
void narrow(WeightFormat format, const float* x, int64_t n, uint16_t* out);

INLINE float from_bits(uint32_t bits) {
  float out;
  __builtin_memcpy(&out, &bits, 4);
  return out;
}

INLINE uint32_t bits_of(float x) {
  uint32_t out;
  __builtin_memcpy(&out, &x, 4);
  return out;
}

INLINE float bf16_value(uint16_t bits) { return from_bits(static_cast<uint32_t>(bits) << 16); }

INLINE float half_value(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t out = bits_of(from_bits(magnitude << 13) * 0x1p112f);
  return from_bits(out | (magnitude >= 0x7c00u ? 0x7f800000u : 0u) | (static_cast<uint32_t>(bits & 0x8000u) << 16));
}

INLINE uint16_t bf16_bits(float x) {
  const uint32_t bits = bits_of(x), rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, nan = bits >> 16 | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

INLINE uint16_t half_bits(float x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Below the smallest normal half: a sum with 0.5 has the steps of denormal halves.
  const uint32_t tiny = bits_of(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? tiny : normal;
  const uint32_t out = magnitude > 0x7f800000u    ? 0x7e00u
                       : magnitude >= 0x477ff000u ? 0x7c00u
                                                  : finite;  // 65520 rounds to infinity
  return static_cast<uint16_t>(sign | out);
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
