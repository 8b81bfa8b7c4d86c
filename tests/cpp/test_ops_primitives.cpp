// Elementwise ops, comparisons, constants, data movement and reductions, on every dtype they take.
#include "primitive_runner.h"

namespace pycandle {
namespace {

using A = Attributes;
using D = Dims;
using I = Ints;

// ---- elementwise

TEST(Elementwise, RoundsOnceFromTheExactResult) {
  // 2049 does not fit f16: 1 + 2048 is a tie and goes to even, 3 + 2048 to 2052.
  expect_values(run("add", {numbers_of(DType::f16, {2}, {1, 3}), numbers_of(DType::f16, {2}, {2048, 2048})}), {2048, 2052});
  expect_values(run("mul", {numbers_of(DType::bf16, {1}, {1.0078125}), numbers_of(DType::bf16, {1}, {1.0078125})}), {1.015625});
  expect_values(run("add", {f32({1}, {16777216}), f32({1}, {1})}), {16777216});
  expect_values(run("exp", {f32({1}, {1})}), {2.7182817459106445});
}

TEST(Elementwise, KeepsTheExactResultInF64Mode) {
  const Runner exact = in_f64();
  expect_array(exact("add", {f64({1}, {16777216}), f64({1}, {1})}), f64({1}, {16777217}));
  expect_array(exact("exp", {f64({1}, {1})}), f64({1}, {std::exp(1.0)}));
  expect_array(exact("cast", {f64({1}, {0.1})}, {{"dtype", DType::f16}}), f64({1}, {0.1}));
  expect_array(exact("constant", {}, {{"value", 0.1}, {"shape", D{}}, {"dtype", DType::f32}}), f64({}, {0.1}));
  EXPECT_EQ(exact("eq", {f64({1}, {1}), f64({1}, {1})}).dtype(), DType::boolean);
}

TEST(Elementwise, AddsEveryNumberDtype) {
  for (DType d : all_dtypes()) {
    if (d == DType::boolean) continue;
    expect_array(run("add", {numbers_of(d, {3}, {1, 2, 3}), numbers_of(d, {3}, {10, 20, 30})}), numbers_of(d, {3}, {11, 22, 33}));
    expect_array(run("mul", {numbers_of(d, {3}, {1, 2, 3}), numbers_of(d, {3}, {2, 2, 2})}), numbers_of(d, {3}, {2, 4, 6}));
    expect_array(run("sub", {numbers_of(d, {}, {7}), numbers_of(d, {}, {5})}), numbers_of(d, {}, {2}));
    EXPECT_EQ(run("add", {Array(d, {0, 2}), Array(d, {0, 2})}).shape(), (Sizes{0, 2}));
  }
}

TEST(Elementwise, LargeTensorsAreComputedInSeveralChunks) {
  std::vector<double> values(5000), doubled(5000);
  for (size_t i = 0; i < values.size(); ++i) doubled[i] = 2 * (values[i] = static_cast<double>(i) - 2500);
  expect_values(run("add", {f32({50, 100}, values), f32({50, 100}, values)}), doubled);
}

TEST(Elementwise, IntegersWrap) {
  expect_values(run("add", {numbers_of(DType::i8, {2}, {127, -128}), numbers_of(DType::i8, {2}, {1, -1})}), {-128, 127});
  expect_values(run("sub", {numbers_of(DType::u8, {1}, {0}), numbers_of(DType::u8, {1}, {1})}), {255});
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  expect_array(run("add", {i64({1}, {most}), i64({1}, {1})}), i64({1}, {least}));
  expect_array(run("mul", {i64({1}, {most}), i64({1}, {2})}), i64({1}, {-2}));
  expect_array(run("neg", {i64({2}, {least, 3})}), i64({2}, {least, -3}));
  expect_array(run("abs", {i64({2}, {least, -3})}), i64({2}, {least, 3}));
  expect_array(run("floor_divide", {i64({1}, {least}), i64({1}, {-1})}), i64({1}, {least}));
}

TEST(Elementwise, UnaryMathematicsAgreesWithTheLibrary) {
  const std::vector<double> x = {0.25, -0.5, 0.75};
  const std::vector<std::pair<std::string, double (*)(double)>> functions = {
      {"exp", std::exp},   {"exp2", std::exp2}, {"expm1", std::expm1}, {"log1p", std::log1p}, {"sin", std::sin},
      {"cos", std::cos},   {"tan", std::tan},   {"asin", std::asin},   {"acos", std::acos},   {"atan", std::atan},
      {"sinh", std::sinh}, {"cosh", std::cosh}, {"tanh", std::tanh},   {"asinh", std::asinh}, {"atanh", std::atanh},
      {"erf", std::erf},   {"erfc", std::erfc}, {"ceil", std::ceil},   {"floor", std::floor}, {"trunc", std::trunc}};
  for (const auto& [name, function] : functions) {
    std::vector<double> expected;
    for (double v : x) expected.push_back(function(v));
    expect_values(run(name, {f64({3}, x)}), expected);
    for (DType d : kFloats) expect_array(run(name, {numbers_of(d, {3}, x)}), numbers_of(d, {3}, expected));
  }
  expect_values(run("log", {f64({3}, {1, 0, -1})}), {0, -kInf, kNan});
  expect_values(run("log2", {f64({2}, {8, 0.5})}), {3, -1});
  expect_values(run("log10", {f64({2}, {1000, 0.1})}), {3, -1});
  expect_values(run("sqrt", {f64({3}, {9, -1, 0})}), {3, kNan, 0});
  expect_values(run("rsqrt", {f64({2}, {4, 0})}), {0.5, kInf});
  expect_values(run("reciprocal", {f64({3}, {4, 0, -0.0})}), {0.25, kInf, -kInf});
  expect_values(run("acosh", {f64({2}, {1, 0.5})}), {0, kNan});
  expect_values(run("round", {f64({5}, {0.5, 1.5, 2.5, -0.5, -1.6})}), {0, 2, 2, -0.0, -2});
  expect_values(run("sign", {f64({4}, {kNan, -3, 0, 5})}), {0, -1, 0, 1});  // torch.sign(nan) is 0
}

TEST(Elementwise, SpecialFunctionsKeepTheirDigits) {
  // torch.special in float64.
  expect_near(run("digamma", {f64({4}, {1, 0.25, -2.5, 100})}),
              {-0.5772156649015329, -4.2274535333762656, 1.1031566406452432, 4.600161852738087}, 1e-14);
  expect_values(run("digamma", {f64({3}, {0, -0.0, -1})}), {-kInf, kInf, kNan});
  expect_near(run("lgamma", {f64({3}, {0.5, -2.5, 10})}), {0.5723649429247001, -0.05624371649767405, 12.801827480081469}, 1e-14);
  expect_values(run("lgamma", {f64({2}, {0, -1})}), {kInf, kInf});
  expect_values(run("erfinv", {f64({4}, {1, -1, 2, 0})}), {kInf, -kInf, kNan, 0});
  const std::vector<double> x = {1e-10, 0.01, 0.3, 0.5, 0.9, 0.999, 0.9999999, -0.7},
                            y = load_double(run("erfinv", {f64({8}, x)}));
  for (size_t i = 0; i < x.size(); ++i) {
    const double back = std::abs(x[i]) > 0.5 ? std::copysign(1 - std::erfc(std::abs(y[i])), x[i]) : std::erf(y[i]);
    EXPECT_NEAR(back, x[i], 2e-16) << x[i];
  }
}

TEST(Elementwise, RoundingOpsLeaveIntegersAlone) {
  for (DType d : kIntegers) {
    for (const char* op : {"ceil", "floor", "round", "trunc", "conj"}) expect_array(run(op, {pattern(d, {5})}), pattern(d, {5}));
    expect_array(run("sign", {numbers_of(d, {2}, {0, 7})}), numbers_of(d, {2}, {0, 1}));
  }
}

TEST(Elementwise, ComplexNumbersHaveTheirOwnFunctions) {
  const Array z = c64({2}, {{3, 4}, {0, -2}});
  expect_array(run("abs", {z}), f32({2}, {5, 2}));
  expect_array(run("real", {z}), f32({2}, {3, 0}));
  expect_array(run("imag", {z}), f32({2}, {4, -2}));
  expect_array(run("conj", {z}), c64({2}, {{3, -4}, {0, 2}}));
  expect_array(run("sign", {c64({2}, {{3, 4}, {0, 0}})}), c64({2}, {{0.6f, 0.8f}, {0, 0}}));
  expect_array(run("mul", {z, z}), c64({2}, {{-7, 24}, {-4, 0}}));
  expect_array(run("div", {z, z}), c64({2}, {{1, 0}, {1, 0}}));
  expect_array(run("make_complex", {f32({1}, {1}), f32({1}, {2})}), c64({1}, {{1, 2}}));
  expect_near(run("angle", {z}), {std::atan2(4, 3), -std::acos(0.0)}, 1e-7);
  expect_near(run("imag", {run("exp", {z})}), {std::exp(3) * std::sin(4), std::sin(-2.0)}, 1e-6);
  expect_near(run("real", {run("pow", {z, z})}),
              {std::pow(Complex(3, 4), Complex(3, 4)).real(), std::pow(Complex(0, -2), Complex(0, -2)).real()}, 1e-6);
  for (const char* op : {"log",  "log2", "log10", "log1p", "expm1", "exp2", "sqrt",  "rsqrt", "sin",   "cos",       "tan",
                         "asin", "acos", "atan",  "sinh",  "cosh",  "tanh", "asinh", "acosh", "atanh", "reciprocal"}) {
    EXPECT_EQ(run(op, {z}).dtype(), DType::c64) << op;
  }
  expect_values(run("angle", {f32({4}, {-1, 1, kNan, -0.0})}), {static_cast<float>(M_PI), 0, kNan, 0});
  expect_values(run("isnan", {c64({2}, {{kNan, 0}, {0, 0}})}), {1, 0});
  expect_values(run("isinf", {c64({2}, {{0, -kInf}, {kNan, 0}})}), {1, 0});
}

TEST(Elementwise, NanWinsInMaximumAndLosesInFmax) {
  const Array a = f32({4}, {1, kNan, 3, kNan}), b = f32({4}, {2, 5, kNan, kNan});
  expect_values(run("maximum", {a, b}), {2, kNan, kNan, kNan});
  expect_values(run("minimum", {a, b}), {1, kNan, kNan, kNan});
  expect_values(run("fmax", {a, b}), {2, 5, 3, kNan});
  expect_values(run("fmin", {a, b}), {1, 5, 3, kNan});
  for (DType d : kIntegers)
    expect_array(run("maximum", {numbers_of(d, {2}, {3, 9}), numbers_of(d, {2}, {5, 1})}), numbers_of(d, {2}, {5, 9}));
  expect_array(run("maximum", {bools({2}, {0, 0}), bools({2}, {1, 0})}), bools({2}, {1, 0}));
}

TEST(Elementwise, DivisionsRoundAsTorchDoes) {
  const Array a = f32({4}, {7, -7, 7, -7}), b = f32({4}, {2, 2, -2, -2});
  expect_values(run("div", {a, b}), {3.5, -3.5, -3.5, 3.5});
  expect_values(run("floor_divide", {a, b}), {3, -4, -4, 3});
  expect_values(run("trunc_divide", {a, b}), {3, -3, -3, 3});
  expect_values(run("remainder", {a, b}), {1, 1, -1, -1});
  expect_values(run("fmod", {a, b}), {1, -1, 1, -1});
  for (DType d : {DType::i64, DType::i32, DType::i16, DType::i8}) {
    const Array p = numbers_of(d, {4}, {7, -7, 7, -7}), q = numbers_of(d, {4}, {2, 2, -2, -2});
    expect_values(run("floor_divide", {p, q}), {3, -4, -4, 3});
    expect_values(run("trunc_divide", {p, q}), {3, -3, -3, 3});
    expect_values(run("remainder", {p, q}), {1, 1, -1, -1});
    expect_values(run("fmod", {p, q}), {1, -1, 1, -1});
  }
  expect_values(run("floor_divide", {f32({4}, {1, -1, 0, 5}), f32({4}, {0, 0, 0, -0.0})}), {kInf, -kInf, kNan, -kInf});
  expect_values(run("div", {f32({3}, {1, -1, 0}), f32({3}, {0, 0, 0})}), {kInf, -kInf, kNan});
  for (const char* op : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
    EXPECT_NE(error_of([&] { run(op, {i64({1}, {1}), i64({1}, {0})}); }).find("integer division by zero"), std::string::npos)
        << op;
  }
}

TEST(Elementwise, PowersOfIntegersFollowTorch) {
  expect_values(run("pow", {i64({7}, {2, 1, -1, 0, -1, 3, 0}), i64({7}, {-1, -3, -3, -1, -2, 4, 0})}), {0, 1, -1, 0, 1, 81, 1});
  expect_values(run("pow", {numbers_of(DType::u8, {1}, {2}), numbers_of(DType::u8, {1}, {8})}), {0});
  expect_values(run("pow", {f32({4}, {2, -8, 0, 4}), f32({4}, {3, 1.0 / 3, -1, 0.5})}), {8, kNan, kInf, 2});
  expect_near(run("atan2", {f32({2}, {1, -1}), f32({2}, {-1, 0})}), {2.356194490192345, -1.5707963267948966}, 1e-7);
}

TEST(Elementwise, BitsAndShifts) {
  expect_values(run("bitwise_and", {i64({2}, {6, -1}), i64({2}, {3, 5})}), {2, 5});
  expect_values(run("bitwise_or", {i64({1}, {6}), i64({1}, {3})}), {7});
  expect_values(run("bitwise_xor", {bools({4}, {0, 0, 1, 1}), bools({4}, {0, 1, 0, 1})}), {0, 1, 1, 0});
  expect_values(run("bitwise_not", {bools({2}, {0, 1})}), {1, 0});
  expect_values(run("bitwise_not", {numbers_of(DType::u8, {1}, {1})}), {254});
  expect_values(run("shift_left", {numbers_of(DType::i8, {4}, {1, 2, -8, 1}), numbers_of(DType::i8, {4}, {8, -1, 2, 7})}),
                {0, 0, -32, -128});
  expect_values(run("shift_right", {numbers_of(DType::i8, {4}, {1, 2, -8, -1}), numbers_of(DType::i8, {4}, {8, -1, 2, 9})}),
                {0, 0, -2, -1});
}

TEST(Elementwise, ConstraintsAreCitedByName) {
  EXPECT_NE(error_of([] { run("add", {f32({2}, {1, 2}), f64({2}, {1, 2})}); }).find("add_c2"), std::string::npos);
  EXPECT_NE(error_of([] { run("add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}); }).find("add_c3"), std::string::npos);
  EXPECT_NE(error_of([] { run("exp", {i64({1}, {1})}); }).find("exp_c1"), std::string::npos);
  EXPECT_NE(error_of([] { run("lt", {c64({1}, {1}), c64({1}, {1})}); }).find("lt_c1"), std::string::npos);
}

TEST(Elementwise, SizesThatTurnOutDifferentAtRunTimeAreAnError) {
  Graph graph;
  Builder b(graph, catalogue());
  const ValueId x = graph.add_input({DType::f32, {Dim::symbol("s0")}}), y = graph.add_input({DType::f32, {Dim::symbol("s1")}});
  graph.outputs = {b.create("add", {x, y})};
  const std::string error = error_of(
      [&] { run.run_graph(graph, {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}, {{"s0", 2}, {"s1", 3}}); });
  EXPECT_NE(error.find("[2]"), std::string::npos);
  EXPECT_NE(error.find("[3]"), std::string::npos);
}

// ---- comparisons, select, cast

TEST(Logical, ComparesEveryDtype) {
  for (DType d : real_dtypes()) {
    const Array a = numbers_of(d, {3}, {1, 2, 3}), b = numbers_of(d, {3}, {2, 2, 2});
    expect_array(run("eq", {a, b}), bools({3}, {0, 1, 0}));
    expect_array(run("ne", {a, b}), bools({3}, {1, 0, 1}));
    expect_array(run("lt", {a, b}), bools({3}, {1, 0, 0}));
    expect_array(run("le", {a, b}), bools({3}, {1, 1, 0}));
    expect_array(run("gt", {a, b}), bools({3}, {0, 0, 1}));
    expect_array(run("ge", {a, b}), bools({3}, {0, 1, 1}));
  }
  expect_array(run("eq", {c64({2}, {{1, 2}, {1, 2}}), c64({2}, {{1, 2}, {1, 3}})}), bools({2}, {1, 0}));
  expect_array(run("lt", {bools({2}, {0, 1}), bools({2}, {1, 1})}), bools({2}, {1, 0}));
}

TEST(Logical, NanEqualsNothingAndIntegersAreComparedExactly) {
  const Array nan = f32({1}, {kNan});
  for (const char* op : {"eq", "lt", "le", "gt", "ge"}) expect_values(run(op, {nan, nan}), {0});
  expect_values(run("ne", {nan, nan}), {1});
  expect_values(run("eq", {i64({1}, {(int64_t{1} << 53) + 1}), i64({1}, {int64_t{1} << 53})}), {0});
}

TEST(Logical, SelectsBytesOfEveryDtype) {
  for (DType d : all_dtypes()) {
    expect_array(run("select", {bools({3}, {1, 0, 1}), numbers_of(d, {3}, {1, 1, 1}), numbers_of(d, {3}, {0, 0, 0})}),
                 numbers_of(d, {3}, {1, 0, 1}));
  }
  const Array nan = store(DType::f32, {1}, std::vector<double>{kNan});
  EXPECT_TRUE(run("select", {bools({1}, {1}), nan, f32({1}, {0})}).same_bytes(nan));
}

TEST(Logical, CastsBetweenAllDtypes) {
  for (DType from : all_dtypes()) {
    for (DType to : all_dtypes()) {
      const bool bit = from == DType::boolean || to == DType::boolean;
      expect_array(run("cast", {numbers_of(from, {2, 2}, {0, 1, 2, 100})}, {{"dtype", to}}),
                   numbers_of(to, {2, 2}, bit ? std::vector<double>{0, 1, 1, 1} : std::vector<double>{0, 1, 2, 100}));
    }
  }
  expect_values(run("cast", {f32({4}, {1.9, -1.9, 300, 0.5})}, {{"dtype", DType::i32}}), {1, -1, 300, 0});
  expect_values(run("cast", {i64({2}, {300, -1})}, {{"dtype", DType::u8}}), {44, 255});
  expect_values(run("cast", {f32({3}, {0.5, 0, kNan})}, {{"dtype", DType::boolean}}), {1, 0, 1});
  expect_values(run("cast", {f32({2}, {1e6, 65520})}, {{"dtype", DType::f16}}), {kInf, kInf});
}

// ---- constants

TEST(Constants, FillEveryDtype) {
  for (DType d : all_dtypes()) {
    expect_array(run("constant", {}, {{"value", int64_t{1}}, {"shape", D{2, 2}}, {"dtype", d}}),
                 numbers_of(d, {2, 2}, {1, 1, 1, 1}));
    EXPECT_EQ(run("constant", {}, {{"value", int64_t{1}}, {"shape", D{0}}, {"dtype", d}}).shape(), Sizes{0});
  }
  expect_values(run("constant", {}, {{"value", -kInf}, {"shape", D{}}, {"dtype", DType::bf16}}), {-kInf});
  expect_array(run("constant", {}, {{"value", Complex(1, 2)}, {"shape", D{}}, {"dtype", DType::c64}}), c64({}, {{1, 2}}));
  expect_array(run("dim", {}, {{"value", Dim(7)}}), i64({}, {7}));
  for (DType d : real_dtypes()) expect_array(run("iota", {}, {{"size", Dim(4)}, {"dtype", d}}), numbers_of(d, {4}, {0, 1, 2, 3}));
  EXPECT_EQ(run("iota", {}, {{"size", Dim(0)}, {"dtype", DType::i64}}).shape(), Sizes{0});
}

TEST(Constants, TakeTheirSizesFromSymbols) {
  Graph graph;
  Builder b(graph, catalogue());
  const Dim s = Dim::symbol("s0");
  graph.outputs = {b.create("iota", {}, {{"size", s + 1}, {"dtype", DType::i64}}), b.create("dim", {}, {{"value", s * Dim(2)}}),
                   b.create("constant", {}, {{"value", int64_t{3}}, {"shape", D{s, 1}}, {"dtype", DType::i32}})};
  const Arrays out = run.run_graph(graph, {}, {{"s0", 2}});
  expect_array(out[0], i64({3}, {0, 1, 2}));
  expect_array(out[1], i64({}, {4}));
  expect_array(out[2], numbers_of(DType::i32, {2, 1}, {3, 3}));
}

// ---- movement

TEST(Movement, MovesEveryDtypeExactly) {
  for (DType d : all_dtypes()) {
    const Array x = pattern(d, {2, 3, 2});
    const Array twice = run("transpose", {run("transpose", {x}, {{"permutation", I{2, 0, 1}}})}, {{"permutation", I{1, 2, 0}}});
    EXPECT_TRUE(twice.same_bytes(x)) << name_of(d);
    EXPECT_TRUE(run("reverse", {run("reverse", {x}, {{"axes", I{0, 2}}})}, {{"axes", I{2, 0}}}).same_bytes(x)) << name_of(d);
    EXPECT_TRUE(run("reshape", {run("reshape", {x}, {{"shape", D{12}}})}, {{"shape", D{2, 3, 2}}}).same_bytes(x)) << name_of(d);
    const Array front = run("slice", {x}, {{"starts", D{0, 0, 0}}, {"stops", D{2, 1, 2}}, {"steps", I{1, 1, 1}}});
    const Array back = run("slice", {x}, {{"starts", D{0, 1, 0}}, {"stops", D{2, 3, 2}}, {"steps", I{1, 1, 1}}});
    EXPECT_TRUE(run("concat", {front, back}, {{"axis", int64_t{1}}}).same_bytes(x)) << name_of(d);
    const Array padded = run("pad", {x}, {{"low", D{1, 0, 2}}, {"high", D{0, 1, 1}}, {"value", int64_t{1}}});
    EXPECT_TRUE(run("pad", {padded}, {{"low", D{-1, 0, -2}}, {"high", D{0, -1, -1}}, {"value", int64_t{0}}}).same_bytes(x))
        << name_of(d);
  }
}

TEST(Movement, Transposes) {
  expect_array(run("transpose", {i64({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"permutation", I{1, 0}}}), i64({3, 2}, {1, 4, 2, 5, 3, 6}));
  expect_array(run("transpose", {i64({}, {1})}, {{"permutation", I{}}}), i64({}, {1}));
  EXPECT_EQ(run("transpose", {Array(DType::f32, {0, 3})}, {{"permutation", I{1, 0}}}).shape(), (Sizes{3, 0}));
  EXPECT_NE(
      error_of([] { run("transpose", {i64({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"permutation", I{0, 0}}}); }).find("transpose_c1"),
      std::string::npos);
}

TEST(Movement, Broadcasts) {
  const Array row = i64({3}, {1, 2, 3});
  expect_array(run("broadcast", {row}, {{"shape", D{2, 3}}, {"axes", I{1}}}), i64({2, 3}, {1, 2, 3, 1, 2, 3}));
  expect_array(run("broadcast", {row}, {{"shape", D{3, 2}}, {"axes", I{0}}}), i64({3, 2}, {1, 1, 2, 2, 3, 3}));
  expect_array(run("broadcast", {i64({2, 1}, {1, 2})}, {{"shape", D{2, 2}}, {"axes", I{0, 1}}}), i64({2, 2}, {1, 1, 2, 2}));
  expect_array(run("broadcast", {i64({}, {5})}, {{"shape", D{2}}, {"axes", I{}}}), i64({2}, {5, 5}));
  EXPECT_EQ(run("broadcast", {i64({1}, {5})}, {{"shape", D{0, 4}}, {"axes", I{1}}}).shape(), (Sizes{0, 4}));
  EXPECT_NE(error_of([&] { run("broadcast", {row}, {{"shape", D{2, 4}}, {"axes", I{1}}}); }).find("broadcast_c2"),
            std::string::npos);
}

TEST(Movement, SlicesWithSteps) {
  const Array x = i64({2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_array(run("slice", {x}, {{"starts", D{1, 1}}, {"stops", D{2, 5}}, {"steps", I{1, 2}}}), i64({1, 2}, {6, 8}));
  expect_array(run("slice", {x}, {{"starts", D{0, 0}}, {"stops", D{2, 5}}, {"steps", I{1, 3}}}), i64({2, 2}, {0, 3, 5, 8}));
  EXPECT_EQ(run("slice", {x}, {{"starts", D{1, 2}}, {"stops", D{1, 2}}, {"steps", I{1, 1}}}).shape(), (Sizes{0, 0}));
  EXPECT_NE(error_of([&] { run("slice", {x}, {{"starts", D{0, 0}}, {"stops", D{3, 5}}, {"steps", I{1, 1}}}); }).find("slice_c3"),
            std::string::npos);
}

TEST(Movement, ConcatenatesAndPads) {
  const Array a = i64({1, 2}, {1, 2}), b = i64({2, 2}, {3, 4, 5, 6}), none = Array(DType::i64, {0, 2});
  expect_array(run("concat", {a, none, b}, {{"axis", int64_t{0}}}), i64({3, 2}, {1, 2, 3, 4, 5, 6}));
  expect_array(run("concat", {b, b}, {{"axis", int64_t{1}}}), i64({2, 4}, {3, 4, 3, 4, 5, 6, 5, 6}));
  EXPECT_NE(error_of([&] { run("concat", {a, b}, {{"axis", int64_t{1}}}); }).find("concat_c3"), std::string::npos);
  expect_array(run("pad", {a}, {{"low", D{0, 1}}, {"high", D{1, -1}}, {"value", int64_t{9}}}), i64({2, 2}, {9, 1, 9, 9}));
  expect_array(run("pad", {a}, {{"low", D{0, -3}}, {"high", D{0, 2}}, {"value", int64_t{9}}}), i64({1, 1}, {9}));
  expect_values(run("pad", {f32({1}, {1})}, {{"low", D{1}}, {"high", D{0}}, {"value", -kInf}}), {-kInf, 1});
  expect_array(run("pad", {i64({}, {4})}, {{"low", D{}}, {"high", D{}}, {"value", int64_t{9}}}), i64({}, {4}));
  expect_array(run("reverse", {b}, {{"axes", I{1}}}), i64({2, 2}, {4, 3, 6, 5}));
}

// ---- reductions

TEST(Reductions, SumAndMultiplyEveryNumberDtype) {
  for (DType d : all_dtypes()) {
    if (d == DType::boolean) continue;
    const Array x = numbers_of(d, {2, 3}, {1, 2, 3, 4, 5, 1});
    expect_array(run("reduce_sum", {x}, {{"axes", I{1}}}), numbers_of(d, {2}, {6, 10}));
    expect_array(run("reduce_sum", {x}, {{"axes", I{0}}}), numbers_of(d, {3}, {5, 7, 4}));
    expect_array(run("reduce_sum", {x}, {{"axes", I{1, 0}}}), numbers_of(d, {}, {16}));
    expect_array(run("reduce_sum", {x}, {{"axes", I{}}}), x);
    expect_array(run("reduce_prod", {x}, {{"axes", I{0}}}), numbers_of(d, {3}, {4, 10, 3}));
    expect_array(run("reduce_sum", {Array(d, {2, 0})}, {{"axes", I{1}}}), numbers_of(d, {2}, {0, 0}));
    expect_array(run("reduce_prod", {Array(d, {0})}, {{"axes", I{0}}}), numbers_of(d, {}, {1}));
    EXPECT_EQ(run("reduce_sum", {Array(d, {0, 3})}, {{"axes", I{1}}}).shape(), Sizes{0});
  }
}

TEST(Reductions, AccumulateInDoubleAndRoundOnce) {
  // 4,096 ones beside 2^24: an f32 accumulator would stand still.
  std::vector<double> values(4097, 1.0);
  values[0] = 16777216;
  expect_values(run("reduce_sum", {f32({4097}, values)}, {{"axes", I{0}}}), {16777216 + 4096});
  expect_values(run("reduce_sum", {numbers_of(DType::bf16, {300}, std::vector<double>(300, 1.0))}, {{"axes", I{0}}}), {300});
  expect_values(run("reduce_sum", {numbers_of(DType::f16, {3}, {60000, 60000, -60000})}, {{"axes", I{0}}}), {60000});
}

TEST(Reductions, MiddleAxesOfLargerTensors) {
  const Array x = pattern(DType::i64, {3, 4, 5, 6});
  const std::vector<int64_t> v = load_int(x);
  std::vector<int64_t> expected(3 * 6);
  for (size_t i = 0; i < v.size(); ++i) expected[i / 120 * 6 + i % 6] += v[i];
  expect_array(run("reduce_sum", {x}, {{"axes", I{1, 2}}}), i64({3, 6}, expected));
}

TEST(Reductions, ExtremesLetNanWin) {
  const Array x = f32({2, 3}, {1, kNan, 3, -1, -2, -3});
  expect_values(run("reduce_max", {x}, {{"axes", I{1}}}), {kNan, -1});
  expect_values(run("reduce_min", {x}, {{"axes", I{1}}}), {kNan, -3});
  expect_values(run("reduce_max", {f32({2}, {-kInf, -kInf})}, {{"axes", I{0}}}), {-kInf});
  for (DType d : real_dtypes()) {
    expect_array(run("reduce_max", {numbers_of(d, {2, 2}, {1, 5, 7, 2})}, {{"axes", I{0, 1}}}), numbers_of(d, {}, {7}));
    expect_array(run("reduce_min", {numbers_of(d, {2, 2}, {1, 5, 7, 2})}, {{"axes", I{0}}}), numbers_of(d, {2}, {1, 2}));
  }
  std::vector<double> late(3000, 0.0);
  late[2999] = kNan;
  expect_values(run("reduce_max", {f32({3000}, late)}, {{"axes", I{0}}}), {kNan});
  EXPECT_NE(error_of([] { run("reduce_max", {Array(DType::f32, {2, 0})}, {{"axes", I{1}}}); }).find("no elements"),
            std::string::npos);
}

TEST(Reductions, BooleansAllAndAny) {
  const Array x = bools({2, 2}, {1, 1, 0, 1});
  expect_array(run("reduce_and", {x}, {{"axes", I{1}}}), bools({2}, {1, 0}));
  expect_array(run("reduce_or", {x}, {{"axes", I{0, 1}}}), bools({}, {1}));
  expect_array(run("reduce_and", {Array(DType::boolean, {0})}, {{"axes", I{0}}}), bools({}, {1}));
  expect_array(run("reduce_or", {Array(DType::boolean, {0})}, {{"axes", I{0}}}), bools({}, {0}));
}

TEST(Reductions, ArgmaxTakesTheFirstAndNanIsExtreme) {
  for (DType d : real_dtypes()) {
    const Array x = numbers_of(d, {2, 3}, {1, 5, 5, 2, 0, 0});
    expect_array(run("argmax", {x}, {{"axis", int64_t{1}}}), i64({2}, {1, 0}));
    expect_array(run("argmin", {x}, {{"axis", int64_t{1}}}), i64({2}, {0, 1}));
    expect_array(run("argmax", {x}, {{"axis", int64_t{0}}}), i64({3}, {1, 0, 0}));
  }
  expect_array(run("argmax", {f32({4}, {1, kNan, 9, kNan})}, {{"axis", int64_t{0}}}), i64({}, {1}));
  expect_array(run("argmin", {f32({4}, {1, kNan, 9, kNan})}, {{"axis", int64_t{0}}}), i64({}, {1}));
}

}  // namespace
}  // namespace pycandle
