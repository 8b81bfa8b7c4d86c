// The cpu backend's plans: what it runs agrees with the reference, whatever is fused, viewed or reused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "backends/cpu/cpu.h"
#include "backends/cpu/view.h"
#include "backends/reference/reference.h"
#include "base/error.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/catalogue.h"

namespace pycandle {
namespace {

Program parsed(const std::string& body) {
  Program p = parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue());
  verify(p, "the test");
  return p;
}

// Numbers in [-2, 2] that do not repeat; small whole ones for integers.
Array numbers(DType dtype, Sizes shape, uint64_t seed = 1) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  uint64_t state = seed * 0x9e3779b97f4a7c15;
  for (double& v : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    v = static_cast<double>(state >> 40) / (1 << 22) - 2;
    if (!is_floating(dtype)) v = std::abs(std::floor(v * 2));
  }
  return store(dtype, std::move(shape), values);
}

using Arrays = std::vector<Array>;
using Weights = std::map<std::string, Array>;

Arrays run(const Executable& e, Arrays inputs) {
  RunRequest request;
  request.inputs = std::move(inputs);
  return e.run(request);
}

// As the reference within a few roundings of the largest element.
void expect_close(const Array& got, const Array& expected, double tolerance = 2e-6) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.shape(), expected.shape());
  const std::vector<double> a = load_double(got), b = load_double(expected);
  double scale = 1e-30;
  for (const double v : b) {
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) || std::isinf(b[i])) {
      ASSERT_EQ(fmt::format("{}", a[i]), fmt::format("{}", b[i])) << "element " << i;
    } else {
      ASSERT_LE(std::abs(a[i] - b[i]), tolerance * scale) << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
}

void expect_as_reference(const std::string& body, const Arrays& inputs, Weights weights = {}) {
  const Program p = parsed(body);
  const auto source = memory_parameters(std::move(weights));
  const Arrays expected = run(*reference_backend().compile(p, catalogue(), source), inputs);
  const auto executable = cpu_backend().compile(p, catalogue(), source);
  for (int turn = 0; turn < 2; ++turn) {  // the second one in used memory
    const Arrays got = run(*executable, inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i]);
  }
}

TEST(View, ReshapeKeepsStridesWhereItCanAndRefusesWhereItCannot) {
  const cpu::View x = cpu::dense_view(0, DType::f32, {2, 3, 4});
  const cpu::View t = cpu::transposed(x, {1, 0, 2});  // [3, 2, 4] with strides 4, 12, 1
  const auto split = cpu::reshaped(t, {3, 2, 2, 2});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->strides, (Sizes{4, 12, 2, 1}));
  EXPECT_FALSE(cpu::reshaped(t, {6, 4}));
  EXPECT_TRUE(cpu::reshaped(cpu::broadcasted(x, {5, 2, 3, 4}, {1, 2, 3}), {5, 6, 4}));
  const auto ones = cpu::reshaped(t, {1, 3, 1, 2, 4, 1});
  ASSERT_TRUE(ones);
  EXPECT_EQ(ones->strides[1], 4);
  EXPECT_EQ(ones->strides[3], 12);
}

TEST(CpuPlan, MovementOpsAgreeWithTheReference) {
  expect_as_reference(R"(input %0 "x": f32[2, 3, 4]
input %1 "y": f32[2, 2, 4]

%2 = transpose(%0) {permutation = [2, 0, 1]}: f32[4, 2, 3]
%3 = reshape(%2) {shape = [8, 3]}: f32[8, 3]
%4 = reverse(%3) {axes = [0]}: f32[8, 3]
%5 = slice(%4) {starts = [1, 0], stops = [8, 3], steps = [3, 2]}: f32[3, 2]
%6 = concat(%0, %1) {axis = 1}: f32[2, 5, 4]
%7 = broadcast(%5) {shape = [2, 3, 2], axes = [1, 2]}: f32[2, 3, 2]
%8 = add(%7, %7): f32[2, 3, 2]

output "a" %3
output "b" %5
output "c" %6
output "d" %7
output "e" %8
output "same" %0
output "again" %0
)",
                      {numbers(DType::f32, {2, 3, 4}), numbers(DType::f32, {2, 2, 4}, 2)});
}

TEST(CpuPlan, EveryDtypeMovesAndComputes) {
  for (const DType d : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    const std::string t(name_of(d));
    expect_as_reference(fmt::format(R"(input %0 "x": {0}[3, 4]

%1 = transpose(%0) {{permutation = [1, 0]}}: {0}[4, 3]
%2 = reshape(%1) {{shape = [3, 4]}}: {0}[3, 4]
%3 = mul(%0, %2): {0}[3, 4]
%4 = concat(%3, %2) {{axis = 0}}: {0}[6, 4]

output "y" %4
)",
                                    t),
                        {numbers(d, {3, 4})});
  }
}

const char* const kLinear = R"(symbol s0 in [1, 64] example 2 from "x" axis 0

input %0 "x": f32[s0, 3]

parameter %1 "w": f32[2, 3]
parameter %2 "unread": f32[9]

%3 = linear(%0, %1, _): f32[s0, 2]
%4 = neg(%3): f32[s0, 2]

output "y" %4
)";

Weights linear_weights(uint64_t seed) { return {{"w", numbers(DType::f32, {2, 3}, seed)}, {"unread", numbers(DType::f32, {9})}}; }

TEST(CpuPlan, AnotherSizeHasAnotherPlanAndTheFirstStays) {
  const Program p = parsed(kLinear);
  const auto source = memory_parameters(linear_weights(3));
  const auto cpu = cpu_backend().compile(p, catalogue(), source), reference = reference_backend().compile(p, catalogue(), source);
  for (const int64_t size : {2, 5, 2, 64, 1, 5}) {
    const Arrays inputs{numbers(DType::f32, {size, 3}, static_cast<uint64_t>(size))};
    expect_close(run(*cpu, inputs)[0], run(*reference, inputs)[0]);
  }
  EXPECT_THROW(run(*cpu, {numbers(DType::f32, {65, 3})}), Error);
  EXPECT_THROW(run(*cpu, {numbers(DType::f32, {2, 4})}), Error);
  EXPECT_THROW(run(*cpu, {numbers(DType::f64, {2, 3})}), Error);
  EXPECT_THROW(run(*cpu, {}), Error);
}

TEST(CpuPlan, OtherWeightsUnderTheSameNamesGiveOtherResults) {
  const Program p = parsed(kLinear);
  const Arrays inputs{numbers(DType::f32, {4, 3})};
  std::vector<std::unique_ptr<Executable>> alive;
  for (const uint64_t seed : {1, 2, 1, 3}) {
    const auto source = memory_parameters(linear_weights(seed));
    alive.push_back(cpu_backend().compile(p, catalogue(), source));
    expect_close(run(*alive.back(), inputs)[0], run(*reference_backend().compile(p, catalogue(), source), inputs)[0]);
  }
  // And another program with the weights of the first.
  const auto source = memory_parameters(linear_weights(1));
  std::string doubled = kLinear;
  doubled.replace(doubled.find("neg"), 3, "abs");
  const Program other = parsed(doubled);
  expect_close(run(*cpu_backend().compile(other, catalogue(), source), inputs)[0],
               run(*reference_backend().compile(other, catalogue(), source), inputs)[0]);
  const Arrays first = run(*alive[0], inputs), third = run(*alive[2], inputs);
  EXPECT_TRUE(first[0].same_bytes(third[0]));
}

TEST(CpuPlan, ResultsStayWhenTheNextRunReusesTheMemory) {
  const auto e = cpu_backend().compile(parsed(kLinear), catalogue(), memory_parameters(linear_weights(1)));
  const Arrays first = run(*e, {numbers(DType::f32, {4, 3}, 1)});
  const std::vector<double> before = load_double(first[0]);
  const Arrays second = run(*e, {numbers(DType::f32, {4, 3}, 2)});
  EXPECT_EQ(load_double(first[0]), before);
  EXPECT_NE(load_double(second[0]), before);
}

TEST(CpuPlan, SeveralThreadsRunOneExecutableAtOnce) {
  const Program p = parsed(kLinear);
  const auto source = memory_parameters(linear_weights(1));
  const auto e = cpu_backend().compile(p, catalogue(), source), reference = reference_backend().compile(p, catalogue(), source);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 50; ++i) {
        const Arrays inputs{numbers(DType::f32, {1 + (i + t) % 7, 3}, static_cast<uint64_t>(i))};
        const std::vector<double> got = load_double(run(*e, inputs)[0]), expected = load_double(run(*reference, inputs)[0]);
        for (size_t k = 0; k < got.size(); ++k) wrong += std::abs(got[k] - expected[k]) > 1e-5 ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuPlan, TapsShowEveryValueThatIsNotSwallowed) {
  Program p = parsed(R"(input %0 "x": f32[2, 3]

%1 = transpose(%0) {permutation = [1, 0]}: f32[3, 2]
%2, %3 = sort(%1) {axis = 1, descending = false, stable = true}: f32[3, 2], i64[3, 2]
%4 = reshape(%2) {shape = [6]}: f32[6]

output "y" %4
)");
  for (const ValueId v : {0, 1, 2, 3, 4}) p.taps.push_back({fmt::format("v{}@0/output", v), v, "", false});
  const auto source = memory_parameters({});
  std::map<size_t, Array> expected, got;
  RunRequest request;
  request.inputs = {numbers(DType::f32, {2, 3})};
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(expected.emplace(tap, a).second); };
  reference_backend().compile(p, catalogue(), source)->run(request);
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(got.emplace(tap, a).second); };
  cpu_backend().compile(p, catalogue(), source)->run(request);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [tap, array] : expected) EXPECT_TRUE(got.at(tap).same_bytes(array)) << tap;
}

TEST(CpuPlan, StatesGoOnFromRunToRun) {
  const Program p = parsed(R"(input %0 "x": f32[2]

state %1 "count": f32[2]

%2 = add(%0, %1): f32[2]

output "y" %2
update %1 = %2
)");
  const auto source = memory_parameters({{"count", numbers(DType::f32, {2})}});
  std::map<std::string, std::vector<Array>> states{{"cpu", {numbers(DType::f32, {2})}},
                                                   {"reference", {numbers(DType::f32, {2})}}};
  for (const Backend* backend : {&cpu_backend(), &reference_backend()}) {
    const auto e = backend->compile(p, catalogue(), source);
    RunRequest request;
    request.states = &states[backend->name()];
    for (const uint64_t seed : {1, 2, 3}) {
      request.inputs = {numbers(DType::f32, {2}, seed)};
      e->run(request);
    }
  }
  EXPECT_EQ(load_double(states["cpu"][0]), load_double(states["reference"][0]));
}

TEST(CpuPlan, RandomOpsDrawWhatTheReferenceDraws) {
  const Program p = parsed(R"(%0 = normal() {shape = [4], dtype = f32}: f32[4]
%1 = uniform() {shape = [4], dtype = f32}: f32[4]

output "a" %0
output "b" %1
)");
  RunRequest request;
  request.seed = 7;
  const Arrays a = cpu_backend().compile(p, catalogue(), memory_parameters({}))->run(request);
  const Arrays b = reference_backend().compile(p, catalogue(), memory_parameters({}))->run(request);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(a[i].same_bytes(b[i]));
}

}  // namespace
}  // namespace pycandle
