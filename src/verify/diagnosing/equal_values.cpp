#include "verify/diagnosing/equal_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"
#include "passes/normal_form.h"
#include "passes/structure.h"
#include "verify/judging/slices.h"

namespace pycandle {
namespace {

constexpr int kMostFailures = 300;       // formulas that are compared in vain: then everything after a change differs
constexpr size_t kMostCandidates = 24;   // for one value

template <class Items, class Name> std::map<std::string, ValueId> by_name(const Items& items, const Name& name) {
  std::map<std::string, ValueId> all;
  for (const auto& item : items) {
    if (item.value != kNoValue) all.emplace(name(item), item.value);
  }
  return all;
}

// Values that a formula is read through although both programs have them: numbers, what only moves, and, `deeper`,
// everything that is computed element by element.
PerValue<bool> open_in(const Graph& g, bool deeper) {
  PerValue<bool> is_open(g.values.size()), is_number(g.values.size());
  for (const Node& node : g.nodes) {
    const bool of_numbers = !node.operands.empty() && std::all_of(node.operands.begin(), node.operands.end(),
                                                                  [&](ValueId v) { return v != kNoValue && is_number[v]; });
    const bool gives_number = node.op->name == "constant" || of_numbers;
    const bool is_pointwise = node.op->is_primitive && node.op->is_pointwise;
    for (ValueId v : node.results) {
      is_number[v] = gives_number;
      is_open[v] = gives_number || only_moves(node) || (deeper && is_pointwise);
    }
  }
  return is_open;
}

}  // namespace

EqualValues::EqualValues(const Program& recorded, const Program& captured, const NodeMatches& matches, const OpTable& table)
    : r_(recorded),
      c_(captured),
      matches_(matches),
      table_(table),
      hashes_(value_hashes(recorded)),
      equal_(captured.graph.values.size()) {
  for (size_t v = hashes_.size(); v-- > 0;) first_of_[hashes_[v]] = static_cast<ValueId>(v);
  const auto give = [&](const std::map<std::string, ValueId>& theirs, const std::map<std::string, ValueId>& ours) {
    for (const auto& [name, value] : ours) {
      const auto found = theirs.find(name);
      if (found != theirs.end() && r_.graph.type(found->second).text() == c_.graph.type(value).text())
        set(value, hashes_[found->second]);
    }
  };
  for (size_t i = 0; i < std::min(r_.inputs.size(), c_.inputs.size()); ++i)
    give({{"", r_.inputs[i].value}}, {{"", c_.inputs[i].value}});
  const auto name = [](const auto& item) { return item.name; };
  give(by_name(r_.parameters, name), by_name(c_.parameters, name));
  give(by_name(r_.states, name), by_name(c_.states, name));
  size_t random_ops = 0;
  std::set<NodeId> matched;
  for (NodeId n = 0; c_.graph.nodes.has(n); ++n) matched.insert(matches.recorded_of(n));
  for (NodeId n = 0; r_.graph.nodes.has(n); ++n) {
    const Node& node = r_.graph.nodes[n];
    node_of_key_.emplace(key(r_.graph, node, hashes_, random_ops), n);
    if (node.op->is_random) ++random_ops;
    if (matched.count(n) == 0) unmatched_[r_.module_path(node.origin)].push_back(n);
  }
}

void EqualValues::set(ValueId captured, Hash128 recorded) {
  equal_[captured] = recorded;
  known_.insert(recorded);
}

// Empty when an operand is unknown. Two draws of random numbers are not one.
std::string EqualValues::key(const Graph& g, const Node& node, const std::vector<Hash128>& hashes, size_t random_ops) const {
  std::string text = node.op->name;
  for (const auto& [name, value] : node.attributes) text += fmt::format(" {}={}", name, to_string(value));
  for (ValueId v : node.operands) {
    if (v != kNoValue && hashes[v] == Hash128{}) return "";
    text += v == kNoValue ? " -" : " " + hashes[v].text();
  }
  for (const Graph& region : node.regions) text += " > " + print(region);
  for (ValueId v : node.results) text += " " + g.type(v).text();
  if (node.op->is_random) text += fmt::format(" #{}", random_ops);
  return text;
}

void EqualValues::find(const AtTap& at_tap) {
  std::map<TapId, ValueId> recorded_tap;
  for (const Tap& tap : r_.taps) {
    if (!tap.inside) recorded_tap.emplace(tap.id, tap.value);
  }
  std::map<NodeId, std::vector<const Tap*>> taps_of;  // by the node that gives the value
  for (const Tap& tap : c_.taps) taps_of[c_.graph.values[tap.value].node].push_back(&tap);
  size_t random_ops = 0;
  for (NodeId n = 0; c_.graph.nodes.has(n); ++n) {
    const Node& node = c_.graph.nodes[n];
    const auto same = node_of_key_.find(key(c_.graph, node, equal_, random_ops));
    if (node.op->is_random) ++random_ops;
    if (same != node_of_key_.end()) {
      const Values& results = r_.graph.nodes[same->second].results;
      for (size_t i = 0; i < results.size(); ++i) set(node.results[i], hashes_[results[i]]);
      continue;
    }
    for (size_t i = 0; i < node.results.size() && failures_ < kMostFailures; ++i) {
      const Hash128 equal = by_formula(n, i);
      if (equal == Hash128{}) {
        ++failures_;
      } else {
        set(node.results[i], equal);
      }
    }
    if (!at_tap) continue;
    for (const Tap* tap : taps_of[n]) {
      const auto there = recorded_tap.find(tap->id);
      if (is_known(tap->value) || there == recorded_tap.end()) continue;
      const Value& value = r_.graph.values[there->second];
      const Hash128 hash = hashes_[there->second];
      // A value that the captured program has elsewhere: an op that was moved out of the module, or into it.
      if (value.node < 0 || known_.count(hash) != 0 || value.type.text() != c_.graph.type(tap->value).text()) continue;
      if (at_tap(tap->id, there->second, tap->value)) set(tap->value, hash);
    }
  }
}

std::vector<NodeId> EqualValues::candidates(NodeId captured_node) const {
  std::vector<NodeId> nodes;
  if (const NodeId same = matches_.recorded_of(captured_node); same >= 0) nodes.push_back(same);
  const auto beside = unmatched_.find(c_.module_path(c_.graph.nodes[captured_node].origin));
  if (beside != unmatched_.end()) {
    const size_t count = std::min(beside->second.size(), kMostCandidates);
    nodes.insert(nodes.end(), beside->second.begin(), beside->second.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return nodes;
}

// Formulas over the values that are known to both.
struct EqualValues::Formulas {
  Formulas(const EqualValues& e, bool deeper) : e_(e), form(e.table_) {
    for (const Hash128& hash : e.known_) {
      const ValueId value = e.first_of_.at(hash);
      leaf.emplace(hash, form.leaf(static_cast<size_t>(value), e.r_.graph.type(value)));
    }
    const PerValue<bool> open_c = open_in(e.c_.graph, deeper), open_r = open_in(e.r_.graph, deeper);
    for (size_t v = 0; v < e.equal_.size(); ++v) {
      if (e.equal_[v] != Hash128{} && !open_c[v]) known_captured.emplace(static_cast<ValueId>(v), leaf.at(e.equal_[v]));
    }
    for (size_t v = 0; v < e.hashes_.size(); ++v) {
      const auto found = leaf.find(e.hashes_[v]);
      if (found != leaf.end() && !open_r[v]) known_recorded.emplace(static_cast<ValueId>(v), found->second);
    }
  }

  Term captured(ValueId v) { return form.of(e_.c_.graph, v, known_captured); }
  Term recorded(ValueId v) { return form.of(e_.r_.graph, v, known_recorded); }
  // The known value that this is; 0: none.
  Hash128 known(Term term) const {
    const auto found = std::find_if(leaf.begin(), leaf.end(), [&](const auto& l) { return l.second == term; });
    return term == kNoTerm || found == leaf.end() ? Hash128{} : found->first;
  }

  const EqualValues& e_;
  NormalForm form;
  std::map<Hash128, Term> leaf;
  NormalForm::Known known_captured, known_recorded;
};

Hash128 EqualValues::by_formula(NodeId n, size_t result) const {
  const ValueId ours = c_.graph.nodes[n].results[result];
  const std::string type = c_.graph.type(ours).text();
  for (const bool deeper : {false, true}) {
    Formulas formulas(*this, deeper);
    const Term term = formulas.captured(ours);
    if (term == kNoTerm) continue;
    const Hash128 known = formulas.known(term);
    if (known != Hash128{} && r_.graph.type(first_of_.at(known)).text() == type) return known;
    for (const NodeId candidate : candidates(n)) {
      const Values& theirs = r_.graph.nodes[candidate].results;
      if (result >= theirs.size() || r_.graph.type(theirs[result]).text() != type) continue;
      if (formulas.recorded(theirs[result]) == term) return hashes_[theirs[result]];
    }
  }
  return {};
}

bool EqualValues::all_results() const {
  const auto is_equal = [&](ValueId recorded, ValueId captured) { return equal_[captured] == hashes_[recorded]; };
  for (size_t i = 0; i < r_.outputs.size(); ++i) {
    if (!is_equal(r_.outputs[i].value, c_.outputs[i].value)) return false;
  }
  for (const State& state : r_.states) {
    const auto ours = std::find_if(c_.states.begin(), c_.states.end(), [&](const State& s) { return s.name == state.name; });
    const ValueId before = ours == c_.states.end() ? kNoValue : ours->updated;
    if ((state.updated == kNoValue) != (before == kNoValue)) return false;
    if (before != kNoValue && !is_equal(state.updated, before)) return false;
  }
  return true;
}

PerValue<bool> EqualValues::known_recorded() const {
  PerValue<bool> known(hashes_.size());
  for (size_t v = 0; v < known.size(); ++v) known[v] = r_.graph.values[v].node >= 0 && known_.count(hashes_[v]) != 0;
  return known;
}

PerValue<bool> EqualValues::known_captured() const {
  PerValue<bool> known(equal_.size());
  for (size_t v = 0; v < known.size(); ++v) known[v] = c_.graph.values[v].node >= 0 && equal_[v] != Hash128{};
  return known;
}

}  // namespace pycandle
