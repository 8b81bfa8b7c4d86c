// Emitted code is read again, captured and compared before it is written: what a printer or a tree gets wrong is refused.
#include <gtest/gtest.h>

#include "emit/cpp/printer.h"
#include "emit/proof/layers.h"
#include "emit/proof/proof.h"
#include "emit/proof/source.h"
#include "emit_sketch.h"

namespace pycandle {
namespace {

const Dim kBatch = Dim::symbol("s0");

// Three blocks in a list, each with a Sequential, then a head: y = act(fc(x)); x = (y - x) * 0.5.
emit::ModelTree blocks() {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (int i = 0; i < 3; ++i) {
    const std::string path = "h." + std::to_string(i);
    s.enter(path, "model.Block", {{"x", x}});
    s.enter(path + ".ff", "torch.nn.modules.container.Sequential", {{"input", x}});
    const ValueId y = s.leave(s.relu(path + ".ff.1", s.linear(path + ".ff.0", x, 4, 4)));
    x = s.leave(s.b().mul(s.b().sub(y, x), 0.5));
  }
  return s.recovered({s.linear("head", x, 4, 2)});
}

// What is said when the tree is not the program; empty when it is.
std::string refusal(const emit::ModelTree& tree) {
  try {
    emit::proof::prove(emit::cpp::print_header(tree).header.text(), *tree.program);
    return {};
  } catch (const Error& e) {
    EXPECT_EQ(exit_status(e.code()), 1) << e.what();
    return e.text();
  }
}

emit::ModuleClass& class_of(emit::ModelTree& tree, const std::string& name) {
  for (emit::ModuleClass& c : tree.classes) {
    if (c.name == name) return c;
  }
  throw std::runtime_error(name);
}

TEST(Proof, WhatWasRecoveredIsTheProgram) { EXPECT_EQ(refusal(blocks()), ""); }

TEST(Proof, AWrongWeightPathIsRefused) {
  emit::ModelTree tree = blocks();
  class_of(tree, "Net").children[0].list_path = "g";
  EXPECT_NE(refusal(tree).find("there is no parameter g.0.ff.0.weight"), std::string::npos) << refusal(tree);

  tree = blocks();
  tree.classes.back().children[0].step = 0;
  EXPECT_NE(refusal(tree).find("linear at h.1.ff.0@0 (f32[i0a0, 4]) has weight = parameter h.1.ff.0.weight (f32[4, 4]), "
                               "in the code parameter h.0.ff.0.weight (f32[4, 4])"),
            std::string::npos)
      << refusal(tree);
}

TEST(Proof, AWrongPathOfASequencesPartIsRefused) {
  emit::ModelTree tree = blocks();
  class_of(tree, "Block").children[0].use.sequence[0].path = "1";
  EXPECT_NE(refusal(tree).find("there is no parameter h.0.ff.1.weight"), std::string::npos) << refusal(tree);
}

TEST(Proof, SwappedArgumentsAreRefused) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4}), y = s.input("y", {kBatch, 4});
  s.enter("mix", "model.Mix", {{"a", x}, {"b", y}});
  emit::ModelTree tree = s.recovered({s.leave(s.b().sub(x, y))});
  EXPECT_EQ(refusal(tree), "");
  std::swap(tree.classes.back().steps[0].arguments[0], tree.classes.back().steps[0].arguments[1]);
  EXPECT_NE(refusal(tree).find("input 0"), std::string::npos) << refusal(tree);
}

TEST(Proof, AMissingStatementIsRefused) {
  emit::ModelTree tree = blocks();
  emit::ModuleClass& net = class_of(tree, "Net");
  const emit::Step& loop = net.steps[0];
  ASSERT_EQ(loop.kind, emit::Step::Kind::loop);
  net.steps[1].arguments = {loop.carried[0].initial};
  net.steps.erase(net.steps.begin());
  EXPECT_NE(refusal(tree), "");
}

TEST(Proof, AWrongConstantIsRefused) {
  emit::ModelTree tree = blocks();
  class_of(tree, "Block").children[0].use.sequence[0].arguments[2].value = false;  // bias
  EXPECT_NE(refusal(tree).find("linear at h.0.ff.0@0"), std::string::npos) << refusal(tree);
}

TEST(Proof, ALoopThatIsOneTooShortIsRefused) {
  emit::ModelTree tree = blocks();
  class_of(tree, "Net").children[0].count.value = int64_t{2};
  EXPECT_NE(refusal(tree).find("mul at h.0@0"), std::string::npos) << refusal(tree);
}

TEST(Proof, OfAModelWithGapsTheRestIsProven) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const std::string what = "aten.odd, model.py:88";
  const ValueId wide = s.gap(what, {kBatch, 4}), narrow = s.gap(what, {kBatch, 1}), again = s.gap(what, {kBatch, 4});
  const ValueId y = s.b().mul(s.b().add(x, wide), s.b().broadcast(narrow, {kBatch, 4}, {0, 1}));
  emit::ModelTree tree = s.recovered({s.b().sub(y, again), wide});
  const std::string header = emit::cpp::print_header(tree).header.text();
  EXPECT_NE(header.find("todo(\"aten.odd, model.py:88\")"), std::string::npos) << header;
  EXPECT_EQ(refusal(tree), "");
  std::string wrong = header;
  wrong.replace(wrong.find("x + todo"), 1, "-x");
  EXPECT_THROW(emit::proof::prove(wrong, *tree.program), Error) << wrong;
}

// ---- what code is made of

TEST(Proof, SizesInDoublePrecisionAreProven) {
  Sketch s("model.Net");
  s.input("x", {kBatch, 4});
  std::vector<ValueId> sized;
  for (const char* size : {"floor(1.7*s0)", "ceil(s0/3.3)", "trunc(s0 - 0.5)", "round(0.1*s0)", "floor(3.0*(0.1*s0))",
                           "floor((s0 + 3)/2.2) + 1", "floor(0.7*s0 + 0.5)", "ceil(-1.5*s0) + 2*s0", "floor(1.0*s0/(s0 + 1))"})
    sized.push_back(s.b().full(0.0, DType::f32, {Dim::parse(size)}));
  const emit::ModelTree tree = s.recovered(sized);
  EXPECT_EQ(refusal(tree), "");

  const std::string header = emit::cpp::print_header(tree).header.text(), size = "floor(1.7 * x.dim(0))";
  ASSERT_NE(header.find(size), std::string::npos) << header;
  for (const char* wrong : {"ceil(1.7 * x.dim(0))", "floor(1.8 * x.dim(0))", "floor(1.7 * x.dim(0) * 2)", "1.7 * x.dim(0)",
                            "floor(1.7)", "floor(1.7 % x.dim(0))", "floor(1.7 * x)", "floor(1.7, x.dim(0))"}) {
    std::string slip = header;
    slip.replace(slip.find(size), size.size(), wrong);
    EXPECT_THROW(emit::proof::prove(slip, *tree.program), Error) << wrong;
  }
}

TEST(Proof, NumbersOfEveryMagnitudeAreRead) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (const double number : {5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 0.1}) x = s.b().mul(x, number);
  EXPECT_EQ(refusal(s.recovered({x})), "");
}

TEST(Proof, EveryModuleThatIsPrintedCanBeMade) {
  for (const std::string& name : emit::nn_classes()) {
    // Without arguments it is refused; null says that there is no such module.
    EXPECT_THROW(emit::proof::make_layer("nn::" + name, {}), Error) << name;
  }
  EXPECT_EQ(emit::proof::make_layer("nn::Other", {}), nullptr);
}

TEST(Proof, CodeThatEndsAnywhereIsRefused) {
  const std::string text = R"(namespace m {
using namespace pycandle;
[[noreturn]] inline Tensor todo(const char* what) { throw Error(ErrorCode::gap, "a \"gap\" \u0007"); }
struct Net : nn::Module<Net> {
  struct Output {
    Tensor a, b;
    template <class F> void each(F&& f) const {
      f("a", a);
      f("b\n", b);
    }
  };
  nn::Linear fc;
  explicit Net(const Weights& w) : Module(w), fc(4, 4, {.bias = false}, w / "fc") {}
  Output forward(Tensor x) const {
    for (int64_t i = 0; i < 3; ++i) x = fc(x /* again */);
    return {x, todo("this")};
  }
};
})";
  EXPECT_EQ(emit::proof::read_source(text).classes.size(), 1U);
  for (size_t end = 0; end < text.size(); ++end)
    EXPECT_THROW(emit::proof::read_source(text.substr(0, end)), Error) << text.substr(0, end);
}

// ---- the text itself, as a printer could get it wrong

struct Slip {
  const char* written;
  const char* instead;
};

class SlipOfThePrinter : public testing::TestWithParam<Slip> {};

TEST_P(SlipOfThePrinter, IsRefused) {
  const emit::ModelTree tree = blocks();
  std::string header = emit::cpp::print_header(tree).header.text();
  const size_t at = header.find(GetParam().written);
  ASSERT_NE(at, std::string::npos) << header;
  header.replace(at, std::string_view(GetParam().written).size(), GetParam().instead);
  EXPECT_THROW(emit::proof::prove(header, *tree.program), Error) << header;
}

INSTANTIATE_TEST_SUITE_P(Proof, SlipOfThePrinter,
                         testing::Values(Slip{"(ff(x) - x) * 0.5", "ff(x) - x * 0.5"},     // parentheses
                                         Slip{"(ff(x) - x) * 0.5", "(x - ff(x)) * 0.5"},   // operands
                                         Slip{"* 0.5", "* 0.25"},                          // a number
                                         Slip{"w / \"ff.0\"", "w / \"ff.1\""},             // weights
                                         Slip{"h(3,", "h(2,"},                             // a count
                                         Slip{"Tensor forward(Tensor x)", "Tensor forward(const Tensor& x)"},  // does not compile
                                         Slip{"return head(x);", "return head(y);"},  // undeclared
                                         Slip{"return head(x);", "head(x);"},  // no statement
                                         Slip{"nn::Linear head;", "nn::ReLU head;"},  // another module
                                         Slip{"return head(x);", "return x;"},  // a call less
                                         Slip{"Module(w)", "Module(u)"}));

}  // namespace
}  // namespace pycandle
