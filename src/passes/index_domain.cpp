// How each op makes an element of its result from elements of its operands.
#include "passes/index_domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "base/array.h"
#include "passes/constants.h"

namespace pycandle {

namespace {

using Kind = Element::Kind;
using Indices = std::vector<Dim>;

// Integers that positions never wrap around in.
bool is_index_dtype(DType d) { return d == DType::i64 || d == DType::i32; }
bool is_index(const Element& e) { return e.kind == Kind::integer && is_index_dtype(e.dtype); }
// An integer as a floating point number in which every position of a sequence is exact: f32 counts to 2^24.
std::optional<Dim> as_count(const Element& e) {
  if (e.dtype != DType::f32 && e.dtype != DType::f64) return std::nullopt;
  if (e.kind == Kind::integer) return e.dim;
  constexpr double kMost = 1 << 24;
  const bool is_whole = e.kind == Kind::number && std::floor(e.number) == e.number && std::abs(e.number) <= kMost;
  return is_whole ? std::optional(Dim(static_cast<int64_t>(e.number))) : std::nullopt;
}
bool is_bool(const Element& e) { return e.dtype == DType::boolean; }

}  // namespace

// One rule per op, or per kind of op. nullptr: no formula; the value is read where it stands.
struct ElementRules {
  IndexEvaluator& evaluator;
  IndexSpace& space;
  const Graph& graph;
  const Node& node;
  Call call;
  const Indices& at_index;

  ElementPtr operand(size_t i, const Indices& indices) const { return evaluator.element(node.operands[i], indices); }
  const Type& type() const { return graph.type(node.results[0]); }

  // ---- sources
  ElementPtr constant() const {
    const Scalar value = call.scalar("value");
    if (type().dtype == DType::boolean) return space.truth(as_int(value) != 0);
    if (is_floating(type().dtype)) return space.number(as_double(value), type().dtype);
    return is_integral(type().dtype) ? space.integer(as_int(value), type().dtype) : nullptr;
  }
  ElementPtr dim() const { return space.integer(call.dim("value")); }
  ElementPtr iota() const { return counted(at_index[0]); }
  ElementPtr arange() const { return counted(call.dim("start") + Dim(call.integer("step")) * at_index[0]); }
  ElementPtr counted(Dim d) const {
    return is_index_dtype(type().dtype) || is_floating(type().dtype) ? space.integer(d, type().dtype) : nullptr;
  }
  ElementPtr eye() const {
    const Dim distance = at_index[0] - at_index[1];
    return as_dtype(space.all({space.nonnegative(distance), space.nonnegative(-distance)}), type().dtype);
  }

  // ---- the same elements elsewhere
  ElementPtr broadcast() const {
    Indices from;
    const Ints& axes = call.integers("axes");
    for (size_t i = 0; i < axes.size(); ++i) {
      const Dim have = call.shape("x")[i], want = call.dims("shape")[axes[i]];
      if (have == want) {
        from.push_back(at_index[axes[i]]);
      } else if (equal(have, Dim(1), space.ranges()) == Tri::yes) {
        from.push_back(Dim(0));
      } else if (at_most(min(want, Dim(2)), have, space.ranges()) == Tri::yes) {
        from.push_back(at_index[axes[i]]);  // not 1 unless the other is: equal, or an error when it runs
      } else {
        return nullptr;
      }
    }
    return operand(0, from);
  }
  ElementPtr transpose() const {
    Indices from(at_index.size(), Dim(0));
    const Ints& permutation = call.integers("permutation");
    for (size_t i = 0; i < from.size(); ++i) from[permutation[i]] = at_index[i];
    return operand(0, from);
  }
  ElementPtr slice() const {
    Indices from;
    for (size_t i = 0; i < at_index.size(); ++i)
      from.push_back(call.dims("starts")[i] + Dim(call.integers("steps")[i]) * at_index[i]);
    return operand(0, from);
  }
  ElementPtr reverse() const {
    Indices from = at_index;
    for (const int64_t axis : call.integers("axes")) from[axis] = call.shape("x")[axis] - 1 - from[axis];
    return operand(0, from);
  }
  ElementPtr repeat() const {
    const Dims& repeats = call.dims("repeats");
    const size_t added = repeats.size() - call.shape("x").size();
    Indices from;
    for (size_t i = added; i < repeats.size(); ++i) {
      const Dim size = call.shape("x")[i - added];
      const auto parts = repeats[i] == Dim(1) ? std::optional(std::pair{Dim(0), at_index[i]}) : divided(at_index[i], size);
      if (!parts && size != Dim(1)) return nullptr;
      from.push_back(size == Dim(1) ? Dim(0) : parts->second);
    }
    return operand(0, from);
  }
  ElementPtr reshape() const {
    // Axes of both sides fall into groups of equal products; within a group the position is one number.
    const Shape &from = call.shape("x"), &to = call.dims("shape");
    Indices result(from.size(), Dim(0));
    for (size_t f = 0, t = 0; f < from.size() || t < to.size();) {
      const size_t first = f;
      Dim have = 1, want = 1, flat = 0;
      do {
        const bool take_target = t < to.size() && (f == from.size() || (have == want ? f == first : divides(want, have)));
        if (take_target) {
          flat = flat * to[t] + at_index[t];
          want = want * to[t++];
        } else if (f < from.size() && divides(have, want)) {
          have = have * from[f++];
        } else {
          return nullptr;
        }
      } while (have != want);
      for (size_t i = f; i-- > first;) {
        const bool outermost = std::all_of(from.begin() + static_cast<std::ptrdiff_t>(first),
                                           from.begin() + static_cast<std::ptrdiff_t>(i), [](Dim d) { return d == Dim(1); });
        if (from[i] == Dim(1)) continue;
        const auto parts = outermost ? std::optional(std::pair{Dim(0), flat}) : divided(flat, from[i]);
        if (!parts) return nullptr;
        result[i] = parts->second;
        flat = parts->first;
      }
    }
    return operand(0, result);
  }
  static bool divides(Dim part, Dim whole) { return mod(whole, part) == Dim(0); }

  // Quotient and remainder of a position by the size of an axis, where the bounds of the indices prove them.
  std::optional<std::pair<Dim, Dim>> divided(Dim position, Dim size) const {
    Dim whole = 0, rest = position.substitute(zeros(position));
    for (const std::string& name : space.variables_of(position)) {
      const auto factor = space.factor(position, name);
      if (!factor) return std::nullopt;
      const Dim term = *factor * Dim::symbol(name);
      if (mod(*factor, size) == Dim(0))
        whole = whole + floordiv(*factor, size) * Dim::symbol(name);
      else
        rest = rest + term;
    }
    if (!space.always_nonnegative(rest) || !space.always_nonnegative(size - 1 - rest)) return std::nullopt;
    return std::pair{whole, rest};
  }
  std::map<std::string, Dim, std::less<>> zeros(Dim d) const {
    std::map<std::string, Dim, std::less<>> values;
    for (const std::string& name : space.variables_of(d)) values.emplace(name, Dim(0));
    return values;
  }

  // Parts that continue one another (arange with the number before it put in front) are one formula.
  ElementPtr concat() const {
    const size_t axis = call.integer("axis");
    Dim total = 0;
    std::vector<Dim> starts;
    for (const ValueId part : node.operands) {
      starts.push_back(total);
      total = total + graph.type(part).shape[axis];
    }
    const auto within = [&](size_t i, Dim position) {
      Indices indices = at_index;
      indices[axis] = position - starts[i];
      return operand(i, indices);
    };
    for (size_t i = 0; i < starts.size(); ++i) {
      const Dim stop = i + 1 < starts.size() ? starts[i + 1] : total;
      if (space.always_nonnegative(at_index[axis] - starts[i]) && space.always_nonnegative(stop - 1 - at_index[axis]))
        return within(i, at_index[axis]);
    }
    const Dim position = space.fresh(total);
    const std::string name = position.text();
    std::optional<Dim> whole;
    for (size_t i = starts.size(); i-- > 0;) {
      const ElementPtr part = within(i, position);
      if (!is_index(*part)) return nullptr;
      if (!whole) {
        whole = part->dim;
        continue;
      }
      const bool one = starts[i + 1] - starts[i] == Dim(1);
      const auto at_start = [&](Dim d) { return one ? d.substitute({{name, starts[i]}}) : d; };
      if (at_start(part->dim) != at_start(*whole)) return nullptr;
    }
    return space.integer(whole->substitute({{name, at_index[axis]}}), type().dtype);
  }
  ElementPtr gather_nd() const {
    const Ints& axes = call.integers("axes");
    const size_t rank = graph.type(node.operands[1]).shape.size();
    const bool consecutive = axes.back() - axes.front() == static_cast<int64_t>(axes.size()) - 1;
    const size_t place = consecutive ? axes.front() : 0;
    const Indices inner(at_index.begin() + static_cast<std::ptrdiff_t>(place),
                        at_index.begin() + static_cast<std::ptrdiff_t>(place + rank));
    Indices kept = at_index;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(place), kept.begin() + static_cast<std::ptrdiff_t>(place + rank));
    Indices from;
    for (size_t axis = 0, k = 0, n = 0; axis < call.shape("x").size(); ++axis) {
      if (k < axes.size() && axes[k] == static_cast<int64_t>(axis)) {
        const ElementPtr index = operand(++k, inner);
        if (!is_index(*index) || !space.always_nonnegative(index->dim)) return nullptr;
        from.push_back(index->dim);
      } else {
        from.push_back(kept[n++]);
      }
    }
    return operand(0, from);
  }
  ElementPtr gather() const {
    const ElementPtr index = operand(1, at_index);
    if (!is_index(*index) || !space.always_nonnegative(index->dim)) return nullptr;
    Indices from = at_index;
    from[call.integer("axis")] = index->dim;
    return operand(0, from);
  }

  // ---- along an axis
  ElementPtr cumsum() const {
    const size_t axis = call.integer("axis");
    Indices from = at_index;
    from[axis] = space.fresh(call.shape("x")[axis]);
    const ElementPtr each = operand(0, from);
    const std::optional<Dim> count = is_index(*each) ? std::optional(each->dim) : as_count(*each);
    if (!count || each->variables.count(from[axis].text()) != 0) return nullptr;
    return space.integer(*count * (at_index[axis] + 1), type().dtype);
  }
  ElementPtr diff() const {
    if (call.integer("n") != 1) return nullptr;
    Indices next = at_index;
    Dim& position = next[call.integer("axis")];
    position = position + 1;
    const ElementPtr a = operand(0, next), b = operand(0, at_index);
    return is_index(*a) && is_index(*b) ? space.integer(a->dim - b->dim, type().dtype) : nullptr;
  }
  ElementPtr tril() const { return triangle(1); }
  ElementPtr triu() const { return triangle(-1); }
  ElementPtr triangle(int sign) const {
    const size_t n = at_index.size();
    const ElementPtr inside = space.nonnegative(Dim(sign) * (at_index[n - 2] + call.dim("diagonal") - at_index[n - 1]));
    return space.choice(inside, operand(0, at_index), zero(type().dtype));
  }
  ElementPtr zero(DType d) const {
    if (d == DType::boolean) return space.truth(false);
    return is_floating(d) ? space.number(0, d) : space.integer(0, d);
  }

  // ---- elementwise
  ElementPtr select() const {
    const ElementPtr condition = operand(0, at_index), yes = operand(1, at_index), no = operand(2, at_index);
    return space.choice(condition, yes, no);
  }
  ElementPtr cast() const { return as_dtype(operand(0, at_index), call.dtype("dtype")); }
  ElementPtr as_dtype(const ElementPtr& x, DType to) const {
    if (x->dtype == to) return x;
    if (is_complex(to)) return nullptr;
    if (is_bool(*x)) return space.choice(x, one(to), zero(to));
    if (x->kind == Kind::choice) {
      const ElementPtr yes = as_dtype(x->args[1], to), no = as_dtype(x->args[2], to);
      return yes && no ? space.choice(x->args[0], yes, no) : nullptr;
    }
    const auto constant = constant_of(*x);
    if (to == DType::boolean) {
      if (constant) return space.truth(*constant != 0);
      return is_index(*x) ? compared("ne", x->dim, Dim(0)) : applied({x}, {{"dtype", to}});
    }
    if (is_floating(to) && constant) return space.number(*constant, to);
    if (is_index(*x) && (is_index_dtype(to) || is_floating(to))) return space.integer(x->dim, to);
    if (const auto count = as_count(*x); count && is_index_dtype(to)) return space.integer(*count, to);
    return applied({x}, {{"dtype", to}});
  }
  ElementPtr one(DType d) const { return is_floating(d) ? space.number(1, d) : space.integer(1, d); }

  ElementPtr bitwise_not() const { return type().dtype == DType::boolean ? space.negation(operand(0, at_index)) : nullptr; }

  ElementPtr elementwise() const {
    std::vector<ElementPtr> args;
    for (size_t i = 0; i < node.operands.size(); ++i) args.push_back(operand(i, at_index));
    return combined(args);
  }

  // A choice goes outside, so that its branches fold: (c ? 1 : 0) == 0 is not c.
  ElementPtr combined(const std::vector<ElementPtr>& args) const {
    for (size_t i = 0; i < args.size(); ++i) {
      const Element& arg = *args[i];
      if (arg.kind != Kind::choice) continue;
      const bool others_constant = std::all_of(args.begin(), args.end(), [&](const ElementPtr& other) {
        return other == args[i] || constant_of(*other) ||
               (other->kind == Kind::choice && same_formula(*other->args[0], *arg.args[0]));
      });
      if (!others_constant) continue;
      const auto branch = [&](size_t b) {
        std::vector<ElementPtr> chosen;
        for (const ElementPtr& other : args) chosen.push_back(other->kind == Kind::choice ? other->args[b] : other);
        return combined(chosen);
      };
      const ElementPtr yes = branch(1), no = branch(2);
      return yes && no ? space.choice(arg.args[0], yes, no) : nullptr;
    }
    if (args.size() == 2) {
      if (const ElementPtr folded = folded_pair(*args[0], *args[1], args)) return folded;
    }
    return applied(args, node.attributes);
  }

  ElementPtr folded_pair(const Element& a, const Element& b, const std::vector<ElementPtr>& args) const {
    const std::string& op = node.op->name;
    if (is_bool(a) && is_bool(b)) return folded_truths(op, args[0], args[1]);
    if (is_index(a) && is_index(b)) {
      if (type().dtype == DType::boolean) return compared(op, a.dim, b.dim);
      const auto d = arithmetic(op, a.dim, b.dim);
      return d ? space.integer(*d, type().dtype) : nullptr;
    }
    if (is_distance(a) && is_index(b) && type().dtype == DType::boolean) return compared_distance(op, a.args[0]->dim, b.dim);
    const auto x = constant_of(a), y = constant_of(b);
    if (x && y) {
      if (type().dtype == DType::boolean) {
        const auto holds = comparison(op, *x, *y);
        return holds ? space.truth(*holds) : nullptr;
      }
      const auto value = arithmetic(op, *x, *y);
      return value && is_floating(type().dtype) ? space.number(*value, type().dtype) : nullptr;
    }
    if (const auto m = as_count(a), n = as_count(b); m && n && (op == "add" || op == "sub"))
      return space.integer(op == "add" ? *m + *n : *m - *n, type().dtype);
    // What changes nothing.
    if (op == "add" && x && *x == 0) return args[1];
    if ((op == "add" || op == "sub") && y && *y == 0) return args[0];
    if (op == "mul" && x && *x == 1) return args[1];
    if ((op == "mul" || op == "div") && y && *y == 1) return args[0];
    return nullptr;
  }

  ElementPtr folded_truths(const std::string& op, const ElementPtr& a, const ElementPtr& b) const {
    const auto differ = [&] { return space.any({space.all({a, space.negation(b)}), space.all({space.negation(a), b})}); };
    if (op == "bitwise_and" || op == "mul" || op == "minimum") return space.all({a, b});
    if (op == "bitwise_or" || op == "add" || op == "maximum") return space.any({a, b});
    if (op == "bitwise_xor" || op == "ne") return differ();
    if (op == "eq") return space.negation(differ());
    return nullptr;
  }

  ElementPtr compared(const std::string& op, Dim a, Dim b) const {
    if (op == "ge") return space.nonnegative(a - b);
    if (op == "gt") return space.nonnegative(a - b - 1);
    if (op == "le") return space.nonnegative(b - a);
    if (op == "lt") return space.nonnegative(b - a - 1);
    if (op == "eq") return space.all({space.nonnegative(a - b), space.nonnegative(b - a)});
    if (op == "ne") return space.any({space.nonnegative(a - b - 1), space.nonnegative(b - a - 1)});
    return nullptr;
  }
  // |a| against b; nothing but "at most" makes one mask of it.
  static bool is_distance(const Element& e) { return e.kind == Kind::applied && e.op == "abs" && is_index(*e.args[0]); }
  ElementPtr compared_distance(const std::string& op, Dim a, Dim b) const {
    if (op != "le" && op != "lt") return nullptr;
    return space.all({compared(op, a, b), compared(op, -a, b)});
  }
  static std::optional<bool> comparison(const std::string& op, double a, double b) {
    if (op == "ge") return a >= b;
    if (op == "gt") return a > b;
    if (op == "le") return a <= b;
    if (op == "lt") return a < b;
    if (op == "eq") return a == b;
    if (op == "ne") return a != b;
    return std::nullopt;
  }
  template <class T> static std::optional<T> arithmetic(const std::string& op, T a, T b) {
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if constexpr (std::is_same_v<T, Dim>) {
      const bool positive = b.is_number() && b.number() > 0;
      if (op == "minimum") return min(a, b);
      if (op == "maximum") return max(a, b);
      if (op == "floor_divide" && positive) return floordiv(a, b);
      if (op == "remainder" && positive) return mod(a, b);
    } else {
      if (op == "div") return a / b;
    }
    return std::nullopt;
  }

  ElementPtr abs() const {
    const ElementPtr x = operand(0, at_index);
    return applied({x}, node.attributes);
  }
  ElementPtr neg() const { return negative(operand(0, at_index)); }
  ElementPtr negative(const ElementPtr& x) const {
    if (x->kind == Kind::choice) {
      const ElementPtr yes = negative(x->args[1]), no = negative(x->args[2]);
      return yes && no ? space.choice(x->args[0], yes, no) : nullptr;
    }
    if (is_index(*x)) return space.integer(-x->dim, type().dtype);
    if (x->kind == Kind::number) return space.number(-x->number, type().dtype);
    return applied({x}, node.attributes);
  }

  // An op on values that are read. Where one of them has all the axes, the result can be read as well as computed.
  ElementPtr applied(const std::vector<ElementPtr>& args, Attributes attributes) const {
    std::set<std::string> variables;
    for (const Dim d : at_index) variables.merge(space.variables_of(d));
    const bool only_reads = std::all_of(args.begin(), args.end(),
                                        [](const ElementPtr& a) { return a->kind == Kind::read || constant_of(*a); });
    const bool outer = std::none_of(args.begin(), args.end(), [&](const ElementPtr& a) { return a->variables == variables; });
    if (only_reads && !outer) return nullptr;
    return space.applied(node.op->name, std::move(attributes), args, type().dtype);
  }
};

namespace {

using Rule = ElementPtr (ElementRules::*)() const;

const std::map<std::string, Rule, std::less<>>& rules() {
  using R = ElementRules;
  static const std::map<std::string, Rule, std::less<>> table = [] {
    std::map<std::string, Rule, std::less<>> made = {
        {"constant", &R::constant},
        {"dim", &R::dim},
        {"iota", &R::iota},
        {"arange", &R::arange},
        {"eye", &R::eye},
        {"broadcast", &R::broadcast},
        {"transpose", &R::transpose},
        {"slice", &R::slice},
        {"reverse", &R::reverse},
        {"repeat", &R::repeat},
        {"reshape", &R::reshape},
        {"concat", &R::concat},
        {"gather_nd", &R::gather_nd},
        {"gather", &R::gather},
        {"cumsum", &R::cumsum},
        {"diff", &R::diff},
        {"tril", &R::tril},
        {"triu", &R::triu},
        {"select", &R::select},
        {"cast", &R::cast},
        {"neg", &R::neg},
        {"abs", &R::abs},
        {"bitwise_not", &R::bitwise_not},
    };
    for (const char* op : {"add", "sub", "mul", "div", "minimum", "maximum", "floor_divide", "remainder", "eq", "ne", "lt", "le",
                           "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor"})
      made.emplace(op, &R::elementwise);
    return made;
  }();
  return table;
}

}  // namespace

ElementPtr IndexEvaluator::element(ValueId v, const std::vector<Dim>& indices) {
  std::string key = std::to_string(v);
  for (const Dim d : indices) key += "," + d.text();
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  constexpr int kMaxEvaluations = 5000;  // a mask takes some hundred
  if (depth_ == 0) left_ = kMaxEvaluations;
  ++depth_;
  ElementPtr result = left_-- > 0 ? computed(v, indices) : nullptr;
  --depth_;
  if (!result) result = space_->read(v, graph_->type(v).dtype, indices);
  return known_.emplace(std::move(key), std::move(result)).first->second;
}

ElementPtr IndexEvaluator::computed(ValueId v, const std::vector<Dim>& indices) {
  constexpr int kMaxDepth = 200;  // no mask is built by more steps in a row
  const Node* node = defining_node(*graph_, v);
  if (!node || depth_ > kMaxDepth) return nullptr;
  const auto rule = rules().find(node->op->name);
  if (rule == rules().end() || node->results.size() != 1) return nullptr;
  try {
    const ElementPtr e = (ElementRules{*this, *space_, *graph_, *node, call_of(*graph_, *node), indices}.*rule->second)();
    constexpr size_t kMaxFormula = 128;
    return e && e->size <= kMaxFormula ? e : nullptr;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    return nullptr;  // a dim that grew too large
  }
}

}  // namespace pycandle
