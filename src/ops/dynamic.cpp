// Slices whose place is data: 0-d index operands, one for each axis.
#include "ops/constraints.h"
#include "ops/evaluate.h"

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

}  // namespace

std::vector<OpDef> dynamic_ops() { return {dynamic_slice(), dynamic_update()}; }

}  // namespace pycandle
