// Dropout. In evaluation it does nothing: recording makes a copy of it, or leaves this overload. In training it is random,
// and recording refuses a model in train mode; the operator is here all the same.
#include "ops/core/functional_helpers.h"

namespace pycandle {

ValueId kept_at_random(Builder& b, const Shape& shape, double p) {
  const ValueId number = b.create("uniform", {}, {{"shape", shape}, {"dtype", DType::f64}});
  return b.compare("lt", number, 1 - p);
}
ValueId dropped(Builder& b, ValueId x, ValueId kept, double p) {
  const ValueId wide = b.widened(x);
  return b.narrowed(b.mul(b.mul(wide, b.cast(kept, b.dtype(wide))), 1 / (1 - p)), b.dtype(x));
}

namespace {

OpDef dropout() {
  return functional("dropout")
      .doc("x itself: dropout runs only in evaluation")
      .operands("x")
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder&, const Call& c) { return c.value("x"); })
      .from_aten_call("aten.native_dropout.default",
                      [](AtenCall& a) {
                        Builder& b = a.b;
                        const bool train = a.is_none("train") || a.boolean("train");
                        const double p = a.number("p");
                        const ValueId x = a.tensor("input");
                        a.expects(p >= 0 && p <= 1, "a probability from 0 to 1");
                        if (!train || p == 0) return Values{x, b.full(true, DType::boolean, b.shape(x))};  // all is kept
                        if (p == 1) return Values{b.mul(x, 0.0), b.full(false, DType::boolean, b.shape(x))};
                        const ValueId kept = kept_at_random(b, b.shape(x), p);
                        return Values{dropped(b, x, kept, p), kept};
                      })
      .sample("torch.ops.aten.native_dropout(t(3, 4), 0.5, False)")
      .sample("torch.ops.aten.native_dropout(t(3, 4), 0.0, True)")
      .sample("torch.ops.aten.native_dropout(t(3, 4), 1.0, True)");
}

}  // namespace

std::vector<OpDef> dropout_ops() { return {dropout()}; }

}  // namespace pycandle
