#include "ir/text_terms.h"

#include <fmt/format.h>

namespace pycandle {

Dim TextTerms::dim() {
  size_t at = in_.here();
  std::string_view text = in_.dim_text();
  auto known = dims_.find(text);
  if (known != dims_.end()) return known->second;
  Dim result;
  try {
    result = Dim::parse(text);
  } catch (Error& e) {
    in_.fail(at, e.message(), e.expected().empty() ? "a dim" : e.expected(),
             e.found().empty() ? std::string(text.substr(0, 80)) : e.found());
  }
  std::vector<std::string> symbols;
  result.collect_symbols(symbols);
  for (const std::string& symbol : symbols) {
    if (!symbols_.count(symbol))
      in_.fail(at, fmt::format("symbol {} is not declared", symbol), fmt::format("'symbol {}' at the top", symbol), symbol);
  }
  dims_.emplace(text, result);
  return result;
}

DType TextTerms::dtype() {
  size_t at = in_.here();
  std::string_view name = in_.word("a dtype");
  auto found = dtype_from_name(name);
  if (!found)
    in_.fail(at, fmt::format("'{}' is not a dtype", name.substr(0, 40)), "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool c64 c128",
             std::string(name.substr(0, 40)));
  return *found;
}

Type TextTerms::type() {
  Type result;
  result.dtype = dtype();
  result.shape = list([&] {
    size_t at = in_.here();
    Dim size = dim();
    if (size.is_number() && size.number() < 0) in_.fail(at, "a negative size", "0 or more", size.text());
    return size;
  });
  return result;
}

Attribute TextTerms::attribute(AttrKind kind) {
  auto integer = [&] { return in_.integer("an integer"); };
  switch (kind) {
    case AttrKind::boolean:
      if (in_.accept_word("true")) return true;
      if (in_.accept_word("false")) return false;
      in_.unexpected("true or false");
    case AttrKind::integer: return integer();
    case AttrKind::number: return in_.number();
    case AttrKind::scalar: return pycandle::attribute(in_.scalar());
    case AttrKind::string: return in_.string("a string");
    case AttrKind::dtype: return dtype();
    case AttrKind::dim: return dim();
    case AttrKind::integers: return list(integer);
    case AttrKind::numbers: return list([&] { return in_.number(); });
    case AttrKind::dims: return list([&] { return dim(); });
  }
  internal_error("an attribute of no kind");
}

decltype(Tree::literal) TextTerms::literal() {
  using Literal = decltype(Tree::literal);
  if (in_.accept_word("null")) return {};
  if (in_.peek() == '"') return in_.string("a string");
  if (!in_.is_scalar_next()) in_.unexpected("null, true, false, a number or a string");
  size_t at = in_.here();
  Scalar value = in_.scalar();
  if (std::holds_alternative<std::complex<double>>(value))
    in_.fail(at, "a complex number cannot stand here", "null, true, false, a number or a string");
  if (const bool* truth = std::get_if<bool>(&value)) return Literal(*truth);
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return Literal(*integer);
  return Literal(std::get<double>(value));
}

}  // namespace pycandle
