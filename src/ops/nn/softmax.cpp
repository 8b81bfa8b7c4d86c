// softmax, log_softmax and softmin.
#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {

namespace {
// There is no largest of no elements, and nothing to compute either.
bool is_empty(Builder& b, ValueId x, int64_t axis) { return b.shape(x)[axis] == Dim(0); }
}  // namespace

ValueId softmax_value(Builder& b, ValueId x, int64_t axis, bool safe) {
  if (is_empty(b, x, axis)) return x;
  const ValueId top = b.max(x, {axis});
  const ValueId e = b.exp(b.sub(x, top));
  const ValueId y = b.div(e, b.sum(e, {axis}));
  if (!safe) return y;
  const ValueId empty = b.compare("eq", top, -std::numeric_limits<double>::infinity());
  return b.select(empty, b.full(0.0, b.dtype(x)), y);
}

namespace {

using Formula = ValueId (*)(Builder&, ValueId x, int64_t axis);

// One of the family: computed wide, along one axis; a 0-d tensor counts as one element.
OpDef along(const char* name, const char* text, Formula formula) {
  return functional(name)
      .doc(text)
      .operands("x")
      .attributes(attr<int64_t>("dim"))
      .constraint(std::string(name) + "_c1", "dim is an axis of x",
                  [](const Call& c) { return axis_fits(c.integer("dim"), c.rank("x")); })
      .constraint(std::string(name) + "_c2", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([formula](Builder& b, const Call& c) {
        const Type type = c.type("x");
        ValueId x = b.widened(c.value("x"));
        if (type.rank() == 0) x = b.reshape(x, {Dim(1)});
        return b.narrowed(b.reshape(formula(b, x, axis_of(c.integer("dim"), type.rank())), type.shape), type.dtype);
      });
}

LayerArguments dim_argument(const LayerCall& l) { return {{required("dim", l.attribute("dim"))}}; }

void softmax_mistakes(Mistakes& m) {
  m.other_axis("dim");
  const bool is_log = m.call().op().name == "log_softmax";
  m.other_op("log", is_log ? "softmax" : "log_softmax");
  Mistake scale{"scale", "the logits as they are", "logits times {}", {}, kFactors, false};
  scale.build = [](const MistakeSite& site) { return site.same({site.b.mul(site.operands[0], site.number)}); };
  m.add(std::move(scale));
}

// As a fragment may spell it out: along any axis.
std::vector<Attributes> along_any_axis(const Type& x) {
  std::vector<Attributes> calls;
  for (int64_t axis = 0; axis < x.rank(); ++axis) calls.push_back({{"dim", axis == x.rank() - 1 ? -1 : axis}});
  return calls;
}

// The overloads with dtype=: x is cast first.
std::function<Values(AtenCall&)> cast_then(const char* op) {
  return [op](AtenCall& a) {
    ValueId x = a.tensor("self");
    if (const auto dtype = a.dtype("dtype")) x = a.b.cast(x, *dtype);
    return a.b.create_all(op, {x}, {{"dim", a.integer("dim")}});
  };
}

std::function<Values(AtenCall&)> half_to_float_then(const char* op) {
  return [op](AtenCall& a) {
    ValueId x = a.tensor("self");
    if (a.boolean("half_to_float")) x = a.b.cast(x, DType::f32);
    return a.b.create_all(op, {x}, {{"dim", a.integer("dim")}});
  };
}

OpDef softmax() {
  return along("softmax", "exp(x) over its sum along one axis",
               [](Builder& b, ValueId x, int64_t axis) { return softmax_value(b, x, axis); })
      .aligned(along_all_but_dim)
      .one_kernel()
      .from_aten_call("aten.softmax.int", cast_then("softmax"))
      .from_aten_call("aten._softmax.default", half_to_float_then("softmax"))
      .sample("F.softmax(t(2, 3, 5), -1)")
      .sample("F.softmax(t(2, 3, 5) * 30, 1)")
      .sample("F.softmax(t(3, 5, dtype=torch.float16), 0, dtype=torch.float32)")
      .sample("F.softmax(i(3, 5), 0, dtype=torch.float32)")
      .sample("F.softmax(t(), 0)")
      .sample("F.softmax(t(0, 3), 0)")
      .sample("F.softmax(torch.where(m(3, 5), t(3, 5), float('-inf')), 1)")
      .sample("F.softmax(torch.full_like(t(3, 5), float('-inf')), 1)")
      .sample("F.softmin(t(3, 5), 1)")
      .sample("torch.ops.aten._softmax(t(3, 5), 1, False)")
      .spelled_torch("torch.softmax({x}, {dim})")
      .nn("Softmax", dim_argument)
      .member("softmax")
      .results({"weights"})
      .mistakes(softmax_mistakes)
      .recognised(along_any_axis);
}

OpDef safe_softmax() {
  return along("safe_softmax", "softmax in which a row of nothing but -inf gives zeros",
               [](Builder& b, ValueId x, int64_t axis) { return softmax_value(b, x, axis, true); })
      .from_aten_call("aten._safe_softmax.default", cast_then("safe_softmax"))
      .sample("torch._safe_softmax(torch.where(m(30, 3), t(30, 3), float('-inf')), -1)");
}

OpDef log_softmax() {
  return along("log_softmax", "x minus the logarithm of the sum of exp(x) along one axis",
               [](Builder& b, ValueId x, int64_t axis) {
                 if (is_empty(b, x, axis)) return x;
                 const ValueId shifted = b.sub(x, b.max(x, {axis}));
                 return b.sub(shifted, b.log(b.sum(b.exp(shifted), {axis})));
               })
      .aligned(along_all_but_dim)
      .from_aten_call("aten.log_softmax.int", cast_then("log_softmax"))
      .from_aten_call("aten._log_softmax.default", half_to_float_then("log_softmax"))
      .sample("F.log_softmax(t(2, 3, 5), -1)")
      .sample("F.log_softmax(t(2, 3, 5) * 30, 0)")
      .sample("F.log_softmax(t(3, 5, dtype=torch.bfloat16), 0, dtype=torch.float32)")
      .sample("F.log_softmax(t(), -1)")
      .sample("F.log_softmax(t(2, 0), -1)")
      .sample("torch.ops.aten._log_softmax(t(3, 5), 1, False)")
      .spelled_torch("torch.log_softmax({x}, {dim})")
      .nn("LogSoftmax", dim_argument)
      .member("softmax")
      .called("log softmax")
      .mistakes(softmax_mistakes)
      .recognised(along_any_axis)
      .also_written_as([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x"));
        const int64_t axis = axis_of(c.integer("dim"), b.rank(x));
        return b.narrowed(b.sub(x, b.create("logsumexp", {x}, {{"axes", Ints{axis}}, {"keep", true}})), c.type("x").dtype);
      });
}

}  // namespace

std::vector<OpDef> softmax_ops() { return formulas({softmax(), safe_softmax(), log_softmax()}); }

}  // namespace pycandle
