#include "passes/constants.h"

namespace pycandle {

const Node* defining_node(const Graph& g, ValueId v) {
  if (v == kNoValue) return nullptr;
  const NodeId node = g.values[v].node;
  return node < 0 ? nullptr : &g.nodes[node];
}

const Node* defined_by(const Graph& g, ValueId v, std::string_view op) {
  const Node* node = defining_node(g, v);
  return node && node->op->name == op ? node : nullptr;
}

Call call_of(const Graph& g, const Node& node) { return Call(*node.op, g, node.operands, node.attributes, node.regions); }

std::optional<Scalar> constant_value(const Graph& g, ValueId v) {
  const Node* node = defining_node(g, v);
  if (!node || node->op->name != "constant") return std::nullopt;
  return call_of(g, *node).scalar("value");
}

std::optional<Dim> dim_value(const Graph& g, ValueId v) {
  const Node* node = defining_node(g, v);
  if (!node || g.type(v) != Type{DType::i64, {}}) return std::nullopt;
  if (node->op->name == "dim") return call_of(g, *node).dim("value");
  if (const auto number = constant_value(g, v)) return Dim(as_int(*number));
  return std::nullopt;
}

}  // namespace pycandle
