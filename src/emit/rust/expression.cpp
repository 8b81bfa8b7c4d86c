#include "emit/rust/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "emit/node_forms.h"
#include "emit/rust/spellings.h"

namespace pycandle::emit::rust {
namespace {

// Ops whose text depends on types and on what stands around them.
const std::map<std::string, const char*>& infix() {
  static const std::map<std::string, const char*> signs{{"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}};
  return signs;
}
const std::set<std::string>& written_here() {
  static const std::set<std::string> ops{
      "add",         "sub",       "mul",       "div",          "pow",          "maximum", "minimum",     "fmax",
      "fmin",        "remainder", "fmod",      "floor_divide", "trunc_divide", "atan2",   "bitwise_and", "bitwise_or",
      "bitwise_xor", "eq",        "ne",        "lt",           "le",           "gt",      "ge",          "select",
      "reshape",     "transpose", "broadcast", "slice",        "split",        "cast",    "reduce_sum",  "mean"};
  return ops;
}

bool is_candle(DType d) {
  return !is_complex(d) &&
         (is_floating(d) || d == DType::i64 || d == DType::i32 || d == DType::i16 || d == DType::u8 || d == DType::boolean);
}

bool is_wide(DType d) { return d == DType::f32 || d == DType::f64; }
bool is_power_of_two(double x) {
  int exponent = 0;
  return x != 0 && std::isfinite(x) && std::abs(std::frexp(x, &exponent)) == 0.5;
}
bool is_literal(const std::string& text) { return !text.empty() && text.find_first_not_of("-0123456789.e") == std::string::npos; }

// From 0 by 1 in i64.
bool is_plain_arange(const Node& node) {
  return std::get<Dim>(attribute_of(node, "start")) == Dim(0) && std::get<int64_t>(attribute_of(node, "step")) == 1 &&
         std::get<DType>(attribute_of(node, "dtype")) == DType::i64 && !std::get<Dim>(attribute_of(node, "stop")).is_number();
}

std::string as_float(const std::string& number) {
  if (!is_literal(number)) return number.starts_with("f64::") ? number : fmt::format("{} as f64", number);
  return number.find_first_of(".e") == std::string::npos ? number + ".0" : number;
}

}  // namespace

bool is_spelled(const Call& c) {
  for (size_t i = 0; i < c.op().operand_specs.size(); ++i) {
    const OperandSpec& operand = c.op().operand_specs[i];
    if (operand.kind == OperandSpec::Kind::variadic) {
      for (const ValueId v : c.values(operand.name)) {
        if (!is_candle(c.type(v).dtype)) return false;
      }
    } else if (const auto v = c.maybe(operand.name); v && !is_candle(c.type(*v).dtype)) {
      return false;
    }
  }
  return written_here().count(c.op().name) != 0 || spelling(c) != nullptr;
}

// ---- operands and attributes

std::string ExpressionPrinter::field_at(NodeId n, const std::string& name, int32_t element) const {
  const auto field = class_->places.find({static_cast<int32_t>(n), name, element});
  if (field != class_->places.end()) return "self." + class_->numbers[field->second].name;
  for (const Setting& setting : class_->settings) {
    if (setting.places.count({static_cast<int32_t>(n), name, element}) != 0) return "self." + setting.name;
  }
  return {};
}

std::string ExpressionPrinter::dim_at(NodeId n, const std::string& name, int32_t element, Dim d) const {
  const std::string field = field_at(n, name, element);
  return field.empty() ? around_->dim(d) : field;
}

std::string ExpressionPrinter::number(NodeId n, size_t i) const {
  const Operand& operand = tree_->implicit->operand(n, i);
  const std::string name = fmt::format("operand {}", i);
  if (const Dim* d = std::get_if<Dim>(&operand)) return dim_at(n, name, -1, *d);
  const std::string field = field_at(n, name, -1);
  if (!field.empty()) return field;
  const Attribute value = pycandle::attribute(std::get<Scalar>(operand));
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  return rust_literal(value);
}

std::string ExpressionPrinter::borrowed(NodeId n, size_t i) const { return around_->value(tensor(n, i)).borrowed(); }
std::string ExpressionPrinter::any(NodeId n, size_t i) const { return is_tensor(n, i) ? borrowed(n, i) : number(n, i); }
// Booleans are U8 in Candle: they become what the result is.
std::string ExpressionPrinter::as_number(NodeId n, size_t i) const {
  const DType to = type(at(n).results[0]).dtype;
  const bool is_boolean = type(tensor(n, i)).dtype == DType::boolean && to != DType::boolean;
  return is_boolean ? fmt::format("&{}.to_dtype({})?", receiver(n, i), dtype_literal(to)) : borrowed(n, i);
}
std::string ExpressionPrinter::receiver(NodeId n, size_t i) const { return around_->value(tensor(n, i)).text; }

std::vector<std::string> ExpressionPrinter::dims(NodeId n, const std::string& name) const {
  std::vector<std::string> texts;
  const Dims& all = std::get<Dims>(attribute_of(at(n), name));
  for (size_t i = 0; i < all.size(); ++i) texts.push_back(dim_at(n, name, static_cast<int32_t>(i), all[i]));
  return texts;
}

std::string ExpressionPrinter::attribute(NodeId n, const std::string& name) const {
  const Attribute& value = attribute_of(at(n), name);
  if (const Dim* d = std::get_if<Dim>(&value)) return dim_at(n, name, -1, *d);
  if (std::holds_alternative<Dims>(value)) return "[" + joined(dims(n, name)) + "]";
  const std::string field = field_at(n, name, -1);
  if (!field.empty()) return field;
  const int spec = at(n).op->attribute_index(name);
  const bool is_real = spec >= 0 && (at(n).op->attr_specs[spec].kind == AttrKind::number ||
                                     at(n).op->attr_specs[spec].kind == AttrKind::scalar);
  if (const bool* flag = std::get_if<bool>(&value); flag && is_real) return *flag ? "1.0" : "0.0";
  return is_real ? as_float(rust_literal(value)) : rust_literal(value);
}

// A list that is borrowed; its sizes as i64 where what is taken may be negative.
std::string ExpressionPrinter::list(NodeId n, const std::string& name) const {
  const Attribute& value = attribute_of(at(n), name);
  const std::string& op = at(n).op->name;
  const bool is_signed = op == "pad" || op == "roll";
  if (!std::holds_alternative<Dims>(value) || !is_signed) return "&" + attribute(n, name);
  std::vector<std::string> all = dims(n, name);
  for (std::string& text : all) {
    if (!is_literal(text)) text = (text.find(' ') == std::string::npos ? text : "(" + text + ")") + " as i64";
  }
  return "&[" + joined(all) + "]";
}

// ---- arithmetic

// x + 1.0, 1.0 - x: in the words of Candle where those round as PyTorch does.
std::string ExpressionPrinter::with_number(NodeId n, const std::string& sign) const {
  const std::string& op = at(n).op->name;
  const bool is_left = !is_tensor(n, 0);
  const std::string value = number(n, is_left ? 0 : 1);
  const DType dtype = type(tensor(n, is_left ? 1 : 0)).dtype;
  const auto operand = [&](size_t i) { return is_tensor(n, i) ? as_number(n, i) : number(n, i); };
  const auto call = [&] { return fmt::format("ops::{}({}, {})?", op, operand(0), operand(1)); };
  if (!is_wide(dtype) || type(at(n).results[0]).dtype != dtype) return call();
  const bool is_exact = is_literal(value) && is_power_of_two(std::stod(value));
  if (op == "div" && is_left) return value == "1.0" ? receiver(n, 1) + ".recip()?" : call();
  if (op == "div" && !is_exact) return call();
  const std::string x = borrowed(n, is_left ? 1 : 0);
  if (is_left && (op == "add" || op == "mul")) return fmt::format("({} {} {})?", x, sign, as_float(value));
  if (is_left) return fmt::format("({} {} {})?", as_float(value), sign, x);
  return fmt::format("({} {} {})?", x, sign, as_float(value));
}

std::string ExpressionPrinter::arithmetic(NodeId n) const {
  const Node& node = at(n);
  const std::string& op = node.op->name;
  const std::string sign = infix().at(op);
  if (!is_tensor(n, 0) || !is_tensor(n, 1)) return with_number(n, sign);
  const Type &left = type(tensor(n, 0)), &right = type(tensor(n, 1));
  if (left.dtype != right.dtype || (op == "div" && !is_floating(left.dtype)) || left.dtype == DType::boolean)
    return fmt::format("ops::{}({}, {})?", op, as_number(n, 0), as_number(n, 1));
  if (left.shape == right.shape) return fmt::format("({} {} {})?", borrowed(n, 0), sign, borrowed(n, 1));
  return fmt::format("{}.broadcast_{}({})?", receiver(n), op, borrowed(n, 1));
}

std::string ExpressionPrinter::compared(NodeId n) const {
  return fmt::format("ops::{}({}, {})?", at(n).op->name, any(n, 0), any(n, 1));
}

// ---- views

std::string ExpressionPrinter::reshape(NodeId n) const {
  using Kind = PlainReshape::Kind;
  const Node& node = at(n);
  if (is_select(graph(), node) && around_->is_used_once(node.operands[0])) {
    const NodeId s = graph().values[node.operands[0]].node;
    const int64_t axis = sliced_axis(graph(), at(s));
    const Dim start = std::get<Dims>(attribute_of(at(s), "starts"))[axis];
    const std::string index = dim_at(s, "starts", static_cast<int32_t>(axis), start);
    return axis == 0 ? fmt::format("{}.get({})?", receiver(s), index)
                     : fmt::format("{}.get_on_dim({}, {})?", receiver(s), axis, index);
  }
  const std::string x = receiver(n);
  if (const auto plain = plain_reshape(graph(), *class_, n)) {
    switch (plain->kind) {
      case Kind::unsqueeze: return fmt::format("{}.unsqueeze({})?", x, plain->axis);
      case Kind::squeeze: return fmt::format("{}.squeeze({})?", x, plain->axis);
      case Kind::flatten_all: return x + ".flatten_all()?";
      case Kind::flatten_from: return fmt::format("{}.flatten_from({})?", x, plain->axis);
      case Kind::flatten: return fmt::format("{}.flatten({}, {})?", x, plain->axis, plain->last);
    }
  }
  return fmt::format("{}.reshape({})?", x, tuple_of(dims(n, "shape")));
}

std::string ExpressionPrinter::transpose(NodeId n) const {
  const Ints& order = std::get<Ints>(attribute_of(at(n), "permutation"));
  std::vector<std::string> all, moved;
  for (size_t i = 0; i < order.size(); ++i) {
    all.push_back(std::to_string(order[i]));
    if (order[i] != static_cast<int64_t>(i)) moved.push_back(std::to_string(i));
  }
  if (moved.size() == 2) return fmt::format("{}.transpose({})?.contiguous()?", receiver(n), joined(moved));
  return fmt::format("{}.permute({})?.contiguous()?", receiver(n), tuple_of(all));
}

std::string ExpressionPrinter::broadcast(NodeId n) const {
  const Node& node = at(n);
  const Shape &before = type(node.operands[0]).shape, &after = type(node.results[0]).shape;
  const size_t more = after.size() - before.size();
  std::vector<std::string> sizes;
  for (size_t i = 0; i < after.size(); ++i) {
    // an axis that stays says its size by x itself
    const bool keeps = is_aligned(node, more) && i >= more && before[i - more] == after[i];
    const bool is_open = keeps && !after[i].is_number();
    sizes.push_back(is_open ? fmt::format("{}.dim({})?", receiver(n), i - more)
                            : dim_at(n, "shape", static_cast<int32_t>(i), after[i]));
  }
  if (is_aligned(node, more)) return fmt::format("{}.broadcast_as({})?", receiver(n), tuple_of(sizes));
  return fmt::format("ops::broadcast({}, &[{}], &{})?", borrowed(n, 0), joined(sizes), attribute(n, "axes"));
}

std::string ExpressionPrinter::slice(NodeId n) const {
  const Node& node = at(n);
  const auto &starts = std::get<Dims>(attribute_of(node, "starts")), &stops = std::get<Dims>(attribute_of(node, "stops"));
  const Ints& steps = std::get<Ints>(attribute_of(node, "steps"));
  const Shape& whole = type(node.operands[0]).shape;
  Expression text = around_->value(node.operands[0]);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (starts[i] == Dim(0) && stops[i] == whole[i] && steps[i] == 1) continue;
    const auto axis = static_cast<int32_t>(i);
    const std::string from = dim_at(n, "starts", axis, starts[i]);
    const bool is_field = !field_at(n, "starts", axis).empty() || !field_at(n, "stops", axis).empty();
    const std::string to = stops[i] == whole[i] && !whole[i].is_number() ? fmt::format("{}.dim({})?", receiver(n), i)
                                                                         : dim_at(n, "stops", axis, stops[i]);
    if (steps[i] != 1) {
      text = {Expression::Kind::value, fmt::format("ops::slice({}, {}, {}, {}, {})?", text.borrowed(), i, from, to, steps[i])};
      continue;
    }
    const Dim length = stops[i] - starts[i];
    const std::string size = !is_field && length.is_number() ? std::to_string(length.number())
                             : from == "0"                   ? to
                                                             : fmt::format("{} - {}", to, from);
    text = {Expression::Kind::value, fmt::format("{}.narrow({}, {}, {})?", text.text, i, from, size)};
  }
  return text.kind == Expression::Kind::value ? text.text : text.owned();
}

std::string ExpressionPrinter::split(NodeId n) const {
  const Node& node = at(n);
  const Dims& sizes = std::get<Dims>(attribute_of(node, "sizes"));
  const auto whole = type(node.operands[0]).shape[std::get<int64_t>(attribute_of(node, "axis"))];
  const bool alike = std::all_of(sizes.begin(), sizes.end(), [&](Dim d) { return d == sizes[0]; }) && whole.is_number();
  if (alike) return fmt::format("ops::chunk({}, {})?", borrowed(n, 0), attribute(n, "axis"));
  return fmt::format("ops::split({}, [{}], {})?", borrowed(n, 0), joined(dims(n, "sizes")), attribute(n, "axis"));
}

// x.sum(1), x.mean_keepdim((2, 3)): what Candle rounds as PyTorch does; others are the crate's.
std::string ExpressionPrinter::reduction(NodeId n) const {
  const Node& node = at(n);
  const Ints& axes = std::get<Ints>(attribute_of(node, "axes"));
  bool keep = false;
  for (const auto& [key, value] : node.attributes) {
    if (key == "keep") keep = std::get<bool>(value);
  }
  const std::string name = node.op->name == "mean" ? "mean" : "sum";
  const bool is_plain = is_wide(type(node.operands[0]).dtype) && !axes.empty() &&
                        std::all_of(axes.begin(), axes.end(), [](int64_t a) { return a >= 0; });
  if (!is_plain) return fmt::format("ops::{}({}, {}, {})?", name, borrowed(n, 0), list(n, "axes"), keep);
  std::vector<std::string> all;
  for (const int64_t axis : axes) all.push_back(std::to_string(axis));
  return fmt::format("{}.{}{}({})?", receiver(n), name, keep ? "_keepdim" : "", tuple_of(all));
}

// ---- by template

// "ops::Pool: stride count_include_pad=!without_padding !": the last sign: every field is given.
std::string ExpressionPrinter::options(NodeId n, const std::string& fields) const {
  const Node& node = at(n);
  const size_t colon = fields.find(": ");
  const std::string type = fields.substr(0, colon);
  std::vector<std::string> given;
  bool all = false;
  for (size_t start = colon + 2; start < fields.size();) {
    const size_t end = std::min(fields.find(' ', start), fields.size());
    const std::string word = fields.substr(start, end - start);
    start = end + 1;
    if (word == "!") {
      all = true;
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    std::string field = equals == std::string::npos ? name : word.substr(equals + 1);
    if (const int operand = node.op->operand_index(name); operand >= 0) {
      if (static_cast<size_t>(operand) < node.operands.size() && node.operands[operand] != kNoValue)
        given.push_back(fmt::format("{}: Some({})", field, borrowed(n, static_cast<size_t>(operand))));
      continue;
    }
    const int spec = node.op->attribute_index(name);
    if (spec < 0) continue;
    const Attribute& value = attribute_of(node, name);
    const bool is_field = !field_at(n, name, -1).empty();
    if (!all && !is_field && fields.find(" !") == std::string::npos &&
        same(value, node.op->attr_specs[spec].default_value.value_or(Attribute{})))
      continue;
    std::string text = attribute(n, name);
    if (field.starts_with('!')) {
      field = field.substr(1);
      text = text == "true" ? "false" : "true";
    }
    if (std::holds_alternative<Ints>(value) || std::holds_alternative<Dims>(value)) text = "&" + text;
    if (node.op->attr_specs[spec].optional) text = fmt::format("Some({})", text);
    given.push_back(fmt::format("{}: {}", field, text));
  }
  all = fields.ends_with(" !");
  if (given.empty()) return type + "::default()";
  return fmt::format("{} {{ {}{} }}", type, joined(given), all ? "" : ", ..Default::default()");
}

std::string ExpressionPrinter::filled(NodeId n, const std::string& place) const {
  const Node& node = at(n);
  if (place == "device") return around_->device();
  if (place.find(": ") != std::string::npos) return options(n, place);
  const size_t colon = place.find(':');
  const std::string how = colon == std::string::npos ? "" : place.substr(colon + 1);
  std::string name = place.substr(0, colon);
  const char sign = name.back();
  const bool has_sign = sign == '.' || sign == '?' || sign == '*' || sign == '&' || sign == '#';
  if (has_sign) name.pop_back();
  if (sign == '*') {
    std::vector<std::string> all;
    for (size_t i = node.op->fixed_operands(); i < node.operands.size(); ++i) all.push_back(borrowed(n, i));
    return "&[" + joined(all) + "]";
  }
  if (const int operand = node.op->operand_index(name); operand >= 0) {
    const auto i = static_cast<size_t>(operand);
    if (sign == '.') return receiver(n, i);
    if (sign != '?') return borrowed(n, i);
    const bool absent = i >= node.operands.size() || node.operands[i] == kNoValue;
    return absent ? "None" : fmt::format("Some({})", borrowed(n, i));
  }
  const Attribute& value = attribute_of(node, name);
  if (how == "count") return std::to_string(std::get<Dims>(value).size());
  if (how == "1") {
    if (std::holds_alternative<Dims>(value)) return dims(n, name).front();
    const std::string field = field_at(n, name, 0);
    return field.empty() ? std::to_string(std::get<Ints>(value).front()) : field;
  }
  if (how == "D") {
    const auto rank = static_cast<int64_t>(type(node.operands[0]).shape.size());
    const int64_t axis = std::get<int64_t>(value);
    return axis == -1 || axis + 1 == rank ? "D::Minus1" : std::to_string(axis);
  }
  if (sign == '&') return list(n, name);
  if (sign == '#') return tuple_of(dims(n, name));
  if (sign == '?' && std::holds_alternative<std::monostate>(value)) return "None";
  std::string text = attribute(n, name);
  if (how == "i" && !is_literal(text)) text = (text.find(' ') == std::string::npos ? text : "(" + text + ")") + " as i64";
  if (how == "i" && name == "value") text += is_literal(text) ? "i64" : "";
  return sign == '?' ? fmt::format("Some({})", text) : text;
}

std::string ExpressionPrinter::from_template(NodeId n, const std::string& text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '{') {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    out += filled(n, text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

// ---- nodes

Expression ExpressionPrinter::node(NodeId n) const {
  const Node& node = at(n);
  const std::string& op = node.op->name;
  const auto made = [](std::string text) { return Expression{Expression::Kind::value, std::move(text)}; };
  if (infix().count(op) != 0) return made(arithmetic(n));
  if (op == "reshape") return made(reshape(n));
  if (op == "transpose") return made(transpose(n));
  if (op == "broadcast") return made(broadcast(n));
  if (op == "slice") return made(slice(n));
  if (op == "split") return made(split(n));
  if (op == "reduce_sum" || op == "mean") return made(reduction(n));
  if (op == "cast") {
    const DType to = std::get<DType>(attribute_of(node, "dtype"));
    if (to == DType::boolean) return made(fmt::format("ops::to_bool({})?", borrowed(n, 0)));
    return made(fmt::format("{}.to_dtype({})?", receiver(n), dtype_literal(to)));
  }
  if (op == "select") return made(fmt::format("ops::where_cond({}, {}, {})?", borrowed(n, 0), any(n, 1), any(n, 2)));
  if (op == "pow" && is_tensor(n, 0) && !is_tensor(n, 1) && is_wide(type(tensor(n, 0)).dtype)) {
    const std::string exponent = number(n, 1);
    if (exponent == "2" || exponent == "2.0") return made(receiver(n) + ".sqr()?");
    if (exponent == "0.5") return made(receiver(n) + ".sqrt()?");
    return made(fmt::format("{}.powf({})?", receiver(n), as_float(exponent)));
  }
  if (written_here().count(op) != 0) return made(compared(n));
  if (op == "arange" && is_plain_arange(node))
    return made(fmt::format("Tensor::arange(0, {}, {})?", filled(n, "stop:i"), around_->device()));
  const Call call(*node.op, graph(), node.operands, node.attributes, node.regions);
  const char* text = spelling(call);
  if (text == nullptr) internal_error(op + " has no spelling in Rust");
  return made(from_template(n, text));
}

std::vector<Dim> ExpressionPrinter::written_dims(NodeId n) const {
  return emit::written_dims(graph(), *class_, n, around_->is_used_once);
}

}  // namespace pycandle::emit::rust
