// Linear layers of one tensor become one product with their weights side by side, where what follows takes slices as it
// takes tensors: the projections of queries, keys and values.   tests/passes/join_linears.ptir
//
//   %4 = linear(%0, %1, _): f32[s0, 8]                  %4 = concat(%1, %2) {axis = 0}: f32[12, 8]
//   %5 = linear(%0, %2, _): f32[s0, 4]          →       %5 = linear(%0, %4, _): f32[s0, 12]
//                                                       %6 = slice(%5) … [:, 0:8], %7 = slice(%5) … [:, 8:12]
//
// A product followed by an activation or a residual is not joined: those are applied before it is stored.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// A weight is a parameter, or one as it is kept in fewer bytes: stored_as(parameter).
struct Kept {
  ValueId parameter = kNoValue;
  std::string format;  // empty: as it is
};
Kept kept_weight(const Graph& g, ValueId weight) {
  const Node* stored = defined_by(g, weight, "stored_as");
  if (!stored) return {weight, {}};
  return {stored->operands[0], call_of(g, *stored).string("format")};
}

class Joiner {
 public:
  explicit Joiner(const Program& p) {
    const Graph& g = p.graph;
    PerValue<std::vector<const Node*>> users(g.values.size());
    for (const Node& node : g.nodes) {
      for (const ValueId v : node.operands) {
        if (v != kNoValue) users[v].push_back(&node);
      }
    }
    std::set<ValueId> parameters, outputs(g.outputs.begin(), g.outputs.end());
    for (const Parameter& q : p.parameters) parameters.insert(q.value);
    // Views, and in the end attention.
    const auto takes_views = [&](const auto& self, ValueId v) -> bool {
      if (outputs.count(v) != 0 || users[v].empty()) return false;
      return std::all_of(users[v].begin(), users[v].end(), [&](const Node* user) {
        const std::string& op = user->op->name;
        if (op == "reshape" || op == "transpose") return self(self, user->results[0]);
        return op == "scaled_dot_product_attention" || op == "rotary_embedding";
      });
    };
    using Key = std::tuple<ValueId, std::string, std::string, bool>;  // x, order and format of the weight, has a bias
    std::map<Key, Values> groups;
    for (const Node& node : g.nodes) {
      if (node.op->name != "linear") continue;
      const Call c = call_of(g, node);
      const Kept weight = kept_weight(g, c.value("weight"));
      const bool is_fixed = parameters.count(weight.parameter) != 0 && c.rank("weight") == 2 &&
                            (!c.has("bias") || parameters.count(c.value("bias")) != 0) && node.results.size() == 1 &&
                            g.type(node.results[0]).shape.back().is_number() && takes_views(takes_views, node.results[0]);
      if (is_fixed) groups[{c.value("x"), c.string("weight_order"), weight.format, c.has("bias")}].push_back(node.results[0]);
    }
    for (auto& [key, results] : groups) {
      if (results.size() < 2) continue;
      for (const ValueId v : results) group_of_[v] = static_cast<int>(groups_.size());
      Group group;
      for (const ValueId v : results) {
        const Node& linear = group.linears.emplace_back(g.nodes[g.values[v].node]);
        group.weights.push_back(kept_weight(g, call_of(g, linear).value("weight")).parameter);
      }
      group.format = std::get<2>(key);
      groups_.push_back(std::move(group));
    }
  }

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    const auto found = node.results.size() == 1 ? group_of_.find(node.results[0]) : group_of_.end();
    if (found == group_of_.end()) return std::nullopt;
    Group& group = groups_[found->second];
    if (group.joined == kNoValue) join(b, node, operands, group);
    Dim first = 0;
    for (const Node& other : group.linears) {
      const Dim width = width_of_.at(other.results[0]);
      if (other.results[0] == node.results[0]) return Values{b.slice(group.joined, -1, first, first + width)};
      first = first + width;
    }
    return std::nullopt;
  }

 private:
  struct Group {
    std::vector<Node> linears;
    Values weights;      // parameters
    std::string format;  // in which they are kept
    ValueId joined = kNoValue;
  };

  // Parameters have the numbers that they have in the old graph: inputs come first.
  void join(Builder& b, const Node& node, const Values& operands, Group& group) {
    const Call c(*node.op, b.graph(), operands, node.attributes, node.regions);
    const bool in_out = c.string("weight_order") == "in_out";
    Values biases;
    for (size_t i = 0; i < group.linears.size(); ++i) {
      const Node& linear = group.linears[i];
      const Call call(*linear.op, b.graph(), linear.operands, linear.attributes, linear.regions);
      if (call.has("bias")) biases.push_back(call.value("bias"));
      width_of_[linear.results[0]] = b.shape(group.weights[i])[in_out ? 1 : 0];
    }
    ValueId weight = b.concat(group.weights, in_out ? 1 : 0);
    // A scale belongs to an output: kept side by side, the weights are what they are alone.
    if (!group.format.empty())
      weight = b.create("stored_as", {weight}, {{"format", group.format}, {"axis", int64_t{in_out ? 0 : 1}}});
    group.joined = b.create("linear", {c.value("x"), weight, biases.empty() ? kNoValue : b.concat(biases, 0)}, node.attributes);
  }

  std::vector<Group> groups_;
  std::map<ValueId, int> group_of_;  // of the old graph's results
  std::map<ValueId, Dim> width_of_;
};

}  // namespace

Program join_linears(Program p, const OpTable& table) {
  Joiner joiner(p);
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) { return joiner(b, node, operands); });
}

}  // namespace pycandle
