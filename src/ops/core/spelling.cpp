#include "ops/core/spelling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>
#include <set>

namespace pycandle {
namespace {

std::string options_type(const std::string& name) {
  std::string type;
  bool upper = true;
  for (char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    type += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return type + "Options";
}

// Ops on two operands of one type, and the choice between two.
bool is_elementwise(const OpDef& op) {
  if (!op.is_primitive || !op.attr_specs.empty()) return false;
  if (op.operand_specs.size() == 3) return op.is_pointwise;
  return op.operand_specs.size() == 2 && op.operand_specs[0].name == "a" && op.operand_specs[1].name == "b";
}

std::string number(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  return to_string(Scalar(value));
}

template <class T, class Print> std::string list(const std::vector<T>& items, const Print& print) {
  std::string text = "{";
  for (const T& item : items) text += (text.size() > 1 ? ", " : "") + print(item);
  return text + "}";
}

struct Literal {
  std::string operator()(std::monostate) const { return "std::nullopt"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(const std::complex<double>& value) const {
    return fmt::format("std::complex<double>({}, {})", number(value.real()), number(value.imag()));
  }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const {
    return fmt::format("DType::{}", value == DType::boolean ? "boolean" : name_of(value));
  }
  std::string operator()(Dim value) const { return std::to_string(value.number()); }
  std::string operator()(const Ints& values) const { return list(values, *this); }
  std::string operator()(const Numbers& values) const { return list(values, *this); }
  std::string operator()(const Dims& values) const { return list(values, *this); }
};

}  // namespace

std::string cpp_identifier(const std::string& name) {
  static const std::set<std::string> kKeywords = {
      "alignas",     "alignof",  "and",       "and_eq",    "asm",       "auto",         "bitand",
      "bitor",       "bool",     "break",     "case",      "catch",     "char",         "char8_t",
      "char16_t",    "char32_t", "class",     "co_await",  "co_return", "co_yield",     "compl",
      "concept",     "const",    "consteval", "constexpr", "constinit", "const_cast",   "continue",
      "decltype",    "default",  "delete",    "do",        "double",    "dynamic_cast", "else",
      "enum",        "explicit", "export",    "extern",    "false",     "float",        "for",
      "friend",      "goto",     "if",        "inline",    "int",       "long",         "mutable",
      "namespace",   "new",      "noexcept",  "not",       "not_eq",    "nullptr",      "operator",
      "or",          "or_eq",    "private",   "protected", "public",    "register",     "reinterpret_cast",
      "requires",    "return",   "short",     "signed",    "sizeof",    "static",       "static_assert",
      "static_cast", "struct",   "switch",    "template",  "this",      "thread_local", "throw",
      "true",        "try",      "typedef",   "typeid",    "typename",  "union",        "unsigned",
      "using",       "virtual",  "void",      "volatile",  "wchar_t",   "while",        "xor",
      "xor_eq"};
  return kKeywords.count(name) != 0 ? name + "_" : name;
}

std::string cpp_literal(const Attribute& attribute) { return std::visit(Literal{}, attribute); }

CallSpelling spelling_of(const OpDef& op) {
  CallSpelling spelling;
  using Form = CppForm::Kind;
  spelling.is_free = op.cpp.kind == Form::free;
  spelling.name = cpp_identifier(spelling.is_free ? op.cpp.text : op.name);
  spelling.promotes = is_elementwise(op);
  spelling.several_results = op.several_results;
  spelling.exists = op.region_count == 0;
  using Part = CallSpelling::Part;
  for (size_t i = 0; i < op.operand_specs.size(); ++i) {
    const OperandSpec& operand = op.operand_specs[i];
    const bool is_list = operand.kind == OperandSpec::Kind::variadic;
    Part part{is_list ? Part::Kind::operands : Part::Kind::operand, cpp_identifier(operand.name), i};
    (operand.kind == OperandSpec::Kind::optional ? spelling.options : spelling.positional).push_back(std::move(part));
  }
  for (size_t i = 0; i < op.attr_specs.size(); ++i) {
    const AttrSpec& attribute = op.attr_specs[i];
    const bool is_option = attribute.optional || attribute.default_value;
    (is_option ? spelling.options : spelling.positional).push_back({Part::Kind::attribute, cpp_identifier(attribute.name), i});
  }
  if (!spelling.options.empty()) spelling.options_type = options_type(op.name);
  return spelling;
}

}  // namespace pycandle
