#include "passes/decoding/dispatch.h"

#include <map>

#include "ops/core/alignment.h"
#include "passes/constants.h"

namespace pycandle::decoding {
namespace {

ValueId behind_casts(const Graph& g, ValueId v) {
  while (const Node* node = defined_by(g, v, "cast")) v = node->operands[0];
  return v;
}

bool is_over_first_axis(const Graph& g, const Node& node) { return call_of(g, node).integers("axes") == Ints{0}; }

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g) {}

  std::optional<Dispatch> find(const Node& node) {
    if (node.op->name != "gather_nd" || node.operands.size() != 2 || !is_over_first_axis(g_, node)) return std::nullopt;
    const Node* const sorting = sorted_by(inverted(node.operands[1]));
    if (!sorting || call_of(g_, *sorting).rank("x") != 1) return std::nullopt;
    sorted_ = sorting->results[0];
    order_ = sorting->results[1];
    found_.experts = sorting->operands[0];
    found_.entries = {found_.experts};
    return is_by_row(node.operands[0]) ? std::optional(found_) : std::nullopt;
  }

 private:
  // The order whose inverse this is: 0, 1, … written at its places, or the order in which it is sorted.
  ValueId inverted(ValueId v) const {
    if (const Node* node = defined_by(g_, v, "scatter_nd")) {
      const Call call = call_of(g_, *node);
      const bool writes_all = node->operands.size() == 3 && is_over_first_axis(g_, *node) && !call.boolean("accumulate") &&
                              defined_by(g_, call.value("updates"), "iota");
      return writes_all ? call.values("indices")[0] : kNoValue;
    }
    const Node* node = defined_by(g_, v, "sort");
    return node && v == node->results[1] ? node->operands[0] : kNoValue;
  }

  const Node* sorted_by(ValueId order) const {
    const Node* node = order == kNoValue ? nullptr : defined_by(g_, order, "sort");
    return node && order == node->results[1] ? node : nullptr;
  }

  // The entry of each row, or the token that it belongs to: order, order / k.
  bool is_order(ValueId v) const {
    if (v == order_) return true;
    const Node* node = defined_by(g_, v, "floor_divide");
    if (!node || node->operands[0] != order_) return false;
    ValueId by = node->operands[1];
    while (const Node* moved = defined_by(g_, by, "broadcast")) by = moved->operands[0];
    return constant_value(g_, by).has_value();
  }

  // ends = cumsum(histc(experts)), a bin for each.
  bool are_ends(ValueId v) const {
    const Node* const sums = defined_by(g_, behind_casts(g_, v), "cumsum");
    const Node* const counts = sums ? defined_by(g_, behind_casts(g_, sums->operands[0]), "histc") : nullptr;
    if (!counts) return false;
    const Call call = call_of(g_, *counts);
    const ValueId of = behind_casts(g_, counts->operands[0]);
    return (of == sorted_ || of == found_.experts) && call.number("min") == 0 && call.dim("bins").is_number() &&
           call.number("max") == static_cast<double>(call.dim("bins").number() - 1);
  }

  bool depends_on_rows(ValueId v) {
    if (v == kNoValue) return false;
    if (const auto known = depends_.find(v); known != depends_.end()) return known->second;
    const Node* node = defining_node(g_, v);
    bool depends = !node ? g_.type(v).rank() > 0 && !g_.type(v).shape[0].is_number() : v == sorted_ || v == order_;
    for (size_t i = 0; node && !depends && i < node->operands.size(); ++i) depends = depends_on_rows(node->operands[i]);
    return depends_[v] = depends;
  }

  // Along its first axis: does each row depend on its own entry alone?
  bool is_by_row(ValueId v) {
    if (v == sorted_) return true;
    if (const auto known = by_row_.find(v); known != by_row_.end()) return known->second;
    const Node* node = defining_node(g_, v);
    return by_row_[v] = node && is_by_row(*node);
  }

  bool is_by_row(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "gather_nd" && node.operands.size() == 2 && is_over_first_axis(g_, node) && is_order(node.operands[1])) {
      found_.entries.insert(node.operands[0]);
      return true;
    }
    if (op == "grouped_matmul")
      return is_by_row(node.operands[0]) && !depends_on_rows(node.operands[1]) && are_ends(node.operands[2]);
    if (op == "reshape") {
      const Shape &from = g_.type(node.operands[0]).shape, &to = g_.type(node.results[0]).shape;
      return !from.empty() && !to.empty() && from[0] == to[0] && is_by_row(node.operands[0]);
    }
    const auto alignment = alignment_of(call_of(g_, node), node.operands, g_.type(node.results[0]).shape);
    if (!alignment || alignment->is_free.empty() || !alignment->is_free[0]) return false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId from = node.operands[i];
      if (from == kNoValue || !depends_on_rows(from)) continue;
      if (alignment->axes[i][0] != 0 || !is_by_row(from)) return false;
    }
    return true;
  }

  const Graph& g_;
  ValueId sorted_ = kNoValue, order_ = kNoValue;
  Dispatch found_;
  std::map<ValueId, bool> by_row_, depends_;
};

}  // namespace

std::optional<Dispatch> find_dispatch(const Graph& g, const Node& node) { return Finder(g).find(node); }

}  // namespace pycandle::decoding
