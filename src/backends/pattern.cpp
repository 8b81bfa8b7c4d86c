#include "backends/pattern.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "passes/constants.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// How often nodes and outputs read each value; taps and module calls only look on.
PerValue<int> readers_of(const Graph& g) {
  PerValue<int> readers(g.values.size());
  for (const Node& node : g.nodes) {
    for (const ValueId v : node.operands) {
      if (v != kNoValue) ++readers[v];
    }
  }
  for (const ValueId v : g.outputs) ++readers[v];
  return readers;
}

// A constant, as it is or repeated.
std::optional<double> number_of(const Graph& g, ValueId v) {
  while (const Node* repeated = defined_by(g, v, "broadcast")) v = repeated->operands[0];
  const auto value = constant_value(g, v);
  if (!value || std::holds_alternative<std::complex<double>>(*value)) return std::nullopt;
  return as_double(*value);
}

class Matcher {
 public:
  Matcher(const Graph& g, const PatternTerms& pattern) : graph_(g), pattern_(pattern), readers_(readers_of(g)) {}

  std::optional<PatternMatch> match(NodeId root, const PerNode<bool>& taken) {
    taken_ = &taken;
    PatternMatch found;
    found.holes.assign(pattern_.holes, kNoValue);
    found.numbers.assign(pattern_.numbers, 0);
    found.nodes.resize(pattern_.nodes);
    if (!node_fits(pattern_.terms.back(), root, found)) return std::nullopt;
    return found;
  }

 private:
  bool fits(size_t number, ValueId v, PatternMatch& found) {
    const PatternTerm& term = pattern_.terms[number];
    if (v == kNoValue) return false;
    if (term.kind == PatternTerm::Kind::hole) {
      ValueId& slot = found.holes[*term.slot];
      if (slot == kNoValue) slot = v;
      return slot == v;
    }
    if (term.kind == PatternTerm::Kind::number) {
      const auto value = number_of(graph_, v);
      if (value) found.numbers[*term.slot] = *value;
      return value.has_value();
    }
    const NodeId n = graph_.values[v].node;
    if (n == kNoNode || readers_[v] != 1 || (*taken_)[n]) return false;
    if (!node_fits(term, n, found)) return false;
    found.inside.push_back(n);
    return true;
  }

  bool node_fits(const PatternTerm& term, NodeId n, PatternMatch& found) {
    const Node& node = graph_.nodes[n];
    if (node.op->name != term.op || node.results.size() != 1 || !node.regions.empty()) return false;
    if (term.slot) found.nodes[*term.slot] = {node.op, node.attributes, graph_.type(node.results[0])};
    const PatternMatch before = found;
    if (operands_fit(term, node.operands, found)) return true;
    if (!node.op->is_commutative || node.operands.size() != 2) return false;
    found = before;
    return operands_fit(term, {node.operands[1], node.operands[0]}, found);
  }

  bool operands_fit(const PatternTerm& term, const Values& operands, PatternMatch& found) {
    if (operands.size() < term.operands.size()) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i < term.operands.size() ? !fits(term.operands[i], operands[i], found) : operands[i] != kNoValue) return false;
    }
    return true;
  }

  const Graph& graph_;
  const PatternTerms& pattern_;
  const PerValue<int> readers_;
  const PerNode<bool>* taken_ = nullptr;
};

// Every op is one of the table, and has as many operands.
void check_pattern(const PatternTerms& pattern, const OpTable& table) {
  require(!pattern.terms.empty() && pattern.terms.back().kind == PatternTerm::Kind::node, "a pattern ends in a node");
  for (const PatternTerm& term : pattern.terms) {
    if (term.kind != PatternTerm::Kind::node) continue;
    const OpDef* op = table.find(term.op);
    if (op == nullptr) internal_error("a pattern looks for " + term.op + ", and there is no such op");
    if (term.operands.size() > op->operand_specs.size() && !op->has_variadic())
      internal_error("a pattern gives " + term.op + " more operands than it has");
  }
}

std::map<NodeId, PatternMatch> matches_in(const Graph& g, const PatternTerms& pattern) {
  Matcher matcher(g, pattern);
  std::map<NodeId, PatternMatch> matches;
  PerNode<bool> taken(g.nodes.size());
  for (NodeId n = static_cast<NodeId>(g.nodes.size()); n-- > 0;) {
    if (taken[n]) continue;
    std::optional<PatternMatch> match = matcher.match(n, taken);
    if (!match) continue;
    taken[n] = true;
    for (const NodeId inner : match->inside) taken[inner] = true;
    matches.emplace(n, std::move(*match));
  }
  return matches;
}

}  // namespace

const Attribute& FoundNode::attribute(std::string_view name) const {
  for (const auto& [its_name, value] : attributes) {
    if (its_name == name) return value;
  }
  internal_error("a node of " + op->name + " has no attribute " + std::string(name));
}

size_t append_terms(PatternTerms& to, PatternTerms other, const std::vector<size_t>& hole_slots) {
  const size_t base = to.terms.size();
  for (PatternTerm& term : other.terms) {
    for (size_t& operand : term.operands) operand += base;
    if (term.slot && term.kind == PatternTerm::Kind::hole) term.slot = hole_slots[*term.slot];
    if (term.slot && term.kind == PatternTerm::Kind::number) *term.slot += to.numbers;
    if (term.slot && term.kind == PatternTerm::Kind::node) *term.slot += to.nodes;
    to.terms.push_back(std::move(term));
  }
  to.numbers += other.numbers;
  to.nodes += other.nodes;
  return to.terms.size() - 1;
}

Program rewrite_matches(Program p, const OpTable& table, const PatternTerms& pattern,
                        const std::function<std::optional<ValueId>(Builder&, const PatternMatch&)>& replace) {
  check_pattern(pattern, table);
  p = without_dead_nodes(std::move(p));  // what nobody needs is no user
  std::map<NodeId, PatternMatch> matches = matches_in(p.graph, pattern);
  if (matches.empty()) return p;

  Values fresh(p.graph.values.size(), kNoValue);  // old value → new one, for those that were read so far
  const auto fresh_of = [&](ValueId v) -> ValueId& { return fresh[static_cast<size_t>(v)]; };
  PerNode<ValueId> result_of;
  for (const Node& node : p.graph.nodes) result_of.push_back(node.results.empty() ? kNoValue : node.results[0]);
  std::map<ValueId, ValueId> swallowed_by;        // of the new graph
  NodeId next = 0;
  p = rewrite_outside_regions(std::move(p), table,
                              [&](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                for (size_t i = 0; i < operands.size(); ++i) {
                                  if (node.operands[i] != kNoValue) fresh_of(node.operands[i]) = operands[i];
                                }
                                const auto found = matches.find(next++);
                                if (found == matches.end()) return std::nullopt;
                                PatternMatch& match = found->second;
                                for (ValueId& v : match.holes) v = v == kNoValue ? kNoValue : fresh_of(v);
                                const std::optional<ValueId> value = replace(b, match);
                                if (!value) return std::nullopt;
                                for (const NodeId inner : match.inside) swallowed_by.emplace(fresh_of(result_of[inner]), *value);
                                return Values{*value};
                              });
  for (Tap& tap : p.taps) {
    const auto swallowed = swallowed_by.find(tap.value);
    if (swallowed == swallowed_by.end()) continue;
    tap.value = swallowed->second;
    tap.inside = true;
  }
  return without_dead_nodes(std::move(p));
}

Values own_node(Builder& b, const OpDef& op, Values operands, Attributes attributes) {
  Node node;
  node.op = &op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.origin = b.origin;
  std::vector<Type> types = op.infer_types(Call(op, b.graph(), node.operands, node.attributes, node.regions, &b));
  return b.graph().add_node(std::move(node), std::move(types)).results;
}

}  // namespace pycandle
