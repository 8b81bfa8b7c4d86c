#include "ir/verifier.h"

#include <fmt/format.h>

#include <set>
#include <unordered_set>

namespace pycandle {

namespace {

constexpr int kMaxRegionDepth = 32;

class Verifier {
 public:
  Verifier(const Program& program, std::string_view after) : p_(program), after_(after) {}

  void run() {
    symbols();
    graph(p_.graph, 0);
    interface();
    names();
    calls();
    for (const Check& check : p_.checks) {
      declared(check.left, "a check");
      declared(check.right, "a check");
      place(check.origin, "a check");
    }
    for (const Symbol& symbol : p_.symbols) bound(symbol);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& expected = {}, const std::string& found = {}) {
    Error e(ErrorCode::internal,
            fmt::format("the program is not valid after {}: {}{}", after_, node_ ? node_text() + ": " : "", what));
    if (!expected.empty()) e.expected(expected);
    if (!found.empty()) e.found(found);
    if (node_) {
      if (node_->op) e.op(node_->op->name);
      e.module_path(p_.module_path(node_->origin));
      e.python(p_.file_line(node_->origin), p_.source_line(node_->origin));
    }
    throw e;
  }

  std::string node_text() const {
    std::string results;
    for (ValueId result : node_->results) results += (results.empty() ? "%" : ", %") + std::to_string(result);
    return fmt::format("node {} ({} = {})", node_index_, results.empty() ? "()" : results, node_->op ? node_->op->name : "no op");
  }

  // ---- dims

  void symbols() {
    for (const Symbol& symbol : p_.symbols) {
      if (!declared_.insert(symbol.name).second) fail(fmt::format("symbol {} is declared twice", symbol.name));
      if (symbol.range.max && *symbol.range.max < symbol.range.min) {
        fail(fmt::format("the range of symbol {} is empty", symbol.name), "min at most max",
             fmt::format("[{}, {}]", symbol.range.min, *symbol.range.max));
      }
    }
  }

  void declared(Dim dim, const std::string& where) {
    if (dim.is_number()) return;
    std::vector<std::string> found;
    dim.collect_symbols(found);
    for (const std::string& symbol : found) {
      if (!declared_.count(symbol))
        fail(fmt::format("{} uses symbol {}, which the program does not have", where, symbol), "a declared symbol", dim.text());
    }
  }

  void declared(const Shape& shape, const std::string& where) {
    for (Dim dim : shape) declared(dim, where);
  }

  void sizes(const Type& type, const std::string& where) {
    declared(type.shape, where);
    for (Dim dim : type.shape) {
      if (dim.is_number() && dim.number() < 0) fail(fmt::format("{} has a negative size", where), "0 or more", type.text());
    }
  }

  // A symbol is bound by an axis of an input in which it appears, or by data.
  void bound(const Symbol& symbol) {
    if (symbol.axis < 0) {
      if (!symbol.input.empty())
        fail(fmt::format("symbol {} is bound by input {} without an axis", symbol.name, quoted(symbol.input)));
      return;
    }
    for (const Input& input : p_.inputs) {
      if (input.name != symbol.input) continue;
      const Type& type = p_.graph.type(input.value);
      std::vector<std::string> found;
      if (symbol.axis < type.rank()) type.shape[symbol.axis].collect_symbols(found);
      for (const std::string& name : found) {
        if (name == symbol.name) return;
      }
      fail(fmt::format("axis {} of input {} does not bind symbol {}", symbol.axis, quoted(input.name), symbol.name),
           fmt::format("{} at axis {}", symbol.name, symbol.axis), type.text());
    }
    fail(fmt::format("symbol {} is bound by input {}, which the program does not have", symbol.name, quoted(symbol.input)));
  }

  // ---- graphs

  void graph(const Graph& g, int depth) {
    if (depth > kMaxRegionDepth) fail(fmt::format("regions are nested deeper than {} levels", kMaxRegionDepth));
    PerValue<bool> defined(g.values.size(), false);
    auto define = [&](ValueId value, NodeId node, size_t index) {
      if (!g.values.has(value)) fail(fmt::format("%{} is defined but has no entry in the table of values", value));
      const Value& entry = g.values[value];
      if (defined[value]) fail(fmt::format("%{} is defined twice", value));
      if (entry.node != node || entry.index != static_cast<int32_t>(index)) {
        fail(fmt::format("%{} does not say where it is defined", value), fmt::format("node {}, index {}", node, index),
             fmt::format("node {}, index {}", entry.node, entry.index));
      }
      sizes(entry.type, fmt::format("the type of %{}", value));
      defined[value] = true;
    };
    for (size_t i = 0; i < g.inputs.size(); ++i) define(g.inputs[i], -1, i);
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      const Node* outer = node_;
      size_t outer_index = node_index_;
      node_ = &g.nodes[n];
      node_index_ = n;
      node(g, *node_, defined, depth);
      for (size_t i = 0; i < node_->results.size(); ++i) define(node_->results[i], static_cast<int32_t>(n), i);
      node_ = outer;
      node_index_ = outer_index;
    }
    for (ValueId output : g.outputs) used(defined, output, "an output of the graph");
    for (size_t i = 0; i < defined.size(); ++i) {
      if (!defined[i]) fail(fmt::format("%{} is in the table of values but nothing defines it", i));
    }
  }

  void used(const PerValue<bool>& defined, ValueId value, const std::string& where) {
    if (!defined.has(value) || !defined[value]) {
      fail(fmt::format("{} is %{}, which is not defined {}", where, value, node_ ? "before it" : "in the program"),
           "a defined value", fmt::format("%{}", value));
    }
  }

  void node(const Graph& g, const Node& n, const PerValue<bool>& defined, int depth) {
    if (!n.op) fail("it has no op");
    operands(n, defined);
    attributes(n);
    place(n.origin, "it");
    if (static_cast<int>(n.regions.size()) != n.op->region_count) {
      fail("it has the wrong number of regions", std::to_string(n.op->region_count), std::to_string(n.regions.size()));
    }
    for (const Graph& region : n.regions) graph(region, depth + 1);
    types(g, n);
  }

  void operands(const Node& n, const PerValue<bool>& defined) {
    size_t fixed = n.op->fixed_operands();
    if (n.operands.size() < fixed || (n.operands.size() > fixed && !n.op->has_variadic())) {
      fail("it has the wrong number of operands", (n.op->has_variadic() ? "at least " : "") + std::to_string(fixed),
           std::to_string(n.operands.size()));
    }
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const OperandSpec& spec = n.op->operand_specs[std::min(i, fixed)];
      if (n.operands[i] == kNoValue && spec.kind == OperandSpec::Kind::optional) continue;
      if (n.operands[i] == kNoValue) fail(fmt::format("operand '{}' is absent and not optional", spec.name));
      used(defined, n.operands[i], fmt::format("operand '{}'", spec.name));
    }
  }

  void attributes(const Node& n) {
    const auto& specs = n.op->attr_specs;
    if (n.attributes.size() != specs.size())
      fail("it has the wrong number of attributes", std::to_string(specs.size()), std::to_string(n.attributes.size()));
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto& [name, value] = n.attributes[i];
      if (name != specs[i].name) fail(fmt::format("attribute {} is out of place", i), specs[i].name, name);
      bool absent = std::holds_alternative<std::monostate>(value);
      if (absent ? !specs[i].optional : !is_of_kind(value, specs[i].kind)) {
        fail(fmt::format("attribute '{}' is of the wrong kind", name), std::string(name_of(specs[i].kind)), to_string(value));
      }
      if (const Dim* dim = std::get_if<Dim>(&value)) declared(*dim, fmt::format("attribute '{}'", name));
      if (const Dims* dims = std::get_if<Dims>(&value)) declared(*dims, fmt::format("attribute '{}'", name));
    }
  }

  void types(const Graph& g, const Node& n) {
    Call call(*n.op, g, n.operands, n.attributes, n.regions);
    std::vector<Type> inferred;
    try {
      for (const Constraint& constraint : n.op->constraint_list) {
        if (!constraint.holds(call))
          fail(fmt::format("constraint {} does not hold", constraint.name), constraint.text, call.text());
      }
      inferred = n.op->infer_types(call);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::internal) throw;
      fail(fmt::format("its types cannot be inferred: {}", e.message()), e.expected(), e.found());
    }
    if (inferred.size() != n.results.size()) {
      fail("it has the wrong number of results", std::to_string(inferred.size()), std::to_string(n.results.size()));
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      ValueId result = n.results[i];
      if (!g.values.has(result)) fail(fmt::format("result {} is %{}, which has no entry in the table of values", i, result));
      if (inferred[i] != g.type(result)) {
        fail(fmt::format("the type of %{} is not the inferred one", result), inferred[i].text(),
             fmt::format("{} for {}", g.type(result).text(), call.text()));
      }
    }
  }

  // ---- the program around the graph

  void value(ValueId v, const std::string& what) {
    if (!p_.graph.values.has(v))
      fail(fmt::format("{} is %{}, which is not in the graph", what, v), "a value of the graph", fmt::format("%{}", v));
  }

  void interface() {
    Values inputs, outputs;
    for (const Input& input : p_.inputs) inputs.push_back(input.value);
    for (const Parameter& parameter : p_.parameters) {
      if (parameter.value == kNoValue) continue;
      value(parameter.value, "parameter " + quoted(parameter.name));
      if (parameter.type != p_.graph.type(parameter.value)) {
        fail(fmt::format("parameter {} has another type than its value", quoted(parameter.name)), parameter.type.text(),
             p_.graph.type(parameter.value).text());
      }
      inputs.push_back(parameter.value);
    }
    for (const Output& output : p_.outputs) {
      value(output.value, "output " + quoted(output.name));
      outputs.push_back(output.value);
    }
    for (const State& state : p_.states) {
      inputs.push_back(state.value);
      if (state.updated == kNoValue) continue;
      value(state.value, "state " + quoted(state.name));
      value(state.updated, "the update of state " + quoted(state.name));
      if (p_.graph.type(state.value) != p_.graph.type(state.updated)) {
        fail(fmt::format("state {} changes its type", quoted(state.name)), p_.graph.type(state.value).text(),
             p_.graph.type(state.updated).text());
      }
      outputs.push_back(state.updated);
    }
    same_values("inputs", "inputs, parameters and states", inputs, p_.graph.inputs);
    same_values("outputs", "outputs and updated states", outputs, p_.graph.outputs);
    for (const Tap& tap : p_.taps) value(tap.value, "tap " + quoted(tap.id.text()));
  }

  void same_values(const char* what, const char* from, const Values& expected, const Values& found) {
    if (expected == found) return;
    size_t i = 0;
    while (i < expected.size() && i < found.size() && expected[i] == found[i]) ++i;
    auto text = [&](const Values& values) {
      return i < values.size() ? fmt::format("%{} at position {}", values[i], i) : fmt::format("{} of them", values.size());
    };
    fail(fmt::format("the graph's {} are not the program's {}, in that order", what, from), text(expected), text(found));
  }

  void names() {
    std::set<std::string_view> seen;
    auto unique = [&](const char* what, const std::string& name) {
      if (!seen.insert(name).second) fail(fmt::format("{} {} is there twice", what, quoted(name)));
    };
    for (const Input& input : p_.inputs) unique("input", input.name);
    seen.clear();
    for (const Parameter& parameter : p_.parameters) {
      unique("parameter", parameter.name);
      for (const std::string& alias : parameter.aliases) unique("parameter", alias);
      sizes(parameter.type, "parameter " + quoted(parameter.name));
    }
    seen.clear();
    for (const State& state : p_.states) unique("state", state.name);
    seen.clear();
    for (const Output& output : p_.outputs) unique("output", output.name);
    seen.clear();
    std::set<TapId> taps;
    for (const Tap& tap : p_.taps) {
      if (!taps.insert(tap.id).second) fail(fmt::format("tap {} is there twice", quoted(tap.id.text())));
    }
  }

  void in_table(int32_t index, size_t size, const char* table, const std::string& where) {
    if (index < -1 || index >= static_cast<int64_t>(size)) {
      fail(fmt::format("{} refers to {} {}", where, table, index), fmt::format("-1 to {}", static_cast<int64_t>(size) - 1),
           std::to_string(index));
    }
  }

  void place(const Origin& origin, const std::string& where) {
    in_table(origin.call, p_.calls.size(), "module call", where);
    in_table(origin.file, p_.files.size(), "file", where);
  }

  void calls() {
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      const ModuleCall& call = p_.calls[i];
      std::string where = fmt::format("module call {} ({}@{})", i, quoted(call.path), call.call);
      in_table(call.parent, i, "parent", where);
      in_table(call.class_file, p_.files.size(), "file", where);
      for (const auto& [name, arg] : call.args) tree(arg, where);
      tree(call.output, where);
    }
  }

  void tree(const Tree& t, const std::string& where) {
    if (t.kind == Tree::Kind::value && t.value != kNoValue) value(t.value, "an argument or output of " + where);
    for (const auto& [key, item] : t.items) tree(item, where);
  }

  const Program& p_;
  std::string_view after_;
  std::unordered_set<std::string> declared_;
  const Node* node_ = nullptr;  // being looked at
  size_t node_index_ = 0;
};

}  // namespace

void verify(const Program& program, std::string_view after) { Verifier(program, after).run(); }

}  // namespace pycandle
