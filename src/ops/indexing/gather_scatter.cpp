// Reading and writing at indices that are data. An index outside its axis is an error that names both.
#include <limits>

#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

[[noreturn]] void out_of_range(const Evaluation& ev, int64_t index, int64_t axis, int64_t size) {
  throw Error(ErrorCode::bad_input, "index " + std::to_string(index) + " is out of range for axis " + std::to_string(axis) +
                                        " of size " + std::to_string(size))
      .op(ev.node().op->name)
      .expected("0 to " + std::to_string(size - 1))
      .found(std::to_string(index));
}

// Indices within [0, size); negative ones count from the end where torch lets them.
std::vector<int64_t> checked_indices(const Evaluation& ev, const Array& index, int64_t axis, int64_t size, bool wraps) {
  std::vector<int64_t> indices = load_int(index);
  for (int64_t& i : indices) {
    const int64_t given = i;
    if (wraps && i < 0) i += size;
    if (i < 0 || i >= size) out_of_range(ev, given, axis, size);
  }
  return indices;
}

OpDef take() {
  return primitive("take")
      .doc("x's slices at the indices along an axis, which the shape of indices replaces: index_select, embedding")
      .operands("x", "indices")
      .attributes(attr<int64_t>("axis", int64_t{0}))
      .constraint("take_c1", "indices are i64 or i32", [](const Call& c) { return is_index(c.type("indices").dtype); })
      .constraint("take_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer([](const Call& c) {
        Type type = c.type("x");
        const auto axis = type.shape.begin() + c.integer("axis");
        type.shape.insert(type.shape.erase(axis), c.shape("indices").begin(), c.shape("indices").end());
        return type;
      })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> {
        return c.indexed(c.call.integer("axis"), c.call.rank("indices"));
      })
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &index = ev.array("indices");
        const int64_t axis = ev.integer("axis"), size = x.shape()[axis];
        const std::vector<int64_t> indices = checked_indices(ev, index, axis, size, false);
        Sizes shape = x.shape();
        shape.insert(shape.erase(shape.begin() + axis), index.shape().begin(), index.shape().end());
        Array out(ev.out_dtype(), std::move(shape));
        const int64_t outer = count_before(x.shape(), axis), count = index.size();
        const size_t run = static_cast<size_t>(count_after(x.shape(), axis)) * size_of(x.dtype());
        const char* from = x.as<char>();
        char* to = out.mutable_as<char>();
        if (run == 0) return out;
        parallel_for(outer * count, std::max<int64_t>(1, 65536 / static_cast<int64_t>(run)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            std::copy_n(from + (i / count * size + indices[i % count]) * run, run, to + i * run);
        });
        return out;
      });
}

// Does index fit into x on all axes but one?
bool index_fits(const Call& c, const char* outer) {
  if (c.rank("index") != c.rank(outer)) return false;
  for (size_t a = 0; a < c.shape("index").size(); ++a) {
    if (static_cast<int64_t>(a) != c.integer("axis") && !may_be_at_most(c.shape("index")[a], c.shape(outer)[a])) return false;
  }
  return true;
}

// For each element of index, in order: visit(position, where it points in an array of shape x).
template <class Visit> void for_each_indexed(const Evaluation& ev, const Array& index, const Sizes& x, Visit&& visit) {
  const size_t axis = ev.integer("axis");
  for (size_t a = 0; a < x.size(); ++a) {
    if (a != axis && index.shape()[a] > x[a]) {
      throw Error(ErrorCode::bad_input, "index is larger than x")
          .op(ev.node().op->name)
          .expected("at most " + to_string(x))
          .found(to_string(index.shape()));
    }
  }
  const std::vector<int64_t> indices = checked_indices(ev, index, ev.integer("axis"), x[axis], false);
  Sizes strides = row_major_strides(x);
  const int64_t step = strides[axis];
  strides[axis] = 0;
  for_each_offset(index.shape(), strides,
                  [&](int64_t position, int64_t offset) { visit(position, offset + indices[position] * step); });
}

std::optional<Alignment> gather_alignment(const AlignedCall& c) {
  Alignment a = c.all_but({}, 1);
  const Shape& x = c.call.shape("x");
  for (size_t axis = 0; axis < c.rank(); ++axis) {
    if (static_cast<int64_t>(axis) == c.call.integer("axis")) continue;
    if (x[axis] == c.result[axis])
      a.axes[0][axis] = static_cast<int64_t>(axis);
    else
      a.is_free[axis] = false;
  }
  return a;
}

OpDef gather() {
  return primitive("gather")
      .doc("out[i, j, k] = x[i, index[i, j, k], k] for axis 1, as torch.gather; a 0-d x and index count as 1-d")
      .operands("x", "index")
      .attributes(attr<int64_t>("axis"))
      .constraint("gather_c1", "index is i64 or i32", [](const Call& c) { return is_index(c.type("index").dtype); })
      .constraint("gather_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("gather_c3", "index has the rank of x and is no larger on the other axes",
                  [](const Call& c) { return index_fits(c, "x"); })
      .infer([](const Call& c) { return Type{c.type("x").dtype, c.shape("index")}; })
      .aligned(gather_alignment)
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &index = ev.array("index");
        Array out(ev.out_dtype(), index.shape());
        with_element(x.dtype(), [&](auto element) {
          using T = decltype(element);
          T* to = mutable_stored<T>(out);
          for_each_indexed(ev, index, x.shape(), [&](int64_t position, int64_t source) { to[position] = stored<T>(x)[source]; });
        });
        return out;
      })
      .spelled_torch("torch.gather({x}, {axis}, {index})");
}

// ---- several index tensors, as x[:, i, j]

// Where the shape of the indices stands in the result: in place of the axes when they are consecutive, else first.
int64_t index_position(const Ints& axes) {
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return 0;
  }
  return axes[0];
}

template <class D> std::vector<D> indexed_shape(const std::vector<D>& x, const std::vector<D>& index, const Ints& axes) {
  std::vector<D> shape;
  for (size_t a = 0; a < x.size(); ++a) {
    if (!contains(axes, static_cast<int64_t>(a))) shape.push_back(x[a]);
  }
  shape.insert(shape.begin() + index_position(axes), index.begin(), index.end());
  return shape;
}

void add_index_constraints(OpDef& op) {
  op.constraint(op.name + "_c1", "there is an i64 or i32 index tensor for each axis",
                [](const Call& c) {
                  const Values indices = c.values("indices");
                  return !indices.empty() && indices.size() == c.integers("axes").size() &&
                         std::all_of(indices.begin(), indices.end(), [&](ValueId i) { return is_index(c.type(i).dtype); });
                })
      .constraint(op.name + "_c2", "the index tensors have the same shape",
                  [](const Call& c) {
                    const Values indices = c.values("indices");
                    return std::all_of(indices.begin(), indices.end(),
                                       [&](ValueId i) { return may_equal(c.type(i).shape, c.type(indices[0]).shape); });
                  })
      .constraint(op.name + "_c3", "axes are increasing axes of x", [](const Call& c) {
        return are_axes(c.integers("axes"), c.rank("x")) && std::is_sorted(c.integers("axes").begin(), c.integers("axes").end());
      });
}

// Visits the elements of the indexed shape in order: visit(position in the result, where it lies in x).
template <class Visit> void for_each_point(const Evaluation& ev, const Array& x, Visit&& visit) {
  const std::vector<const Array*> indices = ev.arrays("indices");
  const Ints& axes = ev.integers("axes");
  const Sizes strides = row_major_strides(x.shape());
  std::vector<int64_t> points(indices[0]->size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    require_same_sizes(ev, *indices[0], *indices[i]);
    const std::vector<int64_t> index = checked_indices(ev, *indices[i], axes[i], x.shape()[axes[i]], true);
    for (size_t p = 0; p < points.size(); ++p) points[p] += index[p] * strides[axes[i]];
  }
  // The walk: the axes of x that stay, with the index tensors' axes among them (those step through `points`).
  const Sizes shape = indexed_shape(x.shape(), indices[0]->shape(), axes);
  const int64_t position = index_position(axes);
  Sizes kept;
  for (size_t a = 0; a < strides.size(); ++a) {
    if (!contains(axes, static_cast<int64_t>(a))) kept.push_back(strides[a]);
  }
  const Sizes point_strides = row_major_strides(indices[0]->shape());
  Sizes in_x = kept, in_points(kept.size(), 0);
  in_x.insert(in_x.begin() + position, point_strides.size(), 0);
  in_points.insert(in_points.begin() + position, point_strides.begin(), point_strides.end());
  for_each_offset<2>(shape, {in_x, in_points},
                     [&](int64_t i, const std::array<int64_t, 2>& where) { visit(i, where[0] + points[where[1]]); });
}

// x[:, :, i]: the axes that are not indexed, where the indices stand in the place of one of them.
std::optional<Alignment> gather_nd_alignment(const AlignedCall& c) {
  const Ints& indexed = c.call.integers("axes");
  if (indexed.size() != 1) return std::nullopt;
  return c.indexed(indexed[0], static_cast<int64_t>(c.rank()) - (c.call.rank("x") - 1));
}

OpDef gather_nd() {
  OpDef op = primitive("gather_nd")
                 .doc(
                     "x at several index tensors of one shape, one for each listed axis; negative indices count from the end. "
                     "The shape of the "
                     "indices stands in place of the axes when they are consecutive, else first")
                 .operands("x", variadic("indices"))
                 .attributes(attr<Ints>("axes"));
  add_index_constraints(op);
  return op
      .infer([](const Call& c) {
        return Type{c.type("x").dtype, indexed_shape(c.shape("x"), c.type(c.values("indices")[0]).shape, c.integers("axes"))};
      })
      .aligned(gather_nd_alignment)
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        Array out(ev.out_dtype(), indexed_shape(x.shape(), ev.arrays("indices")[0]->shape(), ev.integers("axes")));
        with_element(x.dtype(), [&](auto element) {
          using T = decltype(element);
          T* to = mutable_stored<T>(out);
          for_each_point(ev, x, [&](int64_t position, int64_t source) { to[position] = stored<T>(x)[source]; });
        });
        return out;
      });
}

// ---- scatter

Array copy_of(const Array& x) { return strided_copy(x, x.shape(), row_major_strides(x.shape())); }

// Combines values in the wide type and rounds once at the end.
template <class C, class Combine, class ForEach>
Array scatter_combined(const Evaluation& ev, const Array& x, const Array& updates, bool include_self, bool mean, Combine combine,
                       ForEach&& for_each) {
  std::vector<C> values = load_all<C>(x);
  const std::vector<C> given = load_all<C>(updates);
  std::vector<int64_t> counts(values.size(), include_self ? 1 : 0);
  for_each([&](int64_t position, int64_t target) {
    C& value = values[target];
    value = counts[target]++ == 0 ? given[position] : combine(value, given[position]);
  });
  if (mean) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (counts[i] <= 1) continue;
      if constexpr (std::is_same_v<C, int64_t>)
        values[i] = values[i] / counts[i] - (values[i] % counts[i] < 0 ? 1 : 0);
      else
        values[i] /= static_cast<double>(counts[i]);
    }
  }
  return store_all(ev.out_dtype(), x.shape(), values);
}

bool is_reduce(const std::string& reduce) {
  return reduce == "none" || reduce == "add" || reduce == "multiply" || reduce == "amax" || reduce == "amin" || reduce == "mean";
}

std::optional<Alignment> scatter_alignment(const AlignedCall& c) {
  Alignment a = c.all_but({c.call.integer("axis")});
  for (size_t axis = 0; axis < c.rank(); ++axis) {
    const bool are_alike = c.call.shape("index")[axis] == c.result[axis] && c.call.shape("src")[axis] == c.result[axis];
    a.is_free[axis] = a.is_free[axis] && are_alike;
  }
  a.axes[1] = a.axes[2] = a.axes[0];
  return a;
}

OpDef scatter() {
  return primitive("scatter")
      .doc(
          "x with src written at [i, index[i, j, k], k] for axis 1, as torch.scatter; what meets is combined (none: the last "
          "stays)")
      .operands("x", "index", "src")
      .attributes(attr<int64_t>("axis"), attr<std::string>("reduce", std::string("none")), attr<bool>("include_self", true))
      .constraint("scatter_c1", "index is i64 or i32, and src has the dtype of x",
                  [](const Call& c) { return is_index(c.type("index").dtype) && c.type("src").dtype == c.type("x").dtype; })
      .constraint("scatter_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("scatter_c3", "index has the rank of x and is no larger on the other axes",
                  [](const Call& c) { return index_fits(c, "x"); })
      .constraint("scatter_c4", "src is at least as large as index on every axis",
                  [](const Call& c) {
                    if (c.rank("src") != c.rank("index")) return false;
                    for (size_t a = 0; a < c.shape("index").size(); ++a) {
                      if (!may_be_at_most(c.shape("index")[a], c.shape("src")[a])) return false;
                    }
                    return true;
                  })
      .constraint("scatter_c5",
                  "reduce is none, add, multiply, amax, amin or mean; only none for bool, no amax and amin for complex",
                  [](const Call& c) {
                    const std::string& reduce = c.string("reduce");
                    const DType dtype = c.type("x").dtype;
                    return is_reduce(reduce) && (dtype != DType::boolean || reduce == "none") &&
                           !(is_complex(dtype) && (reduce == "amax" || reduce == "amin"));
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .aligned(scatter_alignment)
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &index = ev.array("index");
        for (size_t a = 0; a < index.shape().size(); ++a) {
          if (index.shape()[a] > ev.array("src").shape()[a]) sizes_differ(ev, index, ev.array("src"));
        }
        const Array src = strided_copy(ev.array("src"), index.shape(), row_major_strides(ev.array("src").shape()));
        const std::string& reduce = ev.string("reduce");
        if (reduce == "none") {
          Array out = copy_of(x);
          with_element(x.dtype(), [&](auto element) {
            using T = decltype(element);
            T* to = mutable_stored<T>(out);
            for_each_indexed(ev, index, x.shape(),
                             [&](int64_t position, int64_t target) { to[target] = stored<T>(src)[position]; });
          });
          return out;
        }
        return in_domain(x.dtype(), [&](auto zero) {
          using C = decltype(zero);
          const auto combined = [&](auto combine) {
            return scatter_combined<C>(ev, x, src, ev.boolean("include_self"), reduce == "mean", combine,
                                       [&](auto visit) { for_each_indexed(ev, index, x.shape(), visit); });
          };
          if constexpr (!std::is_same_v<C, Complex>) {
            if (reduce == "amax") return combined([](C a, C b) { return b > a || is_nan(b) ? b : a; });
            if (reduce == "amin") return combined([](C a, C b) { return b < a || is_nan(b) ? b : a; });
          }
          if (reduce == "multiply") return combined([](C a, C b) { return product_of(a, b); });
          return combined([](C a, C b) { return sum_of(a, b); });
        });
      });
}

OpDef scatter_nd() {
  OpDef op = primitive("scatter_nd")
                 .doc(
                     "x with updates (of the shape that gather_nd gives) written at the indices; accumulate adds them, otherwise "
                     "the last one stays")
                 .operands("x", "updates", variadic("indices"))
                 .attributes(attr<Ints>("axes"), attr<bool>("accumulate", false));
  add_index_constraints(op);
  return op
      .constraint("scatter_nd_c4", "updates have the dtype of x; bools do not accumulate",
                  [](const Call& c) {
                    return c.type("updates").dtype == c.type("x").dtype &&
                           !(c.boolean("accumulate") && c.type("x").dtype == DType::boolean);
                  })
      .constraint("scatter_nd_c5", "updates have the shape of gather_nd",
                  [](const Call& c) {
                    return may_equal(c.shape("updates"),
                                     indexed_shape(c.shape("x"), c.type(c.values("indices")[0]).shape, c.integers("axes")));
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .rounds(Rounding::linear)
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &updates = ev.array("updates");
        const Sizes expected = indexed_shape(x.shape(), ev.arrays("indices")[0]->shape(), ev.integers("axes"));
        if (updates.shape() != expected)
          throw Error(ErrorCode::bad_input, "the updates have the wrong shape")
              .op("scatter_nd")
              .expected(to_string(expected))
              .found(to_string(updates.shape()));
        if (ev.boolean("accumulate")) {
          return in_domain(x.dtype(), [&](auto zero) {
            using C = decltype(zero);
            return scatter_combined<C>(
                ev, x, updates, true, false, [](C a, C b) { return sum_of(a, b); },
                [&](auto visit) { for_each_point(ev, x, visit); });
          });
        }
        Array out = copy_of(x);
        with_element(x.dtype(), [&](auto element) {
          using T = decltype(element);
          T* to = mutable_stored<T>(out);
          for_each_point(ev, x, [&](int64_t position, int64_t target) { to[target] = stored<T>(updates)[position]; });
        });
        return out;
      });
}

}  // namespace

std::vector<OpDef> gather_scatter_ops() { return {take(), gather(), gather_nd(), scatter(), scatter_nd()}; }

}  // namespace pycandle
