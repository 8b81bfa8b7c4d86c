#include "runtime/cost.h"

#include <algorithm>

#include "ir/builder.h"

namespace pycandle {
namespace {

double elements(const Type& type, const Bindings& sizes) {
  double count = 1;
  for (const Dim d : type.shape) count *= static_cast<double>(d.evaluate(sizes));
  return count;
}

double graph_flops(const Graph&, const OpTable&, const Bindings&);

// What the paragraph says, loops by their bodies, the rest one operation an element (movement none).
double primitive_flops(const Graph& graph, const Node& node, const OpTable& table, const Bindings& sizes) {
  const Call call(*node.op, graph, node.operands, node.attributes, node.regions);
  if (node.results.empty()) return 0;
  const double results = elements(graph.type(node.results[0]), sizes);
  if (node.op->flop_count) return node.op->flop_count(call, sizes);
  if (!node.regions.empty()) {
    double inside = 0;
    for (const Graph& region : node.regions) inside += graph_flops(region, table, sizes);
    return node.op->name == "scan" ? inside * static_cast<double>(call.dim("length").evaluate(sizes)) : inside;
  }
  return node.op->rounding == Rounding::exact ? 0 : results;
}

double node_flops(const Graph& graph, const Node& node, const OpTable& table, const Bindings& sizes) {
  if (node.op->is_primitive) return primitive_flops(graph, node, table, sizes);
  Graph body;
  Values operands;
  for (const ValueId v : node.operands) operands.push_back(v == kNoValue ? kNoValue : body.add_input(graph.type(v)));
  Builder builder(body, table);
  node.op->decomposition(builder, Call(*node.op, body, operands, node.attributes, node.regions));
  return graph_flops(body, table, sizes);
}

double graph_flops(const Graph& graph, const OpTable& table, const Bindings& sizes) {
  double total = 0;
  for (const Node& node : graph.nodes) total += node_flops(graph, node, table, sizes);
  return total;
}

int64_t value_bytes(const Type& type, const Bindings& sizes) {
  return static_cast<int64_t>(elements(type, sizes)) * static_cast<int64_t>(size_of(type.dtype));
}

int64_t peak_bytes(const Graph& graph, const Bindings& sizes) {
  PerValue<size_t> last_use(graph.values.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId v : graph.nodes[i].operands) {
      if (v != kNoValue) last_use[v] = i;
    }
  }
  for (const ValueId v : graph.outputs) last_use[v] = graph.nodes.size();
  int64_t live = 0, peak = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const ValueId v : node.results) live += value_bytes(graph.type(v), sizes);
    peak = std::max(peak, live);
    Values ending = node.operands;
    ending.insert(ending.end(), node.results.begin(), node.results.end());
    std::sort(ending.begin(), ending.end());
    ending.erase(std::unique(ending.begin(), ending.end()), ending.end());
    for (const ValueId v : ending) {
      const bool made_here = v != kNoValue && graph.values[v].node >= 0;
      if (made_here && last_use[v] <= i) live -= value_bytes(graph.type(v), sizes);
    }
  }
  return peak;
}

}  // namespace

Bindings example_sizes(const Program& program) {
  Bindings sizes;
  for (const Symbol& symbol : program.symbols) sizes[symbol.name] = symbol.example;
  return sizes;
}

Cost program_cost(const Program& program, const OpTable& table, const Bindings& sizes) {
  Cost cost;
  for (const Parameter& parameter : program.parameters) {
    const auto count = static_cast<int64_t>(elements(parameter.type, sizes));
    cost.parameter_elements += count;
    cost.parameter_bytes += count * static_cast<int64_t>(size_of(parameter.type.dtype));
  }
  for (const Node& node : program.graph.nodes) {
    cost.node_flops.push_back(node_flops(program.graph, node, table, sizes));
    cost.flops += cost.node_flops.back();
  }
  cost.peak_activation_bytes = peak_bytes(program.graph, sizes);
  return cost;
}

}  // namespace pycandle
