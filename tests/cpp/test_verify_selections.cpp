// Boxes and rows that were selected, in torch and here.
#include "verify/judging/selections.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "verify/judging/metrics.h"

namespace pycandle {
namespace {

Array f32(Sizes shape, const std::vector<double>& values) { return store(DType::f32, std::move(shape), values); }
Array i64(const std::vector<int64_t>& values) { return store(DType::i64, {static_cast<int64_t>(values.size())}, values); }

Decisions between(const char* text, const std::vector<Array>& inputs, const std::vector<int64_t>& theirs,
                  const std::vector<int64_t>& ours) {
  const Program p = parse_program(std::string("ptir.v1 program \"test\"\n\n") + text, catalogue());
  PerValue<bool> known(p.graph.values.size());
  for (const Input& input : p.inputs) known[input.value] = true;
  const Slice slice = Slicer(p, known).slice(p.outputs[0].value);
  std::vector<Array> in_its_order;
  for (ValueId v : slice.inputs) in_its_order.push_back(inputs.at(v));
  const Trials trials(catalogue(), memory_parameters({}), {});
  return look_at_selections(slice, trials, in_its_order, i64(theirs), i64(ours)).value();
}

// Three boxes: the first two overlap by 0.5, the third stands alone.
const std::vector<double> kBoxes = {0, 0, 4, 2, 0, 0, 4, 4, 20, 20, 24, 24};

Decisions suppressed(const std::vector<double>& scores, const std::vector<int64_t>& theirs, const std::vector<int64_t>& ours,
                     const std::vector<double>& boxes = kBoxes) {
  return between(R"(symbol u0 in [0, inf) example 1

input %0 "boxes": f32[3, 4]
input %1 "scores": f32[3]

%2 = exp(%1): f32[3]
%3 = nms(%0, %2) {iou_threshold = 0.4, count = u0}: i64[u0]

output "output" %3
)",
                 {f32({3, 4}, boxes), f32({3}, scores)}, theirs, ours);
}

TEST(Selections, TheOrderOfBoxesOfNearlyEqualScoresIsRoundings) {
  EXPECT_EQ(suppressed({2, 1, 3}, {2, 0}, {2, 0}).differing, 0);
  EXPECT_TRUE(suppressed({2, 1, 2 + 1e-7}, {2, 0}, {0, 2}).within_rounding);
  EXPECT_FALSE(suppressed({2, 1, 2.01}, {2, 0}, {0, 2}).within_rounding);
}

TEST(Selections, WhichOfTwoOverlappingBoxesStaysMayBeRoundings) {
  EXPECT_TRUE(suppressed({2, 2 + 1e-7, 3}, {2, 1}, {2, 0}).within_rounding);
  EXPECT_FALSE(suppressed({2, 1, 3}, {2, 1}, {2, 0}).within_rounding) << "the worse one stayed";
}

TEST(Selections, AnOverlapAtTheThresholdMayCountOrNot) {
  const std::vector<double> close = {0, 0, 4, 2, 0, 0, 4, 5 + 1e-7, 20, 20, 24, 24};  // 8 of 20
  EXPECT_TRUE(suppressed({2, 1, 3}, {2, 0}, {2, 0, 1}, close).within_rounding) << "their numbers differ";
  EXPECT_FALSE(suppressed({2, 1, 3}, {2, 0}, {2, 0, 1}).within_rounding);
}

TEST(Selections, NoBoxIsForgottenNamedTwiceOrInvented) {
  EXPECT_FALSE(suppressed({2, 1, 3}, {2, 0}, {2}).within_rounding);
  EXPECT_FALSE(suppressed({2, 1, 3}, {2, 0}, {2, 0, 0}).within_rounding);
  EXPECT_FALSE(suppressed({2, 1, 3}, {2, 0}, {2, 7}).within_rounding);
}

TEST(Selections, BoxesOfOtherLabelsDoNotSuppress) {
  const char* const program = R"(symbol u0 in [0, inf) example 1

input %0 "boxes": f32[3, 4]
input %1 "scores": f32[3]
input %2 "labels": i64[3]

%3 = batched_nms(%0, %1, %2) {iou_threshold = 0.4, count = u0}: i64[u0]

output "output" %3
)";
  const std::vector<Array> inputs = {f32({3, 4}, kBoxes), f32({3}, {3, 3, 1}), i64({0, 1, 0})};
  EXPECT_TRUE(between(program, inputs, {0, 1, 2}, {1, 0, 2}).within_rounding) << "equal scores";
  EXPECT_FALSE(between(program, inputs, {0, 1, 2}, {0, 2}).within_rounding);
}

TEST(Selections, ANumberAtAThresholdMayBeAboveOrBelow) {
  const char* const program = R"(symbol u0 in [0, inf) example 1

input %0 "x": f32[3]
input %1 "y": f32[3]

%2 = exp(%0): f32[3]
%3 = exp(%1): f32[3]
%4 = gt(%2, %3): bool[3]
%5 = nonzero(%4) {count = u0}: i64[u0, 1]
%6 = reshape(%5) {shape = [u0]}: i64[u0]

output "output" %6
)";
  const std::vector<Array> inputs = {f32({3}, {1, 2, 3}), f32({3}, {1 + 1e-7, 1, 4})};
  EXPECT_TRUE(between(program, inputs, {0, 1}, {1}).within_rounding);
  EXPECT_FALSE(between(program, inputs, {1, 2}, {1}).within_rounding);
  EXPECT_FALSE(between(program, inputs, {1}, {}).within_rounding);
}

TEST(Selections, ArraysOfOtherSizesHaveNoRightElement) {
  const Metrics m = compare_with_sizes(f32({2}, {1, 2}), f32({3}, {1, 2, 3}));
  EXPECT_EQ(m.max_abs, std::numeric_limits<double>::infinity());
  EXPECT_EQ(m.differing, 3);
  EXPECT_EQ(compare_with_sizes(f32({2}, {1, 2}), f32({2}, {1, 2})).differing, 0);
}

}  // namespace
}  // namespace pycandle
