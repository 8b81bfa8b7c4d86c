// Formulas of the index domain as tensors again.
#include <algorithm>

#include "passes/index_domain.h"

namespace pycandle {
namespace {

using Kind = Element::Kind;

class Materialiser {
 public:
  Materialiser(Builder& b, const IndexSpace& space, const std::vector<std::string>& variables)
      : b_(b), space_(space), variables_(variables) {}

  ValueId value(const Element& e) {
    switch (e.kind) {
      case Kind::integer: return integer(e.dim, e.dtype);
      case Kind::number: return b_.full(e.number, e.dtype);
      case Kind::nonnegative: return inequality(e.dim);
      case Kind::all: return junction(e, "bitwise_and", true);
      case Kind::any: return junction(e, "bitwise_or", false);
      case Kind::read: return negated(e, read(e));
      case Kind::choice: return choice(e);
      case Kind::applied: return negated(e, applied(e));
    }
    internal_error("a formula of no kind");
  }

 private:
  ValueId negated(const Element& e, ValueId v) { return e.negated && v != kNoValue ? b_.logical_not(v) : v; }

  std::optional<size_t> place(const std::string& variable) const {
    const auto found = std::find(variables_.begin(), variables_.end(), variable);
    if (found == variables_.end()) return std::nullopt;
    return static_cast<size_t>(found - variables_.begin());
  }

  // Which variable an index is, when it is just that.
  std::optional<size_t> place_of(Dim index) const {
    const std::set<std::string> names = space_.variables_of(index);
    if (names.size() != 1 || Dim::symbol(*names.begin()) != index) return std::nullopt;
    return place(*names.begin());
  }

  ValueId read(const Element& e) {
    const Shape shape = b_.shape(e.value);
    ValueId v = e.value;
    std::vector<size_t> places;  // of the axes that stay
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (e.indices[axis].is_number()) continue;
      const auto where = place_of(e.indices[axis]);
      const bool again = where && std::find(places.begin(), places.end(), *where) != places.end();
      if (!where || again || space_.size_of(variables_[*where]) != shape[axis]) return kNoValue;
      places.push_back(*where);
    }
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (!e.indices[axis].is_number()) continue;
      const auto a = static_cast<int64_t>(axis);
      v = shape[axis] == Dim(1) ? v : b_.slice(v, a, e.indices[axis], e.indices[axis] + 1);
    }
    Shape kept, wide(variables_.size(), Dim(1));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!e.indices[axis].is_number()) kept.push_back(shape[axis]);
    }
    Ints order(places.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return places[a] < places[b]; });
    for (size_t i = 0; i < places.size(); ++i) wide[places[i]] = kept[i];
    if (std::is_sorted(order.begin(), order.end())) return b_.reshape(v, wide);
    return b_.reshape(b_.transpose(b_.reshape(v, kept), order), wide);
  }

  ValueId integer(Dim d, DType dtype) {
    ValueId sum = kNoValue;
    Dim rest = d;
    for (const std::string& name : space_.variables_of(d)) {
      const auto where = place(name);
      const auto factor = space_.factor(d, name);
      if (!where || !factor || !space_.variables_of(*factor).empty()) return kNoValue;
      Shape wide(variables_.size(), Dim(1));
      wide[*where] = space_.size_of(name);
      ValueId term = b_.reshape(b_.iota(wide[*where]), wide);
      if (*factor != Dim(1)) term = b_.mul(term, b_.dim_value(*factor));
      sum = sum == kNoValue ? term : b_.add(sum, term);
      rest = rest.substitute({{name, Dim(0)}});
    }
    if (sum == kNoValue) return b_.dim_value(rest, dtype);
    if (rest != Dim(0)) sum = b_.add(sum, b_.dim_value(rest));
    return b_.cast(sum, dtype);
  }

  ValueId inequality(Dim d) {
    const ValueId v = integer(d, DType::i64);
    return v == kNoValue ? kNoValue : b_.compare("ge", v, b_.full(int64_t{0}, DType::i64));
  }

  ValueId junction(const Element& e, const char* op, bool of_none) {
    if (e.args.empty()) return b_.full(of_none, DType::boolean);
    ValueId sum = kNoValue;
    for (const ElementPtr& arg : e.args) {
      const ValueId v = value(*arg);
      if (v == kNoValue) return kNoValue;
      sum = sum == kNoValue ? v : b_.binary(op, sum, v);
    }
    return sum;
  }

  ValueId choice(const Element& e) {
    Values parts;
    for (const ElementPtr& arg : e.args) {
      parts.push_back(value(*arg));
      if (parts.back() == kNoValue) return kNoValue;
    }
    return b_.select(parts[0], parts[1], parts[2]);
  }

  ValueId applied(const Element& e) {
    Values parts;
    for (const ElementPtr& arg : e.args) {
      parts.push_back(value(*arg));
      if (parts.back() == kNoValue) return kNoValue;
    }
    return parts.size() == 1 ? b_.create(e.op, parts, e.attributes) : b_.binary(e.op, parts[0], parts[1]);
  }

  Builder& b_;
  const IndexSpace& space_;
  const std::vector<std::string>& variables_;
};

}  // namespace

ValueId materialised(Builder& b, const IndexSpace& space, const Element& e, const std::vector<std::string>& variables) {
  return Materialiser(b, space, variables).value(e);
}

}  // namespace pycandle
