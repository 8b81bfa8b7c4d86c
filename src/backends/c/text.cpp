#include "backends/c/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/error.h"

namespace pycandle::c {

std::string filled(std::string_view pattern, std::span<const std::string> arguments) {
  std::string text;
  size_t next = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '{' && c != '}') {
      text += c;
    } else if (i + 1 < pattern.size() && pattern[i + 1] == c) {
      text += c;
      ++i;
    } else {
      const size_t end = pattern.find('}', i);
      require(c == '{' && end != std::string_view::npos && end <= i + 2, "a pattern of C text has a brace too many");
      const size_t argument = end == i + 1 ? next++ : static_cast<size_t>(pattern[i + 1] - '0');
      require(argument < arguments.size(), "a pattern of C text has no such argument");
      text += arguments[argument];
      i = end;
    }
  }
  return text;
}

namespace {

template <typename Number> std::string shortest(Number number) {
  std::array<char, 32> text{};
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace

std::string as_text(float number) { return shortest(number); }
std::string as_text(double number) { return shortest(number); }

std::string stored_type(DType d) {
  switch (d) {
    case DType::f64: return "double";
    case DType::f32: return "float";
    case DType::f16:
    case DType::bf16: return "uint16_t";
    case DType::i64: return "int64_t";
    case DType::i32: return "int32_t";
    case DType::i16: return "int16_t";
    case DType::i8: return "int8_t";
    case DType::u8:
    case DType::boolean: return "uint8_t";
    default: internal_error("complex numbers have no type in C here");
  }
}

std::string computed_type(DType d) { return d == DType::f16 || d == DType::bf16 ? "float" : stored_type(d); }

bool is_supported(DType d) { return !is_complex(d); }

namespace {

std::string float_literal(double v, DType d) {
  const bool is_double = d == DType::f64;
  if (std::isnan(v)) return is_double ? "NAN_F64" : "NAN_F32";
  if (!is_double && std::abs(v) > std::numeric_limits<float>::max()) v = std::copysign(HUGE_VAL, v);
  if (std::isinf(v)) return formatted("{}{}", v < 0 ? "-" : "", is_double ? "INF_F64" : "INF_F32");
  std::string text = is_double ? formatted("{}", v) : formatted("{}", static_cast<float>(v));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return v < 0 || std::signbit(v) ? "(" + text + ")" : text;
}

}  // namespace

std::string literal(const Scalar& value, DType d) {
  if (d == DType::f16) return float_literal(from_f16(to_f16(as_double(value))), d);
  if (d == DType::bf16) return float_literal(from_bf16(to_bf16(as_double(value))), d);
  if (is_floating(d)) return float_literal(as_double(value), d);
  if (d == DType::boolean) return as_double(value) != 0 ? "1" : "0";
  int64_t v = as_int(value);
  if (d == DType::i32) v = static_cast<int32_t>(v);
  if (d == DType::i16) v = static_cast<int16_t>(v);
  if (d == DType::i8) v = static_cast<int8_t>(v);
  if (d == DType::u8) v = static_cast<uint8_t>(v);
  if (v == std::numeric_limits<int64_t>::min()) return "INT64_MIN";
  if (v == std::numeric_limits<int32_t>::min()) return "INT32_MIN";
  const std::string text = d == DType::i64 ? formatted("INT64_C({})", std::abs(v)) : formatted("{}", std::abs(v));
  return v < 0 ? "(-" + text + ")" : text;
}

std::string loaded(const std::string& element, DType d) {
  if (d == DType::f16) return "float_of_f16(" + element + ")";
  if (d == DType::bf16) return "float_of_bf16(" + element + ")";
  return element;
}

std::string rounded(const std::string& value, DType d) {
  if (d == DType::f16) return "float_of_f16(f16_of(" + value + "))";
  if (d == DType::bf16) return "float_of_bf16(bf16_of(" + value + "))";
  return value;
}

std::string stored(const std::string& value, DType d) {
  if (d == DType::f16) return "f16_of(" + value + ")";
  if (d == DType::bf16) return "bf16_of(" + value + ")";
  return value;
}

std::string identifier(std::string_view text) {
  static const char* const kTaken[] = {
      "auto",     "break", "case",    "char",   "const",  "continue", "default",  "do",      "double", "else",     "enum",
      "extern",   "float", "for",     "goto",   "if",     "inline",   "int",      "long",    "main",   "register", "restrict",
      "return",   "short", "signed",  "sizeof", "static", "struct",   "switch",   "typedef", "union",  "unsigned", "void",
      "volatile", "while", "weights", "arena",  "run",    "log",      "exp",      "sin",     "cos",    "tan",      "pow",
      "sqrt",     "floor", "ceil",    "round",  "abs",    "gamma",    "y0",       "y1",      "j0",     "j1",       "yn",
      "jn",       "panel", "widen",   "status", "index",  "div",      "remainder"};
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_') name.insert(0, "v");
  if (std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken)) name += "_";
  return name;
}

std::string sum_of(const std::vector<std::pair<std::string, int64_t>>& terms, int64_t constant) {
  std::string text;
  for (const auto& [name, factor] : terms) {
    if (factor == 0) continue;
    if (!text.empty())
      text += factor < 0 ? " - " : " + ";
    else if (factor < 0)
      text += "-";
    text += std::abs(factor) == 1 ? name : formatted("{} * {}", name, std::abs(factor));
  }
  if (text.empty()) return formatted("{}", constant);
  if (constant != 0) text += formatted(" {} {}", constant < 0 ? "-" : "+", std::abs(constant));
  return text;
}

}  // namespace pycandle::c
