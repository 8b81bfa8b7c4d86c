// src/ops/functional.h, which is generated: every function compiles, and makes the node it is named after.
#include "ops/functional.h"

#include <gtest/gtest.h>

#include "ops/catalogue.h"
#include "roundtrip.h"

namespace pycandle {
namespace {

TEST(GeneratedFunctions, BuildTheNodesTheyAreNamedAfter) {
  Program p;
  p.name = "generated";
  p.symbols = {{"s0", {1, {}}, 2, "x", 0}};
  const ValueId x = p.graph.add_input({DType::f32, {Dim::symbol("s0"), 8}});
  p.inputs = {{"x", x, {}, true}};
  Builder b(p.graph, catalogue());
  const ValueId normal = fn::layer_norm(b, x, std::nullopt, std::nullopt, Dims{8}, 1e-5);
  const ValueId joined = fn::concat(b, {normal, x}, 1);
  const Values top = fn::topk(b, joined, Dim(3), 1, true, true);
  p.outputs = {{"output.0", top.at(0)}, {"output.1", top.at(1)}};
  p.bind_outputs();

  ASSERT_EQ(p.graph.nodes.size(), 3U);
  EXPECT_EQ(p.graph.nodes[0].op->name, "layer_norm");
  EXPECT_EQ(p.graph.nodes[1].op->name, "concat");
  EXPECT_EQ(p.graph.type(joined).text(), "f32[s0, 16]");
  EXPECT_EQ(p.graph.type(top.at(1)).text(), "i64[s0, 3]");
  expect_round_trip(p, catalogue());
}

}  // namespace
}  // namespace pycandle
