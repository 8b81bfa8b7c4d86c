// The formulas of the index domain, and what can be proven of them.
#include <algorithm>
#include <cmath>

#include "base/array.h"
#include "passes/index_domain.h"

namespace pycandle {
namespace {

using Kind = Element::Kind;

constexpr size_t kMaxFormula = 128;  // larger ones are nobody's mask

ElementPtr make(Element e) {
  for (const ElementPtr& arg : e.args) {
    e.size += arg->size;
    e.variables.insert(arg->variables.begin(), arg->variables.end());
  }
  return std::make_shared<const Element>(std::move(e));
}

}  // namespace

bool is_true(const Element& e) { return e.kind == Kind::all && e.args.empty(); }
bool is_false(const Element& e) { return e.kind == Kind::any && e.args.empty(); }

std::optional<double> constant_of(const Element& e) {
  if (e.kind == Kind::number) return e.number;
  if (e.kind == Kind::integer && e.dim.is_number()) return static_cast<double>(e.dim.number());
  return std::nullopt;
}

bool same_formula(const Element& a, const Element& b) {
  if (&a == &b) return true;
  const bool alike = a.kind == b.kind && a.dtype == b.dtype && a.dim == b.dim && a.number == b.number && a.value == b.value &&
                     a.indices == b.indices && a.negated == b.negated && a.op == b.op && same(a.attributes, b.attributes);
  return alike && std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                             [](const ElementPtr& x, const ElementPtr& y) { return same_formula(*x, *y); });
}

IndexSpace::IndexSpace(const SymbolRanges* ranges) {
  if (ranges) ranges_ = *ranges;
}

Dim IndexSpace::variable(const std::string& name, Dim size) {
  sizes_.insert_or_assign(name, size);
  std::optional<int64_t> last = size.maybe_number();
  if (last) *last = std::max<int64_t>(*last - 1, 0);
  ranges_.insert_or_assign(name, SymbolRange{0, last});
  return Dim::symbol(name);
}

// The name says the size too, so that a formula never meets another one's bounds.
Dim IndexSpace::axis(size_t axis, Dim size) {
  const int id = known_sizes_.emplace(size.text(), static_cast<int>(known_sizes_.size())).first->second;
  return variable("_axis" + std::to_string(axis) + "_" + std::to_string(id), size);
}

Dim IndexSpace::fresh(Dim size) { return variable("_t" + std::to_string(next_++), size); }

std::set<std::string> IndexSpace::variables_of(Dim d) const {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  std::set<std::string> found;
  for (std::string& name : symbols) {
    if (is_variable(name)) found.insert(std::move(name));
  }
  return found;
}

std::optional<Dim> IndexSpace::factor(Dim d, const std::string& variable) const {
  const Dim at_zero = d.substitute({{variable, Dim(0)}});
  const Dim slope = d.substitute({{variable, Dim(1)}}) - at_zero;
  if (at_zero + slope * Dim::symbol(variable) != d) return std::nullopt;
  return slope;
}

// A linear form is least at a corner of the box of indices.
bool IndexSpace::always_nonnegative(Dim d) const {
  for (const std::string& name : variables_of(d)) {
    const auto slope = factor(d, name);
    const auto number = slope ? slope->maybe_number() : std::nullopt;
    if (!number) continue;  // the range of the variable may still do
    d = d.substitute({{name, *number > 0 ? Dim(0) : sizes_.at(name) - 1}});
  }
  return at_most(Dim(0), d, ranges_) == Tri::yes;
}

ElementPtr IndexSpace::integer(Dim d, DType dtype) const {
  Element e{.kind = Kind::integer, .dtype = dtype, .dim = d};
  e.variables = variables_of(d);
  return make(std::move(e));
}

ElementPtr IndexSpace::number(double value, DType dtype) const {
  return make({.kind = Kind::number, .dtype = dtype, .number = load_double(Array::scalar(dtype, value)).at(0)});
}

ElementPtr IndexSpace::truth(bool value) const { return make({.kind = value ? Kind::all : Kind::any}); }

ElementPtr IndexSpace::nonnegative(Dim d) const {
  if (always_nonnegative(d)) return truth(true);
  if (always_nonnegative(-d - 1)) return truth(false);
  Element e{.kind = Kind::nonnegative, .dim = d};
  e.variables = variables_of(d);
  return make(std::move(e));
}

ElementPtr IndexSpace::junction(Kind kind, const std::vector<ElementPtr>& parts) const {
  Element e{.kind = kind};
  const Kind absorbing = kind == Kind::all ? Kind::any : Kind::all;  // false in an "all", true in an "any"
  for (const ElementPtr& part : parts) {
    if (part->kind == absorbing && part->args.empty()) return part;
    const std::vector<ElementPtr> several = part->kind == kind ? part->args : std::vector<ElementPtr>{part};
    for (const ElementPtr& one : several) {
      const bool again = std::any_of(e.args.begin(), e.args.end(), [&](const ElementPtr& a) { return same_formula(*a, *one); });
      if (!again) e.args.push_back(one);
    }
  }
  return e.args.size() == 1 ? e.args[0] : make(std::move(e));
}

ElementPtr IndexSpace::all(const std::vector<ElementPtr>& parts) const { return junction(Kind::all, parts); }
ElementPtr IndexSpace::any(const std::vector<ElementPtr>& parts) const { return junction(Kind::any, parts); }

ElementPtr IndexSpace::negation(const ElementPtr& e) const {
  if (e->kind == Kind::nonnegative) return nonnegative(-e->dim - 1);
  if (e->kind == Kind::all || e->kind == Kind::any) {
    std::vector<ElementPtr> parts;
    for (const ElementPtr& arg : e->args) parts.push_back(negation(arg));
    return e->kind == Kind::all ? any(parts) : all(parts);
  }
  Element opposite = *e;
  opposite.negated = !opposite.negated;
  return std::make_shared<const Element>(std::move(opposite));
}

ElementPtr IndexSpace::choice(const ElementPtr& condition, const ElementPtr& yes, const ElementPtr& no) const {
  if (is_true(*condition) || same_formula(*yes, *no)) return yes;
  if (is_false(*condition)) return no;
  if (yes->dtype == DType::boolean) return any({all({condition, yes}), all({negation(condition), no})});
  // c ? (d ? x : y) : y  is  c && d ? x : y, and so for the other three ways to nest; a choice by c within one is made.
  if (yes->kind == Kind::choice) {
    if (same_formula(*yes->args[0], *condition)) return choice(condition, yes->args[1], no);
    if (same_formula(*yes->args[2], *no)) return choice(all({condition, yes->args[0]}), yes->args[1], no);
    if (same_formula(*yes->args[1], *no)) return choice(all({condition, negation(yes->args[0])}), yes->args[2], no);
  }
  if (no->kind == Kind::choice) {
    if (same_formula(*no->args[0], *condition)) return choice(condition, yes, no->args[2]);
    if (same_formula(*no->args[1], *yes)) return choice(any({condition, no->args[0]}), yes, no->args[2]);
    if (same_formula(*no->args[2], *yes)) return choice(any({condition, negation(no->args[0])}), yes, no->args[1]);
  }
  return make({.kind = Kind::choice, .dtype = yes->dtype, .args = {condition, yes, no}});
}

ElementPtr IndexSpace::read(ValueId v, DType dtype, std::vector<Dim> indices) const {
  Element e{.kind = Kind::read, .dtype = dtype, .value = v, .indices = std::move(indices)};
  for (const Dim d : e.indices) e.variables.merge(variables_of(d));
  return make(std::move(e));
}

// nullptr when the formula would grow too large.
ElementPtr IndexSpace::applied(std::string op, Attributes attributes, std::vector<ElementPtr> args, DType dtype) const {
  ElementPtr e = make(
      {.kind = Kind::applied, .dtype = dtype, .args = std::move(args), .op = std::move(op), .attributes = std::move(attributes)});
  return e->size <= kMaxFormula ? e : nullptr;
}

}  // namespace pycandle
