// Weights in fewer bytes: what linear layers and embeddings read is what the format keeps.   tests/passes/narrow_weights.ptir
//
//   %2 = linear(%0, %1, _): f32[s0, 8]       →       %2 = stored_as(%1) {format = "int8", axis = 1}: f32[8, 16]
//                                                    %3 = linear(%0, %2, _): f32[s0, 8]
//
// A backend that has the format reads packed weights instead; any other computes stored_as once.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

constexpr int64_t kLeastWidth = 64;  // of an embedding: shorter rows are biases of positions, which weigh nothing

// Values that are computed from parameters alone.
PerValue<bool> values_of_parameters(const Program& p) {
  PerValue<bool> known(p.graph.values.size());
  for (const Parameter& q : p.parameters)
    if (q.value != kNoValue) known[q.value] = true;
  for (const Node& node : p.graph.nodes) {
    bool all = !node.operands.empty() && !node.op->is_random && node.regions.empty();
    for (const ValueId v : node.operands) all = all && v != kNoValue && known[v];
    if (!all) continue;
    for (const ValueId v : node.results) known[v] = true;
  }
  return known;
}

// Which operand of a node is a weight, and the axis along which it is multiplied; -1: none is.
struct Weight {
  int operand = -1;
  int64_t axis = 1;
};

Weight weight_of(const Graph& g, const Node& node, const Values& operands) {
  const Call c(*node.op, g, operands, node.attributes, node.regions);
  const auto is_matrix = [&](const char* name) { return c.type(name).dtype == DType::f32 && c.rank(name) == 2; };
  const std::string& op = node.op->name;
  if (op == "linear" && is_matrix("weight") && c.type("x").dtype == DType::f32)
    return {node.op->operand_index("weight"), c.string("weight_order") == "in_out" ? 0 : 1};
  const char* table = op == "embedding" ? "weight" : op == "take" && c.integer("axis") == 0 ? "x" : nullptr;
  if (!table || !is_matrix(table)) return {};
  const Dim width = c.shape(table)[1];
  if (!width.is_number() || width.number() < kLeastWidth) return {};
  return {node.op->operand_index(table), 1};
}

}  // namespace

Program narrow_weights(Program p, const OpTable& table, WeightFormat format, Activations activations) {
  if (format == WeightFormat::f32) return p;
  const PerValue<bool> is_known = values_of_parameters(p);
  std::map<std::pair<ValueId, int64_t>, ValueId> made;  // a weight that two layers share is one
  return rewrite_outside_regions(
      std::move(p), table, [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
        const Weight weight = weight_of(b.graph(), node, operands);
        if (weight.operand < 0 || !is_known[node.operands[weight.operand]]) return std::nullopt;
        if (defined_by(b.graph(), operands[weight.operand], "stored_as")) return std::nullopt;
        const auto stored = [&](ValueId v, std::string_view as, int64_t axis) {
          return b.create("stored_as", {v}, {{"format", std::string(as)}, {"axis", axis}});
        };
        Values narrowed = operands;
        ValueId& w = narrowed[weight.operand];
        const auto [found, is_new] = made.try_emplace({w, weight.axis}, kNoValue);
        if (is_new) found->second = stored(w, name_of(format), weight.axis);
        w = found->second;
        if (activations == Activations::as_in_kernels && node.op->name == "linear" && format != WeightFormat::f16) {
          ValueId& x = narrowed[node.op->operand_index("x")];
          x = stored(x, format == WeightFormat::bf16 ? "bf16" : "int16", b.rank(x) - 1);
        }
        return b.create_all(node.op->name, narrowed, node.attributes, node.regions);
      });
}

}  // namespace pycandle
