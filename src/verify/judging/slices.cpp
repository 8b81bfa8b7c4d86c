#include "verify/judging/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace pycandle {
namespace {

// A slice has no table of module calls and files.
void forget_places(Graph& g) {
  for (Node& node : g.nodes) {
    node.origin = Origin{};
    for (Graph& region : node.regions) forget_places(region);
  }
}

}  // namespace

bool draws_numbers(const Node& node) {
  return node.op->is_random || std::any_of(node.regions.begin(), node.regions.end(), [](const Graph& region) {
           return std::any_of(region.nodes.begin(), region.nodes.end(), draws_numbers);
         });
}

bool only_moves(const Node& node) {
  return node.op->is_primitive && node.operands.size() == 1 && (node.op->rounding == Rounding::exact || node.op->name == "cast");
}

std::string name_of_value(const Program& p, ValueId v) {
  for (const Tap& tap : p.taps)
    if (tap.value == v && !tap.inside) return tap.id.text();
  for (const Input& input : p.inputs)
    if (input.value == v) return input.name;
  for (const State& state : p.states)
    if (state.value == v) return state.name;
  return "";
}

Slicer::Slicer(const Program& p, PerValue<bool> is_known)
    : program_(p),
      is_known_(std::move(is_known)),
      parameter_of_(p.graph.values.size(), -1),
      node_mark_(p.graph.nodes.size(), -1),
      in_slice_(p.graph.values.size()) {
  for (size_t i = 0; i < p.parameters.size(); ++i) {
    if (p.parameters[i].value != kNoValue) parameter_of_[p.parameters[i].value] = static_cast<int32_t>(i);
  }
}

// Backwards from the value to what is known, then in program order.
std::vector<NodeId> Slicer::nodes_of(ValueId target) {
  const Graph& g = program_.graph;
  std::vector<NodeId> found;
  const auto visit = [&](NodeId node) {
    if (node < 0 || node_mark_[node] == count_) return;
    node_mark_[node] = count_;
    found.push_back(node);
  };
  visit(g.values[target].node);
  for (size_t i = 0; i < found.size(); ++i) {
    for (ValueId v : g.nodes[found[i]].operands) {
      if (v != kNoValue && !is_known_[v]) visit(g.values[v].node);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Slice Slicer::slice(ValueId target) {
  const Graph& g = program_.graph;
  ++count_;
  Slice out;
  Program& p = out.program;
  p.name = program_.name;
  p.symbols = program_.symbols;
  for (Symbol& s : p.symbols) {  // the request says how large they are: no input here binds them
    s.input.clear();
    s.axis = -1;
  }
  const std::vector<NodeId> nodes = nodes_of(target);
  require(!nodes.empty(), "only what a node computes can be sliced");

  std::vector<int32_t> parameters;
  const auto mark = [&](ValueId v) -> Mark& { return in_slice_[v]; };
  const auto in_this_slice = [&](ValueId v) {  // computed in it, and not known before
    const NodeId node = g.values[v].node;
    return node >= 0 && node_mark_[node] == count_ && !is_known_[v];
  };
  for (NodeId n : nodes) {
    for (ValueId v : g.nodes[n].operands) {
      if (v == kNoValue || mark(v).slice == count_ || in_this_slice(v)) continue;
      mark(v).slice = count_;
      if (parameter_of_[v] >= 0 && !is_known_[v]) {
        parameters.push_back(parameter_of_[v]);
      } else {
        mark(v).value = p.graph.add_input(g.type(v));
        p.inputs.push_back({fmt::format("v{}", v), mark(v).value, {}, true});
        out.inputs.push_back(v);
      }
    }
  }
  for (int32_t i : parameters) {
    Parameter parameter = program_.parameters[i];
    Mark& m = mark(parameter.value);
    m.value = parameter.value = p.graph.add_input(parameter.type);
    p.parameters.push_back(std::move(parameter));
  }

  ValueId result = kNoValue;
  for (NodeId n : nodes) {
    const Node& node = g.nodes[n];
    Node copy;
    copy.op = node.op;
    copy.attributes = node.attributes;
    copy.regions = node.regions;
    copy.origin.sliced_from = node.origin.sliced_from >= 0 ? node.origin.sliced_from : n;
    for (Graph& region : copy.regions) forget_places(region);
    for (ValueId v : node.operands) copy.operands.push_back(v == kNoValue ? kNoValue : mark(v).value);
    std::vector<Type> types;
    for (ValueId r : node.results) types.push_back(g.type(r));
    const Values results = p.graph.add_node(std::move(copy), std::move(types)).results;
    for (size_t r = 0; r < results.size(); ++r) {
      const ValueId old = node.results[r];
      if (old == target) result = results[r];
      if (mark(old).slice != count_) mark(old) = {count_, results[r]};  // a known one stays the input it is
    }
    out.has_random_op = out.has_random_op || draws_numbers(node);
  }
  p.outputs.push_back({"output", result});
  p.bind_outputs();

  const Node* last = &g.nodes[g.values[target].node];
  out.origin = last->origin;
  while (only_moves(*last) && in_this_slice(last->operands[0])) {
    last = &g.nodes[g.values[last->operands[0]].node];
  }
  out.last_op = last->op->name;
  return out;
}

}  // namespace pycandle
