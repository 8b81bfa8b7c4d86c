// Ops that only move data: every result is a strided copy of bytes.
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

[[noreturn]] void wrong_sizes(const Evaluation& ev, const std::string& what, const std::string& expected,
                              const std::string& found) {
  throw Error(ErrorCode::bad_input, what).expected(expected).found(found).op(ev.node().op->name);
}

OpDef reshape() {
  return primitive("reshape")
      .doc("the same elements in row-major order under another shape")
      .operands("x")
      .attributes(attr<Dims>("shape"))
      .constraint("reshape_c1", "shape has as many elements as x",
                  [](const Call& c) { return may_equal(product(c.dims("shape")), product(c.shape("x"))); })
      .infer([](const Call& c) { return Type{c.type("x").dtype, c.dims("shape")}; })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        Sizes shape = ev.sizes("shape");
        if (element_count(shape) != x.size())
          wrong_sizes(ev, "the new shape has another number of elements", to_string(x.shape()), to_string(shape));
        return x.reshaped(std::move(shape));
      });
}

OpDef transpose() {
  return primitive("transpose")
      .doc("axis i of the result is axis permutation[i] of x")
      .operands("x")
      .attributes(attr<Ints>("permutation"))
      .constraint("transpose_c1", "permutation names every axis of x once",
                  [](const Call& c) {
                    return static_cast<int64_t>(c.integers("permutation").size()) == c.rank("x") &&
                           are_axes(c.integers("permutation"), c.rank("x"));
                  })
      .infer([](const Call& c) {
        Type type{c.type("x").dtype, {}};
        for (int64_t axis : c.integers("permutation")) type.shape.push_back(c.shape("x")[axis]);
        return type;
      })
      .evaluator([](const Evaluation& ev) { return transposed(ev.array("x"), ev.integers("permutation")); });
}

OpDef broadcast() {
  return primitive("broadcast")
      .doc("axis i of x becomes axis axes[i] of the result; an axis of size 1 stretches, axes that x lacks repeat it")
      .operands("x")
      .attributes(attr<Dims>("shape"), attr<Ints>("axes"))
      .constraint("broadcast_c1", "axes has one increasing axis of shape for each axis of x",
                  [](const Call& c) {
                    const Ints& axes = c.integers("axes");
                    return static_cast<int64_t>(axes.size()) == c.rank("x") &&
                           are_axes(axes, static_cast<int64_t>(c.dims("shape").size())) &&
                           std::is_sorted(axes.begin(), axes.end());
                  })
      .constraint("broadcast_c2", "an axis of x has size 1 or that of its axis in shape",
                  [](const Call& c) {
                    for (size_t i = 0; i < c.shape("x").size(); ++i) {
                      const Dim from = c.shape("x")[i];
                      if (equal(from, 1) == Tri::no && !may_equal(from, c.dims("shape")[c.integers("axes")[i]])) return false;
                    }
                    return true;
                  })
      .infer([](const Call& c) { return Type{c.type("x").dtype, c.dims("shape")}; })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const Ints& axes = ev.integers("axes");
        Sizes shape = ev.sizes("shape");
        const Sizes own = row_major_strides(x.shape());
        Sizes strides(shape.size(), 0);
        for (size_t i = 0; i < axes.size(); ++i) {
          const int64_t from = x.shape()[i], to = shape[axes[i]];
          if (from != to && from != 1)
            wrong_sizes(ev, "a tensor of shape " + to_string(x.shape()) + " does not broadcast to " + to_string(shape),
                        "1 or " + std::to_string(to), std::to_string(from));
          strides[axes[i]] = from == 1 ? 0 : own[i];
        }
        if (element_count(shape) == x.size()) return x.reshaped(std::move(shape));
        return strided_copy(x, std::move(shape), strides);
      });
}

OpDef slice() {
  return primitive("slice")
      .doc("x[starts : stops : steps] on every axis; 0 <= start <= stop <= size, steps are positive")
      .operands("x")
      .attributes(attr<Dims>("starts"), attr<Dims>("stops"), attr<Ints>("steps"))
      .constraint("slice_c1", "starts, stops and steps have an entry for each axis of x",
                  [](const Call& c) {
                    const size_t rank = c.shape("x").size();
                    return c.dims("starts").size() == rank && c.dims("stops").size() == rank &&
                           c.integers("steps").size() == rank;
                  })
      .constraint("slice_c2", "steps are positive", [](const Call& c) { return all_at_least(c.integers("steps"), 1); })
      .constraint("slice_c3", "0 <= start <= stop <= size on every axis",
                  [](const Call& c) {
                    for (size_t a = 0; a < c.shape("x").size(); ++a) {
                      const Dim start = c.dims("starts")[a], stop = c.dims("stops")[a];
                      if (!may_be_at_most(0, start) || !may_be_at_most(start, stop) || !may_be_at_most(stop, c.shape("x")[a]))
                        return false;
                    }
                    return true;
                  })
      .infer([](const Call& c) {
        Type type{c.type("x").dtype, {}};
        for (size_t a = 0; a < c.shape("x").size(); ++a)
          type.shape.push_back(ceildiv(c.dims("stops")[a] - c.dims("starts")[a], c.integers("steps")[a]));
        return type;
      })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const Sizes starts = ev.sizes("starts"), stops = ev.sizes("stops");
        const Ints& steps = ev.integers("steps");
        Sizes strides = row_major_strides(x.shape()), shape;
        int64_t offset = 0;
        for (size_t a = 0; a < starts.size(); ++a) {
          if (starts[a] < 0 || starts[a] > stops[a] || stops[a] > x.shape()[a]) {
            wrong_sizes(ev, "a slice leaves axis " + std::to_string(a), "0 <= start <= stop <= " + std::to_string(x.shape()[a]),
                        std::to_string(starts[a]) + " : " + std::to_string(stops[a]));
          }
          shape.push_back((stops[a] - starts[a] + steps[a] - 1) / steps[a]);
          offset += starts[a] * strides[a];
          strides[a] *= steps[a];
        }
        return strided_copy(x, std::move(shape), strides, offset);
      });
}

OpDef concat() {
  return primitive("concat")
      .doc("the tensors one after another along an axis")
      .operands(variadic("xs"))
      .attributes(attr<int64_t>("axis"))
      .constraint("concat_c1", "there is at least one tensor", [](const Call& c) { return !c.values("xs").empty(); })
      .constraint("concat_c2", "the tensors have one dtype",
                  [](const Call& c) {
                    const Values xs = c.values("xs");
                    return std::all_of(xs.begin(), xs.end(), [&](ValueId x) { return c.type(x).dtype == c.type(xs[0]).dtype; });
                  })
      .constraint("concat_c3", "the tensors have one shape but for the axis",
                  [](const Call& c) {
                    const Ints axis{c.integer("axis")};
                    const Values xs = c.values("xs");
                    return are_axes(axis, c.type(xs[0]).rank()) && std::all_of(xs.begin(), xs.end(), [&](ValueId x) {
                             return c.type(x).rank() == c.type(xs[0]).rank() &&
                                    may_equal(without_axes(c.type(x).shape, axis), without_axes(c.type(xs[0]).shape, axis));
                           });
                  })
      .infer([](const Call& c) {
        const Values xs = c.values("xs");
        Type type = c.type(xs[0]);
        Dim& size = type.shape[c.integer("axis")];
        for (size_t i = 1; i < xs.size(); ++i) size = size + c.type(xs[i]).shape[c.integer("axis")];
        return type;
      })
      .evaluator([](const Evaluation& ev) {
        const std::vector<const Array*> xs = ev.arrays("xs");
        const size_t axis = ev.integer("axis");
        Sizes shape = xs[0]->shape();
        shape[axis] = 0;
        for (const Array* x : xs) {
          Sizes other = x->shape();
          other[axis] = shape[axis];
          if (other != shape)
            wrong_sizes(ev, "tensors of different sizes are concatenated", to_string(xs[0]->shape()), to_string(x->shape()));
          shape[axis] += x->shape()[axis];
        }
        Array out(ev.out_dtype(), shape);
        const Sizes strides = row_major_strides(shape);
        int64_t start = 0;
        for (const Array* x : xs) {
          copy_strided(*x, 0, row_major_strides(x->shape()), out, start * strides[axis], strides, x->shape());
          start += x->shape()[axis];
        }
        return out;
      });
}

OpDef pad() {
  return primitive("pad")
      .doc("x with low elements before and high after it on every axis; a negative amount crops")
      .operands("x")
      .attributes(attr<Dims>("low"), attr<Dims>("high"), attr<Scalar>("value", int64_t{0}))
      .constraint("pad_c1", "low and high have an entry for each axis of x",
                  [](const Call& c) {
                    return c.dims("low").size() == c.shape("x").size() && c.dims("high").size() == c.shape("x").size();
                  })
      .constraint("pad_c2", "no size becomes negative",
                  [](const Call& c) {
                    for (size_t a = 0; a < c.shape("x").size(); ++a) {
                      if (!may_be_at_most(0, c.dims("low")[a] + c.shape("x")[a] + c.dims("high")[a])) return false;
                    }
                    return true;
                  })
      .infer([](const Call& c) {
        Type type = c.type("x");
        for (size_t a = 0; a < type.shape.size(); ++a) type.shape[a] = c.dims("low")[a] + type.shape[a] + c.dims("high")[a];
        return type;
      })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const Sizes low = ev.sizes("low"), high = ev.sizes("high");
        Sizes shape, kept;
        for (size_t a = 0; a < low.size(); ++a) {
          const int64_t size = x.shape()[a];
          if (low[a] + size + high[a] < 0)
            wrong_sizes(ev, "padding crops more than axis " + std::to_string(a) + " has", "at most " + std::to_string(size),
                        std::to_string(-low[a] - high[a]));
          shape.push_back(low[a] + size + high[a]);
          kept.push_back(std::max<int64_t>(0, size + std::min<int64_t>(0, low[a]) + std::min<int64_t>(0, high[a])));
        }
        Array out = strided_copy(Array::scalar(ev.out_dtype(), ev.scalar("value")), shape, Sizes(shape.size(), 0));
        const Sizes from = row_major_strides(x.shape()), to = row_major_strides(shape);
        int64_t from_offset = 0, to_offset = 0;
        for (size_t a = 0; a < low.size(); ++a)
          (low[a] < 0 ? from_offset : to_offset) += low[a] < 0 ? -low[a] * from[a] : low[a] * to[a];
        copy_strided(x, from_offset, from, out, to_offset, to, kept);
        return out;
      });
}

OpDef reverse() {
  return primitive("reverse")
      .doc("the axes run backwards")
      .operands("x")
      .attributes(attr<Ints>("axes"))
      .constraint("reverse_c1", "axes are different axes of x",
                  [](const Call& c) { return are_axes(c.integers("axes"), c.rank("x")); })
      .infer([](const Call& c) { return c.type("x"); })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        if (x.size() == 0) return x;
        Sizes strides = row_major_strides(x.shape());
        int64_t offset = 0;
        for (int64_t axis : ev.integers("axes")) {
          offset += (x.shape()[axis] - 1) * strides[axis];
          strides[axis] = -strides[axis];
        }
        return strided_copy(x, x.shape(), strides, offset);
      });
}

}  // namespace

std::vector<OpDef> movement_ops() { return {reshape(), transpose(), broadcast(), slice(), concat(), pad(), reverse()}; }

}  // namespace pycandle
