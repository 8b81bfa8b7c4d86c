// Register tiles of products with narrow weights, which are widened on the way from memory to the multipliers. Compiled for
// avx512bf16 as well, whose instructions add pairs of products.
#include "backends/cpu/kernels/narrow_tiles.h"

#include "backends/cpu/kernels/isa/vector.h"
#include "backends/cpu/kernels/narrow_layout.h"

namespace pycandle::cpu::PYCANDLE_ISA {

NarrowTiles narrow_tiles();  // the only name that others see

#if defined(__AVX2__)

constexpr int kVectors = 2, kPanel = kVectors * kLanes;

#if defined(__AVX512F__)
constexpr int kRows = 14, kFewRows = 4;
using W = __m512i;
INLINE W load_words(const uint8_t* p) { return _mm512_loadu_si512(p); }
INLINE W pair(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
INLINE W no_words() { return _mm512_setzero_si512(); }
// 2 * kLanes bytes as numbers of 16 bits.
INLINE W widen_bytes(const uint8_t* p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
INLINE F widen_halves(const uint8_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
INLINE F widen_bf16(const uint8_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
INLINE W lowest(W x) { return _mm512_and_si512(x, _mm512_set1_epi32(0x000f000f)); }  // four bits of each half
INLINE W without_lowest(W x) { return _mm512_srli_epi32(x, 4); }
INLINE F upper_halves(W x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536))); }
INLINE F lower_halves(W x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
INLINE F floats(W x) { return _mm512_cvtepi32_ps(x); }
INLINE W less(W x, int32_t by) { return _mm512_sub_epi32(x, _mm512_set1_epi32(by)); }
INLINE W plus(W a, W b) { return _mm512_add_epi32(a, b); }
// sum + the two products of each lane
#if defined(__AVX512VNNI__)
INLINE W dot(W sum, W a, W b) { return _mm512_dpwssd_epi32(sum, a, b); }
#else
INLINE W dot(W sum, W a, W b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }
#endif
#else
constexpr int kRows = 6, kFewRows = 2;
using W = __m256i;
INLINE W load_words(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
INLINE W pair(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
INLINE W no_words() { return _mm256_setzero_si256(); }
INLINE W widen_bytes(const uint8_t* p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
INLINE F widen_halves(const uint8_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
INLINE F widen_bf16(const uint8_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
INLINE W lowest(W x) { return _mm256_and_si256(x, _mm256_set1_epi32(0x000f000f)); }
INLINE W without_lowest(W x) { return _mm256_srli_epi32(x, 4); }
INLINE F upper_halves(W x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-65536))); }
INLINE F lower_halves(W x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
INLINE F floats(W x) { return _mm256_cvtepi32_ps(x); }
INLINE W less(W x, int32_t by) { return _mm256_sub_epi32(x, _mm256_set1_epi32(by)); }
INLINE W plus(W a, W b) { return _mm256_add_epi32(a, b); }
INLINE W dot(W sum, W a, W b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
#endif

template <int rows> INLINE void store_sums(const NarrowTile& t, const F (&sum)[rows][kVectors]) {
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) store(t.sums + r * kPanel + v * kLanes, sum[r][v]);
}

// ---- 16-bit floats times f32

template <int rows, bool is_bf16> static void few_rows(const NarrowTile& t) {
  F even[rows][kVectors], odd[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) even[r][v] = odd[r][v] = set(0);
  const auto* a = static_cast<const float*>(t.a);
  const uint8_t* b = t.b;
  for (int64_t i = 0; i < t.k; i += 2, a += 2 * rows, b += kPanel * 4) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      F first, second;
      if constexpr (is_bf16) {
        const W words = load_words(b + v * kLanes * 4);
        first = lower_halves(words);
        second = upper_halves(words);
      } else {
        first = widen_halves(b + v * kLanes * 2);
        second = widen_halves(b + kPanel * 2 + v * kLanes * 2);
      }
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        even[r][v] = fma(first, set(a[r]), even[r][v]);
        odd[r][v] = fma(second, set(a[rows + r]), odd[r][v]);
      }
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) even[r][v] = even[r][v] + odd[r][v];
  store_sums<rows>(t, even);
}

// ---- pairs of bf16

#if defined(__AVX512BF16__)
template <int rows> static void bf16_pairs(const NarrowTile& t) {
  F sum[rows][kVectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = set(0);
  const auto* a = static_cast<const uint32_t*>(t.a);
  const uint8_t *b = t.b, *next = t.next != nullptr ? t.next : t.b;
  for (int64_t i = 0; i < t.k; i += 2, a += rows, b += kPanel * 4, next += t.step) {
    __builtin_prefetch(next, 0, 2);
    const W first = load_words(b), second = load_words(b + kLanes * 4);
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r) {
      const W x = pair(a[r]);
      sum[r][0] = _mm512_dpbf16_ps(sum[r][0], (__m512bh)x, (__m512bh)first);
      sum[r][1] = _mm512_dpbf16_ps(sum[r][1], (__m512bh)x, (__m512bh)second);
    }
  }
  store_sums<rows>(t, sum);
}
#endif

// ---- whole numbers: int16 activations, exact sums of a group of them, then their scale

// What a group adds up to. The loop over a group is a function of its own: inlined into the loop over groups, gcc 12 keeps
// these in memory.
template <int rows> struct Whole {
  W at[rows][kVectors];
  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at[r][v] = no_words();
  }
  [[gnu::always_inline]] void add(W first, W second, const uint32_t* a) {
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r) {
      const W x = pair(a[r]);
      at[r][0] = dot(at[r][0], first, x);
      at[r][1] = dot(at[r][1], second, x);
    }
  }
  [[gnu::always_inline]] void write(Whole& out) const {
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) out.at[r][v] = at[r][v];
  }
};

struct Next {
  const uint8_t* at;
  int64_t step;
};

template <int rows>
[[gnu::noinline]] static void add_bytes(const uint32_t* a, const uint8_t* b, int64_t pairs, Next next, Whole<rows>& out) {
  Whole<rows> even;
  even.clear();
  if constexpr (rows <= 2) {  // chains of sums that wait for each other: twice as many wait half as long
    Whole<rows> odd;
    odd.clear();
    for (; pairs > 1; pairs -= 2, a += 2 * rows, b += kPanel * 4) {
      even.add(widen_bytes(b), widen_bytes(b + kLanes * 2), a);
      odd.add(widen_bytes(b + kPanel * 2), widen_bytes(b + kPanel * 2 + kLanes * 2), a + rows);
    }
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v) even.at[r][v] = plus(even.at[r][v], odd.at[r][v]);
  }
  for (; pairs > 0; --pairs, a += rows, b += kPanel * 2, next.at += next.step) {
    __builtin_prefetch(next.at, 0, 2);
    even.add(widen_bytes(b), widen_bytes(b + kLanes * 2), a);
  }
  even.write(out);
}

template <int rows> static void int8_pairs(const NarrowTile& t) {
  for (int i = 0; i < rows * kVectors; ++i) store(t.sums + i * kLanes, set(0));
  const auto* a = static_cast<const uint32_t*>(t.a);
  const float* scales = t.a_scales;
  const uint8_t *b = t.b, *next = t.next != nullptr ? t.next : t.b;
  Whole<rows> whole;
  for (int64_t k0 = 0; k0 < t.k; k0 += kGroup16, scales += rows) {
    const int64_t pairs = smaller(kGroup16, t.k - k0) / 2;
    add_bytes<rows>(a, b, pairs, {next, t.step}, whole);
    a += pairs * rows;
    b += pairs * kPanel * 2;
    next += pairs * t.step;
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v) {
        float* sum = t.sums + r * kPanel + v * kLanes;
        store(sum, fma(floats(whole.at[r][v]), set(scales[r]), load(sum)));
      }
  }
  for (int v = 0; v < kVectors; ++v) {
    const F scale = load(reinterpret_cast<const float*>(t.scales) + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      float* sum = t.sums + r * kPanel + v * kLanes;
      store(sum, load(sum) * scale);
    }
  }
}

template <int rows>
[[gnu::noinline]] static void add_nibbles(const uint32_t* a, const uint8_t* words, Next next, Whole<rows>& out) {
  Whole<rows> whole;
  whole.clear();
  for (int w = 0; w < 4; ++w, words += kPanel * 4, next.at += 4 * next.step) {
    __builtin_prefetch(next.at, 0, 2);
    W first = load_words(words), second = load_words(words + kLanes * 4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i, a += rows) {
      whole.add(lowest(first), lowest(second), a);
      first = without_lowest(first);
      second = without_lowest(second);
    }
  }
  whole.write(out);
}

template <int rows> static void int4_groups(const NarrowTile& t) {
  for (int i = 0; i < rows * kVectors; ++i) store(t.sums + i * kLanes, set(0));
  const auto* a = static_cast<const uint32_t*>(t.a);
  const int32_t* a_sums = t.a_sums;
  const uint8_t *b = t.b, *next = t.next != nullptr ? t.next : t.b;
  Whole<rows> whole;
  for (int64_t k0 = 0; k0 < t.k; k0 += kGroup4, a_sums += rows) {
    add_nibbles<rows>(a, b + kPanel * 2, {next, t.step}, whole);
    const float* scales = t.a_scales + k0 / kGroup16 * rows;
    const F scale[kVectors] = {widen_bf16(b), widen_bf16(b + kLanes * 2)};
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v) {
        float* sum = t.sums + r * kPanel + v * kLanes;
        // The numbers are stored plus 8.
        store(sum, fma(floats(less(whole.at[r][v], 8 * a_sums[r])) * set(scales[r]), scale[v], load(sum)));
      }
    a += kGroup4 / 2 * rows;
    b += kPanel * 2 + kPanel * 16;
    next += kGroup4 / 2 * t.step;
  }
}

template <int rows> INLINE void add_rows(NarrowTiles& all) {
  if constexpr (rows <= kFewRows) {
    all.few_bf16[rows - 1] = few_rows<rows, true>;
    all.few_f16[rows - 1] = few_rows<rows, false>;
  }
#if defined(__AVX512BF16__)
  all.bf16[rows - 1] = bf16_pairs<rows>;
#endif
  all.int8[rows - 1] = int8_pairs<rows>;
  all.int4[rows - 1] = int4_groups<rows>;
  if constexpr (rows < kRows) add_rows<rows + 1>(all);
}

NarrowTiles narrow_tiles() {
  NarrowTiles all;
  add_rows<1>(all);
  return all;
}

#else

NarrowTiles narrow_tiles() { return {}; }

#endif

}  // namespace pycandle::cpu::PYCANDLE_ISA
