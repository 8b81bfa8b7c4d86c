// Module calls become classes, fields and loops.
#include <gtest/gtest.h>

#include "emit/names.h"
#include "emit_sketch.h"

namespace pycandle {
namespace {

using emit::ModelTree;
using emit::ModuleClass;
using emit::Step;

const Dim kBatch = Dim::symbol("s0");

const ModuleClass* find(const ModelTree& tree, const std::string& name) {
  for (const ModuleClass& c : tree.classes) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

std::vector<std::string> class_names(const ModelTree& tree) {
  std::vector<std::string> names;
  for (const ModuleClass& c : tree.classes) names.push_back(c.name);
  return names;
}

// x + fc(x) in a module of its own.
ValueId block(Sketch& s, const std::string& path, ValueId x, int64_t width = 4, const char* op = "add") {
  s.enter(path, "model.Block", {{"x", x}});
  const ValueId y = s.linear(path + ".fc", x, width, width);
  return s.leave(s.b().binary(op, x, y));
}

TEST(Recovery, EqualCallsInARowAreOneClassInALoop) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (int i = 0; i < 3; ++i) x = block(s, "h." + std::to_string(i), x);
  const ModelTree tree = s.recovered({x});
  EXPECT_EQ(class_names(tree), (std::vector<std::string>{"Block", "Net"}));
  EXPECT_EQ(find(tree, "Block")->instances, 3);
  ASSERT_EQ(tree.model().steps.size(), 1u);
  const Step& loop = tree.model().steps[0];
  ASSERT_EQ(loop.kind, Step::Kind::loop);
  EXPECT_EQ(loop.carried.size(), 1u);
  ASSERT_EQ(tree.model().children.size(), 1u);
  EXPECT_TRUE(tree.model().children[0].is_list);
  EXPECT_EQ(tree.model().children[0].name, "h");
}

TEST(Recovery, AResultThatIsNeededLaterEndsTheLoop) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  std::vector<ValueId> all;
  for (int i = 0; i < 4; ++i) all.push_back(x = block(s, "h." + std::to_string(i), x));
  const ModelTree tree = s.recovered({s.b().add(all[1], all[3])});
  ASSERT_EQ(tree.model().steps.size(), 3u);  // two loops of two, and the sum
  EXPECT_EQ(tree.model().steps[0].kind, Step::Kind::loop);
  EXPECT_EQ(tree.model().steps[1].kind, Step::Kind::loop);
}

TEST(Recovery, BlocksThatAlternateAreALoopOfTwoSteps) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (int i = 0; i < 6; ++i) x = block(s, "h." + std::to_string(i), x, 4, i % 2 == 0 ? "add" : "mul");
  const ModelTree tree = s.recovered({x});
  EXPECT_EQ(tree.classes.size(), 3u);
  ASSERT_EQ(tree.model().steps.size(), 1u);
  EXPECT_EQ(tree.model().steps[0].body.size(), 2u);
  EXPECT_EQ(tree.model().children[1].first, 1);
  EXPECT_EQ(tree.model().children[1].step, 2);
}

TEST(Recovery, NumbersThatDifferAreFieldsAndOthersAreNot) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId wide = s.parameter("wide", {4, 8});
  const ValueId a = block(s, "a", x, 4);
  const ValueId b = block(s, "b", s.b().matmul(x, wide), 8);
  const ModelTree tree = s.recovered({a, b});
  const ModuleClass* made = find(tree, "Block");
  ASSERT_NE(made, nullptr);
  ASSERT_EQ(made->numbers.size(), 1u) << "in and out are equal in both, so they are one number";
  EXPECT_EQ(made->numbers[0].name, "features");
  EXPECT_EQ(made->children[0].use.arguments[0].field, 0);
  EXPECT_EQ(made->children[0].use.arguments[1].field, 0);
}

TEST(Recovery, AnotherStructureIsAnotherClassNamedByWhatItHas) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  x = block(s, "a", x);
  x = block(s, "b", x);
  s.enter("c", "model.Block", {{"x", x}});
  const ValueId y = s.linear("c.fc", x, 4, 4);
  x = s.leave(s.b().add(s.linear("c.extra", x, 4, 4), y));
  const ModelTree tree = s.recovered({x});
  EXPECT_NE(find(tree, "Block"), nullptr);
  EXPECT_NE(find(tree, "BlockWithExtra"), nullptr);
}

TEST(Recovery, ATrueOrFalseIsStructureAndNeverAField) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 2, 4});
  const auto pool = [&](const std::string& path, bool keep) {
    s.enter(path, "model.Pool", {{"x", x}});
    const ValueId mean = s.b().create("mean", {x}, {{"axes", Ints{1}}, {"keep", keep}});
    return s.leave(s.b().create("relu", {mean}));
  };
  const ValueId a = pool("a", true), b = pool("b", false);
  const ModelTree tree = s.recovered({a, b});
  EXPECT_EQ(tree.classes.size(), 3u);
  for (const ModuleClass& c : tree.classes) EXPECT_TRUE(c.numbers.empty());
}

TEST(Recovery, AParentMayUseTheWeightsOfItsChild) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId weight = s.parameter("attention.out_proj.weight", {4, 4});
  s.enter("attention", "torch.nn.modules.activation.MultiheadAttention", {{"query", x}});
  const ValueId y = s.b().create("linear", {s.b().create("relu", {x}), weight, kNoValue},
                                 {{"weight_order", std::string("out_in")}});
  const ModelTree tree = s.recovered({s.leave(y)});
  const ModuleClass* made = find(tree, "MultiheadAttention");
  ASSERT_NE(made, nullptr);
  ASSERT_EQ(made->tensors.size(), 1u);
  EXPECT_EQ(made->tensors[0].path, "out_proj.weight");
  EXPECT_EQ(made->tensors[0].name, "out_proj_weight");
}

TEST(Recovery, AModuleThatIsCalledTwiceIsOneMember) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId a = block(s, "shared", x);
  const ValueId r = s.relu("act", a);
  const ValueId b = block(s, "shared", r);
  const ModelTree tree = s.recovered({b});
  EXPECT_EQ(find(tree, "Block")->instances, 1);
  EXPECT_EQ(tree.model().children.size(), 2u);
  EXPECT_EQ(tree.model().steps[0].child, tree.model().steps[2].child);
}

TEST(Recovery, ASharedModuleThatIsCalledAgainAndAgainIsALoop) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (int i = 0; i < 5; ++i) x = block(s, "layer", x);
  const ModelTree tree = s.recovered({x});
  ASSERT_EQ(tree.model().steps.size(), 1u);
  EXPECT_EQ(tree.model().steps[0].kind, Step::Kind::loop);
  EXPECT_FALSE(tree.model().children[0].is_list);
  EXPECT_EQ(std::get<int64_t>(tree.model().steps[0].count.value), 5);
}

TEST(Recovery, TiedWeightsAreSaidWhereTheModuleIsBuilt) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId weight = s.parameter("embed.weight", {4, 4}, {"head.weight"});
  s.enter("head", "torch.nn.modules.linear.Linear", {{"input", x}});
  const ValueId y = s.leave(s.b().create("linear", {x, weight, kNoValue}, {{"weight_order", std::string("out_in")}}));
  const ModelTree tree = s.recovered({y});
  ASSERT_EQ(tree.model().children.size(), 1u);
  using Ties = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(tree.model().children[0].use.tied, (Ties{{"weight", "embed.weight"}}));
}

TEST(Recovery, ACallThatIsUsedInBetweenIsWrittenOutWithANote) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  s.enter("odd", "model.Odd", {{"x", x}});
  const ValueId first = s.b().create("relu", {x});
  s.leave(first);
  const ValueId between = s.b().create("tanh", {first});  // of the root, and the call below needs it
  s.b().origin.call = 1;
  const ValueId second = s.b().create("relu", {between});
  s.b().origin.call = 0;
  const ModelTree tree = s.recovered({second});
  EXPECT_EQ(tree.classes.size(), 1u);
  EXPECT_EQ(tree.model().steps.size(), 3u);
  ASSERT_EQ(tree.notes.size(), 1u);
  EXPECT_NE(tree.notes[0].find("odd@0"), std::string::npos);
}

TEST(Recovery, ValuesFromAroundComeAfterPythonsArguments) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId mask = s.b().create("tanh", {x});
  s.enter("inner", "model.Inner", {{"x", x}});
  const ValueId y = s.leave(s.b().add(mask, s.b().create("relu", {x})));
  const ModelTree tree = s.recovered({y});
  const ModuleClass* inner = find(tree, "Inner");
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->inputs, (Values{x, mask}));
  EXPECT_EQ(inner->input_names, (std::vector<std::string>{"x", ""}));
}

TEST(Recovery, NumbersAndBroadcastsOfOperatorsAreNotWritten) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId bias = s.parameter("bias", {4});
  const ValueId y = s.b().add(s.b().mul(x, 0.5), bias);
  const ModelTree tree = s.recovered({y});
  EXPECT_EQ(tree.model().steps.size(), 2u) << "constant and broadcasts are left to the operators";
}

TEST(Names, ArePythonsMadeValidForCpp) {
  EXPECT_EQ(emit::identifier("class"), "class_");
  EXPECT_EQ(emit::identifier("0"), "_0");
  EXPECT_EQ(emit::identifier("gr\xc3\xb6\xc3\x9f\x65"), "groesse");
  EXPECT_EQ(emit::identifier("\xce\xbb"), "lambda");
  EXPECT_EQ(emit::identifier("a.b-c"), "a_b_c");
  EXPECT_EQ(emit::identifier("__x__"), "_x");
  EXPECT_EQ(emit::identifier(""), "value");
  EXPECT_EQ(emit::snake_case("GPT2LMHeadModel"), "gpt2_lm_head_model");
  EXPECT_EQ(emit::snake_case("MakeMoE"), "make_moe");
  EXPECT_EQ(emit::snake_case("ViTForImageClassification"), "vit_for_image_classification");
  EXPECT_EQ(emit::snake_case("Seq2Seq"), "seq2seq");
  EXPECT_EQ(emit::snake_case("ToRGB"), "to_rgb");
  EXPECT_EQ(emit::snake_case("ResNetBlock"), "res_net_block");
  EXPECT_EQ(emit::camel_case("layer_norm"), "LayerNorm");
}

TEST(Names, AreNumberedOnlyWhenNothingElseIsLeft) {
  emit::Scope scope;
  const std::vector<std::string> candidates{"x", "y"};
  EXPECT_EQ(scope.take(candidates), "x");
  EXPECT_EQ(scope.take(candidates), "y");
  EXPECT_EQ(scope.take(candidates), "x_2");
}

}  // namespace
}  // namespace pycandle
