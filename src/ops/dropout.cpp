// Dropout, which does nothing in evaluation: recording makes a copy of it, or leaves this overload; training is refused.
#include "ops/functional_helpers.h"

namespace pycandle {
namespace {

OpDef dropout() {
  return functional("dropout")
      .doc("x itself: dropout runs only in evaluation")
      .operands("x")
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder&, const Call& c) { return c.value("x"); })
      .from_aten_call("aten.native_dropout.default",
                      [](AtenCall& a) {
                        const bool train = a.is_none("train") || a.boolean("train");
                        const double p = a.number("p");
                        const ValueId x = a.tensor("input");
                        if (train && p == 1)  // all is dropped
                          return Values{a.b.mul(x, 0.0), a.b.full(false, DType::boolean, a.b.shape(x))};
                        if (train && p != 0)
                          a.unsupported("train=True: its values are random (call model.eval() before recording)");
                        return Values{x, a.b.full(true, DType::boolean, a.b.shape(x))};  // the mask: everything is kept
                      })
      .sample("torch.ops.aten.native_dropout(t(3, 4), 0.5, False)")
      .sample("torch.ops.aten.native_dropout(t(3, 4), 0.0, True)")
      .sample("torch.ops.aten.native_dropout(t(3, 4), 1.0, True)")
      .spelled_cpp("dropout");
}

}  // namespace

std::vector<OpDef> dropout_ops() { return {dropout()}; }

}  // namespace pycandle
