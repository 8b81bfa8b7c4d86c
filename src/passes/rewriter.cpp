#include "passes/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace pycandle {
namespace {

ValueId mapped(const Values& map, ValueId v) { return v == kNoValue ? kNoValue : map[v]; }

void remap(Tree& tree, const Values& map) {
  if (tree.kind == Tree::Kind::value) {
    tree.value = mapped(map, tree.value);
    if (tree.value == kNoValue) tree = Tree{};  // nobody uses the value, so it is gone
  }
  for (auto& [key, item] : tree.items) remap(item, map);
}

// Every reference of the program into its graph follows the map (old value → new value).
void remap_references(Program& p, const Values& map) {
  for (Input& i : p.inputs) i.value = mapped(map, i.value);
  for (Parameter& q : p.parameters) q.value = mapped(map, q.value);
  for (State& s : p.states) {
    s.value = mapped(map, s.value);
    s.updated = mapped(map, s.updated);
  }
  for (Output& o : p.outputs) o.value = mapped(map, o.value);
  for (Tap& t : p.taps) t.value = mapped(map, t.value);
  for (ModuleCall& c : p.calls) {
    for (auto& [name, tree] : c.args) remap(tree, map);
    remap(c.output, map);
  }
}

Values copy_inputs(const Graph& old, Graph& fresh) {
  Values map(old.values.size(), kNoValue);
  for (ValueId v : old.inputs) map[v] = fresh.add_input(old.type(v));
  return map;
}

void copy_node(Node& node, Graph& old, Graph& fresh, Values operands, Values& map) {
  std::vector<Type> types;
  types.reserve(node.results.size());
  for (ValueId r : node.results) types.push_back(std::move(old.values[r].type));
  const Values results = std::move(node.results);
  node.results = {};
  node.operands = std::move(operands);
  const Node& copy = fresh.add_node(std::move(node), std::move(types));
  for (size_t i = 0; i < results.size(); ++i) map[results[i]] = copy.results[i];
}

// A replacement stands for the old value everywhere, so it must have its type.
ValueId reconciled(Builder& b, ValueId value, const Type& expected, const Node& node) {
  const Type& type = b.type(value);
  if (type == expected) return value;
  bool agrees = type.dtype == expected.dtype && type.rank() == expected.rank();
  for (int64_t i = 0; agrees && i < expected.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    agrees = b.check(type.shape[axis], expected.shape[axis],
                     fmt::format("dim {} of {} and of what it was rewritten to", i, node.op->name));
  }
  if (!agrees) {
    internal_error(
        fmt::format("{} was rewritten to a value of another type: {} became {}", node.op->name, expected.text(), type.text()));
  }
  return b.reshape(value, expected.shape);
}

enum class Regions { rewrite, keep, alone };

Values rewrite_graph(Graph& old, Builder& b, const RewriteRule& rule, Regions regions) {
  Graph& fresh = b.graph();
  Values map = copy_inputs(old, fresh);
  Values operands;
  for (Node& node : old.nodes) {
    operands.clear();
    for (ValueId v : node.operands) operands.push_back(mapped(map, v));
    b.origin = node.origin;
    if (std::optional<Values> replacement = regions == Regions::alone ? std::nullopt : rule(b, node, operands)) {
      require(replacement->size() == node.results.size(), "a rewrite must give every result of the node");
      for (size_t i = 0; i < node.results.size(); ++i) {
        const ValueId result = node.results[i];
        map[result] = reconciled(b, (*replacement)[i], old.type(result), node);
      }
      continue;
    }
    for (Graph& region : node.regions) {
      if (regions == Regions::keep) break;
      Graph body;
      Builder inner = b.region(body);
      rewrite_graph(region, inner, rule, Regions::rewrite);
      region = std::move(body);
    }
    copy_node(node, old, fresh, operands, map);
  }
  for (ValueId v : old.outputs) fresh.outputs.push_back(mapped(map, v));
  return map;
}

// Sizes that depend on data (nonzero) are bound by the first node whose result mentions them. That node must stay as
// long as anything uses the symbol, even when nobody uses its values.
class DataBoundSymbols {
 public:
  explicit DataBoundSymbols(const Program& p) {
    for (const Symbol& s : p.symbols) {
      if (s.axis < 0) binder_.emplace(s.name, -1);
    }
    if (binder_.empty()) return;
    for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
      for (const std::string& symbol : symbols_of(p.graph, p.graph.nodes[n])) {
        const auto found = binder_.find(symbol);
        if (found != binder_.end() && found->second < 0) found->second = static_cast<int64_t>(n);
      }
    }
  }

  template <class Visit> void binders(const Graph& g, const Node& node, const Visit& visit) const {
    if (binder_.empty()) return;
    for (const std::string& symbol : symbols_of(g, node)) visit_binder(symbol, visit);
  }
  template <class Visit> void binders(const Check& check, const Visit& visit) const {
    if (binder_.empty()) return;
    std::vector<std::string> symbols;
    check.left.collect_symbols(symbols);
    check.right.collect_symbols(symbols);
    for (const std::string& symbol : symbols) visit_binder(symbol, visit);
  }

 private:
  template <class Visit> void visit_binder(const std::string& symbol, const Visit& visit) const {
    const auto found = binder_.find(symbol);
    if (found != binder_.end() && found->second >= 0) visit(static_cast<size_t>(found->second));
  }

  static std::vector<std::string> symbols_of(const Graph& g, const Node& node) {
    std::vector<std::string> symbols;
    const auto collect = [&](const Shape& shape) {
      for (Dim d : shape) d.collect_symbols(symbols);
    };
    for (ValueId r : node.results) collect(g.type(r).shape);
    for (const auto& [name, value] : node.attributes) {
      if (const Dim* d = std::get_if<Dim>(&value)) d->collect_symbols(symbols);
      if (const Dims* ds = std::get_if<Dims>(&value)) collect(*ds);
    }
    for (const Graph& region : node.regions) {
      for (const Node& inner : region.nodes) {
        const std::vector<std::string> more = symbols_of(region, inner);
        symbols.insert(symbols.end(), more.begin(), more.end());
      }
    }
    return symbols;
  }

  std::map<std::string, int64_t, std::less<>> binder_;
};

// Marks backwards from `live` values; nodes come after what they use, so one sweep from the end is enough. A binder of
// a data-bound symbol stands before its users too.
PerNode<bool> live_nodes(const Graph& g, PerValue<bool>& live_values, PerNode<bool> live, const DataBoundSymbols* symbols) {
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const Node& node = g.nodes[n];
    const bool used = live[n] || std::any_of(node.results.begin(), node.results.end(), [&](ValueId r) { return live_values[r]; });
    live[n] = used;
    if (!used) continue;
    for (ValueId v : node.operands) {
      if (v != kNoValue) live_values[v] = true;
    }
    if (symbols) symbols->binders(g, node, [&](size_t binder) { live[binder] = true; });
  }
  return live;
}

Values keep_nodes(Graph& old, Graph& fresh, const PerNode<bool>& live);

Graph without_dead_nodes(Graph old) {
  PerValue<bool> live_values(old.values.size());
  for (ValueId v : old.outputs) live_values[v] = true;
  const PerNode<bool> live = live_nodes(old, live_values, PerNode<bool>(old.nodes.size()), nullptr);
  Graph fresh;
  keep_nodes(old, fresh, live);
  return fresh;
}

Values keep_nodes(Graph& old, Graph& fresh, const PerNode<bool>& live) {
  Values map = copy_inputs(old, fresh);
  for (size_t n = 0; n < old.nodes.size(); ++n) {
    if (!live[n]) continue;
    Node& node = old.nodes[n];
    for (Graph& region : node.regions) region = without_dead_nodes(std::move(region));
    Values operands;
    operands.reserve(node.operands.size());
    for (ValueId v : node.operands) operands.push_back(mapped(map, v));
    copy_node(node, old, fresh, std::move(operands), map);
  }
  for (ValueId v : old.outputs) fresh.outputs.push_back(mapped(map, v));
  return map;
}

Program rewritten(Program p, const OpTable& table, const RewriteRule& rule, Regions regions) {
  Graph old = std::exchange(p.graph, Graph{});
  const SymbolRanges ranges = p.ranges();
  Builder b(p.graph, table, &p.checks, &ranges);
  const Values map = rewrite_graph(old, b, rule, regions);
  remap_references(p, map);
  return p;
}

template <class Visit> void for_each_value(const Tree& tree, const Visit& visit) {
  if (tree.kind == Tree::Kind::value) visit(tree.value);
  for (const auto& [key, item] : tree.items) for_each_value(item, visit);
}

}  // namespace

Program rewrite(Program p, const OpTable& table, const RewriteRule& rule) {
  return rewritten(std::move(p), table, rule, Regions::rewrite);
}

Program rewrite_outside_regions(Program p, const OpTable& table, const RewriteRule& rule) {
  return rewritten(std::move(p), table, rule, Regions::keep);
}

Program rewrite_inside_regions(Program p, const OpTable& table, const RewriteRule& rule) {
  return rewritten(std::move(p), table, rule, Regions::alone);
}

PerValue<int32_t> use_counts(const Program& p) {
  PerValue<int32_t> counts(p.graph.values.size());
  const auto count = [&](ValueId v) {
    if (v != kNoValue) ++counts[v];
  };
  for (const Node& node : p.graph.nodes) {
    for (ValueId v : node.operands) count(v);
  }
  for (ValueId v : p.graph.outputs) count(v);
  for (const Tap& t : p.taps) count(t.value);
  for (const ModuleCall& c : p.calls) {
    for (const auto& [name, tree] : c.args) for_each_value(tree, count);
    for_each_value(c.output, count);
  }
  return counts;
}

Program without_dead_nodes(Program p) {
  const DataBoundSymbols symbols(p);
  PerValue<bool> live_values(p.graph.values.size());
  const auto need = [&](ValueId v) {
    if (v != kNoValue) live_values[v] = true;
  };
  for (ValueId v : p.graph.outputs) need(v);
  for (const Output& o : p.outputs) need(o.value);
  for (const State& s : p.states) need(s.updated);
  for (const Tap& t : p.taps) need(t.value);
  PerNode<bool> live(p.graph.nodes.size());
  for (const Check& c : p.checks) symbols.binders(c, [&](size_t binder) { live[binder] = true; });
  live = live_nodes(p.graph, live_values, std::move(live), &symbols);

  Graph old = std::exchange(p.graph, Graph{});
  const Values map = keep_nodes(old, p.graph, live);
  remap_references(p, map);
  return p;
}

}  // namespace pycandle
