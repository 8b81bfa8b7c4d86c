// Triangles, diagonals and sliding windows.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ops/core/constraints.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// Row and column numbers of the last two axes, as [R, 1] and [1, C].
std::pair<ValueId, ValueId> coordinates(Builder& b, Dim rows, Dim columns) {
  ValueId row = b.reshape(b.iota(rows), {rows, 1});
  return {row, b.reshape(b.iota(columns), {1, columns})};
}

OpDef triangle(const char* name, const char* doc, const char* kept) {
  std::string id = name;
  OpDef def = functional(name);
  def.doc(doc)
      .operands("x")
      .attributes(attr<Dim>("diagonal", Dim(0)))
      .constraint(id + "_c1", "x has at least two axes", [](const Call& c) { return c.rank("x") >= 2; })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([kept](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        const Shape& shape = c.shape("x");
        auto [row, column] = coordinates(b, shape[shape.size() - 2], shape[shape.size() - 1]);
        ValueId inside = b.compare(kept, column, b.add(row, b.dim_value(c.dim("diagonal"))));
        return b.select(inside, x, b.full(Scalar{int64_t{0}}, b.dtype(x)));
      })
      .spelled_torch(fmt::format("torch.{}({{x}}, {{diagonal}})", name))
      .mistakes([](Mistakes& m) {
        const Dim now = m.call().dim("diagonal");
        for (const int64_t shift : {-1, 1}) {
          m.attribute("slice offset", "diagonal", now + Dim(shift), fmt::format("diagonal {}", now.text()),
                      fmt::format("diagonal {}", (now + Dim(shift)).text()));
        }
      });
  def.from_aten_call(fmt::format("aten.{}.default", name), [id](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.create(id, {x}, {{"diagonal", c.dim("diagonal")}})};
  });
  return def.sample(fmt::format("torch.{}(t(4, 5))", name))
      .sample(fmt::format("torch.{}(t(2, 4, 3), diagonal=1)", name))
      .sample(fmt::format("torch.{}(i(4, 3), -1)", name))
      .sample(fmt::format("torch.{}(m(3, 3))", name))
      .sample(fmt::format("torch.{}(t(0, 3))", name));
}

// ---- diagonals

constexpr int64_t kLargestOffset = int64_t{1} << 40;

Dim diagonal_length(Dim rows, Dim columns, int64_t offset) {
  Dim length = offset >= 0 ? min(rows, columns - offset) : min(rows + offset, columns);
  return may_be_at_most(0, length) && at_most(0, length) == Tri::yes ? length : max(length, 0);
}

bool is_sane_offset(const Call& c) { return c.integer("offset") >= -kLargestOffset && c.integer("offset") <= kLargestOffset; }

// x with those two axes moved to the end.
ValueId axes_last(Builder& b, ValueId x, int64_t first, int64_t second) {
  Ints order;
  for (int64_t i = 0; i < b.rank(x); ++i)
    if (i != first && i != second) order.push_back(i);
  order.insert(order.end(), {first, second});
  return b.transpose(x, order);
}

OpDef diagonal() {
  OpDef def = functional("diagonal");
  def.doc("the diagonal of two axes, as a new last axis")
      .operands("x")
      .attributes(attr<int64_t>("offset", int64_t{0}), attr<int64_t>("axis1", int64_t{0}), attr<int64_t>("axis2", int64_t{1}))
      .constraint("diagonal_c1", "axis1 and axis2 are two axes of x",
                  [](const Call& c) { return are_axes({c.integer("axis1"), c.integer("axis2")}, c.rank("x")); })
      .constraint("diagonal_c2", "offset is at most 2^40 from 0", is_sane_offset)
      .infer([](const Call& c) {
        Ints axes{c.integer("axis1"), c.integer("axis2")};
        Type type{c.type("x").dtype, without_axes(c.shape("x"), axes)};
        type.shape.push_back(diagonal_length(c.shape("x")[axes[0]], c.shape("x")[axes[1]], c.integer("offset")));
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = axes_last(b, c.value("x"), c.integer("axis1"), c.integer("axis2"));
        int64_t offset = c.integer("offset"), rank = b.rank(x);
        Dim rows = b.shape(x)[rank - 2], columns = b.shape(x)[rank - 1];
        Shape flat(b.shape(x).begin(), b.shape(x).end() - 2);
        flat.push_back(rows * columns);
        Dim first = offset >= 0 ? Dim(offset) : columns * Dim(-offset);
        ValueId along = b.mul(b.iota(diagonal_length(rows, columns, offset)), b.dim_value(columns + 1));
        ValueId places = b.add(along, b.dim_value(first));
        return b.create("take", {b.reshape(x, flat), places}, {{"axis", rank - 2}});
      });
  auto build = [](AtenCall& c, ValueId x, int64_t offset, int64_t axis1, int64_t axis2) -> Values {
    axis1 = c.b.normal_axis(axis1, c.b.rank(x));
    axis2 = c.b.normal_axis(axis2, c.b.rank(x));
    return {c.b.create("diagonal", {x}, {{"offset", offset}, {"axis1", axis1}, {"axis2", axis2}})};
  };
  for (const char* name : {"diagonal", "diagonal_copy", "linalg_diagonal"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [build](AtenCall& c) {
      ValueId x = c.tensor(c.has_argument("A") ? "A" : "self");
      int64_t offset = c.integer("offset"), axis1 = c.integer("dim1");
      return build(c, x, offset, axis1, c.integer("dim2"));
    });
  def.from_aten_call("aten.diag.default", [build](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    int64_t offset = c.integer("diagonal");
    if (c.b.rank(x) == 2) return build(c, x, offset, 0, 1);
    if (c.b.rank(x) != 1)
      throw Error(ErrorCode::bad_input, "diag takes a vector or a matrix").expected("rank 1 or 2").found(c.b.type(x).text());
    return {c.b.create("diag_embed", {x}, {{"offset", offset}})};
  });
  def.from_aten_call("aten.diagflat.default", [](AtenCall& c) -> Values {
    const ValueId x = c.tensor("self"), flat = c.b.reshape(x, {product(c.b.shape(x))});
    return {c.b.create("diag_embed", {flat}, {{"offset", c.integer("offset")}})};
  });
  return def.sample("torch.diagonal(t(4, 5))")
      .sample("torch.diagonal(t(4, 5), offset=2)")
      .sample("torch.diagonal(t(4, 5), offset=-2)")
      .sample("torch.diagonal(t(2, 4, 3), 0, -1, 0)")
      .sample("torch.diag(t(3, 3))")
      .sample("torch.diag(t(3), 1)")
      .sample("torch.diagflat(t(2, 2), -1)")
      .sample("torch.diagflat(t())");
}

OpDef diag_embed() {
  OpDef def = functional("diag_embed");
  def.doc("matrices with the last axis of x on a diagonal, zero elsewhere, as two new last axes")
      .operands("x")
      .attributes(attr<int64_t>("offset", int64_t{0}))
      .constraint("diag_embed_c1", "x has an axis", [](const Call& c) { return c.rank("x") >= 1; })
      .constraint("diag_embed_c2", "offset is at most 2^40 from 0", is_sane_offset)
      .infer([](const Call& c) {
        Type type = c.type("x");
        type.shape.back() = type.shape.back() + std::abs(c.integer("offset"));
        type.shape.push_back(type.shape.back());
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        int64_t offset = c.integer("offset");
        // Above the diagonal the row says which element it is, below it the column does.
        Dims low(c.shape("x").size(), Dim(0)), high = low;
        high.back() = std::abs(offset);
        ValueId padded = b.pad(x, low, high, Scalar{int64_t{0}});
        Dim size = b.shape(padded).back();
        auto [row, column] = coordinates(b, size, size);
        ValueId on = b.compare("eq", column, b.add(row, b.dim_value(offset)));
        ValueId values = b.unsqueeze(padded, offset >= 0 ? -1 : -2);
        return b.select(on, values, b.full(Scalar{int64_t{0}}, b.dtype(x)));
      });
  return def
      .from_aten_call(
          "aten.diag_embed.default",
          [](AtenCall& c) -> Values {
            ValueId x = c.tensor("self");
            ValueId y = c.b.create("diag_embed", {x}, {{"offset", c.integer("offset")}});
            int64_t rank = c.b.rank(y);
            int64_t axis1 = c.b.normal_axis(c.integer("dim1"), rank), axis2 = c.b.normal_axis(c.integer("dim2"), rank);
            if (axis1 == axis2)
              throw Error(ErrorCode::bad_input, "a diagonal needs two different axes").expected("dim1 other than dim2");
            Ints order(rank, -1);
            order[axis1] = rank - 2;
            order[axis2] = rank - 1;
            int64_t next = 0;
            for (int64_t& place : order)
              if (place < 0) place = next++;
            return {c.b.transpose(y, order)};
          })
      .sample("torch.diag_embed(t(2, 3))")
      .sample("torch.diag_embed(t(2, 3), offset=1, dim1=0, dim2=2)")
      .sample("torch.diag_embed(t(2, 3), offset=-2)");
}

// ---- sliding windows

OpDef unfold() {
  OpDef def = functional("unfold");
  def.doc("windows of an axis: their number takes the axis' place, their elements are a new last axis")
      .operands("x")
      .attributes(attr<int64_t>("axis"), attr<Dim>("size"), attr<Dim>("step"))
      .constraint("unfold_c1", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("unfold_c2", "a window is not longer than the axis",
                  [](const Call& c) { return may_be_at_most(c.dim("size"), c.shape("x")[c.integer("axis")]); })
      .constraint("unfold_c3", "step is positive", [](const Call& c) { return may_be_at_most(1, c.dim("step")); })
      .infer([](const Call& c) {
        Type type = c.type("x");
        Dim& length = type.shape[c.integer("axis")];
        length = floordiv(length - c.dim("size"), c.dim("step")) + 1;
        type.shape.push_back(c.dim("size"));
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        int64_t axis = c.integer("axis");
        Dim size = c.dim("size"), count = floordiv(c.shape("x")[axis] - size, c.dim("step")) + 1;
        ValueId starts = b.mul(b.iota(count), b.dim_value(c.dim("step")));
        ValueId places = b.add(b.reshape(starts, {count, 1}), b.reshape(b.iota(size), {1, size}));
        ValueId windows = b.create("take", {x, places}, {{"axis", axis}});
        Ints order;
        for (int64_t i = 0; i < b.rank(windows); ++i)
          if (i != axis + 1) order.push_back(i);
        order.push_back(axis + 1);
        return b.transpose(windows, order);
      });
  for (const char* name : {"unfold", "unfold_copy"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      bool is_number = c.b.rank(x) == 0;  // which has one window, of itself or of nothing
      if (is_number) x = c.b.reshape(x, {1});
      int64_t axis = c.b.normal_axis(c.integer("dimension"), c.b.rank(x));
      Dim size = c.dim("size"), step = c.dim("step");
      if (is_number) return {c.b.slice(x, 0, 0, size)};
      return {c.b.create("unfold", {x}, {{"axis", axis}, {"size", size}, {"step", step}})};
    });
  return def.sample("torch.unfold_copy(t(2, 9), 1, 4, 2)")
      .sample("t(7).unfold(0, 3, 2)")
      .sample("t(2, 9, 3).unfold(1, 4, 1)")
      .sample("t(2, 9).unfold(-1, 9, 1)")
      .sample("t().unfold(0, 1, 1)")
      .sample("t().unfold(0, 0, 1)");
}

}  // namespace

std::vector<OpDef> diagonal_ops() {
  return {triangle("tril", "the lower triangle of matrices, zero above it", "le"),
          triangle("triu", "the upper triangle of matrices, zero below it", "ge"), diagonal(), diag_embed(), unfold()};
}

}  // namespace pycandle
