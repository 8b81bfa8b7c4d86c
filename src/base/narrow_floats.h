// Floats of 8 and 4 bits: what ONNX stores and nothing computes in. Decoded exactly; encoded with one rounding to nearest even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace pycandle::detail {

// What the codes with all exponent bits set mean.
enum class Specials : uint8_t {
  infinities,   // e5m2: infinities and NaN, as IEEE has them
  one_nan,      // e4m3fn: the largest code is NaN, no infinity
  negative_zero_is_nan,  // fnuz: the code of -0 is NaN, no infinity
  none          // e2m1: numbers only
};

template <int kExponentBits, int kFractionBits, int kBias, Specials kSpecials> struct NarrowFloat {
  static constexpr int kBits = 1 + kExponentBits + kFractionBits;
  static constexpr uint8_t kSign = 1u << (kBits - 1), kMagnitude = kSign - 1;
  static constexpr uint8_t kTop = ((1u << kExponentBits) - 1) << kFractionBits;
  static constexpr uint8_t kNan = kSpecials == Specials::negative_zero_is_nan ? kSign
                                  : kSpecials == Specials::infinities         ? kTop | 1u << (kFractionBits - 1)
                                                                              : kMagnitude;
  // The largest number.
  static constexpr uint8_t kLargest = kSpecials == Specials::infinities ? kTop - 1
                                      : kSpecials == Specials::one_nan  ? kMagnitude - 1
                                                                        : kMagnitude;

  static double decode(uint8_t code) {
    const uint8_t magnitude = code & kMagnitude;
    if (kSpecials == Specials::negative_zero_is_nan && code == kSign) return std::numeric_limits<double>::quiet_NaN();
    if (kSpecials == Specials::one_nan && magnitude == kMagnitude) return std::numeric_limits<double>::quiet_NaN();
    const double sign = (code & kSign) != 0 ? -1.0 : 1.0;
    if (kSpecials == Specials::infinities && magnitude >= kTop)
      return magnitude == kTop ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    const int exponent = magnitude >> kFractionBits, fraction = magnitude & ((1 << kFractionBits) - 1);
    const int implied = exponent > 0 ? 1 << kFractionBits : 0;
    return sign * std::ldexp(implied + fraction, (exponent > 0 ? exponent : 1) - kBias - kFractionBits);
  }

  // What is too large is infinity, or NaN where there is none, or the largest number where there is no NaN either.
  static uint8_t encode(double value) {
    if (std::isnan(value)) return kSpecials == Specials::none ? kSign : kNan;  // -0, as ml_dtypes has it
    const bool is_negative = std::signbit(value);
    const uint8_t sign = is_negative ? kSign : 0;
    const double size = std::abs(value);
    const int exponent = std::max(size > 0 && std::isfinite(size) ? std::ilogb(size) : 1 - kBias, 1 - kBias);
    const double steps = std::isfinite(size) ? std::nearbyint(std::ldexp(size, kFractionBits - exponent)) : size;
    const double rounded = std::ldexp(steps, exponent - kFractionBits);
    if (!(rounded <= decode(kLargest))) {
      if (kSpecials == Specials::none) return sign | kLargest;
      if (kSpecials == Specials::infinities) return sign | kTop;
      return kSpecials == Specials::one_nan ? sign | kNan : kNan;
    }
    if (rounded == 0) return kSpecials == Specials::negative_zero_is_nan ? 0 : sign;
    const int place = std::max(std::ilogb(rounded), 1 - kBias);
    const auto count = static_cast<int>(std::ldexp(rounded, kFractionBits - place));  // 2^kFractionBits and more: a normal number
    return static_cast<uint8_t>(sign | (((place + kBias - 1) << kFractionBits) + count));
  }
};

// An exponent alone: 2^(code - 127), 255 is NaN.
struct ExponentFloat {
  static double decode(uint8_t code) {
    return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
  }
  static uint8_t encode(double value) {
    if (!(value >= 0) || std::isinf(value)) return 255;
    if (value == 0) return 0;
    const double place = std::nearbyint(std::log2(value)) + 127;
    return static_cast<uint8_t>(place < 0 ? 0 : place > 254 ? 254 : place);
  }
};

using F8E4M3 = NarrowFloat<4, 3, 7, Specials::one_nan>;
using F8E4M3Fnuz = NarrowFloat<4, 3, 8, Specials::negative_zero_is_nan>;
using F8E5M2 = NarrowFloat<5, 2, 15, Specials::infinities>;
using F8E5M2Fnuz = NarrowFloat<5, 2, 16, Specials::negative_zero_is_nan>;
using F4E2M1 = NarrowFloat<2, 1, 1, Specials::none>;

// An integer of fewer bits than a byte, in a byte: it wraps.
template <int kBits, bool kSigned> inline int64_t wrapped_to_bits(int64_t value) {
  constexpr int64_t kCount = int64_t{1} << kBits;
  const int64_t low = value & (kCount - 1);
  return kSigned && low >= kCount / 2 ? low - kCount : low;
}

}  // namespace pycandle::detail
