// Kernels that walk rows: reductions, softmax, normalisation.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// Folds n numbers into one vector, four at a time (to keep the adders busy), missing lanes `none`.
template <class Join> INLINE F fold(const float* x, int64_t n, float none, Join join) {
  F sum[4] = {set(none), set(none), set(none), set(none)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int u = 0; u < 4; ++u) sum[u] = join(sum[u], load(x + i + u * kLanes));
  for (; i + kLanes <= n; i += kLanes) sum[0] = join(sum[0], load(x + i));
  if (i < n) {
    float rest[kLanes];
    store(rest, set(none));
    for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
    sum[1] = join(sum[1], load(rest));
  }
  return join(join(sum[0], sum[1]), join(sum[2], sum[3]));
}

INLINE float row_sum(const float* x, int64_t n) {
  return sum(fold(x, n, 0, [](F a, F b) ALWAYS { return a + b; }));
}
INLINE float row_max(const float* x, int64_t n) {
  return max_of(fold(x, n, -__builtin_inff(), [](F a, F b) ALWAYS { return max_nan(a, b); }));
}

// sum of f(x), vectors at a time; the missing lanes of the last vector are taken out again by `valid`.
template <class Function> INLINE float sum_of(const float* x, int64_t n, Function f) {
  F total[4] = {set(0), set(0), set(0), set(0)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int u = 0; u < 4; ++u) total[u] = total[u] + f(load(x + i + u * kLanes));
  for (; i + kLanes <= n; i += kLanes) total[0] = total[0] + f(load(x + i));
  if (i < n) {
    float rest[kLanes];
    store(rest, f(load_n(x + i, n - i)));
    for (int64_t j = n - i; j < kLanes; ++j) rest[j] = 0;
    total[1] = total[1] + load(rest);
  }
  return sum((total[0] + total[1]) + (total[2] + total[3]));
}

template <class Function> INLINE void map_row(const float* x, float* out, int64_t n, Function f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, f(load(x + i), i, kLanes));
  if (i < n) store_n(out + i, n - i, f(load_n(x + i, n - i), i, n - i));
}

// ---- reductions

// Columns that lie side by side are taken in groups of so many: whole lines, and sums enough to keep the adders busy.
constexpr int kSide = 4;
constexpr int64_t kGroup = kSide * kLanes;
static int64_t groups(int64_t inner) { return inner == 1 ? 1 : divide_up(inner, kGroup); }

// f(v, n) for each vector of a group of `width` columns: n of its lanes are there.
template <class Function> INLINE void each_vector(int64_t width, Function f) {
#pragma GCC unroll 4
  for (int v = 0; v < kSide; ++v)
    if (width > v * kLanes) f(v, smaller(kLanes, width - v * kLanes));
}

template <class Join> INLINE void reduce_columns(const Reduce& g, int64_t begin, int64_t end, float none, Join join) {
  const F divisor = set(g.kind == Reduction::mean ? static_cast<float>(g.count) : 1);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t o = unit / groups(g.inner), j = unit % groups(g.inner) * kGroup, width = smaller(kGroup, g.inner - j);
    const float* x = g.x + o * g.count * g.inner + j;
    F total[kSide];
    for (F& t : total) t = set(none);
    for (int64_t r = 0; r < g.count; ++r, x += g.inner)
      each_vector(width, [&](int v, int64_t n) ALWAYS { total[v] = join(total[v], load_n(x + v * kLanes, n)); });
    float* out = g.out + o * g.inner + j;
    each_vector(width, [&](int v, int64_t n) ALWAYS { store_n(out + v * kLanes, n, total[v] / divisor); });
  }
}

template <class Join, class Last>
INLINE void reduce_rows(const Reduce& g, int64_t begin, int64_t end, float none, Join join, Last last) {
  if (g.inner != 1) return reduce_columns(g, begin, end, none, join);
  for (int64_t o = begin; o < end; ++o) g.out[o] = last(fold(g.x + o * g.count, g.count, none, join));
}

static void reduce(const Reduce& g, int64_t begin, int64_t end, float*) {
  const auto add = [](F a, F b) ALWAYS { return a + b; };
  const auto sum_lanes = [](F x) ALWAYS { return sum(x); };
  switch (g.kind) {
    case Reduction::sum: reduce_rows(g, begin, end, 0, add, sum_lanes); break;
    case Reduction::mean:
      reduce_rows(g, begin, end, 0, add, sum_lanes);
      if (g.inner == 1)
        for (int64_t i = begin; i < end; ++i) g.out[i] = g.out[i] / static_cast<float>(g.count);
      break;
    case Reduction::max:
      reduce_rows(
          g, begin, end, -__builtin_inff(), [](F a, F b) ALWAYS { return max_nan(a, b); }, [](F x) ALWAYS { return max_of(x); });
      break;
    case Reduction::min:
      reduce_rows(
          g, begin, end, __builtin_inff(), [](F a, F b) ALWAYS { return min_nan(a, b); }, [](F x) ALWAYS { return min_of(x); });
      break;
    case Reduction::product:
      reduce_rows(
          g, begin, end, 1, [](F a, F b) ALWAYS { return a * b; },
          [](F x) ALWAYS {
            float all[kLanes], out = 1;
            store(all, x);
            for (float v : all) out *= v;
            return out;
          });
      break;
    case Reduction::sum_of_squares:
      reduce_rows(g, begin, end, 0, [](F a, F b) ALWAYS { return fma(b, b, a); }, sum_lanes);
      if (g.inner == 1)
        for (int64_t o = begin; o < end; ++o) g.out[o] = sum_of(g.x + o * g.count, g.count, [](F x) ALWAYS { return x * x; });
      break;
    case Reduction::count: break;
  }
}

static void arg_max(const ArgMax& g, int64_t begin, int64_t end, float*) {
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.x + r * g.x_row;
    const float best = g.smallest ? min_of(fold(x, g.cols, __builtin_inff(), [](F a, F b) ALWAYS { return min_nan(a, b); }))
                                  : row_max(x, g.cols);
    int64_t i = 0;
    if (best != best) {
      while (i < g.cols && x[i] == x[i]) ++i;
    } else {
      const F wanted = set(best);
      while (i + kLanes <= g.cols && !any(eq(load(x + i), wanted))) i += kLanes;
      while (i < g.cols && x[i] != best) ++i;
    }
    g.out[r] = i;
  }
}

// ---- softmax

// A group of softmaxes that lie side by side: each in a lane.
static void softmax_columns(const Softmax& g, const float* x, float* out, int64_t width) {
  const F scale = set(g.scale);
  F top[kSide], total[kSide];
  for (F& t : top) t = set(-__builtin_inff());
  for (F& t : total) t = set(0);
  // A NaN may be lost here: its own exponential brings it back.
  for (int64_t c = 0; c < g.cols; ++c)
    each_vector(width, [&](int v, int64_t n) ALWAYS { top[v] = max2(top[v], load_n(x + c * g.x_col + v * kLanes, n) * scale); });
  for (int64_t c = 0; c < g.cols; ++c)
    each_vector(width, [&](int v, int64_t n) ALWAYS {
      const F down = load_n(x + c * g.x_col + v * kLanes, n) * scale - top[v], share = vexp(down);
      total[v] = total[v] + share;
      store_n(out + c * g.out_col + v * kLanes, n, g.logarithm ? down : share);
    });
  if (g.logarithm)
    for (F& t : total) t = vlog(t);
  for (int64_t c = 0; c < g.cols; ++c)
    each_vector(width, [&](int v, int64_t n) ALWAYS {
      float* to = out + c * g.out_col + v * kLanes;
      store_n(to, n, g.logarithm ? load_n(to, n) - total[v] : load_n(to, n) / total[v]);
    });
}

static void softmax(const Softmax& g, int64_t begin, int64_t end, float*) {
  if (g.inner != 1) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t r = unit / groups(g.inner), i = unit % groups(g.inner) * kGroup;
      softmax_columns(g, g.x + r * g.x_row + i, g.out + r * g.out_row + i, smaller(kGroup, g.inner - i));
    }
    return;
  }
  const F scale = set(g.scale);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.x + r * g.x_row;
    float* out = g.out + r * g.out_row;
    map_row(x, out, g.cols, [&](F v, int64_t, int64_t) ALWAYS { return v * scale; });
    const F top = set(row_max(out, g.cols));
    if (g.logarithm) {
      const float total = sum_of(out, g.cols, [&](F v) ALWAYS { return vexp(v - top); });
      const F shift = set(__builtin_logf(total));
      map_row(out, out, g.cols, [&](F v, int64_t, int64_t) ALWAYS { return (v - top) - shift; });
    } else {
      map_row(out, out, g.cols, [&](F v, int64_t, int64_t) ALWAYS { return vexp(v - top); });
      const F total = set(row_sum(out, g.cols));
      map_row(out, out, g.cols, [&](F v, int64_t, int64_t) ALWAYS { return v / total; });
    }
  }
}

// ---- normalisation

INLINE float squares_about(const float* x, int64_t n, float mean) {
  const F m = set(mean);
  return sum_of(x, n, [=](F v) ALWAYS { return (v - m) * (v - m); });
}

static void norm(const Norm& g, int64_t begin, int64_t end, float*) {
  const float count = static_cast<float>(g.cols);
  const F plus = set(g.weight_plus);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.x + r * g.x_row;
    float* out = g.out + r * g.out_row;
    if (g.add != nullptr) {
      const float* other = g.add + r * g.add_row;
      float* sum_to = g.sum != nullptr ? g.sum + r * g.sum_row : out;
      map_row(x, sum_to, g.cols, [&](F v, int64_t i, int64_t n) ALWAYS { return v + load_n(other + i, n); });
      x = sum_to;
    }
    const float mean = g.rms ? 0 : row_sum(x, g.cols) / count;
    const float variance = squares_about(x, g.cols, mean) / count;
    const F middle = set(mean), scale = set(1 / __builtin_sqrtf(variance + g.eps));
    const float *weight = g.weight, *bias = g.bias;
    map_row(x, out, g.cols, [&](F v, int64_t i, int64_t n) ALWAYS {
      F y = (v - middle) * scale;
      if (weight != nullptr) y = y * (load_n(weight + i, n) + plus);
      if (bias != nullptr) y = y + load_n(bias + i, n);
      return y;
    });
  }
}

static void group_norm(const GroupNorm& g, int64_t begin, int64_t end, float*) {
  const int64_t channels = g.channels / g.groups, count = channels * g.size;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.x + r * count;
    const float mean = row_sum(x, count) / static_cast<float>(count);
    const float variance = squares_about(x, count, mean) / static_cast<float>(count);
    const float scale = 1 / __builtin_sqrtf(variance + g.eps);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t channel = r % g.groups * channels + c;
      const F middle = set(mean), factor = set(scale), weight = set(g.weight != nullptr ? g.weight[channel] : 1),
              bias = set(g.bias != nullptr ? g.bias[channel] : 0);
      map_row(x + c * g.size, g.out + r * count + c * g.size, g.size,
              [&](F v, int64_t, int64_t) ALWAYS { return (v - middle) * factor * weight + bias; });
    }
  }
}

static const Kernels* table;

static void scale_shift(const ScaleShift& g, int64_t begin, int64_t end, float*) {
  const UnaryFn activation = table->unary[static_cast<int>(g.activation)];
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r % g.period;
    const F scale = set(g.scale != nullptr ? g.scale[at] : 1), shift = set(g.shift != nullptr ? g.shift[at] : 0);
    float* out = g.out + r * g.cols;
    map_row(g.x + r * g.cols, out, g.cols, [&](F v, int64_t, int64_t) ALWAYS { return v * scale + shift; });
    if (g.activation != Unary::identity) activation(out, out, g.cols, g.p, g.q);
  }
}

void fill_rows(Kernels& k) {
  table = &k;
  SET_WITHOUT_SCRATCH(reduce, Reduce, g.outer * groups(g.inner))
  SET_WITHOUT_SCRATCH(arg_max, ArgMax, g.rows)
  SET_WITHOUT_SCRATCH(softmax, Softmax, g.rows * groups(g.inner))
  SET_WITHOUT_SCRATCH(norm, Norm, g.rows)
  SET_WITHOUT_SCRATCH(group_norm, GroupNorm, g.batch * g.groups)
  SET_WITHOUT_SCRATCH(scale_shift, ScaleShift, g.rows)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
