#include "verify/diagnosing/slice_edits.h"

#include <utility>

#include "base/error.h"
#include "passes/rewriter.h"
#include "verify/judging/metrics.h"

namespace pycandle {

std::optional<Program> with_mistake(const Slice& slice, const OpTable& table, const Node& target, const Mistake& mistake,
                                    double number) {
  return with_mistakes(slice, table, {{&target, mistake}}, number);
}

std::optional<Program> with_mistakes(const Slice& slice, const OpTable& table,
                                     const std::vector<std::pair<const Node*, Mistake>>& mistakes, double number) {
  try {
    size_t changed_nodes = 0;
    Program changed = rewrite_outside_regions(slice.program, table,
                                              [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                                for (const auto& [target, mistake] : mistakes) {
                                                  if (node.results != target->results) continue;
                                                  ++changed_nodes;
                                                  return mistake.build({b, node, operands, number});
                                                }
                                                return std::nullopt;
                                              });
    return changed_nodes == mistakes.size() ? std::optional(std::move(changed)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;  // the op's constraints, or another type
  }
}

std::optional<Program> with_mistake_of_any_type(const Slice& slice, const OpTable& table, const Node& target,
                                                const Mistake& mistake) {
  Program p = slice.program;
  const Graph old = std::exchange(p.graph, {});
  Values made(old.values.size(), kNoValue);
  const auto now = [&](ValueId v) { return v == kNoValue ? v : made[v]; };
  try {
    for (ValueId v : old.inputs) made[v] = p.graph.add_input(old.type(v));
    Builder b(p.graph, table);
    for (const Node& node : old.nodes) {
      if (!node.regions.empty()) return std::nullopt;
      Values operands;
      for (ValueId v : node.operands) operands.push_back(now(v));
      b.origin = node.origin;
      const Values results = node.results == target.results ? mistake.build({b, node, operands, 0})
                                                            : b.create_all(node.op->name, operands, node.attributes);
      for (size_t i = 0; i < results.size(); ++i) made[node.results[i]] = results[i];
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  for (Input& input : p.inputs) input.value = now(input.value);
  for (Parameter& parameter : p.parameters) parameter.value = now(parameter.value);
  for (Output& output : p.outputs) output.value = now(output.value);
  p.bind_outputs();
  return p;
}

std::optional<std::vector<double>> broadcast_reals(const Array& a, const Sizes& shape) {
  if (a.shape() == shape) return as_reals(a);
  if (a.shape().size() > shape.size() || a.size() <= 1 || is_complex(a.dtype())) return std::nullopt;
  const size_t more = shape.size() - a.shape().size();
  Sizes strides(shape.size(), 0);
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > more;) {
    const int64_t size = a.shape()[axis - more];
    if (size != shape[axis] && size != 1) return std::nullopt;
    strides[axis] = size == 1 ? 0 : stride;
    stride *= size;
  }
  const std::vector<double> values = as_reals(a);
  std::vector<double> all(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < all.size(); ++i) {
    const Sizes place = coordinates_of(static_cast<int64_t>(i), shape);
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) from += place[axis] * strides[axis];
    all[i] = values[from];
  }
  return all;
}

Type type_of(const Array& a) { return {a.dtype(), Shape(a.shape().begin(), a.shape().end())}; }

ValueId add_input(Program& p, const Type& type, const std::string& name) {
  const ValueId v = p.graph.add_input(type);
  p.graph.inputs.pop_back();
  p.graph.inputs.insert(p.graph.inputs.begin() + static_cast<std::ptrdiff_t>(p.inputs.size()), v);
  p.inputs.push_back({name, v, {}, true});
  for (size_t i = 0; i < p.graph.inputs.size(); ++i) {
    p.graph.values[p.graph.inputs[i]].index = static_cast<int32_t>(i);
  }
  return v;
}

}  // namespace pycandle
