// Removes what changes nothing, and makes one movement of two in a row. Nothing is shared between module calls, and a
// value that a tap shows stays where it is.   tests/passes/canonicalise.ptir
//
//   %1 = cast(%0) {dtype = f32}                            (%0 is f32: %1 becomes %0)
//   %2 = reshape(%1) {shape = [s0, 6]}
//   %3 = reshape(%2) {shape = [s0, 2, 3]}          →       %1 = reshape(%0) {shape = [s0, 2, 3]}
//   %4 = transpose(%3) {permutation = [0, 2, 1]}
//   %5 = transpose(%4) {permutation = [0, 2, 1]}           (back where it was: %5 becomes %1)
//   %7 = mul(%5, %6)                                       (%6 is 1 everywhere: %7 becomes %1)
#include <algorithm>
#include <cmath>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

bool is_identity(const Ints& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

Call call_of(const Graph& g, const Node& node, const Values& operands) {
  return Call(*node.op, g, operands, node.attributes, node.regions);
}

// The type of the result follows from the operand's and the attributes; no need to ask the old graph for it.
bool changes_nothing(const Graph& g, const Node& node, const Values& operands) {
  const std::string& op = node.op->name;
  const Call call = call_of(g, node, operands);
  if (op == "cast") return call.dtype("dtype") == g.type(operands[0]).dtype;
  if (op == "reshape") return call.dims("shape") == g.type(operands[0]).shape;
  if (op == "transpose") return is_identity(call.integers("permutation"));
  if (op == "broadcast") return call.dims("shape") == g.type(operands[0]).shape && is_identity(call.integers("axes"));
  if (op == "slice") {
    const Dims& starts = call.dims("starts");
    const Ints& steps = call.integers("steps");
    return call.dims("stops") == g.type(operands[0]).shape &&
           std::all_of(starts.begin(), starts.end(), [](Dim d) { return d == Dim(0); }) &&
           std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
  }
  return false;
}

// The number that every element of a value is.
std::optional<Scalar> number_of(const Graph& g, ValueId v) {
  while (const Node* node = defined_by(g, v, "broadcast")) v = node->operands[0];
  return constant_value(g, v);
}

// x * 1, x / 1, x - 0, and x + 0 of integers (-0.0 + 0.0 is 0.0) are x, to the bit.
std::optional<ValueId> unchanged_operand(const Graph& g, const Node& node, const Values& operands) {
  const std::string& op = node.op->name;
  const bool is_product = op == "mul", is_sum = op == "add";
  if (!is_product && !is_sum && op != "div" && op != "sub") return std::nullopt;
  const DType dtype = g.type(operands[0]).dtype;
  if (is_complex(dtype) || dtype == DType::boolean || (is_sum && !is_integral(dtype)) || (op == "div" && !is_floating(dtype)))
    return std::nullopt;
  const auto is_neutral = [&](ValueId v) {
    const auto number = number_of(g, v);
    return number && as_double(*number) == (is_product || op == "div" ? 1 : 0) && !std::signbit(as_double(*number));
  };
  if (is_neutral(operands[1])) return operands[0];
  if ((is_product || is_sum) && is_neutral(operands[0])) return operands[1];
  return std::nullopt;
}

// The node before it, when it is the same movement in the same module call.
const Node* same_movement_before(const Graph& g, const Node& node, const Values& operands, const char* op) {
  if (node.op->name != op) return nullptr;
  const Node* before = defining_node(g, operands[0]);
  return before && before->op == node.op && before->origin.call == node.origin.call ? before : nullptr;
}

std::optional<Values> canonical(Builder& b, const Node& node, const Values& operands) {
  const Graph& g = b.graph();
  if (changes_nothing(g, node, operands)) return Values{operands[0]};
  if (const auto x = unchanged_operand(g, node, operands)) return Values{*x};
  if (const Node* before = same_movement_before(g, node, operands, "reshape")) {
    const ValueId x = before->operands[0];
    return Values{b.reshape(x, call_of(g, node, operands).dims("shape"))};
  }
  if (const Node* before = same_movement_before(g, node, operands, "transpose")) {
    const ValueId x = before->operands[0];
    const Ints& first = call_of(g, *before, before->operands).integers("permutation");
    Ints both;
    for (int64_t axis : call_of(g, node, operands).integers("permutation")) both.push_back(first[axis]);
    return Values{b.transpose(x, both)};
  }
  return std::nullopt;
}

}  // namespace

Program canonicalise(Program p, const OpTable& table) { return rewrite(std::move(p), table, canonical); }

}  // namespace pycandle
