// f16 and bf16 as bit arithmetic without branches, so that loops over arrays vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace pycandle::detail {

inline float f16_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  // Moves the exponent field into place; the product re-biases it and normalises subnormals, exactly.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | (static_cast<uint32_t>(bits & 0x8000u) << 16));
}

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// A double rounded once, to nearest even, to a 16-bit float with this many exponent and fraction bits.
template <int kExponentBits, int kFractionBits> inline uint16_t double_to_16bit(double value) {
  static_assert(kExponentBits + kFractionBits == 15);
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr int kDropped = 52 - kFractionBits;
  constexpr uint64_t kInfinity = uint64_t{(1u << kExponentBits) - 1} << kFractionBits;
  constexpr uint64_t kSmallestNormal = static_cast<uint64_t>(1023 + 1 - kBias) << 52;
  constexpr double kSubnormalScale = std::bit_cast<double>(static_cast<uint64_t>(1023 + kBias - 1 + kFractionBits) << 52);

  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  const uint64_t sign = (bits >> 48) & 0x8000u;
  // Normal results: add just under half of what is dropped, plus the last kept bit (ties go to even).
  const uint64_t half = (uint64_t{1} << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1);
  uint64_t normal = ((magnitude + half) >> kDropped) - (static_cast<uint64_t>(1023 - kBias) << kFractionBits);
  normal = normal < kInfinity ? normal : kInfinity;
  // Subnormal results are multiples of the smallest one: adding 2^52 rounds the count to an integer.
  const double count = (std::bit_cast<double>(magnitude < kSmallestNormal ? magnitude : 0) * kSubnormalScale + 0x1p52);
  const uint64_t subnormal = std::bit_cast<uint64_t>(count) & 0xffffu;
  uint64_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude > 0x7ff0000000000000u ? kInfinity | (uint64_t{1} << (kFractionBits - 1)) : result;  // NaN
  return static_cast<uint16_t>(result | sign);
}

inline uint16_t double_to_f16(double value) { return double_to_16bit<5, 10>(value); }
inline uint16_t double_to_bf16(double value) { return double_to_16bit<8, 7>(value); }

}  // namespace pycandle::detail
