// Matrix products of the cpu backend against naive loops in f64: random sizes around every tile edge, strides, packed or
// not, with every epilogue, on every instruction set of the machine.
#include <gtest/gtest.h>

#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

void set_strides(int64_t (&to)[2], int64_t size, const Gemm& g) {
  to[0] = size * g.batch[1];
  to[1] = size;
}

// A product of random sizes and layouts: a[m, k] by rows or transposed; b[k, n] by rows, by columns, or with gaps between its
// numbers. The sizes are of one batch.
struct Product {
  Gemm g;
  int64_t a_size = 0, b_size = 0, c_size = 0, batches = 1;
  bool share_b = false;

  explicit Product(Random& random) {
    const bool a_turned = random.chance(0.2);
    g.m = random.chance(0.2) ? random.integer(1, 4) : random.chance(0.02) ? random.integer(250, 600) : random.size();
    g.n = random.size();
    g.k = random.chance(0.03) ? random.integer(700, 2300) : random.size();
    g.batch[0] = random.chance(0.2) ? random.integer(0, 3) : 1;
    g.batch[1] = random.chance(0.2) ? random.integer(1, 3) : 1;
    const int64_t a_ld = (a_turned ? g.m : g.k) + random.integer(0, 5);
    g.a_row = a_turned ? 1 : a_ld;
    g.a_col = a_turned ? a_ld : 1;
    const int kind = static_cast<int>(random.integer(0, 4));
    const int64_t gap = kind == 4 ? 2 : 1;
    const bool b_turned = kind % 2 == 1;
    const int64_t b_ld = (b_turned ? g.k : g.n) * gap + random.integer(0, 5);
    g.b_row = b_turned ? gap : b_ld;
    g.b_col = b_turned ? b_ld : gap;
    g.c_row = g.n + random.integer(0, 5);
    a_size = a_ld * (a_turned ? g.k : g.m);
    b_size = b_ld * (b_turned ? g.n : g.k);
    c_size = g.c_row * g.m;
    batches = g.batch[0] * g.batch[1];
    share_b = random.chance(0.5);
    set_strides(g.a_batch, a_size, g);
    if (!share_b) set_strides(g.b_batch, b_size, g);
    set_strides(g.c_batch, c_size, g);
  }
};

// What the epilogue of a product may read.
struct EpilogueNumbers {
  Guarded<float> bias, row_bias, multiplier, residual;

  EpilogueNumbers(Random& random, const Product& p)
      : bias(numbers(random, p.g.n)),
        row_bias(numbers(random, p.g.m)),
        multiplier(numbers(random, p.c_size * p.batches)),
        residual(numbers(random, p.c_size * p.batches)) {}

  // on_top: the residual is c itself.
  Epilogue some(Random& random, const Product& p, bool on_top) const {
    Epilogue e;
    if (random.chance(0.5)) e.bias = bias.data();
    if (random.chance(0.1)) e.row_bias = row_bias.data();
    if (on_top) {
      e.residual = p.g.c;
    } else {
      if (random.chance(0.3)) e.scale = random.normal();
      if (random.chance(0.7)) e.activation = kActivations[random.integer(0, std::size(kActivations) - 1)];
      e.p = -0.5f;
      e.q = 1.5f;
      if (random.chance(0.3)) e.multiplier = multiplier.data();
      if (random.chance(0.3)) e.residual = residual.data();
      e.residual_first = random.chance(0.3);
      e.multiplier_row = p.g.c_row;
      set_strides(e.multiplier_batch, p.c_size, p.g);
    }
    e.residual_row = p.g.c_row;
    set_strides(e.residual_batch, p.c_size, p.g);
    return e;
  }
};

struct Expected {
  double want = 0, slack = 0;  // the value, and the size of the terms that it is made of
};

Expected product_at(const Gemm& g, const float* a, const float* b, int64_t i, int64_t j) {
  Expected sum;
  for (int64_t l = 0; l < g.k; ++l) {
    const double term = double(a[i * g.a_row + l * g.a_col]) * b[l * g.b_row + j * g.b_col];
    sum.want += term;
    sum.slack += std::fabs(term);
  }
  if (std::isnan(sum.slack) || std::isinf(sum.slack)) sum.slack = 0;  // the sum itself is what counts
  return sum;
}

// at: of the element in c, multiplier and residual; i, j: its row and column.
Expected with_epilogue(const Epilogue& e, Expected sum, int64_t at, int64_t i, int64_t j, double residual) {
  double want = sum.want * e.scale, slack = sum.slack * std::fabs(e.scale);
  const auto plus = [&](double x) {
    want += x;
    slack += std::fabs(x);
  };
  if (e.bias != nullptr) plus(e.bias[j]);
  if (e.row_bias != nullptr) plus(e.row_bias[i]);
  if (e.residual != nullptr && e.residual_first) plus(residual);
  if (e.activation == Unary::square) slack *= 2 * std::fabs(want) + 1;
  want = value_of(e.activation, want, e.p, e.q);
  slack = slack * 1.2 + std::fabs(want);
  if (e.multiplier != nullptr) {
    want *= e.multiplier[at];
    slack *= std::fabs(e.multiplier[at]) + 1e-3;
  }
  if (e.residual != nullptr && !e.residual_first) plus(residual);
  return {want, slack};
}

void gemm_case(Random& random, const Kernels& k) {
  Product p(random);
  Gemm& g = p.g;
  const Gemm unpacked = g;
  const double odd = random.chance(0.1) ? 0.01 : 0;
  const int64_t copies_of_b = p.share_b ? 1 : p.batches;
  const Guarded<float> a = numbers(random, p.a_size * p.batches, odd), b = numbers(random, p.b_size * copies_of_b, odd);
  Guarded<float> c = numbers(random, p.c_size * p.batches);
  const Guarded<float> c_before = c;
  const EpilogueNumbers more(random, p);
  g.a = a.data();
  g.b = b.data();
  g.c = c.data();
  Guarded<float> packed(random, k.packed_size(g.k, g.n) * copies_of_b);
  if (random.chance(0.5)) {
    for (int64_t i = 0; i < copies_of_b; ++i) {
      PackB pack{g.k, g.n, g.b + i * p.b_size, g.b_row, g.b_col, packed.data() + i * k.packed_size(g.k, g.n)};
      RUN(k, pack_b, pack);
    }
    ASSERT_TRUE(packed.intact());
    g.packed = packed.data();
    g.b = nullptr;
    if (!p.share_b) set_strides(g.b_batch, k.packed_size(g.k, g.n), g);
  }
  Guarded<float> packed_a(random, k.packed_a_size(g.m, g.k));
  if (p.batches == 1 && random.chance(0.3)) {
    const PackA pack{g.m, g.k, g.a, g.a_row, g.a_col, packed_a.data()};
    RUN(k, pack_a, pack);
    ASSERT_TRUE(packed_a.intact());
    g.packed_a = packed_a.data();
    g.a = nullptr;
  }
  const bool on_top = random.chance(0.1);
  g.epilogue = more.some(random, p, on_top);
  RUN(k, gemm, g);
  ASSERT_TRUE(c.intact());
  for (int64_t batch = 0; batch < p.batches; ++batch) {
    const float* ab = a.data() + batch * p.a_size;
    const float* bb = b.data() + batch / g.batch[1] * unpacked.b_batch[0] + batch % g.batch[1] * unpacked.b_batch[1];
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.c_row; ++j) {
        const int64_t at = batch * p.c_size + i * g.c_row + j;
        if (j >= g.n) {
          ASSERT_EQ(c[at], c_before[at]) << "wrote between the rows";
          continue;
        }
        const auto [want, slack] = with_epilogue(g.epilogue, product_at(g, ab, bb, i, j), at, i, j,
                                                 on_top ? c_before[at] : more.residual[at]);
        ASSERT_TRUE(agrees(c[at], want, slack * kEps * (8 + std::sqrt(double(g.k))), slack))
            << "m " << g.m << " n " << g.n << " k " << g.k << " at " << i << ' ' << j << " activation "
            << name_of(g.epilogue.activation);
      }
  }
}

TEST(Gemm, IsTheProductWithItsEpilogue) {
  Random random(1);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 700 && !testing::Test::HasFatalFailure(); ++i) gemm_case(random, k);
  });
}

// Each of 768 small products added to a bias of 1 would be rounded to a multiple of its last bit.
TEST(Gemm, ALargeBiasDoesNotCostTheProductsTheirDigits) {
  Random random(41);
  each_isa([&](const Kernels& k) {
    for (const int64_t rows : {1, 3, 40}) {
      for (const bool is_packed : {false, true}) {
        Gemm g;
        g.m = rows;
        g.n = g.b_row = g.c_row = 64;
        g.k = g.a_row = 768;
        const Guarded<float> a = numbers(random, g.m * g.k), b = numbers(random, g.k * g.n);
        std::vector<float> small(static_cast<size_t>(b.size()));
        for (int64_t i = 0; i < b.size(); ++i) small[i] = b[i] * 1e-4f;
        const std::vector<float> bias(static_cast<size_t>(g.n), 1.0f);
        Guarded<float> c(random, g.m * g.n), packed(random, k.packed_size(g.k, g.n));
        g.a = a.data();
        g.b = small.data();
        g.c = c.data();
        g.epilogue.bias = bias.data();
        if (is_packed) {
          const PackB pack{g.k, g.n, g.b, g.b_row, g.b_col, packed.data()};
          RUN(k, pack_b, pack);
          g.packed = packed.data();
        }
        RUN(k, gemm, g);
        for (int64_t i = 0; i < c.size(); ++i) {
          double want = 1;
          for (int64_t l = 0; l < g.k; ++l) want += double(a[i / g.n * g.k + l]) * small[l * g.n + i % g.n];
          ASSERT_NEAR(c[i], want, 1.5e-7) << rows << " rows";
        }
      }
    }
  });
}

}  // namespace
}  // namespace pycandle::cpu
