// Which cause is named when several fit, or none; and that no trial ends the search.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "small_recording.h"
#include "verify/diagnosing/causes.h"
#include "verify/diagnosing/reach.h"

namespace pycandle {
namespace {

Program parsed(const std::string& lines) { return parse_program("ptir.v1 program \"case\"\n\n" + lines, catalogue(), "case"); }

Slice slice_of(const Program& p) {
  PerValue<bool> known(p.graph.values.size());
  for (const Input& i : p.inputs) known[i.value] = true;
  return Slicer(p, known).slice(p.outputs[0].value);
}

class Choices : public testing::Test {
 protected:
  const Trials trials_{catalogue(), memory_parameters({}), {}};
};

constexpr const char* kAttention = R"(input %0 "x": f32[2, 5, 8]
input %1 "mask": bool[2, 5]

{}
%9 = scaled_dot_product_attention(%0, %0, %0, {}, _, _, _): f32[2, 5, 8]

output "output" %9
)";

TEST_F(Choices, AMaskThatAttentionOfThreeAxesLacksIsFoundAmongTheInputs) {
  const Program is = parsed(fmt::format(kAttention, "", "_")),
                right = parsed(fmt::format(kAttention,
                                           "%2 = reshape(%1) {shape = [2, 1, 5]}: bool[2, 1, 5]\n"
                                           "%3 = broadcast(%2) {shape = [2, 5, 5], axes = [0, 1, 2]}: bool[2, 5, 5]",
                                           "%3"));
  const Array x = float_array({2, 5, 8}, some_floats(80, 3)),
              mask = store(DType::boolean, {2, 5}, std::vector<int64_t>{1, 1, 1, 0, 0, 1, 1, 1, 1, 0});
  const Slice slice = slice_of(is);
  const std::vector<Array> inputs{x};
  const Array golden = trials_.rounded(right, {x, mask});
  Suspect suspect{is, slice, inputs, golden};
  suspect.input_values = [&] { return std::vector<Suspect::InputValue>{{"mask", {DType::boolean, {Dim(2), Dim(5)}}, mask}}; };
  const Causes causes = find_causes(suspect, trials_);
  ASSERT_NE(causes.only(), nullptr) << causes.text();
  EXPECT_EQ(causes.text(), "looks like no mask where the model uses a mask made from mask");
}

TEST_F(Choices, WhatATrialThrowsDoesNotEndTheSearch) {
  const char* text = "input %0 \"x\": f32[2, 5]\n\n%1 = tanh(%0): f32[2, 5]\n\noutput \"output\" %1\n";
  const Program p = parsed(text);
  const Slice slice = slice_of(p);
  const std::vector<Array> inputs{float_array({2, 5}, some_floats(10, 3))};
  const Array golden = float_array({2, 5}, some_floats(10, 40));
  Suspect suspect{p, slice, inputs, golden};
  suspect.beside = [](const Type&) -> std::vector<std::pair<std::string, Array>> { throw std::out_of_range("a place"); };
  EXPECT_NO_THROW({ EXPECT_TRUE(find_causes(suspect, trials_).found.empty()); });
}

constexpr const char* kSplit = R"(input %0 "x": f32[3, 8]

%1, %2 = split(%0){{sizes = [4, 4], axis = 1}}: f32[3, 4], f32[3, 4]
%3 = {}: f32[3, 4]

output "output" %3
)";

TEST_F(Choices, ACauseThatARightLayerWithTheSameNodeContradictsIsOut) {
  const Program is = parsed(fmt::format(kSplit, "tanh(%1)")), right = parsed(fmt::format(kSplit, "tanh(%2)")),
                other = parsed(fmt::format(kSplit, "exp(%1)"));
  const std::vector<Array> inputs{float_array({3, 8}, some_floats(24, 3))};
  const Slice slice = slice_of(is);
  const Array golden = trials_.rounded(right, inputs);
  Suspect suspect{is, slice, inputs, golden};
  const Causes alone = find_causes(suspect, trials_);
  ASSERT_NE(alone.only(), nullptr) << alone.text();
  EXPECT_EQ(alone.only()->kind, "part order");
  suspect.right_values = [&](NodeId) {
    return std::vector<Suspect::RightValue>{{slice_of(other), inputs, trials_.rounded(other, inputs)}};
  };
  const Causes causes = find_causes(suspect, trials_);
  EXPECT_EQ(causes.only(), nullptr) << causes.text();
}

TEST_F(Choices, ANodeThatDoesNotReachWhatIsWrongIsNotSuspected) {
  const Program p = parsed(R"(input %0 "x": f32[3, 4]

%1 = tanh(%0): f32[3, 4]
%2 = cos(%0): f32[3, 4]
%3 = concat(%1, %2){axis = 1}: f32[3, 8]

output "output" %3
)");
  const Slice slice = slice_of(p);
  const std::vector<Array> inputs{float_array({3, 4}, some_floats(12, 3))};
  std::vector<double> wrong = load_double(trials_.rounded(p, inputs));
  wrong[5] += 0.3;  // of the cosine
  const Array golden = store(DType::f32, {3, 8}, wrong);
  EXPECT_FALSE(reaches_error(slice, trials_, inputs, golden, slice.program.graph.nodes[0]));
  EXPECT_TRUE(reaches_error(slice, trials_, inputs, golden, slice.program.graph.nodes[1]));
}

}  // namespace
}  // namespace pycandle
