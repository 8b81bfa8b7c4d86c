#include "verify/judging/spellings.h"

#include <algorithm>

#include "base/error.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

using Spelling = std::function<Values(Builder&, const Call&)>;

constexpr size_t kMostPrograms = 32;

// Other than by a cast at its end.
bool rounds_to(DType dtype, const Graph& g) {
  PerValue<bool> is_used(g.values.size());
  for (const Node& node : g.nodes) {
    for (ValueId v : node.operands) {
      if (v != kNoValue) is_used[v] = true;
    }
  }
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) {
    const ValueId result = node.results.at(0);
    const bool is_cast = node.op->name == "cast";
    const bool may_round = !node.op->is_primitive || node.op->rounding != Rounding::exact || is_cast;
    return may_round && (!is_cast || is_used[result]) && g.type(result).dtype == dtype;
  });
}

// Does the spelling fit this call, and round to the dtype on the way?
bool may_be_written_as(const Spelling& spelling, const Program& p, const Node& node, const OpTable& table, DType dtype) {
  Graph scratch;
  Values operands;
  for (ValueId v : node.operands) operands.push_back(v == kNoValue ? kNoValue : scratch.add_input(p.graph.type(v)));
  const SymbolRanges ranges = p.ranges();
  std::vector<Check> checks;
  Builder b(scratch, table, &checks, &ranges);
  try {
    const Values results = spelling(b, Call(*node.op, scratch, operands, node.attributes, node.regions, &b));
    return scratch.type(results.at(0)) == p.graph.type(node.results.at(0)) && rounds_to(dtype, scratch);
  } catch (const Error&) {
    return false;
  }
}

// Per node: its spelling, or nothing to leave it as it is.
using Choice = PerNode<const Spelling*>;

Program written_as(const Choice& choice, const Program& p, const OpTable& table) {
  NodeId next = 0;
  return rewrite_outside_regions(p, table, [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    const Spelling* spelling = choice[next++];
    if (spelling == nullptr) return std::nullopt;
    return (*spelling)(b, Call(*node.op, b.graph(), operands, node.attributes, node.regions, &b));
  });
}

}  // namespace

std::optional<std::vector<Program>> other_spellings(const Program& p, const OpTable& table, DType dtype) {
  std::vector<Choice> choices(1);
  choices[0].assign(p.graph.nodes.size(), nullptr);
  for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
    const Node& node = p.graph.nodes[n];
    const size_t so_far = choices.size();
    for (const Spelling& spelling : node.op->spellings) {
      if (!may_be_written_as(spelling, p, node, table, dtype)) continue;
      for (size_t i = 0; i < so_far; ++i) {
        choices.push_back(choices[i]);
        choices.back()[n] = &spelling;
      }
    }
    if (choices.size() > kMostPrograms) return std::nullopt;
  }
  std::vector<Program> programs;
  for (size_t i = 1; i < choices.size(); ++i) programs.push_back(written_as(choices[i], p, table));
  return programs;
}

}  // namespace pycandle
