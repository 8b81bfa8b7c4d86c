// Values that come from no operand.
#include <algorithm>
#include <cmath>

#include "ir/mistakes.h"
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
      })
      .spelled_torch("torch.full({shape}, {value}, dtype={dtype})")
      .results({"filled"})
      .mistakes([](Mistakes& m) {
        const double now = as_double(m.call().scalar("value"));
        if (!is_floating(m.call().dtype("dtype")) || now == 0 || !std::isfinite(now)) return;
        std::vector<double> grid;
        for (double f : {-1.0, 0.01, 0.1, 0.25, 0.5, 0.8, 1.25, 2.0, 4.0, 10.0, 100.0}) grid.push_back(now * f);
        std::sort(grid.begin(), grid.end());
        m.number("constant", "value", "a constant", std::move(grid));
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
      })
      .results({"positions"});
}

}  // namespace

std::vector<OpDef> constant_ops() { return formulas({constant(), dim(), iota()}); }

}  // namespace pycandle
