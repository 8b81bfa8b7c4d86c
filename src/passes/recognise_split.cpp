// Slices that cut one axis of a value into all its parts become one split.   tests/passes/recognise_split.ptir
//
//   %1 = slice(%0) {starts = [0, 0], stops = [s0, 32], steps = [1, 1]}
//   %2 = slice(%0) {starts = [0, 32], stops = [s0, 64], steps = [1, 1]}    →    %1, %2 = split(%0) {sizes = [32, 32], axis = 1}
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

struct Part {
  Dim start, stop;
  int64_t axis;
};

// What a slice takes, when it cuts exactly one axis and leaves nothing out between.
std::optional<Part> part_of(const Graph& g, const Node& node) {
  if (node.op->name != "slice") return std::nullopt;
  const Call call = call_of(g, node);
  const Dims &starts = call.dims("starts"), &stops = call.dims("stops");
  const Shape& shape = call.shape("x");
  std::optional<Part> part;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (call.integers("steps")[axis] != 1) return std::nullopt;
    if (starts[axis] == Dim(0) && stops[axis] == shape[axis]) continue;
    if (part) return std::nullopt;
    part = Part{starts[axis], stops[axis], static_cast<int64_t>(axis)};
  }
  return part;
}

struct Split {
  Dims sizes;
  int64_t axis;
  Values results;  // of the new graph, once the first part was met
};

class SplitRule {
 public:
  explicit SplitRule(const Program& p) {
    // The parts of a value along an axis within a module call, by where they start.
    std::map<std::tuple<ValueId, int64_t, int32_t>, std::map<std::string, std::pair<Part, ValueId>>> cut;
    std::set<std::tuple<ValueId, int64_t, int32_t>> overlapping;
    for (const Node& node : p.graph.nodes) {
      const auto part = part_of(p.graph, node);
      if (!part) continue;
      const std::tuple key{node.operands[0], part->axis, node.origin.call};
      if (!cut[key].emplace(part->start.text(), std::make_pair(*part, node.results[0])).second) overlapping.insert(key);
    }
    for (const auto& [key, parts] : cut) {
      if (parts.size() > 1 && overlapping.count(key) == 0) add(p.graph, std::get<0>(key), std::get<1>(key), parts);
    }
  }

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    if (node.op->name != "slice") return std::nullopt;
    const auto found = where_.find(node.results[0]);
    if (found == where_.end()) return std::nullopt;
    Split& split = splits_[found->second.first];
    if (split.results.empty()) {
      split.results = b.create_all("split", {operands[0]}, {{"sizes", split.sizes}, {"axis", split.axis}});
    }
    return Values{split.results[found->second.second]};
  }

 private:
  void add(const Graph& g, ValueId x, int64_t axis, const std::map<std::string, std::pair<Part, ValueId>>& parts) {
    Split split{{}, axis, {}};
    Values order;
    Dim end = 0;
    for (auto next = parts.find("0"); next != parts.end() && order.size() < parts.size(); next = parts.find(end.text())) {
      split.sizes.push_back(next->second.first.stop - end);
      order.push_back(next->second.second);
      end = next->second.first.stop;
    }
    if (order.size() != parts.size() || end != g.type(x).shape[axis]) return;
    for (size_t i = 0; i < order.size(); ++i) where_.emplace(order[i], std::make_pair(splits_.size(), i));
    splits_.push_back(std::move(split));
  }

  std::vector<Split> splits_;
  std::map<ValueId, std::pair<size_t, size_t>> where_;  // result of a slice → split, part
};

}  // namespace

Program recognise_split(Program p, const OpTable& table) {
  SplitRule rule(p);
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) { return rule(b, node, operands); });
}

}  // namespace pycandle
