#include "passes/decoding/prepare.h"

#include "ops/core/alignment.h"
#include "passes/decoding/rules.h"
#include "passes/index_domain.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle::decoding {
namespace {

// x[i, j, …] where every index is a position of the result, or a number; and a running sum of what is the same everywhere
// (position ids from a mask of ones), which is a matter of positions too.
std::optional<Values> at_positions(Builder& b, IndexSpace& space, const Node& node, const Values& operands) {
  if (node.op->name != "gather_nd" && node.op->name != "cumsum") return std::nullopt;
  const ValueId picked = b.create(node.op->name, operands, node.attributes);
  const Shape shape = b.shape(picked);
  std::vector<Dim> index;
  std::vector<std::string> variables;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim position = space.axis(axis, shape[axis]);
    index.push_back(shape[axis] == Dim(1) ? Dim(0) : position);
    variables.push_back(position.text());
  }
  const ElementPtr element = IndexEvaluator(b.graph(), space).element(picked, index);
  if (element->kind == Element::Kind::read && element->value == picked) return Values{picked};
  const ValueId made = materialised(b, space, *element, variables);
  return Values{made == kNoValue ? picked : b.broadcast_to(made, shape)};
}

bool is_understood(const Call& c) {
  if (Rules::knows(c.op().name)) return true;
  Values operands;
  for (size_t i = 0; i < c.op().fixed_operands(); ++i) {
    const auto& spec = c.op().operand_specs[i];
    operands.push_back(spec.kind == OperandSpec::Kind::optional ? c.maybe(spec.name).value_or(kNoValue) : c.value(spec.name));
  }
  if (c.op().has_variadic()) {
    const Values more = c.values(c.op().operand_specs.back().name);
    operands.insert(operands.end(), more.begin(), more.end());
  }
  return alignment_of(c, operands, c.op().infer_types(c).at(0).shape).has_value();
}

}  // namespace

Program prepared(const Program& program, const OpTable& table) {
  const SymbolRanges ranges = program.ranges();
  IndexSpace space(&ranges);
  return rewrite_outside_regions(
      decompose(program, table, is_understood), table,
      [&](Builder& b, const Node& node, const Values& operands) { return at_positions(b, space, node, operands); });
}

}  // namespace pycandle::decoding
