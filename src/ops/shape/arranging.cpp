// Tensors laid side by side or turned, parts put back where they were taken, bits read as another type.
#include <fmt/format.h>

#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// ---- side by side

// With at least that many axes, as torch.atleast_1d, _2d and _3d put them.
ValueId with_axes(Builder& b, ValueId x, int64_t rank) {
  while (b.rank(x) < rank) x = b.unsqueeze(x, b.rank(x) == 2 ? 2 : 0);
  return x;
}

OpDef stacks() {
  OpDef def = mapping("concat");
  struct Stack {
    const char* name;
    int64_t rank, axis;  // axes that a tensor gets first, and the axis they are joined along
  };
  for (const Stack& s : {Stack{"hstack", 1, 1}, {"vstack", 2, 0}, {"row_stack", 2, 0}, {"dstack", 3, 2}, {"column_stack", 1, 1}})
    def.from_aten_call(fmt::format("aten.{}.default", s.name), [s](AtenCall& c) -> Values {
      const Values given = c.given_tensors("tensors");
      Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
      const bool columns = std::string(s.name) == "column_stack";
      for (ValueId& x : xs) {
        if (columns && c.b.rank(x) <= 1) x = c.b.reshape(x, {product(c.b.shape(x)), 1});
        x = with_axes(c.b, x, s.rank);
      }
      const bool vectors = std::string(s.name) == "hstack" && c.b.rank(xs[0]) == 1;
      return {c.b.concat(xs, vectors ? 0 : s.axis)};
    });
  def.from_aten_call("aten.block_diag.default", [](AtenCall& c) -> Values {
    const Values given = c.given_tensors("tensors");
    Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
    Dim width = 0, left = 0;
    for (ValueId& x : xs) {
      x = with_axes(c.b, x, 2);
      width = width + c.b.shape(x)[1];
    }
    for (ValueId& x : xs) {
      const Dim own = c.b.shape(x)[1];
      x = c.b.pad(x, {0, left}, {0, width - left - own}, Scalar{int64_t{0}});
      left = left + own;
    }
    return {c.b.concat(xs, 0)};
  });
  return def.sample("torch.hstack([t(2, 3), t(2, 1)])")
      .sample("torch.hstack([t(2), t(), i(3)])")
      .sample("torch.vstack([t(3), t(2, 3)])")
      .sample("torch.dstack([t(2, 3), t(2, 3)])")
      .sample("torch.column_stack([t(3), t(3, 2)])")
      .sample("torch.block_diag(t(2, 3), t(3), t(), i(2, 2))");
}

OpDef least_axes() {
  OpDef def = mapping("reshape");
  for (int64_t rank = 1; rank <= 3; ++rank)
    def.from_aten_call(fmt::format("aten.atleast_{}d.Sequence", rank), [rank](AtenCall& c) {
      Values xs = c.given_tensors("tensors");
      for (ValueId& x : xs) x = with_axes(c.b, x, rank);
      return xs;
    });
  return def;
}

OpDef turns() {
  return mapping("reverse")
      .from_aten_call("aten.rot90.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        const ValueId x = c.tensor("self");
                        const int64_t k = ((c.integer("k") % 4) + 4) % 4;
                        const Ints axes = c.integers("dims");
                        if (axes.size() != 2) throw Error(ErrorCode::bad_input, "a turn needs two axes");
                        const int64_t p = b.normal_axis(axes[0], b.rank(x)), q = b.normal_axis(axes[1], b.rank(x));
                        if (p == q) throw Error(ErrorCode::bad_input, "a turn needs two different axes");
                        if (k == 0) return {x};
                        if (k == 2) return {b.reverse(x, {p, q})};
                        return {b.swap_axes(b.reverse(x, {k == 1 ? q : p}), p, q)};
                      })
      .sample("torch.rot90(t(2, 3))")
      .sample("torch.rot90(t(2, 3, 4), -1, (2, 0))")
      .sample("torch.rot90(t(2, 3), 2)");
}

OpDef grids() {
  return mapping("broadcast")
      .from_aten_call(
          "aten.cartesian_prod.default",
          [](AtenCall& c) -> Values {
            const Values given = c.given_tensors("tensors");
            const Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
            if (xs.size() == 1) return {xs[0]};
            Shape grid;
            for (ValueId x : xs) grid.push_back(product(c.b.shape(x)));
            Values columns;
            for (size_t i = 0; i < xs.size(); ++i) {
              const ValueId line = c.b.reshape(xs[i], {grid[i]});
              columns.push_back(c.b.reshape(c.b.broadcast(line, grid, {static_cast<int64_t>(i)}), {product(grid), 1}));
            }
            return {c.b.concat(columns, 1)};
          })
      .sample("torch.cartesian_prod(t(2), t(3), t(2))");
}

// The axes that broadcasting would have repeated, summed up again.
OpDef sums_to_size() {
  return mapping("reduce_sum")
      .from_aten_call("aten.sum_to_size.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self");
                        const Dims size = c.dims("size");
                        const size_t extra = b.shape(x).size() - std::min(size.size(), b.shape(x).size());
                        Ints axes = axes_between(0, static_cast<int64_t>(extra));
                        for (size_t i = 0; i < size.size() && extra + i < b.shape(x).size(); ++i)
                          if (size[i] == Dim(1) && b.shape(x)[extra + i] != Dim(1))
                            axes.push_back(static_cast<int64_t>(extra + i));
                        const bool integer = !is_inexact(b.dtype(x));
                        if ((!axes.empty() || size.empty()) && integer) x = b.cast(x, DType::i64);
                        return {b.reshape(b.sum(x, axes), size)};
                      })
      .sample("t(2, 3, 4).sum_to_size(3, 1)")
      .sample("t(2, 3).sum_to_size(2, 3)")
      .sample("i(dtype=torch.int32).sum_to_size(())");
}

// ---- parts put back

// x with src written at the places of a flat x that `places` names.
ValueId put_at(Builder& b, ValueId x, ValueId src, ValueId places) {
  const Dim count = product(b.shape(x));
  const ValueId flat = b.reshape(x, {count});
  return b.reshape(b.create("scatter_nd", {flat, src, places}, {{"axes", Ints{0}}}), b.shape(x));
}
// The place of every element of x in memory.
ValueId numbered(Builder& b, ValueId x) { return b.reshape(b.iota(product(b.shape(x))), b.shape(x)); }

OpDef parts() {
  OpDef def = mapping("scatter_nd");
  def.from_aten_call("aten.diagonal_scatter.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId x = c.tensor("self"), src = b.cast(c.tensor("src"), b.dtype(x));
    const int64_t axis1 = b.normal_axis(c.integer("dim1"), b.rank(x)), axis2 = b.normal_axis(c.integer("dim2"), b.rank(x));
    const ValueId places = b.create("diagonal", {numbered(b, x)},
                                    {{"offset", c.integer("offset")}, {"axis1", axis1}, {"axis2", axis2}});
    return {put_at(b, x, src, places)};
  });
  def.from_aten_call("aten.put.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId x = c.tensor("self"), index = c.tensor("index");
    const bool accumulate = c.boolean("accumulate");
    // Bools add up to "any".
    const DType dtype = accumulate && b.dtype(x) == DType::boolean ? DType::i32 : b.dtype(x);
    const ValueId source = b.reshape(b.cast(c.tensor("source"), dtype), b.shape(index));
    const ValueId flat = b.reshape(b.cast(x, dtype), {product(b.shape(x))});
    const ValueId y = b.create("scatter_nd", {flat, source, index}, {{"axes", Ints{0}}, {"accumulate", accumulate}});
    return {b.cast(b.reshape(y, b.shape(x)), b.dtype(x))};
  });
  return def.sample("torch.diagonal_scatter(t(4, 5), t(3), offset=2)")
      .sample("torch.diagonal_scatter(t(2, 4, 3), t(4, 2), 0, -1, 0)")
      .sample("t(3, 4).put(torch.tensor([1, -2, 5]) + i(1, low=0, high=0), t(3))")
      .sample("t(3, 4).put(torch.tensor([1, 1, 5]) + i(1, low=0, high=0), t(3), accumulate=True)");
}

// ---- memory walked by strides: the recorder lets only tensors through that lie row by row

ValueId strided_places(AtenCall& c, ValueId x) {
  Builder& b = c.b;
  const Dims size = c.dims("size"), stride = c.dims("stride");
  if (size.size() != stride.size()) throw Error(ErrorCode::bad_input, "size and stride have different lengths");
  const Dim offset = c.maybe_dim("storage_offset").value_or(0);
  ValueId places = b.broadcast_to(b.dim_value(offset), size);
  Dim last = offset;
  for (size_t i = 0; i < size.size(); ++i) {
    const ValueId along = b.mul(b.iota(size[i]), b.dim_value(stride[i]));
    places = b.add(places, b.broadcast(along, size, {static_cast<int64_t>(i)}));
    last = last + (size[i] - 1) * stride[i];
  }
  if (!may_be_at_most(last + 1, product(b.shape(x))) && product(size) != Dim(0))
    throw Error(ErrorCode::bad_input, "as_strided leaves the tensor")
        .expected("at most " + product(b.shape(x)).text() + " elements")
        .found((last + 1).text());
  return places;
}

OpDef strided() {
  OpDef def = mapping("take");
  for (const char* name : {"aten.as_strided.default", "aten.as_strided_copy.default"})
    def.from_aten_call(name, [](AtenCall& c) -> Values {
      const ValueId x = c.tensor("self");
      const ValueId flat = c.b.reshape(x, {product(c.b.shape(x))});
      return {c.b.create("take", {flat, strided_places(c, x)}, {{"axis", int64_t{0}}})};
    });
  return def.sample("t(12).as_strided((3, 2), (2, 1), 1)")
      .sample("torch.as_strided_copy(t(12), (3, 2), (2, 1), 1)")
      .sample("t(3, 4).as_strided((2, 2, 3), (4, 1, 1))")
      .sample("t(6).as_strided((2, 0), (1, 1))");
}

// What fits into the new shape; more than there is would be whatever the memory held.
OpDef resizes() {
  return mapping("reshape")
      .from_aten_call("aten.resize_as.default",
                      [](AtenCall& c) -> Values {
                        if (c.has_argument("memory_format")) c.discard("memory_format", "no effect on values");
                        Builder& b = c.b;
                        const ValueId x = c.tensor("self");
                        const Shape shape = b.shape(c.tensor("the_template"));
                        const Dim have = product(b.shape(x)), want = product(shape);
                        if (!may_be_at_most(want, have)) c.unsupported("a template with more elements");
                        return {b.reshape(b.slice(b.reshape(x, {have}), 0, 0, want), shape)};
                      })
      .sample("torch.ops.aten.resize_as(t(3, 4), t(2, 5))")
      .sample("torch.ops.aten.resize_as(t(), t())");
}

OpDef strided_parts() {
  return mapping("scatter_nd")
      .from_aten_call("aten.as_strided_scatter.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self"), src = c.b.cast(c.tensor("src"), c.b.dtype(x));
                        return {put_at(c.b, x, src, strided_places(c, x))};
                      })
      .sample("torch.as_strided_scatter(t(3, 4), t(2, 2), (2, 2), (4, 2), 1)");
}

// ---- bits

// The last axis of x when its elements are read as ones of another size.
Dim bits_size(Dim last, DType from, DType to) {
  const auto a = static_cast<int64_t>(size_of(from)), b = static_cast<int64_t>(size_of(to));
  return a >= b ? last * Dim(a / b) : floordiv(last, b / a);
}

OpDef bitcast() {
  return primitive("bitcast")
      .doc("the bytes of x, of dtype `from`, read as another dtype; the last axis grows or shrinks with the size of an element")
      .operands("x")
      .attributes(attr<DType>("from"), attr<DType>("to"))
      .constraint("bitcast_c1", "x is of dtype `from`", [](const Call& c) { return c.type("x").dtype == c.dtype("from"); })
      .constraint("bitcast_c2", "elements have one size, or the last axis divides into larger ones",
                  [](const Call& c) {
                    const auto from = static_cast<int64_t>(size_of(c.dtype("from"))),
                               to = static_cast<int64_t>(size_of(c.dtype("to")));
                    if (from == to) return true;
                    return c.rank("x") >= 1 && (from > to || c.agree(mod(c.shape("x").back(), to / from), 0));
                  })
      .infer([](const Call& c) {
        Type y{c.dtype("to"), c.shape("x")};
        if (!y.shape.empty()) y.shape.back() = bits_size(y.shape.back(), c.dtype("from"), c.dtype("to"));
        return y;
      })
      .evaluator([](const Evaluation& ev) {
        const Array x = cast(ev.array("x"), ev.dtype("from"));  // unrounded values have no bits of that dtype
        Sizes shape = x.shape();
        if (!shape.empty())
          shape.back() = static_cast<int64_t>(static_cast<size_t>(shape.back()) * size_of(x.dtype()) / size_of(ev.dtype("to")));
        Array out(ev.dtype("to"), shape);
        std::copy_n(x.as<char>(), x.bytes(), out.mutable_as<char>());
        return cast(out, ev.out_dtype());
      })
      .from_aten_call("aten.view.dtype",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        return {c.b.create("bitcast", {x}, {{"from", c.b.dtype(x)}, {"to", *c.dtype("dtype")}})};
                      })
      .sample("t(3, 4, dtype=torch.float32).view(torch.int32)")
      .sample("t(3, 4, dtype=torch.float32).view(torch.int16)")
      .sample("i(3, 4).view(torch.float64)")
      .sample("i(3, 4, dtype=torch.uint8).view(torch.int32)");
}

}  // namespace

std::vector<OpDef> arranging_ops() {
  return {stacks(), least_axes(), turns(), grids(), sums_to_size(), parts(), strided(), resizes(), strided_parts(), bitcast()};
}

}  // namespace pycandle
