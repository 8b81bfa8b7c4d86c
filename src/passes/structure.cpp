#include "passes/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/op_def.h"

namespace pycandle {
namespace {

// A program's values, each with its hash and the text that was hashed.
class Hashes {
 public:
  explicit Hashes(const Program& program) : program_(program) {
    name_symbols();
    graph(program.graph, known_);
    std::map<ValueId, std::string> given;
    for (size_t i = 0; i < program.inputs.size(); ++i) given[program.inputs[i].value] = fmt::format("input {}", i);
    for (const Parameter& p : program.parameters) {
      if (p.value != kNoValue) given[p.value] = "parameter " + p.name;
    }
    for (const State& s : program.states) given[s.value] = "state " + s.name;
    for (const auto& [value, name] : given) known_[value] = hash128(fmt::format("{}: {}", name, text(program.graph.type(value))));
    given_ = std::move(given);
    nodes(program.graph, known_);
  }

  Hash128 of(ValueId v) const { return v == kNoValue ? Hash128{} : known_.at(v); }
  std::string given(ValueId v) const {
    const auto found = given_.find(v);
    return found == given_.end() ? "" : found->second;
  }

  std::string text(const Type& type) const { return fmt::format("{}{}", name_of(type.dtype), text(Attribute(type.shape))); }
  std::string text(const Attribute& a) const {
    if (const Dim* dim = std::get_if<Dim>(&a)) return to_string(Attribute(renamed(*dim)));
    if (const Dims* dims = std::get_if<Dims>(&a)) {
      Dims all;
      for (Dim d : *dims) all.push_back(renamed(d));
      return to_string(Attribute(all));
    }
    return to_string(a);
  }

 private:
  using Known = std::map<ValueId, Hash128>;

  // A size by the first input that has it, wherever the program says it is bound: keyword arguments may stand in another order.
  void name_symbols() {
    size_t by_data = 0;
    for (const Symbol& symbol : program_.symbols) {
      const Dim size = Dim::symbol(symbol.name);
      std::string name = fmt::format("data{}", by_data);
      if (symbol.axis < 0) ++by_data;
      for (size_t i = program_.inputs.size(); symbol.axis >= 0 && i-- > 0;) {
        const Shape& shape = program_.graph.type(program_.inputs[i].value).shape;
        const auto axis = std::find(shape.begin(), shape.end(), size);
        if (axis != shape.end()) name = fmt::format("i{}a{}", i, axis - shape.begin());
      }
      symbols_.emplace(symbol.name, Dim::symbol(name));
    }
  }

  Dim renamed(Dim d) const { return d.is_number() ? d : d.substitute(symbols_); }

  void graph(const Graph& g, Known& known) const {
    for (size_t i = 0; i < g.inputs.size(); ++i) known[g.inputs[i]] = hash128(fmt::format("value {}", i));
  }

  void nodes(const Graph& g, Known& known) {
    for (const Node& node : g.nodes) {
      std::string key = node.op->name;
      for (const auto& [name, value] : node.attributes) key += fmt::format(" {}={}", name, text(value));
      for (ValueId operand : node.operands) key += operand == kNoValue ? " -" : " " + known.at(operand).text();
      for (const Graph& region : node.regions) {
        Known inside;
        graph(region, inside);
        nodes(region, inside);
        for (ValueId output : region.outputs) key += " > " + inside.at(output).text();
      }
      if (node.op->is_random) key += fmt::format(" #{}", random_ops_++);  // two draws are not one
      for (size_t i = 0; i < node.results.size(); ++i) known[node.results[i]] = hash128(fmt::format("{} .{}", key, i));
    }
  }

  const Program& program_;
  std::map<std::string, Dim, std::less<>> symbols_;
  Known known_;
  std::map<ValueId, std::string> given_;
  size_t random_ops_ = 0;
};

std::vector<std::pair<std::string, ValueId>> ends(const Program& p) {
  std::vector<std::pair<std::string, ValueId>> all;
  all.reserve(p.outputs.size() + p.states.size());
  for (const Output& output : p.outputs) all.emplace_back(output.name, output.value);
  std::map<std::string, ValueId> updated;  // by name: their order says nothing
  for (const State& state : p.states) {
    if (state.updated != kNoValue) updated.emplace("state " + state.name, state.updated);
  }
  all.insert(all.end(), updated.begin(), updated.end());
  return all;
}

struct Side {
  const Program& program;
  const Hashes& hashes;

  const Node* node(ValueId v) const {
    const Value& value = program.graph.values[v];
    return value.node < 0 ? nullptr : &program.graph.nodes[value.node];
  }
  std::string name(ValueId v) const {
    if (v == kNoValue) return "nothing";
    const Node* made_by = node(v);
    if (!made_by) return fmt::format("{} ({})", hashes.given(v), hashes.text(program.graph.type(v)));
    const std::string place = program.module_path(made_by->origin), line = program.file_line(made_by->origin);
    return fmt::format("{}{}{} ({})", made_by->op->name, place.empty() ? "" : " at " + place, line.empty() ? "" : ", " + line,
                       hashes.text(program.graph.type(v)));
  }
};

// Two values that differ: why, as deep as it can be said.
std::string difference(const Side& a, const Side& b, ValueId left, ValueId right) {
  std::string used_by;  // the last op that both have: "linear at fc@0 (f32[2, 4]) has weight = "
  for (;;) {
    const Node *x = left == kNoValue ? nullptr : a.node(left), *y = right == kNoValue ? nullptr : b.node(right);
    if (!x || !y) return fmt::format("{}{}, the other {}", used_by, a.name(left), b.name(right));
    if (x->op != y->op || x->operands.size() != y->operands.size())
      return fmt::format("{}, the other {}", a.name(left), b.name(right));
    const int32_t left_index = a.program.graph.values[left].index;
    const int32_t right_index = b.program.graph.values[right].index;
    if (left_index != right_index)
      return fmt::format("{} gives its result {}, the other {}", a.name(left), left_index, right_index);
    for (size_t i = 0; i < x->attributes.size(); ++i) {
      const std::string one = a.hashes.text(x->attributes[i].second), other = b.hashes.text(y->attributes[i].second);
      if (one != other) return fmt::format("{} has {} = {}, the other {}", a.name(left), x->attributes[i].first, one, other);
    }
    size_t place = 0;
    while (place < x->operands.size() && a.hashes.of(x->operands[place]) == b.hashes.of(y->operands[place])) ++place;
    if (place == x->operands.size()) return fmt::format("the regions of {}", a.name(left));
    const size_t named = std::min(place, x->op->operand_specs.size() - 1);  // the last may stand for many
    used_by = fmt::format("{} has {} = ", a.name(left), x->op->operand_specs[named].name);
    left = x->operands[place];
    right = y->operands[place];
  }
}

}  // namespace

Structure structure_of(const Program& p) {
  const Hashes hashes(p);
  Structure structure;
  for (const auto& [name, value] : ends(p)) structure.outputs.emplace_back(name, hashes.of(value));
  return structure;
}

Hash128 hash_of(const Structure& structure) {
  std::string text;
  for (const auto& [name, hash] : structure.outputs) text += fmt::format("{}={};", name, hash.text());
  return hash128(text);
}

std::vector<Hash128> value_hashes(const Program& p) {
  const Hashes hashes(p);
  std::vector<Hash128> all;
  all.reserve(p.graph.values.size());
  for (size_t v = 0; v < p.graph.values.size(); ++v) all.push_back(hashes.of(static_cast<ValueId>(v)));
  return all;
}

std::string first_difference(const Program& a, const Program& b) {
  const Hashes left(a), right(b);
  const auto ends_a = ends(a), ends_b = ends(b);
  for (size_t i = 0; i < ends_a.size() || i < ends_b.size(); ++i) {
    const std::string one = i < ends_a.size() ? ends_a[i].first : "nothing";
    const std::string other = i < ends_b.size() ? ends_b[i].first : "nothing";
    if (one != other) return fmt::format("output {} is {}, the other {}", i, one, other);
    if (left.of(ends_a[i].second) != right.of(ends_b[i].second))
      return fmt::format("{}: {}", one, difference({a, left}, {b, right}, ends_a[i].second, ends_b[i].second));
  }
  return "";
}

}  // namespace pycandle
