// What can be said of dims for every value of their symbols: bounds by interval arithmetic, and equality by looking at
// every remainder of a symbol.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/dim.h"
#include "base/dim_node.h"
#include "base/error.h"

namespace pycandle {

namespace {

using detail::Atom;
using detail::AtomKind;
using detail::DimNode;
using detail::RealNode;
using detail::Term;

constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max();

// low ≤ value ≤ high; -kInfinity and kInfinity mean unbounded. Arithmetic that overflows only widens.
struct Interval {
  int64_t low = -kInfinity, high = kInfinity;
};

bool finite(int64_t v) { return v > -kInfinity && v < kInfinity; }

// Saturates; the result of a lower bound never reaches +infinity, nor of an upper one -infinity.
int64_t as_low(int64_t v) { return v == kInfinity ? kInfinity - 1 : v; }
int64_t as_high(int64_t v) { return v <= -kInfinity ? -kInfinity + 1 : v; }

int64_t add(int64_t a, int64_t b) {
  if (!finite(a)) return a;
  if (!finite(b)) return b;
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return a < 0 ? -kInfinity : kInfinity;
  return std::max(out, -kInfinity);
}

int64_t multiply(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t out = 0;
  if (!finite(a) || !finite(b) || __builtin_mul_overflow(a, b, &out)) return (a < 0) != (b < 0) ? -kInfinity : kInfinity;
  return std::max(out, -kInfinity);
}

Interval operator+(Interval a, Interval b) { return {as_low(add(a.low, b.low)), as_high(add(a.high, b.high))}; }

Interval operator*(Interval a, Interval b) {
  const auto [low, high] = std::minmax(
      {multiply(a.low, b.low), multiply(a.low, b.high), multiply(a.high, b.low), multiply(a.high, b.high)});
  return {as_low(low), as_high(high)};
}

// floor(a / b) for b ≥ 1, where either may be infinite.
int64_t divide(int64_t a, int64_t b) {
  if (!finite(a)) return a;
  if (!finite(b)) return a < 0 ? -1 : 0;
  return detail::floor_divide(a, b);
}

Interval interval_of(Dim d, const SymbolRanges& ranges);

// Bounds of double arithmetic. IEEE operations are monotone, so the ends of the arguments give the ends of the results.
struct RealInterval {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

RealInterval ends_of(std::initializer_list<double> corners) {
  RealInterval out{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const double corner : corners) {
    const double v = std::isnan(corner) ? 0 : corner;  // 0*infinity, infinity/infinity: between the other corners
    out = {std::min(out.low, v), std::max(out.high, v)};
  }
  return out;
}

RealInterval interval_of(const RealNode& n, const SymbolRanges& ranges) {
  if (n.kind == RealNode::Kind::number) return {n.number, n.number};
  if (n.kind == RealNode::Kind::dim) {
    constexpr int64_t kExact = int64_t{1} << 53;
    const Interval i = interval_of(n.dim, ranges);
    RealInterval out;
    if (std::abs(i.low) <= kExact) out.low = static_cast<double>(i.low);
    if (std::abs(i.high) <= kExact) out.high = static_cast<double>(i.high);
    return out;
  }
  const RealInterval a = interval_of(*n.left, ranges), b = interval_of(*n.right, ranges);
  if (n.kind == RealNode::Kind::add) return {a.low + b.low, a.high + b.high};
  if (n.kind == RealNode::Kind::mul) return ends_of({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  if (b.low <= 0 && b.high >= 0) return {};
  return ends_of({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
}

Interval interval_of_rounded(const Atom& atom, const SymbolRanges& ranges) {
  const RealInterval real = interval_of(*atom.real, ranges);
  const auto end = [&](double v) {
    constexpr double kExact = 9007199254740992.0;
    if (!(std::abs(v) <= kExact)) return v < 0 ? -kInfinity : kInfinity;
    return static_cast<int64_t>(detail::round_off(atom.rounding, v));
  };
  return {as_low(end(real.low)), as_high(end(real.high))};
}

Interval interval_of(const Atom& atom, const SymbolRanges& ranges) {
  if (atom.kind == AtomKind::symbol) {
    const auto range = ranges.find(atom.text);
    if (range == ranges.end()) return {0, kInfinity};
    return {as_low(std::max(range->second.min, -kInfinity)), as_high(range->second.max.value_or(kInfinity))};
  }
  if (atom.kind == AtomKind::rounded) return interval_of_rounded(atom, ranges);
  Interval a = interval_of(atom.args[0], ranges);
  for (size_t i = 1; i < atom.args.size(); ++i) {
    const Interval b = interval_of(atom.args[i], ranges);
    switch (atom.kind) {
      case AtomKind::min: a = {std::min(a.low, b.low), std::min(a.high, b.high)}; break;
      case AtomKind::max: a = {std::max(a.low, b.low), std::max(a.high, b.high)}; break;
      case AtomKind::floordiv:
        if (b.low < 1) return {};
        a = {divide(a.low, a.low < 0 ? b.low : b.high), divide(a.high, a.high < 0 ? b.high : b.low)};
        break;
      case AtomKind::mod:
        if (b.low < 1) return {};
        if (a.low >= 0 && a.high < b.low) break;  // smaller than the divisor: itself
        a = {0, std::min(b.high == kInfinity ? kInfinity : b.high - 1, a.low >= 0 ? a.high : kInfinity)};
        break;
      case AtomKind::symbol:
      case AtomKind::rounded: break;
    }
  }
  return a;
}

Interval interval_of(Dim d, const SymbolRanges& ranges) {
  const DimNode& node = DimNode::of(d);
  Interval sum{as_low(std::max(node.constant, -kInfinity)), as_high(node.constant)};
  for (const Term& term : node.terms) {
    Interval product{term.coefficient, term.coefficient};
    for (const Atom* atom : term.atoms) product = product * interval_of(*atom, ranges);
    sum = sum + product;
  }
  return sum;
}

// Every symbol as its least value plus a symbol ≥ 0: s0*s1 - s0 for s ≥ 1 becomes s0*s1 + s1, which shows its sign.
Dim from_least_values(Dim d, const SymbolRanges& ranges, SymbolRanges& shifted) {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  std::map<std::string, Dim, std::less<>> values;
  shifted = ranges;
  for (const std::string& name : symbols) {
    const auto range = ranges.find(name);
    if (range == ranges.end() || range->second.min == 0) continue;
    const int64_t least = range->second.min;
    std::optional<int64_t> most = range->second.max;
    if (most && __builtin_sub_overflow(*most, least, &*most)) most.reset();
    values.emplace(name, Dim::symbol(name) + least);
    shifted[name] = {0, most};
  }
  return values.empty() ? d : d.substitute(values);
}

// Is d ≥ 0 for every value of the symbols? false means "not shown". tries bounds the search over all branches.
bool is_nonnegative(Dim d, const SymbolRanges& ranges, int& tries) {
  if (interval_of(d, ranges).low >= 0) return true;
  SymbolRanges shifted;
  const Dim moved = from_least_values(d, ranges, shifted);
  if (moved != d && interval_of(moved, shifted).low >= 0) return true;
  if (--tries <= 0) return false;
  // Replace a function that stands alone in its term by what bounds it.
  for (const Term& term : DimNode::of(d).terms) {
    if (term.atoms.size() != 1 || term.atoms[0]->kind == AtomKind::symbol) continue;
    if (tries <= 0) return false;
    const Atom& atom = *term.atoms[0];
    const bool positive = term.coefficient > 0;
    const Dim rest = d - term.coefficient * detail::make_dim(&atom);
    const auto holds_with = [&](Dim arg) { return is_nonnegative(rest + term.coefficient * arg, ranges, tries); };
    if (atom.kind == AtomKind::floordiv) {
      // e - (c - 1) ≤ c*floordiv(e, c) ≤ e
      const Dim c = atom.args[1];
      if (interval_of(c, ranges).low < 1) continue;
      const Dim bound = positive ? atom.args[0] - c + 1 : atom.args[0];
      if (is_nonnegative(rest * c + term.coefficient * bound, ranges, tries)) return true;
    } else if (atom.kind == AtomKind::min || atom.kind == AtomKind::max) {
      // min is one of its arguments, and at most any of them; max likewise.
      const bool any_will_do = (atom.kind == AtomKind::max) == positive;
      if (any_will_do ? std::any_of(atom.args.begin(), atom.args.end(), holds_with)
                      : std::all_of(atom.args.begin(), atom.args.end(), holds_with))
        return true;
    }
  }
  return false;
}

bool is_nonnegative(Dim d, const SymbolRanges& ranges) {
  int tries = 32;
  return is_nonnegative(d, ranges, tries);
}

// The divisors c of floordiv(e, c) and mod(e, c) whose e holds the symbol.
void collect_divisors(Dim d, const std::string& symbol, std::set<int64_t>& divisors) {
  for (const Term& term : DimNode::of(d).terms) {
    for (const Atom* atom : term.atoms) {
      for (const Dim arg : atom->args) collect_divisors(arg, symbol, divisors);
      if (atom->kind != AtomKind::floordiv && atom->kind != AtomKind::mod) continue;
      std::vector<std::string> symbols;
      atom->args[0].collect_symbols(symbols);
      if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) continue;
      if (const auto c = atom->args[1].maybe_number()) divisors.insert(*c);
    }
  }
}

// Is d = 0, as seen by writing a symbol as L*s + r for every r? That folds floordiv(s, c) and mod(s, c) away:
// s - floordiv(s, 2) = floordiv(s + 1, 2), mod(s, 8) = s - 8*floordiv(s, 8).
bool is_zero_for_every_remainder(Dim d, int64_t budget) {
  if (d == Dim(0)) return true;
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  for (const std::string& name : symbols) {
    std::set<int64_t> divisors;
    collect_divisors(d, name, divisors);
    int64_t period = 1;
    for (const int64_t c : divisors) {
      period = c > budget ? budget + 1 : std::lcm(period, c);
      if (period > budget) break;
    }
    if (period == 1 || period > budget) continue;
    for (int64_t remainder = 0; remainder < period; ++remainder) {
      const Dim value = Dim::symbol(name) * period + remainder;
      if (!is_zero_for_every_remainder(d.substitute({{name, value}}), budget / period)) return false;
    }
    return true;
  }
  return false;
}

// A proof whose intermediate dims overflow or grow too large proves nothing.
template <class Proof> bool shown(const Proof& proof) {
  try {
    return proof();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    return false;
  }
}

}  // namespace

Tri equal(Dim a, Dim b, const SymbolRanges& ranges) {
  if (a == b) return Tri::yes;
  if (a.is_number() && b.is_number()) return Tri::no;
  if (shown([&] { return is_nonnegative(a - b - 1, ranges) || is_nonnegative(b - a - 1, ranges); })) return Tri::no;
  if (shown([&] { return is_nonnegative(a - b, ranges) && is_nonnegative(b - a, ranges); })) return Tri::yes;
  if (shown([&] { return is_zero_for_every_remainder(a - b, 64); })) return Tri::yes;
  return Tri::unknown;
}

Tri at_most(Dim a, Dim b, const SymbolRanges& ranges) {
  if (a == b) return Tri::yes;
  if (a.is_number() && b.is_number()) return a.number() <= b.number() ? Tri::yes : Tri::no;
  if (shown([&] { return is_nonnegative(b - a, ranges); })) return Tri::yes;
  if (shown([&] { return is_nonnegative(a - b - 1, ranges); })) return Tri::no;
  return Tri::unknown;
}

}  // namespace pycandle
