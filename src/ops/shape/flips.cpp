// Axes turned round: reverse (flip, rot90) and roll.
#include <algorithm>

#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

void flip_overloads(OpDef& def) {
  def.from_aten_call("aten.flip.default",
                     [](AtenCall& c) -> Values {
                       ValueId x = c.tensor("self");
                       return {c.b.rank(x) == 0 ? (c.integers("dims"), x) : c.b.reverse(x, c.integers("dims"))};
                     })
      .from_aten_call("aten.fliplr.default", [](AtenCall& c) -> Values { return {c.b.reverse(c.tensor("self"), {1})}; })
      .from_aten_call("aten.flipud.default", [](AtenCall& c) -> Values { return {c.b.reverse(c.tensor("self"), {0})}; })
      .sample("t(2, 3, 4).flip(0)")
      .sample("t(2, 3, 4).flip(0, -1)")
      .sample("t(2, 0).flip(1)")
      .sample("t(2, 3).flip([])");
}

void turn_overloads(OpDef& def) {
  def.from_aten_call("aten.rot90.default",
                     [](AtenCall& c) -> Values {
                       Builder& b = c.b;
                       const ValueId x = c.tensor("self");
                       const int64_t k = ((c.integer("k") % 4) + 4) % 4;
                       const Ints axes = c.integers("dims");
                       if (axes.size() != 2) throw Error(ErrorCode::bad_input, "rot90 needs two axes");
                       const int64_t p = b.normal_axis(axes[0], b.rank(x)), q = b.normal_axis(axes[1], b.rank(x));
                       if (p == q) throw Error(ErrorCode::bad_input, "rot90 needs two different axes");
                       if (k == 0) return {x};
                       if (k == 2) return {b.reverse(x, {p, q})};
                       return {b.swap_axes(b.reverse(x, {k == 1 ? q : p}), p, q)};
                     })
      .sample("torch.rot90(t(2, 3))")
      .sample("torch.rot90(t(2, 3, 4), -1, (2, 0))")
      .sample("torch.rot90(t(2, 3), 2)");
}

OpDef reverse() {
  OpDef def = primitive("reverse")
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
                  })
                  .aligned([](const AlignedCall& c) -> std::optional<Alignment> { return c.all_but(c.call.integers("axes")); })
                  .rearrangement()
                  .spelled_torch("{x}.flip({axes})")
                  .mistakes([](Mistakes& m) {
                    m.build("direction order", "an axis in reverse", "it as it is",
                            [](const MistakeSite& site) { return Values{site.operands[0]}; });
                  });
  flip_overloads(def);
  turn_overloads(def);
  return def;
}

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
      })
      .spelled_torch("torch.roll({x}, {shifts}, {axes})")
      .mistakes([](Mistakes& m) {
        Dims shifts = m.call().dims("shifts");
        for (Dim& d : shifts) d = Dim(0) - d;
        m.attribute("direction order", "shifts", shifts, "rolled one way", "rolled the other way");
        m.other_axis("axes");
      });
  return def
      .from_aten_call("aten.roll.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        Ints axes = c.integers("dims");
                        for (int64_t& axis : axes) axis = c.b.normal_axis(axis, c.b.rank(x));
                        return {c.b.create("roll", {x}, {{"shifts", c.dims("shifts")}, {"axes", axes}})};
                      })
      .sample("t(4, 5).roll(2)")
      .sample("t(4, 5).roll(1, 0)")
      .sample("t(4, 5).roll((-1, 7), (0, 1))")
      .sample("t(4, 5).roll(-2, -1)")
      .sample("t(0, 5).roll(1, 0)");
}

}  // namespace

std::vector<OpDef> flip_ops() {
  OpDef flipped = reverse();
  flipped.is_formula = true;
  return {flipped, roll()};
}

}  // namespace pycandle
