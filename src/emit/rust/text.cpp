#include "emit/rust/text.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "emit/names.h"

namespace pycandle::emit::rust {
namespace {

const std::set<std::string, std::less<>>& keywords() {
  static const std::set<std::string, std::less<>> words{
      "abstract", "as",      "async", "await",   "become", "box",   "break", "const", "continue", "crate", "do",
      "dyn",      "else",    "enum",  "extern",  "false",  "final", "fn",    "for",   "gen",      "if",    "impl",
      "in",       "let",     "loop",  "macro",   "match",  "mod",   "move",  "mut",   "override", "priv",  "pub",
      "ref",      "return",  "self",  "static",  "struct", "super", "trait", "true",  "try",      "type",  "typeof",
      "unsafe",   "unsized", "use",   "virtual", "where",  "while", "yield"};
  return words;
}

struct Literal {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return float_literal(value); }
  std::string operator()(const std::complex<double>&) const { internal_error("a complex number in Rust"); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const { return dtype_literal(value); }
  std::string operator()(Dim value) const { return std::to_string(value.number()); }
  template <class T> std::string operator()(const std::vector<T>& values) const {
    std::vector<std::string> all;
    for (const T& value : values) all.push_back((*this)(value));
    return "[" + joined(all) + "]";
  }
};

}  // namespace

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text.append(i > 0 ? separator : "").append(parts[i]);
  return text;
}

std::string rust_name(std::string_view name) {
  std::string found = snake_case(name);
  while (found.size() > 1 && found.back() == '_') found.pop_back();  // what C++ needed is no concern here
  return keywords().count(found) != 0 ? found + "_" : found;
}

std::string type_name(std::string_view name) {
  const bool is_camel = !name.empty() && name[0] >= 'A' && name[0] <= 'Z' && name.find('_') == std::string_view::npos;
  return is_camel ? std::string(name) : camel_case(name);
}

std::string float_literal(double value) {
  if (std::isnan(value)) return "f64::NAN";
  if (std::isinf(value)) return value < 0 ? "f64::NEG_INFINITY" : "f64::INFINITY";
  std::string text = to_string(Scalar(value));
  const size_t e = text.find('e');
  if (e != std::string::npos) {  // 1e-05 → 1e-5
    size_t digits = e + 1 + (text[e + 1] == '-' || text[e + 1] == '+' ? 1 : 0);
    if (text[e + 1] == '+') text.erase(--digits, 1);
    while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  }
  return text;
}

std::string dtype_literal(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return "DType::U8";
    case DType::i8:
    case DType::i16: return "DType::I16";
    case DType::i32: return "DType::I32";
    case DType::i64: return "DType::I64";
    case DType::f16: return "DType::F16";
    case DType::bf16: return "DType::BF16";
    case DType::f32: return "DType::F32";
    case DType::f64: return "DType::F64";
    default: internal_error("a dtype that Candle lacks");
  }
}

std::string rust_literal(const Attribute& value) { return std::visit(Literal{}, value); }

std::string tuple_of(const std::vector<std::string>& parts) {
  if (parts.size() == 1) return parts[0];
  constexpr size_t kLongestTuple = 5;  // that Candle takes as axes, with holes or without
  return parts.size() > kLongestTuple ? "vec![" + joined(parts) + "]" : "(" + joined(parts) + ")";
}

std::string without_question(const std::string& text) {
  if (text.size() < 2 || text.back() != '?' || text.starts_with('&')) return {};
  int depth = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const char c = text[i];
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (depth == 0 && c == ' ') return {};
  }
  std::string inner = text.substr(0, text.size() - 1);
  const bool in_parentheses = inner.starts_with('(') && inner.ends_with(')');  // (&a + b)? → &a + b
  if (!in_parentheses) return inner;
  depth = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    depth += inner[i] == '(' ? 1 : inner[i] == ')' ? -1 : 0;
    if (depth == 0 && i + 1 < inner.size()) return inner;
  }
  return inner.substr(1, inner.size() - 2);
}

}  // namespace pycandle::emit::rust
