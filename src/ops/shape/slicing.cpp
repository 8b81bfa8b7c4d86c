// Parts of a tensor, and a part replaced: slice, split, slice_scatter.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/core/alignment.h"
#include "ops/core/dims_at_samples.h"
#include "ops/core/functional_helpers.h"
#include "ops/core/mapping.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// What a Python index means on an axis: negative ones count from the end.
Dim from_start(const Builder& b, Dim index, Dim size, const char* what) {
  switch (seems_at_most(0, index, b)) {
    case Tri::yes: return index;
    case Tri::no: return index + size;
    case Tri::unknown: break;
  }
  throw Error(ErrorCode::gap, fmt::format("{} = {}, whose sign depends on the sizes, is not supported", what, index.text()));
}

Dim within(const Builder& b, Dim value, Dim low, Dim high) {
  if (seems_at_most(low, value, b) != Tri::yes) value = max(value, low);
  if (seems_at_most(value, high, b) != Tri::yes) value = min(value, high);
  return value;
}

}  // namespace

SliceBounds python_slice(const Builder& b, Dim size, std::optional<Dim> start, std::optional<Dim> stop, int64_t step) {
  if (step < 1) throw Error(ErrorCode::gap, fmt::format("a slice with step {} is not supported", step));
  const Dim first = within(b, from_start(b, start.value_or(0), size, "start"), 0, size);
  const bool to_the_end = !stop || *stop == Dim(std::numeric_limits<int64_t>::max());
  return {first, to_the_end ? size : within(b, from_start(b, *stop, size, "end"), first, size), step};
}

SliceBounds slice_bounds(AtenCall& c, Dim size) {
  const std::optional<Dim> start = c.maybe_dim("start"), end = c.maybe_dim("end");
  return python_slice(c.b, size, start, end, c.integer("step"));
}

namespace {

// A slice a little to the side, or another part of the same size: the second of three chunks.
void other_slices(Mistakes& m) {
  const Dims starts = m.call().dims("starts"), stops = m.call().dims("stops");
  const Shape& shape = m.call().shape("x");
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t start = m.size(starts[axis]), stop = m.size(stops[axis]), size = m.size(shape[axis]), length = stop - start;
    const auto moved = [&](const char* kind, Dim from, Dim to, std::string now, std::string instead) {
      Dims new_starts = starts, new_stops = stops;
      new_starts[axis] = from;
      new_stops[axis] = to;
      m.attributes(kind, {{"starts", new_starts}, {"stops", new_stops}}, std::move(now), std::move(instead));
    };
    for (const int64_t shift : {-1, 1, -2, 2}) {
      if (start + shift < 0 || stop + shift > size || length == size) continue;
      moved("slice offset", starts[axis] + Dim(shift), stops[axis] + Dim(shift), fmt::format("a slice from {}", start),
            fmt::format("a slice from {}", start + shift));
    }
    for (int64_t other = 0; length > 2 && size % length == 0 && other + length <= size && size / length <= 8; other += length) {
      if (other == start || start % length != 0) continue;
      moved("part order", Dim(other), Dim(other + length), fmt::format("part {} of {}", start / length, size / length),
            fmt::format("part {} of {}", other / length, size / length));
    }
  }
}

void slice_overloads(OpDef& def) {
  for (const char* overload : {"aten.slice.Tensor", "aten.slice_copy.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      if (c.has_tensor("start") || c.has_tensor("end")) return {slice_of_data(c, x, axis)};
      SliceBounds bounds = slice_bounds(c, c.b.shape(x)[axis]);
      // Where algebra cannot tell, the recorded length is the simpler name of the same number.
      if (bounds.step == 1 && c.result().shape.size() > static_cast<size_t>(axis)) {
        Dim recorded = c.result().shape[axis];
        if (compare(bounds.stop - bounds.start, recorded, c.b) != Agreement::refuted) bounds.stop = bounds.start + recorded;
      }
      return {c.b.slice(x, axis, bounds.start, bounds.stop, bounds.step)};
    });
  for (const char* overload : {"aten.select.int", "aten.select_copy.int"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      return {c.b.select_index(x, axis, from_start(c.b, c.dim("index"), c.b.shape(x)[axis], "index"))};
    });
  for (const char* overload : {"aten.narrow.default", "aten.narrow_copy.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Dim start = from_start(c.b, c.dim("start"), c.b.shape(x)[axis], "start");
      return {c.b.slice(x, axis, start, start + c.dim("length"))};
    });
  def.sample("t(5, 4)[1:3]")
      .sample("t(5, 4)[:, ::2]")
      .sample("t(5, 4)[-3:-1]")
      .sample("t(5, 4)[2:99]")
      .sample("t(5, 4)[3:1]")
      .sample("t(5, 4)[-99:2, 1:]")
      .sample("t(5, 4)[..., 1::3]")
      .sample("t(5, 4)[2]")
      .sample("t(5, 4)[:, -1]")
      .sample("t(5).select(0, -2)")
      .sample("t(5, 4).narrow(0, 1, 3)")
      .sample("t(5, 4).narrow(-1, -2, 2)");
}

// ---- torch's splits are slices; where all of them are used, recognise-split makes one split of them again

// Several slices, one after another.
Values split_at(AtenCall& c, ValueId x, int64_t axis, const Dims& sizes) {
  Values parts;
  Dim start = 0;
  for (Dim size : sizes) {
    parts.push_back(c.b.slice(x, axis, start, start + size));
    start = start + size;
  }
  return parts;
}

void split_overloads(OpDef& def) {
  for (const char* overload : {"aten.split_with_sizes.default", "aten.split.sizes", "aten.split_with_sizes_copy.default",
                               "aten.unsafe_split_with_sizes.default"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      const char* name = c.has_argument("split_size") ? "split_size" : "split_sizes";
      if (c.has_tensor(name)) return split_by_data(c, x, axis, name);
      Dims sizes = c.dims(name);
      Dim total = 0;
      for (Dim size : sizes) total = total + size;
      if (!c.b.check(total, c.b.shape(x)[axis], "the sizes of a split and the split axis"))
        throw Error(ErrorCode::bad_input, "the sizes of a split do not add up")
            .expected(c.b.shape(x)[axis].text())
            .found(total.text());
      return split_at(c, x, axis, sizes);
    });
  // How many parts there are was decided when the model was recorded; the last one is what remains.
  auto equal_parts = [](AtenCall& c, ValueId x, int64_t axis, Dim part) {
    Dim size = c.b.shape(x)[axis];
    Dims sizes(c.result_count(), part);
    if (!sizes.empty()) sizes.back() = size - part * Dim(static_cast<int64_t>(sizes.size()) - 1);
    return split_at(c, x, axis, sizes);
  };
  for (const char* overload : {"aten.split.Tensor", "aten.split_copy.Tensor", "aten.unsafe_split.Tensor"})
    def.from_aten_call(overload, [equal_parts](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      return equal_parts(c, x, axis, c.dim("split_size"));
    });
  for (const char* overload : {"aten.chunk.default", "aten.unsafe_chunk.default"})
    def.from_aten_call(overload, [equal_parts](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      int64_t chunks = c.integer("chunks");
      if (chunks < 1)
        throw Error(ErrorCode::bad_input, "the number of chunks must be positive")
            .expected("at least 1")
            .found(std::to_string(chunks));
      return equal_parts(c, x, axis, ceildiv(c.b.shape(x)[axis], chunks));
    });
  for (const char* overload : {"aten.unbind.int", "aten.unbind_copy.int"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Values parts;
      for (size_t i = 0; i < c.result_count(); ++i) parts.push_back(c.b.select_index(x, axis, static_cast<int64_t>(i)));
      if (!c.b.check(c.b.shape(x)[axis], static_cast<int64_t>(c.result_count()), "the parts of unbind and the axis"))
        throw Error(ErrorCode::bad_input, "unbind gives one part for each element of the axis").found(c.b.type(x).text());
      return parts;
    });
  def.sample("t(6, 4).split(2)")
      .sample("t(7, 4).split(3)")
      .sample("t(2, 7).split([1, 2, 4], dim=-1)")
      .sample("t(2, 7).chunk(3, dim=1)")
      .sample("t(6, 2).chunk(4)")
      .sample("t(2, 7).tensor_split(3, dim=-1)")
      .sample("t(2, 7).tensor_split([2, 5], dim=1)")
      .sample("t(3, 4).unbind(-1)")
      .sample("t(3).unbind()");
}

void tensor_split_overloads(OpDef& def) {
  for (const char* overload : {"aten.tensor_split.indices", "aten.tensor_split.sections"})
    def.from_aten_call(overload, [](AtenCall& c) {
      ValueId x = c.tensor("self");
      int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
      Dim size = c.b.shape(x)[axis];
      Dims sizes;
      if (c.has_argument("sections")) {
        int64_t count = c.integer("sections");
        if (count != static_cast<int64_t>(c.result_count()))
          c.unsupported(fmt::format("{} sections and {} results", count, c.result_count()));
        if (count < 1) return Values{};
        for (int64_t i = 0; i < count; ++i)
          sizes.push_back(floordiv(size, count) + (size.is_number() && i < size.number() % count ? 1 : 0));
        if (!size.is_number()) c.b.check(mod(size, count), 0, "an axis that is split evenly");
      } else {
        Dim start = 0;
        Dims ends = c.dims("indices");
        ends.push_back(size);
        for (Dim end : ends) {
          Dim stop = within(c.b, from_start(c.b, end, size, "indices"), start, size);
          sizes.push_back(stop - start);
          start = stop;
        }
      }
      return split_at(c, x, axis, sizes);
    });
}

// The axes that are not cut.
std::optional<Alignment> slice_alignment(const AlignedCall& c) {
  Ints cut;
  for (size_t axis = 0; axis < c.rank(); ++axis) {
    const bool is_whole = c.call.dims("starts")[axis] == Dim(0) && c.call.dims("stops")[axis] == c.call.shape("x")[axis] &&
                          c.call.integers("steps")[axis] == 1;
    if (!is_whole) cut.push_back(static_cast<int64_t>(axis));
  }
  return c.all_but(cut);
}

OpDef slice() {
  OpDef def = primitive("slice")
                  .doc("x[starts : stops : steps] on every axis; 0 <= start <= stop <= size, steps are positive")
                  .operands("x")
                  .attributes(attr<Dims>("starts"), attr<Dims>("stops"), attr<Ints>("steps"))
                  .constraint("slice_c1", "starts, stops and steps have an entry for each axis of x",
                              [](const Call& c) {
                                const size_t rank = c.shape("x").size();
                                return c.dims("starts").size() == rank && c.dims("stops").size() == rank &&
                                       c.integers("steps").size() == rank;
                              })
                  .constraint("slice_c2", "steps are positive",
                              [](const Call& c) { return all_at_least(c.integers("steps"), 1); })
                  .constraint(
                      "slice_c3", "0 <= start <= stop <= size on every axis",
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
                        wrong_sizes(ev, "a slice leaves axis " + std::to_string(a),
                                    "0 <= start <= stop <= " + std::to_string(x.shape()[a]),
                                    std::to_string(starts[a]) + " : " + std::to_string(stops[a]));
                      }
                      shape.push_back((stops[a] - starts[a] + steps[a] - 1) / steps[a]);
                      offset += starts[a] * strides[a];
                      strides[a] *= steps[a];
                    }
                    return strided_copy(x, std::move(shape), strides, offset);
                  })
                  .aligned(slice_alignment)
                  .rearrangement()
                  .spelled_torch("sliced({x}, {starts}, {stops}, {steps})")
                  .results({"part"})
                  .mistakes(other_slices);
  slice_overloads(def);
  split_overloads(def);
  tensor_split_overloads(def);
  return def;
}

void other_part_orders(Mistakes& m) {
  const auto order = [&](const char* instead, void (*change)(Values& parts)) {
    m.build("part order", "its parts in order", instead, [change](const MistakeSite& site) {
      Values parts = site.same(site.operands);
      if (parts.size() > 1) change(parts);
      return parts;
    });
  };
  order("its parts in reverse", [](Values& parts) { std::reverse(parts.begin(), parts.end()); });
  order("its parts turned by one", [](Values& parts) { std::rotate(parts.begin(), parts.begin() + 1, parts.end()); });
  order("its first two parts swapped", [](Values& parts) { std::swap(parts[0], parts[1]); });
  order("its last two parts swapped", [](Values& parts) { std::swap(parts[parts.size() - 2], parts.back()); });
}

OpDef split() {
  return functional("split")
      .doc("x cut along an axis into parts of these sizes, one after another")
      .operands("x")
      .attributes(attr<Dims>("sizes"), attr<int64_t>("axis"))
      .constraint("split_c1", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("split_c2", "the sizes are not negative and add up to that axis",
                  [](const Call& c) {
                    Dim total = 0;
                    for (const Dim size : c.dims("sizes")) {
                      if (!may_be_at_most(0, size)) return false;
                      total = total + size;
                    }
                    return c.agree(total, c.shape("x")[c.integer("axis")]);
                  })
      .infer_all([](const Call& c) {
        std::vector<Type> parts(c.dims("sizes").size(), c.type("x"));
        for (size_t i = 0; i < parts.size(); ++i) parts[i].shape[c.integer("axis")] = c.dims("sizes")[i];
        return parts;
      })
      .aligned(along_all_but_axis)
      .decompose_all([](Builder& b, const Call& c) {
        Values parts;
        Dim start = 0;
        for (const Dim size : c.dims("sizes")) {
          parts.push_back(b.slice(c.value("x"), c.integer("axis"), start, start + size));
          start = start + size;
        }
        return parts;
      })
      .rearrangement()
      .spelled_torch("torch.split({x}, {sizes}, {axis})")
      .results({"part"})
      .mistakes(other_part_orders);
}

// ---- a part replaced

// Where each place of x on the axis takes its value from: its number among the replaced ones, and whether it is one.
ValueId replaced_by_mask(Builder& b, const Call& c) {
  ValueId x = c.value("x"), src = c.value("src");
  int64_t axis = c.integer("axis"), step = c.integer("step");
  Dim size = c.shape("x")[axis], start = c.dim("start");
  ValueId place = b.iota(size);
  ValueId from_start = b.binary("sub", place, b.dim_value(start));
  ValueId on_step = b.compare("eq", b.binary("remainder", from_start, b.dim_value(step)), b.dim_value(0));
  ValueId after = b.logical_and(b.compare("ge", place, b.dim_value(start)), on_step);
  ValueId inside = b.logical_and(after, b.compare("lt", place, b.dim_value(c.dim("stop"))));
  ValueId number = b.binary("floor_divide", from_start, b.dim_value(step));
  ValueId safe = b.select(inside, number, b.dim_value(0));
  ValueId chosen = b.create("take", {src, safe}, {{"axis", axis}});
  Shape along(c.shape("x").size(), Dim(1));
  along[axis] = size;
  return b.select(b.reshape(inside, along), chosen, x);
}

OpDef slice_scatter() {
  OpDef def = functional("slice_scatter");
  def.doc("x with x[start : stop : step] on an axis replaced by src")
      .operands("x", "src")
      .attributes(attr<int64_t>("axis"), attr<Dim>("start"), attr<Dim>("stop"), attr<int64_t>("step", int64_t{1}))
      .constraint("slice_scatter_c1", "axis is an axis of x",
                  [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("slice_scatter_c2", "x and src have one dtype",
                  [](const Call& c) { return c.type("x").dtype == c.type("src").dtype; })
      .constraint("slice_scatter_c3", "step is positive", [](const Call& c) { return c.integer("step") >= 1; })
      .constraint("slice_scatter_c4", "src has the shape of the slice",
                  [](const Call& c) {
                    Shape part = c.shape("x");
                    part[c.integer("axis")] = ceildiv(c.dim("stop") - c.dim("start"), c.integer("step"));
                    return c.agree(part, c.shape("src"), "src and the slice it replaces");
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x"), src = c.value("src");
        int64_t axis = c.integer("axis");
        Dim size = c.shape("x")[axis], start = c.dim("start"), stop = c.dim("stop");
        if (c.shape("src")[axis] == Dim(0)) return x;
        if (c.integer("step") != 1) return replaced_by_mask(b, c);
        Values parts;
        if (start != Dim(0)) parts.push_back(b.slice(x, axis, 0, start));
        parts.push_back(src);
        if (stop != size) parts.push_back(b.slice(x, axis, stop, size));
        return b.concat(parts, axis);
      });
  def.from_aten_call("aten.slice_scatter.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
    SliceBounds bounds = slice_bounds(c, c.b.shape(x)[axis]);
    ValueId src = c.b.cast(c.tensor("src"), c.b.dtype(x));
    // The recorded source is as long as the slice; its size is often the simpler name of the same number.
    if (bounds.step == 1) bounds.stop = bounds.start + c.b.shape(src).at(axis);
    return {c.b.create("slice_scatter", {x, src},
                       {{"axis", axis}, {"start", bounds.start}, {"stop", bounds.stop}, {"step", bounds.step}})};
  });
  def.from_aten_call("aten.select_scatter.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x));
    Dim index = c.dim("index");
    if (index.is_number() && index.number() < 0) index = index + c.b.shape(x)[axis];
    ValueId src = c.b.unsqueeze(c.b.cast(c.tensor("src"), c.b.dtype(x)), axis);
    return {c.b.create("slice_scatter", {x, src}, {{"axis", axis}, {"start", index}, {"stop", index + 1}})};
  });
  return def.sample("torch.slice_scatter(t(5, 4), t(2, 4), start=1, end=3)")
      .sample("torch.slice_scatter(t(5, 4), t(5, 2), dim=1, start=-2)")
      .sample("torch.slice_scatter(t(5, 4), t(3, 4), step=2)")
      .sample("torch.slice_scatter(t(6, 4), t(2, 4), start=1, end=5, step=3)")
      .sample("torch.slice_scatter(t(5, 4), t(0, 4), start=3, end=1)")
      .sample("torch.select_scatter(t(5, 4), t(4), 0, 2)")
      .sample("torch.select_scatter(t(5, 4), t(5), 1, -1)");
}

}  // namespace

std::vector<OpDef> slicing_ops() {
  OpDef part = slice();
  part.is_formula = true;
  return {part, split(), slice_scatter()};
}

}  // namespace pycandle
