// Replaces functionals that the backend does not run itself by their decompositions, until none is left. Every new node
// keeps the place of the functional it came from. Inside regions only primitives are left: a backend claims what stands
// in the program itself.   tests/passes/decompose.ptir
//
//   %2 = silu(%1)           →        %2 = sigmoid(%1)
//                                    %3 = mul(%1, %2)
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

constexpr int kMaxDepth = 32;  // functionals made of functionals; more is one that decomposes to itself

Values decomposed(Builder& b, const Node& node, const Values& operands) {
  if (!node.op->decomposition) internal_error(fmt::format("functional {} has no decomposition", node.op->name));
  return node.op->decomposition(b, Call(*node.op, b.graph(), operands, node.attributes, node.regions, &b));
}

bool has_functional(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& node) {
    return !node.op->is_primitive || std::any_of(node.regions.begin(), node.regions.end(), has_functional);
  });
}

Program decompose_regions(Program p, const OpTable& table) {
  const auto is_left = [&] {
    return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                       [](const Node& node) { return std::any_of(node.regions.begin(), node.regions.end(), has_functional); });
  };
  for (int depth = 0; is_left(); ++depth) {
    if (depth == kMaxDepth) internal_error("a functional decomposes to itself");
    p = rewrite_inside_regions(std::move(p), table,
                               [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                 if (node.op->is_primitive) return std::nullopt;
                                 return decomposed(b, node, operands);
                               });
  }
  return p;
}

}  // namespace

Program decompose(Program p, const OpTable& table, const Claims& claims) {
  const auto is_claimed = [&](const Graph& g, const Node& node, const Values& operands) {
    return node.op->is_primitive || claims(Call(*node.op, g, operands, node.attributes, node.regions));
  };
  for (int depth = 0;; ++depth) {
    const bool all_claimed = std::all_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                                         [&](const Node& node) { return is_claimed(p.graph, node, node.operands); });
    if (all_claimed) break;
    if (depth == kMaxDepth) internal_error("a functional decomposes to itself");
    p = rewrite_outside_regions(std::move(p), table,
                                [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                  if (is_claimed(b.graph(), node, operands)) return std::nullopt;
                                  return decomposed(b, node, operands);
                                });
  }
  return decompose_regions(std::move(p), table);
}

}  // namespace pycandle
