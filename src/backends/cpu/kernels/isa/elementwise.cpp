// Functions of vectors: one loop for each kind, over the functions of math.h.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

#define UNARY(name, ...)                                                                    \
  static void unary_##name(const float* x, float* out, int64_t n, float p, float q) {       \
    const F vp = set(p), vq = set(q);                                                       \
    int64_t i = 0;                                                                          \
    for (; i + kLanes <= n; i += kLanes) store(out + i, apply_##name(load(x + i), vp, vq)); \
    if (i < n) store_n(out + i, n - i, apply_##name(load_n(x + i, n - i), vp, vq));         \
  }
#include "backends/cpu/kernels/unary.inc"
#undef UNARY

// An operand of n numbers, or of one.
struct Operand {
  const float* p;
  int64_t step;
  F all;
  INLINE Operand of(const float* p, int64_t step, int64_t n) { return {p, step, set(n > 0 && step == 0 ? *p : 0)}; }
};
INLINE F at(const Operand& o, int64_t i) { return o.step == 0 ? o.all : load(o.p + i); }
INLINE F at_end(const Operand& o, int64_t i, int64_t n) { return o.step == 0 ? o.all : load_n(o.p + i, n); }

template <class Libm> INLINE F each_pair(F a, F b, Libm libm) {
  float all_a[kLanes], all_b[kLanes];
  store(all_a, a);
  store(all_b, b);
  for (int i = 0; i < kLanes; ++i) all_a[i] = libm(all_a[i], all_b[i]);
  return load(all_a);
}

#define BINARY(name, value)                                                                                            \
  static void binary_##name(const float* pa, int64_t a_step, const float* pb, int64_t b_step, float* out, int64_t n) { \
    const Operand oa = Operand::of(pa, a_step, n), ob = Operand::of(pb, b_step, n);                                    \
    int64_t i = 0;                                                                                                     \
    for (; i + kLanes <= n; i += kLanes) {                                                                             \
      const F a = at(oa, i), b = at(ob, i);                                                                            \
      store(out + i, value);                                                                                           \
    }                                                                                                                  \
    if (i < n) {                                                                                                       \
      const F a = at_end(oa, i, n - i), b = at_end(ob, i, n - i);                                                      \
      store_n(out + i, n - i, value);                                                                                  \
    }                                                                                                                  \
  }
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a* b)
BINARY(div, a / b)
BINARY(max, max_nan(a, b))
BINARY(min, min_nan(a, b))
BINARY(pow, each_pair(a, b, [](float x, float y) { return __builtin_powf(x, y); }))
BINARY(atan2, each_pair(a, b, [](float x, float y) { return __builtin_atan2f(x, y); }))
BINARY(fmod, each_pair(a, b, [](float x, float y) { return __builtin_fmodf(x, y); }))
#undef BINARY

#define COMPARE(name, value)                                                                                              \
  static void compare_##name(const float* pa, int64_t a_step, const float* pb, int64_t b_step, uint8_t* out, int64_t n) { \
    const Operand oa = Operand::of(pa, a_step, n), ob = Operand::of(pb, b_step, n);                                       \
    for (int64_t i = 0; i < n; i += kLanes) {                                                                             \
      const int64_t here = smaller(kLanes, n - i);                                                                        \
      const F a = at_end(oa, i, here), b = at_end(ob, i, here);                                                           \
      store_truths(out + i, here, value);                                                                                 \
    }                                                                                                                     \
  }
COMPARE(eq, eq(a, b))
COMPARE(ne, negate(eq(a, b)))
COMPARE(lt, lt(a, b))
COMPARE(le, le(a, b))
COMPARE(gt, lt(b, a))
COMPARE(ge, le(b, a))
#undef COMPARE

static void select_between(const uint8_t* c, int64_t c_step, const float* pa, int64_t a_step, const float* pb, int64_t b_step,
                           float* out, int64_t n) {
  const Operand oa = Operand::of(pa, a_step, n), ob = Operand::of(pb, b_step, n);
  if (n > 0 && c_step == 0) {
    const Operand& chosen = *c != 0 ? oa : ob;
    for (int64_t i = 0; i < n; i += kLanes) store_n(out + i, smaller(kLanes, n - i), at_end(chosen, i, smaller(kLanes, n - i)));
    return;
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t here = smaller(kLanes, n - i);
    store_n(out + i, here, select(truths(c + i, here), at_end(oa, i, here), at_end(ob, i, here)));
  }
}

static void mul_add(const float* pa, int64_t a_step, const float* pb, int64_t b_step, const float* pc, int64_t c_step, float* out,
                    int64_t n) {
  const Operand a = Operand::of(pa, a_step, n), b = Operand::of(pb, b_step, n), c = Operand::of(pc, c_step, n);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, at(a, i) * at(b, i) + at(c, i));
  if (i < n) store_n(out + i, n - i, at_end(a, i, n - i) * at_end(b, i, n - i) + at_end(c, i, n - i));
}

void fill_elementwise(Kernels& k) {
#define UNARY(name, ...) k.unary[static_cast<int>(Unary::name)] = unary_##name;
#include "backends/cpu/kernels/unary.inc"
#undef UNARY
#define X(name) k.binary[static_cast<int>(Binary::name)] = binary_##name;
  PYCANDLE_BINARY(X)
#undef X
#define X(name) k.compare[static_cast<int>(Compare::name)] = compare_##name;
  PYCANDLE_COMPARE(X)
#undef X
  k.select = select_between;
  k.mul_add = mul_add;
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
