#include "verify/diagnosing/divergence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/array.h"
#include "base/error.h"

namespace pycandle {
namespace {

// A slice's values by what they are made of.
class Side {
 public:
  Side(const Program& p, const std::vector<GivenValue>& inputs) : p_(p) {
    require(p.inputs.size() == inputs.size(), "each input of a slice is known");
    for (size_t i = 0; i < inputs.size(); ++i) give(p.inputs[i].value, inputs[i].identity, inputs[i].name);
    for (const Parameter& q : p.parameters) {
      if (q.value != kNoValue) give(q.value, hash128("parameter " + q.name), q.name);
    }
    for (const Node& node : p.graph.nodes) add(node);
  }

  // New ones, of which everything that they read is known to the other side.
  std::vector<const Node*> first_new_nodes(const Side& other) const {
    std::vector<const Node*> nodes;
    for (const Node& node : p_.graph.nodes) {
      const bool is_new = other.all_.count(hash_.at(node.results[0])) == 0;
      if (!is_new || only_hands_on(node)) continue;
      const bool begins_here = std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId v) {
        if (v == kNoValue) return true;
        v = seen_through(v);
        const Node* made_by = maker(v);
        return made_by == nullptr || made_by->op->name == "constant" || other.all_.count(hash_.at(v)) != 0;
      });
      if (begins_here) nodes.push_back(&node);
    }
    return nodes;
  }

  // With those of its attributes that the other's op of this name has otherwise.
  std::string text(const Node& node, const std::vector<const Node*>& others) const {
    std::vector<std::string> parts;
    for (ValueId v : node.operands) {
      if (v != kNoValue) parts.push_back(name(v));
    }
    const auto other = std::find_if(others.begin(), others.end(), [&](const Node* o) { return o->op == node.op; });
    for (size_t i = 0; other != others.end() && i < node.attributes.size(); ++i) {
      const auto& [name, value] = node.attributes[i];
      if (to_string(value) != to_string((*other)->attributes[i].second))
        parts.push_back(fmt::format("{}={}", name, to_string(value)));
    }
    return fmt::format("{}({})", node.op->name, fmt::join(parts, ", "));
  }

 private:
  void give(ValueId v, Hash128 identity, const std::string& name) {
    hash_[v] = identity;
    given_[v] = name;
    all_.insert(identity);
  }

  const Node* maker(ValueId v) const {
    const NodeId node = p_.graph.values[v].node;
    return node < 0 ? nullptr : &p_.graph.nodes[node];
  }

  bool changes_nothing(const Node& node) const {
    return node.op->name == "reshape" && p_.graph.type(node.operands[0]) == p_.graph.type(node.results[0]);
  }
  bool only_hands_on(const Node& node) const {
    if (node.op->name == "constant" || node.op->name == "broadcast" || changes_nothing(node)) return true;
    return node.op->name == "reshape" && maker(node.operands[0]) == nullptr && !is_input(node.operands[0]);  // a weight
  }
  bool is_input(ValueId v) const {
    return std::any_of(p_.inputs.begin(), p_.inputs.end(), [&](const Input& i) { return i.value == v; });
  }
  ValueId seen_through(ValueId v) const {
    for (const Node* made_by = maker(v); made_by && !made_by->operands.empty() && only_hands_on(*made_by); made_by = maker(v))
      v = made_by->operands[0];
    return v;
  }

  void add(const Node& node) {
    if (changes_nothing(node)) {
      hash_[node.results[0]] = hash_.at(node.operands[0]);
      return;
    }
    std::string key = node.op->name;
    for (const auto& [name, value] : node.attributes) key += fmt::format(" {}={}", name, to_string(value));
    for (ValueId v : node.operands) key += v == kNoValue ? " -" : " " + hash_.at(v).text();
    for (const Graph& region : node.regions) {
      for (const Node& inner : region.nodes) key += " " + inner.op->name;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Hash128 hash = hash128(fmt::format("{} .{}", key, i));
      hash_[node.results[i]] = hash;
      all_.insert(hash);
    }
  }

  // As a person would say it: in whatever shape, it is the same value.
  std::string name(ValueId v) const {
    v = seen_through(v);
    for (const Node* made_by = maker(v); made_by && made_by->op->name == "reshape"; made_by = maker(v))
      v = seen_through(made_by->operands[0]);
    if (const auto given = given_.find(v); given != given_.end()) return given->second;
    const Node& made_by = *maker(v);
    if (made_by.op->name == "constant") return to_string(made_by.attributes.at(0).second);
    if (made_by.results.size() == 1) return made_by.op->name;
    return fmt::format("{}[{}]", made_by.op->name, p_.graph.values[v].index);
  }

  const Program& p_;
  std::map<ValueId, Hash128> hash_;
  std::map<ValueId, std::string> given_;
  std::set<Hash128> all_;
};

}  // namespace

Hash128 identity_of(const Array& a) {
  return hash128(fmt::format("{}{} {}", name_of(a.dtype()), to_string(a.shape()), hash128(a.data(), a.bytes()).text()));
}

Divergence divergence_of(const Program& ours, const std::vector<GivenValue>& our_inputs, const Program& recorded,
                         const std::vector<GivenValue>& recorded_inputs) {
  const Side a(ours, our_inputs), b(recorded, recorded_inputs);
  const std::vector<const Node*> left = a.first_new_nodes(b), right = b.first_new_nodes(a);
  Divergence found;
  for (const Node* node : left) {
    found.ours.push_back(a.text(*node, right));
    found.our_ops.push_back(node->op->name);
  }
  for (const Node* node : right) {
    found.recorded.push_back(b.text(*node, left));
    found.recorded_ops.push_back(node->op->name);
  }
  return found;
}

}  // namespace pycandle
