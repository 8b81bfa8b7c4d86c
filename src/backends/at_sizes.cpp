#include "backends/at_sizes.h"

#include <map>
#include <string>
#include <variant>

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

}  // namespace

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
