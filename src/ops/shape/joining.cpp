// Tensors put together: concatenation, repetition, rolling, and a part replaced.
#include <fmt/format.h>

#include <algorithm>

#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/core/mapping.h"

namespace pycandle {
namespace {

// ---- concatenation

OpDef cat() {
  OpDef def = mapping("concat");
  for (const char* name : {"cat", "concat", "concatenate"})
    def.from_aten_call(fmt::format("aten.{}.default", name), [](AtenCall& c) -> Values {
      Values given = c.given_tensors("tensors"), xs;
      std::vector<Operand> operands(given.begin(), given.end());
      DType common = result_type(c.b, operands);
      // An old habit of torch: a 1-d tensor of no element joins anything.
      for (ValueId x : given)
        if (c.b.shape(x) != Shape{0} || c.result().rank() == 1) xs.push_back(c.b.cast(x, common));
      int64_t axis = c.integer("dim");
      if (xs.empty()) return {c.b.cast(given.at(0), common)};
      return {c.b.concat(xs, axis)};
    });
  return def.sample("torch.cat([t(2, 3), t(4, 3)])")
      .sample("torch.cat([t(2, 3), t(2, 1)], dim=-1)")
      .sample("torch.cat([t(2), i(3)])")
      .sample("torch.cat([i(2, dtype=torch.int32), i(3)])")
      .sample("torch.cat([t(0), t(2, 3)])")
      .sample("torch.cat([t(0, 3), t(2, 3)])")
      .sample("torch.cat([t(2, 3)])");
}

OpDef stack() {
  OpDef def = functional("stack");
  def.doc("tensors of one type along a new axis")
      .operands(variadic("xs"))
      .attributes(attr<int64_t>("axis", int64_t{0}))
      .constraint("stack_c1", "there is at least one tensor", [](const Call& c) { return !c.values("xs").empty(); })
      .constraint("stack_c2", "the tensors have one dtype and one shape",
                  [](const Call& c) {
                    Values xs = c.values("xs");
                    return std::all_of(xs.begin(), xs.end(), [&](ValueId x) {
                      return c.type(x).dtype == c.type(xs[0]).dtype &&
                             c.agree(c.type(xs[0]).shape, c.type(x).shape, "stacked tensors");
                    });
                  })
      .constraint("stack_c3", "axis is an axis of the result",
                  [](const Call& c) { return is_axis(c.integer("axis"), c.type(c.values("xs")[0]).rank() + 1); })
      .infer([](const Call& c) {
        Values xs = c.values("xs");
        Type type = c.type(xs[0]);
        type.shape.insert(type.shape.begin() + c.integer("axis"), Dim(static_cast<int64_t>(xs.size())));
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        Values xs = c.values("xs");
        for (ValueId& x : xs) x = b.unsqueeze(x, c.integer("axis"));
        return b.concat(xs, c.integer("axis"));
      });
  return def
      .from_aten_call("aten.stack.default",
                      [](AtenCall& c) -> Values {
                        Values given = c.given_tensors("tensors");
                        int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(given[0]) + 1);
                        Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
                        return {c.b.create("stack", xs, {{"axis", axis}})};
                      })
      .spelled_cpp("stack")
      .sample("torch.stack([t(2, 3), t(2, 3)])")
      .sample("torch.stack([t(2, 3), t(2, 3), t(2, 3)], dim=-1)")
      .sample("torch.stack([t(), t()])")
      .sample("torch.stack([t(2), i(2)])");
}

// ---- repetition

OpDef repeat() {
  OpDef def = functional("repeat");
  def.doc("x repeated as a whole along every axis; repeats has an entry for each axis of the result, aligned at the end")
      .operands("x")
      .attributes(attr<Dims>("repeats"))
      .constraint("repeat_c1", "repeats has at least one entry for each axis of x",
                  [](const Call& c) { return c.dims("repeats").size() >= c.shape("x").size(); })
      .constraint("repeat_c2", "repeats are not negative",
                  [](const Call& c) {
                    return std::all_of(c.dims("repeats").begin(), c.dims("repeats").end(),
                                       [](Dim d) { return may_be_at_most(0, d); });
                  })
      .infer([](const Call& c) {
        Type type{c.type("x").dtype, c.dims("repeats")};
        size_t missing = type.shape.size() - c.shape("x").size();
        for (size_t i = 0; i < c.shape("x").size(); ++i) type.shape[missing + i] = type.shape[missing + i] * c.shape("x")[i];
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        // [n] becomes [times, n], which is then [times * n].
        ValueId x = c.value("x");
        const Dims& repeats = c.dims("repeats");
        size_t missing = repeats.size() - c.shape("x").size();
        Shape wide, merged;
        Ints axes;
        for (size_t i = 0; i < repeats.size(); ++i) {
          wide.push_back(repeats[i]);
          merged.push_back(repeats[i]);
          if (i < missing) continue;
          Dim size = c.shape("x")[i - missing];
          axes.push_back(static_cast<int64_t>(wide.size()));
          wide.push_back(size);
          merged.back() = repeats[i] * size;
        }
        return b.reshape(b.broadcast(x, wide, axes), merged);
      });
  auto build = [](const char* argument) {
    return [argument](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      Dims repeats = c.dims(argument);
      if (repeats.size() < c.b.shape(x).size())
        repeats.insert(repeats.begin(), c.b.shape(x).size() - repeats.size(), Dim(1));  // tile
      return {c.b.create("repeat", {x}, {{"repeats", repeats}})};
    };
  };
  return def.from_aten_call("aten.repeat.default", build("repeats"))
      .from_aten_call("aten.tile.default", build("dims"))
      .spelled_cpp("repeat")
      .sample("t(2, 3).repeat(2, 1)")
      .sample("t(3).repeat(4, 2)")
      .sample("t().repeat(3)")
      .sample("t(2, 3).repeat(0, 2)")
      .sample("torch.tile(t(2, 3), (2,))");
}

OpDef repeat_interleave() {
  OpDef def = functional("repeat_interleave");
  def.doc("each slice of an axis several times in a row")
      .operands("x")
      .attributes(attr<Dim>("repeats"), attr<int64_t>("axis"))
      .constraint("repeat_interleave_c1", "axis is an axis of x",
                  [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .infer([](const Call& c) {
        Type type = c.type("x");
        Dim& size = type.shape[c.integer("axis")];
        size = size * c.dim("repeats");
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        Shape wide = c.shape("x"), merged = wide;
        Ints axes;
        for (int64_t i = 0; i < c.rank("x"); ++i) axes.push_back(i <= c.integer("axis") ? i : i + 1);
        wide.insert(wide.begin() + c.integer("axis") + 1, c.dim("repeats"));
        merged[c.integer("axis")] = merged[c.integer("axis")] * c.dim("repeats");
        return b.reshape(b.broadcast(x, wide, axes), merged);
      });
  return def
      .from_aten_call("aten.repeat_interleave.self_int",
                      [](AtenCall& c) -> Values {
                        c.discard("output_size", "it is the size of the result, which is known");
                        ValueId x = c.tensor("self");
                        Dim repeats = c.dim("repeats");
                        int64_t axis = 0;
                        if (c.is_none("dim")) {
                          x = c.b.reshape(x, {product(c.b.shape(x))});
                        } else {
                          axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
                          if (c.b.rank(x) == 0) x = c.b.reshape(x, {1});
                        }
                        return {c.b.create("repeat_interleave", {x}, {{"repeats", repeats}, {"axis", axis}})};
                      })
      .spelled_cpp("repeat_interleave")
      .sample("t(2, 3).repeat_interleave(2, dim=1)")
      .sample("t(2, 3).repeat_interleave(3, dim=-2)")
      .sample("t(2, 3).repeat_interleave(2)");
}

// ---- rolling

ValueId rolled(Builder& b, ValueId x, int64_t axis, Dim shift) {
  Dim size = b.shape(x)[axis];
  if (size == Dim(0)) return x;
  Dim moved = mod(shift, size);  // that many come from the end to the front
  if (moved == Dim(0)) return x;
  ValueId last = b.slice(x, axis, size - moved, size);
  return b.concat({last, b.slice(x, axis, 0, size - moved)}, axis);
}

OpDef roll() {
  OpDef def = functional("roll");
  def.doc("elements moved along axes; what leaves at the end comes back at the start. Without axes, x counts as flat")
      .operands("x")
      .attributes(attr<Dims>("shifts"), attr<Ints>("axes"))
      .constraint("roll_c1", "there is a shift for each axis, or one shift and no axis",
                  [](const Call& c) { return c.dims("shifts").size() == std::max<size_t>(c.integers("axes").size(), 1); })
      .constraint("roll_c2", "axes are axes of x",
                  [](const Call& c) {
                    return std::all_of(c.integers("axes").begin(), c.integers("axes").end(),
                                       [&](int64_t a) { return is_axis(a, c.rank("x")); });
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        const Ints& axes = c.integers("axes");
        if (axes.empty()) {
          ValueId flat = b.reshape(x, {product(c.shape("x"))});
          return b.reshape(rolled(b, flat, 0, c.dims("shifts")[0]), c.shape("x"));
        }
        for (size_t i = 0; i < axes.size(); ++i) x = rolled(b, x, axes[i], c.dims("shifts")[i]);
        return x;
      });
  return def
      .from_aten_call("aten.roll.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        Ints axes = c.integers("dims");
                        for (int64_t& axis : axes) axis = c.b.normal_axis(axis, c.b.rank(x));
                        return {c.b.create("roll", {x}, {{"shifts", c.dims("shifts")}, {"axes", axes}})};
                      })
      .spelled_cpp("roll")
      .sample("t(4, 5).roll(2)")
      .sample("t(4, 5).roll(1, 0)")
      .sample("t(4, 5).roll((-1, 7), (0, 1))")
      .sample("t(4, 5).roll(-2, -1)")
      .sample("t(0, 5).roll(1, 0)");
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
  return def.spelled_cpp("slice_scatter")
      .sample("torch.slice_scatter(t(5, 4), t(2, 4), start=1, end=3)")
      .sample("torch.slice_scatter(t(5, 4), t(5, 2), dim=1, start=-2)")
      .sample("torch.slice_scatter(t(5, 4), t(3, 4), step=2)")
      .sample("torch.slice_scatter(t(6, 4), t(2, 4), start=1, end=5, step=3)")
      .sample("torch.slice_scatter(t(5, 4), t(0, 4), start=3, end=1)")
      .sample("torch.select_scatter(t(5, 4), t(4), 0, 2)")
      .sample("torch.select_scatter(t(5, 4), t(5), 1, -1)");
}

}  // namespace

std::vector<OpDef> joining_ops() { return {cat(), stack(), repeat(), repeat_interleave(), roll(), slice_scatter()}; }

}  // namespace pycandle
