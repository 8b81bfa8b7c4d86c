// Recovered models as C++ text, letter by letter.
#include <gtest/gtest.h>

#include "emit/cpp/printer.h"
#include "emit/cpp/text.h"
#include "emit_sketch.h"

namespace pycandle {
namespace {

const Dim kBatch = Dim::symbol("s0");

TEST(PrintedCpp, AModelOfBlocksReadsAsAPersonWouldWriteIt) {
  Sketch s("model.Net");
  ValueId x = s.input("x", {kBatch, 4});
  for (int i = 0; i < 2; ++i) {
    const std::string path = "h." + std::to_string(i);
    s.enter(path, "model.Block", {{"x", x}});
    s.assigned_to("y", 12);
    const ValueId y = s.relu(path + ".act", s.linear(path + ".fc", x, 4, 4));
    s.assigned_to("", 13);
    x = s.leave(s.b().add(s.b().mul(y, 0.5), x));
  }
  const emit::cpp::PrintedModel printed = emit::cpp::print_header(s.recovered({s.linear("head", x, 4, 2)}), "Tiny");
  EXPECT_EQ(printed.header.text(), R"text(// Net, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace tiny {
using namespace pycandle;

// Block, model.py:10 (2 instances)
struct Block : nn::Module<Block> {
  nn::Linear fc;
  nn::ReLU act;

  explicit Block(const Weights& w)
      : Module(w),
        fc(4, 4, w / "fc"),
        act(w / "act") {}

  Tensor forward(const Tensor& x) const {
    const Tensor y = act(fc(x));
    return y * 0.5 + x;
  }
};

// Net, model.py:10
struct Tiny : nn::Module<Tiny> {
  nn::ModuleList<Block> h;
  nn::Linear head;

  explicit Tiny(const Weights& w, const Checker& checker = {})
      : Module(w, checker),
        h(2, w / "h"),
        head(4, 2, w / "head") {}

  Tensor forward(Tensor x) const {
    for (const Block& block : h) x = block(x);
    return head(x);
  }
};

}  // namespace tiny
)text");
}

TEST(PrintedCpp, AVariableIsNotTakenBeforeItsValueWasUsed) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  s.assigned_to("y", 1);
  const ValueId y = s.b().create("relu", {x});
  s.assigned_to("x", 2);
  const ValueId second = s.b().create("tanh", {x});  // x = tanh(x): its old value is needed in the next line
  s.assigned_to("z", 3);
  const ValueId z = s.b().add(s.b().mul(y, x), second);
  const std::string text = emit::cpp::print_header(s.recovered({z})).header.text();
  EXPECT_EQ(text.find("x = functional::tanh(x)"), std::string::npos) << text;
  EXPECT_NE(text.find("y * x + functional::tanh(x)"), std::string::npos) << text;
}

// As in a feature pyramid: what is returned of one level, and what comes from beside it, are both called out in Python.
TEST(PrintedCpp, AVariableThatTheNextStatementNeedsIsNotTakenBeforeIt) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  s.assigned_to("last", 1);
  const ValueId top = s.b().exp(x);
  s.assigned_to("out", 2);
  const ValueId first = s.b().tanh(top);
  s.assigned_to("out", 3);
  const ValueId beside = s.b().abs(x);
  s.assigned_to("last", 4);
  const ValueId last = s.b().add(beside, top);
  s.assigned_to("out", 5);
  const std::string header = emit::cpp::print_header(s.recovered({s.b().sigmoid(last), first, s.b().sqrt(last)})).header.text();
  EXPECT_NE(header.find(R"(    Tensor last = functional::exp(x);
    const Tensor out = functional::abs(x);
    const Tensor tanh_out = functional::tanh(last);
    last = out + last;
)"),
            std::string::npos)
      << header;
}

TEST(PrintedCpp, SizesAreThoseOfTheInputs) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const ValueId y = s.b().reshape(x, {kBatch * Dim(2), 2});
  const std::string text = emit::cpp::print_header(s.recovered({y})).header.text();
  EXPECT_NE(text.find("x.reshape({2 * x.dim(0), 2})"), std::string::npos) << text;
}

TEST(PrintedCpp, ANameThatNoClassCanHaveIsAnError) {
  Sketch s("model.Net");
  const ValueId x = s.input("x", {kBatch, 4});
  const emit::ModelTree tree = s.recovered({s.b().create("relu", {x})});
  EXPECT_THROW(emit::cpp::print_header(tree, "2nd"), Error);
  EXPECT_THROW(emit::cpp::print_header(tree, "class"), Error);
}

TEST(PrintedCpp, LongCallsAreBrokenBetweenTheirArguments) {
  using emit::cpp::wrapped;
  const std::string name(60, 'n');
  EXPECT_EQ(wrapped("f(" + name + ", " + name + ");", 2, 6), "  f(" + name + ",\n      " + name + ");\n");
  EXPECT_EQ(wrapped("return f(" + name + ", " + name + ") + x;", 2, 6),
            "  return f(" + name + ",\n             " + name + ") +\n      x;\n")
      << "as clang-format leaves it";
}

TEST(PrintedCpp, LongChainsAndListsAreBrokenToo) {
  using emit::cpp::wrapped;
  const std::string name(45, 'n');
  EXPECT_EQ(wrapped("a(8, (w / \"a\").tied(\"" + name + "\", \"b\").tied(\"" + name + "\", \"c\")),", 6, 12, false),
            "      a(8,\n            (w / \"a\")\n                .tied(\"" + name + "\", \"b\")\n                .tied(\"" +
                name + "\", \"c\")),\n");
  EXPECT_EQ(wrapped("x = a(" + name + ").b(" + name + ").c(1);", 2, 6),
            "  x = a(" + name + ")\n          .b(" + name + ")\n          .c(1);\n");
  EXPECT_EQ(wrapped("return a(" + name + ").b(" + name + ").c(1);", 2, 6),
            "  return a(" + name + ")\n      .b(" + name + ")\n      .c(1);\n");
  EXPECT_EQ(wrapped("cat({" + name + ", " + name + ", " + name + "}, 1);", 2, 6),
            "  cat(\n      {" + name + ", " + name + ",\n          " + name + "},\n      1);\n");
}

TEST(PrintedCpp, OperatorsAreInParenthesesWhereTheyBindLess) {
  using emit::cpp::Binds;
  const emit::cpp::Expression sum{"a + b", Binds::sum}, both{"a & b", Binds::bits};
  EXPECT_EQ(sum.within(Binds::product), "(a + b)");
  EXPECT_EQ(sum.within(Binds::comparison), "a + b");
  EXPECT_EQ(both.within(Binds::comparison), "(a & b)");
}

}  // namespace
}  // namespace pycandle
