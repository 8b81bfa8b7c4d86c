#include "base/dim_real.h"

#include <fmt/format.h>

#include <cmath>

#include "base/dim_node.h"
#include "base/error.h"

namespace pycandle {

namespace detail {
namespace {

constexpr double kLargest = 9007199254740992.0;  // 2^53: doubles hold every integer up to it

using Kind = RealNode::Kind;
using Pointer = std::shared_ptr<const RealNode>;

std::optional<double> constant(const RealNode& n) {
  if (n.kind == Kind::number) return n.number;
  if (n.kind == Kind::dim && n.dim.is_number()) return static_cast<double>(n.dim.number());
  return std::nullopt;
}

bool is_composite(const RealNode& n) { return n.kind != Kind::number && n.kind != Kind::dim; }

// With a dot or an exponent, so that it is a double in C++ and in Python too.
std::string number_text(double v) {
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

// A whole dim between operators: one symbol, function or number, or parentheses around it.
std::string dim_text(Dim d) {
  const DimNode& node = DimNode::of(d);
  const bool is_atom = node.constant == 0 && node.terms.size() == 1 && node.terms[0].coefficient == 1 &&
                       node.terms[0].atoms.size() == 1;
  return d.is_number() || is_atom ? d.text() : "(" + d.text() + ")";
}

std::string operand_text(const RealNode& n, bool parentheses) { return parentheses ? "(" + n.text + ")" : n.text; }

// x where the node is -x in writing: -1*x, -1.7*x, -2.
std::optional<std::string> text_of_negated(const RealNode& n) {
  const auto value = constant(n.kind == Kind::mul ? *n.left : n);
  if (!value || *value >= 0) return std::nullopt;
  const DimReal positive = -DimReal(RealNode::wrap(std::make_shared<const RealNode>(n)));
  const RealNode& p = RealNode::of(positive);
  return operand_text(p, p.kind == Kind::add);
}

// A division of two dims would be the integers' in C++ and a sum of two numbers needs no double.
std::string dividend_text(const RealNode& left, const RealNode& right) {
  if (const auto value = constant(left)) return number_text(*value);
  if (left.kind == Kind::dim && right.kind == Kind::dim && !right.dim.is_number()) return "1.0*" + left.text;
  return operand_text(left, left.kind == Kind::add);
}

std::string text_of(const RealNode& n) {
  switch (n.kind) {
    case Kind::number: return number_text(n.number);
    case Kind::dim: return dim_text(n.dim);
    case Kind::add:
      if (const auto negated = text_of_negated(*n.right)) return n.left->text + " - " + *negated;
      return n.left->text + " + " + operand_text(*n.right, n.right->kind == Kind::add);
    case Kind::mul:
      return operand_text(*n.left, n.left->kind == Kind::add) + "*" + operand_text(*n.right, is_composite(*n.right));
    case Kind::div: {
      const auto divisor = constant(*n.right);
      return dividend_text(*n.left, *n.right) + "/" +
             (divisor ? number_text(*divisor) : operand_text(*n.right, is_composite(*n.right)));
    }
  }
  internal_error("a kind of real number that does not exist");
}

Pointer finished(RealNode n) {
  n.text = text_of(n);
  return std::make_shared<const RealNode>(std::move(n));
}

Pointer operation(Kind kind, Pointer left, Pointer right) {
  const int depth = std::max(left->depth, right->depth) + 1;
  check_size(left->text.size() + right->text.size(), depth);
  return finished({kind, Dim(0), 0, std::move(left), std::move(right), depth, {}});
}

double checked(double v) {
  if (!std::isfinite(v)) overflow();
  return v;
}

double apply(Kind kind, double a, double b) {
  if (kind == Kind::add) return checked(a + b);
  if (kind == Kind::mul) return checked(a * b);
  if (b == 0) throw Error(ErrorCode::bad_input, "a dim is divided by zero").found(fmt::format("{}/{}", a, b));
  return checked(a / b);
}

// Sums and products are the same both ways round in IEEE arithmetic: numbers last in sums, first in products.
bool wrong_order(Kind kind, const RealNode& a, const RealNode& b) {
  const auto rank = [&](const RealNode& n) {
    const int is_number = constant(n) ? 1 : 0;
    return kind == Kind::add ? is_number : 1 - is_number;
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b);
  return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.text > b.text;
}

Pointer combined(Kind kind, Pointer a, Pointer b) {
  const auto x = constant(*a), y = constant(*b);
  if (x && y) return RealNode::pointer(DimReal(apply(kind, *x, *y)));
  if (kind == Kind::div) {
    if (y == 0.0) apply(kind, 1, 0);
    return y == 1.0 ? a : operation(kind, std::move(a), std::move(b));
  }
  if (a->kind == Kind::dim && b->kind == Kind::dim)
    return RealNode::pointer(DimReal(kind == Kind::add ? a->dim + b->dim : a->dim * b->dim));
  const double neutral = kind == Kind::add ? 0 : 1;
  if (x == neutral) return b;
  if (y == neutral) return a;
  if (wrong_order(kind, *a, *b)) std::swap(a, b);
  // -(c*x) = (-c)*x
  if (kind == Kind::mul && constant(*a) == -1.0 && b->kind == Kind::mul && constant(*b->left))
    return combined(kind, RealNode::pointer(DimReal(-*constant(*b->left))), b->right);
  return operation(kind, std::move(a), std::move(b));
}

}  // namespace

double RealNode::evaluate(const std::function<int64_t(Dim)>& size) const {
  if (kind == Kind::number) return number;
  if (kind == Kind::dim) {
    const auto value = static_cast<double>(size(dim));
    if (std::abs(value) > kLargest) overflow();
    return value;
  }
  return apply(kind, left->evaluate(size), right->evaluate(size));
}

DimReal RealNode::replaced(const std::function<Dim(Dim)>& other) const {
  if (kind == Kind::number) return number;
  if (kind == Kind::dim) return other(dim);
  return wrap(combined(kind, pointer(left->replaced(other)), pointer(right->replaced(other))));
}

void RealNode::collect(std::vector<Dim>& dims) const {
  if (kind == Kind::dim) dims.push_back(dim);
  if (left) left->collect(dims);
  if (right) right->collect(dims);
}

double round_off(DimRounding rounding, double v) {
  switch (rounding) {
    case DimRounding::floor: return std::floor(v);
    case DimRounding::ceil: return std::ceil(v);
    case DimRounding::trunc: return std::trunc(v);
    case DimRounding::round: return std::nearbyint(v);
  }
  internal_error("a way of rounding that does not exist");
}

int64_t whole(DimRounding rounding, double v) {
  if (!(std::abs(v) <= kLargest)) overflow();
  return static_cast<int64_t>(round_off(rounding, v));
}

}  // namespace detail

using detail::RealNode;

DimReal::DimReal(Dim value) : node_(detail::finished({RealNode::Kind::dim, value, 0, {}, {}, 0, {}})) {}

DimReal::DimReal(double value) {
  detail::checked(value);
  if (std::abs(value) <= detail::kLargest && value == std::trunc(value))
    *this = DimReal(Dim(static_cast<int64_t>(value)));
  else
    node_ = detail::finished({RealNode::Kind::number, Dim(0), value, {}, {}, 0, {}});
}

DimReal operator+(const DimReal& a, const DimReal& b) { return DimReal(detail::combined(RealNode::Kind::add, a.node_, b.node_)); }
DimReal operator*(const DimReal& a, const DimReal& b) { return DimReal(detail::combined(RealNode::Kind::mul, a.node_, b.node_)); }
DimReal operator/(const DimReal& a, const DimReal& b) { return DimReal(detail::combined(RealNode::Kind::div, a.node_, b.node_)); }
DimReal operator-(const DimReal& a) { return DimReal(-1.0) * a; }
DimReal operator-(const DimReal& a, const DimReal& b) { return a + -b; }

Dim rounded(DimRounding rounding, const DimReal& value) {
  const RealNode& n = *value.node_;
  if (n.kind == RealNode::Kind::dim) return n.dim;
  if (n.kind == RealNode::Kind::number) return detail::whole(rounding, n.number);
  return detail::rounded_atom(rounding, value.node_);
}

}  // namespace pycandle
