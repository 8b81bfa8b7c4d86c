#include "backends/groups.h"

#include <algorithm>
#include <utility>

namespace pycandle {
namespace {

constexpr int kNoLoop = -1;

// All values of a loop have one shape. It stays open until somebody outside reads one of its values. So two open loops never
// depend on each other, and a node may join either or make them one.
class Grouping {
 public:
  Grouping(const Program& p, const std::function<bool(const Node&)>& joins)
      : graph_(p.graph), joins_(joins), loop_of_(p.graph.values.size(), kNoLoop) {}

  std::vector<std::vector<NodeId>> groups() {
    for (NodeId n = 0; n < static_cast<NodeId>(graph_.nodes.size()); ++n) {
      const Node& node = graph_.nodes[n];
      const bool joins = node.results.size() == 1 && joins_(node);
      std::vector<int> joined;
      for (const ValueId v : node.operands) {
        if (v == kNoValue || loop_of_[v] == kNoLoop) continue;
        const int loop = loop_of_[v];
        if (joins && graph_.type(v).shape == graph_.type(node.results[0]).shape) {
          if (std::find(joined.begin(), joined.end(), loop) == joined.end()) joined.push_back(loop);
        } else {
          close(loop);
        }
      }
      if (joins) {
        add(n, joined);
      } else {
        groups_.push_back({n});
      }
    }
    for (size_t loop = 0; loop < loops_.size(); ++loop) close(static_cast<int>(loop));
    return std::move(groups_);
  }

 private:
  void add(NodeId n, const std::vector<int>& joined) {
    if (joined.empty()) loops_.emplace_back();
    const int into = joined.empty() ? static_cast<int>(loops_.size()) - 1 : joined.front();
    std::vector<NodeId>& nodes = loops_[static_cast<size_t>(into)];
    for (size_t i = 1; i < joined.size(); ++i) {
      std::vector<NodeId>& other = loops_[static_cast<size_t>(joined[i])];
      for (const NodeId m : other) loop_of_[graph_.nodes[m].results[0]] = into;
      nodes.insert(nodes.end(), other.begin(), other.end());
      other.clear();
    }
    nodes.push_back(n);
    std::sort(nodes.begin(), nodes.end());
    loop_of_[graph_.nodes[n].results[0]] = into;
  }

  void close(int loop) {
    std::vector<NodeId>& nodes = loops_[static_cast<size_t>(loop)];
    if (nodes.empty()) return;
    for (const NodeId n : nodes) loop_of_[graph_.nodes[n].results[0]] = kNoLoop;
    groups_.push_back(std::move(nodes));
    nodes.clear();
  }

  const Graph& graph_;
  const std::function<bool(const Node&)>& joins_;
  PerValue<int> loop_of_;                   // the open loop that gives it
  std::vector<std::vector<NodeId>> loops_;  // empty: closed
  std::vector<std::vector<NodeId>> groups_;
};

}  // namespace

std::vector<LoopGroup> fused_groups(const Program& p, const std::function<bool(const Node&)>& joins, Taps taps) {
  std::vector<LoopGroup> groups;
  PerValue<int> group_of(p.graph.values.size(), kNoLoop);
  for (std::vector<NodeId>& nodes : Grouping(p, joins).groups()) {
    for (const NodeId n : nodes) {
      for (const ValueId v : p.graph.nodes[n].results) group_of[v] = static_cast<int>(groups.size());
    }
    groups.push_back({std::move(nodes), {}, {}});
  }

  PerValue<bool> wanted(p.graph.values.size());
  for (const ValueId v : p.graph.outputs) wanted[v] = true;
  for (const Tap& tap : p.taps) {
    if (taps == Taps::kept && !tap.inside && tap.value != kNoValue) wanted[tap.value] = true;
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const NodeId n : groups[g].nodes) {
      for (const ValueId v : p.graph.nodes[n].operands) {
        if (v == kNoValue || group_of[v] == static_cast<int>(g)) continue;
        wanted[v] = true;
        Values& inputs = groups[g].inputs;
        if (std::find(inputs.begin(), inputs.end(), v) == inputs.end()) inputs.push_back(v);
      }
    }
  }
  for (LoopGroup& group : groups) {
    for (const NodeId n : group.nodes) {
      for (const ValueId v : p.graph.nodes[n].results) {
        if (wanted[v]) group.outputs.push_back(v);
      }
    }
  }
  return groups;
}

}  // namespace pycandle
