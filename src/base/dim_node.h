// The canonical form behind Dim; for src/base/dim*.cpp, and for the front end's Dim, which points to it too.
//
// A dim is  sum of coefficient * product of atoms  + constant. An atom is a symbol or a function that did not fold.
// Terms are sorted by degree, then by their atoms; atoms by kind and text: never by address, so texts are stable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dim_real.h"

namespace pycandle::detail {

enum class AtomKind : uint8_t { symbol, floordiv, mod, min, max, rounded };

struct Atom {
  AtomKind kind;
  std::string text;       // of a symbol: its name
  std::vector<Dim> args;  // floordiv and mod: numerator, divisor; min and max: two or more; rounded: the dims in `real`
  int depth;              // levels of parentheses in the text
  std::shared_ptr<const RealNode> real = nullptr;  // rounded: of what
  DimRounding rounding = DimRounding::floor;
};

// Double arithmetic behind DimReal. Two dims are never added or multiplied here: that is a dim again.
struct RealNode {
  enum class Kind : uint8_t { dim, number, add, mul, div };
  Kind kind;
  Dim dim;
  double number;
  std::shared_ptr<const RealNode> left, right;
  int depth;
  std::string text;

  double evaluate(const std::function<int64_t(Dim)>& size) const;
  DimReal replaced(const std::function<Dim(Dim)>& other) const;  // with other dims in the place of its own
  void collect(std::vector<Dim>& dims) const;

  static const RealNode& of(const DimReal& value) { return *value.node_; }
  static std::shared_ptr<const RealNode> pointer(const DimReal& value) { return value.node_; }
  static DimReal wrap(std::shared_ptr<const RealNode> node) { return DimReal(std::move(node)); }
};

double round_off(DimRounding rounding, double v);
int64_t whole(DimRounding rounding, double v);  // bad_input for what a double cannot hold exactly
Dim rounded_atom(DimRounding rounding, std::shared_ptr<const RealNode> real);

[[noreturn]] void overflow();
void check_size(size_t text, int depth);  // throws for dims that the parser would refuse

using Monomial = std::vector<const Atom*>;  // sorted; an atom stands once for each power

struct Term {
  Monomial atoms;
  int64_t coefficient;
};

struct DimNode {
  std::vector<Term> terms;
  int64_t constant = 0;
  std::string text;  // empty for numbers
  int depth = 0;

  static const DimNode& of(Dim d) { return *d.node_; }
  static Dim wrap(const DimNode* node) { return Dim(node); }
};

bool atom_before(const Atom* a, const Atom* b);
bool monomial_before(const Monomial& a, const Monomial& b);

int64_t checked_add(int64_t a, int64_t b);  // bad_input on overflow
int64_t checked_mul(int64_t a, int64_t b);
// Python's; the divisor is not 0. floor_divide throws bad_input on the one overflow there is.
int64_t floor_divide(int64_t a, int64_t b);
int64_t floor_modulo(int64_t a, int64_t b);

// The dim with these terms (any order, equal ones are merged).
Dim make_dim(std::vector<Term> terms, int64_t constant);
Dim make_dim(const Atom* atom);

// Replaces atoms by dims from the outside in: `replace` gives a dim, or nothing to go into the atom's arguments.
template <class Replace> Dim rebuild(Dim d, const Replace& replace) {
  const DimNode& node = DimNode::of(d);
  Dim sum(node.constant);
  for (const Term& term : node.terms) {
    Dim product(term.coefficient);
    for (const Atom* atom : term.atoms) {
      std::optional<Dim> value = replace(*atom);
      if (!value) {
        std::vector<Dim> args;
        args.reserve(atom->args.size());
        if (atom->kind != AtomKind::rounded)
          for (const Dim arg : atom->args) args.push_back(rebuild(arg, replace));
        switch (atom->kind) {
          case AtomKind::symbol: value = make_dim(atom); break;
          case AtomKind::floordiv: value = floordiv(args[0], args[1]); break;
          case AtomKind::mod: value = mod(args[0], args[1]); break;
          case AtomKind::rounded:
            value = rounded(atom->rounding, atom->real->replaced([&](Dim arg) { return rebuild(arg, replace); }));
            break;
          case AtomKind::min:
          case AtomKind::max:
            value = args[0];
            for (size_t i = 1; i < args.size(); ++i)
              value = atom->kind == AtomKind::min ? min(*value, args[i]) : max(*value, args[i]);
            break;
        }
      }
      product = product * *value;
    }
    sum = sum + product;
  }
  return sum;
}

}  // namespace pycandle::detail
