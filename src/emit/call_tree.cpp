#include "emit/call_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "passes/decode_step.h"

namespace pycandle::emit {
namespace {

// The values of an argument or result in Python's order, each with its name: that of the argument, or the keys below it.
void collect(const Tree& tree, const std::string& name, std::vector<std::pair<ValueId, std::string>>& found) {
  if (tree.kind == Tree::Kind::value) found.emplace_back(tree.value, name);
  for (const auto& [key, item] : tree.items) collect(item, key, found);
}

// The same for a result, named by its path in it: "0", "past.1", "logits".
void collect_paths(const Tree& tree, const std::string& path, std::vector<std::pair<ValueId, std::string>>& found) {
  if (tree.kind == Tree::Kind::value) found.emplace_back(tree.value, path);
  for (size_t i = 0; i < tree.items.size(); ++i) {
    const std::string& key = tree.items[i].first;
    const std::string part = key.empty() ? std::to_string(i) : key;
    collect_paths(tree.items[i].second, path.empty() ? part : fmt::format("{}.{}", path, part), found);
  }
}

NodeId defining_node(const Graph& g, ValueId v) { return g.values[v].node; }

template <class Visit> void each_value(const Implicit& implicit, NodeId node, const Visit& visit) {
  for (size_t i = 0; i < implicit.operand_count(node); ++i) {
    const ValueId* v = std::get_if<ValueId>(&implicit.operand(node, i));
    if (v && *v != kNoValue) visit(*v);
  }
}

}  // namespace

CallTree::CallTree(const Program& p, const Implicit& implicit, Layers layers)
    : p_(&p), implicit_(&implicit), layers_(std::move(layers)), inlined_(p.calls.size(), false) {
  require(!p.calls.empty(), "a program without its root call");
  parameter_of_.assign(p.graph.values.size(), nullptr);
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) parameter_of_[q.value] = &q;
  }
  for (const State& state : p.states) state_of_.emplace(state.value, &state);
  for (const Input& input : p.inputs) {
    if (input.gap) gaps_.emplace(input.value, *input.gap);
  }
  find_cache();
  find_binders();
  build();
}

void CallTree::find_cache() {
  uses_cache_.assign(p_->calls.size(), false);
  for (const Node& node : p_->graph.nodes) {
    if (node.op->name != "cache_append" && node.op->name != "cache_last") continue;
    cache_lengths_ = node.operands[2];
    for (int32_t call = std::max(node.origin.call, 0); call >= 0; call = p_->calls[call].parent) uses_cache_[call] = true;
  }
  uses_cache_[0] = cache_lengths_ != kNoValue;
}

void CallTree::find_binders() {
  std::set<std::string> by_data;
  for (const Symbol& symbol : p_->symbols) {
    if (symbol.axis < 0) by_data.insert(symbol.name);
  }
  for (size_t n = 0; n < p_->graph.nodes.size() && !by_data.empty(); ++n) {
    std::vector<std::string> symbols;
    for (const ValueId v : p_->graph.nodes[n].results) {
      for (const Dim d : p_->graph.type(v).shape) d.collect_symbols(symbols);
    }
    for (const std::string& symbol : symbols) {
      if (by_data.count(symbol) != 0) binders_.emplace(symbol, n);
    }
  }
}

bool CallTree::binds(int32_t call, const std::string& symbol) const {
  if (cache_lengths_ != kNoValue && symbol == kCapacity) return true;  // the cache says it everywhere
  const auto found = binders_.find(symbol);
  return found != binders_.end() && call_of(found->second) == call;
}

int32_t CallTree::hidden_binder(Dim d, int32_t from) const {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    const auto found = binders_.find(symbol);
    if (found == binders_.end()) continue;
    const int32_t call = call_of(found->second);
    if (!contains(call, from)) return call;
  }
  return -1;
}

const std::string* CallTree::gap(ValueId v) const {
  const auto found = gaps_.find(v);
  return found == gaps_.end() ? nullptr : &found->second;
}

int32_t CallTree::parent(int32_t call) const {
  if (call == 0) return -1;
  int32_t up = std::max(p_->calls[call].parent, 0);
  while (inlined_[up]) up = std::max(p_->calls[up].parent, 0);
  return up;
}

int32_t CallTree::call_of(NodeId node) const {
  const int32_t call = std::max(p_->graph.nodes[node].origin.call, 0);
  return inlined_[call] ? parent(call) : call;
}

bool CallTree::contains(int32_t call, int32_t inner) const {
  while (inner != call && inner > 0) inner = parent(inner);
  return inner == call;
}

void CallTree::inline_call(int32_t call, const std::string& why) {
  const ModuleCall& c = p_->calls[call];
  if (!why.empty()) notes_.push_back(fmt::format("{}@{} is written out where it is called: {}", c.path, c.call, why));
  inlined_[call] = true;
  build();
}

const Parameter* CallTree::parameter(ValueId v) const { return parameter_of_[v]; }

const State* CallTree::state(ValueId v) const {
  const auto found = state_of_.find(v);
  return found == state_of_.end() ? nullptr : found->second;
}

const std::string& CallTree::stored_name(ValueId v) const { return parameter(v) ? parameter(v)->name : state_of_.at(v)->name; }

std::string CallTree::local_parameter(int32_t call, ValueId v) const {
  const Parameter* q = parameter(v);
  if (!q && !state(v)) return {};
  const std::string& name = stored_name(v);
  if (call == 0) return name;
  const std::string prefix = p_->calls[call].path + ".";
  if (name.starts_with(prefix)) return name.substr(prefix.size());
  if (!q) return {};
  for (const std::string& alias : q->aliases) {
    if (alias.starts_with(prefix)) return alias.substr(prefix.size());
  }
  return {};
}

void CallTree::build() {
  const size_t count = p_->calls.size();
  bodies_.assign(count, {});
  own_nodes_.assign(count, {});
  children_.assign(count, {});
  for (NodeId n = 0; p_->graph.nodes.has(n); ++n) {
    if (!implicit_->unwritten(n)) own_nodes_[call_of(n)].push_back(n);
  }
  bodies_[0].written = true;
  for (size_t c = count; c-- > 1;) {
    if (inlined_[c]) continue;
    CallBody& body = bodies_[c];
    body.written = !own_nodes_[c].empty() || !children_[c].empty();
    if (body.written) children_[parent(static_cast<int32_t>(c))].push_back(static_cast<int32_t>(c));
  }
  updates_.assign(count, {});
  for (const State& s : p_->states) {
    if (s.updated != kNoValue && cache_lengths_ == kNoValue) updates_[updating_call(s)].push_back(&s);
  }
  for (const int32_t call : depth_first()) {
    if (!order_units(call)) return;  // built anew, with one call less
    find_boundary(call);
  }
}

int32_t CallTree::updating_call(const State& s) const {
  const NodeId node = defining_node(p_->graph, s.updated);
  int32_t call = node < 0 ? 0 : call_of(node);
  while (call > 0 && local_parameter(call, s.value).empty()) call = parent(call);
  return call;
}

std::vector<int32_t> CallTree::depth_first() const {
  // A call stands after the one that makes it, so from the end inner ones come first.
  std::vector<int32_t> order;
  for (size_t c = bodies_.size(); c-- > 0;) {
    if (bodies_[c].written) order.push_back(static_cast<int32_t>(c));
  }
  return order;
}

template <class Visit> void CallTree::visit_nodes(int32_t call, const Visit& visit) const {
  for (const NodeId n : own_nodes_[call]) visit(n);
  for (const int32_t child : children_[call]) visit_nodes(child, visit);
}

// The steps in the order of the program, as far as each call is one step. False: a call could not be one, and was inlined.
bool CallTree::order_units(int32_t call) {
  std::map<NodeId, size_t> unit_of_node;
  std::vector<Unit> units;
  std::vector<NodeId> first;
  for (const NodeId n : own_nodes_[call]) {
    unit_of_node[n] = units.size();
    units.push_back({n, -1});
    first.push_back(n);
  }
  for (const int32_t child : children_[call]) {
    NodeId smallest = std::numeric_limits<NodeId>::max();
    visit_nodes(child, [&](NodeId n) {
      unit_of_node[n] = units.size();
      smallest = std::min(smallest, n);
    });
    units.push_back({-1, child});
    first.push_back(smallest);
  }
  std::vector<std::set<size_t>> after(units.size());
  std::vector<size_t> waits(units.size(), 0);
  for (const auto& [n, unit] : unit_of_node) {
    each_value(*implicit_, n, [&, unit = unit](ValueId v) {
      const NodeId from = defining_node(p_->graph, v);
      const auto found = from < 0 ? unit_of_node.end() : unit_of_node.find(from);
      if (found != unit_of_node.end() && found->second != unit && after[found->second].insert(unit).second) ++waits[unit];
    });
  }
  using Entry = std::pair<size_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t u = 0; u < units.size(); ++u) {
    if (waits[u] == 0) ready.emplace(first[u], u);
  }
  std::vector<Unit>& ordered = bodies_[call].units;
  ordered.clear();
  std::vector<bool> done(units.size(), false);
  while (!ready.empty()) {
    const size_t u = ready.top().second;
    ready.pop();
    done[u] = true;
    ordered.push_back(units[u]);
    for (const size_t next : after[u]) {
      if (--waits[next] == 0) ready.emplace(first[next], next);
    }
  }
  if (ordered.size() == units.size()) return true;
  for (size_t u = 0; u < units.size(); ++u) {
    if (done[u] || units[u].call < 0) continue;
    inline_call(units[u].call, "what it computes is used in between by the module around it");
    return false;
  }
  internal_error("the nodes of a module depend on each other in a circle");
}

void CallTree::find_boundary(int32_t call) {
  CallBody& body = bodies_[call];
  const ModuleCall& recorded = p_->calls[call];
  const Graph& g = p_->graph;
  std::set<NodeId> inside;
  visit_nodes(call, [&](NodeId n) { inside.insert(n); });
  Values taken;
  const auto take = [&](ValueId v) {
    const NodeId from = defining_node(g, v);
    const bool outside = from < 0 || inside.count(from) == 0;
    const bool is_in_cache = v == cache_lengths_ && uses_cache_[call];
    if (outside && !is_in_cache && !gap(v) && local_parameter(call, v).empty() &&
        std::find(taken.begin(), taken.end(), v) == taken.end())
      taken.push_back(v);
  };
  for (const Unit& unit : body.units) {
    if (unit.node >= 0) {
      each_value(*implicit_, unit.node, take);
    } else {
      for (const ValueId v : this->body(unit.call).inputs) take(v);
    }
  }
  const auto add = [](Values& values, std::vector<std::string>& names, ValueId v, const std::string& name) {
    if (std::find(values.begin(), values.end(), v) != values.end()) return;
    values.push_back(v);
    names.push_back(name);
  };
  if (call == 0) {
    for (const Input& input : p_->inputs) {
      if (gap(input.value) || input.value == cache_lengths_) continue;
      body.inputs.push_back(input.value);  // all of them: a signature names them all
      body.input_names.push_back(input.name);
    }
    for (const Output& output : p_->outputs) {
      body.outputs.push_back(output.value);
      const size_t dot = output.name.find('.');  // "output.logits"
      body.output_names.push_back(dot == std::string::npos ? std::string() : output.name.substr(dot + 1));
    }
    return;
  }
  std::vector<std::pair<ValueId, std::string>> named;
  for (const auto& [name, tree] : recorded.args) collect(tree, name, named);
  for (const auto& [v, name] : named) {
    if (std::find(taken.begin(), taken.end(), v) != taken.end()) add(body.inputs, body.input_names, v, name);
  }
  for (const ValueId v : taken) add(body.inputs, body.input_names, v, {});

  std::set<ValueId> needed;
  for (const Output& output : p_->outputs) needed.insert(output.value);
  for (const State& s : p_->states) {
    if (cache_lengths_ == kNoValue && s.updated != kNoValue && !contains(call, updating_call(s))) needed.insert(s.updated);
  }
  for (NodeId n = 0; g.nodes.has(n); ++n) {
    if (implicit_->unwritten(n) || inside.count(n) != 0) continue;
    each_value(*implicit_, n, [&](ValueId v) { needed.insert(v); });
  }
  const auto given = [&](ValueId v) { return needed.count(v) != 0 && inside.count(defining_node(g, v)) != 0; };
  named.clear();
  collect_paths(recorded.output, {}, named);
  for (const auto& [v, name] : named) {
    if (v != kNoValue && given(v)) add(body.outputs, body.output_names, v, name);
  }
  for (const NodeId n : inside) {
    for (const ValueId v : g.nodes[n].results) {
      if (given(v)) add(body.outputs, body.output_names, v, fmt::format("inner.{}", body.outputs.size()));
    }
  }
}

}  // namespace pycandle::emit
