// Products with narrow weights against naive loops in f64, on every instruction set of the machine: what is exact is held
// to rounding, what makes 16-bit numbers of the activations to what that costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/weight_format.h"
#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

constexpr WeightFormat kNarrow[] = {WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4};

// b[k, n] as the format keeps it, [n][k].
std::vector<float> as_kept(WeightFormat format, const std::vector<float>& columns, int64_t k, int64_t n) {
  std::vector<float> out(columns.size());
  for (int64_t j = 0; j < n; ++j) round_trip(name_of(format))(columns.data() + j * k, k, out.data() + j * k);
  return out;
}

struct Packed {
  std::vector<float> columns, kept;  // [n][k]
  std::vector<uint8_t> bytes;
};

Packed packed_weight(Random& random, const Kernels& kernel, WeightFormat format, int64_t k, int64_t n, double odd) {
  Packed p;
  const float size = std::exp(random.normal() * 2);
  for (int64_t i = 0; i < k * n; ++i) p.columns.push_back(odd > 0 && random.chance(odd) ? random.odd() : random.normal() * size);
  p.kept = as_kept(format, p.columns, k, n);
  std::vector<float> rows(p.columns.size());
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < k; ++i) rows[i * n + j] = p.columns[j * k + i];
  const bool is_turned = random.chance(0.5);
  PackNarrow pack{format,  k,           n, is_turned ? p.columns.data() : rows.data(), is_turned ? 1 : n, is_turned ? k : 1,
                  nullptr, kernel.panel};
  p.bytes.assign(static_cast<size_t>(narrow_size(pack)) + 64, 0x5a);
  pack.out = p.bytes.data();
  const int64_t panels = narrow_panels(pack), cut = random.integer(0, panels);
  pack_narrow(pack, cut, panels);
  pack_narrow(pack, 0, cut);
  EXPECT_EQ(std::count(p.bytes.end() - 64, p.bytes.end(), 0x5a), 64) << "wrote behind its memory";
  return p;
}

// How far an activation may be from itself inside a kernel: half a step of bf16, or of its group's int16.
std::vector<double> activation_errors(WeightFormat format, const float* a, int64_t k, bool is_narrowed) {
  std::vector<double> out(static_cast<size_t>(k), 0);
  if (!is_narrowed || format == WeightFormat::f16) return out;
  for (int64_t i = 0; i < k; ++i) {
    if (format == WeightFormat::bf16) {
      out[i] = std::fabs(double(a[i])) / 256 + 1e-38;
      continue;
    }
    double most = 0;
    for (int64_t j = i / kInt16Group * kInt16Group; j < std::min(k, (i / kInt16Group + 1) * kInt16Group); ++j)
      most = std::max(most, std::fabs(double(a[j])));
    out[i] = most < 1e-30 ? most : most / 32767 * 0.51;
  }
  return out;
}

void narrow_case(Random& random, const Kernels& kernel, WeightFormat format) {
  Gemm g;
  g.format = format;
  g.m = random.chance(0.4) ? random.integer(1, 5) : random.chance(0.02) ? random.integer(250, 520) : random.some_size();
  g.n = random.some_size();
  g.k = random.chance(0.06) ? random.integer(900, 2300) : random.chance(0.3) ? random.integer(100, 300) : random.size();
  const double odd_weights = random.chance(0.1) ? 0.001 : 0, odd_a = random.chance(0.1) ? 0.002 : 0;
  const Packed weight = packed_weight(random, kernel, format, g.k, g.n, odd_weights);
  g.narrow = weight.bytes.data();
  const bool a_turned = random.chance(0.2);
  const int64_t a_ld = (a_turned ? g.m : g.k) + random.integer(0, 5);
  g.a_row = a_turned ? 1 : a_ld;
  g.a_col = a_turned ? a_ld : 1;
  const Guarded<float> a = numbers(random, a_ld * (a_turned ? g.k : g.m), odd_a);
  g.a = a.data();
  g.c_row = g.n + random.integer(0, 5);
  Guarded<float> c = numbers(random, g.c_row * g.m);
  const Guarded<float> before = c, bias = numbers(random, g.n), residual = numbers(random, g.c_row * g.m);
  g.c = c.data();
  const bool on_top = random.chance(0.15);
  if (random.chance(0.5)) g.epilogue.bias = bias.data();
  if (on_top || random.chance(0.3)) g.epilogue.residual = on_top ? g.c : residual.data();
  g.epilogue.residual_row = g.c_row;
  if (!on_top && random.chance(0.3)) g.epilogue.activation = Unary::relu;
  RUN(kernel, narrow_gemm, g);
  ASSERT_TRUE(c.intact());
  for (int64_t i = 0; i < g.m; ++i) {
    std::vector<float> row(static_cast<size_t>(g.k));
    bool is_finite = true;
    for (int64_t l = 0; l < g.k; ++l) is_finite &= std::isfinite(row[l] = a[i * g.a_row + l * g.a_col]);
    const std::vector<double> errors = activation_errors(format, row.data(), g.k, is_finite);
    for (int64_t j = 0; j < g.c_row; ++j) {
      const int64_t at = i * g.c_row + j;
      if (j >= g.n) {
        ASSERT_EQ(c[at], before[at]) << "wrote between the rows";
        continue;
      }
      double want = 0, scale = 0, slack = 0;
      for (int64_t l = 0; l < g.k; ++l) {
        const double w = weight.kept[j * g.k + l];
        want += row[l] * w;
        scale += std::fabs(row[l] * w);
        if (errors[l] > 0) slack += errors[l] * std::fabs(w);
      }
      const auto plus = [&](double x) {
        want += x;
        scale += std::fabs(x);
      };
      if (g.epilogue.bias != nullptr) plus(bias[j]);
      if (g.epilogue.residual != nullptr) {
        if (g.epilogue.activation == Unary::relu) want = std::isnan(want) ? want : std::max(want, 0.0);
        plus(on_top ? before[at] : residual[at]);
      } else if (g.epilogue.activation == Unary::relu) {
        want = std::isnan(want) ? want : std::max(want, 0.0);
      }
      const bool is_huge = std::isnan(scale) || std::isinf(scale);
      const double tolerance = slack + (is_huge ? 0 : scale) * kEps * (8 + std::sqrt(double(g.k)));
      ASSERT_TRUE(agrees(c[at], want, tolerance + 1e-29, is_huge ? 0 : scale))
          << name_of(format) << " m " << g.m << " n " << g.n << " k " << g.k << " at " << i << ' ' << j;
    }
  }
}

TEST(NarrowGemm, IsTheProductWithTheWeightsAsTheyAreKept) {
  Random random(71);
  each_isa_and_model([&](const Kernels& k) {
    for (const WeightFormat format : kNarrow)
      for (int i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) narrow_case(random, k, format);
  });
}

// One or two rows, as in decoding, lose nothing but what the format loses.
TEST(NarrowGemm, FewRowsOfHalvesAreMultipliedInF32) {
  Random random(72);
  each_isa_and_model([&](const Kernels& kernel) {
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::f16}) {
      for (const int64_t rows : {1, 2}) {
        Gemm g;
        g.format = format;
        g.m = rows;
        g.n = g.c_row = 75;
        g.k = g.a_row = 1537;
        const Packed weight = packed_weight(random, kernel, format, g.k, g.n, 0);
        const Guarded<float> a = numbers(random, g.m * g.k);
        Guarded<float> c(random, g.m * g.n);
        g.narrow = weight.bytes.data();
        g.a = a.data();
        g.c = c.data();
        RUN(kernel, narrow_gemm, g);
        for (int64_t i = 0; i < c.size(); ++i) {
          double want = 0, scale = 0;
          for (int64_t l = 0; l < g.k; ++l) {
            const double term = double(a[i / g.n * g.k + l]) * weight.kept[i % g.n * g.k + l];
            want += term;
            scale += std::fabs(term);
          }
          ASSERT_NEAR(c[i], want, scale * kEps * 4) << name_of(format);
        }
      }
    }
  });
}

// A prompt and its last token alone must not differ because they were cut differently.
TEST(NarrowGemm, ARowDoesNotDependOnTheRowsBesideIt) {
  Random random(73);
  each_isa([&](const Kernels& kernel) {
    for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
      Gemm g;
      g.format = format;
      g.m = 40;
      g.n = g.c_row = 64;
      g.k = g.a_row = 768;
      const Packed weight = packed_weight(random, kernel, format, g.k, g.n, 0);
      const Guarded<float> a = numbers(random, g.m * g.k);
      Guarded<float> c(random, g.m * g.n), alone(random, g.n);
      g.narrow = weight.bytes.data();
      g.a = a.data();
      g.c = c.data();
      RUN(kernel, narrow_gemm, g);
      g.m = 1;
      g.a += 39 * g.k;
      g.c = alone.data();
      RUN(kernel, narrow_gemm, g);
      for (int64_t j = 0; j < g.n; ++j) ASSERT_NEAR(alone[j], c[39 * g.n + j], 1e-5 * std::fabs(alone[j]) + 1e-4);
    }
  });
}

TEST(GatherNarrow, GivesTheRowsOfATableAsItIsKept) {
  Random random(74);
  each_isa_and_model([&](const Kernels& kernel) {
    for (const WeightFormat format : kNarrow) {
      for (int i = 0; i < 20; ++i) {
        const int64_t rows = random.some_size(), k = random.some_size();
        const Packed table = packed_weight(random, kernel, format, k, rows, 0.01);
        const int64_t count = random.integer(1, 9);
        std::vector<int64_t> index;
        std::vector<int32_t> index32;
        for (int64_t j = 0; j < count; ++j)
          index32.push_back(static_cast<int32_t>(index.emplace_back(random.integer(0, rows - 1))));
        Guarded<float> out(random, count * k);
        GatherNarrow g{format, count, k, table.bytes.data(), nullptr, nullptr, out.data()};
        (i % 2 == 0 ? static_cast<void>(g.index = index.data()) : static_cast<void>(g.index32 = index32.data()));
        RUN(kernel, gather_narrow, g);
        ASSERT_TRUE(out.intact());
        for (int64_t j = 0; j < count * k; ++j) {
          const float want = table.kept[index[j / k] * k + j % k];
          ASSERT_TRUE(out[j] == want || (std::isnan(out[j]) && std::isnan(want))) << name_of(format) << out[j] << ' ' << want;
        }
      }
    }
  });
}

TEST(WeightFormat, AGridHasItsExtremeAndZeroAndLosesAtMostHalfAStep) {
  Random random(75);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> x(static_cast<size_t>(random.integer(1, 40)));
    for (float& v : x) v = random.normal() * std::exp(random.normal() * 10);
    float most = 0;
    for (const float v : x) most = std::max(most, std::fabs(v));
    for (const auto& [grid, step] : {std::pair(int8_grid(x.data(), int64_t(x.size())), most / 127.0),
                                     std::pair(int4_grid(x.data(), int64_t(x.size())), most / 8.0),
                                     std::pair(int16_grid(x.data(), int64_t(x.size())), most / 32767.0)}) {
      ASSERT_EQ(grid.value_of(grid.index_of(0)), 0);
      for (const float v : x) {
        const bool is_clamped = grid.most == 7 && v / grid.scale > 7.5;  // int4 has one point less on the other side
        ASSERT_LE(std::fabs(grid.value_of(grid.index_of(v)) - v), step * (is_clamped ? 1.01 : 0.51 + 0.02)) << grid.most;
      }
    }
  }
}

TEST(WeightFormat, NumbersThatAreNotFiniteMakeTheirGroupNan) {
  const float x[] = {1, kInf, 2}, tiny[] = {1e-44f, 0, -1e-45f}, none[] = {0, 0};
  for (const auto grid_of : {int8_grid, int4_grid, int16_grid}) {
    const Grid grid = grid_of(x, 3), small = grid_of(tiny, 3), zero = grid_of(none, 2);
    EXPECT_TRUE(std::isnan(grid.value_of(grid.index_of(1))));
    EXPECT_EQ(small.value_of(small.index_of(1e-44f)), 0);
    EXPECT_EQ(zero.value_of(zero.index_of(0)), 0);
  }
}

}  // namespace
}  // namespace pycandle::cpu
