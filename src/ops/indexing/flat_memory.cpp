// Parts put back where they were taken, and memory walked by strides.
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

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

OpDef strided_parts() {
  return mapping("scatter_nd")
      .from_aten_call("aten.as_strided_scatter.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self"), src = c.b.cast(c.tensor("src"), c.b.dtype(x));
                        return {put_at(c.b, x, src, strided_places(c, x))};
                      })
      .sample("torch.as_strided_scatter(t(3, 4), t(2, 2), (2, 2), (4, 2), 1)");
}

}  // namespace

std::vector<OpDef> flat_memory_ops() { return {parts(), strided(), strided_parts()}; }

}  // namespace pycandle
