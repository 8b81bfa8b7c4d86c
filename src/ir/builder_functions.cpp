// The builder's conveniences: each is a few primitives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/builder.h"

namespace pycandle {

namespace {

Ints identity_axes(int64_t rank) {
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Ints normal_axes(const Builder& b, const Ints& axes, int64_t rank) {
  Ints result;
  for (int64_t axis : axes) result.push_back(b.normal_axis(axis, rank));
  return result;
}

bool is_one(Dim d) { return d == Dim(1); }

[[noreturn]] void not_broadcastable(const Shape& a, const Shape& b) {
  throw Error(ErrorCode::bad_input, fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)))
      .expected("sizes that are equal or 1, aligned at the end")
      .found(to_string(a) + " and " + to_string(b));
}

// A number as the dtype stores it, so that equal constants are equal attributes.
Scalar in_category(const Scalar& value, DType dtype) {
  if (is_floating(dtype)) return as_double(value);
  if (is_complex(dtype)) return as_complex(value);
  if (dtype == DType::boolean) return as_complex(value) != std::complex<double>(0);
  if (const double* number = std::get_if<double>(&value);
      number && (std::trunc(*number) != *number || std::abs(*number) > 0x1p62)) {
    throw Error(ErrorCode::bad_input, fmt::format("{} is not a number of {}", to_string(value), name_of(dtype)))
        .expected(fmt::format("an integer, as the tensor is {}", name_of(dtype)))
        .found(to_string(value));
  }
  return as_int(value);
}

}  // namespace

int64_t Builder::normal_axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::bad_input, fmt::format("axis {} is out of range", axis))
        .expected(rank == 0 ? "no axis, as the tensor has none" : fmt::format("{} to {}", -rank, rank - 1))
        .found(std::to_string(axis));
  }
  return axis < 0 ? axis + rank : axis;
}

Ints last_axes(int64_t rank, size_t count) {
  Ints axes(count);
  std::iota(axes.begin(), axes.end(), rank - static_cast<int64_t>(count));
  return axes;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {  // from the end
    Dim left = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    Dim right = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (!is_one(left) && !is_one(right) && equal(left, right) == Tri::no) not_broadcastable(a, b);
    result[result.size() - 1 - i] = is_one(left) ? right : left;
  }
  return result;
}

// ---- constants

ValueId Builder::full(const Scalar& value, DType dtype, Shape shape) {
  return create("constant", {}, {{"value", attribute(in_category(value, dtype))}, {"shape", std::move(shape)}, {"dtype", dtype}});
}

ValueId Builder::dim_value(Dim dim, DType dtype) {
  if (dim.is_number()) return full(dim.number(), dtype);
  return cast(create("dim", {}, {{"value", dim}}), dtype);
}

ValueId Builder::iota(Dim size, DType dtype) { return create("iota", {}, {{"size", size}, {"dtype", dtype}}); }

// ---- elementwise

ValueId Builder::binary(std::string_view op, ValueId a, ValueId b) {
  if (dtype(a) != dtype(b)) {
    throw Error(ErrorCode::bad_input, fmt::format("the operands of {} have different dtypes", op))
        .expected("equal dtypes: PTIR has no implicit promotion")
        .found(fmt::format("{} and {}", type(a).text(), type(b).text()))
        .op(std::string(op));
  }
  Shape common = broadcast_shapes(shape(a), shape(b));
  ValueId left = broadcast_to(a, common), right = broadcast_to(b, common);
  return create(op, {left, right});
}

ValueId Builder::select(ValueId condition, ValueId yes, ValueId no) {
  Shape common = broadcast_shapes(broadcast_shapes(shape(yes), shape(no)), shape(condition));
  ValueId c = broadcast_to(condition, common), y = broadcast_to(yes, common), n = broadcast_to(no, common);
  return create("select", {c, y, n});
}

ValueId Builder::cast(ValueId x, DType to) { return dtype(x) == to ? x : create("cast", {x}, {{"dtype", to}}); }

ValueId Builder::widened(ValueId x) {
  bool is_half = dtype(x) == DType::f16 || dtype(x) == DType::bf16;
  return is_half ? cast(x, DType::f32) : x;
}

ValueId Builder::affine(ValueId x, std::optional<ValueId> weight, std::optional<ValueId> bias) {
  if (weight) x = mul(x, cast(*weight, dtype(x)));
  if (bias) x = add(x, cast(*bias, dtype(x)));
  return x;
}

// ---- shape

ValueId Builder::reshape(ValueId x, Shape to) {
  if (shape(x) == to) return x;
  return create("reshape", {x}, {{"shape", std::move(to)}});
}

ValueId Builder::transpose(ValueId x, const Ints& permutation) {
  Ints axes = normal_axes(*this, permutation, rank(x));
  if (axes == identity_axes(rank(x))) return x;
  return create("transpose", {x}, {{"permutation", std::move(axes)}});
}

ValueId Builder::swap_axes(ValueId x, int64_t a, int64_t b) {
  Ints axes = identity_axes(rank(x));
  std::swap(axes[normal_axis(a, rank(x))], axes[normal_axis(b, rank(x))]);
  return transpose(x, axes);
}

ValueId Builder::broadcast_to(ValueId x, const Shape& to) {
  int64_t missing = static_cast<int64_t>(to.size()) - rank(x);
  if (missing < 0) not_broadcastable(shape(x), to);
  Ints axes = identity_axes(rank(x));
  for (int64_t& axis : axes) axis += missing;
  return broadcast(x, to, axes);
}

ValueId Builder::broadcast(ValueId x, const Shape& to, const Ints& axes) {
  Ints normal = normal_axes(*this, axes, static_cast<int64_t>(to.size()));
  if (shape(x) == to && normal == identity_axes(rank(x))) return x;
  if (normal.size() != shape(x).size()) internal_error(fmt::format("{} axes for {}", normal.size(), type(x).text()));
  // A dim that may or may not be the wanted one becomes it: the check at run time makes that true.
  Shape from = shape(x);
  for (size_t i = 0; i < from.size(); ++i) {
    Dim wanted = to[normal[i]];
    const bool is_always_one = is_one(from[i]) || (ranges() && equal(from[i], Dim(1), *ranges()) == Tri::yes);
    if (is_always_one || from[i] == wanted) continue;
    if (!check(from[i], wanted, fmt::format("dim {} of {} and dim {} of {}", i, to_string(from), normal[i], to_string(to)))) {
      not_broadcastable(from, to);
    }
  }
  return create("broadcast", {x}, {{"shape", to}, {"axes", std::move(normal)}});
}

ValueId Builder::unsqueeze(ValueId x, int64_t axis) {
  Shape to = shape(x);
  to.insert(to.begin() + normal_axis(axis, rank(x) + 1), Dim(1));
  return reshape(x, std::move(to));
}

ValueId Builder::squeeze(ValueId x, int64_t axis) {
  Shape to = shape(x);
  axis = normal_axis(axis, rank(x));
  if (!check(to[axis], 1, fmt::format("dim {} of {} and 1", axis, to_string(to)))) {
    throw Error(ErrorCode::bad_input, fmt::format("axis {} cannot be removed", axis))
        .expected("a size of 1")
        .found(type(x).text());
  }
  to.erase(to.begin() + axis);
  return reshape(x, std::move(to));
}

ValueId Builder::slice(ValueId x, int64_t axis, Dim start, Dim stop, int64_t step) {
  axis = normal_axis(axis, rank(x));
  Dims starts(rank(x), Dim(0)), stops = shape(x);
  Ints steps(rank(x), 1);
  if (start == Dim(0) && stop == stops[axis] && step == 1) return x;
  starts[axis] = start;
  stops[axis] = stop;
  steps[axis] = step;
  return create("slice", {x}, {{"starts", std::move(starts)}, {"stops", std::move(stops)}, {"steps", std::move(steps)}});
}

ValueId Builder::select_index(ValueId x, int64_t axis, Dim index) {
  axis = normal_axis(axis, rank(x));
  if (index.is_number() && index.number() < 0) index = index + shape(x)[axis];
  return squeeze(slice(x, axis, index, index + 1), axis);
}

ValueId Builder::concat(const Values& xs, int64_t axis) {
  if (xs.empty()) throw Error(ErrorCode::bad_input, "nothing to concatenate").expected("at least one tensor").op("concat");
  axis = normal_axis(axis, rank(xs[0]));
  return xs.size() == 1 ? xs[0] : create("concat", xs, {{"axis", axis}});
}

ValueId Builder::pad(ValueId x, const Dims& low, const Dims& high, const Scalar& value) {
  auto is_zero = [](Dim d) { return d == Dim(0); };
  if (low.size() == shape(x).size() && high.size() == low.size() && std::all_of(low.begin(), low.end(), is_zero) &&
      std::all_of(high.begin(), high.end(), is_zero)) {
    return x;
  }
  return create("pad", {x}, {{"low", low}, {"high", high}, {"value", attribute(in_category(value, dtype(x)))}});
}

ValueId Builder::reverse(ValueId x, const Ints& axes) {
  if (axes.empty()) return x;
  return create("reverse", {x}, {{"axes", normal_axes(*this, axes, rank(x))}});
}

// ---- reductions

ValueId Builder::reduce(std::string_view op, ValueId x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  Ints normal = normal_axes(*this, axes, rank(x));
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end()) {
    throw Error(ErrorCode::bad_input, fmt::format("an axis appears twice in {}", op))
        .found(to_string(Attribute(axes)))
        .op(std::string(op));
  }
  Shape kept = shape(x);
  for (int64_t axis : normal) kept[axis] = 1;
  ValueId result = create(op, {x}, {{"axes", std::move(normal)}});
  return keep ? reshape(result, std::move(kept)) : result;
}

ValueId Builder::mean(ValueId x, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  Dim count = 1;
  for (int64_t axis : axes) count = count * shape(x)[normal_axis(axis, rank(x))];
  ValueId total = sum(x, axes, keep);
  return div(total, dim_value(count, dtype(x)));
}

// ---- products

ValueId Builder::dot_general(ValueId left, ValueId right, const Ints& batch_l, const Ints& batch_r, const Ints& contract_l,
                             const Ints& contract_r) {
  return create("dot_general", {left, right},
                {{"batch_left", normal_axes(*this, batch_l, rank(left))},
                 {"batch_right", normal_axes(*this, batch_r, rank(right))},
                 {"contract_left", normal_axes(*this, contract_l, rank(left))},
                 {"contract_right", normal_axes(*this, contract_r, rank(right))}});
}

ValueId Builder::matmul(ValueId a, ValueId b) { return create("matmul", {a, b}); }

}  // namespace pycandle
