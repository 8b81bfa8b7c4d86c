// Runs tests/passes/<pass>.ptir: each case is a program before and after the pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"
#include "pass_cases.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/plain_convolutions.h"
#include "passes/rewriter.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

using PassFunction = std::function<Program(Program, const OpTable&)>;

const std::map<std::string, PassFunction>& passes() {
  static const std::map<std::string, PassFunction> table = {
      {"canonicalise", canonicalise},
      {"fold_scalars", fold_scalars},
      {"fold_shapes", fold_shapes},
      {"attention_scores", attention_scores},
      {"recognise", recognise},
      {"recognise_masks", recognise_masks},
      {"recognise_heads", recognise_heads},
      {"recognise_linear", recognise_linear},
      {"recognise_split", recognise_split},
      {"usual_scale", usual_scale},
      {"remove_unused", remove_unused},
      {"plain_convolutions", plain_convolutions},
      {"push_slices", push_slices},
      {"join_linears", join_linears},
      {"widen_halves", widen_halves},
      {"narrow_weights",
       [](Program p, const OpTable& t) { return narrow_weights(std::move(p), t, WeightFormat::int8, Activations::exact); }},
      {"decompose", [](Program p, const OpTable& t) { return decompose(std::move(p), t, [](const Call&) { return false; }); }},
  };
  return table;
}

// recognise_norms.ptir has cases of the pass recognise.
PassFunction pass_of(const fs::path& file) {
  for (std::string name = file.stem().string(); !name.empty(); name.resize(std::min(name.rfind('_'), name.size()))) {
    if (const auto found = passes().find(name); found != passes().end()) return found->second;
    if (name.rfind('_') == std::string::npos) break;
  }
  return nullptr;
}

std::string text_of(const Program& p) { return print(p, {.origins = false}); }

class PassFile : public ::testing::TestWithParam<fs::path> {};

TEST_P(PassFile, GivesTheProgramWrittenAfterIt) {
  const PassFunction pass = pass_of(GetParam());
  ASSERT_TRUE(pass) << "no pass is named like this file";
  const std::vector<PassCase> cases = read_cases(GetParam());
  ASSERT_FALSE(cases.empty());
  for (const PassCase& c : cases) {
    SCOPED_TRACE(c.title);
    const Program before = parse_program(c.before, catalogue(), c.title);
    const Program after = parse_program(c.after, catalogue(), c.title + ", after");
    // Passes leave what they no longer need to remove_unused.
    const Program result = remove_unused(pass(before, catalogue()), catalogue());
    verify(result, c.title);
    EXPECT_EQ(text_of(result), text_of(after));
    EXPECT_EQ(text_of(remove_unused(pass(result, catalogue()), catalogue())), text_of(result)) << "a second time changes nothing";
  }
}

std::vector<fs::path> pass_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(PYCANDLE_TEST_DIR) / "passes")) {
    if (entry.path().extension() == ".ptir") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Passes, PassFile, ::testing::ValuesIn(pass_files()),
                         [](const auto& param) { return param.param.stem().string(); });

TEST(Passes, EveryPassHasAFileOfCases) {
  const std::vector<fs::path> files = pass_files();
  for (std::string name : pass_names()) {
    std::replace(name.begin(), name.end(), '-', '_');
    const bool found = std::any_of(files.begin(), files.end(),
                                   [&](const fs::path& f) { return f.stem().string().starts_with(name); });
    EXPECT_TRUE(found) << "tests/passes/" << name << ".ptir is missing";
  }
}

const char* const kProgram = R"ptir(ptir.v1 program "small"

symbol s0 in [1, inf) example 2 from "x" axis 0

input %0 "x": f32[s0, 3]

parameter %1 "w": f32[4, 3]
parameter %2 "b": f32[4]

%3 = cast(%0) {dtype = f32}: f32[s0, 3]  loc(#1, 0:12, "h")
%4 = linear(%3, %1, %2): f32[s0, 4]  loc(#1, 0:13, "y")
%5 = neg(%4): f32[s0, 4]

output "output" %4

tap "fc@0/output" %4 key "fc"

file #0 "model.py" {
  12 "h = x.float()"
  13 "y = self.fc(h)"
}
call #0 "" @0 class "Model"
call #1 "fc" @0 class "Linear" parent #0
  arg "input" = %0
  returns %4
)ptir";

Program small_program() { return parse_program(kProgram, catalogue()); }
const auto claims_nothing = [](const Call&) { return false; };

class DumpFolder {
 public:
  fs::path path() const { return folder_.path() / "dumps"; }  // the pipeline makes it
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  TemporaryFolder folder_;
};

TEST(Pipeline, DumpsEveryStepUnderItsNumberAndName) {
  DumpFolder folder;
  PipelineOptions options;
  options.dump_dir = folder.path();
  const Program p = run_program_pipeline(small_program(), catalogue(), options);
  run_backend_pipeline(p, catalogue(), claims_nothing, options);
  const std::vector<std::string> expected = {"00-import.ptir",          "01-canonicalise.ptir",     "02-fold-scalars.ptir",
                                             "03-fold-shapes.ptir",     "04-attention-scores.ptir", "05-recognise.ptir",
                                             "06-canonicalise.ptir",    "07-recognise-masks.ptir",  "08-recognise-linear.ptir",
                                             "09-recognise-heads.ptir", "10-recognise-linear.ptir", "11-recognise-split.ptir",
                                             "12-recognise-heads.ptir", "13-recognise-linear.ptir", "14-usual-scale.ptir",
                                             "15-remove-unused.ptir",   "16-decompose.ptir",        "17-remove-unused.ptir"};
  EXPECT_EQ(folder.files(), expected);
  const Program dumped = parse_program(read_text(folder.path() / "15-remove-unused.ptir"), catalogue());
  EXPECT_TRUE(identical(dumped, p));
}

TEST(Pipeline, DumpsOnlyTheEndsOfThePipelinesWhenAsked) {
  DumpFolder folder;
  PipelineOptions options;
  options.dump_dir = folder.path();
  options.dump_mode = DumpMode::final;
  const Program p = run_program_pipeline(small_program(), catalogue(), options);
  run_backend_pipeline(p, catalogue(), claims_nothing, options);
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"15-remove-unused.ptir", "17-remove-unused.ptir"}));
}

TEST(Pipeline, ADisabledPassDoesNotRunAndAnUnknownOneIsAUsageError) {
  PipelineOptions options;
  options.disabled = {"canonicalise"};
  std::vector<PassTiming> timings;
  const Program p = run_program_pipeline(small_program(), catalogue(), options, &timings);
  EXPECT_EQ(p.graph.nodes.front().op->name, "cast");
  for (const PassTiming& t : timings) EXPECT_NE(t.name, "canonicalise");

  options.disabled = {"canonicalize"};
  try {
    run_program_pipeline(small_program(), catalogue(), options);
    FAIL() << "an unknown pass was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::usage);
    EXPECT_NE(e.expected().find("canonicalise"), std::string::npos);
    EXPECT_EQ(e.found(), "canonicalize");
  }
}

TEST(Pipeline, ListsEveryPassWithItsNodesBeforeAndAfter) {
  std::vector<PassTiming> timings;
  run_program_pipeline(small_program(), catalogue(), {}, &timings);
  ASSERT_EQ(timings.size(), 15u);
  EXPECT_EQ(timings.front().name, "canonicalise");
  EXPECT_EQ(timings.front().nodes_before, 3u);
  EXPECT_EQ(timings.back().nodes_after, 1u);
  for (size_t i = 1; i < timings.size(); ++i) EXPECT_EQ(timings[i].nodes_before, timings[i - 1].nodes_after) << timings[i].name;
}

TEST(Decompose, EveryNewNodeKeepsThePlaceOfItsFunctional) {
  const Program p = run_backend_pipeline(run_program_pipeline(small_program(), catalogue()), catalogue(), claims_nothing);
  ASSERT_GT(p.graph.nodes.size(), 1u);
  for (const Node& node : p.graph.nodes) {
    EXPECT_TRUE(node.op->is_primitive);
    EXPECT_EQ(p.module_path(node.origin), "fc@0");
    EXPECT_EQ(p.file_line(node.origin), "model.py:13");
  }
}

TEST(Decompose, LeavesWhatTheBackendClaims) {
  const auto claims_linear = [](const Call& call) { return call.op().name == "linear"; };
  const Program p = run_backend_pipeline(run_program_pipeline(small_program(), catalogue()), catalogue(), claims_linear);
  ASSERT_EQ(p.graph.nodes.size(), 1u);
  EXPECT_EQ(p.graph.nodes[0].op->name, "linear");
}

TEST(Rewriter, ModuleCallsFollowTheirValues) {
  const Program p = run_program_pipeline(small_program(), catalogue());
  EXPECT_EQ(p.calls.at(1).output.value, p.outputs.at(0).value);
  EXPECT_EQ(p.calls.at(1).args.at(0).second.value, p.inputs.at(0).value);
}

TEST(Rewriter, KeepsEveryProgramOfTheCasesAsItIsWhenNothingMatches) {
  for (const fs::path& file : pass_files()) {
    for (const PassCase& c : read_cases(file)) {
      const Program p = parse_program(c.before, catalogue());
      const Program same = rewrite(p, catalogue(), [](Builder&, const Node&, const Values&) { return std::nullopt; });
      EXPECT_TRUE(identical(same, p)) << c.title;
    }
  }
}

TEST(Rewriter, RefusesAReplacementOfAnotherType) {
  const auto to_half = [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != "neg") return std::nullopt;
    return Values{b.cast(operands[0], DType::f16)};
  };
  const Program p = small_program();
  try {
    rewrite(p, catalogue(), to_half);
    FAIL() << "a value changed its type";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_NE(e.message().find("f16"), std::string::npos) << e.message();
  }
}

}  // namespace
}  // namespace pycandle
