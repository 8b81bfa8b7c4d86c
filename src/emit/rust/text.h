// Pieces of Rust text: expressions that know whether they are borrowed, names, literals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace pycandle::emit::rust {

// A tensor as an expression. A place is a variable or field that has one; a reference is borrowed already; a value is new.
struct Expression {
  enum class Kind { place, reference, value } kind = Kind::value;
  std::string text;                  // values: with the `?` that they end in

  std::string borrowed() const { return kind == Kind::reference ? text : "&" + text; }
  std::string owned() const { return kind == Kind::value ? text : text + ".clone()"; }
};

std::string joined(const std::vector<std::string>& parts, std::string_view separator = ", ");
// "numHeads" → num_heads, "self" → self_
std::string rust_name(std::string_view name);
// "Conv2d_BN" → Conv2dBN
std::string type_name(std::string_view name);
std::string float_literal(double);
std::string dtype_literal(DType);
// Of numbers, lists of numbers, booleans, texts; None for an absent one.
std::string rust_literal(const Attribute&);
// (2, 3): what Candle takes as a shape or as several axes.
std::string tuple_of(const std::vector<std::string>& parts);
// An expression that is f(…)? as a whole without its `?`; empty when it is none.
std::string without_question(const std::string& text);

}  // namespace pycandle::emit::rust
