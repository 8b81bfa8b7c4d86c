// Slices whose place is data: 0-d index operands, one for each axis; or both ends of one axis, and then the size is data too.
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"
#include "ops/core/mapping.h"

namespace pycandle {

namespace {

void add_start_constraints(OpDef& op) {
  op.constraint(op.name + "_c1", "there is a 0-d i64 or i32 start for each axis of x", [](const Call& c) {
    const Values starts = c.values("starts");
    return static_cast<int64_t>(starts.size()) == c.rank("x") && std::all_of(starts.begin(), starts.end(), [&](ValueId s) {
             return is_index(c.type(s).dtype) && c.type(s).rank() == 0;
           });
  });
}

// Where a block of `sizes` begins in x; leaving x is an error, not a shift.
int64_t block_offset(const Evaluation& ev, const Array& x, const Sizes& sizes) {
  const std::vector<const Array*> starts = ev.arrays("starts");
  const Sizes strides = row_major_strides(x.shape());
  int64_t offset = 0;
  for (size_t a = 0; a < starts.size(); ++a) {
    const int64_t start = load_int(*starts[a])[0], size = x.shape()[a];
    if (start < 0 || start > size - sizes[a]) {
      throw Error(ErrorCode::bad_input, "a block of " + std::to_string(sizes[a]) + " at " + std::to_string(start) +
                                            " leaves axis " + std::to_string(a) + " of size " + std::to_string(size))
          .op(ev.node().op->name)
          .expected("a start from 0 to " + std::to_string(size - sizes[a]))
          .found(std::to_string(start));
    }
    offset += start * strides[a];
  }
  return offset;
}

OpDef dynamic_slice() {
  OpDef op = primitive("dynamic_slice")
                 .doc("the block of `sizes` that begins at the starts")
                 .operands("x", variadic("starts"))
                 .attributes(attr<Dims>("sizes"));
  add_start_constraints(op);
  return op
      .constraint("dynamic_slice_c2", "sizes has an entry for each axis of x, no larger than it",
                  [](const Call& c) {
                    const Dims& sizes = c.dims("sizes");
                    return sizes.size() == c.shape("x").size() && std::equal(sizes.begin(), sizes.end(), c.shape("x").begin(),
                                                                             [](Dim a, Dim b) { return may_be_at_most(a, b); });
                  })
      .infer([](const Call& c) { return Type{c.type("x").dtype, c.dims("sizes")}; })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const Sizes sizes = ev.sizes("sizes");
        return strided_copy(x, sizes, row_major_strides(x.shape()), block_offset(ev, x, sizes));
      });
}

OpDef dynamic_update() {
  OpDef op = primitive("dynamic_update")
                 .doc("x with the block that begins at the starts replaced by update")
                 .operands("x", "update", variadic("starts"));
  add_start_constraints(op);
  return op
      .constraint("dynamic_update_c2", "update has the dtype and rank of x and is no larger",
                  [](const Call& c) {
                    const Shape &x = c.shape("x"), &update = c.shape("update");
                    return c.type("x").dtype == c.type("update").dtype && x.size() == update.size() &&
                           std::equal(update.begin(), update.end(), x.begin(), [](Dim a, Dim b) { return may_be_at_most(a, b); });
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .evaluator([](const Evaluation& ev) {
        const Array &x = ev.array("x"), &update = ev.array("update");
        const Sizes strides = row_major_strides(x.shape());
        Array out = strided_copy(x, x.shape(), strides);
        copy_strided(update, 0, row_major_strides(update.shape()), out, block_offset(ev, x, update.shape()), strides,
                     update.shape());
        return out;
      });
}

// x[start : stop] as Python has it. Where torch knows the size of the result, it is checked.
OpDef slice_between() {
  const auto is_number = [](const Call& c, const char* name) { return is_index(c.type(name).dtype) && c.rank(name) == 0; };
  return primitive("slice_between")
      .doc(
          "x[start : stop] on an axis, with Python's rules for negative numbers and for ends outside of it (strict: there are "
          "none); "
          "the size of the result binds the symbol `count`")
      .operands("x", "start", "stop")
      .attributes(attr<int64_t>("axis"), attr<Dim>("count"), attr<bool>("strict", false))
      .constraint("slice_between_c1", "axis is an axis of x",
                  [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("slice_between_c2", "start and stop are 0-d, i64 or i32",
                  [is_number](const Call& c) { return is_number(c, "start") && is_number(c, "stop"); })
      .infer([](const Call& c) {
        Type y = c.type("x");
        y.shape[c.integer("axis")] = c.dim("count");
        return y;
      })
      .evaluator([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        const auto axis = static_cast<size_t>(ev.integer("axis"));
        const int64_t size = x.shape()[axis];
        const auto inside = [&](const char* name) {
          const int64_t n = load_int(ev.array(name))[0];
          if (ev.boolean("strict") && (n < 0 || n > size))
            throw Error(ErrorCode::bad_input, "a slice is outside the axis")
                .op("slice_between")
                .expected("0 to " + std::to_string(size))
                .found(std::to_string(n));
          return std::clamp<int64_t>(n < 0 ? n + size : n, 0, size);
        };
        const int64_t start = inside("start"), count = std::max<int64_t>(inside("stop") - start, 0);
        const Dim* expected = std::get_if<Dim>(&ev.attribute("count"));
        if (expected && expected->is_number() && expected->number() != count)
          throw Error(ErrorCode::bad_input, "a slice has another size than was recorded")
              .op("slice_between")
              .expected(expected->text())
              .found(std::to_string(count));
        const Sizes strides = row_major_strides(x.shape());
        Sizes shape = x.shape();
        shape[axis] = count;
        return strided_copy(x, shape, strides, start * strides[axis]);
      })
      .from_aten_call("pycandle.first_rows.default", [](AtenCall& c) -> Values {
        const int64_t axis = c.integer("axis");
        return {c.b.create("slice_between",
                           {c.tensor("x"), c.b.full(int64_t{0}, DType::i64), c.b.cast(c.tensor("count"), DType::i64)},
                           {{"axis", axis}, {"count", c.result().shape.at(axis)}, {"strict", true}})};
      });
}

}  // namespace

ValueId slice_of_data(AtenCall& c, ValueId x, int64_t axis) {
  const auto number = [&](const char* name, int64_t otherwise) {
    return c.is_none(name) ? c.b.full(otherwise, DType::i64) : materialise(c.b, c.operand(name), DType::i64);
  };
  if (c.integer("step") != 1) c.unsupported("a step other than 1 between ends that are data");
  const ValueId start = number("start", 0), stop = number("end", std::numeric_limits<int64_t>::max());
  return c.b.create("slice_between", {x, start, stop}, {{"axis", axis}, {"count", c.result().shape.at(axis)}});
}

Values split_by_data(AtenCall& c, ValueId x, int64_t axis, std::string_view sizes) {
  Values parts;
  Dim total = 0;
  ValueId start = c.b.full(int64_t{0}, DType::i64);
  for (const Argument* size : c.list(sizes)) {
    const auto* data = std::get_if<Argument::Tensor>(&size->value);
    const auto* fixed = std::get_if<int64_t>(&size->value);
    if (!data && !fixed) c.unsupported("sizes of which some are data and some symbols");
    const ValueId stop = c.b.add(start, data ? c.b.cast(data->value, DType::i64) : c.b.full(*fixed, DType::i64));
    const Dim count = c.result(parts.size()).shape.at(axis);
    parts.push_back(c.b.create("slice_between", {x, start, stop}, {{"axis", axis}, {"count", count}, {"strict", true}}));
    start = stop;
    total = total + count;
  }
  c.b.check(total, c.b.shape(x)[axis], "the sizes of a split and the split axis");
  return parts;
}

std::vector<OpDef> dynamic_slice_ops() { return {dynamic_slice(), dynamic_update(), slice_between()}; }

}  // namespace pycandle
