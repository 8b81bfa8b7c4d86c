#include "emit/cpp/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "emit/node_forms.h"
#include "ops/core/spelling.h"

namespace pycandle::emit::cpp {
namespace {

// How strongly C++ binds the operands of an infix operator.
Binds binds_of(const std::string& symbol) {
  if (symbol == "+" || symbol == "-") return Binds::sum;
  if (symbol == "*" || symbol == "/" || symbol == "%") return Binds::product;
  if (symbol == "&" || symbol == "|" || symbol == "^") return Binds::bits;
  return Binds::comparison;
}

// .unsqueeze(1), .squeeze(0), .flatten(2)
std::string text_of(const PlainReshape& r) {
  using Kind = PlainReshape::Kind;
  switch (r.kind) {
    case Kind::unsqueeze: return fmt::format(".unsqueeze({})", r.axis);
    case Kind::squeeze: return fmt::format(".squeeze({})", r.axis);
    case Kind::flatten_all: return ".flatten()";
    case Kind::flatten_from: return fmt::format(".flatten({})", r.axis);
    case Kind::flatten: return fmt::format(".flatten({}, {})", r.axis, r.last);
  }
  return {};
}

// 0.09999999999999998 is 1 - 0.9.
std::optional<std::string> rest_of_one(const Scalar& scalar) {
  const double* x = std::get_if<double>(&scalar);
  if (!x || cpp_literal(pycandle::attribute(scalar)).size() < 16) return {};
  for (const double unit : {10.0, 100.0, 1000.0, 10000.0}) {
    const double whole = std::round((1 - *x) * unit) / unit;
    if (1 - whole == *x) return "1 - " + cpp_literal(Attribute(whole));
  }
  return {};
}

}  // namespace

Expression ExpressionPrinter::operand(NodeId n, size_t i) const {
  const Operand& operand = tree_->implicit->operand(n, i);
  const std::string name = fmt::format("operand {}", i);
  if (const ValueId* v = std::get_if<ValueId>(&operand)) return around_->value(*v);
  if (const Dim* d = std::get_if<Dim>(&operand)) return dim_at(n, name, -1, *d);
  const auto field = class_->places.find({static_cast<int32_t>(n), name, -1});
  if (field != class_->places.end()) return {class_->numbers[field->second].name};
  if (const Setting* setting = setting_at(n, name, -1)) return {setting->name};
  if (const auto rest = rest_of_one(std::get<Scalar>(operand))) return {*rest, Binds::sum};
  const std::string text = cpp_literal(pycandle::attribute(std::get<Scalar>(operand)));
  return {text, text[0] == '-' ? Binds::unary : Binds::primary};
}

Expression ExpressionPrinter::dim_at(NodeId n, const std::string& name, int32_t element, Dim d) const {
  const auto field = class_->places.find({static_cast<int32_t>(n), name, element});
  if (field != class_->places.end()) return {class_->numbers[field->second].name};
  if (const Setting* setting = setting_at(n, name, element)) return {setting->name};
  return around_->dim(d);
}

const Setting* ExpressionPrinter::setting_at(NodeId n, const std::string& name, int32_t element) const {
  for (const Setting& setting : class_->settings) {
    if (setting.places.count({static_cast<int32_t>(n), name, element}) != 0) return &setting;
  }
  return nullptr;
}

std::string ExpressionPrinter::dims(NodeId n, const std::string& name) const {
  std::vector<std::string> texts;
  const Dims& all = std::get<Dims>(attribute_of(at(n), name));
  for (size_t i = 0; i < all.size(); ++i) texts.push_back(dim_at(n, name, static_cast<int32_t>(i), all[i]).text);
  return "{" + joined(texts) + "}";
}

std::string ExpressionPrinter::attribute(NodeId n, const std::string& name) const {
  const Attribute& value = attribute_of(at(n), name);
  if (const Dim* d = std::get_if<Dim>(&value)) return dim_at(n, name, -1, *d).text;
  if (std::holds_alternative<Dims>(value)) return dims(n, name);
  const auto field = class_->places.find({static_cast<int32_t>(n), name, -1});
  if (field != class_->places.end()) return class_->numbers[field->second].name;
  if (const Setting* setting = setting_at(n, name, -1)) return setting->name;
  // An optional list is no aggregate: braces alone do not make one.
  return (std::holds_alternative<Numbers>(value) ? "Numbers" : "") + cpp_literal(value);
}

Expression ExpressionPrinter::infix(NodeId n, const char* symbol, Binds binds) const {
  const Expression left = operand(n, 0), right = operand(n, 1);
  // a - b - c is (a - b) - c; a number at the left is as good as anywhere
  const bool chains = left.binds == binds && binds <= Binds::sum;
  return {fmt::format("{} {} {}", chains ? left.text : left.within(binds), symbol, right.within(binds)), binds};
}

Expression ExpressionPrinter::reshape(NodeId n) const {
  const Node& node = at(n);
  const Graph& g = tree_->program->graph;
  if (is_select(g, node) && around_->is_used_once(node.operands[0])) {
    const NodeId s = g.values[node.operands[0]].node;
    const int64_t axis = sliced_axis(g, at(s));
    const Dim start = std::get<Dims>(attribute_of(at(s), "starts"))[axis];
    return {fmt::format("{}.select({}, {})", receiver(s), axis, dim_at(s, "starts", static_cast<int32_t>(axis), start).text)};
  }
  const auto plain = plain_reshape(g, *class_, n);
  return {receiver(n) + (plain ? text_of(*plain) : fmt::format(".reshape({})", dims(n, "shape")))};
}

std::vector<Dim> ExpressionPrinter::written_dims(NodeId n) const {
  return emit::written_dims(tree_->program->graph, *class_, n, around_->is_used_once);
}

Expression ExpressionPrinter::transpose(NodeId n) const {
  const Ints& order = std::get<Ints>(attribute_of(at(n), "permutation"));
  std::vector<size_t> moved;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) moved.push_back(i);
  }
  if (moved.size() == 2) return {fmt::format("{}.transpose({}, {})", receiver(n), moved[0], moved[1])};
  return {fmt::format("{}.permute({})", receiver(n), cpp_literal(order))};
}

Expression ExpressionPrinter::broadcast(NodeId n) const {
  const Node& node = at(n);
  const Shape &before = shape(node.operands[0]), &after = shape(node.results[0]);
  const size_t more = after.size() - before.size();
  if (!is_aligned(node, more)) return functional(n);
  std::vector<std::string> sizes;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool keeps = i >= more && before[i - more] == after[i];
    sizes.push_back(keeps ? "-1" : dim_at(n, "shape", static_cast<int32_t>(i), after[i]).text);
  }
  return {fmt::format("{}.expand({{{}}})", receiver(n), joined(sizes))};
}

Expression ExpressionPrinter::slice(NodeId n) const {
  const Node& node = at(n);
  const int64_t axis = sliced_axis(tree_->program->graph, node);
  if (axis < 0) return functional(n);
  const auto i = static_cast<size_t>(axis);
  const Dim start = std::get<Dims>(attribute_of(node, "starts"))[i], stop = std::get<Dims>(attribute_of(node, "stops"))[i];
  const int64_t step = std::get<Ints>(attribute_of(node, "steps"))[i];
  const std::string from = dim_at(n, "starts", static_cast<int32_t>(axis), start).text;
  const std::string last = step == 1 ? "" : fmt::format(", {}", step);
  if (stop == shape(node.operands[0])[i]) return {fmt::format("{}.slice_from({}, {}{})", receiver(n), axis, from, last)};
  const std::string to = dim_at(n, "stops", static_cast<int32_t>(axis), stop).text;
  return {fmt::format("{}.slice({}, {}, {}{})", receiver(n), axis, from, to, last)};
}

Expression ExpressionPrinter::split(NodeId n) const {
  const Node& node = at(n);
  const Dims& sizes = std::get<Dims>(attribute_of(node, "sizes"));
  const std::string axis = attribute(n, "axis");
  const auto whole = shape(node.operands[0])[std::get<int64_t>(attribute_of(node, "axis"))];
  const bool alike = std::all_of(sizes.begin(), sizes.end(), [&](Dim d) { return d == sizes[0]; }) && whole.is_number();
  if (alike) return {fmt::format("{}.chunk<{}>({})", receiver(n), sizes.size(), axis)};
  return {fmt::format("{}.split<{}>({}, {})", receiver(n), sizes.size(), dims(n, "sizes"), axis)};
}

Expression ExpressionPrinter::arange(NodeId n) const {
  const Node& node = at(n);
  const bool from_zero = std::get<Dim>(attribute_of(node, "start")) == Dim(0);
  const bool by_one = std::get<int64_t>(attribute_of(node, "step")) == 1;
  const bool of_i64 = std::get<DType>(attribute_of(node, "dtype")) == DType::i64;
  if (from_zero && by_one && of_i64) return {fmt::format("arange({})", attribute(n, "stop"))};
  std::string more;
  if (!by_one || !of_i64) more += ", " + attribute(n, "step");
  if (!of_i64) more += ", " + attribute(n, "dtype");
  return {fmt::format("arange({}, {}{})", attribute(n, "start"), attribute(n, "stop"), more)};
}

// x.sum({1}), x.mean({-1}, true): the reductions that tensors have as members; others are functionals.
Expression ExpressionPrinter::reduction(NodeId n, const char* member) const {
  const Node& node = at(n);
  const DType dtype = tree_->program->graph.type(node.operands[0]).dtype;
  const bool is_field = class_->places.count({static_cast<int32_t>(n), "axes", -1}) != 0;
  if (node.op->name == "reduce_sum" && !is_inexact(dtype) && dtype != DType::i64) return functional(n);  // would be widened
  bool keep = false;
  for (const auto& [key, value] : node.attributes) {
    if (key == "keep") keep = std::get<bool>(value);
    if (key != "keep" && key != "axes") return functional(n);
  }
  if (is_field) return functional(n);
  return {fmt::format("{}.{}({}{})", receiver(n), member, attribute(n, "axes"), keep ? ", true" : "")};
}

// cache.key.append(key): the cache knows the lengths.
Expression ExpressionPrinter::of_cache(NodeId n) const {
  const Node& node = at(n);
  const int64_t axis = std::get<int64_t>(attribute_of(node, "axis"));
  const bool is_usual = axis + 2 == static_cast<int64_t>(shape(node.operands[0]).size());
  return {fmt::format("{}.{}({}{})", argument(n, 0), node.op->name == "cache_append" ? "append" : "last", argument(n, 1),
                      is_usual ? "" : fmt::format(", {}", axis))};
}

Expression ExpressionPrinter::functional(NodeId n) const {
  const Node& node = at(n);
  const CallSpelling spelling = spelling_of(*node.op);
  using Part = CallSpelling::Part;
  std::vector<std::string> arguments, options;
  for (const Part& part : spelling.positional) {
    if (part.kind == Part::Kind::attribute) {
      arguments.push_back(attribute(n, node.op->attr_specs[part.index].name));
    } else if (part.kind == Part::Kind::operand) {
      arguments.push_back(argument(n, part.index));
    } else {
      std::vector<std::string> list;
      for (size_t i = part.index; i < node.operands.size(); ++i) list.push_back(argument(n, i));
      arguments.push_back("{" + joined(list) + "}");
    }
  }
  for (const Part& part : spelling.options) {
    if (part.kind != Part::Kind::attribute) {
      if (node.operands[part.index] != kNoValue) options.push_back(fmt::format(".{} = {}", part.name, argument(n, part.index)));
      continue;
    }
    const AttrSpec& spec = node.op->attr_specs[part.index];
    const Attribute& value = attribute_of(node, spec.name);
    const bool is_field = class_->places.count({static_cast<int32_t>(n), spec.name, -1}) != 0 || setting_at(n, spec.name, -1);
    if (!is_field && same(value, spec.default_value.value_or(Attribute{}))) continue;
    options.push_back(fmt::format(".{} = {}", part.name, attribute(n, spec.name)));
  }
  if (!options.empty()) arguments.push_back("{" + joined(options) + "}");
  return {fmt::format("{}{}({})", spelling.is_free ? "" : "functional::", spelling.name, joined(arguments))};
}

Expression ExpressionPrinter::node(NodeId n) const {
  const Node& node = at(n);
  const std::string& op = node.op->name;
  const auto& [form, text] = node.op->cpp;
  if (form == CppForm::Kind::infix) return infix(n, text.c_str(), binds_of(text));
  if (form == CppForm::Kind::prefix) return {text + operand(n, 0).within(Binds::unary), Binds::unary};
  if (form == CppForm::Kind::member) return reduction(n, text.c_str());
  if (op == "reshape") return reshape(n);
  if (op == "transpose") return transpose(n);
  if (op == "broadcast") return broadcast(n);
  if (op == "slice") return slice(n);
  if (op == "split") return split(n);
  if (op == "arange") return arange(n);
  if (op == "cast") return {fmt::format("{}.to({})", receiver(n), attribute(n, "dtype"))};
  if (op == "constant") {
    return {fmt::format("full({}, {}, {})", dims(n, "shape"), attribute(n, "value"), attribute(n, "dtype"))};
  }
  if (op == "cache_append" || op == "cache_last") return of_cache(n);
  if (op == "concat") {
    std::vector<std::string> list;
    for (size_t i = 0; i < node.operands.size(); ++i) list.push_back(argument(n, i));
    return {fmt::format("cat({{{}}}, {})", joined(list), attribute(n, "axis"))};
  }
  return functional(n);
}

}  // namespace pycandle::emit::cpp
