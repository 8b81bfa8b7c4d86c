// Functions of a vector. Errors, in units of the last place of the result, over all floats (tests/cpp/test_cpu_functions.cpp
// holds them to it; the portable set, which has no fused multiply-add, is allowed one more):
//   exp exp2 2 · log log2 log10 3 · tanh 2 · erf 3 · sigmoid 4 · sin cos 2 below 8192 (libm beyond)
#pragma once

#include "backends/cpu/kernels/isa/vector.h"

namespace pycandle::cpu::PYCANDLE_ISA {

template <int n> INLINE F polynomial(F x, const float (&c)[n]) {
  F out = set(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) out = fma(out, x, set(c[i]));
  return out;
}

// One lane at a time.
template <class Function> INLINE F each(F x, Function function) {
  float all[kLanes];
  store(all, x);
  for (float& v : all) v = function(v);
  return load(all);
}

INLINE F reduced_by_ln2(F x, F n) { return fnma(n, set(-2.12194440e-4f), fnma(n, set(0.693359375f), x)); }  // x - n ln 2
// e^r - 1 for |r| <= ln 2 / 2
INLINE F expm1_reduced(F r) {
  constexpr float c[] = {0.4999999343f, 0.166665204f, 0.0416683908f, 0.0083687453f, 0.0013814538f};
  return fma(r * r, polynomial(r, c), r);
}

INLINE F vexp(F x) {
  x = min2(set(89), max2(set(-104), x));  // NaN stays
  const F n = round(x * set(1.44269504f));
  return scale_by_power(expm1_reduced(reduced_by_ln2(x, n)) + set(1), n);
}

INLINE F exp2_of_bounded(F x) {
  constexpr float c[] = {6.9314720644e-01f, 2.4022651336e-01f, 5.5503274098e-02f,
                         9.6180049083e-03f, 1.3400416719e-03f, 1.5476044666e-04f};
  const F n = round(x), r = x - n;
  return scale_by_power(fma(r, polynomial(r, c), set(1)), n);
}
INLINE F vexp2(F x) { return exp2_of_bounded(min2(set(129), max2(set(-150), x))); }
INLINE F exp2_down(F x) { return exp2_of_bounded(max2(set(-150), x)); }  // for x <= 0

// x = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt 2); the sum f - f²/2 + tail is log(1 + f).
struct LogParts {
  F f, e, half_square, tail;
};
INLINE LogParts log_parts(F x) {
  const M tiny = lt(x, set(1.17549435e-38f));
  const F y = select(tiny, x * set(8388608.0f), x);
  const I shifted = (I)((U)y - 0x3f3504f3u);  // sqrt(1/2); of a negative number anything
  const F e = to_float(shifted >> 23) - select(tiny, set(23), set(0));
  const F f = (F)((shifted & 0x007fffff) + 0x3f3504f3) - set(1);
  constexpr float c[] = {0.333333126f,   -0.250000096f, 0.2000211873f, -0.1666799567f, 0.1421955091f,
                         -0.1240559142f, 0.118881746f,  -0.116756413f, 0.0674660132f};
  const F square = f * f;
  return {f, e, square * set(0.5f), square * f * polynomial(f, c)};
}
INLINE F log_at_ends(F x, F y) {
  const F infinity = set(__builtin_inff());
  y = select(le(infinity, x), infinity, y);
  y = select(eq(x, set(0)), -infinity, y);
  return select(negate(le(set(0), x)), set(__builtin_nanf("")), y);
}
INLINE F vlog(F x) {
  const LogParts p = log_parts(x);
  const F low = fma(p.e, set(-2.12194440e-4f), p.tail) - p.half_square;
  return log_at_ends(x, fma(p.e, set(0.693359375f), p.f + low));
}
// log(x) * base, whole for powers of the base where base is log2(e)
INLINE F log_to_base(F x, float base, float two) {
  const LogParts p = log_parts(x);
  return log_at_ends(x, fma(p.e, set(two), (p.f - (p.half_square - p.tail)) * set(base)));
}

// (e^2a - 1) / (e^2a + 1) with e^2a - 1 = (e^r - 1) * 2^n + (2^n - 1); near 0 an odd polynomial, closer than a division gets.
INLINE F vtanh(F x) {
  const F a = absolute(x), square = a * a, twice = min2(set(20), a + a);
  const F n = round(twice * set(1.44269504f)), power = scale_by_power(set(1), n);
  const F less_one = fma(power, expm1_reduced(reduced_by_ln2(twice, n)), power - set(1));
  constexpr float c[] = {-0.333333313f, 0.133332014f, -0.0539462529f, 0.0216982104f, -0.00817178842f, 0.00213822629f};
  const F near_0 = fma(square * polynomial(square, c), a, a);
  return with_sign_of(select(lt(a, set(0.625f)), near_0, less_one / (less_one + set(2))), x);
}

INLINE F verf(F x) {
  const F a = min2(set(4), absolute(x));
  constexpr float c[] = {1.12837916591f,  -0.37612627136f,  0.11283600176f, -0.02685444459f,
                         0.005189535339f, -0.000802084128f, 7.88911952e-05f};
  constexpr float q[] = {-0.00018344414f, 1.12955683037f, 0.63326261221f,     0.10837247858f,
                         -0.02517896780f, 0.00419361109f, -0.00043910637406f, 2.14961137e-05f};
  const F small = x * polynomial(x * x, c);
  const F large = set(1) - vexp(-polynomial(a, q));
  return select(lt(a, set(1)), small, with_sign_of(large, x));
}

INLINE F vsigmoid(F x) {
  const F e = vexp(-absolute(x));
  return select(lt(x, set(0)), e, set(1)) / (set(1) + e);
}

// sin of x turned by `quarters` quarters of a circle.
INLINE F sin_turned(F x, int32_t quarters) {
  const F n = round(x * set(0.636619772f));
  F r = fnma(n, set(1.5703125f), x);
  r = fnma(n, set(4.837512969970703e-4f), r);
  r = fnma(n, set(7.549789415861596e-8f), r);
  r = fnma(n, set(5.390302858158e-15f), r);
  const I quadrant = to_int(n) + quarters;
  constexpr float s[] = {-1.6666666642e-01f, 8.3333293828e-03f, -1.9839333843e-04f, 2.7183019301e-06f};
  constexpr float c[] = {4.1666646851e-02f, -1.3887366711e-03f, 2.4438356172e-05f};
  const F square = r * r;
  const F sine = fma(r * square, polynomial(square, s), r);
  const F cosine = fma(square * square, polynomial(square, c), fnma(square, set(0.5f), set(1)));
  const F odd = to_float(quadrant & 1);
  const F y = select(eq(odd, set(0)), sine, cosine);
  return (F)((I)y ^ ((quadrant & 2) << 30));
}
// Lanes that are too large to be reduced by the sum of pi's parts are libm's.
template <class Libm> INLINE F sin_of_any(F x, int32_t quarters, Libm libm) {
  const M small = lt(absolute(x), set(8192));
  const F y = sin_turned(select(small, x, set(0)), quarters);
  return any(negate(small)) ? select(small, y, each(select(small, set(0), x), libm)) : y;
}
INLINE F vsin(F x) {
  return sin_of_any(x, 0, [](float v) { return __builtin_sinf(v); });
}
INLINE F vcos(F x) {
  return sin_of_any(x, 1, [](float v) { return __builtin_cosf(v); });
}

INLINE F clamped(F x, F low, F high) { return min2(high, max2(low, x)); }  // NaN stays
INLINE F vlog1p_exp(F x) {  // log(1 + e^x) without overflow
  const F e = vexp(-absolute(x));
  return max2(set(0), x) + each(e, [](float v) { return __builtin_log1pf(v); });
}

// The functions of unary.inc that are more than an expression.

// x * P(normal <= x), where P(normal <= -a) = 2^g(a), fitted up to 5.6; beyond, f32 knows 0 and 1 only.
INLINE F vgelu(F x) {
  constexpr float g[] = {-0.9999999783f,    -1.151105724f,     -0.4592049072f,   -0.05250502882f,  0.007075471939f,
                         -0.0001458702334f, -0.0001825475776f, 3.862074679e-05f, -2.772049617e-06f};
  const F a = absolute(x), limit = set(5.6f);
  const F below = select(lt(limit, a), set(0), exp2_of_bounded(polynomial(min2(limit, a), g)));
  return x * select(lt(x, set(0)), below, set(1) - below);
}
// (1 + tanh u) / 2 = 1 / (1 + e^-2u)
INLINE F vgelu_tanh(F x) {
  const F cubic = x * fma(x * x, set(-0.10294325f), set(-2.3022082f));  // -2 log2(e) sqrt(2 / pi) (x + 0.044715 x³)
  return x / (set(1) + vexp2(cubic));
}
INLINE F vpower(F x, F p) {
  float exponent[kLanes];
  store(exponent, p);
  return each(x, [e = exponent[0]](float v) { return __builtin_powf(v, e); });
}

// apply_relu(x, p, q) and so on.
#define LIBM(call) each(x, [](float v) { return call; })
#define UNARY(name, ...) \
  INLINE F apply_##name([[maybe_unused]] F x, [[maybe_unused]] F p, [[maybe_unused]] F q) { return __VA_ARGS__; }
#include "backends/cpu/kernels/unary.inc"
#undef UNARY
#undef LIBM

}  // namespace pycandle::cpu::PYCANDLE_ISA
