// What the constraints of primitives are made of. Dims that cannot be compared hold: only a definite difference is an
// error while a graph is built, and evaluators look again at the numbers.
#pragma once

#include <algorithm>
#include <string>

#include "ir/op_def.h"

namespace pycandle {

inline bool may_equal(Dim a, Dim b) { return equal(a, b) != Tri::no; }
inline bool may_equal(const Shape& a, const Shape& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](Dim p, Dim q) { return may_equal(p, q); });
}
inline bool may_be_at_most(Dim a, Dim b) { return at_most(a, b) != Tri::no; }
inline bool is_axis(int64_t axis, int64_t rank) { return 0 <= axis && axis < rank; }
// Different axes of a tensor of that rank.
inline bool are_axes(const Ints& axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!is_axis(axes[i], rank) ||
        std::find(axes.begin(), axes.begin() + static_cast<int64_t>(i), axes[i]) != axes.begin() + static_cast<int64_t>(i))
      return false;
  }
  return true;
}
inline bool contains(const Ints& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }
inline bool all_at_least(const Ints& values, int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
}
inline bool is_index(DType d) { return d == DType::i64 || d == DType::i32; }

// x's dims without those axes.
inline Shape without_axes(const Shape& shape, const Ints& axes) {
  Shape kept;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!contains(axes, static_cast<int64_t>(i))) kept.push_back(shape[i]);
  }
  return kept;
}

// Kinds of dtypes that an op takes, as a set.
enum Kinds : unsigned {
  floats = 1,
  integers = 2,
  booleans = 4,
  complexes = 8,
  numbers = floats | integers | complexes,
  reals = floats | integers,
  inexact = floats | complexes,
  anything = 15
};
inline bool is_one_of(DType d, unsigned kinds) {
  unsigned kind = is_floating(d) ? floats : is_complex(d) ? complexes : is_integral(d) ? integers : booleans;
  return (kinds & kind) != 0;
}
inline std::string text_of_kinds(unsigned kinds) {
  std::string text;
  for (auto [kind, word] :
       {std::pair{floats, "floating"}, {integers, "an integer"}, {booleans, "bool"}, {complexes, "complex"}}) {
    if (kinds & kind) text += (text.empty() ? "" : " or ") + std::string(word);
  }
  return text;
}

// A primitive on two operands of one type, which is the result's too.
inline OpDef binary_primitive(const char* name, unsigned kinds, const char* doc) {
  const std::string id = name;
  return primitive(name)
      .doc(doc)
      .operands("a", "b")
      .constraint(id + "_c1", "a is " + text_of_kinds(kinds),
                  [kinds](const Call& c) { return is_one_of(c.type("a").dtype, kinds); })
      .constraint(id + "_c2", "a and b have the same dtype", [](const Call& c) { return c.type("a").dtype == c.type("b").dtype; })
      .constraint(id + "_c3", "a and b have the same shape", [](const Call& c) { return may_equal(c.shape("a"), c.shape("b")); })
      .infer([](const Call& c) { return c.type("a"); });
}

}  // namespace pycandle
