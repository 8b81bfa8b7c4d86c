#include "verify/judging/selections.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace pycandle {
namespace {

// The op that selected: the slice's last one, when its column or shape was changed afterwards.
const Node* selecting_node(const Program& p) {
  ValueId v = p.outputs.at(0).value;
  for (;;) {
    const Node* node = node_of(p, v);
    if (node == nullptr) return nullptr;
    const std::string& op = node->op->name;
    if (op == "nms" || op == "batched_nms") return node;
    if (op == "nonzero") return p.graph.type(node->operands[0]).rank() == 1 ? node : nullptr;
    if (op != "reshape" && op != "cast" && op != "slice") return nullptr;
    v = node->operands[0];
  }
}

// ---- boxes

class Suppression {
 public:
  Suppression(const Node& node, const Compared& boxes, const Compared& scores, std::vector<double> labels)
      : boxes_(boxes), scores_(scores), labels_(std::move(labels)) {
    for (const auto& [name, value] : node.attributes) {
      if (name == "iou_threshold") threshold_ = std::get<double>(value);
    }
    // torchvision keeps labels apart by moving their boxes, which rounds them.
    for (double v : boxes.exact) apart_ = std::max(apart_, std::isfinite(v) ? v + 1 : 0);
  }

  // Whether the boxes could be the result, had every number been rounded otherwise.
  bool may_give(const std::vector<int64_t>& kept) const {
    std::vector<bool> is_kept(scores_.exact.size());
    double lowest = std::numeric_limits<double>::infinity();
    for (int64_t k : kept) {
      if (k < 0 || static_cast<size_t>(k) >= is_kept.size() || is_kept[k]) return false;
      is_kept[k] = true;
      if (at_least(k) > lowest) return false;  // better than one before it
      lowest = std::min(lowest, at_most(k));
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (overlap(kept[j], kept[i], -1) > threshold_) return false;
      }
    }
    for (size_t i = 0; i < is_kept.size(); ++i) {
      const auto other = static_cast<int64_t>(i);
      if (is_kept[i]) continue;
      const bool is_suppressed = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
        return at_most(k) >= at_least(other) && overlap(k, other, 1) > threshold_;
      });
      if (!is_suppressed) return false;
    }
    return true;
  }

  double closest(const std::vector<int64_t>& kept) const {
    double margin = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i < kept.size(); ++i) {
      margin = std::min(margin, std::abs(scores_.exact[kept[i - 1]] - scores_.exact[kept[i]]));
    }
    return margin;
  }

 private:
  double at_least(int64_t i) const { return scores_.exact[i] - kDecisionFactor * scores_.moves[i]; }
  double at_most(int64_t i) const { return scores_.exact[i] + kDecisionFactor * scores_.moves[i]; }

  double moved(int64_t i) const {
    const auto first = boxes_.moves.begin() + 4 * i;
    const double label = labels_.empty() ? 0 : std::abs(labels_[i]);
    return *std::max_element(first, first + 4) + boxes_.roundoff * apart_ * (label + 1);
  }

  // How much of two boxes both cover; the largest (direction 1) or smallest (-1) that rounding can make of it.
  double overlap(int64_t i, int64_t j, int direction) const {
    if (!labels_.empty() && labels_[i] != labels_[j]) return 0;
    const double *a = boxes_.exact.data() + 4 * i, *b = boxes_.exact.data() + 4 * j;
    const double width = std::max(0.0, std::min(a[2], b[2]) - std::max(a[0], b[0]));
    const double height = std::max(0.0, std::min(a[3], b[3]) - std::max(a[1], b[1]));
    const double all = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height;
    const double sides = (a[2] - a[0]) + (a[3] - a[1]) + (b[2] - b[0]) + (b[3] - b[1]);
    const double slack = kDecisionFactor * ((moved(i) + moved(j)) * sides / all + boxes_.roundoff);
    if (!(all > 0) || !std::isfinite(slack)) return direction > 0 ? 1 : 0;  // nothing is covered: rounding alone decides
    return width * height / all + direction * slack;
  }

  const Compared &boxes_, &scores_;
  const std::vector<double> labels_;
  double threshold_ = 0, apart_ = 0;
};

// ---- thresholds

// Per element of a bool: whether rounding can turn it around. Nothing where something else than comparisons made it.
std::optional<std::vector<bool>> may_turn(const SliceRuns& runs, ValueId v) {
  const Node* node = node_of(runs.program(), v);
  if (node == nullptr) return std::nullopt;
  const std::string& op = node->op->name;
  if (op == "reshape" || op == "logical_not" || op == "bitwise_not") return may_turn(runs, node->operands[0]);
  if (op == "logical_and" || op == "bitwise_and" || op == "logical_or" || op == "bitwise_or") {
    std::optional<std::vector<bool>> a = may_turn(runs, node->operands[0]), b = may_turn(runs, node->operands[1]);
    if (!a || !b || a->size() != b->size()) return std::nullopt;
    for (size_t i = 0; i < a->size(); ++i) (*a)[i] = (*a)[i] || (*b)[i];
    return a;
  }
  if (op != "gt" && op != "ge" && op != "lt" && op != "le") return std::nullopt;
  const auto a = runs.compared(node->operands[0]), b = runs.compared(node->operands[1]);
  if (!a || !b || a->exact.size() != b->exact.size()) return std::nullopt;
  std::vector<bool> turns;
  for (size_t i = 0; i < a->exact.size(); ++i) {
    turns.push_back(std::abs(a->exact[i] - b->exact[i]) <= kDecisionFactor * (a->moves[i] + b->moves[i]));
  }
  return turns;
}

bool only_close_ones_differ(const std::vector<bool>& turns, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const std::set<int64_t> first(a.begin(), a.end()), second(b.begin(), b.end());
  const auto all_close = [&](const std::set<int64_t>& these, const std::set<int64_t>& those) {
    return std::all_of(these.begin(), these.end(), [&](int64_t i) {
      return those.count(i) != 0 || (i >= 0 && static_cast<size_t>(i) < turns.size() && turns[i]);
    });
  };
  return all_close(first, second) && all_close(second, first);
}

}  // namespace

std::optional<Decisions> look_at_selections(const Slice& slice, const Trials& trials, const std::vector<Array>& inputs,
                                            const Array& golden, const Array& ours) {
  const Node* node = selecting_node(slice.program);
  if (node == nullptr || golden.dtype() != DType::i64 || ours.dtype() != DType::i64) return std::nullopt;
  const SliceRuns runs(slice, trials, inputs);
  const std::vector<int64_t> theirs = load_int(golden), mine = load_int(ours);
  Decisions d;
  d.op = node->op->name;
  d.count = static_cast<int64_t>(theirs.size());
  d.margin = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::max(theirs.size(), mine.size()); ++i) {
    if (i >= theirs.size() || i >= mine.size() || theirs[i] != mine[i]) ++d.differing;
  }
  if (d.op == "nonzero") {
    if (d.differing == 0) return d;
    const auto turns = may_turn(runs, node->operands[0]);
    d.within_rounding = turns && only_close_ones_differ(*turns, theirs, mine);
    return d;
  }
  const auto boxes = runs.compared(node->operands[0]), scores = runs.compared(node->operands[1]);
  if (!boxes || !scores) return std::nullopt;
  std::vector<double> labels;
  if (d.op == "batched_nms") labels = as_reals(runs.rounded(node->operands[2]));
  const Suppression suppression(*node, *boxes, *scores, std::move(labels));
  d.within_rounding = d.differing == 0 || (suppression.may_give(theirs) && suppression.may_give(mine));
  if (d.within_rounding) d.margin = suppression.closest(theirs);
  return d;
}

}  // namespace pycandle
