// Other dtypes: conversion, bits read as another type, and what leaves a tensor as it is.
#include <fmt/format.h>

#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"

namespace pycandle {
namespace {

void identity_overloads(OpDef& def) {
  for (const char* overload : {"aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.contiguous.default",
                               "aten.lift_fresh_copy.default", "aten.lift_fresh.default", "aten.lift.default",
                               "aten.alias_copy.default", "aten.detach_copy.default", "aten.view_of.default"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      c.discard_placement();
      return {c.tensor("self")};
    });
  def.sample("t(2, 3).clone()").sample("t(2, 3).t().contiguous()").sample("t(2, 3).detach()");
}

void cast_overloads(OpDef& def) {
  auto to_dtype = [](AtenCall& c) -> Values {
    c.discard_placement();
    if (c.has_argument("copy")) c.discard("copy", "values are never changed in place");
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.dtype("dtype").value_or(c.b.dtype(x)))};
  };
  for (const char* overload : {"aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device"})
    def.from_aten_call(overload, to_dtype);
  def.from_aten_call("aten.to.other", [](AtenCall& c) -> Values {
    c.discard_placement();
    c.discard("copy", "values are never changed in place");
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.b.dtype(c.tensor("other")))};
  });
  def.from_aten_call("aten.type_as.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {c.b.cast(x, c.b.dtype(c.tensor("other")))};
  });
  for (auto [name, dtype] : {std::pair{"Float", DType::f32},
                             {"Double", DType::f64},
                             {"Half", DType::f16},
                             {"Long", DType::i64},
                             {"Int", DType::i32},
                             {"Short", DType::i16},
                             {"Char", DType::i8},
                             {"Byte", DType::u8}})
    def.from_aten_call(fmt::format("aten._cast_{}.default", name), [to = dtype](AtenCall& c) -> Values {
      c.discard("non_blocking", "placement");
      return {c.b.cast(c.tensor("self"), to)};
    });
  // What is left of an assignment: self gives shape and dtype, the other the values.
  def.from_aten_call("aten.copy.default", [](AtenCall& c) -> Values {
    c.discard("non_blocking", "placement");
    ValueId self = c.tensor("self");
    return {c.b.broadcast_to(c.b.cast(c.tensor("src"), c.b.dtype(self)), c.b.shape(self))};
  });
  for (const char* overload : {"aten.fill.Scalar", "aten.fill.Tensor"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId self = c.tensor("self");
      return {c.b.broadcast_to(materialise(c.b, c.operand("value"), c.b.dtype(self)), c.b.shape(self))};
    });
  def.from_aten_call("aten.zero.default", [](AtenCall& c) -> Values {
    ValueId self = c.tensor("self");
    return {c.b.like(self, Scalar{int64_t{0}})};
  });
  def.sample("t(4).to(torch.float16)")
      .sample("(t(4) * 9).to(torch.int32)")
      .sample("i(4).to(torch.bool)")
      .sample("m(4).to(torch.float32)")
      .sample("(t(4) * 300).to(torch.int16).to(torch.uint8)")
      .sample("t(4).to(torch.float64)")
      .sample("t(4).type_as(i(1))")
      .sample("torch.ops.aten.copy(t(2, 3), i(3))")
      .sample("torch.ops.aten.fill.Scalar(t(2, 3), 2)")
      .sample("torch.ops.aten.fill.Tensor(i(2, 3), torch.tensor(2.5))")
      .sample("torch.ops.aten.zero(t(2, 3))");
}

// Checks that torch makes while the model runs; the recording made them once, and types are checked at every node.
void assertion_overloads(OpDef& def) {
  for (const char* overload :
       {"aten._assert_tensor_metadata.default", "aten._assert_scalar.default", "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default", "aten._assert_async.default", "aten._assert_async.msg"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      for (const std::string& name : c.argument_names()) c.discard(name, "an assertion has no result");
      return {};
    });
}

OpDef cast_op() {
  OpDef def =
      primitive("cast")
          .doc("x in another dtype: rounded to nearest even, truncated toward zero to integers, which wrap; bool is x != 0")
          .operands("x")
          .attributes(attr<DType>("dtype"))
          .infer([](const Call& c) { return Type{c.dtype("dtype"), c.shape("x")}; })
          .rounds(Rounding::relative)
          .evaluator([](const Evaluation& ev) { return pycandle::cast(ev.array("x"), ev.out_dtype()); })
          .pointwise()
          .same_purpose()
          .spelled_torch("{x}.to({dtype})")
          .results({"converted"});
  identity_overloads(def);
  cast_overloads(def);
  assertion_overloads(def);
  return def;
}

// ---- bits

// The last axis of x when its elements are read as ones of another size.
Dim bits_size(Dim last, DType from, DType to) {
  const auto a = static_cast<int64_t>(size_of(from)), b = static_cast<int64_t>(size_of(to));
  return a >= b ? last * Dim(a / b) : floordiv(last, b / a);
}

OpDef bitcast() {
  return primitive("bitcast")
      .doc("the bytes of x, of dtype `from`, read as another dtype; the last axis grows or shrinks with the size of an element")
      .operands("x")
      .attributes(attr<DType>("from"), attr<DType>("to"))
      .constraint("bitcast_c1", "x is of dtype `from`", [](const Call& c) { return c.type("x").dtype == c.dtype("from"); })
      .constraint("bitcast_c2", "elements have one size, or the last axis divides into larger ones",
                  [](const Call& c) {
                    const auto from = static_cast<int64_t>(size_of(c.dtype("from"))),
                               to = static_cast<int64_t>(size_of(c.dtype("to")));
                    if (from == to) return true;
                    return c.rank("x") >= 1 && (from > to || c.agree(mod(c.shape("x").back(), to / from), 0));
                  })
      .infer([](const Call& c) {
        Type y{c.dtype("to"), c.shape("x")};
        if (!y.shape.empty()) y.shape.back() = bits_size(y.shape.back(), c.dtype("from"), c.dtype("to"));
        return y;
      })
      .evaluator([](const Evaluation& ev) {
        const Array x = cast(ev.array("x"), ev.dtype("from"));  // unrounded values have no bits of that dtype
        Sizes shape = x.shape();
        if (!shape.empty())
          shape.back() = static_cast<int64_t>(static_cast<size_t>(shape.back()) * size_of(x.dtype()) / size_of(ev.dtype("to")));
        Array out(ev.dtype("to"), shape);
        std::copy_n(x.as<char>(), x.bytes(), out.mutable_as<char>());
        return cast(out, ev.out_dtype());
      })
      .from_aten_call("aten.view.dtype",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        return {c.b.create("bitcast", {x}, {{"from", c.b.dtype(x)}, {"to", *c.dtype("dtype")}})};
                      })
      .sample("t(3, 4, dtype=torch.float32).view(torch.int32)")
      .sample("t(3, 4, dtype=torch.float32).view(torch.int16)")
      .sample("i(3, 4).view(torch.float64)")
      .sample("i(3, 4, dtype=torch.uint8).view(torch.int32)");
}

}  // namespace

std::vector<OpDef> casting_ops() {
  OpDef converted = cast_op();
  converted.is_formula = true;
  return {converted, bitcast()};
}

}  // namespace pycandle
