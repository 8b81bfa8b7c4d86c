// Brings the scores of eager attention into the form  product * scale + mask,  the one that is recognised. What is moved
// computes the same numbers: a mask of 0 and finfo.min (or -inf) may be added to the bias before the scores or after,
// and may be filled in or added; a batch of matrices may be numbered by one axis or by two.
// tests/passes/attention_scores.ptir
//
//   %4 = add(%scores, %bias)                               %4 = add(%bias, %mask)
//   %5 = add(%4, %mask)                            →       %5 = add(%scores, %4)
//
//   %2 = reshape(%0) {shape = [4*s0, s1, 8]}
//   %3 = reshape(%1) {shape = [4*s0, 8, s1]}               %2 = matmul(%0, %1): f32[s0, 4, s1, s1]
//   %4 = matmul(%2, %3): f32[4*s0, s1, s1]         →       %3 = reshape(%2) {shape = [4*s0, s1, s1]}
#include <algorithm>
#include <set>
#include <utility>

#include "passes/constants.h"
#include "passes/index_domain.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// A number this low takes every score that a model can have with it, see recognise_masks.cpp.
constexpr double kAbsorbing = -1e30;

bool is_wide(DType d) { return d == DType::f32 || d == DType::f64; }
bool is_product(const Node& node) { return node.op->name == "matmul" || node.op->name == "baddbmm"; }
bool is_over_last(const Graph& g, const Node& softmax) {
  const int64_t dim = call_of(g, softmax).integer("dim");
  return dim == -1 || dim == g.type(softmax.operands[0]).rank() - 1;
}

std::optional<double> number_of(const Graph& g, ValueId v) {
  if (const Node* broadcast = defined_by(g, v, "broadcast")) v = broadcast->operands[0];
  const auto value = constant_value(g, v);
  return value ? std::optional(as_double(*value)) : std::nullopt;
}

// Which values of the program are scores: on the way from a product to a softmax, or from there to the second product.
class ScorePaths {
 public:
  explicit ScorePaths(const Graph& g) : g_(&g), on_path_(g.values.size()) {
    for (const Node& node : g.nodes) {
      if (node.op->name == "softmax" && is_over_last(g, node) && mark(node.operands[0], kSteps)) on_path_[node.results[0]] = true;
      const bool weighs = node.op->name == "matmul" && mark_weights(node.operands[0]);
      if (weighs) on_path_[node.results[0]] = true;
    }
  }
  bool operator()(ValueId v) const { return on_path_[v]; }

 private:
  static constexpr int kSteps = 8;

  bool mark(ValueId v, int steps) {
    const Node* node = defining_node(*g_, v);
    if (!node || steps == 0) return false;
    if (is_product(*node)) return on_path_[v] = true;
    static const std::set<std::string> passed = {"add", "mul", "div", "select", "cast", "reshape"};
    if (passed.count(node->op->name) == 0) return false;
    bool found = false;
    for (ValueId operand : node->operands) found = mark(operand, steps - 1) || found;
    if (found) on_path_[v] = true;
    return found;
  }

  bool mark_weights(ValueId v) {
    for (int steps = 0; steps < 4; ++steps) {
      const Node* node = defining_node(*g_, v);
      if (!node) return false;
      if (node->op->name == "softmax") return on_path_[v];
      if (node->op->name != "cast" && node->op->name != "reshape") return false;
      v = node->operands[0];
    }
    return false;
  }

  const Graph* g_;
  PerValue<bool> on_path_;
};

class ScoresRule {
 public:
  explicit ScoresRule(const Program& p) : paths_(p.graph), uses_(use_counts(p)) {}

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    if (node.results.size() != 1) return std::nullopt;
    const std::string& op = node.op->name;
    if (op == "reshape") return as_it_was(b, node, operands);
    if (!paths_(node.results[0])) return std::nullopt;
    std::optional<ValueId> result;
    if (is_product(node)) result = product(b, node, operands);
    if (op == "add" || op == "mul" || op == "div" || op == "cast" || op == "softmax") result = unflattened(b, node, operands);
    if (!result && op == "add") result = mask_added_last(b, node, operands);
    if (!result && op == "select") result = mask_filled_in(b, node, operands);
    if (!result) return std::nullopt;
    return Values{*result};
  }

 private:
  bool used_once(ValueId old) const { return uses_[old] == 1; }

  // ---- batches of one axis and of two
  // x [batch, heads, m, n] when v is it as [batch * heads, m, n].
  static std::optional<ValueId> source_of(const Graph& g, ValueId v) {
    const Node* view = defined_by(g, v, "reshape");
    if (!view) return std::nullopt;
    const Shape &flat = g.type(v).shape, &from = g.type(view->operands[0]).shape;
    const bool merges = flat.size() == 3 && from.size() == 4 && flat[0] == from[0] * from[1] && flat[1] == from[2] &&
                        flat[2] == from[3];
    return merges ? std::optional(view->operands[0]) : std::nullopt;
  }

  std::optional<ValueId> product(Builder& b, const Node& node, const Values& operands) {
    const Graph& g = b.graph();
    const bool sums = node.op->name == "baddbmm";
    const Call call(*node.op, g, operands, node.attributes, node.regions);
    const ValueId left3 = operands[sums ? 1 : 0], right3 = operands[sums ? 2 : 1];
    const auto left = source_of(g, left3);
    auto right = source_of(g, right3);
    bool swap = false;
    if (const Node* swapped = defined_by(g, right3, "transpose"); swapped && !right) {
      swap = call_of(g, *swapped).integers("permutation") == Ints{0, 2, 1};
      right = source_of(g, swapped->operands[0]);
      if (!swap) right.reset();
    }
    if (!left || !right) return std::nullopt;
    const Shape &l = g.type(*left).shape, &r = g.type(*right).shape;
    if (l[0] != r[0] || l[1] != r[1] || (sums && !is_wide(b.dtype(*left)))) return std::nullopt;
    if (!sums) return flattened(b, b.create("matmul", {*left, swap ? b.swap_axes(*right, 2, 3) : *right}));
    // The sum in its parts: f32 and f64 round the product in any case.
    const double beta = as_double(call.scalar("beta")), alpha = as_double(call.scalar("alpha"));
    if (beta != 0 && beta != 1) return std::nullopt;
    const Shape batch{l[0], l[1]};
    ValueId scores = b.create("matmul", {*left, swap ? b.swap_axes(*right, 2, 3) : *right});
    if (alpha != 1) scores = b.mul(scores, alpha);
    if (beta == 1) scores = b.add(scores, with_batch(b, operands[0], batch));
    return flattened(b, scores);
  }

  ValueId flattened(Builder& b, ValueId x) {
    const Shape shape = b.shape(x);
    const ValueId flat = b.reshape(x, {shape[0] * shape[1], shape[2], shape[3]});
    source_.emplace(flat, x);
    return flat;
  }

  // [batch * heads, …] → [batch, heads, …]; an axis of 1 stays one axis of 1 more.
  static ValueId with_batch(Builder& b, ValueId x, const Shape& batch) {
    if (const Node* broadcast = defined_by(b.graph(), x, "broadcast")) {
      const Call call = call_of(b.graph(), *broadcast);
      const Shape& from = call.shape("x");
      if (from.empty()) return broadcast->operands[0];
      if (from.size() == 3) return with_batch(b, broadcast->operands[0], batch);
    }
    Shape shape = b.shape(x);
    const bool one = shape[0] == Dim(1);
    shape[0] = one ? Dim(1) : batch[1];
    shape.insert(shape.begin(), one ? Dim(1) : batch[0]);
    return b.reshape(x, shape);
  }

  // An elementwise op, or softmax, on a flattened value: flattened afterwards.
  std::optional<ValueId> unflattened(Builder& b, const Node& node, const Values& operands) {
    Shape batch;
    for (ValueId v : operands) {
      const auto source = source_.find(v);
      if (source != source_.end()) batch = {b.shape(source->second)[0], b.shape(source->second)[1]};
    }
    if (batch.empty()) return std::nullopt;
    Values wide;
    for (ValueId v : operands) {
      const auto source = source_.find(v);
      wide.push_back(source != source_.end() ? source->second : with_batch(b, v, batch));
    }
    if (node.op->name == "softmax") return flattened(b, b.create("softmax", wide, {{"dim", int64_t{-1}}}));
    if (wide.size() == 1) return flattened(b, b.create(node.op->name, wide, node.attributes));
    return flattened(b, b.binary(node.op->name, wide[0], wide[1]));
  }

  std::optional<Values> as_it_was(Builder& b, const Node& node, const Values& operands) const {
    const auto source = source_.find(operands[0]);
    if (source == source_.end()) return std::nullopt;
    const Shape target = Call(*node.op, b.graph(), operands, node.attributes, node.regions).dims("shape");
    return b.shape(source->second) == target ? std::optional(Values{source->second}) : std::nullopt;
  }

  // ---- bias and mask
  struct Sum {
    ValueId scores, bias;
  };
  // v as scores + bias; only when nobody else looks at the sum.
  std::optional<Sum> sum_of(const Graph& g, ValueId v, ValueId old) const {
    const Node* sum = defined_by(g, v, "add");
    if (!sum || !used_once(old)) return std::nullopt;
    for (const size_t side : {0, 1}) {
      const bool leads_to_product = product_behind(g, sum->operands[side], 8);
      if (leads_to_product) return Sum{sum->operands[side], sum->operands[1 - side]};
    }
    return std::nullopt;
  }
  static bool product_behind(const Graph& g, ValueId v, int steps) {
    const Node* node = defining_node(g, v);
    if (!node || steps == 0) return false;
    if (is_product(*node)) return true;
    static const std::set<std::string> passed = {"add", "mul", "div", "cast"};
    if (passed.count(node->op->name) == 0) return false;
    return std::any_of(node->operands.begin(), node->operands.end(), [&](ValueId o) { return product_behind(g, o, steps - 1); });
  }

  // 0 where it lets through, and a number that takes everything with it elsewhere.
  bool is_absorbing_mask(Builder& b, ValueId v) {
    if (!space_) {
      space_.emplace(b.ranges());
      evaluator_.emplace(b.graph(), *space_);
    }
    std::vector<Dim> indices;
    indices.reserve(b.shape(v).size());
    for (size_t axis = 0; axis < b.shape(v).size(); ++axis) indices.push_back(space_->axis(axis, b.shape(v)[axis]));
    const ElementPtr e = evaluator_->element(v, indices);
    if (e->kind != Element::Kind::choice) return false;
    const auto yes = constant_of(*e->args[1]), no = constant_of(*e->args[2]);
    return yes && no && std::max(*yes, *no) == 0 && std::min(*yes, *no) <= kAbsorbing;
  }

  std::optional<ValueId> mask_added_last(Builder& b, const Node& node, const Values& operands) {
    for (const size_t side : {0, 1}) {
      if (!paths_(node.operands[side])) continue;
      const auto sum = sum_of(b.graph(), operands[side], node.operands[side]);
      if (sum && is_absorbing_mask(b, operands[1 - side])) return b.add(sum->scores, b.add(sum->bias, operands[1 - side]));
    }
    return std::nullopt;
  }

  // masked_fill of the scores is a mask that is added, unless it is -inf alone, which attention knows as it is.
  std::optional<ValueId> mask_filled_in(Builder& b, const Node& node, const Values& operands) {
    for (const size_t side : {1, 2}) {
      const auto number = number_of(b.graph(), operands[3 - side]);
      if (!number || *number > kAbsorbing || !paths_(node.operands[side])) continue;
      const auto sum = sum_of(b.graph(), operands[side], node.operands[side]);
      if (std::isinf(*number) && !sum) return std::nullopt;
      const ValueId scores = sum ? sum->scores : operands[side];
      const ValueId otherwise = sum ? sum->bias : b.full(0.0, b.dtype(scores));
      const ValueId masked = b.full(*number, b.dtype(scores));
      const ValueId mask = side == 1 ? b.select(operands[0], otherwise, masked) : b.select(operands[0], masked, otherwise);
      return b.add(scores, mask);
    }
    return std::nullopt;
  }

  ScorePaths paths_;
  PerValue<int32_t> uses_;
  std::map<ValueId, ValueId> source_;  // flattened value of the new graph → the value with batch and heads apart
  std::optional<IndexSpace> space_;
  std::optional<IndexEvaluator> evaluator_;
};

}  // namespace

Program attention_scores(Program p, const OpTable& table) {
  p = without_dead_nodes(std::move(p));
  ScoresRule rule(p);
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) { return rule(b, node, operands); });
}

}  // namespace pycandle
