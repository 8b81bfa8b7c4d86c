// Agreement that proves nothing: which values are without evidence, and what a recording of such values comes to.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "small_recording.h"
#include "verify/judging/trials.h"
#include "verify/judging/vacuity.h"
#include "verify/verify.h"

namespace pycandle {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Array f32(const std::vector<double>& values) { return store(DType::f32, {static_cast<int64_t>(values.size())}, values); }

Program parsed(const std::string& body) { return parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue()); }

constexpr const char* kSigmoid = "input %0 \"x\": f32[4]\n\n%1 = sigmoid(%0): f32[4]\n\noutput \"y\" %1\n";
constexpr const char* kSign = "input %0 \"x\": f32[4]\n\n%1 = sign(%0): f32[4]\n\noutput \"y\" %1\n";

// Why the golden proves nothing of a layer that computes it from x; "" when it does.
std::string reason(const std::string& body, const std::vector<double>& x, const Array& golden) {
  Slice slice;
  slice.program = parsed(body);
  slice.last_op = slice.program.graph.nodes.back().op->name;
  return vacuity(slice, catalogue(), {f32(x)}, golden).value_or("");
}

TEST(Evidence, NumbersThatAreAllTheSameProveNothing) {
  const std::vector<double> x{1, 2, 3, 4};
  EXPECT_EQ(reason(kSigmoid, x, f32({0, 0, -0.0, 0})), "all of its 4 elements are 0");
  EXPECT_EQ(reason(kSigmoid, x, f32({kNaN, kNaN, kNaN, kNaN})), "all of its 4 elements are NaN");
  EXPECT_EQ(reason(kSigmoid, x, f32({0.3, 0.3, 0.3, 0.3})), "all of its 4 elements are 0.3");
  EXPECT_EQ(reason(kSigmoid, x, f32({0.3, 0.3, 0.3, 0.4})), "");
  EXPECT_EQ(reason(kSigmoid, x, f32({})), "it has no elements");
}

TEST(Evidence, OneElementProvesSomethingUnlessItIsZero) {
  EXPECT_EQ(reason(kSigmoid, {1, 2, 3, 4}, f32({1})), "");
  EXPECT_EQ(reason(kSigmoid, {1, 2, 3, 4}, f32({0})), "its element is 0");
  EXPECT_EQ(reason(kSigmoid, {1, 2, 3, 4}, f32({kNaN})), "its element is NaN");
}

TEST(Evidence, IntegersAndBoolsAlwaysProveSomething) {
  EXPECT_EQ(reason(kSigmoid, {1, 2, 3, 4}, store(DType::i64, {3}, std::vector<double>{0, 0, 0})), "");
  EXPECT_EQ(reason(kSigmoid, {1, 2, 3, 4}, store(DType::boolean, {3}, std::vector<double>{0, 0, 0})), "");
}

TEST(Evidence, ALimitedFunctionAtItsLimitsProvesNothingAndAStepDoes) {
  const std::vector<double> x{-900, 900, 901, 902};
  EXPECT_EQ(reason(kSigmoid, x, f32({0, 1, 1, 1})), "all of its 4 elements are 0 or 1, though its inputs have more numbers");
  EXPECT_EQ(reason(kSigmoid, x, f32({0, 0.3, 0.3, 0.3})), "") << "0.3 has digits";
  EXPECT_EQ(reason(kSigmoid, {0, 1, 0, 1}, f32({0, 1, 0, 1})), "") << "the input has no more numbers: a mask";
  EXPECT_EQ(reason(kSign, x, f32({-1, 1, 1, 1})), "");
}

TEST(Evidence, WhatIsComputedFromZerosAloneProvesNothing) {
  EXPECT_EQ(reason(kSigmoid, {0, 0, 0, 0}, f32({0.1, 0.2, 0.3, 0.4})), "it is computed from nothing but 0");
}

TEST(Evidence, NumbersOfAnInputAreFollowedThroughTheProgram) {
  const Program p = parsed(
      "input %0 \"x\": f32[4]\nparameter %1 \"w\": f32[4]\n\n%2 = neg(%1): f32[4]\n%3 = add(%0, %2): f32[4]\n\noutput \"y\" "
      "%3\n");
  const PerValue<bool> depends = values_from_inputs(p);
  EXPECT_TRUE(depends[0]);
  EXPECT_FALSE(depends[1]);
  EXPECT_FALSE(depends[2]);
  EXPECT_TRUE(depends[3]);
}

TEST(Evidence, OnesForGatesThatAreAllOpenProveNoMoreThanTheGates) {
  const Program gates = parsed("input %0 \"x\": f32[4]\n\n%1 = sigmoid(%0): f32[4]\n\noutput \"y\" %1\n"),
                ones = parsed("input %0 \"x\": f32[4]\nparameter %1 \"w\": f32[4]\n\n%2 = neg(%1): f32[4]\n\noutput \"y\" %2\n");
  EXPECT_FALSE(values_from_inputs(ones)[2]);
  EXPECT_TRUE(values_from_inputs(ones, gates)[2]);
  EXPECT_FALSE(values_from_inputs(ones, ones)[2]);
}

TEST(Evidence, ASumThatAbsorbsItsTermsDrownsInRounding) {
  const auto drowned = [](const std::string& body, const std::vector<double>& x) {
    const Trials trials(catalogue(), memory_parameters({}), {});
    const Program p = decompose_to_primitives(parsed(body), catalogue());
    return may_grow_rounding(p) && drowns_in_rounding(trials.quick_floor(p, {f32(x)}), DType::f32);
  };
  const std::string absorbs =
      "input %0 \"x\": f32[4]\n\n%1 = constant() {value = 100000000.0, shape = [4], dtype = f32}: f32[4]\n"
      "%2 = add(%0, %1): f32[4]\n%3 = sub(%2, %1): f32[4]\n\noutput \"y\" %3\n";
  EXPECT_TRUE(drowned(absorbs, {17, -33, 90, 40}));
  EXPECT_FALSE(
      drowned("input %0 \"x\": f32[4]\n\n%1 = exp(%0): f32[4]\n%2 = sigmoid(%1): f32[4]\n\noutput \"y\" %2\n", {1, 2, 3, 4}));
  EXPECT_FALSE(may_grow_rounding(parsed(kSign)));
}

TEST(Evidence, ALayerHasTheDigitsOfTheSmallestFloatThatItComputesIn) {
  const Program p = parsed(
      "input %0 \"x\": f64[2]\n\n%1 = cast(%0) {dtype = f32}: f32[2]\n%2 = cast(%1) {dtype = f64}: f64[2]\n\noutput \"y\" %2\n");
  EXPECT_EQ(coarsest_float(p, DType::f64), DType::f32);
  const Floor by_f32{{1, 2}, {{1e-7, 1e-7}}, 1.6};
  EXPECT_TRUE(drowns_in_rounding(by_f32, DType::f64));
  EXPECT_FALSE(drowns_in_rounding(by_f32, DType::f32));
}

TEST(Evidence, AFewUnstableElementsLeaveEvidenceInTheOthers) {
  const Floor few{{1, 2, 3, 4}, {{0, 0, 0, 3}}, 2.7}, most{{1, 2, 3, 4}, {{1, 2, 3, 0}}, 2.7}, none{{1, 2}, {{1e-7, 1e-7}}, 1.6};
  EXPECT_FALSE(drowns_in_rounding(few, DType::f32));
  EXPECT_TRUE(drowns_in_rounding(most, DType::f32));
  EXPECT_FALSE(drowns_in_rounding(none, DType::f32));
}

// ---- recordings

// x = 0 gives layer_norm's bias in every row, whatever its weight is.
std::map<std::string, Array> goldens_of_zeros() {
  const Sizes shape{kBatch, kLength, kWidth};
  const int count = kBatch * kLength * kWidth;
  const Floats x(count, 0.0f), norm = layer_norm_golden(x, some_floats(kWidth, 50), some_floats(kWidth, 70)),
                               act = gelu_golden(norm), attention = attention_golden(act);
  return {{"input:x", float_array(shape, x)},
          {"norm@0/output", float_array(shape, norm)},
          {"act@0/output", float_array(shape, act)},
          {"attn@0/output", float_array(shape, attention)},
          {"rest@0/output", float_array(shape, attention)},
          {"output:output", float_array(shape, attention)}};
}

const LayerResult& first_row(const VerifyResult& r, const std::string& module, const std::string& input) {
  for (const LayerResult& l : r.layers) {
    if (l.tap.module == module && l.input == input) return l;
  }
  throw std::runtime_error("no row of " + module);
}

TEST(Evidence, ALayerHasItWhenAnyInputExercisesIt) {
  SmallRecording recording;
  write_safetensors(recording.folder.path() / "small_perturbed1_trace.safetensors", recording.goldens);
  recording.goldens = goldens_of_zeros();
  recording.write_trace();
  const VerifyResult alone = verify_recording(recording.manifest());
  EXPECT_EQ(first_row(alone, "norm", "").verdict, Verdict::no_evidence);
  EXPECT_EQ(first_row(alone, "norm", "").why, "it is computed from nothing but 0");
  EXPECT_EQ(alone.wrong(), 0);
  EXPECT_TRUE(alone.passed()) << "its output has evidence";

  Json manifest = Json::parse(SmallRecording::kManifest);
  manifest["files"]["perturbed_traces"] = {"small_perturbed1_trace.safetensors"};
  write_text(recording.manifest(), manifest.dump());
  const VerifyResult both = verify_recording(recording.manifest());
  EXPECT_EQ(both.count(Verdict::no_evidence), 0);
  EXPECT_EQ(both.layers.size(), 8u);
  EXPECT_LT(first_row(both, "norm", "").verdict, Verdict::no_evidence);
  EXPECT_LT(first_row(both, "norm", "perturbed inputs 1").verdict, Verdict::no_evidence);
}

TEST(Evidence, EveryRowIsHandedOnOnce) {
  SmallRecording recording;
  recording.goldens = goldens_of_zeros();
  recording.write_trace();
  std::vector<std::string> taps;
  VerifyOptions options;
  options.on_layer = [&](const LayerResult& l) { taps.push_back(l.tap.text() + ": " + to_string(l.verdict)); };
  const VerifyResult r = verify_recording(recording.manifest(), options);
  EXPECT_EQ(taps.size(), r.layers.size());
  EXPECT_EQ(taps.back(), "norm@0/output: no evidence");
}

TEST(Evidence, ARecordingWithNoneOfItsOutputsDoesNotVerify) {
  SmallRecording recording;
  const Sizes shape{kBatch, kLength, kWidth};
  const Array nan = float_array(shape, Floats(kBatch * kLength * kWidth, std::nanf("")));
  for (auto& [key, golden] : recording.goldens) golden = nan;
  recording.write_trace();
  const VerifyResult r = verify_recording(recording.manifest());
  EXPECT_EQ(r.count(Verdict::no_evidence), 4);
  EXPECT_EQ(r.wrong(), 0);
  EXPECT_TRUE(r.proves_nothing());
  EXPECT_FALSE(r.passed());
}

}  // namespace
}  // namespace pycandle
