// Gather, scatter, orders, windows and running results.
#include "base/strides.h"
#include "primitive_runner.h"

namespace pycandle {
namespace {

using D = Dims;
using I = Ints;

Attributes axis(int64_t a) { return {{"axis", a}}; }

// ---- gather

TEST(Gather, TakeReplacesTheAxisByTheShapeOfTheIndices) {
  for (DType d : all_dtypes()) {
    const Array x = pattern(d, {3, 2});
    const std::vector<double> v = load_double(x);
    expect_values(run("take", {x, i64({2}, {2, 0})}, axis(0)), {v[4], v[5], v[0], v[1]});
    expect_values(run("take", {x, i64({1, 2}, {1, 1})}, axis(1)), {v[1], v[1], v[3], v[3], v[5], v[5]});
  }
  EXPECT_EQ(run("take", {pattern(DType::f32, {3, 2, 4}), i64({5, 1}, {0, 1, 0, 1, 1})}, axis(1)).shape(), (Sizes{3, 5, 1, 4}));
  expect_array(run("take", {i64({3}, {5, 6, 7}), i64({}, {1})}, axis(0)), i64({}, {6}));
  expect_array(run("take", {i64({3}, {5, 6, 7}), numbers_of(DType::i32, {1}, {2})}, axis(0)), i64({1}, {7}));
  EXPECT_EQ(run("take", {Array(DType::f32, {3, 0}), i64({2}, {0, 1})}, axis(0)).shape(), (Sizes{2, 0}));
  EXPECT_EQ(run("take", {Array(DType::f32, {0, 3}), Array(DType::i64, {0})}, axis(0)).shape(), (Sizes{0, 3}));
}

TEST(Gather, FollowsTorchGather) {
  for (DType d : all_dtypes()) {
    const Array x = pattern(d, {2, 3});
    const std::vector<double> v = load_double(x);
    expect_values(run("gather", {x, i64({2, 2}, {2, 0, 1, 1})}, axis(1)), {v[2], v[0], v[4], v[4]});
    expect_values(run("gather", {x, i64({1, 3}, {1, 0, 1})}, axis(0)), {v[3], v[1], v[5]});
  }
  // Smaller on another axis: only the first row is read.
  expect_array(run("gather", {i64({2, 2}, {1, 2, 3, 4}), i64({1, 1}, {1})}, axis(1)), i64({1, 1}, {2}));
}

TEST(Gather, AnIndexOutsideNamesIndexAndSize) {
  const Array x = f32({3}, {1, 2, 3});
  for (const char* op : {"take", "gather"}) {
    for (int64_t bad : {int64_t{3}, int64_t{-1}}) {
      const std::string error = error_of([&] { run(op, {x, i64({1}, {bad})}, axis(0)); });
      EXPECT_NE(error.find("index " + std::to_string(bad)), std::string::npos) << error;
      EXPECT_NE(error.find("size 3"), std::string::npos) << error;
    }
  }
  EXPECT_NE(error_of([&] { run("gather_nd", {x, i64({1}, {-4})}, {{"axes", I{0}}}); }).find("index -4"), std::string::npos);
  EXPECT_NE(error_of([&] { run("scatter", {x, i64({1}, {3}), f32({1}, {0})}, axis(0)); }).find("index 3"), std::string::npos);
}

TEST(Gather, AdvancedIndexingPutsTheIndicesWhereTorchDoes) {
  const Array x = pattern(DType::i64, {2, 3, 4});
  const std::vector<int64_t> v = load_int(x);
  const auto at = [&](int64_t i, int64_t j, int64_t k) { return v[(i * 3 + j) * 4 + k]; };
  // x[:, [2, 0], [-1, 1]]: consecutive axes, in place.
  expect_array(run("gather_nd", {x, i64({2}, {2, 0}), i64({2}, {-1, 1})}, {{"axes", I{1, 2}}}),
               i64({2, 2}, {at(0, 2, 3), at(0, 0, 1), at(1, 2, 3), at(1, 0, 1)}));
  // x[[1, 0, 1], :, [0, 2, 3]]: apart, first.
  std::vector<int64_t> expected;
  for (auto [i, k] : {std::pair<int64_t, int64_t>{1, 0}, {0, 2}, {1, 3}}) {
    for (int64_t j = 0; j < 3; ++j) expected.push_back(at(i, j, k));
  }
  expect_array(run("gather_nd", {x, i64({3}, {1, 0, 1}), i64({3}, {0, 2, 3})}, {{"axes", I{0, 2}}}), i64({3, 3}, expected));
  EXPECT_EQ(run("gather_nd", {x, i64({2, 5}, std::vector<int64_t>(10, 1))}, {{"axes", I{1}}}).shape(), (Sizes{2, 2, 5, 4}));
  EXPECT_EQ(run("gather_nd", {x, Array(DType::i64, {0})}, {{"axes", I{1}}}).shape(), (Sizes{2, 0, 4}));
  for (DType d : all_dtypes()) {
    const Array y = pattern(d, {4});
    expect_values(run("gather_nd", {y, i64({2}, {-1, 0})}, {{"axes", I{0}}}), {load_double(y)[3], load_double(y)[0]});
  }
}

// ---- scatter

TEST(Scatter, WritesEveryDtype) {
  for (DType d : all_dtypes()) {
    const Array x = Array(d, {2, 3}), ones = numbers_of(d, {2, 1}, {1, 1});
    expect_array(run("scatter", {x, i64({2, 1}, {2, 0}), ones}, axis(1)), numbers_of(d, {2, 3}, {0, 0, 1, 1, 0, 0}));
    expect_array(run("scatter_nd", {x, numbers_of(d, {2}, {1, 1}), i64({2}, {0, -1}), i64({2}, {1, -1})}, {{"axes", I{0, 1}}}),
                 numbers_of(d, {2, 3}, {0, 1, 0, 0, 0, 1}));
  }
  // Of src only the part that index covers is used; of several writers the last stays.
  expect_array(run("scatter", {i64({3}, {0, 0, 0}), i64({2}, {1, 1}), i64({3}, {5, 6, 7})}, axis(0)), i64({3}, {0, 6, 0}));
}

TEST(Scatter, CombinesWhatMeets) {
  const Array x = f32({3}, {1, 1, 1}), index = i64({3}, {0, 0, 1}), src = f32({3}, {2, 4, 6});
  const auto scatter = [&](const char* reduce, bool include_self) {
    return run("scatter", {x, index, src},
               {{"axis", int64_t{0}}, {"reduce", std::string(reduce)}, {"include_self", include_self}});
  };
  expect_values(scatter("add", true), {7, 7, 1});
  expect_values(scatter("add", false), {6, 6, 1});
  expect_values(scatter("multiply", true), {8, 6, 1});
  expect_values(scatter("amax", true), {4, 6, 1});
  expect_values(scatter("amin", true), {1, 1, 1});
  expect_values(scatter("amin", false), {2, 6, 1});
  expect_values(scatter("mean", true), {static_cast<float>(7.0 / 3), 3.5, 1});
  expect_values(scatter("mean", false), {3, 6, 1});
  // torch.ones(3, dtype=int64).scatter_reduce(0, [0, 0, 1], [2, -8, 6], "mean")
  expect_array(
      run("scatter", {i64({3}, {1, 1, 1}), index, i64({3}, {2, -8, 6})}, {{"axis", int64_t{0}}, {"reduce", std::string("mean")}}),
      i64({3}, {-2, 3, 1}));
  expect_values(run("scatter", {numbers_of(DType::f16, {1}, {2048}), i64({2}, {0, 0}), numbers_of(DType::f16, {2}, {1, 1})},
                    {{"axis", int64_t{0}}, {"reduce", std::string("add")}}),
                {2050});
}

TEST(Scatter, IndexPutReplacesOrAccumulates) {
  const Array x = i64({2, 3}, {0, 0, 0, 0, 0, 0});
  const Array rows = run("scatter_nd", {x, i64({2, 3}, {1, 2, 3, 4, 5, 6}), i64({2}, {1, 1})},
                         {{"axes", I{0}}, {"accumulate", true}});
  expect_array(rows, i64({2, 3}, {0, 0, 0, 5, 7, 9}));
  expect_array(run("scatter_nd", {x, i64({2, 2}, {1, 2, 3, 4}), i64({2}, {2, 0})}, {{"axes", I{1}}}),
               i64({2, 3}, {2, 0, 1, 4, 0, 3}));
  EXPECT_NE(
      error_of([&] { run("scatter_nd", {x, i64({3}, {1, 2, 3}), i64({2}, {1, 1})}, {{"axes", I{0}}}); }).find("scatter_nd_c5"),
      std::string::npos);
}

// ---- orders

TEST(Sorting, SortsStablyAndNanIsLargest) {
  for (DType d : real_dtypes()) {
    const Arrays up = run.all("sort", {numbers_of(d, {2, 3}, {3, 1, 3, 0, 2, 1})}, {{"axis", int64_t{1}}});
    expect_array(up[0], numbers_of(d, {2, 3}, {1, 3, 3, 0, 1, 2}));
    expect_array(up[1], i64({2, 3}, {1, 0, 2, 0, 2, 1}));
    const Arrays down = run.all("sort", {numbers_of(d, {3, 1}, {3, 1, 3})}, {{"axis", int64_t{0}}, {"descending", true}});
    expect_array(down[0], numbers_of(d, {3, 1}, {3, 3, 1}));
    expect_array(down[1], i64({3, 1}, {0, 2, 1}));
  }
  const Arrays nan = run.all("sort", {f32({4}, {1, kNan, -1, kNan})}, {{"axis", int64_t{0}}, {"descending", true}});
  expect_values(nan[0], {kNan, kNan, 1, -1});
  expect_values(nan[1], {1, 3, 0, 2});
  expect_values(run("sort", {f32({3}, {kNan, 2, 1})}, axis(0)), {1, 2, kNan});
  EXPECT_EQ(run("sort", {Array(DType::f32, {2, 0})}, axis(1)).shape(), (Sizes{2, 0}));
  expect_array(run("sort", {bools({3}, {1, 0, 1})}, axis(0)), bools({3}, {0, 1, 1}));
}

TEST(Sorting, StableTopkTakesTheFirstOfEqualOnes) {
  const Array x = f32({2, 4}, {1, 4, 4, 2, 9, kNan, 3, 9});
  const Arrays top = run.all("topk", {x}, {{"k", Dim(2)}, {"axis", int64_t{1}}, {"stable", true}});
  expect_values(top[0], {4, 4, kNan, 9});
  expect_values(top[1], {1, 2, 1, 0});
  const Arrays low = run.all("topk", {x}, {{"k", Dim(1)}, {"axis", int64_t{0}}, {"largest", false}});
  expect_values(low[0], {1, 4, 3, 2});
  EXPECT_EQ(low[1].shape(), (Sizes{1, 4}));
  EXPECT_EQ(run("topk", {x}, {{"k", Dim(0)}, {"axis", int64_t{1}}}).shape(), (Sizes{2, 0}));
  EXPECT_NE(error_of([&] { run("topk", {x}, {{"k", Dim(5)}, {"axis", int64_t{1}}}); }).find("topk_c3"), std::string::npos);
}

TEST(Sorting, NonzeroListsIndicesInOrder) {
  for (DType d : all_dtypes()) {
    expect_array(run("nonzero", {numbers_of(d, {2, 2}, {0, 1, 1, 0})}, {{"count", Dim::symbol("u0")}}),
                 i64({2, 2}, {0, 1, 1, 0}));
  }
  expect_array(run("nonzero", {i64({}, {5})}, {{"count", Dim::symbol("u0")}}), Array(DType::i64, {1, 0}));
  EXPECT_EQ(run("nonzero", {Array(DType::f32, {3, 2})}, {{"count", Dim::symbol("u0")}}).shape(), (Sizes{0, 2}));
}

// ---- windows

Attributes window(std::string kind, I size, I strides, I dilation, I low, I high) {
  Attributes attributes = {
      {"window", size}, {"strides", strides}, {"dilation", dilation}, {"padding_low", low}, {"padding_high", high}};
  if (!kind.empty()) attributes.insert(attributes.begin(), {"kind", kind});
  return attributes;
}

TEST(Windows, AgreeWithTheNaiveForm) {
  struct Case {
    Sizes x;
    I window, strides, dilation, low, high;
  };
  const Case cases[] = {
      {{2, 3, 7}, {3}, {2}, {1}, {1}, {1}},
      {{2, 6, 7}, {2, 3}, {1, 2}, {1, 2}, {0, 1}, {1, 2}},
      {{1, 2, 5, 6}, {3, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 2, 5, 6}, {1, 1, 3, 2}, {1, 1, 2, 1}, {1, 1, 1, 3}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {{4, 5, 6}, {2, 2, 2}, {1, 2, 3}, {1, 1, 2}, {1, 1, 1}, {1, 0, 0}},
      {{2, 8}, {2}, {2}, {1}, {-1}, {-1}},
  };
  for (const Case& c : cases) {
    for (DType d : {DType::f32, DType::bf16, DType::i64, DType::i8}) {
      const Array x = pattern(d, c.x);
      const std::vector<double> v = load_double(x);
      const size_t leading = c.x.size() - c.window.size();
      for (const char* kind : {"sum", "max", "min"}) {
        const Array got = run("reduce_window", {x}, window(kind, c.window, c.strides, c.dilation, c.low, c.high));
        std::vector<double> expected;
        std::vector<int64_t> places;
        for (IndexWalk o(got.shape()); !o.done(); o.next()) {
          double value = std::string(kind) == "sum" ? 0 : std::string(kind) == "max" ? -kInf : kInf;
          int64_t place = -1;
          for (IndexWalk k(c.window); !k.done(); k.next()) {
            Sizes index = o.index();
            bool inside = true;
            for (size_t a = 0; a < c.window.size(); ++a) {
              index[leading + a] = index[leading + a] * c.strides[a] + k.index()[a] * c.dilation[a] - c.low[a];
              inside = inside && index[leading + a] >= 0 && index[leading + a] < c.x[leading + a];
            }
            if (!inside) continue;
            int64_t at = 0, in_plane = 0;
            for (size_t a = 0; a < index.size(); ++a) {
              at = at * c.x[a] + index[a];
              if (a >= leading) in_plane = in_plane * c.x[a] + index[a];
            }
            const double next = v[at];
            if (std::string(kind) == "max" && next > value) place = in_plane;
            value = std::string(kind) == "sum"   ? value + next
                    : std::string(kind) == "max" ? std::max(value, next)
                                                 : std::min(value, next);
          }
          expected.push_back(value);
          places.push_back(place);
        }
        expect_array(got, numbers_of(d, got.shape(), expected));
        if (std::string(kind) == "max")
          expect_array(run("window_argmax", {x}, window("", c.window, c.strides, c.dilation, c.low, c.high)),
                       i64(got.shape(), places));
      }
    }
  }
}

TEST(Windows, NanIsTheMaximumAndTheLastOneIsFound) {
  // torch.nn.functional.max_pool2d([[1, nan], [2, nan]], 2, return_indices=True)
  const Attributes two = window("", {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0});
  expect_values(run("window_argmax", {f32({1, 2, 2}, {1, kNan, 2, kNan})}, two), {3});
  expect_values(run("window_argmax", {f32({1, 2, 2}, {1, 5, 5, 3})}, two), {1});
  expect_values(run("reduce_window", {f32({1, 2, 2}, {1, kNan, 2, 7})}, window("max", {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0})),
                {kNan});
  expect_values(run("reduce_window", {f32({2}, {2, 3})}, window("prod", {2}, {1}, {1}, {1}, {0})), {2, 6});
  EXPECT_NE(
      error_of([] { run("reduce_window", {f32({2}, {2, 3})}, window("sum", {3}, {1}, {1}, {0}, {0})); }).find("reduce_window_c3"),
      std::string::npos);
}

TEST(Windows, AdaptiveCellsDivideTheAxis) {
  const Array x = f32({1, 7}, {1, 2, 3, 4, 5, 6, 7});
  const auto adaptive = [&](const Array& a, const char* kind, D output) {
    return run("adaptive_window", {a}, {{"kind", std::string(kind)}, {"output", output}});
  };
  // torch's cells of 7 in 3: [0, 3), [2, 5), [4, 7)
  expect_values(adaptive(x, "sum", {3}), {6, 12, 18});
  expect_values(adaptive(x, "mean", {3}), {2, 4, 6});
  expect_values(adaptive(x, "max", {3}), {3, 5, 7});
  expect_values(adaptive(x, "min", {3}), {1, 3, 5});
  expect_values(run("adaptive_window_argmax", {x}, {{"output", D{3}}}), {2, 4, 6});
  // F.adaptive_avg_pool2d(arange(12).view(1, 3, 4), (2, 3)) and its maxima
  const Array plane = numbers_of(DType::f64, {1, 3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  expect_values(adaptive(plane, "mean", {2, 3}), {2.5, 3.5, 4.5, 6.5, 7.5, 8.5});
  expect_values(run("adaptive_window_argmax", {plane}, {{"output", D{2, 3}}}), {5, 6, 7, 9, 10, 11});
  for (DType d : kFloats) expect_array(adaptive(numbers_of(d, {4}, {1, 2, 3, 4}), "mean", {1}), numbers_of(d, {1}, {2.5}));
  expect_values(adaptive(f32({2}, {1, 2}), "max", {4}), {1, 1, 2, 2});
}

// ---- running results

TEST(Cumulative, SumsAndProductsAlongAnyAxis) {
  for (DType d : all_dtypes()) {
    if (d == DType::boolean) continue;
    const Array x = numbers_of(d, {2, 3}, {1, 2, 3, 4, 5, 6});
    expect_array(run("cumsum", {x}, axis(1)), numbers_of(d, {2, 3}, {1, 3, 6, 4, 9, 15}));
    expect_array(run("cumsum", {x}, axis(0)), numbers_of(d, {2, 3}, {1, 2, 3, 5, 7, 9}));
    expect_array(run("cumprod", {x}, axis(1)), numbers_of(d, {2, 3}, {1, 2, 6, 4, 20, 120}));
    EXPECT_EQ(run("cumsum", {Array(d, {0, 3})}, axis(1)).shape(), (Sizes{0, 3}));
    EXPECT_EQ(run("cumsum", {Array(d, {3, 0})}, axis(1)).shape(), (Sizes{3, 0}));
  }
  // The running sum is kept in double and only what is stored is rounded.
  expect_values(run("cumsum", {numbers_of(DType::bf16, {3}, {256, 1, 1})}, axis(0)), {256, 256, 258});
}

TEST(Cumulative, ExtremesAsTorch) {
  const Arrays most = run.all("cummax", {f32({5}, {1, 1, kNan, 2, kNan})}, axis(0));
  expect_values(most[0], {1, 1, kNan, kNan, kNan});
  expect_values(most[1], {0, 1, 2, 2, 4});
  for (DType d : real_dtypes()) {
    const Arrays least = run.all("cummin", {numbers_of(d, {4, 1}, {3, 4, 1, 1})}, axis(0));
    expect_array(least[0], numbers_of(d, {4, 1}, {3, 3, 1, 1}));
    expect_array(least[1], i64({4, 1}, {0, 0, 2, 3}));
  }
  EXPECT_EQ(run.all("cummax", {Array(DType::f32, {2, 0})}, axis(1))[1].shape(), (Sizes{2, 0}));
}

TEST(Cumulative, LogarithmsOfSumsOfExponentials) {
  expect_near(run("logcumsumexp", {f32({3}, {0, 1, 1000})}, axis(0)), {0, std::log(1 + std::exp(1.0)), 1000}, 1e-7);
  expect_values(run("logcumsumexp", {f32({5}, {-kInf, -kInf, 1, kInf, kNan})}, axis(0)), {-kInf, -kInf, 1, kInf, kNan});
}

}  // namespace
}  // namespace pycandle
