// Tensors whose numbers are the program's own: the attributes of ONNX's classical models.
#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

OpDef numbers_op() {
  return primitive("numbers")
      .doc("a tensor of these numbers, in row-major order")
      .attributes(attr<Numbers>("values"), attr<Dims>("shape"), attr<DType>("dtype", DType::f32))
      .constraint("numbers_c1", "there is a number for each element",
                  [](const Call& c) {
                    return all_numbers(c.dims("shape")) &&
                           product(c.dims("shape")) == Dim(static_cast<int64_t>(c.numbers("values").size()));
                  })
      .infer([](const Call& c) { return Type{c.dtype("dtype"), c.dims("shape")}; })
      .rounds(Rounding::exact)
      .evaluator([](const Evaluation& ev) {
        return store(ev.out_dtype(), ev.sizes("shape"), std::get<Numbers>(ev.attribute("values")));
      });
}

}  // namespace

std::vector<OpDef> literal_ops() { return {numbers_op()}; }

}  // namespace pycandle
