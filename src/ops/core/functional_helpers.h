// Small things that the neural-network functionals share.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"

namespace pycandle {

inline bool ends_with(const Call& c, const Shape& shape, const Shape& tail) {
  return shape.size() >= tail.size() && c.agree(Shape(shape.end() - static_cast<std::ptrdiff_t>(tail.size()), shape.end()), tail);
}

// first, first + 1, …, last - 1
inline Ints axes_between(int64_t first, int64_t last) {
  Ints axes(static_cast<size_t>(last > first ? last - first : 0));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

// Positive, and small enough that products of two of them do not overflow.
inline bool positive_and_sane(const Ints& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v > 0 && v < (int64_t{1} << 30); });
}

// torch's int[n] arguments: one number stands for n of them.
inline Ints per_axis(Ints values, size_t n) {
  if (values.size() == 1) values.resize(n, values[0]);
  return values;
}

inline Shape first_dims(const Shape& shape, size_t count) {
  return {shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count)};
}
inline Shape joined(Shape a, const Shape& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// An axis of an op that, like torch's, takes a 0-d tensor for one of one element.
inline int64_t axis_of(int64_t axis, int64_t rank) { return axis < 0 ? axis + std::max<int64_t>(rank, 1) : axis; }
inline bool axis_fits(int64_t axis, int64_t rank) {
  const int64_t limit = std::max<int64_t>(rank, 1);
  return axis >= -limit && axis < limit;
}

// A vector over the axis `axis` of something of that rank: [C] → [1, C, 1, 1].
inline ValueId along_axis(Builder& b, ValueId vector, int64_t axis, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), Dim(1));
  shape[axis] = b.shape(vector).at(0);
  return b.reshape(vector, shape);
}

// What f16 and bf16 compute in.
inline DType wide_of(DType d) { return d == DType::f16 || d == DType::bf16 ? DType::f32 : d; }

// 1 / (1 + exp(-x)) in primitives, for an operand already wide.
inline ValueId sigmoid_value(Builder& b, ValueId x) { return b.div(1.0, b.add(b.exp(b.neg(x)), 1.0)); }
// torch.matmul in terms of dot_general, for operands of one dtype.
ValueId matmul_value(Builder&, ValueId left, ValueId right);
// Dropout in training: which elements stay with probability 1 - p, and x with the others 0 and those scaled up.
ValueId kept_at_random(Builder&, const Shape&, double p);
ValueId dropped(Builder&, ValueId x, ValueId kept, double p);
// softmax over an axis, for operands already wide; `safe`: a row of nothing but -inf gives zeros, not NaN.
ValueId softmax_value(Builder&, ValueId x, int64_t axis, bool safe = false);

}  // namespace pycandle
