// Tensors put together, and repeated: concat, stack, repeat, repeat_interleave.
#include <fmt/format.h>

#include <algorithm>

#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "ops/core/mapping.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// ---- concatenation

void other_join_orders(Mistakes& m) {
  m.build("part order", "its parts in order", "its parts in reverse", [](const MistakeSite& site) {
    Values parts = site.operands;
    std::reverse(parts.begin(), parts.end());
    return site.same(parts);
  });
  const size_t count = m.call().values("xs").size();
  for (size_t i = 0; count > 2 && count <= 8 && i + 1 < count; ++i) {
    m.build("part order", "its parts in order", fmt::format("its parts {} and {} swapped", i, i + 1),
            [i](const MistakeSite& site) {
              Values parts = site.operands;
              std::swap(parts[i], parts[i + 1]);
              return site.same(parts);
            });
  }
}

void cat_overloads(OpDef& def) {
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
  def.sample("torch.cat([t(2, 3), t(4, 3)])")
      .sample("torch.cat([t(2, 3), t(2, 1)], dim=-1)")
      .sample("torch.cat([t(2), i(3)])")
      .sample("torch.cat([i(2, dtype=torch.int32), i(3)])")
      .sample("torch.cat([t(0), t(2, 3)])")
      .sample("torch.cat([t(0, 3), t(2, 3)])")
      .sample("torch.cat([t(2, 3)])");
}

void stack_overloads(OpDef& def) {
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
  def.sample("torch.hstack([t(2, 3), t(2, 1)])")
      .sample("torch.hstack([t(2), t(), i(3)])")
      .sample("torch.vstack([t(3), t(2, 3)])")
      .sample("torch.dstack([t(2, 3), t(2, 3)])")
      .sample("torch.column_stack([t(3), t(3, 2)])")
      .sample("torch.block_diag(t(2, 3), t(3), t(), i(2, 2))");
}

OpDef concat() {
  OpDef def = primitive("concat")
                  .doc("the tensors one after another along an axis")
                  .operands(variadic("xs"))
                  .attributes(attr<int64_t>("axis"))
                  .constraint("concat_c1", "there is at least one tensor", [](const Call& c) { return !c.values("xs").empty(); })
                  .constraint("concat_c2", "the tensors have one dtype",
                              [](const Call& c) {
                                const Values xs = c.values("xs");
                                return std::all_of(xs.begin(), xs.end(),
                                                   [&](ValueId x) { return c.type(x).dtype == c.type(xs[0]).dtype; });
                              })
                  .constraint("concat_c3", "the tensors have one shape but for the axis",
                              [](const Call& c) {
                                const Ints axis{c.integer("axis")};
                                const Values xs = c.values("xs");
                                return are_axes(axis, c.type(xs[0]).rank()) && std::all_of(xs.begin(), xs.end(), [&](ValueId x) {
                                         return c.type(x).rank() == c.type(xs[0]).rank() &&
                                                may_equal(without_axes(c.type(x).shape, axis),
                                                          without_axes(c.type(xs[0]).shape, axis));
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
                        wrong_sizes(ev, "tensors of different sizes are concatenated", to_string(xs[0]->shape()),
                                    to_string(x->shape()));
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
                  })
                  .aligned([](const AlignedCall& c) -> std::optional<Alignment> {
                    Alignment a = c.all_but({c.call.integer("axis")});
                    for (Ints& axes : a.axes) axes = a.axes[0];
                    return a;
                  })
                  .rearrangement()
                  .spelled_torch("torch.cat([{xs…}], {axis})")
                  .results({"joined"})
                  .mistakes(other_join_orders);
  cat_overloads(def);
  stack_overloads(def);
  return def;
}

std::optional<Alignment> stack_alignment(const AlignedCall& c) {
  const int64_t added = c.axis("axis");
  Alignment a = c.all_but({added});
  for (int64_t to = 0; to < static_cast<int64_t>(c.rank()); ++to) {
    if (to == added) continue;
    for (Ints& axes : a.axes) axes[to] = to < added ? to : to - 1;
  }
  return a;
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
      })
      .aligned(stack_alignment)
      .rearrangement()
      .spelled_torch("torch.stack([{xs…}], {axis})")
      .results({"joined"});
  return def
      .from_aten_call("aten.stack.default",
                      [](AtenCall& c) -> Values {
                        Values given = c.given_tensors("tensors");
                        int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(given[0]) + 1);
                        Values xs = promote(c.b, std::vector<Operand>(given.begin(), given.end()));
                        return {c.b.create("stack", xs, {{"axis", axis}})};
                      })
      .sample("torch.stack([t(2, 3), t(2, 3)])")
      .sample("torch.stack([t(2, 3), t(2, 3), t(2, 3)], dim=-1)")
      .sample("torch.stack([t(), t()])")
      .sample("torch.stack([t(2), i(2)])");
}

// ---- repetition

constexpr const char *kHeadOrder = "head order", *kOneByOne = "each repeated in a row", *kAsAWhole = "all repeated as a whole";

void interleaved_instead(Mistakes& m) {
  const Dims& repeats = m.call().dims("repeats");
  const size_t missing = repeats.size() - m.call().shape("x").size();
  Ints repeated;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] != Dim(1)) repeated.push_back(static_cast<int64_t>(i));
  }
  if (repeated.size() != 1 || missing != 0) return;
  const int64_t axis = repeated[0];
  const Dim times = repeats[static_cast<size_t>(axis)];
  m.build(kHeadOrder, kAsAWhole, kOneByOne, [axis, times](const MistakeSite& site) {
    return site.b.create_all("repeat_interleave", site.operands, {{"repeats", times}, {"axis", axis}});
  });
}

void repeated_instead(Mistakes& m) {
  Dims repeats(m.call().shape("x").size(), Dim(1));
  repeats[static_cast<size_t>(m.call().integer("axis"))] = m.call().dim("repeats");
  m.build(kHeadOrder, kOneByOne, kAsAWhole,
          [repeats](const MistakeSite& site) { return site.b.create_all("repeat", site.operands, {{"repeats", repeats}}); });
}

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
      })
      .rearrangement()
      .spelled_torch("{x}.repeat({repeats})")
      .mistakes(interleaved_instead);
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
      })
      .rearrangement()
      .spelled_torch("torch.repeat_interleave({x}, {repeats}, {axis})")
      .mistakes(repeated_instead);
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
      .sample("t(2, 3).repeat_interleave(2, dim=1)")
      .sample("t(2, 3).repeat_interleave(3, dim=-2)")
      .sample("t(2, 3).repeat_interleave(2)");
}

}  // namespace

std::vector<OpDef> joining_ops() {
  OpDef joined = concat();
  joined.is_formula = true;
  return {joined, stack(), repeat(), repeat_interleave()};
}

}  // namespace pycandle
