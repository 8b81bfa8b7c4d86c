// GGUF's quantised blocks as f32, each as the `gguf` package dequantises it, bit for bit.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "params/checkpoints/encoding.h"

namespace pycandle {
namespace {

#include "params/checkpoints/gguf_grids.inc"

uint32_t u8(const std::byte* at) { return static_cast<uint32_t>(*at); }
uint32_t u16(const std::byte* at) { return u8(at) | u8(at + 1) << 8; }
uint32_t u32(const std::byte* at) { return u16(at) | u16(at + 2) << 16; }
float f16(const std::byte* at) { return detail::f16_to_float(static_cast<uint16_t>(u16(at))); }
float number(int64_t n) { return static_cast<float>(n); }
int64_t nibble(const std::byte* qs, int i, int half) { return (u8(qs + i) >> (4 * half)) & 15; }
uint32_t bit(const std::byte* bits, int i) { return (u8(bits + i / 8) >> (i % 8)) & 1; }

// ---- blocks of 32: a scale, perhaps a minimum, and 4 or 5 bits an element

template <bool kHasMinimum, int kOffset, bool kHasFifth> void simple_block(const std::byte* b, void* to) {
  auto* y = static_cast<float*>(to);
  const float d = f16(b);
  b += 2;
  const float m = kHasMinimum ? f16(b) : 0.0f;
  b += kHasMinimum ? 2 : 0;
  const std::byte* high = b;
  b += kHasFifth ? 4 : 0;
  for (int i = 0; i < 32; ++i) {
    int64_t q = nibble(b, i % 16, i / 16);
    if constexpr (kHasFifth) q |= static_cast<int64_t>(bit(high, i)) << 4;
    if constexpr (kHasMinimum) {
      y[i] = d * number(q) + m;
    } else {
      y[i] = d * number(q - kOffset);
    }
  }
}

void q8_0(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 32; ++i) static_cast<float*>(to)[i] = d * number(static_cast<int8_t>(b[2 + i]));
}

constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // doubled

void iq4_nl(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 32; ++i) static_cast<float*>(to)[i] = d * number(kIq4[nibble(b + 2, i % 16, i / 16)]);
}

void mxfp4(const std::byte* b, void* to) {
  const uint32_t e = u8(b);  // half of 2^(e - 127)
  const auto d = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);
  for (int i = 0; i < 32; ++i) static_cast<float*>(to)[i] = d * number(kFp4[nibble(b + 1, i % 16, i / 16)]);
}

void nvfp4(const std::byte* b, void* to) {
  for (int part = 0; part < 4; ++part) {
    const uint32_t x = u8(b + part);
    const int exponent = static_cast<int>((x >> 3) & 15);
    const auto fraction = static_cast<float>(x & 7);
    const float raw = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1 + fraction / 8, exponent - 7);
    const float d = x == 0 || x == 0x7f ? 0.0f : raw * 0.5f;
    for (int i = 0; i < 16; ++i)
      static_cast<float*>(to)[part * 16 + i] = d * number(kFp4[nibble(b + 4 + part * 8, i % 8, i / 8)]);
  }
}

// ---- blocks of 256 with scales of their own for each 16 or 32

void q2_k(const std::byte* b, void* to) {
  const std::byte *scales = b, *qs = b + 16;
  const float d = f16(b + 80), minimum = f16(b + 82);
  for (int i = 0; i < 256; ++i) {
    const float dl = d * number(u8(scales + i / 16) & 15), ml = minimum * number(u8(scales + i / 16) >> 4);
    static_cast<float*>(to)[i] = dl * number((u8(qs + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3) - ml;
  }
}

void q3_k(const std::byte* b, void* to) {
  const std::byte *mask = b, *qs = b + 32, *scales = b + 96;
  const float d = f16(b + 108);
  for (int i = 0; i < 256; ++i) {
    const int s = i / 16;
    const uint32_t low = (u8(scales + s % 8) >> (s / 8 * 4)) & 15, high = (u8(scales + 8 + s % 4) >> (s / 4 * 2)) & 3;
    const float dl = d * number(static_cast<int64_t>(low | high << 4) - 32);
    const int64_t q = (u8(qs + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
    const bool is_full = ((u8(mask + i % 32) >> (i / 32)) & 1) != 0;
    static_cast<float*>(to)[i] = dl * number(q - (is_full ? 0 : 4));
  }
}

struct ScaleAndMinimum {
  uint32_t scale, minimum;
};

// Eight of each, six bits wide, in twelve bytes.
ScaleAndMinimum packed_scale(const std::byte* s, int i) {
  if (i < 4) return {u8(s + i) & 63, u8(s + 4 + i) & 63};
  const uint32_t both = u8(s + 4 + i);
  return {(both & 15) | ((u8(s + i - 4) >> 2) & 0x30), (both >> 4) | ((u8(s + i) >> 2) & 0x30)};
}

template <bool kHasFifth> void q4_or_q5_k(const std::byte* b, void* to) {
  const float d = f16(b), minimum = f16(b + 2);
  const std::byte *scales = b + 4, *high = b + 16, *qs = kHasFifth ? b + 48 : b + 16;
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32;
    const auto [s, m] = packed_scale(scales, part);
    int64_t q = nibble(qs, i / 64 * 32 + i % 32, part % 2);
    if constexpr (kHasFifth) q |= static_cast<int64_t>((u8(high + i % 32) >> part) & 1) << 4;
    static_cast<float*>(to)[i] = d * number(s) * number(q) - minimum * number(m);
  }
}

void q6_k(const std::byte* b, void* to) {
  const std::byte *low = b, *high = b + 128, *scales = b + 192;
  const float d = f16(b + 208);
  for (int i = 0; i < 256; ++i) {
    const int64_t l = nibble(low, i / 128 * 64 + i % 64, i / 64 % 2);
    const int64_t h = (u8(high + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3;
    static_cast<float*>(to)[i] = d * number(static_cast<int8_t>(scales[i / 16])) * number((l | h << 4) - 32);
  }
}

void iq4_xs(const std::byte* b, void* to) {
  const float d = f16(b);
  const uint32_t high = u16(b + 2);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32;
    const int64_t scale = nibble(b + 4, part / 2, part % 2) | ((high >> (2 * part)) & 3) << 4;
    static_cast<float*>(to)[i] = d * number(scale - 32) * number(kIq4[nibble(b + 8, part * 16 + i % 16, i / 16 % 2)]);
  }
}

// ---- ternary

void tq1_0(const std::byte* b, void* to) {
  auto* y = static_cast<float*>(to);
  const float d = f16(b + 52);
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  const auto digits = [&](const std::byte* from, int bytes, int count) {
    for (int n = 0; n < count; ++n) {
      for (int i = 0; i < bytes; ++i) {
        const auto q = static_cast<uint8_t>(u8(from + i) * kPowers[n]);
        *y++ = d * number(static_cast<int64_t>((q * 3U) >> 8) - 1);
      }
    }
  };
  digits(b, 32, 5);
  digits(b + 32, 16, 5);
  digits(b + 48, 4, 4);
}

void tq2_0(const std::byte* b, void* to) {
  const float d = f16(b + 64);
  for (int i = 0; i < 256; ++i)
    static_cast<float*>(to)[i] = d * number(static_cast<int64_t>((u8(b + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2)) & 3) - 1);
}

// ---- groups of elements looked up in a grid

// Seven signs are stored, the eighth makes their number even.
float sign_of(uint32_t seven, int i) {
  const uint32_t all = seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7;
  return ((all >> i) & 1) != 0 ? -1.0f : 1.0f;
}

float sign_bit(const std::byte* signs, int i) { return bit(signs, i) != 0 ? -1.0f : 1.0f; }

void iq2_xxs(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const std::byte* group = b + 2 + i / 32 * 8;
    const uint32_t rest = u32(group + 4);
    const float db = d * (0.5f + number(rest >> 28)) * 0.25f;
    const int k = i / 8 % 4;
    static_cast<float*>(to)[i] = db * number(kGridIq2Xxs[u8(group + k)][i % 8]) * sign_of((rest >> (7 * k)) & 127, i % 8);
  }
}

void iq2_xs(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const float db = d * (0.5f + number(nibble(b + 66, i / 32, i / 16 % 2))) * 0.25f;
    const uint32_t q = u16(b + 2 + i / 8 * 2);
    static_cast<float*>(to)[i] = db * number(kGridIq2Xs[q & 511][i % 8]) * sign_of(q >> 9, i % 8);
  }
}

void iq2_s(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const float db = d * (0.5f + number(nibble(b + 74, i / 32, i / 16 % 2))) * 0.25f;
    const uint32_t q = u8(b + 2 + i / 8) | ((u8(b + 66 + i / 32) >> (i / 8 % 4 * 2)) & 3) << 8;
    static_cast<float*>(to)[i] = db * number(kGridIq2S[q][i % 8]) * sign_bit(b + 34, i);
  }
}

void iq3_xxs(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const uint32_t rest = u32(b + 66 + i / 32 * 4);
    const float db = d * (0.5f + number(rest >> 28)) * 0.5f;
    static_cast<float*>(to)[i] = db * number(kGridIq3Xxs[u8(b + 2 + i / 4)][i % 4]) *
                                 sign_of((rest >> (i / 8 % 4 * 7)) & 127, i % 8);
  }
}

void iq3_s(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const float db = d * number(1 + 2 * nibble(b + 106, i / 64, i / 32 % 2));
    const uint32_t q = u8(b + 2 + i / 4) | bit(b + 66, i / 4) << 8;
    static_cast<float*>(to)[i] = db * number(kGridIq3S[q][i % 4]) * sign_bit(b + 74, i);
  }
}

constexpr float kDelta = 0.125f;

void iq1_s(const std::byte* b, void* to) {
  const float d = f16(b);
  for (int i = 0; i < 256; ++i) {
    const uint32_t high = u16(b + 34 + i / 32 * 2);
    const float dl = d * number(2 * ((high >> 12) & 7) + 1), delta = (high & 0x8000U) != 0 ? -kDelta : kDelta;
    const uint32_t q = u8(b + 2 + i / 8) | ((high >> (i / 8 % 4 * 3)) & 7) << 8;
    static_cast<float*>(to)[i] = dl * (number(kGridIq1S[q][i % 8]) + delta);
  }
}

void iq1_m(const std::byte* b, void* to) {
  const std::byte* scales = b + 48;
  uint32_t d_bits = 0;  // four bits in each of the four words
  for (int i = 0; i < 4; ++i) d_bits |= (u16(scales + 2 * i) >> 12) << (4 * i);
  const float d = detail::f16_to_float(static_cast<uint16_t>(d_bits));
  for (int i = 0; i < 256; ++i) {
    const float dl = d * number(2 * ((u16(scales + i / 64 * 2) >> (i / 16 % 4 * 3)) & 7) + 1);
    const auto high = static_cast<uint32_t>(nibble(b + 32, i / 16, i / 8 % 2));
    const float delta = (high & 8) != 0 ? -kDelta : kDelta;
    static_cast<float*>(to)[i] = dl * (number(kGridIq1S[u8(b + i / 8) | (high & 7) << 8][i % 8]) + delta);
  }
}

constexpr GgufType as_it_is(uint32_t number_in_file, DType dtype) { return {number_in_file, dtype, {}}; }
constexpr GgufType packed(uint32_t number_in_file, std::string_view name, int64_t block, size_t bytes,
                          void (*decode)(const std::byte*, void*)) {
  return {number_in_file, std::nullopt, {name, block, bytes, DType::f32, decode}};
}

constexpr GgufType kTypes[] = {
    as_it_is(0, DType::f32),
    as_it_is(1, DType::f16),
    packed(2, "q4_0", 32, 18, simple_block<false, 8, false>),
    packed(3, "q4_1", 32, 20, simple_block<true, 0, false>),
    packed(6, "q5_0", 32, 22, simple_block<false, 16, true>),
    packed(7, "q5_1", 32, 24, simple_block<true, 0, true>),
    packed(8, "q8_0", 32, 34, q8_0),
    packed(10, "q2_k", 256, 84, q2_k),
    packed(11, "q3_k", 256, 110, q3_k),
    packed(12, "q4_k", 256, 144, q4_or_q5_k<false>),
    packed(13, "q5_k", 256, 176, q4_or_q5_k<true>),
    packed(14, "q6_k", 256, 210, q6_k),
    packed(16, "iq2_xxs", 256, 66, iq2_xxs),
    packed(17, "iq2_xs", 256, 74, iq2_xs),
    packed(18, "iq3_xxs", 256, 98, iq3_xxs),
    packed(19, "iq1_s", 256, 50, iq1_s),
    packed(20, "iq4_nl", 32, 18, iq4_nl),
    packed(21, "iq3_s", 256, 110, iq3_s),
    packed(22, "iq2_s", 256, 82, iq2_s),
    packed(23, "iq4_xs", 256, 136, iq4_xs),
    as_it_is(24, DType::i8),
    as_it_is(25, DType::i16),
    as_it_is(26, DType::i32),
    as_it_is(27, DType::i64),
    as_it_is(28, DType::f64),
    packed(29, "iq1_m", 256, 56, iq1_m),
    as_it_is(30, DType::bf16),
    packed(34, "tq1_0", 256, 54, tq1_0),
    packed(35, "tq2_0", 256, 66, tq2_0),
    packed(39, "mxfp4", 32, 17, mxfp4),
    packed(40, "nvfp4", 64, 36, nvfp4),
};

}  // namespace

const GgufType* find_gguf_type(uint32_t number_in_file) {
  for (const GgufType& type : kTypes) {
    if (type.number == number_in_file) return &type;
  }
  return nullptr;
}

}  // namespace pycandle
