// Arithmetic on sizes becomes a size, a size that is a number becomes a constant, and checks that the ranges of the
// symbols already prove are dropped.   tests/passes/fold_shapes.ptir
//
//   %1 = dim {value = s0}
//   %2 = constant {value = 1, shape = [], dtype = i64}
//   %3 = add(%1, %2)                                        →     %3 = dim {value = s0 + 1}
#include <fmt/format.h>

#include <map>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

using DimFunction = Dim (*)(Dim, Dim);

const std::map<std::string, DimFunction>& dim_functions() {
  static const std::map<std::string, DimFunction> table = {
      {"add", [](Dim a, Dim b) { return a + b; }},         {"sub", [](Dim a, Dim b) { return a - b; }},
      {"mul", [](Dim a, Dim b) { return a * b; }},         {"minimum", [](Dim a, Dim b) { return min(a, b); }},
      {"maximum", [](Dim a, Dim b) { return max(a, b); }},
  };
  return table;
}

std::optional<Values> folded(Builder& b, const Node& node, const Values& operands) {
  if (node.op->name == "dim") {
    const Dim value = Call(*node.op, b.graph(), operands, node.attributes, node.regions).dim("value");
    if (!value.is_number()) return std::nullopt;
    return Values{b.dim_value(value)};
  }
  const auto function = dim_functions().find(node.op->name);
  if (function == dim_functions().end() || operands.size() != 2) return std::nullopt;
  const auto left = dim_value(b.graph(), operands[0]), right = dim_value(b.graph(), operands[1]);
  if (!left || !right) return std::nullopt;
  try {
    return Values{b.dim_value(function->second(*left, *right))};
  } catch (const Error&) {
    return std::nullopt;  // larger than a dim may be
  }
}

}  // namespace

Program fold_shapes(Program p, const OpTable& table) {
  p = rewrite(std::move(p), table, folded);
  const SymbolRanges ranges = p.ranges();
  std::vector<Check> open;
  for (Check& check : p.checks) {
    const Tri answer = equal(check.left, check.right, ranges);
    if (answer == Tri::yes) continue;
    if (answer == Tri::no) {
      throw Error(ErrorCode::bad_input, fmt::format("these sizes can never be equal: {}", check.what))
          .expected(check.left.text())
          .found(check.right.text())
          .module_path(p.module_path(check.origin))
          .python(p.file_line(check.origin), p.source_line(check.origin));
    }
    open.push_back(std::move(check));
  }
  p.checks = std::move(open);
  return p;
}

}  // namespace pycandle
