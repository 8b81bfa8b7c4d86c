#include "backends/at_sizes.h"

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {
namespace {

using SizeOf = std::map<std::string, Dim, std::less<>>;

Dim at(Dim d, const SizeOf& known) { return d.is_number() ? d : d.substitute(known); }

void set(Shape& shape, const SizeOf& known) {
  for (Dim& d : shape) d = at(d, known);
}

void set(Graph& g, const SizeOf& known) {
  for (Value& value : g.values) set(value.type.shape, known);
  for (Node& node : g.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (Dim* d = std::get_if<Dim>(&attribute)) *d = at(*d, known);
      if (Dims* dims = std::get_if<Dims>(&attribute)) set(*dims, known);
    }
    for (Graph& region : node.regions) set(region, known);
  }
}

void collect_symbols(const Shape& shape, std::vector<std::string>& symbols) {
  for (const Dim d : shape) d.collect_symbols(symbols);
}

bool finds_sizes(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& node) { return finds_a_size(g, node); });
}

}  // namespace

bool finds_a_size(const Graph& g, const Node& node) {
  std::vector<std::string> known, given;
  for (const ValueId v : node.operands) {
    if (v != kNoValue) collect_symbols(g.type(v).shape, known);
  }
  for (const auto& [name, value] : node.attributes) {
    const auto* dim = name == "count" ? nullptr : std::get_if<Dim>(&value);  // count names what the run finds
    if (dim) dim->collect_symbols(known);
    if (const auto* dims = std::get_if<Dims>(&value)) collect_symbols(*dims, known);
  }
  for (const ValueId v : node.results) collect_symbols(g.type(v).shape, given);
  const auto is_new = [&](const std::string& s) { return std::find(known.begin(), known.end(), s) == known.end(); };
  return std::any_of(given.begin(), given.end(), is_new) ||
         std::any_of(node.regions.begin(), node.regions.end(), [](const Graph& region) { return finds_sizes(region); });
}

bool has_data_bound_sizes(const Program& p) {
  return std::any_of(p.symbols.begin(), p.symbols.end(), [](const Symbol& s) { return s.axis < 0; }) && finds_sizes(p.graph);
}

Program at_sizes(Program p, const Bindings& sizes) {
  SizeOf known;
  for (const auto& [symbol, size] : sizes) known.emplace(symbol, Dim(size));
  set(p.graph, known);
  for (Parameter& parameter : p.parameters) set(parameter.type.shape, known);
  for (Check& check : p.checks) {
    check.left = at(check.left, known);
    check.right = at(check.right, known);
  }
  std::erase_if(p.checks, [](const Check& check) { return check.left == check.right; });
  std::erase_if(p.symbols, [&](const Symbol& symbol) { return sizes.count(symbol.name) != 0; });
  return p;
}

}  // namespace pycandle
