// Convolution networks in blocks of channels, as the cpu backend runs them, beside the reference.
#include <map>

#include "backends/cpu/executable.h"
#include "plan_cases.h"

namespace pycandle {
namespace {

Array variances(int64_t count) {
  std::vector<double> v;
  for (int64_t i = 0; i < count; ++i) v.push_back(0.5 + 0.1 * static_cast<double>(i % 7));
  return store(DType::f32, {count}, v);
}

// How often each kernel runs.
std::map<std::string, int> kernels_of(const Program& p, const Arrays& inputs, const Weights& weights) {
  const auto e = cpu_backend().compile(p, catalogue(), memory_parameters(weights));
  std::map<std::string, int> counts;
  RunRequest request;
  request.inputs = inputs;
  request.prepare_fully = true;
  request.on_step = [&](const StepTime& step) { ++counts[std::string(step.kernel)]; };
  e->run(request);
  return counts;
}

// A residual block after a stem and a pool, then the mean of the positions. Channels do not fill the blocks.
const char* const kResidual = R"(input %0 "x": f32[2, 3, 19, 17]

parameter %1 "stem": f32[20, 3, 7, 7]
parameter %2 "mean": f32[20]
parameter %3 "var": f32[20]
parameter %4 "w1": f32[20, 20, 3, 3]
parameter %5 "b1": f32[20]
parameter %6 "w2": f32[20, 20, 3, 3]

%7 = conv2d(%0, %1, _) {stride = [2, 2], padding = [3, 3]}: f32[2, 20, 10, 9]
%8 = batch_norm(%7, %2, %3, %5, %2) {eps = 1e-05}: f32[2, 20, 10, 9]
%9 = relu(%8): f32[2, 20, 10, 9]
%10 = max_pool2d(%9) {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]}: f32[2, 20, 5, 5]
%11 = conv2d(%10, %4, %5) {padding = [1, 1]}: f32[2, 20, 5, 5]
%12 = silu(%11): f32[2, 20, 5, 5]
%13 = conv2d(%12, %6, _) {padding = [1, 1]}: f32[2, 20, 5, 5]
%14 = add(%13, %10): f32[2, 20, 5, 5]
%15 = relu(%14): f32[2, 20, 5, 5]
%16 = reduce_sum(%15) {axes = [2, 3]}: f32[2, 20]

output "y" %16
output "whole" %15
)";

Weights residual_weights() {
  return {{"stem", numbers(DType::f32, {20, 3, 7, 7}, 2)},
          {"mean", numbers(DType::f32, {20}, 3)},
          {"var", variances(20)},
          {"w1", numbers(DType::f32, {20, 20, 3, 3}, 4)},
          {"b1", numbers(DType::f32, {20}, 5)},
          {"w2", numbers(DType::f32, {20, 20, 3, 3}, 6)}};
}

TEST(BlockedPlan, AResidualNetworkAgreesAndNeverLeavesTheBlocks) {
  const Arrays inputs{numbers(DType::f32, {2, 3, 19, 17})};
  expect_as_reference(kResidual, inputs, residual_weights());
  const std::map<std::string, int> counts = kernels_of(parsed(kResidual), inputs, residual_weights());
  EXPECT_EQ(counts.at("convolution"), 3);
  EXPECT_EQ(counts.at("pool"), 1);
  EXPECT_EQ(counts.count("gemm"), 0u);
  EXPECT_LE(counts.at("copy"), 3);  // of the outputs: the sums, whole blocks and the rest of one
}

TEST(BlockedPlan, TapsSeeWholeImages) {
  Program p = parsed(kResidual);
  for (const ValueId v : {9, 10, 12, 15, 16}) p.taps.push_back({TapId::parse(fmt::format("v{}@0/output", v)), v, "", false});
  const auto source = memory_parameters(residual_weights());
  std::map<size_t, Array> expected, got;
  RunRequest request;
  request.inputs = {numbers(DType::f32, {2, 3, 19, 17})};
  request.on_tap = [&](size_t tap, const Array& a) { expected.emplace(tap, a); };
  reference_backend().compile(p, catalogue(), source)->run(request);
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(got.emplace(tap, a).second); };
  cpu_backend().compile(p, catalogue(), source)->run(request);
  ASSERT_EQ(got.size(), 5u);
  for (const auto& [tap, value] : got) expect_close(value, expected.at(tap));
}

// An inverted residual with a squeezed and excited depthwise convolution; 24 channels.
TEST(BlockedPlan, DepthwiseWithAScaleForEachChannelAgrees) {
  for (const int64_t wide : {32, 40}) {
    const std::string body = fmt::format(R"(input %0 "x": f32[3, 24, 9, 9]

parameter %1 "expand": f32[{0}, 24, 1, 1]
parameter %2 "deep": f32[{0}, 1, 5, 5]
parameter %3 "bias": f32[{0}]
parameter %4 "squeeze": f32[8, {0}, 1, 1]
parameter %5 "excite": f32[{0}, 8, 1, 1]
parameter %6 "project": f32[24, {0}, 1, 1]

%7 = conv2d(%0, %1, %3): f32[3, {0}, 9, 9]
%8 = relu6(%7): f32[3, {0}, 9, 9]
%9 = conv2d(%8, %2, %3) {{stride = [2, 2], padding = [2, 2], groups = {0}}}: f32[3, {0}, 5, 5]
%10 = hardswish(%9): f32[3, {0}, 5, 5]
%11 = reduce_sum(%10) {{axes = [2, 3]}}: f32[3, {0}]
%12 = reshape(%11) {{shape = [3, {0}, 1, 1]}}: f32[3, {0}, 1, 1]
%13 = conv2d(%12, %4, _): f32[3, 8, 1, 1]
%14 = relu(%13): f32[3, 8, 1, 1]
%15 = conv2d(%14, %5, %3): f32[3, {0}, 1, 1]
%16 = sigmoid(%15): f32[3, {0}, 1, 1]
%17 = broadcast(%16) {{shape = [3, {0}, 5, 5], axes = [0, 1, 2, 3]}}: f32[3, {0}, 5, 5]
%18 = mul(%10, %17): f32[3, {0}, 5, 5]
%19 = conv2d(%18, %6, _): f32[3, 24, 5, 5]
%20 = max_pool2d(%0) {{kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]}}: f32[3, 24, 5, 5]
%21 = add(%19, %20): f32[3, 24, 5, 5]
%22 = tanh(%21): f32[3, 24, 5, 5]
%23 = conv2d(%22, %1, _): f32[3, {0}, 5, 5]

output "y" %23
)",
                                         wide);
    expect_as_reference(body, {numbers(DType::f32, {3, 24, 9, 9})},
                        {{"expand", numbers(DType::f32, {wide, 24, 1, 1}, 2)},
                         {"deep", numbers(DType::f32, {wide, 1, 5, 5}, 3)},
                         {"bias", numbers(DType::f32, {wide}, 4)},
                         {"squeeze", numbers(DType::f32, {8, wide, 1, 1}, 5)},
                         {"excite", numbers(DType::f32, {wide, 8, 1, 1}, 6)},
                         {"project", numbers(DType::f32, {24, wide, 1, 1}, 7)}});
  }
}

// Channels side by side, a batch norm that follows no convolution, groups, an average, a value read in both forms.
TEST(BlockedPlan, ADenselyConnectedNetworkAgrees) {
  for (const int64_t growth : {16, 12}) {
    const int64_t all = 32 + growth;
    const std::string body = fmt::format(R"(input %0 "x": f32[2, 32, 8, 11]

parameter %1 "w": f32[{0}, 32, 3, 3]
parameter %2 "mean": f32[{1}]
parameter %3 "var": f32[{1}]
parameter %4 "next": f32[32, {1}, 1, 1]
parameter %5 "grouped": f32[32, 16, 3, 3]
parameter %6 "first": f32[32, 32, 1, 1]

%7 = conv2d(%0, %6, _): f32[2, 32, 8, 11]
%8 = conv2d(%7, %1, _) {{padding = [1, 1]}}: f32[2, {0}, 8, 11]
%9 = concat(%7, %8) {{axis = 1}}: f32[2, {1}, 8, 11]
%10 = batch_norm(%9, %2, %3, %3, %2) {{eps = 1e-05}}: f32[2, {1}, 8, 11]
%11 = relu(%10): f32[2, {1}, 8, 11]
%12 = conv2d(%11, %4, _): f32[2, 32, 8, 11]
%13 = avg_pool2d(%12) {{kernel_size = [3, 2], stride = [2, 2], padding = [1, 0], count_include_pad = false}}: f32[2, 32, 4, 5]
%14 = conv2d(%13, %5, _) {{padding = [2, 2], dilation = [2, 2], groups = 2}}: f32[2, 32, 4, 5]
%15 = add(%14, %13): f32[2, 32, 4, 5]
%16 = conv2d(%15, %6, _): f32[2, 32, 4, 5]
%17 = transpose(%15) {{permutation = [0, 2, 3, 1]}}: f32[2, 4, 5, 32]
%18 = softmax(%17) {{dim = -1}}: f32[2, 4, 5, 32]

output "y" %16
output "z" %18
)",
                                         growth, all);
    expect_as_reference(body, {numbers(DType::f32, {2, 32, 8, 11})},
                        {{"w", numbers(DType::f32, {growth, 32, 3, 3}, 2)},
                         {"mean", numbers(DType::f32, {all}, 3)},
                         {"var", variances(all)},
                         {"next", numbers(DType::f32, {32, all, 1, 1}, 4)},
                         {"grouped", numbers(DType::f32, {32, 16, 3, 3}, 5)},
                         {"first", numbers(DType::f32, {32, 32, 1, 1}, 6)}});
  }
}

// The first call runs directly, later ones in Winograd's way, unless convolutions are to be exact.
TEST(BlockedPlan, LargeConvolutionsRunInWinogradsWayFromTheSecondCallOn) {
  const Program p = parsed(R"(input %0 "x": f32[1, 64, 21, 21]

parameter %1 "w": f32[64, 64, 3, 3]

%2 = conv2d(%0, %1, _) {padding = [1, 1]}: f32[1, 64, 21, 21]
%3 = relu(%2): f32[1, 64, 21, 21]
%4 = conv2d(%3, %1, _) {padding = [1, 1]}: f32[1, 64, 21, 21]
%5 = add(%4, %2): f32[1, 64, 21, 21]
%6 = conv2d(%5, %1, _) {stride = [2, 2], padding = [1, 1]}: f32[1, 64, 11, 11]

output "y" %6
)");
  const Weights weights{{"w", numbers(DType::f32, {64, 64, 3, 3}, 2)}};
  const Array x = numbers(DType::f32, {1, 64, 21, 21});
  const Arrays expected = run(*reference_backend().compile(p, catalogue(), memory_parameters(weights)), {x});
  PipelineOptions exact;
  exact.overrides["conv2d"] = "exact";
  for (const bool is_exact : {false, true}) {
    const auto e = cpu_backend().compile(p, catalogue(), memory_parameters(weights), is_exact ? exact : PipelineOptions(),
                                         nullptr);
    for (int turn = 0; turn < 3; ++turn) {
      int winograd = 0;
      RunRequest request;
      request.inputs = {x};
      request.on_step = [&](const StepTime& step) { winograd += std::string(step.kernel).starts_with("winograd") ? 1 : 0; };
      expect_close(e->run(request)[0], expected[0], 1e-5);
      EXPECT_EQ(winograd, is_exact || turn == 0 ? 0 : 2) << "exact " << is_exact << ", call " << turn;
    }
  }
}

TEST(BlockedPlan, AWindowLargerThanTheImageIsAnError) {
  const Program p = parsed(R"(symbol s0 in [1, 64] example 8 from "x" axis 2

input %0 "x": f32[2, 3, s0, 9]

parameter %1 "w": f32[20, 3, 4, 3]
parameter %2 "v": f32[20, 20, 1, 1]

%3 = conv2d(%0, %1, _): f32[2, 20, s0 - 3, 7]
%4 = conv2d(%3, %2, _): f32[2, 20, s0 - 3, 7]

output "y" %4
)");
  const auto source = memory_parameters({{"w", numbers(DType::f32, {20, 3, 4, 3})}, {"v", numbers(DType::f32, {20, 20, 1, 1})}});
  const auto e = cpu_backend().compile(p, catalogue(), source);
  EXPECT_EQ(run(*e, {numbers(DType::f32, {2, 3, 5, 9})})[0].shape(), (Sizes{2, 20, 2, 7}));
  for (const int64_t size : {1, 3}) EXPECT_THROW(run(*e, {numbers(DType::f32, {2, 3, size, 9})}), Error) << size;
}

}  // namespace
}  // namespace pycandle
