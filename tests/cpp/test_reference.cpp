#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <thread>

#include "backends/reference/reference.h"
#include "base/error.h"
#include "error_of.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"

namespace pycandle {
namespace {

Array f32(Sizes shape, std::vector<double> values) { return store(DType::f32, std::move(shape), values); }
Array i64(Sizes shape, std::vector<int64_t> values) { return store(DType::i64, std::move(shape), values); }

Program parsed(const std::string& body) {
  Program p = parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue());
  verify(p, "the test");
  return p;
}

struct Running {
  Program program;
  std::unique_ptr<Executable> executable;
  std::vector<Array> operator()(std::vector<Array> inputs) const {
    RunRequest request;
    request.inputs = std::move(inputs);
    return executable->run(request);
  }
};

Running compiled(const std::string& body, std::map<std::string, Array> parameters = {}) {
  Program p = parsed(body);
  auto executable = reference_backend().compile(p, catalogue(), memory_parameters(std::move(parameters)));
  return {std::move(p), std::move(executable)};
}

const char* const kLinear = R"(symbol s0 in [1, 8] example 2 from "x" axis 0

input %0 "x": f32[s0, 3]

parameter %1 "w": f32[2, 3]
parameter %2 "unread": f32[9]

%3 = linear(%0, %1, _): f32[s0, 2]
%4 = neg(%3): f32[s0, 2]

output "output" %4

tap "@0/input.x" %0 key "x"
tap "fc@0/output" %3 key "fc"
)";
std::map<std::string, Array> linear_parameters() { return {{"w", f32({2, 3}, {1, 2, 3, 4, 5, 6})}}; }

TEST(Reference, RunsAFunctionalThroughItsDecomposition) {
  const Running run = compiled(kLinear, linear_parameters());
  const std::vector<Array> out = run({f32({1, 3}, {1, 10, 100})});
  EXPECT_EQ(load_double(out.at(0)), (std::vector<double>{-321, -654}));
}

TEST(Reference, AParameterIsReadOnlyWhenANodeUsesIt) {
  const Running run = compiled(kLinear, linear_parameters());  // "unread" has no value
  EXPECT_NO_THROW(run({f32({1, 3}, {1, 2, 3})}));
}

TEST(Reference, ShowsEachTapOnceWhenItsValueExists) {
  const Running run = compiled(kLinear, linear_parameters());
  RunRequest request;
  request.inputs = {f32({1, 3}, {1, 10, 100})};
  std::vector<std::pair<size_t, std::vector<double>>> seen;
  request.on_tap = [&](size_t tap, const Array& a) { seen.emplace_back(tap, load_double(a)); };
  run.executable->run(request);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (std::pair<size_t, std::vector<double>>{0, {1, 10, 100}}));
  EXPECT_EQ(seen[1], (std::pair<size_t, std::vector<double>>{1, {321, 654}}));
}

const char* const kCounter = R"(input %0 "x": f32[2]

state %1 "total": f32[2]

%2 = add(%1, %0): f32[2]

output "output" %2

update %1 = %2
)";

TEST(Reference, StatesLiveInTheRequestAndStartFromTheRecordedOnesWithoutIt) {
  const Running run = compiled(kCounter, {{"total", f32({2}, {10, 20})}});
  EXPECT_EQ(load_double(run({f32({2}, {1, 1})}).at(0)), (std::vector<double>{11, 21}));
  EXPECT_EQ(load_double(run({f32({2}, {1, 1})}).at(0)), (std::vector<double>{11, 21})) << "the recorded state was changed";

  std::vector<Array> states = {f32({2}, {0, 5})};
  RunRequest request;
  request.inputs = {f32({2}, {1, 1})};
  request.states = &states;
  run.executable->run(request);
  run.executable->run(request);
  EXPECT_EQ(load_double(states.at(0)), (std::vector<double>{2, 7}));
}

const char* const kNonzero = R"(symbol u0 in [0, inf) example 1

input %0 "x": f32[4]

%1 = nonzero(%0) {count = u0}: i64[u0, 1]
%2 = iota() {size = u0, dtype = i64}: i64[u0]

output "output" %2
)";

TEST(Reference, ASizeThatDependsOnDataIsBoundByTheResultThatHasIt) {
  const Running run = compiled(kNonzero);
  EXPECT_EQ(load_int(run({f32({4}, {0, 3, 0, 4})}).at(0)), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(run({f32({4}, {0, 0, 0, 0})}).at(0).shape(), Sizes{0});
}

TEST(Reference, DataDecidesASizeAlsoWhereTheCallerSaysAnother) {
  const Running run = compiled(kNonzero);
  RunRequest request;
  request.inputs = {f32({4}, {0, 3, 0, 4})};
  request.symbols = {{"u0", 3}};
  EXPECT_EQ(run.executable->run(request).at(0).shape(), Sizes{2});
}

// x is added to itself until the sum reaches the limit.
std::string loop_up_to(const std::string& limit) {
  return R"(input %0 "x": f32[]

%1, %2 = while_loop(%0, %0) (%0: f32[], %1: f32[]) {
  %2 = constant() {value = )" +
         limit + R"(, shape = [], dtype = f32}: f32[]
  %3 = lt(%0, %2): bool[]
  yield %3
} (%0: f32[], %1: f32[]) {
  %2 = add(%0, %1): f32[]
  yield %2, %1
}: f32[], f32[]

output "output" %1
)";
}

TEST(Reference, RunsTheRegionsOfALoop) {
  const Running run = compiled(loop_up_to("100.0"));
  EXPECT_EQ(load_double(run({Array::scalar(DType::f32, 30.0)}).at(0)), std::vector<double>{120});
  EXPECT_EQ(load_double(run({Array::scalar(DType::f32, 200.0)}).at(0)), std::vector<double>{200});
}

const char* const kRandom = R"(input %0 "x": f32[64]

%1 = uniform() {shape = [64], dtype = f32}: f32[64]
%2 = uniform() {shape = [64], dtype = f32}: f32[64]

output "output.0" %1
output "output.1" %2
)";

TEST(Reference, RandomValuesFollowTheSeedAndDifferFromNodeToNode) {
  const Running run = compiled(kRandom);
  RunRequest request;
  request.inputs = {Array(DType::f32, {64})};
  request.seed = 7;
  const auto first = run.executable->run(request), again = run.executable->run(request);
  request.seed = 8;
  const auto other = run.executable->run(request);
  EXPECT_TRUE(first[0].same_bytes(again[0]));
  EXPECT_FALSE(first[0].same_bytes(first[1]));
  EXPECT_FALSE(first[0].same_bytes(other[0]));
}

TEST(Reference, AnErrorOfAnEvaluatorNamesOpModuleAndPythonLine) {
  const Running run = compiled(R"ptir(input %0 "x": f32[4]
input %1 "i": i64[2]

%2 = take(%0, %1) {axis = 0}: f32[2]  loc(#1, 0:7)

output "output" %2

file #0 "model.py" {
  7 "y = x[i]"
}
call #0 "" @0 class "Model"
call #1 "pick" @0 class "Pick" parent #0
)ptir");
  const Error e = error_of([&] { run({f32({4}, {1, 2, 3, 4}), i64({2}, {0, 9})}); });
  EXPECT_EQ(e.op(), "take");
  EXPECT_EQ(e.module_path(), "pick@0");
  EXPECT_EQ(e.file_line(), "model.py:7");
}

TEST(Reference, RunsFromSeveralThreadsAtOnce) {
  const Running run = compiled(kLinear, linear_parameters());
  std::vector<std::vector<double>> results(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 50; ++repeat)
        results[i] = load_double(run({f32({1, 3}, {static_cast<double>(i), 0, 0})}).at(0));
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i], (std::vector<double>{-1.0 * static_cast<double>(i), -4.0 * static_cast<double>(i)}));
}

TEST(Reference, FreesEachValueAfterItsLastUse) {
  constexpr int kNodes = 96;  // of 16 MiB each: 1.5 GiB when nothing is freed
  std::string body = "input %0 \"x\": f32[4194304]\n\n";
  for (int i = 0; i < kNodes; ++i) body += fmt::format("%{} = neg(%{}): f32[4194304]\n", i + 1, i);
  body += fmt::format("\noutput \"output\" %{}\n", kNodes);
  const Running run = compiled(body);
  const auto peak_mib = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const long before = peak_mib();
  run({Array(DType::f32, {4194304})});
  EXPECT_LT(peak_mib() - before, 700) << "MiB";
}

// ---- inputs

TEST(BindInputs, NamesTheInputTheAxisAndBothSizes) {
  const Program p = parsed(kLinear);
  Error e = error_of([&] { bind_inputs(p, {f32({2, 4}, std::vector<double>(8))}); });
  EXPECT_EQ(e.message(), "input x has the wrong size in dim 1");
  EXPECT_EQ(e.expected(), "3");
  EXPECT_EQ(e.found(), "4 ([2, 4])");
  e = error_of([&] { bind_inputs(p, {f32({6}, std::vector<double>(6))}); });
  EXPECT_EQ(e.expected(), "2 dims: [s0, 3]");
  e = error_of([&] { bind_inputs(p, {i64({2, 3}, std::vector<int64_t>(6))}); });
  EXPECT_EQ(e.found(), "i64");
  e = error_of([&] { bind_inputs(p, {}); });
  EXPECT_EQ(e.expected(), "1");
}

TEST(BindInputs, ASizeOutsideItsRangeIsRefused) {
  const Program p = parsed(kLinear);
  EXPECT_EQ(bind_inputs(p, {f32({8, 3}, std::vector<double>(24))}).at("s0"), 8);
  const Error e = error_of([&] { bind_inputs(p, {f32({9, 3}, std::vector<double>(27))}); });
  EXPECT_EQ(e.expected(), "1 to 8");
  EXPECT_EQ(e.found(), "9");
  EXPECT_NE(e.message().find("dim 0 of input x"), std::string::npos) << e.message();
}

const char* const kTied = R"(symbol s0 in [1, inf) example 2 from "x" axis 0
symbol s1 in [1, inf) example 2 from "y" axis 0

input %0 "x": f32[2*s0 + 1]
input %1 "y": f32[s1, s0 + s1]

output "output" %0

check s0 == s1 "rows of y and half of x"  loc(_, _:0)
)";

TEST(BindInputs, SolvesLinearDimsAndComparesTheOthers) {
  const Program p = parsed(kTied);
  const Bindings b = bind_inputs(p, {f32({7}, std::vector<double>(7)), f32({3, 6}, std::vector<double>(18))});
  EXPECT_EQ(b.at("s0"), 3);
  EXPECT_EQ(b.at("s1"), 3);
  Error e = error_of([&] { bind_inputs(p, {f32({8}, std::vector<double>(8)), f32({3, 6}, std::vector<double>(18))}); });
  EXPECT_NE(e.message().find("input x"), std::string::npos) << e.message();
  e = error_of([&] { bind_inputs(p, {f32({7}, std::vector<double>(7)), f32({3, 5}, std::vector<double>(15))}); });
  EXPECT_EQ(e.expected(), "s0 + s1 = 6 (s0 = 3, s1 = 3)");
}

TEST(BindInputs, AFailedCheckSaysWhichDimsItCompared) {
  const Program p = parsed(kTied);
  const Error e = error_of([&] { bind_inputs(p, {f32({7}, std::vector<double>(7)), f32({4, 7}, std::vector<double>(28))}); });
  EXPECT_NE(e.message().find("rows of y and half of x"), std::string::npos) << e.message();
  EXPECT_EQ(e.expected(), "s0 = s1");
  EXPECT_EQ(e.found(), "3 and 4 (s0 = 3, s1 = 4)");
}

// ---- modes

using Kind = ReferenceMode::Kind;
const std::vector<ReferenceMode> kModes = {{Kind::rounded, 0}, {Kind::f64, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}};

// The first output, by mode.
std::vector<std::vector<double>> modes_of(const std::string& body, std::vector<Array> inputs,
                                          std::map<std::string, Array> parameters = {},
                                          const std::vector<ReferenceMode>& modes = kModes) {
  RunRequest request;
  request.inputs = std::move(inputs);
  const Program p = decompose_to_primitives(parsed(body), catalogue());
  std::vector<std::vector<double>> values;
  for (const ReferenceRun& run : run_reference_modes(p, *memory_parameters(std::move(parameters)), modes, request)) {
    values.push_back(load_double(run.outputs.at(0)));
  }
  return values;
}

TEST(ReferenceModes, F64RoundsNothingAndJitterMovesByNoMoreThanOneRounding) {
  const auto values = modes_of(R"(input %0 "x": f32[4]

%1 = exp(%0): f32[4]

output "output" %1
)",
                               {f32({4}, {0.1f, 1, 2, 3})});
  const double u = unit_roundoff(DType::f32);
  const double x[] = {static_cast<double>(0.1f), 1, 2, 3};
  bool moved = false;
  for (size_t i = 0; i < 4; ++i) {
    const double exact = std::exp(x[i]);
    EXPECT_EQ(values[1][i], exact);
    EXPECT_NE(values[0][i], exact);
    EXPECT_LE(std::abs(values[0][i] - exact), u * exact);
    for (size_t jitter : {2, 3}) {
      EXPECT_LE(std::abs(values[jitter][i] - values[0][i]), 2.01 * u * exact);
      moved = moved || values[jitter][i] != values[0][i];
    }
  }
  EXPECT_TRUE(moved);
  EXPECT_NE(values[2], values[3]) << "two seeds moved everything alike";
}

// A product is computed once for all modes where they share its operands. Its rounding is the evaluator's own, and what follows
// it differs from mode to mode.
TEST(ReferenceModes, AProductOfInputsIsTheSameInARunAlone) {
  std::vector<double> x, w;
  for (int i = 0; i < 3 * 40; ++i) x.push_back(std::sin(i));
  for (int i = 0; i < 40 * 3; ++i) w.push_back(std::cos(7 * i));
  for (const auto& [name, dtype] : {std::pair{"f32", DType::f32}, std::pair{"bf16", DType::bf16}, std::pair{"f16", DType::f16}}) {
    const std::vector<Array> inputs{store(dtype, {3, 40}, x), store(dtype, {40, 3}, w)};
    const std::string body = fmt::format(
        "input %0 \"x\": {0}[3, 40]\ninput %1 \"w\": {0}[40, 3]\n\n%2 = matmul(%0, %1): {0}[3, 3]\n"
        "%3 = matmul(%2, %2): {0}[3, 3]\n\noutput \"output\" %3\n",
        name);
    const auto alone = modes_of(body, inputs, {}, {{Kind::rounded, 0}}), together = modes_of(body, inputs);
    EXPECT_EQ(together[0], alone[0]) << name;
    EXPECT_NE(together[1], together[0]) << name;
    EXPECT_NE(together[2], together[3]) << name;
  }
}

TEST(ReferenceModes, LongSumsMoveByTheRootOfTheirLength) {
  const std::vector<double> ones(4 * 256, 1.0);
  const auto values = modes_of(R"(input %0 "x": f32[4, 256]

%1 = reduce_sum(%0) {axes = [1]}: f32[4]

output "output" %1
)",
                               {f32({4, 256}, ones)}, {},
                               {{Kind::rounded, 0}, {Kind::jittered, 1}, {Kind::jittered, 1, /*long_sums=*/true}});
  const double scale = unit_roundoff(DType::f32) * 256;
  double usual = 0, sequential = 0;
  for (size_t i = 0; i < 4; ++i) {
    usual = std::max(usual, std::abs(values[1][i] - 256));
    sequential = std::max(sequential, std::abs(values[2][i] - 256));
  }
  EXPECT_LE(usual, 2 * scale);
  EXPECT_GT(sequential, 2 * scale) << "a sum of 256 terms moved like one rounding";
  EXPECT_LE(sequential, 17 * scale);
}

TEST(ReferenceModes, ACastBetweenFloatsDoesNothingInF64) {
  const auto values = modes_of(R"(input %0 "x": f32[2]

%1 = exp(%0): f32[2]
%2 = cast(%1) {dtype = bf16}: bf16[2]
%3 = cast(%2) {dtype = f32}: f32[2]

output "output" %3
)",
                               {f32({2}, {1, 2})});
  EXPECT_EQ(values[1], (std::vector<double>{std::exp(1.0), std::exp(2.0)}));
  EXPECT_EQ(values[0][0], 2.71875);
}

TEST(ReferenceModes, IntegersAndStepsAreThoseOfTheRoundedRun) {
  // In f32, 0.7 * 10 rounds to 7; unrounded it is 6.99999988.
  const std::string scaled = R"(input %0 "x": f32[1]

%1 = constant() {value = 10.0, shape = [1], dtype = f32}: f32[1]
%2 = mul(%0, %1): f32[1]
)";
  const auto unrounded = modes_of(scaled + "\noutput \"output\" %2\n", {f32({1}, {0.7f})});
  ASSERT_EQ(unrounded[0][0], 7);
  ASSERT_LT(unrounded[1][0], 7);
  const auto floored = modes_of(scaled + "%3 = floor(%2): f32[1]\n\noutput \"output\" %3\n", {f32({1}, {0.7f})});
  const auto integers = modes_of(scaled + "%3 = cast(%2) {dtype = i64}: i64[1]\n\noutput \"output\" %3\n", {f32({1}, {0.7f})});
  for (const auto& values : {floored, integers}) {
    for (const auto& mode : values) EXPECT_EQ(mode[0], 7);
  }
}

TEST(ReferenceModes, ALoopRunsAsOftenInEveryMode) {
  // 0.7 is added until the sum reaches 7: in f32 that is one step earlier or later than without rounding.
  const auto values = modes_of(loop_up_to("7.0"), {Array::scalar(DType::f32, static_cast<double>(0.7f))});
  for (size_t mode = 1; mode < values.size(); ++mode) EXPECT_NEAR(values[mode][0], values[0][0], 1e-4);
}

TEST(ReferenceModes, ASumIsJitteredByTheSizeOfItsTermsNotOfItsResult) {
  const auto values = modes_of(R"(input %0 "x": f32[64, 2]

%1 = reduce_sum(%0) {axes = [1]}: f32[64]

output "output" %1
)",
                               {f32({64, 2}, [] {
                                 std::vector<double> v;
                                 for (int i = 0; i < 64; ++i) {
                                   v.push_back(1024);
                                   v.push_back(-1024);
                                 }
                                 return v;
                               }())});
  const double u = unit_roundoff(DType::f32);
  double largest = 0;
  for (double v : values[2]) largest = std::max(largest, std::abs(v));
  EXPECT_EQ(values[0][0], 0);
  EXPECT_GT(largest, 1024 * u) << "an error that torch's order of summation may make";
  EXPECT_LE(largest, 2048 * u);
}

TEST(ReferenceModes, DataThatOnlyMovesIsNeverJitteredAndInfinitiesStay) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto moved = modes_of(R"(input %0 "x": f32[3]

%1 = reverse(%0) {axes = [0]}: f32[3]

output "output" %1
)",
                              {f32({3}, {1, 2, 3})});
  for (const auto& mode : moved) EXPECT_EQ(mode, (std::vector<double>{3, 2, 1}));
  const auto exponentials = modes_of(R"(input %0 "x": f32[3]

%1 = exp(%0): f32[3]

output "output" %1
)",
                                     {f32({3}, {inf, -inf, std::nan("")})});
  for (const auto& mode : exponentials) {
    EXPECT_EQ(mode[0], inf);
    EXPECT_EQ(mode[1], 0);
    EXPECT_TRUE(std::isnan(mode[2]));
  }
}

TEST(ReferenceModes, AParameterIsTheSameNumberInEveryMode) {
  const auto values = modes_of(R"(input %0 "x": f32[2]

parameter %1 "w": f32[2]

%2 = concat(%1, %0) {axis = 0}: f32[4]
%3 = neg(%2): f32[4]

output "output" %3
)",
                               {f32({2}, {1, 2})}, {{"w", f32({2}, {0.1, 0.2})}});
  for (const auto& mode : values) EXPECT_EQ(mode, values[0]);
}

}  // namespace
}  // namespace pycandle
