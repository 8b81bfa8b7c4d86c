// A product with a weight, whatever it is spelled with, becomes linear, and a view around it that only flattens the axes
// before the last goes.   tests/passes/recognise_linear.ptir
//
//   %3 = reshape(%0) {shape = [s0*s1, 32]}
//   %4 = addmm(%2, %3, %1) {beta = 1, alpha = 1}
//   %5 = reshape(%4) {shape = [s0, s1, 96]}                →     %3 = linear(%0, %1, %2) {weight_order = "in_out"}
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

bool is_one(const Scalar& s) { return as_complex(s) == std::complex<double>(1); }

// As linear takes it: the parameter itself, and in which order it is kept.
struct Weight {
  ValueId value;
  std::string order;
};

class LinearRule {
 public:
  explicit LinearRule(const Program& p) : uses_(use_counts(p)), is_parameter_(p.graph.inputs.size()) {
    for (const Parameter& parameter : p.parameters) {
      if (parameter.value == kNoValue) continue;
      is_parameter_[p.graph.values[parameter.value].index] = true;
    }
  }

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) const {
    if (node.op->name == "addmm") return from_addmm(b, node, operands);
    if (node.op->name == "matmul") return from_matmul(b, operands);
    if (node.op->name == "add") return with_bias(b, node, operands);
    if (node.op->name == "reshape") return without_views(b, node, operands);
    if (node.op->name == "transpose") return without_transposes(b, node, operands);
    return std::nullopt;
  }

 private:
  static Weight weight_of(const Graph& g, ValueId v) {
    const Node* transposed = defined_by(g, v, "transpose");
    const bool is_matrix = g.type(v).rank() == 2;
    if (transposed && is_matrix) return {transposed->operands[0], "out_in"};
    return {v, "in_out"};
  }

  static Values linear(Builder& b, ValueId x, const Weight& w, ValueId bias) {
    return {b.create("linear", {x, w.value, bias}, {{"weight_order", w.order}})};
  }

  static std::optional<Values> from_addmm(Builder& b, const Node& node, const Values& operands) {
    const Call call(*node.op, b.graph(), operands, node.attributes, node.regions);
    const Weight w = weight_of(b.graph(), call.value("right"));
    const bool fits = call.rank("x") == 1 && call.shape("x")[0] == call.shape("right")[1];
    if (!fits || !is_one(call.scalar("beta")) || !is_one(call.scalar("alpha"))) return std::nullopt;
    return linear(b, call.value("left"), w, call.value("x"));
  }

  // Only with a parameter: the product of two activations is no layer.
  std::optional<Values> from_matmul(Builder& b, const Values& operands) const {
    const Weight w = weight_of(b.graph(), operands[1]);
    if (b.rank(operands[1]) != 2 || !is_parameter(b.graph(), w.value)) return std::nullopt;
    return linear(b, operands[0], w, kNoValue);
  }

  // A bias that is added afterwards, in the same module. f16 and bf16 would round once more in between.
  std::optional<Values> with_bias(Builder& b, const Node& node, const Values& operands) const {
    if (b.dtype(operands[0]) != DType::f32 && b.dtype(operands[0]) != DType::f64) return std::nullopt;
    for (const size_t side : {0, 1}) {
      const Node* product = defined_by(b.graph(), operands[side], "linear");
      const Node* broadcast = defined_by(b.graph(), operands[1 - side], "broadcast");
      if (!product || !broadcast || product->operands[2] != kNoValue || product->origin.call != node.origin.call) continue;
      const ValueId bias = broadcast->operands[0];
      const bool over_last = b.rank(bias) == 1 && b.shape(bias)[0] == b.shape(operands[side]).back() &&
                             call_of(b.graph(), *broadcast).integers("axes") == Ints{b.rank(operands[side]) - 1};
      if (!over_last || !is_parameter(b.graph(), bias) || !used_once(node, side)) continue;
      return linear(b, product->operands[0], {product->operands[1], call_of(b.graph(), *product).string("weight_order")}, bias);
    }
    return std::nullopt;
  }

  std::optional<Values> without_views(Builder& b, const Node& node, const Values& operands) const {
    const Graph& g = b.graph();
    const Node* product = defined_by(g, operands[0], "linear");
    if (!product || !used_once(node, 0) || product->origin.call != node.origin.call) return std::nullopt;
    const Node* flattened = defined_by(g, product->operands[0], "reshape");
    const Shape& flat = g.type(operands[0]).shape;
    Shape target = Call(*node.op, g, operands, node.attributes, node.regions).dims("shape");
    if (!flattened || flat.size() != 2 || target.empty() || target.back() != flat.back()) return std::nullopt;
    target.back() = g.type(product->operands[0]).shape.back();
    const Values from = product->operands;
    const Weight w{from[1], call_of(g, *product).string("weight_order")};
    return linear(b, b.reshape(flattened->operands[0], target), w, from[2]);
  }

  // There and back, with the last axis in its place: linear does not see the others.
  std::optional<Values> without_transposes(Builder& b, const Node& node, const Values& operands) const {
    const Graph& g = b.graph();
    const Node* product = defined_by(g, operands[0], "linear");
    if (!product || !used_once(node, 0) || product->origin.call != node.origin.call) return std::nullopt;
    const Node* before = defined_by(g, product->operands[0], "transpose");
    if (!before) return std::nullopt;
    const Ints &first = call_of(g, *before).integers("permutation"),
               &second = Call(*node.op, g, operands, node.attributes, node.regions).integers("permutation");
    for (size_t i = 0; i < second.size(); ++i) {
      if (first[second[i]] != static_cast<int64_t>(i)) return std::nullopt;
    }
    if (second.back() != static_cast<int64_t>(second.size()) - 1 || g.type(product->operands[1]).rank() != 2) return std::nullopt;
    const Values from = product->operands;
    return linear(b, before->operands[0], {from[1], call_of(g, *product).string("weight_order")}, from[2]);
  }

  bool used_once(const Node& node, size_t operand) const { return uses_[node.operands[operand]] == 1; }

  bool is_parameter(const Graph& g, ValueId v) const {
    const Value& value = g.values[v];
    return value.node < 0 && is_parameter_[value.index];
  }

  PerValue<int32_t> uses_;
  std::vector<bool> is_parameter_;  // by the number of the graph's input
};

}  // namespace

Program recognise_linear(Program p, const OpTable& table) {
  p = without_dead_nodes(std::move(p));  // what nobody needs is no user
  const LinearRule rule(p);
  return rewrite_outside_regions(std::move(p), table, rule);
}

}  // namespace pycandle
