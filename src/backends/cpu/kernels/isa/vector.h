// The vector of one instruction set: the only place that knows intrinsics. Each kernel source is compiled once per
// instruction set with PYCANDLE_ISA set to its name; F holds kLanes floats, I as many int32, M as many truth values.
// F and I have the compiler's own operators (+ - * / & | << >>).
//
// Everything here is static: a shared inline function compiled for AVX-512 could be the copy that the linker keeps.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE [[gnu::always_inline]] static inline
#define ALWAYS __attribute__((always_inline))  // behind the arguments of a lambda

namespace pycandle::cpu::PYCANDLE_ISA {

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using F = __m512;
using I = int32_t __attribute__((vector_size(64)));
using M = __mmask16;

INLINE F set(float x) { return _mm512_set1_ps(x); }
INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
// For what comes straight from memory: loads of half a line were measured to leave its prefetchers more room.
INLINE F load_streamed(const float* p) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(p + 8), 1);
}
INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
INLINE M first(int64_t n) { return static_cast<M>((1u << n) - 1); }
INLINE F load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
INLINE void store_n(float* p, int64_t n, F x) { _mm512_mask_storeu_ps(p, first(n), x); }
INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
INLINE F sqrt(F x) { return _mm512_sqrt_ps(x); }
INLINE F round(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE F floor(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE F ceil(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
INLINE F trunc(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
INLINE F max2(F a, F b) { return _mm512_max_ps(a, b); }  // b when either is NaN
INLINE F min2(F a, F b) { return _mm512_min_ps(a, b); }
INLINE M lt(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
INLINE M le(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
INLINE M eq(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE M is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
INLINE M negate(M m) { return static_cast<M>(~m); }
INLINE bool any(M m) { return m != 0; }
INLINE F select(M m, F a, F b) { return _mm512_mask_blend_ps(m, b, a); }
INLINE I to_int(F x) { return (I)_mm512_cvtps_epi32(x); }  // rounds to nearest
INLINE F to_float(I x) { return _mm512_cvtepi32_ps((__m512i)x); }
INLINE F scale_by_power(F x, F n) { return _mm512_scalef_ps(x, n); }
INLINE float sum(F x) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
// The mask of kLanes bytes that are not 0; n of them are there.
INLINE M truths(const uint8_t* p, int64_t n) {
  const __m128i bytes = _mm_maskz_loadu_epi8(first(n), p);
  return _mm_test_epi8_mask(bytes, bytes);
}
INLINE void store_truths(uint8_t* p, int64_t n, M m) { _mm_mask_storeu_epi8(p, first(n), _mm_maskz_set1_epi8(m, 1)); }

#elif defined(__AVX2__)

constexpr int kLanes = 8;
using F = __m256;
using I = int32_t __attribute__((vector_size(32)));
using M = I;

INLINE F set(float x) { return _mm256_set1_ps(x); }
INLINE F load(const float* p) { return _mm256_loadu_ps(p); }
INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x); }
INLINE I first(int64_t n) {
  const int32_t count = static_cast<int32_t>(n);
  return I{0, 1, 2, 3, 4, 5, 6, 7} < count;
}
INLINE F load_n(const float* p, int64_t n) { return _mm256_maskload_ps(p, (__m256i)first(n)); }
INLINE void store_n(float* p, int64_t n, F x) { _mm256_maskstore_ps(p, (__m256i)first(n), x); }
INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
INLINE F sqrt(F x) { return _mm256_sqrt_ps(x); }
INLINE F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE F floor(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE F ceil(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
INLINE F trunc(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
INLINE F max2(F a, F b) { return _mm256_max_ps(a, b); }
INLINE F min2(F a, F b) { return _mm256_min_ps(a, b); }
INLINE I to_int(F x) { return (I)_mm256_cvtps_epi32(x); }
INLINE float sum(F x) {
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

#else  // portable: four lanes, which every machine's compiler can map to something

constexpr int kLanes = 4;
using F = float __attribute__((vector_size(16)));
using I = int32_t __attribute__((vector_size(16)));
using M = I;

INLINE F set(float x) { return F{x, x, x, x}; }
INLINE F load(const float* p) {
  F x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
INLINE void store(float* p, F x) { __builtin_memcpy(p, &x, sizeof x); }
INLINE F load_n(const float* p, int64_t n) {
  F x = set(0);
  for (int i = 0; i < kLanes; ++i)
    if (i < n) x[i] = p[i];
  return x;
}
INLINE void store_n(float* p, int64_t n, F x) {
  for (int i = 0; i < kLanes; ++i)
    if (i < n) p[i] = x[i];
}
INLINE F fma(F a, F b, F c) { return a * b + c; }
#define EACH(function)                                \
  F out;                                              \
  for (int i = 0; i < kLanes; ++i) out[i] = function; \
  return out
INLINE F sqrt(F x) { EACH(__builtin_sqrtf(x[i])); }
INLINE F floor(F x) { EACH(__builtin_floorf(x[i])); }
INLINE F ceil(F x) { EACH(__builtin_ceilf(x[i])); }
INLINE F trunc(F x) { EACH(__builtin_truncf(x[i])); }
INLINE F round(F x) {  // adding 1.5 * 2^23 leaves the nearest whole number, ties to even
  const F big = set(12582912.0f), near = (x + big) - big;
  const I sign = (I)x & INT32_MIN;
  const F small = (F)((I)near | sign);
  const M is_small = ((F)((I)x & INT32_MAX)) < set(4194304.0f);
  return is_small ? small : x;
}
#undef EACH
INLINE F max2(F a, F b) { return a > b ? a : b; }
INLINE F min2(F a, F b) { return a < b ? a : b; }
INLINE I to_int(F x) { return __builtin_convertvector(round(x), I); }
INLINE float sum(F x) { return (x[0] + x[2]) + (x[1] + x[3]); }

#endif

#if !defined(__AVX512F__)  // what the compiler's vectors say as well
INLINE F load_streamed(const float* p) { return load(p); }
INLINE M lt(F a, F b) { return a < b; }
INLINE M le(F a, F b) { return a <= b; }
INLINE M eq(F a, F b) { return a == b; }
INLINE M is_nan(F a) { return a != a; }
INLINE M negate(M m) { return ~m; }
INLINE bool any(M m) {
  int32_t all = 0;
  for (int i = 0; i < kLanes; ++i) all |= m[i];
  return all != 0;
}
INLINE F select(M m, F a, F b) { return m ? a : b; }
INLINE F to_float(I x) { return __builtin_convertvector(x, F); }
// x * 2^n in two steps, so that results below the smallest normal number are right (rounded twice at worst).
INLINE F scale_by_power(F x, F n) {
  const I whole = to_int(n), half = whole >> 1;
  return x * (F)((half + 127) << 23) * (F)((whole - half + 127) << 23);
}
INLINE M truths(const uint8_t* p, int64_t n) {
  M m = {};
  for (int i = 0; i < kLanes; ++i)
    if (i < n && p[i] != 0) m[i] = -1;
  return m;
}
INLINE void store_truths(uint8_t* p, int64_t n, M m) {
  for (int i = 0; i < kLanes; ++i)
    if (i < n) p[i] = m[i] != 0 ? 1 : 0;
}
#endif

using U = uint32_t __attribute__((vector_size(sizeof(I))));  // as I, where sums may wrap around

INLINE F absolute(F x) { return (F)((I)x & INT32_MAX); }
INLINE F with_sign_of(F magnitude, F sign) { return (F)((I)magnitude | ((I)sign & INT32_MIN)); }
INLINE F fnma(F a, F b, F c) { return fma(-a, b, c); }  // c - a * b
// NaN when either is.
INLINE F max_nan(F a, F b) { return select(is_nan(a), a, max2(a, b)); }
INLINE F min_nan(F a, F b) { return select(is_nan(a), a, min2(a, b)); }
INLINE float max_of(F x) {
  float all[kLanes];
  store(all, x);
  float out = all[0];
  for (int i = 1; i < kLanes; ++i) out = all[i] > out || all[i] != all[i] ? all[i] : out;
  return out;
}
INLINE float min_of(F x) {
  float all[kLanes];
  store(all, x);
  float out = all[0];
  for (int i = 1; i < kLanes; ++i) out = all[i] < out || all[i] != all[i] ? all[i] : out;
  return out;
}

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
INLINE int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

}  // namespace pycandle::cpu::PYCANDLE_ISA
