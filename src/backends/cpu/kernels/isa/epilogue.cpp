#include "backends/cpu/kernels/isa/epilogue.h"

#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

template <class Activation> INLINE void finish_with(const Epilogue& e, const Piece& t, Activation activation) {
  const F scale = set(e.scale), p = set(e.p), q = set(e.q), zero = set(0);
  for (int64_t j = 0; j < t.cols; j += kLanes) {
    const int64_t here = smaller(kLanes, t.cols - j);
    const F bias = t.bias != nullptr ? load_n(t.bias + j, here) : zero;
    for (int64_t r = 0; r < t.rows; ++r) {
      float* to = t.c + r * t.c_row + j;
      F x = load_n(t.from + r * t.from_row + j, here) * scale;
      if (t.bias != nullptr) x = x + bias;
      if (t.row_bias != nullptr) x = x + set(t.row_bias[r]);
      if (t.residual != nullptr && e.residual_first) x = x + load_n(t.residual + r * e.residual_row + j, here);
      x = activation(x, p, q);
      if (t.multiplier != nullptr) x = x * load_n(t.multiplier + r * e.multiplier_row + j, here);
      if (t.residual != nullptr && !e.residual_first) x = load_n(t.residual + r * e.residual_row + j, here) + x;
      store_n(to, here, x);
    }
  }
}

#define INLINED_ACTIVATIONS(X) \
  X(identity) X(relu) X(gelu) X(gelu_tanh) X(silu) X(tanh) X(sigmoid) X(clamp) X(hardswish) X(quick_gelu)

static const Kernels* table;  // for the activations that are not inlined

void finish(const Epilogue& e, const Piece& t) {
  switch (e.activation) {
#define X(name) \
  case Unary::name: finish_with(e, t, [](F x, F p, F q) __attribute__((always_inline)) { return apply_##name(x, p, q); }); return;
    INLINED_ACTIVATIONS(X)
#undef X
    default: break;
  }
  // Before it, the activation, after it.
  Epilogue before = e, after;
  before.activation = Unary::identity;
  Piece first = t, last = t;
  first.multiplier = nullptr;
  last.bias = last.row_bias = nullptr;
  last.from = t.c;
  last.from_row = t.c_row;
  (e.residual_first ? last : first).residual = nullptr;
  after.residual_row = e.residual_row;
  after.multiplier_row = e.multiplier_row;
  finish(before, first);
  for (int64_t r = 0; r < t.rows; ++r)
    table->unary[static_cast<int>(e.activation)](t.c + r * t.c_row, t.c + r * t.c_row, t.cols, e.p, e.q);
  finish(after, last);
}

void fill_epilogue(Kernels& k) { table = &k; }

}  // namespace pycandle::cpu::PYCANDLE_ISA
