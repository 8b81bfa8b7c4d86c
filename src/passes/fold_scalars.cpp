// Computes what follows from numbers alone: ops on 0-d constants, and casts of constants.   tests/passes/fold_scalars.ptir
//
//   %0 = constant {value = 0.5, shape = [], dtype = f32}
//   %1 = sqrt(%0)                                           →     %1 = constant {value = 0.70710677, …, dtype = f32}
//   %2 = constant {value = 1, shape = [4], dtype = i64}
//   %3 = cast(%2) {dtype = f32}                             →     %3 = constant {value = 1.0, shape = [4], dtype = f32}
//
// The arithmetic is the evaluators' own, rounded to the dtype at every step, so the folded program computes the same
// bits. Tensors are never folded.
#include <algorithm>
#include <utility>

#include "ir/evaluation.h"
#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

Scalar only_element(const Array& a) {
  if (a.dtype() == DType::boolean) return load_int(a).at(0) != 0;
  if (is_integral(a.dtype())) return load_int(a).at(0);
  if (is_complex(a.dtype())) return load_complex(a).at(0);
  return load_double(a).at(0);
}

bool same(const Array& a, const Array& b) { return a.same_bytes(b); }

// 0.1 cast from f64 to f32 stays 0.1, for it is the same f32: people read these numbers.
Scalar cast_scalar(const Scalar& value, DType from, DType to) {
  const Array result = cast(Array::scalar(from, value), to);
  if (is_floating(from) && is_floating(to) && same(Array::scalar(to, value), result)) return value;
  return only_element(result);
}

bool is_scalar_arithmetic(const Node& node) {
  const OpDef& op = *node.op;
  return op.is_primitive && op.evaluate && op.region_count == 0 && !op.is_random && node.results.size() == 1 &&
         !node.operands.empty();
}

std::optional<Array> evaluated(Builder& b, const Node& node, const std::vector<Array>& arrays) {
  Graph scratch;
  Values inputs;
  for (const Array& a : arrays) inputs.push_back(scratch.add_input({a.dtype(), {}}));
  try {
    Builder scratch_builder(scratch, b.table());
    const ValueId result = scratch_builder.create(node.op->name, inputs, node.attributes);
    if (!scratch.type(result).shape.empty()) return std::nullopt;
    std::vector<const Array*> operands;
    operands.reserve(arrays.size());
    for (const Array& a : arrays) operands.push_back(&a);
    return node.op->evaluate(Evaluation(scratch.nodes.back(), scratch, operands, {}, /*f64_mode=*/false, nullptr)).at(0);
  } catch (const Error&) {
    return std::nullopt;  // a division by zero, say: it shall fail where and when it is run
  }
}

std::optional<Values> folded(Builder& b, const Node& node, const Values& operands) {
  if (!is_scalar_arithmetic(node)) return std::nullopt;
  if (node.op->name == "cast") {
    const auto value = constant_value(b.graph(), operands[0]);
    if (!value) return std::nullopt;
    const DType to = Call(*node.op, b.graph(), operands, node.attributes, node.regions).dtype("dtype");
    const Type from = b.type(operands[0]);
    return Values{b.full(cast_scalar(*value, from.dtype, to), to, from.shape)};
  }
  std::vector<Array> arrays;
  for (ValueId v : operands) {
    if (v == kNoValue || !b.shape(v).empty()) return std::nullopt;
    const auto value = constant_value(b.graph(), v);
    if (!value) return std::nullopt;
    arrays.push_back(Array::scalar(b.dtype(v), *value));
  }
  const auto result = evaluated(b, node, arrays);
  if (!result) return std::nullopt;
  return Values{b.full(only_element(*result), result->dtype())};
}

}  // namespace

Program fold_scalars(Program p, const OpTable& table) { return rewrite(std::move(p), table, folded); }

}  // namespace pycandle
