// Replaces functionals that the backend does not run itself by their decompositions, until none is left. Every new node
// keeps the place of the functional it came from.   tests/passes/decompose.ptir
//
//   %2 = silu(%1)           →        %2 = sigmoid(%1)
//                                    %3 = mul(%1, %2)
#include <fmt/format.h>

#include <utility>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

using Claims = std::function<bool(const Node&)>;

bool to_decompose(const Node& node, const Claims& claims) { return !node.op->is_primitive && !claims(node); }

bool any_to_decompose(const Graph& g, const Claims& claims) {
  for (const Node& node : g.nodes) {
    if (to_decompose(node, claims)) return true;
    for (const Graph& region : node.regions) {
      if (any_to_decompose(region, claims)) return true;
    }
  }
  return false;
}

}  // namespace

Program decompose(Program p, const OpTable& table, const Claims& claims) {
  constexpr int kMaxDepth = 32;  // functionals made of functionals; more is one that decomposes to itself
  for (int depth = 0; any_to_decompose(p.graph, claims); ++depth) {
    if (depth == kMaxDepth) internal_error("a functional decomposes to itself");
    p = rewrite(std::move(p), table, [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
      if (!to_decompose(node, claims)) return std::nullopt;
      if (!node.op->decomposition) internal_error(fmt::format("functional {} has no decomposition", node.op->name));
      return node.op->decomposition(b, Call(*node.op, b.graph(), operands, node.attributes, node.regions, &b));
    });
  }
  return p;
}

}  // namespace pycandle
