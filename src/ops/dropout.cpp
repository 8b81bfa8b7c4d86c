// Dropout, which does nothing in evaluation: the overloads give their input back, and training is refused.
#include "ops/functional_helpers.h"

namespace pycandle {
namespace {

void refuse_training(AtenCall& a) { a.unsupported("train=True: its values are random (call model.eval() before recording)"); }

Values same_tensor(AtenCall& a) {
  const bool train = a.boolean("train");
  if (train && a.number("p") != 0) refuse_training(a);
  if (!train) a.discard("p", "nothing is dropped in evaluation");
  return {a.tensor("input")};
}

OpDef dropout() {
  return functional("dropout")
      .doc("x itself: only dropout in evaluation is supported")
      .operands("x")
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder&, const Call& c) { return c.value("x"); })
      .from_aten_call("aten.dropout.default", same_tensor)
      .from_aten_call("aten.alpha_dropout.default", same_tensor)
      .from_aten_call("aten.feature_dropout.default", same_tensor)
      .from_aten_call("aten.feature_alpha_dropout.default", same_tensor)
      .from_aten_call("aten.native_dropout.default", [](AtenCall& a) {
        const bool train = !a.is_none("train") && a.boolean("train");
        if (train && a.number("p") != 0) refuse_training(a);
        if (!train) a.discard("p", "nothing is dropped in evaluation");
        const ValueId x = a.tensor("input");
        return Values{x, a.b.full(true, DType::boolean, a.b.shape(x))};  // the mask: everything is kept
      })
      .sample("F.dropout(t(3, 4), 0.5, False) + 1")
      .sample("F.dropout(t(3, 4), 0.0, True) + 1")
      .sample("F.dropout2d(t(3, 4, 5, 6), 0.5, False) + 1")
      .sample("F.alpha_dropout(t(3, 4), 0.5, False) + 1")
      .spelled_cpp("dropout");
}

}  // namespace

std::vector<OpDef> dropout_ops() { return {dropout()}; }

}  // namespace pycandle
