// A backend that keeps weights in fewer bytes is judged by those weights: not by the recorded ones, and not more mildly than
// its kernels need.
#include <gtest/gtest.h>

#include "plan_cases.h"
#include "verify/judging/trials.h"

namespace pycandle {
namespace {

const char* const kLayer = R"(input %0 "x": f32[20, 256]

parameter %1 "w": f32[48, 256]
parameter %2 "b": f32[48]

%3 = linear(%0, %1, %2): f32[20, 48]
%4 = gelu(%3): f32[20, 48]

output "y" %4
)";

class NarrowVerdict : public ::testing::TestWithParam<WeightFormat> {
 protected:
  Program p = parsed(kLayer);
  std::shared_ptr<const ParameterSource> parameters = memory_parameters(
      {{"w", numbers(DType::f32, {48, 256}, 1)}, {"b", numbers(DType::f32, {48}, 2)}});
  Trials trials{catalogue(), parameters, {}};
  Arrays inputs{numbers(DType::f32, {20, 256}, 3)};

  Array ours(WeightFormat format) const {
    PipelineOptions options;
    options.threads = 1;
    options.weights = format;
    return run(*cpu_backend().compile(p, catalogue(), parameters, options), inputs)[0];
  }
};

TEST_P(NarrowVerdict, TheKernelsPassAndOtherWeightsDoNot) {
  const WeightFormat format = GetParam();
  const auto good = trials.judge_narrowed(p, inputs, format, ours(format));
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->judgement.passed) << good->judgement.why;
  const bool is_half = format == WeightFormat::bf16 || format == WeightFormat::f16;
  EXPECT_GT(good->weight_rounding, format == WeightFormat::f16 ? 1e-5 : is_half ? 1e-4 : 1e-3);
  EXPECT_LT(good->weight_rounding, is_half ? 1e-2 : 0.3);
  // bf16 activations lose as much as bf16 weights do; everywhere else the recorded weights are not what was asked for.
  if (format == WeightFormat::bf16) return;
  EXPECT_FALSE(trials.judge_narrowed(p, inputs, format, ours(WeightFormat::f32))->judgement.passed);
  const WeightFormat other = format == WeightFormat::int8 ? WeightFormat::int4 : WeightFormat::int8;
  EXPECT_FALSE(trials.judge_narrowed(p, inputs, format, ours(other))->judgement.passed);
}

INSTANTIATE_TEST_SUITE_P(Formats, NarrowVerdict,
                         ::testing::Values(WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(NarrowVerdicts, ALayerWithoutWeightsIsJudgedAsEver) {
  const Program p = parsed("input %0 \"x\": f32[4]\n\n%1 = gelu(%0): f32[4]\n\noutput \"y\" %1\n");
  const Trials trials(catalogue(), memory_parameters({}), {});
  EXPECT_FALSE(trials.judge_narrowed(p, {numbers(DType::f32, {4})}, WeightFormat::int8, numbers(DType::f32, {4})));
}

}  // namespace
}  // namespace pycandle
