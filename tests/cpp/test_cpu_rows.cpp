// Rows and attention of the cpu backend against naive loops in f64: random sizes around every tile edge, strides, alignments and
// odd numbers, on every instruction set of the machine.
#include <gtest/gtest.h>

#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

TEST(Reduce, AgreesWithALoop) {
  Random random(2);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 300; ++i) {
      Reduce g;
      g.outer = random.size() / 4;
      g.count = random.size();
      g.inner = random.chance(0.6) ? 1 : random.size();
      g.kind = static_cast<Reduction>(random.integer(0, static_cast<int>(Reduction::count) - 1));
      // A product may pass through numbers too small to be exact, in an order of its own.
      const bool odd = g.kind != Reduction::product && random.chance(0.2);
      const Guarded<float> x = numbers(random, g.outer * g.count * g.inner, odd ? 0.02 : 0);
      Guarded<float> out(random, g.outer * g.inner);
      g.x = x.data();
      g.out = out.data();
      RUN(k, reduce, g);
      ASSERT_TRUE(out.intact());
      for (int64_t o = 0; o < g.outer; ++o)
        for (int64_t j = 0; j < g.inner; ++j) {
          double want = 0, scale = 0;
          if (g.kind == Reduction::max) want = -INFINITY;
          if (g.kind == Reduction::min) want = INFINITY;
          if (g.kind == Reduction::product) want = 1;
          for (int64_t r = 0; r < g.count; ++r) {
            const double v = x[(o * g.count + r) * g.inner + j];
            switch (g.kind) {
              case Reduction::max: want = std::isnan(v) || std::isnan(want) ? NAN : std::max(want, v); break;
              case Reduction::min: want = std::isnan(v) || std::isnan(want) ? NAN : std::min(want, v); break;
              case Reduction::product: want *= v; break;
              case Reduction::sum_of_squares: want += v * v; break;
              default: want += v;
            }
            scale += g.kind == Reduction::sum_of_squares ? v * v : std::fabs(v);
          }
          if (g.kind == Reduction::mean) {
            want /= static_cast<double>(g.count);
            scale /= static_cast<double>(g.count);
          }
          if (g.kind == Reduction::product) scale = std::fabs(want) * static_cast<double>(g.count);
          if (std::isnan(scale)) scale = 0;
          ASSERT_TRUE(agrees(out[o * g.inner + j], want, scale * kEps * 8, std::isinf(scale) && std::isinf(want) ? 0 : scale))
              << static_cast<int>(g.kind) << " of " << g.count << " × " << g.inner;
        }
    }
  });
}

TEST(ArgMax, IsTheFirstOfTheLargest) {
  Random random(3);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 150; ++i) {
      ArgMax g;
      g.rows = random.size() / 4;
      g.cols = random.some_size();
      g.x_row = g.cols + random.integer(0, 3);
      g.smallest = random.chance(0.5);
      Guarded<float> x = numbers(random, g.rows * g.x_row, random.chance(0.2) ? 0.02 : 0);
      if (random.chance(0.5))
        for (int64_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>(random.integer(0, 4));  // ties
      Guarded<int64_t> out(random, g.rows);
      g.x = x.data();
      g.out = out.data();
      RUN(k, arg_max, g);
      ASSERT_TRUE(out.intact());
      for (int64_t r = 0; r < g.rows; ++r) {
        int64_t best = 0;
        for (int64_t j = 0; j < g.cols; ++j) {
          const float v = x[r * g.x_row + j], top = x[r * g.x_row + best];
          if (!std::isnan(top) && (std::isnan(v) || (g.smallest ? v < top : v > top))) best = j;
        }
        ASSERT_EQ(out[r], best);
      }
    }
  });
}

TEST(Softmax, AgreesWithALoop) {
  Random random(4);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 450; ++i) {
      Softmax g;
      g.rows = random.size() / 4;
      g.cols = random.size();
      g.inner = random.chance(0.6) ? 1 : random.size();
      if (g.inner > 1) g.x_col = g.inner + random.integer(0, 3);
      g.x_row = g.cols * g.x_col + random.integer(0, 3);
      g.scale = random.chance(0.5) ? 1 : 0.125f;
      g.logarithm = random.chance(0.3);
      Guarded<float> x = numbers(random, g.rows * g.x_row);
      const float spread = random.chance(0.2) ? 60.0f : 1.0f;
      for (int64_t j = 0; j < x.size(); ++j) x[j] *= spread;
      if (random.chance(0.2))
        for (int64_t j = 0; j < x.size(); ++j)
          if (random.chance(0.3)) x[j] = random.chance(0.05) ? kNan : -kInf;
      const Guarded<float> before = x;
      const bool in_place = random.chance(0.3);
      Guarded<float> out(random, g.rows * g.cols * g.inner);
      g.x = x.data();
      g.out = in_place ? x.data() : out.data();
      g.out_col = in_place ? g.x_col : g.inner;
      g.out_row = in_place ? g.x_row : g.cols * g.inner;
      RUN(k, softmax, g);
      ASSERT_TRUE(out.intact() && x.intact());
      for (int64_t r = 0; r < g.rows; ++r)
        for (int64_t side = 0; side < g.inner; ++side) {
          const auto given = [&](int64_t j) { return double(before[r * g.x_row + j * g.x_col + side] * g.scale); };
          double top = -INFINITY, total = 0;
          for (int64_t j = 0; j < g.cols; ++j) top = std::max(top, given(j));
          for (int64_t j = 0; j < g.cols; ++j) total += std::exp(given(j) - top);
          for (int64_t j = 0; j < g.cols; ++j) {
            const double v = given(j) - top;
            const double want = g.logarithm ? v - std::log(total) : std::exp(v) / total;
            const double tolerance = g.logarithm ? (std::isinf(v) ? 4 : std::fabs(v) + 4) * 1e-6
                                                 : 1e-6 * want * (4 + std::min(std::fabs(v), 200.0) * 0.2) + 1e-43;
            ASSERT_TRUE(agrees(g.out[r * g.out_row + j * g.out_col + side], want, tolerance))
                << "cols " << g.cols << " of " << g.inner << " side by side, row " << r << " log " << g.logarithm;
          }
        }
    }
  });
}

TEST(Norm, AgreesWithALoop) {
  Random random(5);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 300; ++i) {
      Norm g;
      g.rows = random.size() / 4;
      g.cols = random.some_size();
      g.x_row = g.cols + random.integer(0, 3);
      g.rms = random.chance(0.4);
      g.weight_plus = random.chance(0.2) ? 1 : 0;
      Guarded<float> x = numbers(random, g.rows * g.x_row, random.chance(0.1) ? 0.005 : 0);
      const Guarded<float> before = x, weight = numbers(random, g.cols), bias = numbers(random, g.cols);
      const Guarded<float> add = numbers(random, g.rows * g.x_row);
      Guarded<float> out(random, g.rows * g.cols), sum(random, g.rows * g.cols);
      g.x = x.data();
      const bool in_place = random.chance(0.2);
      g.out = in_place ? x.data() : out.data();
      g.out_row = in_place ? g.x_row : g.cols;
      if (random.chance(0.7)) g.weight = weight.data();
      if (random.chance(0.7)) g.bias = bias.data();
      if (random.chance(0.4)) {
        g.add = add.data();
        g.add_row = g.x_row;
        g.sum_row = g.cols;
        if (random.chance(0.6)) g.sum = sum.data();
      }
      RUN(k, norm, g);
      ASSERT_TRUE(out.intact() && sum.intact() && x.intact());
      for (int64_t r = 0; r < g.rows; ++r) {
        std::vector<double> row(static_cast<size_t>(g.cols));
        double mean = 0, variance = 0, largest = 0;
        for (int64_t j = 0; j < g.cols; ++j) {
          float v = before[r * g.x_row + j];
          if (g.add != nullptr) v += add[r * g.x_row + j];
          if (g.sum != nullptr) {
            ASSERT_TRUE(agrees(sum[r * g.cols + j], v, 0));
          }
          row[j] = v;
          mean += v;
          largest = std::max(largest, double(std::fabs(v)));
        }
        mean = g.rms ? 0 : mean / static_cast<double>(g.cols);
        for (const double v : row) variance += (v - mean) * (v - mean);
        const double scale = 1 / std::sqrt(variance / static_cast<double>(g.cols) + g.eps);
        for (int64_t j = 0; j < g.cols; ++j) {
          const double normal = (row[j] - mean) * scale, w = g.weight != nullptr ? weight[j] + double(g.weight_plus) : 1;
          const double want = normal * w + (g.bias != nullptr ? bias[j] : 0);
          ASSERT_TRUE(agrees(g.out[r * g.out_row + j], want,
                             ((largest * scale + std::fabs(normal)) * std::fabs(w) + std::fabs(want) + 1) * 16 * kEps, variance));
        }
      }
    }
  });
}

TEST(GroupNorm, AgreesWithALoop) {
  Random random(6);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 100; ++i) {
      GroupNorm g;
      g.batch = random.integer(0, 3);
      g.groups = random.integer(1, 4);
      g.channels = g.groups * random.integer(1, 4);
      g.size = random.some_size();
      const int64_t n = g.batch * g.channels * g.size, channels = g.channels / g.groups, count = channels * g.size;
      const Guarded<float> x = numbers(random, n), weight = numbers(random, g.channels), bias = numbers(random, g.channels);
      Guarded<float> out(random, n);
      g.x = x.data();
      g.out = out.data();
      if (random.chance(0.7)) g.weight = weight.data();
      if (random.chance(0.7)) g.bias = bias.data();
      RUN(k, group_norm, g);
      ASSERT_TRUE(out.intact());
      for (int64_t j = 0; j < n; ++j) {
        const int64_t group = j / count, channel = j / g.size % g.channels;
        double mean = 0, variance = 0;
        for (int64_t l = 0; l < count; ++l) mean += x[group * count + l] / static_cast<double>(count);
        for (int64_t l = 0; l < count; ++l) variance += std::pow(x[group * count + l] - mean, 2) / static_cast<double>(count);
        const double normal = (x[j] - mean) / std::sqrt(variance + g.eps), w = g.weight != nullptr ? weight[channel] : 1;
        const double want = normal * w + (g.bias != nullptr ? bias[channel] : 0);
        ASSERT_TRUE(
            agrees(out[j], want,
                   (std::fabs(normal * w) + std::fabs(w) / std::sqrt(variance + g.eps) * 3 + std::fabs(want)) * 16 * kEps));
      }
    }
  });
}

TEST(ScaleShift, AgreesWithALoop) {
  Random random(7);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 100; ++i) {
      ScaleShift g;
      g.period = random.integer(1, 5);
      g.rows = g.period * random.integer(0, 3);
      g.cols = random.size();
      Guarded<float> x = numbers(random, g.rows * g.cols, 0.01);
      const Guarded<float> before = x, scale = numbers(random, g.period), shift = numbers(random, g.period);
      g.x = g.out = x.data();
      if (random.chance(0.8)) g.scale = scale.data();
      if (random.chance(0.8)) g.shift = shift.data();
      if (random.chance(0.5)) g.activation = Unary::relu;
      RUN(k, scale_shift, g);
      ASSERT_TRUE(x.intact());
      for (int64_t j = 0; j < x.size(); ++j) {
        const int64_t c = j / g.cols % g.period;
        const float v = before[j] * (g.scale != nullptr ? scale[c] : 1.0f) + (g.shift != nullptr ? shift[c] : 0.0f);
        ASSERT_TRUE(agrees(x[j], value_of(g.activation, v, 0, 0), 0)) << j;
      }
    }
  });
}

// Softmax of scores times values, in f64.
void expect_attention(const Attention& g, const Guarded<float>& out) {
  std::vector<double> weight(static_cast<size_t>(g.keys));
  for (int64_t b = 0; b < g.batch; ++b)
    for (int64_t h = 0; h < g.heads; ++h)
      for (int64_t i = 0; i < g.queries; ++i) {
        const int64_t kv = h / (g.heads / g.kv_heads), position = i + g.query_offset;
        double top = -INFINITY, total = 0;
        for (int64_t j = 0; j < g.keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < g.head_size; ++d)
            score += double(g.q[b * g.q_batch + h * g.q_head + i * g.q_row + d]) *
                     g.k[b * g.k_batch + kv * g.k_head + j * g.k_row + d];
          score *= g.scale;
          const int64_t at = b * g.mask_batch + h * g.mask_head + i * g.mask_row + j * g.mask_col;

          const bool may = (g.key_mask == nullptr || g.key_mask[b * g.keys + j] != 0) && (!g.causal || j <= position) &&
                           (g.window == 0 || j > position - g.window);
          if (!may) score = g.masked_bias != 0 ? static_cast<float>(score) + g.masked_bias : -INFINITY;
          if (g.mask != nullptr) score = static_cast<float>(score) + g.mask[at];
          if (g.allowed != nullptr && g.allowed[at] == 0) score = -INFINITY;
          weight[j] = score;
          top = std::max(top, weight[j]);
        }
        const bool nothing = std::isinf(top);
        for (double& w : weight) total += w = nothing ? 0 : std::exp(w - top);
        for (int64_t d = 0; d < g.value_size; ++d) {
          double want = 0, scale = 0;
          for (int64_t j = 0; j < g.keys; ++j) {
            const double term = weight[j] * g.v[b * g.v_batch + kv * g.v_head + j * g.v_row + d] / total;
            want += nothing ? 0 : term;
            scale += nothing ? 0 : std::fabs(term);
          }
          if (nothing) want = g.nan_when_nothing ? NAN : 0;
          ASSERT_TRUE(agrees(out[b * g.out_batch + h * g.out_head + i * g.out_row + d], want,
                             (scale + 1e-3) * (g.masked_bias == -30 ? 500 : 64) * kEps))
              << "queries " << g.queries << " keys " << g.keys << " head " << g.head_size << " at " << b << ' ' << h << ' ' << i
              << ' ' << d;
        }
      }
}

void attention_case(Random& random, const Kernels& k) {
  Attention g;
  g.batch = random.integer(0, 2);
  g.kv_heads = random.integer(1, 3);
  g.heads = g.kv_heads * random.integer(1, 3);
  g.queries = random.chance(0.2) ? 1 : random.size();
  g.keys = random.chance(0.1) ? random.integer(100, 300) : random.size();
  g.head_size = random.chance(0.3) ? random.some_size() : random.integer(1, 5) * 8;
  g.value_size = random.chance(0.7) ? g.head_size : random.some_size();
  g.scale = 1 / std::sqrt(static_cast<float>(g.head_size));
  g.causal = random.chance(0.4);
  g.query_offset = random.chance(0.3) ? random.integer(-5, 60) : 0;
  if (random.chance(0.2)) g.window = random.integer(1, 40);
  g.nan_when_nothing = random.chance(0.2);
  // [batch, length, heads, size] or [batch, heads, length, size]
  const bool heads_last = random.chance(0.5);
  const auto strides = [&](int64_t heads, int64_t length, int64_t size, int64_t& batch, int64_t& head, int64_t& row) {
    row = heads_last ? heads * size : size;
    head = heads_last ? size : length * size;
    batch = heads * length * size;
    return g.batch * batch;
  };
  const Guarded<float> q = numbers(random, strides(g.heads, g.queries, g.head_size, g.q_batch, g.q_head, g.q_row));
  const Guarded<float> key = numbers(random, strides(g.kv_heads, g.keys, g.head_size, g.k_batch, g.k_head, g.k_row));
  const Guarded<float> v = numbers(random, strides(g.kv_heads, g.keys, g.value_size, g.v_batch, g.v_head, g.v_row));
  Guarded<float> out(random, strides(g.heads, g.queries, g.value_size, g.out_batch, g.out_head, g.out_row));
  g.q = q.data();
  g.k = key.data();
  g.v = v.data();
  g.out = out.data();
  const bool by_head = random.chance(0.5), by_batch = random.chance(0.5), by_query = random.chance(0.7);
  const int64_t plane = by_query ? g.queries * g.keys : g.keys, heads = by_head ? g.heads : 1, batches = by_batch ? g.batch : 1;
  Guarded<float> mask = numbers(random, plane * heads * batches);
  Guarded<uint8_t> allowed(random, mask.size()), key_mask(random, g.batch * g.keys);
  // Whole rows of the lowest float, as models mask padding: their weights are all the same then.
  const int64_t lowest_rows = random.chance(0.3) && by_query ? random.integer(0, g.queries) : 0;
  for (int64_t i = 0; i < mask.size(); ++i) {
    allowed[i] = random.chance(0.7);
    if (random.chance(0.1)) mask[i] = -kInf;
  }
  if (random.chance(0.2)) g.masked_bias = random.chance(0.5) ? -30.0f : std::numeric_limits<float>::lowest();
  for (int64_t i = 0; i < key_mask.size(); ++i) key_mask[i] = random.chance(0.7);
  const bool turned = by_query && random.chance(0.3);
  g.mask_row = g.allowed_row = !by_query ? 0 : turned ? 1 : g.keys;
  g.mask_col = g.allowed_col = turned ? g.queries : 1;
  g.mask_head = g.allowed_head = by_head ? plane : 0;
  g.mask_batch = g.allowed_batch = by_batch ? plane * heads : 0;
  for (int64_t b = 0; b < batches * heads; ++b)
    for (int64_t i = 0; i < lowest_rows; ++i)
      for (int64_t j = 0; j < g.keys; ++j)
        mask[b * plane + i * g.mask_row + j * g.mask_col] = std::numeric_limits<float>::lowest();
  if (random.chance(0.3)) g.mask = mask.data();
  if (random.chance(0.3)) g.allowed = allowed.data();
  if (random.chance(0.2)) g.key_mask = key_mask.data();
  g.key_mask_batch = g.keys;
  RUN(k, attention, g);
  ASSERT_TRUE(out.intact());
  expect_attention(g, out);
}

TEST(Attention, KeepsANanToTheQueryThatHasIt) {
  Random random(9);
  each_isa([&](const Kernels& k) {
    Attention g;
    g.batch = g.heads = g.kv_heads = 1;
    g.queries = g.keys = 150;
    g.head_size = g.value_size = g.q_row = g.k_row = g.v_row = g.out_row = 24;
    Guarded<float> q = numbers(random, 150 * 24), out(random, 150 * 24);
    q[37 * 24 + 5] = kNan;
    g.q = q.data();
    const Guarded<float> other = numbers(random, 150 * 24);
    g.k = g.v = other.data();
    g.out = out.data();
    RUN(k, attention, g);
    for (int64_t i = 0; i < 150 * 24; ++i) ASSERT_EQ(std::isnan(out[i]), i / 24 == 37) << i / 24;
  });
}

TEST(Attention, AgreesWithALoop) {
  Random random(8);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 350 && !testing::Test::HasFatalFailure(); ++i) attention_case(random, k);
  });
}

}  // namespace
}  // namespace pycandle::cpu
