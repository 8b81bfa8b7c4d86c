#include "error_of.h"
#include "verify/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/aten_call.h"
#include "ops/core/catalogue.h"
#include "small_recording.h"
#include "verify/judging/decisions.h"
#include "verify/result_file.h"

namespace pycandle {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

Array f32(std::vector<double> values) { return store(DType::f32, {static_cast<int64_t>(values.size())}, values); }

// ---- metrics

TEST(Metrics, EqualArraysHaveNoError) {
  const Metrics m = compare(f32({1, 2, kInfinity, kNaN}), f32({1, 2, kInfinity, kNaN}));
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.differing, 0);
  EXPECT_EQ(m.nan_mismatches, 0);
  EXPECT_DOUBLE_EQ(m.cosine, 1);
}

TEST(Metrics, NaNAgainstANumberIsAnInfiniteError) {
  for (const auto& [got, expected] : {std::pair{kNaN, 1.0}, {1.0, kNaN}, {kInfinity, 1.0}, {kInfinity, -kInfinity}}) {
    const Metrics m = compare(f32({0, got}), f32({0, expected}));
    EXPECT_EQ(m.nan_mismatches, 1);
    EXPECT_EQ(m.max_abs, kInfinity);
    EXPECT_EQ(m.first_difference, 1);
  }
}

TEST(Metrics, IntegersAreComparedAsIntegers) {
  const Array a = store(DType::i64, {1}, std::vector<int64_t>{(int64_t{1} << 60) + 1}),
              b = store(DType::i64, {1}, std::vector<int64_t>{int64_t{1} << 60});
  EXPECT_EQ(compare(a, b).differing, 1) << "a double cannot tell these apart";
  EXPECT_FALSE(judge_exactly(a, b).passed);
}

TEST(Metrics, ErrorsAreMeasuredInSeveralWays) {
  const Metrics m = compare(f32({1.5, 4}), f32({1, 4}));
  EXPECT_DOUBLE_EQ(m.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(m.max_rel, 0.5);
  EXPECT_DOUBLE_EQ(m.mse, 0.125);
  EXPECT_EQ(m.differing, 1);
  EXPECT_LT(m.cosine, 1);
}

TEST(Metrics, PlacesAreCoordinates) {
  const Array got = store(DType::f32, {2, 3}, std::vector<double>{1, 2, 3, 4, kNaN, 9}),
              expected = store(DType::f32, {2, 3}, std::vector<double>{1, 2, 3.5, 4, 5, 6});
  const Metrics m = compare(got, expected);
  EXPECT_EQ(coordinates_of(m.first_difference, {2, 3}), (Sizes{0, 2}));
  EXPECT_EQ(coordinates_of(m.first_nan_mismatch, {2, 3}), (Sizes{1, 1}));
  EXPECT_EQ(coordinates_of(-1, {2, 3}), Sizes{});
}

TEST(Metrics, UlpsCountRepresentableNumbersInBetween) {
  EXPECT_EQ(ulp_distance(1, 1 + 0x1p-23, DType::f32), 1);
  EXPECT_EQ(ulp_distance(1, 1 - 0x1p-24, DType::f32), 1) << "numbers below one are twice as close";
  EXPECT_EQ(ulp_distance(1, 1 + 0x1p-7, DType::bf16), 1);
  EXPECT_EQ(ulp_distance(1, 1 + 0x1p-10, DType::f16), 1);
  EXPECT_EQ(ulp_distance(1, 1 + 0x1p-52, DType::f64), 1);
  EXPECT_EQ(ulp_distance(-0.0, 0.0, DType::f32), 0);
  EXPECT_EQ(ulp_distance(-0x1p-149, 0x1p-149, DType::f32), 2);
  EXPECT_EQ(ulp_distance(kNaN, kNaN, DType::f32), 0);
  EXPECT_EQ(ulp_distance(kNaN, 1, DType::f32), -1);
  EXPECT_GT(ulp_distance(-kInfinity, kInfinity, DType::f64), int64_t{1} << 62);
  const Metrics m = compare(f32({1, 1 + 0x1p-23, 1 + 3 * 0x1p-23, kNaN}), f32({1, 1, 1, 1}));
  EXPECT_EQ(m.ulps[0], 1);
  EXPECT_EQ(m.ulps[1], 1);
  EXPECT_EQ(m.ulps[2], 1) << "2 and 3 ulps";
  EXPECT_EQ(m.ulps[kUlpBuckets - 1], 1) << "NaN is as far as can be";
}

// ---- judging

Evidence evidence(std::vector<double> golden, std::vector<double> ours, std::vector<double> exact) {
  Evidence e;
  e.golden = f32(std::move(golden));
  e.ours = f32(std::move(ours));
  e.rounded = f32(exact);
  e.f64 = store(DType::f64, {static_cast<int64_t>(exact.size())}, exact);
  return e;
}

TEST(Judge, ARoundingOrTwoPassesAndAThousandthDoesNot) {
  EXPECT_TRUE(judge_program(evidence({1 + 1e-7, 2}, {1, 2}, {1, 2})).passed);
  const Judgement j = judge_program(evidence({1.001, 2}, {1, 2}, {1, 2}));
  EXPECT_FALSE(j.passed);
  EXPECT_NE(j.why.find("times the rounding floor"), std::string::npos) << j.why;
}

TEST(Judge, NaNNeverPassesAgainstANumber) {
  EXPECT_FALSE(judge_program(evidence({kNaN, 2}, {1, 2}, {1, 2})).passed);
  EXPECT_FALSE(judge_backend(evidence({1, 2}, {kNaN, 2}, {1, 2})).passed);
  EXPECT_FALSE(judge_backend(evidence({1, 2}, {kInfinity, 2}, {1, 2})).passed);
  EXPECT_TRUE(judge_program(evidence({kNaN, 2}, {kNaN, 2}, {kNaN, 2})).passed);
  EXPECT_TRUE(judge_backend(evidence({-kInfinity, 2}, {-kInfinity, 2}, {-kInfinity, 2})).passed);
}

TEST(Judge, TheLowestNumberOfAMaskHidesNoOtherError) {
  const double lowest = lowest_of(DType::f32);
  EXPECT_FALSE(judge_program(evidence({lowest, 1.01}, {lowest, 1}, {lowest, 1})).passed);
  EXPECT_TRUE(judge_program(evidence({lowest, 1}, {lowest, 1}, {lowest, 1})).passed);
  EXPECT_FALSE(judge_program(evidence({0.9 * lowest, 1}, {lowest, 1}, {lowest, 1})).passed);
}

// A padded query's scores drown in the mask: what rounding leaves of them is no number to judge the others by.
TEST(Judge, RowsThatAreRoundingAloneHideNoErrorOfTheOthers) {
  const auto judged = [](double error_in_the_other_row) {
    Evidence e;
    const auto rows = [](DType dtype, const std::vector<double>& values) { return store(dtype, {2, 4}, values); };
    e.rounded = rows(DType::f32, {1, 2, 3, 4, 2, 2, 2, 2});
    e.f64 = rows(DType::f64, {1, 2, 3, 4, 1, 3, 2.5, 1.5});
    e.golden = rows(DType::f32, {1 + error_in_the_other_row, 2, 3, 4, 2, 2, 2, 2});
    return judge_program(e);
  };
  EXPECT_TRUE(judged(1e-7).passed);
  const Judgement j = judged(0.01);
  EXPECT_FALSE(j.passed);
  EXPECT_NE(j.why.find("in the rows that are stable"), std::string::npos) << j.why;
}

TEST(Judge, AWholeRunIsAllowedFourFloorsAndSixteenAtTheWorstElement) {
  const auto passes = [](double first, double all) {
    return judge_whole_run(f32({1, 2, 3, 4}), f32({1 + first + all, 2 + all, 3 + all, 4 + all}), {1e-3, 1e-3, 2.7}).passed;
  };
  EXPECT_TRUE(passes(0, 3.9e-3));
  EXPECT_FALSE(passes(0, 4.1e-3));
  EXPECT_TRUE(passes(7e-3, 0));
  EXPECT_FALSE(passes(1.7e-2, 0));
}

TEST(Judge, OfAWholeRunTheLowestNumberOfAMaskHidesNoOtherError) {
  const double lowest = std::numeric_limits<float>::lowest();
  const RunFloor floor{1e-7, 1e-7, 1.6};
  EXPECT_TRUE(judge_whole_run(f32({1, lowest, 2}), f32({1, lowest, 2}), floor).passed);
  EXPECT_FALSE(judge_whole_run(f32({1, lowest, 2}), f32({1.1, lowest, 2}), floor).passed);
  EXPECT_FALSE(judge_whole_run(f32({1, lowest, 2}), f32({1, 0, 2}), floor).passed);
}

TEST(Judge, TheBackendIsAllowedWhatTheGoldenNeededAndNoMore) {
  const double off = 1e-4;
  EXPECT_TRUE(judge_backend(evidence({1 + off, 2}, {1 - off, 2}, {1, 2})).passed);
  EXPECT_FALSE(judge_backend(evidence({1, 2}, {1 - off, 2}, {1, 2})).passed);
}

// ---- slices

Program parsed(const std::string& body) { return parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue()); }

const char* const kTopk = R"(symbol s0 in [1, inf) example 2 from "x" axis 0

input %0 "x": f32[s0, 6]

parameter %1 "w": f32[6]
parameter %2 "unused": f32[99]

state %3 "offset": f32[6]

%4 = broadcast(%1) {shape = [s0, 6], axes = [1]}: f32[s0, 6]
%5 = mul(%0, %4): f32[s0, 6]
%6, %7 = sort(%5) {axis = 1, descending = true}: f32[s0, 6], i64[s0, 6]
%8 = broadcast(%3) {shape = [s0, 6], axes = [1]}: f32[s0, 6]
%9 = add(%6, %8): f32[s0, 6]
%10 = gather(%9, %7) {axis = 1}: f32[s0, 6]
%11 = reshape(%10) {shape = [6*s0]}: f32[6*s0]
%12 = exp(%0): f32[s0, 6]

output "output" %11
)";

std::vector<bool> known(const Program& p, std::initializer_list<ValueId> values) {
  PerValue<bool> is_known(p.graph.values.size());
  for (ValueId v : values) is_known[v] = true;
  return is_known;
}

std::vector<std::string> ops_of(const Slice& slice) {
  std::vector<std::string> names;
  for (const Node& node : slice.program.graph.nodes) names.push_back(node.op->name);
  return names;
}

TEST(Slices, ReachBackToTheNearestKnownValuesAndTakeOnlyTheirParameters) {
  const Program p = parsed(kTopk);
  Slicer slicer(p, known(p, {0, 3}));
  const Slice all = slicer.slice(11);
  verify(all.program, "slicing");
  EXPECT_EQ(ops_of(all), (std::vector<std::string>{"broadcast", "mul", "sort", "broadcast", "add", "gather", "reshape"}));
  EXPECT_EQ(all.inputs, (Values{0, 3}));
  ASSERT_EQ(all.program.parameters.size(), 1u);
  EXPECT_EQ(all.program.parameters[0].name, "w");
  EXPECT_EQ(all.last_op, "gather") << "the reshape after it only moves";
}

TEST(Slices, AKnownResultOfANodeIsAnInputEvenWhenAnotherOfItsResultsIsComputed) {
  const Program p = parsed(kTopk);
  Slicer slicer(p, known(p, {0, 3, 6}));
  const Slice slice = slicer.slice(10);
  verify(slice.program, "slicing");
  EXPECT_EQ(slice.inputs, (Values{0, 3, 6})) << "the sorted values are known, their indices are not";
  EXPECT_EQ(ops_of(slice), (std::vector<std::string>{"broadcast", "mul", "sort", "broadcast", "add", "gather"}));
  const Slice sorted = slicer.slice(6);
  EXPECT_EQ(ops_of(sorted), (std::vector<std::string>{"broadcast", "mul", "sort"})) << "a slice after another starts afresh";
}

TEST(Slices, OfDynamicSizesAreCompiledByTheBackendItself) {
  const Program p = parsed(kTopk);
  const Slice slice = Slicer(p, known(p, {0, 3})).slice(9);
  PipelineOptions options;
  options.overrides = {{"no such op", "naive"}};  // which the cpu backend refuses and the reference does not look at
  EXPECT_NO_THROW(reference_backend().compile(slice.program, catalogue(), memory_parameters({}), options));
  EXPECT_THROW(find_backend("cpu").compile(slice.program, catalogue(), memory_parameters({}), options), Error)
      << "its sizes come with the request: nothing in it has to be found out";
}

TEST(Slices, SayWhetherARandomOpIsInThem) {
  const Program p = parsed(R"(input %0 "x": f32[4]

%1 = uniform() {shape = [4], dtype = f32}: f32[4]
%2 = add(%0, %1): f32[4]

output "output" %2
)");
  EXPECT_TRUE(Slicer(p, known(p, {0})).slice(2).has_random_op);
  EXPECT_FALSE(Slicer(p, known(p, {0, 1})).slice(2).has_random_op) << "its value is a golden";
}

// ---- whole recordings

const LayerResult& layer(const VerifyResult& r, const std::string& path) {
  for (const LayerResult& l : r.layers) {
    if (l.path == path) return l;
  }
  throw std::runtime_error("no layer " + path);
}

std::vector<std::string> wrong_layers(const VerifyResult& r) {
  std::vector<std::string> paths;
  for (const LayerResult& l : r.layers) {
    if (l.verdict == Verdict::wrong_here) paths.push_back(l.path);
  }
  return paths;
}

TEST(Verify, AnotherImplementationOfTheSameModelIsWithinRounding) {
  const SmallRecording recording;
  const VerifyResult r = verify_recording(recording.manifest());
  EXPECT_TRUE(r.passed());
  ASSERT_EQ(r.layers.size(), 4u);
  EXPECT_EQ(r.count(Verdict::wrong_here), 0);
  const LayerResult& norm = layer(r, "norm@0");
  EXPECT_EQ(norm.op, "layer_norm");
  EXPECT_EQ(norm.place, "small.py:11");
  EXPECT_EQ(norm.source, "h = self.norm(x)");
  EXPECT_EQ(norm.shape, (Sizes{2, 4, 8}));
  EXPECT_EQ(norm.verdict, Verdict::within_rounding) << "the floats of the test accumulate in another order";
  EXPECT_EQ(layer(r, "rest@0").verdict, Verdict::exact);
  ASSERT_EQ(r.outputs.size(), 1u);
  EXPECT_LT(r.outputs[0].metrics.max_abs, 1e-5);
}

TEST(Verify, ALayerIsTheModuleThatMadeItsValueAndNotADeeperOneThatHandsItOn) {
  SmallRecording recording;
  std::string manifest = SmallRecording::kManifest;
  const std::string tap = R"({"id": "norm@0/output", "value": 3, "key": "norm@0/output", "shape": [2, 4, 8]},)";
  const std::string deeper = R"({"id": "act.inner.identity@0/output", "value": 3, "key": "norm@0/output", "shape": [2, 4, 8]},)";
  manifest.insert(manifest.find(tap), deeper);
  write_text(recording.manifest(), manifest);
  EXPECT_EQ(verify_recording(recording.manifest()).layers.at(0).tap.text(), "norm@0/output");
  manifest.erase(manifest.find(tap), tap.size());
  write_text(recording.manifest(), manifest);
  const LayerResult layer = verify_recording(recording.manifest()).layers.at(0);
  EXPECT_EQ(layer.tap.text(), "act.inner.identity@0/output");
  EXPECT_EQ(layer.path, "norm@0");
}

TEST(Verify, AValueWithTwoTapsIsShownOnceOrTwiceWhenAsked) {
  const SmallRecording recording;
  VerifyOptions options;
  options.all_taps = true;
  const VerifyResult r = verify_recording(recording.manifest(), options);
  ASSERT_EQ(r.layers.size(), 5u);
  EXPECT_EQ(r.layers[3].tap.text(), "rest@0/output");
  EXPECT_EQ(r.layers[4].tap.text(), "@0/output");
}

// The catalogue with one ATen overload's mapping spoiled: `spoil` is given the last node that it made.
std::unique_ptr<OpTable> spoiled(const std::string& overload, const std::function<void(Node&)>& spoil) {
  auto table = std::make_unique<OpTable>();
  bool found = false;
  for (const auto& op : catalogue().all()) {
    OpDef copy = *op;
    for (AtenMapping& mapping : copy.aten) {
      if (mapping.overload != overload) continue;
      found = true;
      const AtenMapping original = mapping;
      const OpDef* definition = op.get();
      mapping.pattern.clear();
      mapping.discards.clear();
      mapping.build = [original, definition, spoil](AtenCall& call) {
        const Values results = original.build ? original.build(call) : build_from_pattern(call, *definition, original);
        spoil(call.b.graph().nodes.back());
        return results;
      };
    }
    table->add(std::move(copy));
  }
  EXPECT_TRUE(found) << "nothing maps " << overload;
  return table;
}

Attribute& attribute_of(Node& node, const std::string& name) {
  for (auto& [key, value] : node.attributes) {
    if (key == name) return value;
  }
  throw std::runtime_error(node.op->name + " has no attribute " + name);
}

void expect_wrong(const std::string& overload, const std::function<void(Node&)>& spoil, const std::string& path,
                  const std::string& place) {
  const SmallRecording recording;
  const std::unique_ptr<OpTable> table = spoiled(overload, spoil);
  VerifyOptions options;
  options.table = table.get();
  const VerifyResult r = verify_recording(recording.manifest(), options);
  EXPECT_FALSE(r.passed());
  EXPECT_EQ(wrong_layers(r), std::vector<std::string>{path}) << "only the layer that is wrong";
  EXPECT_EQ(layer(r, path).place, place);
  EXPECT_EQ(layer(r, path).judged, Judged::program);
  EXPECT_FALSE(layer(r, path).why.empty());
}

TEST(Verify, AWrongEpsilonIsWrong) {
  expect_wrong("aten.layer_norm.default", [](Node& n) { attribute_of(n, "eps") = 1.01e-3; }, "norm@0", "small.py:11");
}

TEST(Verify, AWrongGeluIsWrong) {
  expect_wrong(
      "aten.gelu.default", [](Node& n) { attribute_of(n, "approximate") = std::string("tanh"); }, "act@0", "small.py:12");
}

TEST(Verify, ADroppedScaleIsWrong) {
  expect_wrong(
      "aten.scaled_dot_product_attention.default", [](Node& n) { attribute_of(n, "scale") = std::monostate(); }, "attn@0",
      "small.py:13");
}

TEST(Verify, SwappedOperandsAreWrong) {
  expect_wrong("aten.sub.Tensor", [](Node& n) { std::swap(n.operands[0], n.operands[1]); }, "rest@0", "small.py:14");
}

TEST(Verify, ALayerAfterAWrongOneIsWrongUpstreamAndNotHere) {
  const SmallRecording recording;
  const std::unique_ptr<OpTable> table = spoiled("aten.gelu.default",
                                                 [](Node& n) { attribute_of(n, "approximate") = std::string("tanh"); });
  VerifyOptions options;
  options.table = table.get();
  const VerifyResult r = verify_recording(recording.manifest(), options);
  EXPECT_LE(layer(r, "norm@0").verdict, Verdict::within_rounding);
  EXPECT_EQ(layer(r, "act@0").verdict, Verdict::wrong_here);
  EXPECT_EQ(layer(r, "attn@0").verdict, Verdict::wrong_upstream);
  EXPECT_EQ(layer(r, "rest@0").verdict, Verdict::wrong_upstream);
  ASSERT_TRUE(layer(r, "rest@0").cumulative);
  EXPECT_GT(layer(r, "rest@0").cumulative->max_abs, 100 * layer(r, "rest@0").metrics.max_abs);
}

TEST(Verify, ATolerancePassesWhatRoundingDoesNotExplainAndFailsWhatItDoes) {
  const SmallRecording recording;
  const std::unique_ptr<OpTable> table = spoiled("aten.gelu.default",
                                                 [](Node& n) { attribute_of(n, "approximate") = std::string("tanh"); });
  VerifyOptions loose;
  loose.table = table.get();
  loose.tolerance = Tolerance{0.1, 0};
  const VerifyResult fine = verify_recording(recording.manifest(), loose);
  EXPECT_TRUE(fine.passed());
  EXPECT_EQ(layer(fine, "act@0").verdict, Verdict::within_tolerance);
  VerifyOptions strict;
  strict.tolerance = Tolerance{0, 1e-12};
  const VerifyResult r = verify_recording(recording.manifest(), strict);
  EXPECT_FALSE(r.passed());
  EXPECT_EQ(layer(r, "norm@0").judged, Judged::tolerance);
}

// A backend whose every result is a little off.
class InexactBackend final : public Backend {
 public:
  enum class Where { everywhere, whole_program };
  explicit InexactBackend(double factor, Where where = Where::everywhere) : factor_(factor), where_(where) {}
  std::string name() const override { return "inexact"; }
  bool claims(const Call& call) const override { return reference_backend().claims(call); }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    const bool is_slice = p.taps.empty();
    const double factor = is_slice && where_ == Where::whole_program ? 1 : factor_;
    return std::make_unique<Off>(reference_backend().compile(p, table, std::move(parameters), options, timings), factor);
  }

 private:
  struct Off final : Executable {
    Off(std::unique_ptr<Executable> i, double f) : inner(std::move(i)), factor(f) {}
    std::vector<Array> run(const RunRequest& request) const override {
      std::vector<Array> outputs = inner->run(request);
      for (Array& a : outputs) {
        if (!is_inexact(a.dtype())) continue;
        std::vector<double> values = load_double(a);
        for (double& v : values) v *= factor;
        a = store(a.dtype(), a.shape(), values);
      }
      return outputs;
    }
    std::unique_ptr<Executable> inner;
    double factor;
  };
  double factor_;
  Where where_;
};

TEST(Verify, ABackendThatIsRightLayerByLayerAndWrongInTheWholeRunIsWrong) {
  const SmallRecording recording;
  const InexactBackend off(1.001, InexactBackend::Where::whole_program);
  VerifyOptions options;
  options.backend_object = &off;
  const VerifyResult r = verify_recording(recording.manifest(), options);
  ASSERT_EQ(r.wrong(), 1);
  EXPECT_EQ(r.layers.back().tap.kind, TapId::Kind::whole_run) << r.layers.back().tap.text();
  const InexactBackend close(1 + 0x1p-23, InexactBackend::Where::whole_program);
  options.backend_object = &close;
  EXPECT_TRUE(verify_recording(recording.manifest(), options).passed());
}

TEST(Verify, ABackendIsJudgedByWhatItComputes) {
  const SmallRecording recording;
  const InexactBackend close(1 + 0x1p-23), off(1.001);
  VerifyOptions options;
  options.backend_object = &close;
  EXPECT_TRUE(verify_recording(recording.manifest(), options).passed());
  options.backend_object = &off;
  const VerifyResult r = verify_recording(recording.manifest(), options);
  EXPECT_EQ(r.wrong(), 4);
  EXPECT_EQ(r.layers[0].judged, Judged::backend);
}

// ---- decisions

Decisions decisions_between(std::vector<double> x, int64_t theirs, int64_t ours) {
  const Program p = parsed(R"(input %0 "x": f32[4]

%1 = exp(%0): f32[4]
%2 = argmax(%1) {axis = 0}: i64[]

output "output" %2
)");
  Slicer slicer(p, known(p, {0}));
  const Trials trials(catalogue(), memory_parameters({}), {});
  const auto index = [](int64_t i) { return store(DType::i64, {}, std::vector<int64_t>{i}); };
  return *look_at_decisions(slicer.slice(2), trials, {f32(std::move(x))}, index(theirs), index(ours));
}

TEST(Decisions, ATieMayBeDecidedEitherWayAndALargerNumberMayNotLose) {
  EXPECT_TRUE(decisions_between({1, 2, 2 + 1e-7, 0}, 2, 1).within_rounding);
  EXPECT_FALSE(decisions_between({1, 2, 2.01, 0}, 2, 1).within_rounding);
  EXPECT_FALSE(decisions_between({1, 2, 2.01, 0}, 2, 9).within_rounding) << "no index at all";
  const Decisions same = decisions_between({1, 2, 3, 0}, 2, 2);
  EXPECT_EQ(same.differing, 0);
  EXPECT_NEAR(same.margin, std::exp(3) - std::exp(2), 1e-5);
}

// ---- result files

TEST(Results, AreReadBackAndComparedWithWhatIsFoundNow) {
  const SmallRecording recording;
  const std::filesystem::path file = recording.folder.path() / "result.jsonl";
  const auto run = [&](const OpTable* table, bool keep) {
    VerifyOptions options;
    options.table = table;
    options.hash_files = true;
    std::optional<ResultWriter> writer;
    if (keep) writer.emplace(file);
    options.on_start = [&](VerifyResult& r) {
      if (writer) writer->start(r, options);
    };
    options.on_layer = [&](const LayerResult& l) {
      if (!writer) return;
      writer->layer(l);
      EXPECT_NE(read_text(file.string() + ".partial").find(l.tap.text()), std::string::npos);  // others can follow
    };
    VerifyResult r = verify_recording(recording.manifest(), options);
    if (writer) writer->finish(r);
    return r;
  };
  run(nullptr, true);
  const StoredResult stored = read_result(file);
  EXPECT_EQ(stored.layers.size(), 4u);
  EXPECT_EQ(stored.hashes.count("library"), 1u);
  EXPECT_FALSE(compare_with(stored, run(nullptr, false)).regressed());

  const std::unique_ptr<OpTable> table = spoiled("aten.gelu.default",
                                                 [](Node& n) { attribute_of(n, "approximate") = std::string("tanh"); });
  const Comparison worse = compare_with(stored, run(table.get(), false));
  EXPECT_TRUE(worse.regressed());
  ASSERT_FALSE(worse.changes.empty());
  EXPECT_EQ(worse.changes[0].tap, "act@0/output");
  EXPECT_EQ(worse.changes[0].kind, Change::Kind::worse);

  run(table.get(), true);
  const Comparison better = compare_with(read_result(file), run(nullptr, false));
  EXPECT_FALSE(better.regressed());
  EXPECT_EQ(better.changes.at(0).kind, Change::Kind::better);
}

TEST(Verify, AGoldenThatIsNaNIsWrongThoughItsErrorComparesAsNothing) {
  SmallRecording recording;
  std::vector<double> values = load_double(recording.goldens.at("act@0/output"));
  values[5] = kNaN;
  recording.goldens.at("act@0/output") = store(DType::f32, {2, 4, 8}, values);
  recording.write_trace();
  const VerifyResult r = verify_recording(recording.manifest());
  EXPECT_EQ(layer(r, "act@0").verdict, Verdict::wrong_here);
  EXPECT_NE(layer(r, "act@0").why.find("nan"), std::string::npos) << layer(r, "act@0").why;
}

TEST(Verify, AMissingGoldenMakesTheSliceReachFurtherBack) {
  SmallRecording recording;
  recording.goldens.erase("norm@0/output");
  recording.goldens.erase("act@0/output");
  recording.write_trace();
  const VerifyResult r = verify_recording(recording.manifest());
  EXPECT_TRUE(r.passed());
  ASSERT_EQ(r.layers.size(), 2u);
  EXPECT_EQ(r.layers[0].path, "attn@0");
}

TEST(Verify, WithoutTapsTheOutputsAreJudged) {
  SmallRecording recording;
  for (const char* tap : {"norm@0/output", "act@0/output", "attn@0/output", "rest@0/output"}) recording.goldens.erase(tap);
  recording.write_trace();
  const VerifyResult r = verify_recording(recording.manifest());
  EXPECT_TRUE(r.passed());
  ASSERT_EQ(r.layers.size(), 1u);
}

TEST(Verify, GoldensOfAnotherShapeVerifyTheSameRecording) {
  const SmallRecording recording;
  const Sizes shape{1, kLength, kWidth};
  const Floats x = some_floats(kLength * kWidth, 20), weight = some_floats(kWidth, 50), bias = some_floats(kWidth, 70);
  const Floats norm = layer_norm_golden(x, weight, bias);
  const std::filesystem::path other = recording.folder.path() / "other.safetensors";
  write_safetensors(other, {{"input:x", float_array(shape, x)},
                            {"norm@0/output", float_array(shape, norm)},
                            {"act@0/output", float_array(shape, gelu_golden(norm))}});
  VerifyOptions options;
  options.traces = {other};
  const VerifyResult r = verify_recording(recording.manifest(), options);
  EXPECT_TRUE(r.passed());
  EXPECT_EQ(layer(r, "act@0").shape, shape);
}

TEST(Verify, AGoldenOfTheWrongTypeIsAnErrorThatNamesIt) {
  SmallRecording recording;
  recording.goldens.at("act@0/output") = Array(DType::f32, {2, 4, 9});
  recording.write_trace();
  const Error e = error_of([&] { verify_recording(recording.manifest()); });
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
  EXPECT_NE(e.message().find("act@0/output"), std::string::npos) << e.message();
  EXPECT_EQ(e.expected(), "f32[s0, 4, 8]");
}

TEST(Verify, AMissingGoldenInputIsAnErrorThatNamesIt) {
  SmallRecording recording;
  recording.goldens.erase("input:x");
  recording.write_trace();
  const Error e = error_of([&] { verify_recording(recording.manifest()); });
  EXPECT_EQ(e.expected(), "input:x");
}

}  // namespace
}  // namespace pycandle
