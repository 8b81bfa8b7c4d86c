// What one element of an elementwise op is in C.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "backends/c/lowerings.h"
#include "backends/c/text.h"
#include "base/error.h"
#include "ir/builder.h"
#include "passes/constants.h"

namespace pycandle::c {
namespace {

// {a} {b} {c}: operands; {f}: f for float, nothing for double; {s}: f32 or f64; {t}: the computed type; {u}: the unsigned type in
// which integers wrap. A name before "(" that stands in helpers.cpp is written into the file.
struct Form {
  const char* real;
  const char* integer;  // null: the same as real, where there is one
};

const std::map<std::string_view, Form>& forms() {
  static const std::map<std::string_view, Form> table = {
      {"neg", {"-{a}", "({t})(0u - ({u}){a})"}},
      {"sign", {"({t})(({a} > 0) - ({a} < 0))", nullptr}},
      {"exp", {"exp_{s}({a})", nullptr}},
      {"exp2", {"exp2{f}({a})", nullptr}},
      {"expm1", {"expm1{f}({a})", nullptr}},
      {"log", {"log_{s}({a})", nullptr}},
      {"log2", {"log2{f}({a})", nullptr}},
      {"log10", {"log10{f}({a})", nullptr}},
      {"log1p", {"log1p{f}({a})", nullptr}},
      {"sqrt", {"sqrt{f}({a})", nullptr}},
      {"rsqrt", {"1 / sqrt{f}({a})", nullptr}},
      {"sin", {"sin{f}({a})", nullptr}},
      {"cos", {"cos{f}({a})", nullptr}},
      {"tan", {"tan{f}({a})", nullptr}},
      {"asin", {"asin{f}({a})", nullptr}},
      {"acos", {"acos{f}({a})", nullptr}},
      {"atan", {"atan{f}({a})", nullptr}},
      {"sinh", {"sinh{f}({a})", nullptr}},
      {"cosh", {"cosh{f}({a})", nullptr}},
      {"tanh", {"tanh_{s}({a})", nullptr}},
      {"asinh", {"asinh{f}({a})", nullptr}},
      {"acosh", {"acosh{f}({a})", nullptr}},
      {"atanh", {"atanh{f}({a})", nullptr}},
      {"erf", {"erf_{s}({a})", nullptr}},
      {"erfc", {"erfc{f}({a})", nullptr}},
      {"erfinv", {"({t})erfinv_f64({a})", nullptr}},
      {"lgamma", {"({t})lgamma({a})", nullptr}},
      {"ceil", {"ceil{f}({a})", "{a}"}},
      {"floor", {"floor{f}({a})", "{a}"}},
      {"round", {"rint{f}({a})", "{a}"}},
      {"trunc", {"trunc{f}({a})", "{a}"}},
      {"reciprocal", {"1 / {a}", nullptr}},
      {"conj", {"{a}", "{a}"}},
      {"real", {"{a}", "{a}"}},
      {"abs", {"fabs{f}({a})", "({t})({a} < 0 ? 0u - ({u}){a} : ({u}){a})"}},
      {"angle", {"{a} != {a} ? {a} : {a} < 0 ? ({t})3.14159265358979323846 : 0", nullptr}},
      {"isnan", {"{a} != {a}", "0"}},
      {"isinf", {"fabs{f}({a}) == INF_F{bits}", "0"}},
      {"bitwise_not", {nullptr, "({t})~{a}"}},
      {"add", {"{a} + {b}", "({t})(({u}){a} + ({u}){b})"}},
      {"sub", {"{a} - {b}", "({t})(({u}){a} - ({u}){b})"}},
      {"mul", {"{a} * {b}", "({t})(({u}){a} * ({u}){b})"}},
      {"div", {"{a} / {b}", nullptr}},
      {"pow", {"pow{f}({a}, {b})", "({t})pow_i64({a}, {b})"}},
      {"maximum", {"{a} != {a} || {a} > {b} ? {a} : {b}", "{a} > {b} ? {a} : {b}"}},
      {"minimum", {"{a} != {a} || {a} < {b} ? {a} : {b}", "{a} < {b} ? {a} : {b}"}},
      {"fmax", {"{b} != {b} || {a} > {b} ? {a} : {b}", "{a} > {b} ? {a} : {b}"}},
      {"fmin", {"{b} != {b} || {a} < {b} ? {a} : {b}", "{a} < {b} ? {a} : {b}"}},
      {"remainder", {"({t})remainder_f64({a}, {b})", "({t})remainder_i64({a}, {b})"}},
      {"fmod", {"fmod{f}({a}, {b})", "({t})fmod_i64({a}, {b})"}},
      {"floor_divide", {"({t})floor_divide_f64({a}, {b})", "({t})floor_divide_i64({a}, {b})"}},
      {"trunc_divide", {"trunc{f}({a} / {b})", "({t})trunc_divide_i64({a}, {b})"}},
      {"atan2", {"atan2{f}({a}, {b})", nullptr}},
      {"nextafter", {"nextafter{f}({a}, {b})", nullptr}},
      {"bitwise_and", {nullptr, "({t})({a} & {b})"}},
      {"bitwise_or", {nullptr, "({t})({a} | {b})"}},
      {"bitwise_xor", {nullptr, "({t})({a} ^ {b})"}},
      {"shift_left", {nullptr, "({t})({b} < 0 || {b} >= {bits} ? 0 : (uint64_t){a} << {b})"}},
      {"shift_right", {nullptr, "({t})({a} >> ({b} < 0 || {b} >= {bits} ? {bits} - 1 : {b}))"}},
      {"eq", {"{a} == {b}", "{a} == {b}"}},
      {"ne", {"{a} != {b}", "{a} != {b}"}},
      {"lt", {"{a} < {b}", "{a} < {b}"}},
      {"le", {"{a} <= {b}", "{a} <= {b}"}},
      {"gt", {"{a} > {b}", "{a} > {b}"}},
      {"ge", {"{a} >= {b}", "{a} >= {b}"}},
      {"select", {"{a} ? {b} : {c}", "{a} ? {b} : {c}"}},
  };
  return table;
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

const char* unsigned_type(DType d) { return d == DType::i64 ? "uint64_t" : "uint32_t"; }

// What the C standard's mathematics offers and the file's own functions do not: not for --freestanding.
void need_functions_of(Generator& g, const std::string& text) {
  for (size_t at = text.find('('); at != std::string::npos; at = text.find('(', at + 1)) {
    size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_')) --begin;
    if (begin < at) g.need(text.substr(begin, at - begin));
  }
}

std::string cast_text(const std::string& a, DType from, DType to) {
  if (from == to) return a;
  if (to == DType::boolean) return a + " != 0";
  if (is_floating(to)) return formatted("({}){}", computed_type(to), a);
  if (!is_floating(from)) return formatted("({}){}", stored_type(to), a);
  return to == DType::i64 ? formatted("to_i64({})", a) : formatted("({})to_i64({})", stored_type(to), a);
}

std::string filled(const Form& form, DType in, DType out, const std::vector<std::string>& operands) {
  std::string text = is_floating(in) || form.integer == nullptr ? form.real : form.integer;
  const bool is_double = in == DType::f64;
  replace_all(text, "{a}", operands[0]);
  if (operands.size() > 1) replace_all(text, "{b}", operands[1]);
  if (operands.size() > 2) replace_all(text, "{c}", operands[2]);
  replace_all(text, "{f}", is_double ? "" : "f");
  replace_all(text, "{s}", is_double ? "f64" : "f32");
  replace_all(text, "{t}", computed_type(out));
  replace_all(text, "{u}", unsigned_type(in));
  replace_all(text, "{bits}", is_floating(in) ? (is_double ? "64" : "32") : std::to_string(8 * size_of(in)));
  return text;
}

std::string primitive_text(const Graph& g, const Node& node, const std::vector<std::string>& operands) {
  const std::string& op = node.op->name;
  const DType in = g.type(node.operands[op == "select" ? 1 : 0]).dtype, out = g.type(node.results[0]).dtype;
  if (op == "cast") return cast_text(operands[0], in, out);
  if (op == "bitwise_not" && in == DType::boolean) return "!" + operands[0];
  return filled(forms().at(op), in, out, operands);
}

// A functional of single elements, such as gelu: its decomposition, with operands of no axes.
struct Inlined {
  Graph graph;
  ValueId result = kNoValue;
};

bool can_be_inlined(const Graph& g, const OpTable& table, int depth);

Inlined inlined(const Node& node, const Graph& from, const OpTable& table) {
  Inlined made;
  Builder b(made.graph, table);
  Values operands;
  for (const ValueId v : node.operands) operands.push_back(v == kNoValue ? v : made.graph.add_input({from.type(v).dtype, {}}));
  made.result = node.op->decomposition(b, Call(*node.op, made.graph, operands, node.attributes, node.regions, &b)).at(0);
  return made;
}

bool is_form(const Node& node) { return node.op->name == "cast" || forms().count(node.op->name) != 0; }

bool can_be_inlined(const Graph& g, const OpTable& table, int depth) {
  return depth < 8 && std::all_of(
                          g.nodes.begin(), g.nodes.end(),
                          [&](const Node& node) {
                            const std::string& op = node.op->name;
                            if (op == "constant" || op == "reshape" || op == "broadcast" || is_form(node)) return true;
                            return !node.op->is_primitive && node.op->is_pointwise &&
                                   can_be_inlined(inlined(node, g, table).graph, table, depth + 1);
                          });
}

std::string print_inlined(Writer& w, const Graph& from, const Node& node, const std::vector<std::string>& operands) {
  const Inlined body = inlined(node, from, w.generator().table);
  const Graph& g = body.graph;
  PerValue<std::string> texts;
  texts.assign(g.values.size(), {});
  for (size_t i = 0; i < g.inputs.size(); ++i) texts[g.inputs[i]] = operands[i];
  for (const Node& inner : g.nodes) {
    std::string& text = texts[inner.results[0]];
    const std::string& op = inner.op->name;
    if (op == "constant") {
      text = literal(call_of(g, inner).scalar("value"), g.type(inner.results[0]).dtype);
    } else if (op == "reshape" || op == "broadcast") {
      text = texts[inner.operands[0]];
    } else {
      std::vector<std::string> arguments;
      for (const ValueId v : inner.operands) arguments.push_back(v == kNoValue ? "" : texts[v]);
      text = print_element(w, g, inner, arguments);
    }
  }
  return texts[body.result];
}

}  // namespace

bool is_elementwise(const Node& node) {
  return is_form(node) || (!node.op->is_primitive && node.op->is_pointwise && node.results.size() == 1);
}

bool is_inlined_functional(const Call& call, const OpTable& table) {
  if (call.op().is_primitive || !call.op().is_pointwise || !call.op().decomposition) return false;
  Node node;
  node.op = &call.op();
  node.attributes = call.attributes();
  Graph types;
  const Shape* shape = nullptr;
  for (const OperandSpec& spec : call.op().operand_specs) {
    if (spec.kind == OperandSpec::Kind::variadic) return false;
    const std::optional<ValueId> v = call.has(spec.name) ? std::optional(call.value(spec.name)) : std::nullopt;
    node.operands.push_back(v ? types.add_input({call.type(*v).dtype, {}}) : kNoValue);
    if (!v) continue;
    if (!is_supported(call.type(*v).dtype) || (shape && *shape != call.type(*v).shape)) return false;
    shape = &call.type(*v).shape;
  }
  return can_be_inlined(inlined(node, types, table).graph, table, 0);
}

bool may_wait(const Scope& s, ValueId v) {
  static const std::set<std::string_view> kReadersOfX = {"reduce_sum", "reduce_max", "reduce_min",   "reduce_prod", "reduce_and",
                                                         "reduce_or",  "softmax",    "safe_softmax", "layer_norm",  "rms_norm"};
  if (s.uses[v] != 1 || s.user[v] == kNoNode) return false;
  const Node& user = s.graph.nodes[s.user[v]];
  if (is_elementwise(user) || user.op->name == "concat") return true;
  return kReadersOfX.count(user.op->name) != 0 && user.operands[0] == v;
}

std::string print_element(Writer& w, const Graph& g, const Node& node, const std::vector<std::string>& operands) {
  if (!node.op->is_primitive) return print_inlined(w, g, node, operands);
  const DType out = g.type(node.results[0]).dtype;
  const std::string text = rounded(primitive_text(g, node, operands), out);
  need_functions_of(w.generator(), text);
  const std::string name = w.fresh("t");
  w.line(formatted("const {} {} = {};", computed_type(out), name, text));
  return name;
}

}  // namespace pycandle::c
