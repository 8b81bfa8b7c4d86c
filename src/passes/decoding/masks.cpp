#include "passes/decoding/masks.h"

#include <algorithm>

#include "passes/constants.h"
#include "passes/index_domain.h"

namespace pycandle::decoding {
namespace {

// A number this low takes every score that a model can have with it.
constexpr double kAbsorbing = -1e30;

// The two axes of the sequence in the operand of a node that only moves elements; nothing when one of them is not there.
std::optional<std::pair<int64_t, int64_t>> moved(const Graph& g, const SequenceAxes& axes, const Node& node, int64_t query,
                                                 int64_t key) {
  const std::string& op = node.op->name;
  const ValueId from = node.operands.empty() ? kNoValue : node.operands[0];
  if (op == "cast") return std::pair{query, key};
  const Call call = call_of(g, node);
  if (op == "transpose") return std::pair{call.integers("permutation")[query], call.integers("permutation")[key]};
  if (op == "broadcast") {
    const Ints& to = call.integers("axes");
    const auto q = std::find(to.begin(), to.end(), query), k = std::find(to.begin(), to.end(), key);
    if (q == to.end() || k == to.end()) return std::nullopt;
    const std::pair found{q - to.begin(), k - to.begin()};
    const Shape& shape = g.type(from).shape;
    return shape[found.first] == axes.length() && shape[found.second] == axes.length() ? std::optional(found) : std::nullopt;
  }
  if (op == "slice") {
    const bool is_prefix = call.dims("starts")[query] == Dim(0) && call.dims("starts")[key] == Dim(0) &&
                           call.integers("steps")[query] == 1 && call.integers("steps")[key] == 1;
    return is_prefix ? std::optional(std::pair{query, key}) : std::nullopt;
  }
  if (op != "reshape" || !axes.factors(from) || axes.sequence_count(from) != 2) return std::nullopt;
  Ints found;  // in the same order, since a reshape keeps it
  for (size_t axis = 0; axis < axes.factors(from)->size(); ++axis) {
    if ((*axes.factors(from))[axis] == Factors{axes.length()}) found.push_back(static_cast<int64_t>(axis));
  }
  if (found.size() != 2) return std::nullopt;
  return query < key ? std::pair{found[0], found[1]} : std::pair{found[1], found[0]};
}

class Masks {
 public:
  Masks(const Program& p, const SequenceAxes& axes)
      : g_(p.graph), axes_(axes), ranges_(p.ranges()), space_(&ranges_), evaluator_(g_, space_) {}

  bool is_low(ValueId v, int64_t query, int64_t key) {
    const Node* node = defining_node(g_, v);
    if (!node) return false;
    const std::string& op = node->op->name;
    // Places that stand behind the keys are no keys.
    if (op == "concat" && call_of(g_, *node).integer("axis") == key) return is_low(node->operands[0], query, key);
    if (op == "sub" && is_largest(node->operands[1], node->operands[0], key)) return is_low(node->operands[0], query, key);
    if (op == "add") return is_low(node->operands[0], query, key) || is_low(node->operands[1], query, key);
    if (op == "mul" || op == "div") {
      const auto by = number(node->operands[1]);
      return by && *by >= 1e-6 && *by <= 1e6 && is_low(node->operands[0], query, key);
    }
    if (op == "maximum") {
      const auto floor = number(node->operands[1]);
      return floor && *floor <= kAbsorbing && is_low(node->operands[0], query, key);
    }
    if (op == "select") {
      for (const size_t chosen : {1, 2}) {
        const auto value = number(node->operands[chosen]);
        if (value && *value <= kAbsorbing && is_always(node->operands[0], chosen == 1, query, key)) return true;
      }
      return is_low(node->operands[1], query, key) && is_low(node->operands[2], query, key);
    }
    if (const auto from = moved(g_, axes_, *node, query, key)) return is_low(node->operands[0], from->first, from->second);
    const auto value = behind(v, query, key);
    const auto constant = value ? constant_of(*value) : std::nullopt;
    return constant && *constant <= kAbsorbing;
  }

 private:
  // x - max(x): a softmax does not see it.
  bool is_largest(ValueId v, ValueId of, int64_t key) const {
    const Node* node = defining_node(g_, v);
    while (node && (node->op->name == "broadcast" || node->op->name == "reshape")) node = defining_node(g_, node->operands[0]);
    return node && node->op->name == "reduce_max" && node->operands[0] == of && call_of(g_, *node).integers("axes") == Ints{key};
  }

  std::optional<double> number(ValueId v) const {
    while (const Node* node = defined_by(g_, v, "broadcast")) v = node->operands[0];
    const auto scalar = constant_value(g_, v);
    return scalar ? std::optional(as_double(*scalar)) : std::nullopt;
  }

  bool is_always(ValueId condition, bool truth, int64_t query, int64_t key) {
    const auto value = behind(condition, query, key);
    return value && (truth ? is_true(*value) : is_false(*value));
  }

  // The element of any query and any key behind it.
  ElementPtr behind(ValueId v, int64_t query, int64_t key) {
    const Shape& shape = g_.type(v).shape;
    std::vector<Dim> index;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      index.push_back(shape[axis] == Dim(1) ? Dim(0) : space_.axis(axis, shape[axis]));
    index[key] = index[query] + 1 + space_.fresh(axes_.length());
    return evaluator_.element(v, index);
  }

  const Graph& g_;
  const SequenceAxes& axes_;
  SymbolRanges ranges_;
  IndexSpace space_;
  IndexEvaluator evaluator_;
};

}  // namespace

bool is_masked_behind(const Program& p, const SequenceAxes& axes, ValueId scores, int64_t query, int64_t key) {
  return Masks(p, axes).is_low(scores, query, key);
}

bool is_zero_behind(const Program& p, const SequenceAxes& axes, ValueId weights, int64_t query, int64_t key) {
  const Node* node = defining_node(p.graph, weights);
  if (!node) return false;
  if (node->op->name == "softmax") {
    const int64_t rank = p.graph.type(weights).rank(), dim = call_of(p.graph, *node).integer("dim");
    return (dim + rank) % rank == key && is_masked_behind(p, axes, node->operands[0], query, key);
  }
  const auto from = moved(p.graph, axes, *node, query, key);
  return from && is_zero_behind(p, axes, node->operands[0], from->first, from->second);
}

}  // namespace pycandle::decoding
