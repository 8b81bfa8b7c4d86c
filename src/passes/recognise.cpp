// Finds functionals that a program spells out, and makes them one node.   docs/recognition.md, tests/passes/recognise_*.ptir
//
//   %1 = constant {value = 0.5, …}      …
//   %9 = mul(%0, %1)                                       →        %1 = gelu(%0) {approximate = "tanh"}
//   …
//   %20 = mul(%9, %19)
//
// Nodes are looked at from the last to the first, so the largest formula is found before those it contains. An op
// proposes a call at a node; the call stands only if its decomposition, or one of the spellings listed with the op, is
// the same term as the fragment (passes/normal_form.h), and if nothing else needs what the fragment computes on the way.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"
#include "ir/fragment.h"
#include "passes/normal_form.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

struct Match {
  const OpDef* op;
  Proposal call;
};
using Matches = std::unordered_map<const Node*, Match>;

// Numbers and other views of what is there: having them twice costs nothing, so other users do not matter.
bool is_free(const Node& node) {
  static const std::set<std::string, std::less<>> ops = {"constant", "dim", "reshape", "broadcast"};
  return ops.count(node.op->name) != 0;
}

// What the module calls of a program are to each other, and how much each computes.
class Modules {
 public:
  Modules(const Program& p, const Graph& g) : p_(p), nodes_in_(p.calls.size()) {
    for (const Node& node : g.nodes) {
      if (!is_free(node)) each_call(node, [&](size_t call) { ++nodes_in_[call]; });
    }
  }

  // A fragment ends in one module call. It may take in whole calls made from there, but no part of another: a value that
  // goes in or out of a module stays.
  bool are_whole(const std::vector<const Node*>& fragment, const Node& anchor) const {
    std::map<size_t, int32_t> inside;
    for (const Node* node : fragment) {
      if (is_free(*node)) continue;
      bool is_below = anchor.origin.call < 0;
      each_call(*node, [&](size_t call) {
        if (static_cast<int32_t>(call) == anchor.origin.call) is_below = true;
        if (!is_below) ++inside[call];
      });
      if (!is_below) return false;
    }
    return std::all_of(inside.begin(), inside.end(), [&](const auto& entry) { return nodes_in_[entry.first] == entry.second; });
  }

 private:
  // The node's call and those around it, from the inside out.
  template <class Visit> void each_call(const Node& node, const Visit& visit) const {
    for (int32_t call = node.origin.call; call >= 0; call = p_.calls[call].parent) visit(call);
  }

  const Program& p_;
  std::vector<int32_t> nodes_in_;  // per call, with those made from it
};

class Recogniser {
 public:
  Recogniser(const Program& p, const OpTable& table) : p_(p), table_(table), ranges_(p.ranges()), terms_(table) {
    for (const auto& op : table.all()) {
      if (op->calls_on) functions_.push_back(op.get());
      for (const std::string& anchor : op->anchors) at_anchor_[anchor].push_back(op.get());
    }
  }

  Matches matches;
  std::map<ValueId, ValueId> swallowed;  // values of the program's graph → the result of the node that took them in

  void look_at(const Graph& g, bool is_program) {
    index(g, is_program);
    for (NodeId n = g.nodes.size(); n-- > 0;) {
      if (!gone_[n] && g.nodes[n].results.size() == 1) look_at_node(n);
    }
    for (const Node& node : g.nodes) {
      for (const Graph& region : node.regions) look_at(region, false);
    }
  }

 private:
  void index(const Graph& g, bool is_program) {
    g_ = &g;
    is_program_ = is_program;
    modules_.emplace(p_, g);
    users_.assign(g.values.size(), {});
    gone_.assign(g.nodes.size(), false);
    for (NodeId n = 0; g.nodes.has(n); ++n) {
      for (ValueId v : g.nodes[n].operands) {
        if (v != kNoValue) users_[v].push_back(n);
      }
    }
    for (ValueId v : g.outputs) users_[v].push_back(kOutside);
    if (!is_program) return;
    for (const Output& o : p_.outputs) users_[o.value].push_back(kOutside);
    for (const State& s : p_.states) {
      if (s.updated != kNoValue) users_[s.updated].push_back(kOutside);
    }
  }

  void look_at_node(NodeId n) {
    const Node& node = g_->nodes[n];
    const Fragment fragment(*g_, node.results[0]);
    fragments_.clear();
    if (const auto ops = at_anchor_.find(node.op->name); ops != at_anchor_.end()) {
      for (const OpDef* op : ops->second) {
        for (Proposal& call : op->propose(fragment)) {
          if (stands(n, *op, call)) return;
        }
      }
    }
    if (is_free(node) || !is_floating(g_->type(node.results[0]).dtype)) return;
    for (ValueId x : fragment.entries()) {
      const Type& type = g_->type(x);
      const auto& functions = functions_of(type);
      const auto found = functions.find(of_fragment(n, {x}).term);
      if (found != functions.end() && stands(n, *found->second.op, Proposal{{x}, found->second.call.attributes, {}})) return;
    }
  }

  // ---- the two sides

  struct FragmentTerm {
    Term term = kNoTerm;
    std::vector<NodeId> nodes;
  };

  // Leaves are numbered in the order of the operands; equal operands are one leaf.
  static Values distinct(const Values& operands) {
    Values leaves;
    for (ValueId v : operands) {
      if (v != kNoValue && std::find(leaves.begin(), leaves.end(), v) == leaves.end()) leaves.push_back(v);
    }
    return leaves;
  }

  const FragmentTerm& of_fragment(NodeId anchor, const Values& leaves) {
    const auto [place, is_new] = fragments_.try_emplace(leaves);
    if (is_new) {
      NormalForm::Known known;
      for (size_t i = 0; i < leaves.size(); ++i) known[leaves[i]] = terms_.leaf(i, g_->type(leaves[i]));
      place->second.term = terms_.of(*g_, g_->nodes[anchor].results[0], known, &place->second.nodes);
    }
    return place->second;
  }

  // The call on leaves of these types: its decomposition, then its other spellings. Empty when it is no call at all.
  const Terms& of_call(const OpDef& op, const Proposal& call, const Values& leaves, const Type& result) {
    std::string key = op.name;
    for (const auto& [name, value] : call.attributes) key += "|" + name + "=" + to_string(value);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const ValueId v = call.operands[i];
      const auto leaf = std::find(leaves.begin(), leaves.end(), v) - leaves.begin();
      key += v == kNoValue ? "|_" : fmt::format("|{}:{}{}", leaf, g_->type(v).text(), to_string(Attribute(taken_in(call, i))));
    }
    key += "→" + result.text();
    const auto [place, is_new] = calls_.try_emplace(std::move(key));
    if (is_new) place->second = spelled_out(op, call, leaves, result);
    return place->second;
  }

  static Ints taken_in(const Proposal& call, size_t i) { return i < call.transposed.size() ? call.transposed[i] : Ints{}; }

  Terms spelled_out(const OpDef& op, const Proposal& call, const Values& leaves, const Type& result) {
    Graph scratch;
    NormalForm::Known known;
    Values operands;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const ValueId v = call.operands[i];
      if (v == kNoValue) {
        operands.push_back(kNoValue);
        continue;
      }
      Type type = g_->type(v);
      Term term = terms_.leaf(std::find(leaves.begin(), leaves.end(), v) - leaves.begin(), type);
      if (const Ints permutation = taken_in(call, i); !permutation.empty()) {
        term = terms_.transposed(term, permutation);
        type.shape.clear();
        for (int64_t axis : permutation) type.shape.push_back(g_->type(v).shape.at(axis));
      }
      operands.push_back(scratch.add_input(std::move(type)));
      known[operands.back()] = term;
    }
    Terms terms;
    try {
      std::vector<Check> checks;
      Builder b(scratch, table_, &checks, &ranges_);
      const ValueId y = b.create(op.name, operands, call.attributes);
      if (scratch.type(y) != result || !checks.empty()) return {};  // another result, or sizes that are not known to fit
      const Node node = scratch.nodes.back();
      const Call made(op, scratch, node.operands, node.attributes, node.regions, &b);
      const auto add = [&](const std::function<Values(Builder&, const Call&)>& spelling) {
        const Values values = spelling(b, made);
        NormalForm::Known leaves_only = known;
        const Term term = terms_.of(scratch, values.at(0), leaves_only);
        if (term != kNoTerm && scratch.type(values[0]) == result) terms.push_back(term);
      };
      add(op.decomposition);
      for (const auto& spelling : op.spellings) add(spelling);
    } catch (const Error&) {
      return {};  // the guess does not even fit the op
    }
    return terms;
  }

  // Functions of one value, by the term that they are on a value of this type.
  using Functions = std::unordered_map<Term, Match>;
  const Functions& functions_of(const Type& type) {
    const auto [place, is_new] = functions_on_.try_emplace(type.text());
    if (!is_new) return place->second;
    for (const OpDef* op : functions_) {
      for (const Attributes& attributes : op->calls_on(type)) {
        for (Term term : on_one(*op, type, attributes)) place->second.try_emplace(term, Match{op, {{}, attributes, {}}});
      }
    }
    place->second.erase(kNoTerm);
    return place->second;
  }

  Terms on_one(const OpDef& op, const Type& type, const Attributes& attributes) {
    Graph g;
    const ValueId x = g.add_input(type);
    const Graph* const here = std::exchange(g_, &g);
    Terms terms = spelled_out(op, {{x}, attributes, {}}, {x}, result_of(op, type, attributes));
    g_ = here;
    return terms;
  }

  Type result_of(const OpDef& op, const Type& type, const Attributes& attributes) const {
    Graph g;
    const ValueId x = g.add_input(type);
    try {
      return g.type(Builder(g, table_).create(op.name, {x}, attributes));
    } catch (const Error&) {
      return type;
    }
  }

  // ---- may the fragment become one node?

  bool stands(NodeId anchor, const OpDef& op, const Proposal& call) {
    const Node& node = g_->nodes[anchor];
    if (std::find(call.operands.begin(), call.operands.end(), node.results[0]) != call.operands.end()) return false;
    const Values leaves = distinct(call.operands);
    const FragmentTerm& fragment = of_fragment(anchor, leaves);
    if (fragment.term == kNoTerm) return false;
    const Terms& spellings = of_call(op, call, leaves, g_->type(node.results[0]));
    if (std::find(spellings.begin(), spellings.end(), fragment.term) == spellings.end()) return false;
    return take(anchor, fragment.nodes, op, call);
  }

  bool take(NodeId anchor, std::vector<NodeId> nodes, const OpDef& op, const Proposal& call) {
    const Node& last = g_->nodes[anchor];
    std::sort(nodes.begin(), nodes.end(), std::greater<>());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::unordered_set<NodeId> going(nodes.begin(), nodes.end());
    std::vector<const Node*> fragment;
    for (NodeId n : nodes) {  // users before what they use
      const Node& node = g_->nodes[n];
      if (n != anchor && has_other_users(node, going)) {
        if (!is_free(node)) return false;
        going.erase(n);
      } else {
        fragment.push_back(&node);
      }
    }
    if (!modules_->are_whole(fragment, last)) return false;
    for (NodeId n : going) {
      if (n == anchor) continue;
      gone_[n] = true;
      if (!is_program_) continue;
      for (ValueId v : g_->nodes[n].results) swallowed[v] = last.results[0];
    }
    for (ValueId v : distinct(call.operands)) users_[v].push_back(anchor);
    matches.emplace(&last, Match{&op, call});
    return true;
  }

  bool has_other_users(const Node& node, const std::unordered_set<NodeId>& going) const {
    for (ValueId v : node.results) {
      for (NodeId user : users_[v]) {
        if (user == kOutside || (going.count(user) == 0 && !gone_[user])) return true;
      }
    }
    return false;
  }

  static constexpr NodeId kOutside = -1;

  const Program& p_;
  const OpTable& table_;
  const SymbolRanges ranges_;
  NormalForm terms_;
  std::vector<const OpDef*> functions_;
  std::map<std::string, std::vector<const OpDef*>, std::less<>> at_anchor_;
  std::map<std::string, Terms> calls_;
  std::map<std::string, Functions> functions_on_;

  const Graph* g_ = nullptr;
  bool is_program_ = false;
  std::optional<Modules> modules_;
  PerValue<std::vector<NodeId>> users_;  // per value: nodes, or kOutside
  PerNode<bool> gone_;                   // per node: taken in by a match
  std::map<Values, FragmentTerm> fragments_;     // of the anchor at hand, by leaves
};

// Every leaf is an operand of a node that stands before the anchor, or of the anchor: the sweep has seen it by then.
class Sweep {
 public:
  explicit Sweep(const Matches& matches) : matches_(matches) {}

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    Values& fresh = fresh_[&b.graph()];
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == kNoValue) continue;
      fresh.resize(std::max(fresh.size(), static_cast<size_t>(node.operands[i]) + 1), kNoValue);
      fresh[node.operands[i]] = operands[i];
    }
    const auto match = matches_.find(&node);
    if (match == matches_.end()) return std::nullopt;
    const auto& [op, call] = match->second;
    Values mapped;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const ValueId v = call.operands[i] == kNoValue ? kNoValue : fresh.at(call.operands[i]);
      const bool is_transposed = i < call.transposed.size() && !call.transposed[i].empty();
      mapped.push_back(is_transposed ? b.transpose(v, call.transposed[i]) : v);
    }
    return b.create_all(op->name, std::move(mapped), call.attributes);
  }

 private:
  const Matches& matches_;
  std::map<const Graph*, Values> fresh_;  // per graph that is written: old value → new one
};

}  // namespace

Program recognise(Program p, const OpTable& table) {
  p = without_dead_nodes(std::move(p));  // what nobody needs is no user
  Recogniser recogniser(p, table);
  recogniser.look_at(p.graph, true);
  if (recogniser.matches.empty()) return p;
  for (Tap& tap : p.taps) {
    for (auto taken = recogniser.swallowed.find(tap.value); taken != recogniser.swallowed.end();
         taken = recogniser.swallowed.find(tap.value)) {
      tap.value = taken->second;
      tap.inside = true;
    }
  }
  Sweep sweep(recogniser.matches);
  return without_dead_nodes(rewrite(
      std::move(p), table, [&](Builder& b, const Node& node, const Values& operands) { return sweep(b, node, operands); }));
}

}  // namespace pycandle
