// dot_general and convolution against loops that anyone can check.
#include "ops/linalg/blocked_product.h"
#include "primitive_runner.h"

namespace pycandle {
namespace {

using I = Ints;

Attributes axes(I batch_left, I batch_right, I contract_left, I contract_right) {
  return {{"batch_left", std::move(batch_left)},
          {"batch_right", std::move(batch_right)},
          {"contract_left", std::move(contract_left)},
          {"contract_right", std::move(contract_right)}};
}

// left [m, k] times right [n, k] transposed, in whole numbers: no rounding, so every order of summation agrees.
std::vector<Complex> naive_product(const Array& left, const Array& right, int64_t m, int64_t n, int64_t k) {
  const std::vector<Complex> a = load_complex(left), b = load_complex(right);
  std::vector<Complex> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t d = 0; d < k; ++d) out[i * n + j] += a[i * k + d] * b[j * k + d];
    }
  }
  return out;
}

TEST(DotGeneral, MultipliesEveryNumberDtype) {
  for (DType d : all_dtypes()) {
    if (d == DType::boolean) continue;
    const Array a = numbers_of(d, {2, 3}, {1, 2, 3, 4, 5, 6}), b = numbers_of(d, {3, 2}, {1, 0, 2, 1, 0, 3});
    expect_array(run("dot_general", {a, b}, axes({}, {}, {1}, {0})), numbers_of(d, {2, 2}, {5, 11, 14, 23}));
  }
  expect_array(run("dot_general", {c64({2}, {{1, 2}, {0, 1}}), c64({2}, {{1, 1}, {3, 0}})}, axes({}, {}, {0}, {0})),
               c64({}, {{-1, 6}}));
  expect_array(run("dot_general", {numbers_of(DType::i8, {1}, {100}), numbers_of(DType::i8, {1}, {3})}, axes({}, {}, {0}, {0})),
               numbers_of(DType::i8, {}, {44}));
}

TEST(DotGeneral, AgreesWithTheNaiveFormAtEverySizeAroundTheBlocks) {
  const int64_t sizes[][3] = {{1, 1, 1},     {4, 8, 1},     {5, 9, 3},      {3, 7, 256},
                              {97, 13, 257}, {2, 260, 300}, {96, 256, 256}, {100, 300, 513}};
  for (const auto& [m, n, k] : sizes) {
    for (DType d : {DType::f32, DType::i64, DType::c128}) {
      const Array a = pattern(d, {m, k}), b = pattern(d, {n, k}, 5);
      const Array got = run("dot_general", {a, b}, axes({}, {}, {1}, {1}));
      EXPECT_EQ(load_complex(got), naive_product(a, b, m, n, k)) << m << " " << n << " " << k << " " << name_of(d);
      // The same numbers with either operand lying the other way round in memory.
      const Array at = run("transpose", {a}, {{"permutation", I{1, 0}}}), bt = run("transpose", {b}, {{"permutation", I{1, 0}}});
      EXPECT_TRUE(run("dot_general", {at, bt}, axes({}, {}, {0}, {0})).same_bytes(got));
      EXPECT_TRUE(run("dot_general", {at, b}, axes({}, {}, {0}, {1})).same_bytes(got));
    }
  }
}

TEST(DotGeneral, ResultHasBatchThenLeftThenRight) {
  // Axes in no order: batch 2 and 0, contracted 1 and 3, the rest in the middle.
  const Array a = pattern(DType::i64, {5, 3, 2, 4}), b = pattern(DType::i64, {2, 6, 3, 4}, 3);
  const Array got = run("dot_general", {a, b}, axes({2}, {0}, {3, 1}, {3, 2}));
  ASSERT_EQ(got.shape(), (Sizes{2, 5, 6}));
  const std::vector<int64_t> x = load_int(a), y = load_int(b), z = load_int(got);
  for (int64_t q = 0; q < 2; ++q) {
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        int64_t sum = 0;
        for (int64_t r = 0; r < 3; ++r) {
          for (int64_t s = 0; s < 4; ++s) sum += x[((i * 3 + r) * 2 + q) * 4 + s] * y[((q * 6 + j) * 3 + r) * 4 + s];
        }
        EXPECT_EQ(z[(q * 5 + i) * 6 + j], sum);
      }
    }
  }
}

TEST(DotGeneral, OuterProductsBatchesAndSumsOfNothing) {
  expect_array(run("dot_general", {i64({2}, {1, 2}), i64({3}, {1, 2, 3})}, axes({}, {}, {}, {})),
               i64({2, 3}, {1, 2, 3, 2, 4, 6}));
  expect_array(run("dot_general", {i64({2}, {1, 2}), i64({2}, {3, 4})}, axes({0}, {0}, {}, {})), i64({2}, {3, 8}));
  expect_array(run("dot_general", {Array(DType::f32, {2, 0}), Array(DType::f32, {0, 2})}, axes({}, {}, {1}, {0})),
               f32({2, 2}, {0, 0, 0, 0}));
  EXPECT_EQ(run("dot_general", {Array(DType::f32, {0, 3}), Array(DType::f32, {3, 2})}, axes({}, {}, {1}, {0})).shape(),
            (Sizes{0, 2}));
}

TEST(DotGeneral, AccumulatesInDoubleAndRoundsOnce) {
  std::vector<double> ones(4097, 1.0), values(4097, 1.0);
  values[0] = 16777216;
  expect_values(run("dot_general", {f32({4097}, values), f32({4097}, ones)}, axes({}, {}, {0}, {0})), {16777216 + 4096});
  const Array tenth = f64({1}, {0.1});
  expect_array(in_f64()("dot_general", {tenth, tenth}, axes({}, {}, {0}, {0})), f64({}, {0.1 * 0.1}));
}

TEST(DotGeneral, NanAndInfinityGoThrough) {
  expect_values(run("dot_general", {f32({1, 2}, {kInf, 1}), f32({2, 3}, {0, 1, 1, 1, 1, kNan})}, axes({}, {}, {1}, {0})),
                {kNan, kInf, kNan});
  // A NaN beside the tile must not leak into it through the padding.
  std::vector<double> values(10, 1);
  values[9] = kNan;
  std::vector<double> expected(9, 2);
  expected.push_back(kNan);
  expect_values(run("dot_general", {f32({1, 1}, {2}), f32({1, 10}, values)}, axes({}, {}, {1}, {0})), expected);
}

TEST(DotGeneral, ConstraintsAreCitedByName) {
  const Array a = pattern(DType::f32, {2, 3}), b = pattern(DType::f32, {2, 3});
  EXPECT_NE(error_of([&] { run("dot_general", {a, b}, axes({}, {}, {1}, {0})); }).find("dot_general_c4"), std::string::npos);
  EXPECT_NE(error_of([&] { run("dot_general", {a, b}, axes({1}, {0}, {}, {})); }).find("dot_general_c3"), std::string::npos);
  EXPECT_NE(error_of([&] { run("dot_general", {a, b}, axes({1}, {1}, {1}, {1})); }).find("dot_general_c2"), std::string::npos);
}

TEST(DotGeneral, DoesNotDependOnTheNumberOfThreads) {
  // Numbers whose sums round: another order of summation would show.
  std::vector<double> values(500 * 700);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  const Array a = f64({500, 700}, values), b = f64({700, 500}, values);
  const Array together = run("dot_general", {a, b}, axes({}, {}, {1}, {0})), sum = run("reduce_sum", {a}, {{"axes", I{0}}});
  parallel_for(2, 1, [&](int64_t, int64_t) {  // within a body everything runs on one thread
    EXPECT_TRUE(run("dot_general", {a, b}, axes({}, {}, {1}, {0})).same_bytes(together));
    EXPECT_TRUE(run("reduce_sum", {a}, {{"axes", I{0}}}).same_bytes(sum));
  });
}

// ---- convolution

struct Convolution {
  Sizes x, weight;
  I strides, low, high, dilation, input_dilation;
  int64_t groups = 1;
  Attributes attributes() const {
    return {{"strides", strides},
            {"padding_low", low},
            {"padding_high", high},
            {"dilation", dilation},
            {"input_dilation", input_dilation},
            {"groups", groups}};
  }
};

// Every index of every axis, one multiplication at a time.
std::vector<double> naive_convolution(const Convolution& c, const std::vector<double>& x, const std::vector<double>& weight,
                                      const Sizes& out) {
  const size_t spatial = c.x.size() - 2;
  const Sizes xs = row_major_strides(c.x), ws = row_major_strides(c.weight);
  std::vector<double> result;
  for (IndexWalk o(out); !o.done(); o.next()) {
    double sum = 0;
    const int64_t group = o.index()[1] / (c.weight[0] / c.groups);
    for (IndexWalk k(Sizes(c.weight.begin() + 1, c.weight.end())); !k.done(); k.next()) {
      int64_t at = o.index()[0] * xs[0] + (group * c.weight[1] + k.index()[0]) * xs[1];
      bool inside = true;
      for (size_t a = 0; a < spatial; ++a) {
        const int64_t p = o.index()[a + 2] * c.strides[a] + k.index()[a + 1] * c.dilation[a] - c.low[a];
        inside = inside && p >= 0 && p % c.input_dilation[a] == 0 && p / c.input_dilation[a] < c.x[a + 2];
        if (inside) at += p / c.input_dilation[a] * xs[a + 2];
      }
      if (inside) sum += x[at] * weight[o.index()[1] * ws[0] + k.position()];
    }
    result.push_back(sum);
  }
  return result;
}

TEST(Convolution, AgreesWithTheNaiveForm) {
  const Convolution cases[] = {
      {{1, 1, 5}, {1, 1, 3}, {1}, {0}, {0}, {1}, {1}},
      {{2, 3, 7}, {4, 3, 3}, {2}, {1}, {2}, {2}, {1}},
      {{2, 3, 8, 9}, {5, 3, 3, 2}, {1, 1}, {1, 0}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 4, 10, 11}, {6, 2, 3, 3}, {2, 3}, {1, 2}, {0, 1}, {2, 1}, {1, 1}, 2},
      {{2, 6, 5, 5}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 6},
      {{1, 2, 4, 5}, {3, 2, 3, 3}, {1, 1}, {2, 2}, {2, 3}, {1, 1}, {2, 3}},
      {{1, 2, 6, 6}, {3, 2, 2, 2}, {1, 1}, {-1, -2}, {-1, 0}, {1, 1}, {1, 1}},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 2}, {1, 1, 1}},
      {{1, 3, 20, 20}, {130, 3, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}},
      {{1, 40, 6, 6}, {3, 40, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (const Convolution& c : cases) {
    for (DType d : {DType::f32, DType::f64, DType::i32}) {
      const Array x = pattern(d, c.x), weight = pattern(d, c.weight, 4);
      const Array got = run("convolution", {x, weight}, c.attributes());
      expect_values(got, naive_convolution(c, load_double(x), load_double(weight), got.shape()));
    }
  }
}

TEST(Convolution, TakesEveryNumberDtype) {
  for (DType d : all_dtypes()) {
    if (d == DType::boolean) continue;
    const Convolution c{{1, 1, 4}, {1, 1, 2}, {1}, {0}, {0}, {1}, {1}};
    expect_array(run("convolution", {numbers_of(d, c.x, {1, 2, 3, 4}), numbers_of(d, c.weight, {1, 2})}, c.attributes()),
                 numbers_of(d, {1, 1, 3}, {5, 8, 11}));
  }
}

TEST(Convolution, EmptyBatchesAndErrors) {
  const Convolution empty{{0, 1, 4}, {2, 1, 2}, {1}, {0}, {0}, {1}, {1}};
  EXPECT_EQ(run("convolution", {Array(DType::f32, empty.x), pattern(DType::f32, empty.weight)}, empty.attributes()).shape(),
            (Sizes{0, 2, 3}));
  const Convolution large{{1, 1, 2}, {1, 1, 5}, {1}, {0}, {0}, {1}, {1}};
  EXPECT_NE(error_of([&] {
              run("convolution", {pattern(DType::f32, large.x), pattern(DType::f32, large.weight)}, large.attributes());
            }).find("convolution_c6"),
            std::string::npos);
  const Convolution channels{{1, 3, 5}, {1, 2, 2}, {1}, {0}, {0}, {1}, {1}};
  EXPECT_NE(error_of([&] {
              run("convolution", {pattern(DType::f32, channels.x), pattern(DType::f32, channels.weight)}, channels.attributes());
            }).find("convolution_c4"),
            std::string::npos);
}

}  // namespace
}  // namespace pycandle
