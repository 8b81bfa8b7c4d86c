// A recording, and the same model written by hand: checked layer by layer, and captured to the same program.
#include <gtest/gtest.h>

#include "ir/op_def.h"
#include "pycandle/functional.h"
#include "pycandle/model.h"
#include "pycandle/nn.h"
#include "pycandle/project.h"
#include "small_recording.h"

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
