// A recording, and the same model written by hand: checked layer by layer, and captured to the same program.
#include <gtest/gtest.h>

#include "ir/op_def.h"
#include "pycandle/functional.h"
#include "pycandle/model.h"
#include "pycandle/nn.h"
#include "pycandle/project.h"
#include "pycandle/recorded.h"
#include "small_recording.h"
#include "verify/floor_file.h"

namespace pycandle {
namespace {

using front::check;
using front::Checker;
using front::CheckResult;
using front::Compiled;
using front::Tensor;
using front::Weights;
namespace functional = front::functional;
namespace nn = front::nn;

struct Attention : nn::Module<Attention> {
  explicit Attention(const Weights& w) : Module(w) {}
  Tensor forward(const Tensor& x) const { return functional::scaled_dot_product_attention(x, x, x, {.scale = 0.7}); }
};
struct Rest : nn::Module<Rest> {
  explicit Rest(const Weights& w) : Module(w) {}
  Tensor forward(const Tensor& a, const Tensor& x) const { return a - x; }
};
struct Small : nn::Module<Small> {
  nn::LayerNorm norm;
  nn::GELU act;
  Attention attn;
  Rest rest;

  Small(const Weights& w, Checker seeing = {}, const char* approximate = "none")
      : Module(w, std::move(seeing)),
        norm(8, 1e-3, w / "norm"),
        act({.approximate = approximate}, w / "act"),
        attn(w / "attn"),
        rest(w / "rest") {}
  Tensor forward(const Tensor& x) const { return rest(attn(act(norm(x))), x); }
};

struct CheckedModel : testing::Test {
  SmallRecording recording;
  std::string manifest = recording.manifest().string();
  Checker checker = Checker::load("small", recording.folder.path().string());
  Weights weights = Weights::open(manifest);
  front::Signature signature = front::signature_of(manifest);
};

TEST_F(CheckedModel, HasEveryLayerLookedAtInARun) {
  const Small model(weights, checker);
  const Compiled run = front::compile(model, signature);
  EXPECT_TRUE(checker.results().empty());
  run.run(checker.inputs());
  std::vector<std::string> layers;
  for (const CheckResult& r : checker.results()) {
    layers.push_back(r.layer);
    EXPECT_TRUE(r.passed) << r.why;
    EXPECT_LT(r.mse, 1e-10);
    EXPECT_LT(r.max_diff, 1e-5);
    EXPECT_GT(r.cosine, 0.999999);
  }
  EXPECT_EQ(layers, (std::vector<std::string>{"norm@0/output", "act@0/output", "attn@0/output", "rest@0/output", "@0/output"}));
}

TEST_F(CheckedModel, IsCheckedWherePythonGaveItsOneTensorInATuple) {
  std::string text = SmallRecording::kManifest;
  const std::string id = R"("id": "attn@0/output")";
  text.replace(text.find(id), id.size(), R"("id": "attn@0/output.0")");
  write_text(manifest, text);
  const Checker of_tuple = Checker::load("small", recording.folder.path().string());
  front::compile(Small(weights, of_tuple), signature).run(of_tuple.inputs());
  ASSERT_GT(of_tuple.results().size(), 2u);
  EXPECT_EQ(of_tuple.results()[2].layer, "attn@0/output.0");
  EXPECT_TRUE(of_tuple.results()[2].passed);
}

TEST_F(CheckedModel, ThatIsWrongSaysInWhichLayerFirst) {
  const Small model(weights, checker, "tanh");
  checker.set_tolerance(1e-6);
  const Compiled run = front::compile(model, signature);
  try {
    run.run(checker.inputs());
    FAIL() << "a wrong GELU passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::verdict);
    EXPECT_EQ(error.module_path(), "act");
  }
  checker.clear();
  checker.collect();
  run.run(checker.inputs());
  ASSERT_EQ(checker.results().size(), 5U);
  EXPECT_TRUE(checker.results()[0].passed);
  EXPECT_FALSE(checker.results()[1].passed);
}

TEST_F(CheckedModel, IsJudgedByTheFloorsBesideTheGoldens) {
  front::compile(Small(weights, checker), signature).run(checker.inputs());
  for (const CheckResult& r : checker.results()) EXPECT_TRUE(r.guessed) << r.layer << ": there are no floors yet";

  ASSERT_TRUE(write_floor_file(manifest));
  const Checker by_floors = Checker::load("small", recording.folder.path().string());
  front::compile(Small(weights, by_floors), signature).run(by_floors.inputs());
  for (const CheckResult& r : by_floors.results()) {
    EXPECT_TRUE(r.passed && !r.guessed) << r.why;
    EXPECT_LT(r.tolerance, 1e-5) << r.layer;
  }
  Checker of_wrong = Checker::load("small", recording.folder.path().string());
  of_wrong.collect();
  front::compile(Small(weights, of_wrong, "tanh"), signature).run(of_wrong.inputs());
  EXPECT_TRUE(of_wrong.results()[0].passed);
  EXPECT_FALSE(of_wrong.results()[1].passed) << "the guess of 1e-3 lets the tanh GELU pass";
  EXPECT_NE(of_wrong.results()[1].why.find("rounding explains"), std::string::npos) << of_wrong.results()[1].why;
}

TEST_F(CheckedModel, TrustsNoFloorsOfAnotherRecording) {
  ASSERT_TRUE(write_floor_file(manifest));
  std::string text = read_text(manifest);
  write_text(manifest, text + "\n");
  const Checker other = Checker::load("small", recording.folder.path().string());
  EXPECT_TRUE(other.verify("norm", other.golden("norm")).guessed);
}

TEST_F(CheckedModel, OutputsAtOtherInputsAreJudgedByTheRecordedProgram) {
  const front::Recorded recorded = front::Recorded::load(manifest, {.backend = "reference"});
  const auto inputs = recorded.random_inputs(3);
  const auto right = front::compile(Small(weights), signature).run(inputs);
  const auto wrong = front::compile(Small(weights, {}, "tanh"), signature).run(inputs);
  ASSERT_EQ(recorded.check(inputs, right).size(), 1U);
  EXPECT_TRUE(recorded.check(inputs, right)[0].passed) << recorded.check(inputs, right)[0].why;
  EXPECT_FALSE(recorded.check(inputs, wrong)[0].passed);
  EXPECT_FALSE(recorded.check(inputs, {})[0].passed) << "an output that is not there";
}

TEST_F(CheckedModel, IsCheckedEagerlyToo) {
  setenv("PYCANDLE_EAGER", "1", 1);
  const Small model(weights, checker);
  front::compile(model, signature).run(checker.inputs());
  unsetenv("PYCANDLE_EAGER");
  EXPECT_EQ(checker.results().size(), 5U);
}

TEST_F(CheckedModel, ValuesCanBeCheckedByHand) {
  const CheckResult good = checker.verify("norm", checker.golden("norm"));
  EXPECT_TRUE(good.passed);
  EXPECT_EQ(good.mse, 0);
  EXPECT_FALSE(checker.verify("norm", checker.golden("act")).passed);
  EXPECT_THROW(check(checker, "norm", Tensor(checker.golden("act"))), Error);
  check(Checker(), "norm", Tensor(checker.golden("act")));
  const CheckResult other_shape = checker.verify("norm", Array(DType::f32, {2}));
  EXPECT_NE(other_shape.why.find("f32[2]"), std::string::npos) << other_shape.why;
  EXPECT_THROW(checker.verify("nowhere", checker.golden("act")), Error);
}

TEST_F(CheckedModel, WithoutACheckerHasNoTaps) {
  const Small model(weights);
  EXPECT_TRUE(front::compile(model, signature).program().taps.empty());
}

TEST_F(CheckedModel, IsTheRecordedProgram) {
  const Small model(weights);
  const front::RoundTrip same = front::round_trip(front::compile(model, signature), manifest);
  EXPECT_TRUE(same.equal) << same.difference;
  const Small wrong(weights, {}, "tanh");
  const front::RoundTrip other = front::round_trip(front::compile(wrong, signature), manifest);
  EXPECT_FALSE(other.equal);
  EXPECT_NE(other.difference.find("in act@0"), std::string::npos) << other.difference;
  EXPECT_NE(other.difference.find("approximate"), std::string::npos) << other.difference;
}

TEST_F(CheckedModel, AnotherShapeThanTheGoldensRuns) {
  const Small model(weights);
  const Compiled run = front::compile(model, signature);
  EXPECT_EQ(run(Array(DType::f32, {5, 4, 8})).shape(), (Sizes{5, 4, 8}));
}

}  // namespace
}  // namespace pycandle
