// Formulas in a normal form in which spellings that round alike are the same term.   docs/recognition.md
//
//   0.5 * x * (1 + t)      x / 2 * (t + 1)      (x * (t + 1)) * 0.5        all are   scale(0.5, mul(x, add(t, 1)))
//
// Terms are interned, so equal terms are equal numbers. What is neutral to rounding (overflow and underflow apart):
//   order of the operands of add, mul, maximum, …;  a - b and a + (-b);  signs and powers of two anywhere in a product;
//   x*x and pow(x, 2), square and reciprocal roots;  casts there and back through a wider dtype;  broadcasts, reshapes,
//   transposes and slices before or after an elementwise op;  a > b and b < a.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

using Term = int32_t;
using Terms = std::vector<Term>;
inline constexpr Term kNoTerm = -1;

class NormalForm {
 public:
  explicit NormalForm(const OpTable& table) : table_(&table) {}

  Term leaf(size_t number, const Type&);
  Term transposed(Term x, const Ints& permutation);

  using Known = std::unordered_map<ValueId, Term>;
  // The value as a term over the known ones. kNoTerm: it depends on something else, is too large, or is no formula
  // (random, control flow). Nodes that were read are appended to `nodes`, in the order of their first use.
  Term of(const Graph&, ValueId, Known& known, std::vector<NodeId>* nodes = nullptr);

  std::string text(Term) const;  // for people who ask why something does not match

 private:
  struct Entry {
    std::string op;
    std::string attributes;  // as text: part of the identity, and of no other use
    Terms operands;
    Type type;               // of a number: only the dtype
    double number = 0;       // constant: its value; scale: the factor, a power of two with a sign
    Ints axes;               // view: for every axis the operand's axis that it shows, or -1
    bool elementwise = false;
  };
  // A change of place without arithmetic.
  struct Movement {
    enum class Kind { view, reshape, slice } kind;
    Shape shape;             // of the result
    Ints axes;               // view
    std::string attributes;  // slice
  };

  const Entry& at(Term t) const { return entries_[t]; }
  bool is(Term t, std::string_view op) const { return at(t).op == op; }
  bool is_number(Term t, double value) const { return is(t, "constant") && at(t).number == value; }
  bool is_real(Term t) const { return is_floating(at(t).type.dtype); }
  Term intern(Entry);
  Term number(double value, DType);
  Term elementwise(std::string op, Terms operands, DType);

  Term walk(const Graph&, ValueId, Known& known, std::vector<NodeId>* nodes);
  Term node(const Graph&, const Node&, size_t result, const Terms& operands);
  Term primitive(const Graph&, const Node&, const Type&, const Terms& operands);
  Term functional(const Graph&, const Node&, size_t result, const Terms& operands);
  std::string text_of_shapeless(const Graph&, const Node&, const Terms& operands) const;

  Term sum(Term a, Term b);
  Term product(Term a, Term b);
  Term quotient(Term a, Term b);
  Term power(Term x, Term exponent);
  Term scaled(double factor, Term x);
  std::pair<double, Term> unscaled(Term);
  Term cast(Term x, DType);
  Term select(Term condition, Term yes, Term no);
  Term contraction(const Node&, const Type&, Term left, Term right);

  Term moved(Term x, const Movement&);
  Term view(Term x, Shape shape, Ints axes);
  Term reshape(Term x, const Shape& shape);
  Term rebuilt(const Entry&, Terms operands);

  const OpTable* table_;
  std::deque<Entry> entries_;  // references stay good while terms are made
  std::unordered_map<std::string, Term> interned_, moved_;
  int budget_ = 0;
};

}  // namespace pycandle
