#include "base/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/dim_node.h"
#include "base/error.h"

namespace pycandle {

namespace detail {

namespace {

// Every dim can be printed and parsed again, so what the parser refuses is never made. This also bounds the work that
// a hostile expression such as (a + b)*(c + d)*... can cause.
constexpr size_t kMaxText = 4096;
constexpr int kMaxDepth = 64;
constexpr size_t kMaxTerms = 1024;

[[noreturn]] void too_large() {
  throw Error(ErrorCode::bad_input, "a dim has grown too large")
      .expected(fmt::format("at most {} characters, {} terms and {} levels of nesting", kMaxText, kMaxTerms, kMaxDepth));
}

[[noreturn]] void division_by_zero(std::string_view function, Dim a) {
  throw Error(ErrorCode::bad_input, "a dim is divided by zero").found(fmt::format("{}({}, 0)", function, a.text()));
}

// Interned nodes live as long as the program: they are shared by every graph.
class Table {
 public:
  static Table& instance() {
    static Table* table = new Table;
    return *table;
  }

  const DimNode* number(int64_t value) {
    if (value >= kFirstSmall && value < kFirstSmall + static_cast<int64_t>(small_.size()))
      return &small_[static_cast<size_t>(value - kFirstSmall)];
    const std::lock_guard lock(mutex_);
    auto& slot = numbers_[value];
    if (!slot) slot = std::make_unique<DimNode>(DimNode{{}, value, {}, 0});
    return slot.get();
  }

  const DimNode* dim(DimNode node) {
    const std::lock_guard lock(mutex_);
    auto& slot = dims_[node.text];
    if (!slot) slot = std::make_unique<DimNode>(std::move(node));
    return slot.get();
  }

  const Atom* atom(Atom value) {
    const std::lock_guard lock(mutex_);
    auto& slot = atoms_[value.text];
    if (!slot) slot = std::make_unique<Atom>(std::move(value));
    return slot.get();
  }

 private:
  Table() {
    for (size_t i = 0; i < small_.size(); ++i) small_[i].constant = kFirstSmall + static_cast<int64_t>(i);
  }
  static constexpr int64_t kFirstSmall = -64;
  std::array<DimNode, 4096> small_;  // read without a lock
  std::mutex mutex_;
  std::unordered_map<int64_t, std::unique_ptr<DimNode>> numbers_;
  std::unordered_map<std::string, std::unique_ptr<DimNode>> dims_;
  std::unordered_map<std::string, std::unique_ptr<Atom>> atoms_;
};

std::string text_of(const std::vector<Term>& terms, int64_t constant) {
  std::string out;
  const auto append = [&](int64_t coefficient, const std::string& rest) {
    const std::string magnitude = std::to_string(coefficient).substr(coefficient < 0 ? 1 : 0);
    out += out.empty() ? (coefficient < 0 ? "-" : "") : (coefficient < 0 ? " - " : " + ");
    if (rest.empty())
      out += magnitude;
    else
      out += magnitude == "1" ? rest : magnitude + "*" + rest;
  };
  for (const Term& term : terms) {
    std::string product;
    for (const Atom* atom : term.atoms) product += (product.empty() ? "" : "*") + atom->text;
    append(term.coefficient, product);
    if (out.size() > kMaxText) too_large();
  }
  if (constant != 0 || out.empty()) append(constant, "");
  return out;
}

constexpr std::array<const char*, 4> kFunctions = {"floordiv", "mod", "min", "max"};
constexpr std::array<const char*, 4> kRoundings = {"floor", "ceil", "trunc", "round"};

const char* name_of(AtomKind kind) { return kFunctions.at(static_cast<size_t>(kind) - 1); }

Dim function(AtomKind kind, std::vector<Dim> args) {
  std::string text = std::string(name_of(kind)) + "(";
  int depth = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    text += (i == 0 ? "" : ", ") + args[i].text();
    depth = std::max(depth, DimNode::of(args[i]).depth);
  }
  text += ')';
  check_size(text.size(), depth + 1);
  return make_dim(Table::instance().atom({kind, std::move(text), std::move(args), depth + 1}));
}

// a / b when b divides every power of a; nothing otherwise.
std::optional<Monomial> divided(const Monomial& a, const Monomial& b) {
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end(), atom_before)) return std::nullopt;
  Monomial out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out), atom_before);
  return out;
}

// a + b*factor*monomial.
Dim add_scaled(Dim a, Dim b, int64_t factor, const Monomial& monomial) { return a + b * make_dim({{monomial, factor}}, 0); }

// The terms with the constant as the last one.
std::vector<Term> all_terms(const DimNode& node) {
  std::vector<Term> out = node.terms;
  if (node.constant != 0) out.push_back({{}, node.constant});
  return out;
}

Dim from_terms(std::vector<Term> terms) { return make_dim(std::move(terms), 0); }

// The polynomial q with a = q*b, when there is one (b starts with a positive term): division by the leading term (the sorting of
// terms is a monomial order, so the leading term of a product is the product of the leading terms).
std::optional<Dim> exact_quotient(Dim a, Dim b) {
  const std::vector<Term> divisor = all_terms(DimNode::of(b));
  Dim quotient(0);
  Dim rest = a;
  for (size_t steps = 0; steps < 64; ++steps) {
    const std::vector<Term> terms = all_terms(DimNode::of(rest));
    if (terms.empty()) return quotient;
    const auto atoms = divided(terms[0].atoms, divisor[0].atoms);
    if (!atoms || terms[0].coefficient % divisor[0].coefficient != 0) return std::nullopt;
    const int64_t factor = terms[0].coefficient / divisor[0].coefficient;
    quotient = quotient + from_terms({{*atoms, factor}});
    rest = add_scaled(rest, b, checked_mul(factor, -1), *atoms);
  }
  return std::nullopt;
}

// Positive; of the coefficients and the constant. 0 for the dim 0.
int64_t content_of(const DimNode& node) {
  int64_t content = 0;
  for (const Term& term : all_terms(node)) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return 1;
    content = std::gcd(content, term.coefficient);
  }
  return content;
}

Monomial common_atoms(const DimNode& a, const DimNode& b) {
  std::optional<Monomial> common;
  for (const DimNode* node : {&a, &b}) {
    for (const Term& term : all_terms(*node)) {
      Monomial both;
      if (!common)
        both = term.atoms;
      else
        std::set_intersection(common->begin(), common->end(), term.atoms.begin(), term.atoms.end(), std::back_inserter(both),
                              atom_before);
      common = std::move(both);
    }
  }
  return common.value_or(Monomial{});
}

// d divided by what content_of and common_atoms say that it holds.
Dim without_factor(Dim d, int64_t content, const Monomial& atoms) {
  std::vector<Term> terms = all_terms(DimNode::of(d));
  for (Term& term : terms) term = {divided(term.atoms, atoms).value(), term.coefficient / content};
  return from_terms(std::move(terms));
}

// floordiv(numerator, c) for a number c > 1.
Dim floordiv_by_number(Dim numerator, int64_t c) {
  const DimNode& a = DimNode::of(numerator);
  // What c divides leaves; the constant keeps its remainder.
  std::vector<Term> whole, rest;
  int64_t common = c;
  for (const Term& term : a.terms) {
    if (term.coefficient % c == 0) {
      whole.push_back({term.atoms, term.coefficient / c});
    } else {
      rest.push_back(term);
      common = std::gcd(common, term.coefficient % c);  // the same gcd, and never of the lowest int64
    }
  }
  const Dim quotient = make_dim(std::move(whole), floor_divide(a.constant, c));
  int64_t constant = floor_modulo(a.constant, c);
  if (rest.empty()) return quotient;
  // floor((k*e + r) / (k*c)) = floor((e + floor(r/k)) / c)
  for (Term& term : rest) term.coefficient /= common;
  constant /= common;
  c /= common;
  if (c == 1) return quotient + make_dim(std::move(rest), constant);
  // floor(-e / c) = -floor((e + c - 1) / c): one of the two spellings of a ceiling
  const bool negative = rest[0].coefficient < 0;
  if (negative) {
    for (Term& term : rest) term.coefficient = checked_mul(term.coefficient, -1);
    constant = c - 1 - constant;
  }
  const auto with_sign = [&](Dim d) { return negative ? quotient - d : quotient + d; };
  // floor((floor(x/d) + y) / c) = floor((x + d*y) / (d*c))
  const auto nested = std::find_if(rest.begin(), rest.end(), [](const Term& t) {
    return t.coefficient == 1 && t.atoms.size() == 1 && t.atoms[0]->kind == AtomKind::floordiv;
  });
  if (nested != rest.end()) {
    const Atom* inner = nested->atoms[0];
    const bool fits = !inner->args[1].is_number() || inner->args[1].number() <= std::numeric_limits<int32_t>::max() / c;
    if (fits) {
      rest.erase(nested);
      return with_sign(floordiv(inner->args[0] + inner->args[1] * make_dim(std::move(rest), constant), inner->args[1] * c));
    }
  }
  return with_sign(function(AtomKind::floordiv, {make_dim(std::move(rest), constant), c}));
}

// mod(numerator, c) for a number c > 1.
Dim mod_by_number(Dim numerator, int64_t c) {
  const DimNode& a = DimNode::of(numerator);
  std::vector<Term> rest;
  int64_t common = c;
  for (const Term& term : a.terms) {
    int64_t coefficient = floor_modulo(term.coefficient, c);
    if (coefficient == 0) continue;
    if (coefficient > c / 2) coefficient -= c;  // s0 - s1, not s0 + 7*s1
    // mod(mod(x, d) + y, c) = mod(x + y, c) when c divides d
    if (term.atoms.size() == 1 && term.atoms[0]->kind == AtomKind::mod) {
      const auto d = term.atoms[0]->args[1].maybe_number();
      if (d && *d % c == 0)
        return mod_by_number(numerator + coefficient * term.atoms[0]->args[0] - term.coefficient * make_dim(term.atoms[0]), c);
    }
    rest.push_back({term.atoms, coefficient});
    common = std::gcd(common, coefficient);
  }
  const int64_t constant = floor_modulo(a.constant, c);
  if (rest.empty()) return constant;
  // mod(k*e + r, k*c) = k*mod(e, c) + r for 0 ≤ r < k
  if (common > 1) {
    for (Term& term : rest) term.coefficient /= common;
    return common * mod(make_dim(std::move(rest), constant / common), c / common) + constant % common;
  }
  return function(AtomKind::mod, {make_dim(std::move(rest), constant), c});
}

// Takes the terms that a divisor of one term divides out of `a`, as a quotient.
Dim take_quotient(Dim& a, Dim b) {
  const std::vector<Term> divisor = all_terms(DimNode::of(b));
  if (divisor.size() != 1) return 0;
  std::vector<Term> whole, rest;
  for (const Term& term : all_terms(DimNode::of(a))) {
    const auto atoms = divided(term.atoms, divisor[0].atoms);
    if (atoms && term.coefficient % divisor[0].coefficient == 0)
      whole.push_back({*atoms, term.coefficient / divisor[0].coefficient});
    else
      rest.push_back(term);
  }
  a = from_terms(std::move(rest));
  return from_terms(std::move(whole));
}

// min or max: flat, sorted, without what another argument makes needless.
Dim extremum(AtomKind kind, Dim a, Dim b) {
  std::vector<Dim> args;
  for (const Dim d : {a, b}) {
    const DimNode& node = DimNode::of(d);
    const bool same_function = node.constant == 0 && node.terms.size() == 1 && node.terms[0].coefficient == 1 &&
                               node.terms[0].atoms.size() == 1 && node.terms[0].atoms[0]->kind == kind;
    if (same_function)
      args.insert(args.end(), node.terms[0].atoms[0]->args.begin(), node.terms[0].atoms[0]->args.end());
    else
      args.push_back(d);
  }
  std::vector<Dim> kept;
  for (const Dim arg : args) {
    bool needed = true;
    for (Dim& other : kept) {
      const auto difference = (arg - other).maybe_number();
      if (!difference) continue;
      if (kind == AtomKind::min ? *difference < 0 : *difference > 0) other = arg;
      needed = false;
      break;
    }
    if (needed) kept.push_back(arg);
  }
  if (kept.size() == 1) return kept[0];
  // Symbolic arguments first, the number last, as a person writes it.
  std::sort(kept.begin(), kept.end(), [](Dim x, Dim y) {
    const std::string tx = x.text(), ty = y.text();
    return std::make_tuple(x.is_number(), tx.size(), std::string_view(tx)) <
           std::make_tuple(y.is_number(), ty.size(), std::string_view(ty));
  });
  return function(kind, std::move(kept));
}

}  // namespace

bool atom_before(const Atom* a, const Atom* b) {
  if (a == b) return false;
  if (a->kind != b->kind) return a->kind < b->kind;
  if (a->text.size() != b->text.size()) return a->text.size() < b->text.size();  // s2 before s10
  return a->text < b->text;
}

bool monomial_before(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), atom_before);
}

void overflow() {
  throw Error(ErrorCode::bad_input, "the arithmetic of a dim overflows")
      .expected("sizes and products that fit into 64 bits, and into 53 where they meet fractions");
}

void check_size(size_t text, int depth) {
  if (text > kMaxText || depth > kMaxDepth) too_large();
}

Dim rounded_atom(DimRounding rounding, std::shared_ptr<const RealNode> real) {
  std::string text = std::string(kRoundings.at(static_cast<size_t>(rounding))) + "(" + real->text + ")";
  std::vector<Dim> args;
  real->collect(args);
  int depth = real->depth + 1;
  for (const Dim arg : args) depth = std::max(depth, DimNode::of(arg).depth + real->depth + 2);
  check_size(text.size(), depth);
  return make_dim(
      Table::instance().atom({AtomKind::rounded, std::move(text), std::move(args), depth, std::move(real), rounding}));
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) overflow();
  return out;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) overflow();
  return out;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return checked_mul(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Dim make_dim(std::vector<Term> terms, int64_t constant) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return monomial_before(a.atoms, b.atoms); });
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (term.atoms.empty())
      constant = checked_add(constant, term.coefficient);
    else if (!merged.empty() && merged.back().atoms == term.atoms)
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    else
      merged.push_back(std::move(term));
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  if (merged.empty()) return DimNode::wrap(Table::instance().number(constant));
  if (merged.size() > kMaxTerms) too_large();
  int depth = 0;
  for (const Term& term : merged)
    for (const Atom* atom : term.atoms) depth = std::max(depth, atom->depth);
  std::string text = text_of(merged, constant);
  if (text.size() > kMaxText) too_large();
  return DimNode::wrap(Table::instance().dim({std::move(merged), constant, std::move(text), depth}));
}

Dim make_dim(const Atom* atom) { return make_dim({{{atom}, 1}}, 0); }

}  // namespace detail

using detail::Atom;
using detail::AtomKind;
using detail::DimNode;
using detail::Monomial;
using detail::Table;
using detail::Term;

Dim::Dim(int64_t value) : node_(Table::instance().number(value)) {}

bool is_dim_function(std::string_view word) {
  const auto has = [&](const auto& names) { return std::find(names.begin(), names.end(), word) != names.end(); };
  return has(detail::kFunctions) || has(detail::kRoundings);
}

std::optional<DimRounding> rounding_named(std::string_view word) {
  const auto found = std::find(detail::kRoundings.begin(), detail::kRoundings.end(), word);
  if (found == detail::kRoundings.end()) return std::nullopt;
  return static_cast<DimRounding>(found - detail::kRoundings.begin());
}

Dim Dim::symbol(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool good = !name.empty() && name.size() <= 128 && letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); }) &&
                    !is_dim_function(name);
  if (!good)
    throw Error(ErrorCode::bad_input, "a dim symbol has a name that is not allowed")
        .expected("letters, digits and underscores")
        .found(std::string(name.substr(0, 128)));
  return detail::make_dim(Table::instance().atom({AtomKind::symbol, std::string(name), {}, 0}));
}

bool Dim::is_number() const { return node_->terms.empty(); }

int64_t Dim::number() const {
  if (!is_number()) internal_error("the symbolic dim " + text() + " is used as a number");
  return node_->constant;
}

std::optional<int64_t> Dim::maybe_number() const { return is_number() ? std::optional(node_->constant) : std::nullopt; }
std::string Dim::text() const { return is_number() ? std::to_string(node_->constant) : node_->text; }

int64_t Dim::evaluate(const Bindings& bindings) const {
  int64_t sum = node_->constant;
  for (const Term& term : node_->terms) {
    int64_t product = term.coefficient;
    for (const Atom* atom : term.atoms) {
      int64_t value = 0;
      if (atom->kind == AtomKind::symbol) {
        const auto bound = bindings.find(atom->text);
        if (bound == bindings.end())
          throw Error(ErrorCode::bad_input, "the dim symbol " + atom->text + " has no value").found(text());
        value = bound->second;
      } else if (atom->kind == AtomKind::rounded) {
        value = detail::whole(atom->rounding, atom->real->evaluate([&](Dim arg) { return arg.evaluate(bindings); }));
      } else {
        value = atom->args[0].evaluate(bindings);
        for (size_t i = 1; i < atom->args.size(); ++i) {
          const int64_t other = atom->args[i].evaluate(bindings);
          switch (atom->kind) {
            case AtomKind::min: value = std::min(value, other); break;
            case AtomKind::max: value = std::max(value, other); break;
            default:
              if (other == 0) throw Error(ErrorCode::bad_input, "a dim is divided by zero").found(atom->text);
              value = atom->kind == AtomKind::mod ? detail::floor_modulo(value, other) : detail::floor_divide(value, other);
          }
        }
      }
      product = detail::checked_mul(product, value);
    }
    sum = detail::checked_add(sum, product);
  }
  return sum;
}

void Dim::collect_symbols(std::vector<std::string>& into) const {
  for (const Term& term : node_->terms) {
    for (const Atom* atom : term.atoms) {
      const bool is_new = atom->kind == AtomKind::symbol && std::find(into.begin(), into.end(), atom->text) == into.end();
      if (is_new) into.push_back(atom->text);
      for (const Dim arg : atom->args) arg.collect_symbols(into);
    }
  }
}

Dim Dim::substitute(const std::map<std::string, Dim, std::less<>>& values) const {
  return detail::rebuild(*this, [&](const Atom& atom) -> std::optional<Dim> {
    if (atom.kind != AtomKind::symbol) return std::nullopt;
    const auto found = values.find(atom.text);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  });
}

Dim operator+(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return detail::checked_add(a.number(), b.number());
  if (a == Dim(0)) return b;
  if (b == Dim(0)) return a;
  std::vector<Term> terms = a.node_->terms;
  terms.insert(terms.end(), b.node_->terms.begin(), b.node_->terms.end());
  return detail::make_dim(std::move(terms), detail::checked_add(a.node_->constant, b.node_->constant));
}

Dim operator-(Dim a) { return a * Dim(-1); }
Dim operator-(Dim a, Dim b) { return a == b ? Dim(0) : a + -b; }

namespace {

Dim product_of_terms(Dim a, Dim b);

// The same few sizes are multiplied over and over while a program is built; dims live for ever, so pairs of them can be kept.
struct Products {
  struct Entry {
    Dim a, b, product;
  };
  std::array<Entry, 256> entries;

  Dim of(Dim a, Dim b) {
    const auto place = [](Dim d) { return reinterpret_cast<uintptr_t>(&DimNode::of(d)) / alignof(DimNode); };
    Entry& entry = entries[(place(a) + 31 * place(b)) % entries.size()];
    if (entry.a != a || entry.b != b) entry = {a, b, product_of_terms(a, b)};
    return entry.product;
  }
};

}  // namespace

Dim operator*(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return detail::checked_mul(a.number(), b.number());
  if (a == Dim(0) || b == Dim(0)) return 0;
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  thread_local Products products;
  return products.of(a, b);
}

namespace {

Dim product_of_terms(Dim a, Dim b) {
  const std::vector<Term> right = detail::all_terms(DimNode::of(b));
  const std::vector<Term> left = detail::all_terms(DimNode::of(a));
  if (left.size() * right.size() > 16 * detail::kMaxTerms) detail::too_large();
  std::vector<Term> terms;
  terms.reserve(left.size() * right.size());
  for (const Term& x : left) {
    for (const Term& y : right) {
      Monomial atoms;
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(atoms), detail::atom_before);
      terms.push_back({std::move(atoms), detail::checked_mul(x.coefficient, y.coefficient)});
    }
  }
  return detail::make_dim(std::move(terms), 0);
}

}  // namespace

Dim floordiv(Dim a, Dim b) {
  if (b.is_number()) {
    const int64_t c = b.number();
    if (c == 0) detail::division_by_zero("floordiv", a);
    if (a.is_number()) return detail::floor_divide(a.number(), c);
    if (c < 0) return c == -1 ? -a : floordiv(-a, -b);
    return c == 1 ? a : detail::floordiv_by_number(a, c);
  }
  if (DimNode::of(b).terms[0].coefficient < 0) return floordiv(-a, -b);
  if (const auto quotient = detail::exact_quotient(a, b)) return *quotient;
  const Dim quotient = detail::take_quotient(a, b);
  if (a == Dim(0)) return quotient;
  // A common factor cancels.
  const int64_t content = std::gcd(detail::content_of(DimNode::of(a)), detail::content_of(DimNode::of(b)));
  const Monomial atoms = detail::common_atoms(DimNode::of(a), DimNode::of(b));
  if (content != 1 || !atoms.empty())
    return quotient + floordiv(detail::without_factor(a, content, atoms), detail::without_factor(b, content, atoms));
  return quotient + detail::function(AtomKind::floordiv, {a, b});
}

Dim mod(Dim a, Dim b) {
  if (b.is_number()) {
    const int64_t c = b.number();
    if (c == 0) detail::division_by_zero("mod", a);
    if (a.is_number()) return detail::floor_modulo(a.number(), c);
    if (c < 0) return c == -1 ? Dim(0) : -mod(-a, -b);
    return c == 1 ? Dim(0) : detail::mod_by_number(a, c);
  }
  if (DimNode::of(b).terms[0].coefficient < 0) return -mod(-a, -b);
  if (detail::exact_quotient(a, b)) return 0;
  detail::take_quotient(a, b);
  if (a == Dim(0)) return 0;
  return detail::function(AtomKind::mod, {a, b});
}

Dim min(Dim a, Dim b) { return detail::extremum(AtomKind::min, a, b); }
Dim max(Dim a, Dim b) { return detail::extremum(AtomKind::max, a, b); }
Dim ceildiv(Dim a, Dim b) { return floordiv(a + b - 1, b); }

}  // namespace pycandle
