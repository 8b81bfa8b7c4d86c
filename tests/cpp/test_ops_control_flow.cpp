// Regions, Fourier transforms, random numbers and slices whose place is data.
#include <numbers>

#include "primitive_runner.h"

namespace pycandle {
namespace {

using D = Dims;
using I = Ints;

// ---- regions

// A region over inputs of these types; `build` gives its outputs.
template <class F> Graph region(const std::vector<Type>& types, F&& build) {
  Graph graph;
  Builder b(graph, catalogue());
  Values inputs;
  for (const Type& type : types) inputs.push_back(graph.add_input(type));
  graph.outputs = build(b, inputs);
  return graph;
}
template <class... G> std::vector<Graph> regions(G... graphs) {
  std::vector<Graph> all;
  (all.push_back(std::move(graphs)), ...);
  return all;
}

TEST(ControlFlow, CondRunsOneBranch) {
  const Type x{DType::f32, {2}};
  const auto branches = [&] {
    return regions(region({x}, [](Builder& b, const Values& v) { return Values{b.create("add", {v[0], v[0]}), v[0]}; }),
                   region({x}, [](Builder& b, const Values& v) { return Values{b.create("neg", {v[0]}), v[0]}; }));
  };
  expect_values(run.all("cond", {bools({}, {1}), f32({2}, {1, 2})}, {}, branches())[0], {2, 4});
  expect_values(run.all("cond", {bools({}, {0}), f32({2}, {1, 2})}, {}, branches())[0], {-1, -2});
  const auto different = [&] {
    return regions(
        region({x}, [](Builder&, const Values& v) { return Values{v[0]}; }),
        region({x}, [](Builder& b, const Values& v) { return Values{b.create("cast", {v[0]}, {{"dtype", DType::i64}})}; }));
  };
  EXPECT_NE(error_of([&] { run.all("cond", {bools({}, {1}), f32({2}, {1, 2})}, {}, different()); }).find("cond_c3"),
            std::string::npos);
}

TEST(ControlFlow, WhileLoopRunsUntilTheConditionFails) {
  const Type i{DType::i64, {}};
  const auto one = [](Builder& b) {
    return b.create("constant", {}, {{"value", int64_t{1}}, {"shape", D{}}, {"dtype", DType::i64}});
  };
  // (n, product) → while n > 1: (n - 1, product * n)
  const auto bodies = [&] {
    return regions(region({i, i}, [&](Builder& b, const Values& v) { return Values{b.create("gt", {v[0], one(b)})}; }),
                   region({i, i}, [&](Builder& b, const Values& v) {
                     return Values{b.create("sub", {v[0], one(b)}), b.create("mul", {v[1], v[0]})};
                   }));
  };
  const Arrays out = run.all("while_loop", {i64({}, {5}), i64({}, {1})}, {}, bodies());
  expect_array(out[0], i64({}, {1}));
  expect_array(out[1], i64({}, {120}));
  expect_array(run.all("while_loop", {i64({}, {0}), i64({}, {7})}, {}, bodies())[1], i64({}, {7}));
}

std::vector<Graph> running_sum(DType d) {
  const Type x{d, {2}};
  // carry + x, and twice the new carry as the step's output
  return regions(region({x, x}, [](Builder& b, const Values& v) {
    const ValueId next = b.create("add", {v[0], v[1]});
    return Values{next, b.create("add", {next, next})};
  }));
}

TEST(ControlFlow, ScanCarriesSlicesAndStacks) {
  for (DType d : real_dtypes()) {
    const Array init = numbers_of(d, {2}, {1, 0}), xs = numbers_of(d, {3, 2}, {1, 2, 3, 4, 5, 6});
    const Arrays forward = run.all("scan", {init, xs}, {{"carries", int64_t{1}}, {"length", Dim(3)}}, running_sum(d));
    expect_array(forward[0], numbers_of(d, {2}, {10, 12}));
    expect_array(forward[1], numbers_of(d, {3, 2}, {4, 4, 10, 12, 20, 24}));
    const Arrays backward = run.all("scan", {init, xs}, {{"carries", int64_t{1}}, {"length", Dim(3)}, {"reverse", true}},
                                    running_sum(d));
    expect_array(backward[0], numbers_of(d, {2}, {10, 12}));
    expect_array(backward[1], numbers_of(d, {3, 2}, {20, 24, 18, 20, 12, 12}));
  }
}

TEST(ControlFlow, ScanOfNothingKeepsTheCarry) {
  const Arrays out = run.all("scan", {f32({2}, {1, 2}), Array(DType::f32, {0, 2})}, {{"carries", int64_t{1}}, {"length", Dim(0)}},
                             running_sum(DType::f32));
  expect_values(out[0], {1, 2});
  EXPECT_EQ(out[1].shape(), (Sizes{0, 2}));
}

TEST(ControlFlow, ScanInF64ModeDoesNotRound) {
  const Arrays out = in_f64().all("scan", {f64({2}, {0.1, 0}), f64({1, 2}, {0.2, 16777217})},
                                  {{"carries", int64_t{1}}, {"length", Dim(1)}}, running_sum(DType::f32));
  expect_array(out[0], f64({2}, {0.1 + 0.2, 16777217}));
}

TEST(ControlFlow, ScanRunsOverASymbolicLength) {
  Graph graph;
  Builder b(graph, catalogue());
  const Dim s = Dim::symbol("s0");
  const ValueId init = graph.add_input({DType::i64, {2}}), xs = graph.add_input({DType::i64, {s, 2}});
  graph.outputs = b.create_all("scan", {init, xs}, {{"carries", int64_t{1}}, {"length", s}}, running_sum(DType::i64));
  EXPECT_EQ(graph.type(graph.outputs[1]).shape, (Shape{s, 2}));
  expect_array(run.run_graph(graph, {i64({2}, {0, 0}), i64({2, 2}, {1, 2, 3, 4})}, {{"s0", 2}})[1], i64({2, 2}, {2, 4, 8, 12}));
}

TEST(ControlFlow, ScanRefusesRegionsThatDoNotFit) {
  const Arrays operands = {f32({2}, {1, 2}), f32({3, 2}, {1, 2, 3, 4, 5, 6})};
  EXPECT_NE(error_of([&] {
              run.all("scan", operands, {{"carries", int64_t{1}}, {"length", Dim(4)}}, running_sum(DType::f32));
            }).find("scan_c1"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              run.all("scan", operands, {{"carries", int64_t{1}}, {"length", Dim(3)}}, running_sum(DType::f64));
            }).find("scan_c2"),
            std::string::npos);
}

// ---- fft

TEST(Fft, AgreesWithTheDefinitionAtEveryKindOfLength) {
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 49, 61, 64, 67, 120, 127, 134, 400, 1009}) {
    for (bool inverse : {false, true}) {
      const Array x = store(DType::c128, {n}, [&] {
        std::vector<Complex> v(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) v[i] = {static_cast<double>(i * 7 % 11) - 5, static_cast<double>(i * 5 % 13) - 6};
        return v;
      }());
      const std::vector<Complex> v = load_complex(x),
                                 got = load_complex(run("fft", {x}, {{"axis", int64_t{0}}, {"inverse", inverse}}));
      for (int64_t k = 0; k < n; ++k) {
        Complex sum = 0;
        for (int64_t i = 0; i < n; ++i)
          sum += v[i] *
                 std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i * k % n) / static_cast<double>(n));
        EXPECT_NEAR(std::abs(got[k] - sum), 0, 1e-11 * std::sqrt(static_cast<double>(n))) << n << ", frequency " << k;
      }
    }
  }
}

TEST(Fft, TransformsAnyAxis) {
  const Array x = c64({2, 2}, {1, 2, 3, 4});
  expect_array(run("fft", {x}, {{"axis", int64_t{1}}}), c64({2, 2}, {3, -1, 7, -1}));
  expect_array(run("fft", {x}, {{"axis", int64_t{0}}}), c64({2, 2}, {4, 6, -2, -2}));
  EXPECT_EQ(run("fft", {Array(DType::c64, {0, 4})}, {{"axis", int64_t{1}}}).shape(), (Sizes{0, 4}));
  EXPECT_NE(error_of([] { run("fft", {f32({1}, {1})}, {{"axis", int64_t{0}}}); }).find("fft_c1"), std::string::npos);
}

// ---- random numbers

TEST(Random, FollowsTheSeedAlone) {
  Runner other;
  other.seed = 1;
  for (const char* op : {"uniform", "normal"}) {
    for (DType d : kFloats) {
      const Attributes attributes = {{"shape", D{5000}}, {"dtype", d}};
      const Array a = run(op, {}, attributes);
      EXPECT_TRUE(a.same_bytes(run(op, {}, attributes)));
      EXPECT_FALSE(a.same_bytes(other(op, {}, attributes)));
      double mean = 0, square = 0;
      for (double v : load_double(a)) {
        mean += v / 5000;
        square += v * v / 5000;
        EXPECT_TRUE(op == std::string("normal") || (v >= 0 && v < 1)) << v;
      }
      EXPECT_NEAR(mean, op == std::string("uniform") ? 0.5 : 0, 0.05);
      EXPECT_NEAR(square, op == std::string("uniform") ? 1.0 / 3 : 1, 0.1);
    }
  }
  EXPECT_EQ(run("uniform", {}, {{"shape", D{0}}, {"dtype", DType::f32}}).shape(), Sizes{0});
  EXPECT_TRUE(catalogue().at("normal").is_random);
}

// ---- dynamic slices

TEST(Dynamic, SlicesAndUpdatesAtIndicesThatAreData) {
  for (DType d : all_dtypes()) {
    const Array x = pattern(d, {3, 4}), row = i64({}, {1}), column = numbers_of(DType::i32, {}, {2});
    const std::vector<double> v = load_double(x);
    const Array block = run("dynamic_slice", {x, row, column}, {{"sizes", D{2, 2}}});
    expect_values(block, {v[6], v[7], v[10], v[11]});
    EXPECT_TRUE(run("dynamic_update", {x, block, row, column}).same_bytes(x));
    const std::vector<double> moved = load_double(run("dynamic_update", {x, block, i64({}, {0}), i64({}, {0})}));
    EXPECT_EQ(moved[0], v[6]);
    EXPECT_EQ(moved[5], v[11]);
    EXPECT_EQ(moved[2], v[2]);
  }
  const std::string error = error_of([] { run("dynamic_slice", {f32({3}, {1, 2, 3}), i64({}, {2})}, {{"sizes", D{2}}}); });
  EXPECT_NE(error.find("a block of 2 at 2 leaves axis 0 of size 3"), std::string::npos) << error;
}

TEST(Dynamic, SlicesBetweenNumbersThatAreDataAsPythonDoes) {
  const Array x = f32({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto between = [&](int64_t start, int64_t stop, int64_t count, bool strict) {
    return run("slice_between", {x, i64({}, {start}), i64({}, {stop})},
               {{"axis", int64_t{1}}, {"count", Dim(count)}, {"strict", strict}});
  };
  expect_values(between(1, 3, 2, true), {1, 2, 5, 6});
  expect_values(between(-3, -1, 2, false), {1, 2, 5, 6});
  expect_values(between(2, 99, 2, false), {2, 3, 6, 7});
  expect_values(between(3, 1, 0, false), {});
  EXPECT_NE(error_of([&] { between(2, 5, 2, true); }).find("a slice is outside the axis"), std::string::npos);
  EXPECT_NE(error_of([&] { between(1, 3, 3, false); }).find("another size than was recorded"), std::string::npos);
}

}  // namespace
}  // namespace pycandle
