// The kernels that move numbers or have windows, and recurrent cells.
#include <gtest/gtest.h>

#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

// ---- copies

TEST(Copy, MovesEveryElementWhateverTheStrides) {
  Random random(11);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 500; ++i) {
      Copy g;
      g.rank = static_cast<int>(random.integer(0, 5));
      static constexpr int sizes[] = {1, 2, 4, 4, 4, 8, 16};
      g.element = sizes[random.integer(0, 6)];
      int64_t count = 1;
      for (int d = 0; d < g.rank; ++d) count *= g.dims[d] = random.chance(0.05) ? 0 : random.integer(1, g.rank < 3 ? 70 : 9);
      // x and out each in an order of dims of its own, with gaps; some dims of x broadcast or backwards
      const auto give = [&](int64_t (&strides)[kMaxRank], int64_t& begin, bool input) {
        std::vector<int> order(static_cast<size_t>(g.rank));
        for (int d = 0; d < g.rank; ++d) order[d] = d;
        std::shuffle(order.begin(), order.end(), random.engine);
        int64_t size = 1;
        begin = 0;
        for (const int d : order) {
          strides[d] = size;
          size *= g.dims[d] + (random.chance(0.1) ? 1 : 0);
          if (input && random.chance(0.1)) strides[d] = 0;
          if (input && random.chance(0.1) && g.dims[d] > 0) {
            begin += strides[d] * (g.dims[d] - 1);
            strides[d] = -strides[d];
          }
        }
        return size;
      };
      int64_t x_begin = 0, out_begin = 0;
      Guarded<uint8_t> x(random, give(g.x_strides, x_begin, true) * g.element, g.element),
          out(random, give(g.out_strides, out_begin, false) * g.element, g.element);
      for (int64_t j = 0; j < x.size(); ++j) x[j] = static_cast<uint8_t>(random.integer(0, 255));
      Guarded<uint8_t> want = out;
      for (int64_t j = 0; j < count; ++j) {
        int64_t rest = j, x_at = x_begin, out_at = 0;
        for (int d = g.rank - 1; d >= 0; --d) {
          x_at += rest % g.dims[d] * g.x_strides[d];
          out_at += rest % g.dims[d] * g.out_strides[d];
          rest /= g.dims[d];
        }
        std::memcpy(want.data() + out_at * g.element, x.data() + x_at * g.element, static_cast<size_t>(g.element));
      }
      g.x = x.data() + x_begin * g.element;
      g.out = out.data();
      plan_copy(g);
      RUN(k, copy, g);
      ASSERT_TRUE(out.intact());
      ASSERT_EQ(std::memcmp(out.data(), want.data(), static_cast<size_t>(out.size())), 0)
          << "rank " << g.rank << " of " << g.element << " bytes";
    }
  });
}

TEST(GatherRows, TakesRowsAndReportsABadIndex) {
  Random random(12);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 150; ++i) {
      GatherRows g;
      g.count = random.size();
      g.table_rows = random.some_size();
      const int64_t cols = random.size();
      g.row_bytes = g.table_row_bytes = g.out_row_bytes = cols * 4;
      const Guarded<float> table = numbers(random, g.table_rows * cols);
      Guarded<float> out(random, g.count * cols);
      Guarded<int64_t> index(random, g.count);
      Guarded<int32_t> index32(random, g.count);
      const bool bad = random.chance(0.2);
      for (int64_t j = 0; j < g.count; ++j) {
        index[j] = random.integer(-g.table_rows, g.table_rows - 1);
        if (bad && random.chance(0.1)) index[j] = random.chance(0.5) ? g.table_rows : -g.table_rows - 1;
        index32[j] = static_cast<int32_t>(index[j]);
      }
      int64_t found = 0;
      g.table = table.data();
      g.out = out.data();
      g.bad = &found;
      if (random.chance(0.5)) {
        g.index = index.data();
      } else {
        g.index32 = index32.data();
      }
      RUN(k, gather_rows, g);
      ASSERT_TRUE(out.intact());
      bool any_bad = false;
      for (int64_t j = 0; j < g.count; ++j) {
        const int64_t at = index[j] < 0 ? index[j] + g.table_rows : index[j];
        const bool is_bad = at < 0 || at >= g.table_rows;
        any_bad = any_bad || is_bad;
        if (found == j + 1) {
          ASSERT_TRUE(is_bad);
        }
        for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(out[j * cols + c], is_bad ? 0 : table[at * cols + c]);
      }
      ASSERT_EQ(found != 0, any_bad);
    }
  });
}

TEST(Rotary, TurnsPairsOfBothKinds) {
  Random random(13);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 150; ++i) {
      Rotary g;
      g.batch = random.integer(0, 2);
      g.length = random.integer(0, 9);
      g.heads = random.integer(1, 3);
      g.rotated = 2 * random.some_size() / 2 * 2;
      g.rotated = std::max<int64_t>(2, g.rotated);
      g.size = g.rotated + (random.chance(0.3) ? random.size() : 0);
      g.interleaved = random.chance(0.5);
      g.paired = random.chance(0.5);
      g.x_head = g.out_head = g.size;
      g.x_row = g.out_row = g.heads * g.size;
      g.x_batch = g.out_batch = g.length * g.x_row;
      const int64_t angles = g.paired ? g.rotated / 2 : g.rotated;
      g.angle_row = angles;
      g.angle_batch = random.chance(0.5) ? 0 : g.length * angles;
      Guarded<float> x = numbers(random, g.batch * g.x_batch);
      const Guarded<float> before = x, cos = numbers(random, 2 * g.length * angles), sin = numbers(random, 2 * g.length * angles);
      Guarded<float> out(random, x.size());
      const bool in_place = random.chance(0.4);
      g.x = x.data();
      g.out = in_place ? x.data() : out.data();
      g.cos = cos.data();
      g.sin = sin.data();
      RUN(k, rotary, g);
      ASSERT_TRUE(out.intact() && x.intact());
      for (int64_t j = 0; j < x.size(); ++j) {
        const int64_t d = j % g.size, row = j / g.x_row % g.length, batch = j / g.x_batch, half = g.rotated / 2;
        float want = before[j];
        if (d < g.rotated) {
          const bool second = g.interleaved ? d % 2 == 1 : d >= half;
          const int64_t pair = g.interleaved ? d / 2 : d % half;
          const int64_t other = j + (second ? -1 : 1) * (g.interleaved ? 1 : half);
          const int64_t angle = batch * g.angle_batch + row * g.angle_row + (g.paired ? pair : d);
          want = second ? before[j] * cos[angle] + before[other] * sin[angle]
                        : before[j] * cos[angle] - before[other] * sin[angle];
        }
        ASSERT_NEAR(g.out[j], want, 1e-6 * (1 + std::fabs(want))) << d;
      }
    }
  });
}

// ---- windows

TEST(Im2Col, LaysOutTheWindows) {
  Random random(14);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 100; ++i) {
      Im2Col g;
      g.channels = random.integer(0, 3);
      g.window = random_window(random, g.height, g.width, g.out_height, g.out_width);
      const int64_t places = g.window.kernel[0] * g.window.kernel[1], outputs = g.out_height * g.out_width;
      const Guarded<float> x = numbers(random, g.channels * g.height * g.width);
      Guarded<float> out(random, g.channels * places * outputs);
      g.x = x.data();
      g.out = out.data();
      RUN(k, im2col, g);
      ASSERT_TRUE(out.intact());
      for (int64_t c = 0; c < g.channels; ++c)
        for (int64_t o = 0; o < outputs; ++o)
          each_place(g.window, g.height, g.width, o / g.out_width, o % g.out_width,
                     [&](int64_t y, int64_t xx, bool inside, int64_t place) {
                       ASSERT_EQ(out[(c * places + place) * outputs + o], inside ? x[(c * g.height + y) * g.width + xx] : 0);
                     });
    }
  });
}

TEST(Gemm, OfAnImageIsAConvolution) {
  Random random(20);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 150; ++i) {
      Im2Col image;
      image.channels = random.integer(1, random.chance(0.1) ? 120 : 4);
      image.window = random_window(random, image.height, image.width, image.out_height, image.out_width);
      Gemm g;
      g.m = random.some_size() / 3 + 1;
      g.n = image.out_height * image.out_width;
      g.k = image.channels * image.window.kernel[0] * image.window.kernel[1];
      const Guarded<float> x = numbers(random, image.channels * image.height * image.width), weight = numbers(random, g.m * g.k);
      Guarded<float> matrix(random, g.k * g.n), out(random, g.m * g.n), want(random, g.m * g.n);
      g.a = weight.data();
      g.a_row = g.k;
      g.c_row = g.n;
      g.b = x.data();
      g.c = out.data();
      g.image = &image;
      RUN(k, gemm, g);
      ASSERT_TRUE(out.intact());
      // With the weights on the right, in the epilogue too.
      Guarded<float> turned(random, g.m * g.n), packed(random, k.packed_size(g.k, g.m));
      const Guarded<float> bias = numbers(random, g.m), residual = numbers(random, g.m * g.n);
      PackB pack;
      pack.k = g.k;
      pack.n = g.m;
      pack.b = weight.data();
      pack.b_row = 1;
      pack.b_col = g.k;
      pack.out = packed.data();
      RUN(k, pack_b, pack);
      Gemm other = g;
      other.turned = true;
      other.packed = packed.data();
      other.c = turned.data();
      other.epilogue.row_bias = bias.data();
      other.epilogue.residual = residual.data();
      other.epilogue.residual_row = g.n;
      RUN(k, gemm, other);
      ASSERT_TRUE(turned.intact());
      image.x = x.data();
      image.out = matrix.data();
      RUN(k, im2col, image);
      g.b = matrix.data();
      g.b_row = g.n;
      g.c = want.data();
      g.image = nullptr;
      RUN(k, gemm, g);
      for (int64_t j = 0; j < out.size(); ++j) {
        ASSERT_NEAR(out[j], want[j],
                    1e-5 * std::sqrt(static_cast<double>(g.k)));  // the same sums in another order, where m is small
        ASSERT_NEAR(turned[j], out[j] + bias[j / g.n] + residual[j], 1e-5 * std::sqrt(static_cast<double>(g.k)) + 1e-5);
      }
    }
  });
}

TEST(Depthwise, AgreesWithALoop) {
  Random random(15);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 250; ++i) {
      Depthwise g;
      g.batch = random.integer(0, 2);
      g.channels = random.integer(1, 3);
      g.multiplier = random.chance(0.8) ? 1 : 2;
      g.window = random_window(random, g.height, g.width, g.out_height, g.out_width);
      if (random.chance(0.5)) g.window.dilation[0] = g.window.dilation[1] = 1;
      g.out_height = (g.height + 2 * g.window.padding[0] - g.window.dilation[0] * (g.window.kernel[0] - 1) - 1) /
                         g.window.stride[0] +
                     1;
      g.out_width = (g.width + 2 * g.window.padding[1] - g.window.dilation[1] * (g.window.kernel[1] - 1) - 1) /
                        g.window.stride[1] +
                    1;
      const int64_t places = g.window.kernel[0] * g.window.kernel[1], outputs = g.out_height * g.out_width;
      const int64_t out_channels = g.channels * g.multiplier;
      const Guarded<float> x = numbers(random, g.batch * g.channels * g.height * g.width),
                           weight = numbers(random, out_channels * places), bias = numbers(random, out_channels);
      Guarded<float> out(random, g.batch * out_channels * outputs);
      g.x = x.data();
      g.weight = weight.data();
      g.out = out.data();
      if (random.chance(0.5)) g.bias = bias.data();
      if (random.chance(0.5)) {  // ReLU6
        g.activation = Unary::clamp;
        g.q = 6;
      }
      RUN(k, depthwise, g);
      ASSERT_TRUE(out.intact());
      for (int64_t j = 0; j < out.size(); ++j) {
        const int64_t plane = j / outputs, o = j % outputs, channel = plane % out_channels;
        const int64_t from = plane / out_channels * g.channels + channel / g.multiplier;
        double want = g.bias != nullptr ? bias[channel] : 0, scale = std::fabs(want);
        each_place(
            g.window, g.height, g.width, o / g.out_width, o % g.out_width,
            [&](int64_t y, int64_t xx, bool inside, int64_t place) {
              const double term = inside ? double(x[(from * g.height + y) * g.width + xx]) * weight[channel * places + place] : 0;
              want += term;
              scale += std::fabs(term);
            });
        if (g.activation == Unary::clamp) want = std::min(std::max(want, 0.0), 6.0);
        ASSERT_TRUE(agrees(out[j], want, scale * 8 * kEps))
            << "kernel " << g.window.kernel[1] << " stride " << g.window.stride[1];
      }
    }
  });
}

TEST(Pool, AgreesWithALoop) {
  Random random(16);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 250; ++i) {
      Pool g;
      g.planes = random.integer(0, 3);
      do g.window = random_window(random, g.height, g.width, g.out_height, g.out_width);
      while (g.window.padding[0] > g.window.kernel[0] / 2 || g.window.padding[1] > g.window.kernel[1] / 2);
      // Sometimes one output more, whose window starts inside but ends past the padding (torch's ceil_mode).
      if (random.chance(0.3) && g.out_height * g.window.stride[0] < g.height + g.window.padding[0]) ++g.out_height;
      if (random.chance(0.3) && g.out_width * g.window.stride[1] < g.width + g.window.padding[1]) ++g.out_width;
      g.average = random.chance(0.5);
      if (g.average && (g.window.dilation[0] > 1 || g.window.dilation[1] > 1)) continue;  // torch has none
      g.count_padding = random.chance(0.5);
      if (random.chance(0.2)) g.divisor = random.integer(1, 9);
      const Guarded<float> x = numbers(random, g.planes * g.height * g.width, random.chance(0.1) ? 0.02 : 0);
      const int64_t outputs = g.out_height * g.out_width;
      Guarded<float> out(random, g.planes * outputs);
      g.x = x.data();
      g.out = out.data();
      RUN(k, pool, g);
      ASSERT_TRUE(out.intact());
      for (int64_t j = 0; j < out.size(); ++j) {
        double best = -INFINITY, total = 0, scale = 0;
        int64_t count = 0, padded = 0;
        each_place(g.window, g.height, g.width, j % outputs / g.out_width, j % g.out_width,
                   [&](int64_t y, int64_t xx, bool inside, int64_t) {
                     padded += y < g.height + g.window.padding[0] && xx < g.width + g.window.padding[1];
                     if (!inside) return;
                     const double v = x[(j / outputs * g.height + y) * g.width + xx];
                     best = std::isnan(v) || std::isnan(best) ? NAN : std::max(best, v);
                     total += v;
                     scale += std::fabs(v);
                     ++count;
                   });
        if (std::isnan(scale) || std::isinf(scale)) scale = 0;
        const int64_t by = g.divisor != 0 ? g.divisor : g.count_padding ? padded : count;
        ASSERT_TRUE(agrees(out[j], g.average ? total / static_cast<double>(by) : best, scale * 8 * kEps, scale))
            << "average " << g.average;
      }
    }
  });
}

// ---- recurrent cells

TEST(RecurrentStep, IsOneStepOfEachCell) {
  Random random(17);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 200; ++i) {
      RecurrentStep g;
      g.cell = static_cast<Cell>(random.integer(0, 3));
      g.batch = random.integer(0, 4);
      g.hidden = random.some_size();
      g.backwards = random.chance(0.5);
      const int64_t gates = g.cell == Cell::lstm ? 4 : g.cell == Cell::gru ? 3 : 1, hidden = g.hidden;
      const Guarded<float> w = numbers(random, gates * hidden * hidden), sums = numbers(random, g.batch * gates * hidden);
      const Guarded<float> bias = numbers(random, gates * hidden), h = numbers(random, g.batch * hidden),
                           c = numbers(random, g.batch * hidden);
      Guarded<float> packed(random, k.packed_recurrent_size(g.cell, hidden)), h_out(random, g.batch * hidden),
          c_out(random, g.batch * hidden);
      const PackRecurrent pack{g.cell, hidden, w.data(), packed.data()};
      RUN(k, pack_recurrent, pack);
      ASSERT_TRUE(packed.intact());
      g.sums = sums.data();
      g.sums_row = gates * hidden;
      g.packed = packed.data();
      if (random.chance(0.5)) g.bias_hh = bias.data();
      g.h = h.data();
      g.c = c.data();
      g.h_out = h_out.data();
      g.c_out = c_out.data();
      g.h_row = g.c_row = g.h_out_row = g.c_out_row = hidden;
      RUN(k, recurrent_step, g);
      ASSERT_TRUE(h_out.intact() && c_out.intact());
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      for (int64_t b = 0; b < g.batch; ++b)
        for (int64_t j = 0; j < hidden; ++j) {
          double from_h[4] = {}, from_x[4] = {};
          for (int64_t gate = 0; gate < gates; ++gate) {
            from_x[gate] = sums[(b * gates + gate) * hidden + j];
            from_h[gate] = g.bias_hh != nullptr ? bias[gate * hidden + j] : 0;
            for (int64_t l = 0; l < hidden; ++l) from_h[gate] += double(w[(gate * hidden + j) * hidden + l]) * h[b * hidden + l];
          }
          double want = 0;
          if (g.cell == Cell::lstm) {
            const double cell = sigmoid(from_x[1] + from_h[1]) * c[b * hidden + j] +
                                sigmoid(from_x[0] + from_h[0]) * std::tanh(from_x[2] + from_h[2]);
            ASSERT_TRUE(agrees(c_out[b * hidden + j], cell, 2e-5));
            want = sigmoid(from_x[3] + from_h[3]) * std::tanh(cell);
          } else if (g.cell == Cell::gru) {
            const double r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]),
                         n = std::tanh(from_x[2] + r * from_h[2]);
            want = (1 - z) * n + z * h[b * hidden + j];
          } else {
            const double x = from_x[0] + from_h[0];
            want = g.cell == Cell::rnn_tanh ? std::tanh(x) : std::max(x, 0.0);
          }
          ASSERT_TRUE(agrees(h_out[b * hidden + j], want, 2e-5)) << "cell " << static_cast<int>(g.cell) << " hidden " << hidden;
        }
    }
  });
}

TEST(RecurrentStep, ComputesAProductBesideIt) {
  Random random(23);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 150; ++i) {
      RecurrentStep g;
      g.cell = static_cast<Cell>(random.integer(0, 3));
      g.batch = 1;
      g.hidden = random.some_size();
      g.backwards = random.chance(0.5);
      const int64_t gates = g.cell == Cell::lstm ? 4 : g.cell == Cell::gru ? 3 : 1, hidden = g.hidden;
      const Guarded<float> w = numbers(random, gates * hidden * hidden), sums = numbers(random, gates * hidden),
                           h = numbers(random, hidden), c = numbers(random, hidden);
      Guarded<float> packed(random, k.packed_recurrent_size(g.cell, hidden));
      const PackRecurrent pack{g.cell, hidden, w.data(), packed.data()};
      RUN(k, pack_recurrent, pack);
      const int64_t rows = k.beside_rows, panels = random.integer(1, 9), n = panels * k.panel;
      Beside beside;
      beside.k = random.size();
      beside.first = random.integer(0, panels);
      beside.last = random.integer(beside.first, panels);
      const Guarded<float> a = numbers(random, beside.k * rows), b = numbers(random, beside.k * n), bias = numbers(random, n);
      Guarded<float> packed_b(random, k.packed_size(beside.k, n)), made(random, rows * n);
      const PackB pack_b{beside.k, n, b.data(), n, 1, packed_b.data()};
      RUN(k, pack_b, pack_b);
      beside.a = a.data();
      beside.packed = packed_b.data();
      if (random.chance(0.5)) beside.bias = bias.data();
      beside.c = made.data();
      beside.c_row = n;
      g.sums = sums.data();
      g.packed = packed.data();
      g.h = h.data();
      g.c = c.data();
      std::vector<float> states[2];
      for (const bool alone : {true, false}) {
        Guarded<float> h_out(random, hidden), c_out(random, hidden);
        g.h_out = h_out.data();
        g.c_out = c_out.data();
        g.beside = alone ? nullptr : &beside;
        k.recurrent_step(g, 0, k.recurrent_step_units(g), nullptr);
        ASSERT_TRUE(h_out.intact() && c_out.intact() && made.intact());
        states[alone] = {h_out.data(), h_out.data() + hidden};
      }
      for (int64_t j = 0; j < hidden; ++j) ASSERT_NEAR(states[0][size_t(j)], states[1][size_t(j)], 2e-5);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = beside.first * k.panel; j < beside.last * k.panel; ++j) {
          double want = beside.bias != nullptr ? bias[j] : 0;
          for (int64_t l = 0; l < beside.k; ++l) want += double(a[l * rows + r]) * b[l * n + j];
          ASSERT_TRUE(agrees(made[r * n + j], want, 2e-5)) << "k " << beside.k << " hidden " << hidden;
        }
    }
  });
}

}  // namespace
}  // namespace pycandle::cpu
