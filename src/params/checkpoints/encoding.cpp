#include "params/checkpoints/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "base/half.h"

namespace pycandle {
namespace {

template <class From, class To> void widen(const std::byte* from, void* to) {
  From value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (sizeof(From) == 8) {
    if (value > static_cast<From>(std::numeric_limits<int64_t>::max()))
      throw std::overflow_error(fmt::format("holds {}, which is too large for a program's integers", value));
  }
  *static_cast<To*>(to) = static_cast<To>(value);
}

// Sign, exponent and fraction without infinities. In the kinds that end on "uz" there is no -0: its bits are the only NaN.
template <int kFraction, int kBias, bool kUnsignedZero> void small_float(const std::byte* from, void* to) {
  const auto bits = static_cast<uint32_t>(*from);
  const int exponent = static_cast<int>((bits & 0x7fU) >> kFraction);
  const auto fraction = static_cast<float>(bits & ((1U << kFraction) - 1));
  constexpr float kOne = 1 << kFraction;
  const float magnitude = exponent == 0 ? std::ldexp(fraction / kOne, 1 - kBias)
                                        : std::ldexp(1 + fraction / kOne, exponent - kBias);
  const bool is_nan = kUnsignedZero ? bits == 0x80U : (bits & 0x7fU) == 0x7fU;
  const float value = is_nan ? std::numeric_limits<float>::quiet_NaN() : magnitude;
  *static_cast<float*>(to) = (bits & 0x80U) != 0 ? -value : value;
}

// The upper byte of an f16.
void half_of_f16(const std::byte* from, void* to) {
  *static_cast<float*>(to) = detail::f16_to_float(static_cast<uint16_t>(static_cast<uint32_t>(*from) << 8));
}

void power_of_two(const std::byte* from, void* to) {
  const int bits = static_cast<int>(*from);
  *static_cast<float*>(to) = bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
}

// Of numbers of this many bytes, kCount of them in an element.
template <size_t kBytes, size_t kCount> void swap_bytes(const std::byte* from, void* to) {
  auto* out = static_cast<std::byte*>(to);
  for (size_t i = 0; i < kCount; ++i) std::reverse_copy(from + i * kBytes, from + (i + 1) * kBytes, out + i * kBytes);
}

// Of an element of kNumbers numbers: those from kFirst on with the other sign.
template <size_t kBytes, size_t kNumbers, size_t kFirst> void flip_signs(const std::byte* from, void* to) {
  auto* out = static_cast<std::byte*>(to);
  std::memcpy(out, from, kBytes * kNumbers);
  for (size_t i = kFirst; i < kNumbers; ++i) out[(i + 1) * kBytes - 1] ^= std::byte{0x80};
}

constexpr StoredEncoding kElements[] = {
    {"u16", 1, 2, DType::i32, widen<uint16_t, int32_t>},         {"u32", 1, 4, DType::i64, widen<uint32_t, int64_t>},
    {"u64", 1, 8, DType::i64, widen<uint64_t, int64_t>},         {"f8_e4m3fn", 1, 1, DType::f32, small_float<3, 7, false>},
    {"f8_e4m3fnuz", 1, 1, DType::f32, small_float<3, 8, true>},  {"f8_e5m2", 1, 1, DType::f32, half_of_f16},
    {"f8_e5m2fnuz", 1, 1, DType::f32, small_float<2, 16, true>}, {"f8_e8m0fnu", 1, 1, DType::f32, power_of_two},
};

constexpr StoredEncoding kSwapped[] = {
    {"big-endian f64", 1, 8, DType::f64, swap_bytes<8, 1>},    {"big-endian f32", 1, 4, DType::f32, swap_bytes<4, 1>},
    {"big-endian f16", 1, 2, DType::f16, swap_bytes<2, 1>},    {"big-endian bf16", 1, 2, DType::bf16, swap_bytes<2, 1>},
    {"big-endian i64", 1, 8, DType::i64, swap_bytes<8, 1>},    {"big-endian i32", 1, 4, DType::i32, swap_bytes<4, 1>},
    {"big-endian i16", 1, 2, DType::i16, swap_bytes<2, 1>},    {"big-endian c64", 1, 8, DType::c64, swap_bytes<4, 2>},
    {"big-endian c128", 1, 16, DType::c128, swap_bytes<8, 2>},
};

constexpr StoredEncoding kConjugated[] = {{"conjugated c64", 1, 8, DType::c64, flip_signs<4, 2, 1>},
                                          {"conjugated c128", 1, 16, DType::c128, flip_signs<8, 2, 1>}};
constexpr StoredEncoding kNegated[] = {
    {"negated f64", 1, 8, DType::f64, flip_signs<8, 1, 0>}, {"negated f32", 1, 4, DType::f32, flip_signs<4, 1, 0>},
    {"negated f16", 1, 2, DType::f16, flip_signs<2, 1, 0>}, {"negated bf16", 1, 2, DType::bf16, flip_signs<2, 1, 0>},
    {"negated c64", 1, 8, DType::c64, flip_signs<4, 2, 0>}, {"negated c128", 1, 16, DType::c128, flip_signs<8, 2, 0>},
};

const StoredEncoding* of_dtype(std::span<const StoredEncoding> among, DType dtype) {
  const auto at = std::find_if(among.begin(), among.end(), [&](const StoredEncoding& e) { return e.dtype == dtype; });
  return at == among.end() ? nullptr : &*at;
}

}  // namespace

const StoredEncoding* find_encoding(std::string_view name) {
  const auto* at = std::find_if(std::begin(kElements), std::end(kElements),
                                [&](const StoredEncoding& e) { return e.name == name; });
  return at == std::end(kElements) ? nullptr : at;
}

const StoredEncoding* swapped_encoding(DType dtype) { return of_dtype(kSwapped, dtype); }
const StoredEncoding* conjugated_encoding(DType dtype) { return of_dtype(kConjugated, dtype); }
const StoredEncoding* negated_encoding(DType dtype) { return of_dtype(kNegated, dtype); }

}  // namespace pycandle
