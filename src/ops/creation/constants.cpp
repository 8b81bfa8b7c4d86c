// Values that come from no operand.
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {

namespace {

OpDef constant() {
  return primitive("constant")
      .doc("a tensor of one repeated number")
      .attributes(attr<Scalar>("value"), attr<Dims>("shape", Dims{}), attr<DType>("dtype"))
      .infer([](const Call& c) { return Type{c.dtype("dtype"), c.dims("shape")}; })
      .evaluator([](const Evaluation& ev) {
        const Array one = Array::scalar(ev.out_dtype(), ev.scalar("value"));
        const Sizes shape = ev.sizes("shape");
        return strided_copy(one, shape, Sizes(shape.size(), 0));
      });
}

OpDef dim() {
  return primitive("dim")
      .doc("a size as a 0-d i64 tensor")
      .attributes(attr<Dim>("value"))
      .infer([](const Call&) { return Type{DType::i64, {}}; })
      .evaluator([](const Evaluation& ev) { return Array::scalar(DType::i64, Scalar(ev.integer("value"))); });
}

OpDef iota() {
  return primitive("iota")
      .doc("0, 1, …, size - 1")
      .attributes(attr<Dim>("size"), attr<DType>("dtype", DType::i64))
      .constraint("iota_c1", "dtype is floating or an integer", [](const Call& c) { return is_one_of(c.dtype("dtype"), reals); })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), {c.dim("size")}}; })
      .evaluator([](const Evaluation& ev) {
        Array out(ev.out_dtype(), {ev.integer("size")});
        for_chunks(out.size(), [&](int64_t first, int64_t count) {
          std::array<int64_t, kChunk> values;
          for (int64_t i = 0; i < count; ++i) values[i] = first + i;
          store_chunk(out, first, count, values.data());
        });
        return out;
      });
}

}  // namespace

std::vector<OpDef> constant_ops() { return {constant(), dim(), iota()}; }

}  // namespace pycandle
