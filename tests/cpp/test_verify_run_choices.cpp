// Whole runs that chose otherwise than PyTorch: rounding, or an error that no layer shows by itself.
#include "verify/judging/run_choices.h"

#include <gtest/gtest.h>

#include "backends/reference/reference.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "temporary_folder.h"
#include "verify/verify.h"

namespace pycandle {
namespace {

Array f32(const std::vector<double>& values) { return store(DType::f32, {static_cast<int64_t>(values.size())}, values); }
Array i64(const std::vector<int64_t>& values) { return store(DType::i64, {static_cast<int64_t>(values.size())}, values); }

// x[nonzero(exp(x) > exp(y))]: as many as data says.
constexpr const char* kChosen = R"(ptir.v1 program "chosen"

symbol u0 in [0, inf) example 1

input %0 "x": f32[3]
input %1 "y": f32[3]

%2 = exp(%0): f32[3]
%3 = exp(%1): f32[3]
%4 = gt(%2, %3): bool[3]
%5 = nonzero(%4) {count = u0}: i64[u0, 1]
%6 = reshape(%5) {shape = [u0]}: i64[u0]
%7 = take(%0, %6) {axis = 0}: f32[u0]

output "output" %7

tap "chosen@0/output" %6
)";

// The backend's whole run gives `ours`, where PyTorch chose `theirs`.
RunChoice chosen(const std::vector<double>& x, const std::vector<double>& y, const std::vector<int64_t>& theirs,
                 const std::vector<int64_t>& ours, const std::vector<int64_t>& reference) {
  const Program p = parse_program(kChosen, catalogue());
  const auto taken = [&](const std::vector<int64_t>& rows) {
    std::vector<double> values;
    for (int64_t row : rows) values.push_back(x.at(static_cast<size_t>(row)));
    return f32(values);
  };
  const TemporaryFolder folder;
  const std::filesystem::path trace = folder.path() / "trace.safetensors";
  write_safetensors(
      trace, {{"input:x", f32(x)}, {"input:y", f32(y)}, {"chosen@0/output", i64(theirs)}, {"output:output", taken(theirs)}});
  const Goldens goldens(p, trace);
  const Trials trials(catalogue(), memory_parameters({}), goldens.sizes());
  WholeRun whole;
  whole.other_integers.emplace(p.taps.at(0).value, i64(ours));
  const Array mine = taken(ours), golden = taken(theirs);
  whole.results.push_back({"output", p.outputs[0].value, mine, golden, compare_with_sizes(mine, golden)});
  EXPECT_TRUE(chose_otherwise(whole.results[0]));
  return look_at_run_choice(p, goldens, trials, whole, whole.results[0], taken(reference), "PyTorch");
}

TEST(RunChoices, SizesThatRoundingDoesNotExplainAreWrong) {
  const RunChoice far = chosen({1, 2, 3}, {0, 1, 4}, {0, 1}, {1}, {0, 1});
  EXPECT_TRUE(far.is_wrong);
  EXPECT_NE(far.why.find("sizes [1] where PyTorch's value has [2]"), std::string::npos) << far.why;
}

TEST(RunChoices, ANumberAtAThresholdIsRoundings) {
  const RunChoice close = chosen({1, 2, 3}, {1 - 1e-7, 1, 4}, {0, 1}, {1}, {0, 1});
  EXPECT_FALSE(close.is_wrong);
  EXPECT_NE(close.why.find("rounding decides"), std::string::npos) << close.why;
}

TEST(RunChoices, WhatTheReferenceChoosesTooIsNoErrorOfTheBackend) {
  EXPECT_FALSE(chosen({1, 2, 3}, {0, 1, 4}, {0, 1}, {1}, {1}).is_wrong);
}

TEST(RunChoices, IntegersThatNoFloatLedToAreEqualOrWrong) {
  const Program p = parse_program(R"(ptir.v1 program "ids"

input %0 "x": i64[2]

%1 = add(%0, %0): i64[2]

output "output" %1
)",
                                  catalogue());
  const TemporaryFolder folder;
  const std::filesystem::path trace = folder.path() / "trace.safetensors";
  write_safetensors(trace, {{"input:x", i64({1, 2})}, {"output:output", i64({2, 4})}});
  const Goldens goldens(p, trace);
  const Trials trials(catalogue(), memory_parameters({}), {});
  WholeRun whole;
  whole.results.push_back({"output", p.outputs[0].value, i64({2, 5}), i64({2, 4}), compare(i64({2, 5}), i64({2, 4}))});
  const RunChoice choice = look_at_run_choice(p, goldens, trials, whole, whole.results[0], i64({2, 4}), "PyTorch");
  EXPECT_TRUE(choice.is_wrong) << choice.why;
}

// x + x of integers, as recorded.
constexpr const char* kDoubled = R"json({
  "format": "pycandle.manifest", "version": "1.0.0", "name": "doubled",
  "producer": {"pycandle": "0.1.0", "torch": "2.11.0", "python": "3.11.7"},
  "model": {"class": "small.Doubled", "seed": 0, "perturbed": true},
  "soundness": {"status": "verified", "checks": []}, "notes": [],
  "files": {"trace": "doubled_trace.safetensors", "weights": null},
  "symbols": [], "fixed_dims": [],
  "inputs": [{"name": "x", "value": 0, "dtype": "i64", "shape": [2], "used": true}],
  "outputs": [{"name": "output", "value": 1, "dtype": "i64", "shape": [2]}],
  "states": [], "parameters": [],
  "nodes": [
    {"op": "aten.add.Tensor", "args": [["self", {"v": 0}], ["other", {"v": 0}], ["alpha", 1]],
     "results": [{"value": 1, "dtype": "i64", "shape": [2]}], "call": 0, "file": 0, "line": 5, "assigned_to": null}
  ],
  "graphs": [],
  "module_calls": [
    {"path": "", "call": 0, "class": "small.Doubled", "parent": null, "class_file": 0, "class_line": 3, "forward_line": 4, "attributes": {}, "config": {}, "args": [["x", {"v": 0}]], "output": {"v": 1}}
  ],
  "taps": [{"id": "@0/output", "value": 1, "key": "output:output", "shape": [2]}],
  "files_table": [{"path": "small.py", "lines": {"5": "return x + x"}}]
}
)json";

// Right layer by layer; the first output of a whole program is another number.
class WrongInWholeRuns final : public Backend {
 public:
  std::string name() const override { return "wrong in whole runs"; }
  bool claims(const Call& call) const override { return reference_backend().claims(call); }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    std::unique_ptr<Executable> right = reference_backend().compile(p, table, std::move(parameters), options, timings);
    if (p.taps.empty()) return right;  // a layer by itself
    return std::make_unique<Wrong>(std::move(right));
  }

 private:
  struct Wrong final : Executable {
    explicit Wrong(std::unique_ptr<Executable> r) : right(std::move(r)) {}
    std::vector<Array> run(const RunRequest& request) const override {
      right->run(request);
      return {i64({2, 5})};
    }
    std::unique_ptr<Executable> right;
  };
};

TEST(RunChoices, ABackendThatGivesOtherIntegersInTheWholeRunAloneIsWrong) {
  const TemporaryFolder folder;
  write_text(folder.path() / "doubled_manifest.json", kDoubled);
  write_safetensors(folder.path() / "doubled_trace.safetensors", {{"input:x", i64({1, 2})}, {"output:output", i64({2, 4})}});
  EXPECT_TRUE(verify_recording(folder.path() / "doubled_manifest.json", {}).passed());
  const WrongInWholeRuns wrong;
  VerifyOptions options;
  options.backend_object = &wrong;
  const VerifyResult result = verify_recording(folder.path() / "doubled_manifest.json", options);
  ASSERT_EQ(result.wrong(), 1);
  EXPECT_EQ(result.layers.back().tap.kind, TapId::Kind::whole_run);
}

}  // namespace
}  // namespace pycandle
