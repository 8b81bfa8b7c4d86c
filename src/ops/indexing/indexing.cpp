// Elements picked and put by index tensors.
#include <fmt/format.h>

#include <algorithm>

#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"

namespace pycandle {
namespace {

// Bools are combined as numbers: a sum is "any", a product "all".
DType counted_dtype(DType d) { return d == DType::boolean ? DType::i32 : d; }

// ---- x[i, :, j, mask]

// Index tensors of one shape and the axes that they index.
struct Points {
  Values indices;
  Ints axes;
};

// Integer tensors stay; a mask over k axes is k index tensors, of the places where it holds. `count` names how many.
Points points_of(AtenCall& c, ValueId x, const Values& given, std::optional<Dim> count) {
  Builder& b = c.b;
  Points points;
  int64_t axis = 0;
  for (ValueId index : given) {
    if (index == kNoValue) {
      ++axis;
      continue;
    }
    DType dtype = b.dtype(index);
    if (dtype != DType::boolean && dtype != DType::u8) {
      points.indices.push_back(dtype == DType::i32 ? index : b.cast(index, DType::i64));
      points.axes.push_back(axis++);
      continue;
    }
    if (!count) c.unsupported("a mask among its indices");
    ValueId places = b.create("nonzero", {b.cast(index, DType::boolean)}, {{"count", *count}});
    for (int64_t k = 0; k < b.rank(index); ++k) {
      points.indices.push_back(b.select_index(places, 1, k));
      points.axes.push_back(axis++);
    }
  }
  if (axis > b.rank(x))
    throw Error(ErrorCode::bad_input, "there are more indices than axes")
        .found(fmt::format("{} indices for {}", axis, b.type(x).text()));
  // All of one dtype and shape.
  bool wide = std::any_of(points.indices.begin(), points.indices.end(), [&](ValueId i) { return b.dtype(i) == DType::i64; });
  Shape common;
  for (ValueId i : points.indices) common = broadcast_shapes(common, b.shape(i));
  for (ValueId& i : points.indices) i = b.broadcast_to(b.cast(i, wide ? DType::i64 : DType::i32), common);
  return points;
}

bool are_consecutive(const Ints& axes) {
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] != axes[i - 1] + 1) return false;
  return true;
}

// The one dim of the result that data decides: where the shape of the indices stands in it.
std::optional<Dim> masked_count(AtenCall& c, const Values& given) {
  Builder& b = c.b;
  Ints axes;
  bool masked = false;
  int64_t axis = 0;
  for (ValueId index : given) {
    if (index == kNoValue) {
      ++axis;
      continue;
    }
    bool mask = b.dtype(index) == DType::boolean || b.dtype(index) == DType::u8;
    masked = masked || mask;
    for (int64_t k = 0; k < (mask ? b.rank(index) : 1); ++k) axes.push_back(axis++);
  }
  if (!masked || axes.empty()) return {};
  size_t place = are_consecutive(axes) ? axes[0] : 0;
  const Shape& shape = c.result().shape;
  if (place >= shape.size()) return {};
  return shape[place];
}

// The shape of x[points]: that of the index tensors in place of their axes when those are consecutive, else first.
Shape shape_at(const Builder& b, ValueId x, const Points& points) {
  Shape shape = without_axes(b.shape(x), points.axes);
  const Shape& index = b.shape(points.indices[0]);
  shape.insert(shape.begin() + (are_consecutive(points.axes) ? points.axes[0] : 0), index.begin(), index.end());
  return shape;
}

ValueId gathered(Builder& b, ValueId x, const Points& points) {
  if (points.indices.empty()) return x;
  Values operands{x};
  operands.insert(operands.end(), points.indices.begin(), points.indices.end());
  return b.create("gather_nd", operands, {{"axes", points.axes}});
}

OpDef index() {
  OpDef def = mapping("gather_nd");
  for (const char* overload : {"aten.index.Tensor", "aten._unsafe_index.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      Values given = c.tensors("indices");
      return {gathered(c.b, x, points_of(c, x, given, masked_count(c, given)))};
    });
  def.from_aten_call("aten.masked_select.default", [](AtenCall& c) -> Values {
    Values v{c.tensor("self"), c.b.cast(c.tensor("mask"), DType::boolean)};
    Shape common = broadcast_shapes(c.b.shape(v[0]), c.b.shape(v[1]));
    if (common.empty()) common = {1};
    for (ValueId& x : v) x = c.b.broadcast_to(x, common);
    return {gathered(c.b, v[0], points_of(c, v[0], {v[1]}, c.result().shape.at(0)))};
  });
  return def.sample("t(4, 5)[i(3, low=0, high=3)]")
      .sample("t(4, 5)[:, i(3, low=-5, high=4)]")
      .sample("t(4, 5)[i(3, low=0, high=3), i(3, low=0, high=4)]")
      .sample("t(4, 5, 6)[i(3, 1, low=0, high=3), :, i(2, low=0, high=5)]")
      .sample("t(4, 5, 6)[:, i(3, 1, low=0, high=4), i(2, low=0, high=5)]")
      .sample("t(4, 5)[i(2, 2, low=0, high=3, dtype=torch.int32)]")
      .sample("torch.ops.aten.index.Tensor(t(4, 5), [i(low=0, high=3)])")
      .sample("t(4, 5)[i(0, low=0, high=3)]");
}

// ---- x[i, :, j] = values

// A mask alone is a choice; no place has to be counted. values broadcast to [axes before, places that hold, axes after].
std::optional<ValueId> put_by_mask(AtenCall& c, ValueId x, const Values& given, ValueId values, bool accumulate) {
  Builder& b = c.b;
  ValueId mask = kNoValue;
  int64_t axis = 0, first = 0;
  for (ValueId index : given) {
    if (index == kNoValue) {
      ++axis;
      continue;
    }
    if (mask != kNoValue || (b.dtype(index) != DType::boolean && b.dtype(index) != DType::u8)) return {};
    mask = b.cast(index, DType::boolean);
    first = axis;
  }
  if (mask == kNoValue) return {};
  const Shape holds = b.shape(mask);
  const int64_t after = b.rank(x) - first - b.rank(mask), places = b.rank(values) - after - 1;
  if (after < 0) throw Error(ErrorCode::bad_input, "there are more indices than axes").found(b.type(x).text());
  if (places >= 0) {  // values have an axis of places: the n-th place that holds takes the n-th
    Shape shape = b.shape(values);
    const Dim count = shape[places];
    shape.erase(shape.begin() + places);
    if (count == Dim(1)) {
      shape.insert(shape.begin() + places, holds.size(), Dim(1));
    } else {
      const Dim all = product(holds);
      const ValueId flat = b.cast(b.reshape(mask, {all}), DType::i64);
      const ValueId number = b.sub(b.create("cumsum", {flat}, {{"axis", int64_t{0}}}), 1.0);
      if (!count.is_number() || count == Dim(0)) {  // one value more, so that there is one when nothing holds
        Dims none(b.shape(values).size(), Dim(0)), one = none;
        one[places] = 1;
        values = b.pad(values, none, one, Scalar{int64_t{0}});
      }
      values = b.create("take", {values, b.maximum(number, 0.0)}, {{"axis", places}});
      shape.insert(shape.begin() + places, holds.begin(), holds.end());
    }
    values = b.reshape(values, shape);
  }
  Shape along(b.shape(x).size(), Dim(1));
  for (size_t k = 0; k < holds.size(); ++k) along.at(first + k) = holds[k];
  const ValueId put = accumulate ? arithmetic(b, "add", x, b.broadcast_to(values, b.shape(x)), b.dtype(x)) : values;
  return b.select(b.reshape(mask, along), b.broadcast_to(put, b.shape(x)), x);
}

OpDef index_put() {
  OpDef def = mapping("scatter_nd");
  for (const char* overload : {"aten.index_put.default", "aten._unsafe_index_put.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      Builder& b = c.b;
      ValueId x = c.tensor("self");
      Values given = c.tensors("indices");
      ValueId values = b.cast(c.tensor("values"), b.dtype(x));
      bool accumulate = c.boolean("accumulate");
      if (auto chosen = put_by_mask(c, x, given, values, accumulate)) return {*chosen};
      Points points = points_of(c, x, given, {});
      if (points.indices.empty()) {
        ValueId all = b.broadcast_to(values, b.shape(x));
        return {accumulate ? b.add(x, all) : all};
      }
      Shape shape = shape_at(b, x, points);
      const DType dtype = accumulate ? counted_dtype(b.dtype(x)) : b.dtype(x);
      Values operands{b.cast(x, dtype), b.broadcast_to(b.cast(values, dtype), shape)};
      operands.insert(operands.end(), points.indices.begin(), points.indices.end());
      return {b.cast(b.create("scatter_nd", operands, {{"axes", points.axes}, {"accumulate", accumulate}}), b.dtype(x))};
    });
  return def.sample("torch.index_put(t(4, 5), [torch.tensor([0, 2])], t(2, 5))")
      .sample("torch.index_put(t(4, 5), [torch.tensor([0, 2]), torch.tensor([1, -1])], t(2))")
      .sample("torch.index_put(t(4, 5), [torch.tensor([0, 0])], t(2, 5), accumulate=True)")
      .sample("torch.index_put(m(4, 5), [torch.tensor([0, 0])], m(2, 5), accumulate=True)")
      .sample("torch.ops.aten.index_put(t(4, 5), [None, torch.tensor([0, 2])], torch.tensor(2.0))")
      .sample("torch.index_put(t(4, 5), [m(4, 5)], torch.tensor(0.0))")
      .sample("torch.ops.aten.index_put(t(4, 5), [None, m(5)], torch.tensor(1.0))")
      .sample("torch.index_put(t(4, 5), [m(4)], t(5))")
      .sample("torch.index_put(t(4, 5), [torch.tensor([True, False, True, False])], t(2, 5))")
      .sample("torch.ops.aten.index_put(t(4, 5), [None, torch.tensor([True, False, True, True, False])], t(4, 3), True)")
      .sample("torch.index_put(t(2, 3, 4), [torch.tensor([[True, False, True], [False, False, True]])], t(3, 4))");
}

// ---- along one axis

OpDef take() {
  return mapping("take")
      .from_aten_call("aten.index_select.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self"), index = c.tensor("index");
                        bool flat = c.b.rank(x) == 0;
                        int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
                        if (flat) x = c.b.reshape(x, {1});
                        if (c.b.rank(index) == 0) index = c.b.reshape(index, {1});
                        ValueId y = c.b.create("take", {x, index}, {{"axis", axis}});
                        return {flat ? c.b.reshape(y, {}) : y};
                      })
      .from_aten_call("aten.take.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        ValueId flat = c.b.reshape(x, {product(c.b.shape(x))});
                        return {c.b.create("gather_nd", {flat, c.tensor("index")}, {{"axes", Ints{0}}})};
                      })
      .sample("t(4, 5).index_select(0, i(3, low=0, high=3))")
      .sample("t(4, 5).index_select(-1, i(3, low=0, high=4, dtype=torch.int32))")
      .sample("torch.take(t(4, 5), i(3, 2, low=-20, high=19))");
}

// torch takes 0-d tensors for 1-d ones of one element.
struct Flattened {
  Builder& b;
  bool zero_dim;
  ValueId in(ValueId v) const { return b.rank(v) == 0 ? b.reshape(v, {1}) : v; }
  ValueId out(ValueId v) const { return zero_dim ? b.reshape(v, {}) : v; }
};

OpDef gather() {
  return mapping("gather")
      .from_aten_call("aten.gather.default",
                      [](AtenCall& c) -> Values {
                        c.discard("sparse_grad", "only for training");
                        ValueId x = c.tensor("self"), index = c.tensor("index");
                        if (product(c.b.shape(index)) == Dim(0)) {  // of any shape and dtype
                          c.discard("dim", "nothing is gathered");
                          return {c.b.full(Scalar{int64_t{0}}, c.b.dtype(x), c.b.shape(index))};
                        }
                        Flattened flat{c.b, c.b.rank(index) == 0};
                        x = flat.in(x);
                        int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
                        return {flat.out(c.b.create("gather", {x, flat.in(index)}, {{"axis", axis}}))};
                      })
      .from_aten_call("aten.take_along_dim.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self"), index = c.tensor("indices");
                        if (c.is_none("dim")) {
                          x = b.reshape(x, {product(b.shape(x))});
                          return {b.create("gather", {x, b.reshape(index, {product(b.shape(index))})}, {{"axis", int64_t{0}}})};
                        }
                        int64_t axis = b.normal_axis(c.integer("dim"), b.rank(x));
                        // Negative ones count from the end, as they do not without dim.
                        const ValueId from_end = b.add(index, b.dim_value(b.shape(x)[axis]));
                        index = b.select(b.compare("lt", index, 0.0), from_end, index);
                        // All axes but one broadcast.
                        Shape a = b.shape(x), i = b.shape(index);
                        a.at(axis) = i.at(axis) = 1;
                        Shape common = broadcast_shapes(a, i), for_x = common, for_index = common;
                        for_x[axis] = b.shape(x)[axis];
                        for_index[axis] = b.shape(index)[axis];
                        ValueId wide = b.broadcast_to(x, for_x);
                        return {b.create("gather", {wide, b.broadcast_to(index, for_index)}, {{"axis", axis}})};
                      })
      .sample("t(4, 5).gather(1, i(4, 3, low=0, high=4))")
      .sample("t(4, 5).gather(-2, i(2, 5, low=0, high=3))")
      .sample("t(4, 5).gather(0, i(0, 5, low=0, high=3))")
      .sample("torch.take_along_dim(t(4, 5), i(4, 1, low=-5, high=4), dim=1)")
      .sample("torch.take_along_dim(t(4, 5), i(7, low=0, high=19))");
}

Values build_scatter(AtenCall& c, const std::string& reduce, bool include_self) {
  Builder& b = c.b;
  ValueId self = c.tensor("self"), index = c.tensor("index");
  Flattened flat{b, b.rank(self) == 0};
  ValueId x = flat.in(self);
  index = flat.in(index);
  int64_t axis = b.normal_axis(c.integer("dim"), b.rank(x));
  ValueId src;
  if (c.has_argument("source")) {  // index_reduce: whole slices, so the index is the same for all of one
    src = flat.in(c.tensor("source"));
    index = b.broadcast(index, b.shape(src), {axis});
  } else {
    src = c.has_argument("value") ? b.broadcast_to(materialise(b, c.operand("value"), b.dtype(x)), b.shape(index))
                                  : flat.in(c.tensor("src"));
  }
  if (b.dtype(src) != b.dtype(x))
    throw Error(ErrorCode::bad_input, "what is scattered has another dtype than the tensor")
        .expected(std::string(name_of(b.dtype(x))))
        .found(std::string(name_of(b.dtype(src))));
  const DType dtype = reduce == "none" ? b.dtype(x) : counted_dtype(b.dtype(x));
  const Values operands{b.cast(x, dtype), index, b.cast(src, dtype)};
  const ValueId y = b.create("scatter", operands, {{"axis", axis}, {"reduce", reduce}, {"include_self", include_self}});
  return {flat.out(b.cast(y, b.dtype(self)))};
}

OpDef scatter() {
  OpDef def = mapping("scatter");
  for (const char* overload : {"src", "value"})
    def.from_aten_call(fmt::format("aten.scatter.{}", overload), [](AtenCall& c) { return build_scatter(c, "none", true); });
  for (const char* overload : {"reduce", "value_reduce"})
    def.from_aten_call(fmt::format("aten.scatter.{}", overload),
                       [](AtenCall& c) { return build_scatter(c, c.string("reduce"), true); });
  def.from_aten_call("aten.scatter_add.default", [](AtenCall& c) { return build_scatter(c, "add", true); });
  for (const char* overload : {"aten.scatter_reduce.two", "aten.index_reduce.default"})
    def.from_aten_call(overload, [](AtenCall& c) {
      std::string reduce = c.string("reduce");
      for (auto [torch, ours] :
           {std::pair{"sum", "add"}, {"prod", "multiply"}, {"mean", "mean"}, {"amax", "amax"}, {"amin", "amin"}})
        if (reduce == torch) return build_scatter(c, ours, c.boolean("include_self"));
      c.unsupported("reduce='" + reduce + "'");
    });
  return def.sample("t(4, 5).scatter(1, torch.tensor([[0], [2], [1], [4]]), t(4, 1))")
      .sample("t(4, 5).scatter(0, torch.tensor([[0, 1, 2, 3, 0]]), 2.5)")
      .sample("t(4, 5).scatter(1, torch.tensor([[0], [2]]), t(2, 1), reduce='add')")
      .sample("t(4, 5).scatter(1, torch.tensor([[0], [2]]), 3.0, reduce='multiply')")
      .sample("t(4, 5).scatter_add(-1, i(4, 3, low=0, high=4), t(4, 3))")
      .sample("t(4, 5).scatter_reduce(0, i(2, 5, low=0, high=3), t(2, 5), 'amax')")
      .sample("t(4, 5).scatter_reduce(0, i(2, 5, low=0, high=3), t(2, 5), 'mean', include_self=False)")
      .sample("t(4, 5).scatter_reduce(0, i(2, 5, low=0, high=3), t(2, 5), 'prod')")
      .sample("m(4, 5).scatter_add(-1, i(4, 3, low=0, high=4), m(4, 3))")
      .sample("m(4, 5).scatter_reduce(0, i(2, 5, low=0, high=3), m(2, 5), 'prod', include_self=False)")
      .sample("t(4, 5).index_reduce(0, i(3, low=0, high=3), t(3, 5), 'mean', include_self=False)")
      .sample("t(4, 5).index_reduce(1, i(3, low=0, high=4), t(4, 3), 'amax')")
      .sample("i(4, 5).index_reduce(1, i(3, low=0, high=4), i(4, 3), 'prod')");
}

// index_add, index_copy and index_fill: whole slices along an axis.
Values build_index_put(AtenCall& c, bool accumulate) {
  Builder& b = c.b;
  ValueId self = c.tensor("self"), index = c.tensor("index");
  Flattened flat{b, b.rank(self) == 0};
  ValueId x = flat.in(self);
  index = flat.in(index);
  int64_t axis = b.normal_axis(c.integer("dim"), b.rank(x));
  Shape shape = b.shape(x);
  shape[axis] = b.shape(index)[0];
  ValueId source = c.has_argument("value") ? b.broadcast_to(materialise(b, c.operand("value"), b.dtype(x)), shape)
                                           : b.reshape(b.cast(c.tensor("source"), b.dtype(x)), shape);
  if (c.has_argument("alpha")) {
    Operand alpha = c.operand("alpha");
    auto* number = std::get_if<Scalar>(&alpha);
    if (!number || as_complex(*number) != std::complex<double>(1)) source = arithmetic(b, "mul", source, alpha, b.dtype(x));
  }
  const DType dtype = accumulate ? counted_dtype(b.dtype(x)) : b.dtype(x);
  const Values operands{b.cast(x, dtype), b.cast(source, dtype), index};
  const ValueId y = b.create("scatter_nd", operands, {{"axes", Ints{axis}}, {"accumulate", accumulate}});
  return {flat.out(b.cast(y, b.dtype(self)))};
}

OpDef index_slices() {
  return mapping("scatter_nd")
      .from_aten_call("aten.index_add.default", [](AtenCall& c) { return build_index_put(c, true); })
      .from_aten_call("aten.index_copy.default", [](AtenCall& c) { return build_index_put(c, false); })
      .from_aten_call("aten.index_fill.int_Scalar", [](AtenCall& c) { return build_index_put(c, false); })
      .from_aten_call("aten.index_fill.int_Tensor", [](AtenCall& c) { return build_index_put(c, false); })
      .sample("t(4, 5).index_add(0, torch.tensor([1, 1, 3]), t(3, 5), alpha=2)")
      .sample("m(4, 5).index_add(0, torch.tensor([1, 1, 3]), m(3, 5))")
      .sample("t(4, 5).index_copy(1, torch.tensor([0, 4]), t(4, 2))")
      .sample("t(4, 5).index_fill(1, torch.tensor([0, 4]), -1.0)");
}

OpDef masked_scatter() {
  return mapping("select")
      .from_aten_call("aten.masked_scatter.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self"), mask = c.tensor("mask"), source = c.tensor("source");
                        c.expects(b.dtype(mask) == DType::boolean && b.dtype(source) == b.dtype(x),
                                  "a mask of bools, and a source of self's dtype");
                        Shape shape = broadcast_shapes(b.shape(x), b.shape(mask));
                        x = b.broadcast_to(x, shape);
                        mask = b.broadcast_to(mask, shape);
                        // The n-th place where the mask holds takes the n-th element of the source.
                        Dim count = product(shape);
                        ValueId flat = b.reshape(mask, {count});
                        ValueId number = b.create("cumsum", {b.cast(flat, DType::i64)}, {{"axis", int64_t{0}}});
                        ValueId place = b.select(flat, b.sub(number, b.dim_value(1)), b.dim_value(0));
                        ValueId values = b.create("take", {b.reshape(source, {product(b.shape(source))}), place},
                                                  {{"axis", int64_t{0}}});
                        return {b.select(mask, b.reshape(values, shape), x)};
                      })
      .sample("t(3, 4).masked_scatter(m(3, 4), t(12))")
      .sample("t(3, 4).masked_scatter(m(4), t(3, 4))");
}

OpDef nonzero() {
  return mapping("nonzero").from_aten_call("aten.nonzero.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.create("nonzero", {x}, {{"count", c.result().shape.at(0)}})};
  });
}

}  // namespace

std::vector<OpDef> indexing_ops() {
  return {index(), index_put(), take(), gather(), scatter(), index_slices(), masked_scatter(), nonzero()};
}

}  // namespace pycandle
