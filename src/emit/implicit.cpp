#include "emit/implicit.h"

#include <functional>
#include <string_view>

#include "ops/core/spelling.h"

namespace pycandle::emit {
namespace {

const Node* node_of(const Graph& g, ValueId v) {
  const NodeId n = g.values.at(v).node;
  return n < 0 ? nullptr : &g.nodes[n];
}

bool is(const Node* node, std::string_view op) { return node && node->op->name == op; }

const Attribute& attribute_of(const Node& node, std::string_view name) {
  for (const auto& [key, value] : node.attributes) {
    if (key == name) return value;
  }
  internal_error("an attribute is missing");
}

// The ways to write an operand, the shortest first: what is behind its cast and broadcast, down to the value itself.
std::vector<Operand> ways_to_write(const Graph& g, ValueId v) {
  std::vector<Operand> ways{Operand(v)};
  for (const char* op : {"broadcast", "cast"}) {
    const Node* node = node_of(g, v);
    if (!is(node, op)) continue;
    v = node->operands[0];
    ways.insert(ways.begin(), Operand(v));
  }
  const Node* node = node_of(g, v);
  if (is(node, "constant") && std::get<Dims>(attribute_of(*node, "shape")).empty()) {
    ways.insert(ways.begin(), Operand(scalar_of(attribute_of(*node, "value"))));
  }
  if (is(node, "dim")) ways.insert(ways.begin(), Operand(std::get<Dim>(attribute_of(*node, "value"))));
  return ways;
}

// Writes the op in a graph of its own, as the front end would, and compares what comes out.
class Rehearsal {
 public:
  Rehearsal(const Program& p, const OpTable& table) : p_(&p), table_(&table), ranges_(p.ranges()) {}

  bool gives(const Node& node, const std::vector<Operand>& written) const {
    Graph scratch;
    Builder b(scratch, *table_, nullptr, &ranges_);
    Values originals;
    std::vector<Operand> inputs;
    for (const Operand& operand : written) {
      const ValueId* v = std::get_if<ValueId>(&operand);
      if (v) originals.push_back(*v);
      inputs.push_back(v ? Operand(scratch.add_input(p_->graph.type(*v))) : operand);
    }
    try {
      return equal(node.results[0], p_->graph, originals, scratch, rebuilt(b, node.op->name, inputs));
    } catch (const Error&) {
      return false;  // the front end would refuse it
    }
  }

 private:
  static ValueId rebuilt(Builder& b, const std::string& op, const std::vector<Operand>& inputs) {
    if (op == "select") {
      const ValueId condition = materialise(b, inputs[0], DType::boolean);
      const Values choices = promote(b, {inputs[1], inputs[2]});
      return b.select(condition, choices[0], choices[1]);
    }
    return arithmetic(b, op, inputs[0], inputs[1],
                      b.table().at(op).gives_floats ? std::optional<DType>(float_result(result_type(b, inputs))) : std::nullopt);
  }

  // The value of the program is what the scratch graph computes of the originals.
  bool equal(ValueId v, const Graph& g, const Values& originals, const Graph& scratch, ValueId copy) const {
    const Value& rebuilt = scratch.values[copy];
    if (rebuilt.node < 0) return originals[rebuilt.index] == v;
    const Node* mine = node_of(g, v);
    const Node& theirs = scratch.nodes[rebuilt.node];
    if (!mine || mine->op != theirs.op || mine->operands.size() != theirs.operands.size()) return false;
    if (!same(mine->attributes, theirs.attributes) || g.type(v) != scratch.type(copy)) return false;
    for (size_t i = 0; i < mine->operands.size(); ++i) {
      if (!equal(mine->operands[i], g, originals, scratch, theirs.operands[i])) return false;
    }
    return true;
  }

  const Program* p_;
  const OpTable* table_;
  SymbolRanges ranges_;
};

// A tensor has to be among the operands, or the front end would not know that an op is meant.
bool has_tensor(const std::vector<Operand>& operands) {
  for (const Operand& operand : operands) {
    if (std::holds_alternative<ValueId>(operand)) return true;
  }
  return false;
}

std::vector<Operand> shortest(const Rehearsal& rehearsal, const Graph& g, const Node& node) {
  std::vector<std::vector<Operand>> ways;
  for (const ValueId v : node.operands) ways.push_back(ways_to_write(g, v));
  std::vector<Operand> chosen;
  std::function<bool(size_t)> choose = [&](size_t i) {
    if (i == ways.size()) return has_tensor(chosen) && rehearsal.gives(node, chosen);
    for (const Operand& way : ways[i]) {
      if (i == 0 && node.op->name == "select" && !std::holds_alternative<ValueId>(way)) continue;
      chosen.push_back(way);
      if (choose(i + 1)) return true;
      chosen.pop_back();
    }
    return false;
  };
  if (choose(0)) return chosen;
  return {node.operands.begin(), node.operands.end()};
}

}  // namespace

Implicit::Implicit(const Program& p, const OpTable& table) {
  const Rehearsal rehearsal(p, table);
  const Graph& g = p.graph;
  PerNode<int32_t> written_uses(g.nodes.size(), 0), uses(g.nodes.size(), 0);
  const auto note = [&g](std::vector<int32_t>& counts, ValueId v) {
    if (v == kNoValue) return;
    const NodeId n = g.values[v].node;
    if (n >= 0) ++counts[n];
  };
  for (const Node& node : g.nodes) {
    const bool may_shorten = spelling_of(*node.op).promotes && node.regions.empty();
    operands_.push_back(may_shorten ? shortest(rehearsal, g, node)
                                    : std::vector<Operand>(node.operands.begin(), node.operands.end()));
    for (const ValueId v : node.operands) note(uses, v);
  }
  for (const ValueId v : g.outputs) note(written_uses, v);
  unwritten_.assign(g.nodes.size(), false);
  // From the end: a node that nobody writes does not write its operands either.
  for (size_t n = g.nodes.size(); n-- > 0;) {
    unwritten_[n] = uses[n] > 0 && written_uses[n] == 0;
    if (unwritten_[n]) continue;
    for (const Operand& operand : operands_[n]) {
      if (const ValueId* v = std::get_if<ValueId>(&operand)) note(written_uses, *v);
    }
  }
}

}  // namespace pycandle::emit
