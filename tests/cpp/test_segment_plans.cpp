// Programs whose sizes depend on data, as the cpu backend runs them: plans between the nodes that find sizes.
#include <map>

#include "plan_cases.h"

namespace pycandle {
namespace {

// The pixels of an image that are large enough, through a layer; then those of its results that are.
const char* const kTwice = R"(symbol s0 in [1, 64] example 6 from "x" axis 2
symbol u0 in [0, inf) example 3
symbol u1 in [0, inf) example 3

input %0 "x": f32[1, 3, s0, 5]

parameter %1 "w": f32[8, 3, 3, 3]
parameter %2 "linear": f32[4, 1]

%3 = conv2d(%0, %1, _) {padding = [1, 1]}: f32[1, 8, s0, 5]
%4 = relu(%3): f32[1, 8, s0, 5]
%5 = reshape(%4) {shape = [40*s0]}: f32[40*s0]
%6 = constant() {value = 0.5, dtype = f32, shape = [40*s0]}: f32[40*s0]
%7 = gt(%5, %6): bool[40*s0]
%8 = nonzero(%7) {count = u0}: i64[u0, 1]
%9 = reshape(%8) {shape = [u0]}: i64[u0]
%10 = take(%5, %9) {axis = 0}: f32[u0]
%11 = reshape(%10) {shape = [u0, 1]}: f32[u0, 1]
%12 = linear(%11, %2, _): f32[u0, 4]
%13 = tanh(%12): f32[u0, 4]
%14 = reshape(%13) {shape = [4*u0]}: f32[4*u0]
%15 = constant() {value = 0.0, dtype = f32, shape = [4*u0]}: f32[4*u0]
%16 = gt(%14, %15): bool[4*u0]
%17 = nonzero(%16) {count = u1}: i64[u1, 1]
%18 = add(%17, %17): i64[u1, 1]

output "chosen" %13
output "places" %18
output "image" %4
)";

Weights weights() { return {{"w", numbers(DType::f32, {8, 3, 3, 3}, 2)}, {"linear", numbers(DType::f32, {4, 1}, 3)}}; }

TEST(SegmentPlan, WhatLiesBetweenTheNodesThatFindSizesAgreesAndHasKernels) {
  for (const int64_t size : {1, 6, 9}) expect_as_reference(kTwice, {numbers(DType::f32, {1, 3, size, 5})}, weights());
  expect_as_reference(kTwice, {store(DType::f32, {1, 3, 2, 5}, std::vector<double>(30, 0.0))}, weights());  // nothing is found
  std::map<std::string, int> evaluated;
  bool has_kernels = false;
  const auto e = cpu_backend().compile(parsed(kTwice), catalogue(), memory_parameters(weights()));
  RunRequest request;
  request.inputs = {numbers(DType::f32, {1, 3, 6, 5})};
  Bindings found;
  request.found = &found;
  request.on_step = [&](const StepTime& step) {
    if (std::string(step.kernel) == "evaluator") ++evaluated[std::string(step.op)];
    has_kernels = has_kernels || std::string(step.op) == "conv2d";
  };
  const Arrays results = e->run(request);
  EXPECT_TRUE(has_kernels);
  EXPECT_EQ(evaluated, (std::map<std::string, int>{{"nonzero", 2}}));
  EXPECT_EQ(found.at("u0"), results[0].shape()[0]);
  EXPECT_EQ(found.at("u1"), results[1].shape()[0]);
}

TEST(SegmentPlan, TapsAreTheReferences) {
  Program p = parsed(kTwice);
  for (const ValueId v : {0, 3, 4, 7, 8, 10, 13, 17, 18})
    p.taps.push_back({TapId::parse(fmt::format("v{}@0/output", v)), v, "", false});
  const auto source = memory_parameters(weights());
  std::map<size_t, Array> expected, got;
  RunRequest request;
  request.inputs = {numbers(DType::f32, {1, 3, 6, 5})};
  request.on_tap = [&](size_t tap, const Array& a) { expected.emplace(tap, a); };
  reference_backend().compile(p, catalogue(), source)->run(request);
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(got.emplace(tap, a).second); };
  cpu_backend().compile(p, catalogue(), source)->run(request);
  EXPECT_GE(got.size(), 6u);  // but for what a kernel swallows
  for (const auto& [tap, value] : got) expect_close(value, expected.at(tap));
}

}  // namespace
}  // namespace pycandle
