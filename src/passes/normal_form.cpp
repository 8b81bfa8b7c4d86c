#include "passes/normal_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "base/array.h"
#include "ir/builder.h"

namespace pycandle {
namespace {

constexpr int kLargestFormula = 600;  // terms; the largest functional that looks for itself needs some 60
constexpr size_t kLargestFragment = 96;  // nodes of the graph, constants and broadcasts included

// Does every value of `from` exist in `to`? Then a cast there loses nothing.
bool is_widening(DType from, DType to) {
  if (is_floating(from) && is_floating(to)) {
    return to == DType::f64 || (to == DType::f32 && from != DType::f64) || from == to;
  }
  return from == DType::boolean && is_floating(to);
}

// Reshapes that only add or drop axes of 1: for every new axis the old one, or -1.
std::optional<Ints> axes_of_reshape(const Shape& from, const Shape& to) {
  Ints axes;
  size_t next = 0;
  const auto skip_ones = [&] {
    while (next < from.size() && from[next] == Dim(1)) ++next;
  };
  for (Dim d : to) {
    if (d == Dim(1)) {
      axes.push_back(-1);
      continue;
    }
    skip_ones();
    if (next == from.size() || from[next] != d) return std::nullopt;
    axes.push_back(static_cast<int64_t>(next++));
  }
  skip_ones();
  if (next != from.size()) return std::nullopt;
  return axes;
}

const Attribute& attribute_of(const Node& node, std::string_view name) {
  return node.attributes.at(node.op->attribute_index(name)).second;
}

std::string text_of(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += name + "=" + to_string(value) + ";";
  return text;
}

// A step's last partial stride does not matter: 0:7:2 and 0:8:2 of an even axis are one slice.
std::string slice_text(const Node& node) {
  const Dims &starts = std::get<Dims>(attribute_of(node, "starts")), &stops = std::get<Dims>(attribute_of(node, "stops"));
  const Ints& steps = std::get<Ints>(attribute_of(node, "steps"));
  std::string text;
  for (size_t i = 0; i < starts.size(); ++i) {
    Dim stop = stops[i];
    if (steps[i] > 1) stop = starts[i] + floordiv(stop - starts[i] + (steps[i] - 1), Dim(steps[i])) * steps[i];
    text += fmt::format("{}:{}:{};", starts[i].text(), stop.text(), steps[i]);
  }
  return text;
}

}  // namespace

// ---- interning

Term NormalForm::intern(Entry e) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}", e.op, e.attributes, fmt::join(e.operands, ","),
                                std::bit_cast<uint64_t>(e.number), fmt::join(e.axes, ","), name_of(e.type.dtype));
  if (!e.elementwise && e.op != "constant") key += to_string(e.type.shape);
  const auto [place, is_new] = interned_.emplace(std::move(key), static_cast<Term>(entries_.size()));
  if (is_new) {
    entries_.push_back(std::move(e));
    --budget_;
  }
  return place->second;
}

Term NormalForm::leaf(size_t number, const Type& type) {
  Entry e;
  e.op = "leaf";
  e.number = static_cast<double>(number);
  e.type = type;
  return intern(std::move(e));
}

Term NormalForm::number(double value, DType dtype) {
  Entry e;
  e.op = "constant";
  e.number = is_floating(dtype) ? load_double(Array::scalar(dtype, value)).at(0) : value;
  e.type.dtype = dtype;
  return intern(std::move(e));
}

Term NormalForm::elementwise(std::string op, Terms operands, DType dtype) {
  if (table_->at(op).is_commutative) std::sort(operands.begin(), operands.end());
  Entry e;
  e.op = std::move(op);
  e.type.dtype = dtype;
  for (Term t : operands) {
    if (!is(t, "constant")) e.type.shape = at(t).type.shape;
  }
  e.operands = std::move(operands);
  e.elementwise = true;
  return intern(std::move(e));
}

std::string NormalForm::text(Term t) const {
  const Entry& e = at(t);
  if (e.op == "leaf") return fmt::format("${}", e.number);
  if (e.op == "constant") return fmt::format("{}", e.number);
  std::string inner;
  for (Term operand : e.operands) inner += (inner.empty() ? "" : ", ") + (operand == kNoTerm ? "_" : text(operand));
  if (e.op == "scale") return fmt::format("{}·{}", e.number, inner);
  if (e.op == "view") return fmt::format("view[{} {}]({})", fmt::join(e.axes, " "), to_string(e.type.shape), inner);
  return fmt::format("{}{}({})", e.op, e.attributes.empty() ? "" : "{" + e.attributes + "}", inner);
}

// ---- sums and products

Term NormalForm::sum(Term a, Term b) { return elementwise("add", {a, b}, at(a).type.dtype); }

// x as a signed power of two times the rest; a number keeps its mantissa.
std::pair<double, Term> NormalForm::unscaled(Term x) {
  const Entry& e = at(x);
  if (e.op == "scale") return {e.number, e.operands[0]};
  if (e.op != "constant" || !std::isfinite(e.number) || e.number == 0) return {1, x};
  int exponent = 0;
  const double mantissa = std::frexp(std::abs(e.number), &exponent) * 2;  // in [1, 2)
  return {std::copysign(std::ldexp(1.0, exponent - 1), e.number), number(mantissa, e.type.dtype)};
}

Term NormalForm::scaled(double factor, Term x) {
  if (factor == 1) return x;
  const Entry& e = at(x);
  const DType dtype = e.type.dtype;
  if (e.op == "constant") return number(factor * e.number, dtype);
  if (e.op == "scale") return scaled(factor * e.number, e.operands[0]);
  Entry s;
  s.op = "scale";
  s.number = factor;
  s.operands = {x};
  s.type = e.type;
  s.elementwise = true;
  return intern(std::move(s));
}

Term NormalForm::product(Term a, Term b) {
  const DType dtype = at(a).type.dtype;
  if (!is_floating(dtype)) return elementwise("mul", {a, b}, dtype);
  const auto [left_factor, left] = unscaled(a);
  const auto [right_factor, right] = unscaled(b);
  Term rest = kNoTerm;
  if (is_number(left, 1)) {
    rest = right;
  } else if (is_number(right, 1)) {
    rest = left;
  } else {
    rest = elementwise("mul", {left, right}, dtype);
  }
  return scaled(left_factor * right_factor, rest);
}

Term NormalForm::quotient(Term a, Term b) {
  const DType dtype = at(a).type.dtype;
  if (!is_floating(dtype)) return elementwise("div", {a, b}, dtype);
  const auto [left_factor, left] = unscaled(a);
  const auto [right_factor, right] = unscaled(b);
  const Term rest = is_number(right, 1) ? left : elementwise("div", {left, right}, dtype);
  return scaled(left_factor / right_factor, rest);
}

Term NormalForm::power(Term x, Term exponent) {
  const DType dtype = at(x).type.dtype;
  if (is_floating(dtype)) {
    if (is_number(exponent, 1)) return x;
    if (is_number(exponent, 2)) return product(x, x);
    if (is_number(exponent, 0.5)) return elementwise("sqrt", {x}, dtype);
    if (is_number(exponent, -0.5)) return elementwise("rsqrt", {x}, dtype);
    if (is_number(exponent, -1)) return quotient(number(1, dtype), x);
  }
  return elementwise("pow", {x, exponent}, dtype);
}

Term NormalForm::cast(Term x, DType to) {
  const Entry& e = at(x);
  if (e.type.dtype == to) return x;
  if (e.op == "constant" && is_floating(to)) return number(e.number, to);
  if (e.op == "scale" && is_floating(e.type.dtype) && is_floating(to)) return scaled(e.number, cast(e.operands[0], to));
  if (e.op == "cast" && is_widening(at(e.operands[0]).type.dtype, e.type.dtype)) return cast(e.operands[0], to);
  return elementwise("cast", {x}, to);
}

Term NormalForm::select(Term condition, Term yes, Term no) {
  if (is(condition, "bitwise_not")) return select(at(condition).operands[0], no, yes);
  return elementwise("select", {condition, yes, no}, at(yes).type.dtype);
}

// ---- movement

Term NormalForm::rebuilt(const Entry& e, Terms operands) {
  if (e.op == "scale") return scaled(e.number, operands[0]);
  return elementwise(e.op, std::move(operands), e.type.dtype);
}

// Elementwise ops are moved by moving their operands, so that movement stands as far in as it can.
Term NormalForm::moved(Term x, const Movement& m) {
  if (is(x, "constant")) return x;
  if (at(x).elementwise) {
    const std::string key = fmt::format("{}|{}|{}|{}|{}", x, static_cast<int>(m.kind), to_string(m.shape), fmt::join(m.axes, ","),
                                        m.attributes);
    if (const auto found = moved_.find(key); found != moved_.end()) return found->second;
    if (--budget_ < 0) return x;  // the caller sees the budget
    const Entry e = at(x);
    Terms operands;
    for (Term operand : e.operands) operands.push_back(moved(operand, m));
    const Term result = rebuilt(e, std::move(operands));
    moved_.emplace(key, result);
    return result;
  }
  Entry e;
  e.operands = {x};
  e.type = {at(x).type.dtype, m.shape};
  if (m.kind == Movement::Kind::view) {
    e.op = "view";
    e.axes = m.axes;
  } else {
    e.op = m.kind == Movement::Kind::reshape ? "reshape" : "slice";
    e.attributes = m.attributes;
  }
  return intern(std::move(e));
}

Term NormalForm::view(Term x, Shape shape, Ints axes) {
  if (is(x, "constant")) return x;
  const Shape& from = at(x).type.shape;
  // What is computed from constants alone has no shape of its own: it is the same everywhere.
  for (int64_t axis : axes) {
    if (axis >= static_cast<int64_t>(from.size())) return x;
  }
  for (int64_t& axis : axes) {
    if (axis >= 0 && from.at(axis) == Dim(1)) axis = -1;
  }
  bool is_same = shape == from;
  for (size_t i = 0; is_same && i < axes.size(); ++i) is_same = axes[i] == static_cast<int64_t>(i) || shape[i] == Dim(1);
  if (is_same) return x;
  if (is(x, "view")) {
    const Entry inner = at(x);
    for (int64_t& axis : axes) axis = axis < 0 ? -1 : inner.axes[axis];
    return view(inner.operands[0], std::move(shape), std::move(axes));
  }
  return moved(x, {Movement::Kind::view, std::move(shape), std::move(axes), {}});
}

Term NormalForm::reshape(Term x, const Shape& shape) {
  if (is(x, "constant") || at(x).type.shape == shape) return x;
  if (is(x, "reshape")) return reshape(at(x).operands[0], shape);
  if (auto axes = axes_of_reshape(at(x).type.shape, shape)) return view(x, shape, std::move(*axes));
  return moved(x, {Movement::Kind::reshape, shape, {}, {}});
}

Term NormalForm::transposed(Term x, const Ints& permutation) {
  if (at(x).type.shape.size() != permutation.size()) return x;  // constants alone
  Shape shape;
  for (int64_t axis : permutation) shape.push_back(at(x).type.shape.at(axis));
  return view(x, std::move(shape), permutation);
}

// ---- products of matrices: powers of two come out, and an operand that is only transposed is taken as it lies

Term NormalForm::contraction(const Node& node, const Type& type, Term left, Term right) {
  const auto [left_factor, l] = unscaled(left);
  const auto [right_factor, r] = unscaled(right);
  Ints batch[2] = {std::get<Ints>(attribute_of(node, "batch_left")), std::get<Ints>(attribute_of(node, "batch_right"))};
  Ints contract[2] = {std::get<Ints>(attribute_of(node, "contract_left")), std::get<Ints>(attribute_of(node, "contract_right"))};
  Terms operands{l, r};
  for (size_t side = 0; side < 2; ++side) {
    if (!is(operands[side], "view")) continue;
    const Entry v = at(operands[side]);
    const Type& source = at(v.operands[0]).type;
    Ints axes = v.axes;
    std::vector<bool> used(source.shape.size());
    for (int64_t axis : axes) {
      if (axis >= 0) used[axis] = true;
    }
    if (axes.size() != source.shape.size()) continue;
    bool is_permutation = true;
    for (size_t i = 0; i < axes.size() && is_permutation; ++i) {
      if (axes[i] >= 0) continue;
      const auto free = std::find(used.begin(), used.end(), false);
      is_permutation = v.type.shape[i] == Dim(1) && free != used.end();
      if (!is_permutation) break;
      axes[i] = free - used.begin();
      *free = true;
    }
    if (!is_permutation) continue;
    int64_t last = -1;  // the rest keeps its order
    for (size_t i = 0; i < axes.size() && is_permutation; ++i) {
      const auto here = static_cast<int64_t>(i);
      const bool is_rest = std::find(batch[side].begin(), batch[side].end(), here) == batch[side].end() &&
                           std::find(contract[side].begin(), contract[side].end(), here) == contract[side].end();
      if (!is_rest) continue;
      is_permutation = axes[i] > last;
      last = axes[i];
    }
    if (!is_permutation) continue;
    for (Ints* list : {&batch[side], &contract[side]}) {
      for (int64_t& axis : *list) axis = axes[axis];
    }
    operands[side] = v.operands[0];
  }
  Entry e;
  e.op = "dot_general";
  e.attributes = fmt::format("{};{};{};{}", fmt::join(batch[0], ","), fmt::join(batch[1], ","), fmt::join(contract[0], ","),
                             fmt::join(contract[1], ","));
  e.operands = std::move(operands);
  e.type = type;
  return scaled(left_factor * right_factor, intern(std::move(e)));
}

// ---- graphs

// Numbers have no shape of their own, but how many there are matters to a sum over them.
std::string NormalForm::text_of_shapeless(const Graph& g, const Node& node, const Terms& xs) const {
  std::string text;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i] != kNoTerm && at(xs[i]).type.shape.empty()) text += to_string(g.type(node.operands[i]).shape);
  }
  return text;
}

Term NormalForm::primitive(const Graph& g, const Node& node, const Type& type, const Terms& xs) {
  const std::string& op = node.op->name;
  if (op == "constant") {
    const Scalar value = scalar_of(attribute_of(node, "value"));
    const bool is_double = !std::holds_alternative<std::complex<double>>(value) && std::abs(as_double(value)) < 0x1p53;
    if (is_double || is_floating(type.dtype)) return number(as_double(value), type.dtype);
  }
  if (op == "add") return sum(xs[0], xs[1]);
  if (op == "sub" && type.dtype != DType::boolean) return sum(xs[0], scaled(-1, xs[1]));
  if (op == "neg") return scaled(-1, xs[0]);
  if (op == "mul") return product(xs[0], xs[1]);
  if (op == "div") return quotient(xs[0], xs[1]);
  if (op == "reciprocal") return quotient(number(1, type.dtype), xs[0]);
  if (op == "pow") return power(xs[0], xs[1]);
  if (op == "cast") return cast(xs[0], type.dtype);
  if (op == "select") return select(xs[0], xs[1], xs[2]);
  if (op == "gt") return elementwise("lt", {xs[1], xs[0]}, type.dtype);
  if (op == "ge") return elementwise("le", {xs[1], xs[0]}, type.dtype);
  if (op == "reshape") return reshape(xs[0], type.shape);
  if (op == "transpose") return transposed(xs[0], std::get<Ints>(attribute_of(node, "permutation")));
  if (op == "broadcast") {
    Ints axes(type.shape.size(), -1);
    const Ints& places = std::get<Ints>(attribute_of(node, "axes"));
    for (size_t i = 0; i < places.size(); ++i) axes[places[i]] = static_cast<int64_t>(i);
    return view(xs[0], type.shape, std::move(axes));
  }
  if (op == "slice") {
    if (is(xs[0], "constant") || at(xs[0]).type.shape == type.shape) return xs[0];
    return moved(xs[0], {Movement::Kind::slice, type.shape, {}, slice_text(node)});
  }
  if (op == "reduce_sum" && is_real(xs[0])) {
    const auto [factor, x] = unscaled(xs[0]);
    if (factor != 1) return scaled(factor, primitive(g, node, type, {x}));
  }
  if (op == "dot_general" && is_real(xs[0]) && text_of_shapeless(g, node, xs).empty())
    return contraction(node, type, xs[0], xs[1]);
  if (node.op->is_primitive && node.op->is_pointwise && node.attributes.empty()) return elementwise(op, xs, type.dtype);
  Entry e;
  e.op = op;
  e.attributes = text_of(node.attributes) + text_of_shapeless(g, node, xs);
  e.operands = xs;
  e.type = type;
  return intern(std::move(e));
}

Term NormalForm::functional(const Graph& g, const Node& node, size_t result, const Terms& xs) {
  if (!node.op->decomposition) return kNoTerm;
  Graph scratch;
  Known known;
  Values operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId v = node.operands[i];
    operands.push_back(v == kNoValue ? kNoValue : scratch.add_input(g.type(v)));
    if (v != kNoValue) known[operands.back()] = xs[i];
  }
  Builder b(scratch, *table_);
  const Values results = node.op->decomposition(b, Call(*node.op, scratch, operands, node.attributes, node.regions, &b));
  return walk(scratch, results.at(result), known, nullptr);
}

Term NormalForm::node(const Graph& g, const Node& n, size_t result, const Terms& operands) {
  if (n.op->is_random || !n.regions.empty()) return kNoTerm;
  if (!n.op->is_primitive) return functional(g, n, result, operands);
  return n.results.size() == 1 ? primitive(g, n, g.type(n.results[0]), operands) : kNoTerm;
}

Term NormalForm::walk(const Graph& g, ValueId v, Known& known, std::vector<NodeId>* nodes) {
  if (const auto found = known.find(v); found != known.end()) return found->second;
  const Value& value = g.values[v];
  if (value.node < 0 || budget_ <= 0 || (nodes && nodes->size() >= kLargestFragment)) return kNoTerm;
  const Node& n = g.nodes[value.node];
  if (nodes) nodes->push_back(value.node);
  Terms operands;
  for (ValueId operand : n.operands) {
    const Term t = operand == kNoValue ? kNoTerm : walk(g, operand, known, nodes);
    if (operand != kNoValue && t == kNoTerm) return kNoTerm;
    operands.push_back(t);
  }
  const Term result = node(g, n, static_cast<size_t>(value.index), operands);
  known[v] = result;
  return budget_ > 0 ? result : kNoTerm;
}

Term NormalForm::of(const Graph& g, ValueId v, Known& known, std::vector<NodeId>* nodes) {
  budget_ = kLargestFormula;
  return walk(g, v, known, nodes);
}

}  // namespace pycandle
