// ONNX's elementwise operators. Their operands have one dtype and broadcast; nothing is promoted.
#include <cmath>
#include <limits>

#include "ops/core/aten_call.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

using Formula = ValueId (*)(AtenCall&);

Values broadcast_together(AtenCall& c, const Values& xs) {
  for (const ValueId x : xs) c.expects(c.b.dtype(x) == c.b.dtype(xs[0]), "operands of one dtype");
  return promote_and_broadcast(c.b, {xs.begin(), xs.end()});
}

ValueId binary(AtenCall& c, const char* op) {
  const Values v = broadcast_together(c, {c.tensor("a"), c.tensor("b")});
  return c.b.create(op, v);
}

// onnx.Add.7(a, b) is `op`.
OpDef two_operands(const char* op, const std::vector<const char*>& overloads) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) def.from_aten_call(overload, [op](AtenCall& c) -> Values { return {binary(c, op)}; });
  return def;
}

// f16 and bf16 are computed in f32.
OpDef one_operand(const char* op, const std::vector<const char*>& overloads) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) {
    def.from_aten_call(overload, [op](AtenCall& c) -> Values {
      const ValueId x = c.tensor("x");
      return {c.b.narrowed(c.b.unary(op, c.b.widened(x)), c.b.dtype(x))};
    });
  }
  return def;
}

ValueId divided(AtenCall& c) { return binary(c, is_inexact(c.b.dtype(c.tensor("a"))) ? "div" : "trunc_divide"); }

// The exponent may have another dtype than the base, whose dtype the result has.
ValueId power(AtenCall& c) {
  const ValueId a = c.tensor("a"), exponent = c.tensor("b");
  const DType dtype = c.b.dtype(a);
  if (dtype == c.b.dtype(exponent)) return binary(c, "pow");
  if (!is_floating(dtype)) c.unsupported("an integer base and a float exponent");
  const Values v = promote_and_broadcast(c.b, {a, c.b.cast(exponent, dtype)});
  return c.b.pow(v[0], v[1]);
}

// fmod has the sign of a, otherwise the result has the sign of b; floats need fmod.
ValueId modulo(AtenCall& c) {
  const bool as_c = c.integer("fmod") != 0;
  c.expects(as_c || !is_floating(c.b.dtype(c.tensor("a"))), "fmod = 1 for floats");
  return binary(c, as_c ? "fmod" : "remainder");
}

ValueId folded(AtenCall& c, const char* op) {
  const Values xs = broadcast_together(c, c.given_tensors("xs"));
  ValueId all = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) all = c.b.create(op, {all, xs[i]});
  return all;
}

ValueId mean_of(AtenCall& c) {
  const double count = static_cast<double>(c.given_tensors("xs").size());
  const ValueId sum = folded(c, "add");
  return c.b.div(sum, count);
}

// The number that a value is in the program itself.
std::optional<Scalar> number_of(const Builder& b, std::optional<ValueId> v, const Graph& g) {
  if (!v || b.rank(*v) != 0) return std::nullopt;
  const NodeId node = g.values[*v].node;
  if (node == kNoNode || g.nodes[node].op->name != "constant") return std::nullopt;
  return scalar_of(g.nodes[node].attributes.at(0).second);
}

// NaN stays NaN. Bounds that are numbers of the program are attributes.
ValueId clipped(AtenCall& c) {
  ValueId x = c.tensor("x");
  const auto min = c.maybe_tensor("min"), max = c.maybe_tensor("max");
  const auto low = number_of(c.b, min, c.b.graph()), high = number_of(c.b, max, c.b.graph());
  if (low.has_value() == min.has_value() && high.has_value() == max.has_value() && (low || high))
    return c.b.create("clamp", {x},
                      {{"min", low ? attribute(*low) : Attribute{}}, {"max", high ? attribute(*high) : Attribute{}}});
  const Shape shape = c.b.shape(x);
  for (const auto& [name, op] : {std::pair{"min", "maximum"}, {"max", "minimum"}})
    if (const auto bound = c.maybe_tensor(name)) x = c.b.create(op, {x, c.b.broadcast_to(*bound, shape)});
  return x;
}

ValueId clipped_by_attributes(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.create("clamp", {x}, {{"min", c.number("min")}, {"max", c.number("max")}});
}

constexpr std::pair<int64_t, DType> kElementTypes[] = {
    {1, DType::f32},     {2, DType::u8},   {3, DType::i8},   {5, DType::i16},  {6, DType::i32},   {7, DType::i64},
    {9, DType::boolean}, {10, DType::f16}, {11, DType::f64}, {14, DType::c64}, {15, DType::c128}, {16, DType::bf16}};

DType element_type(AtenCall& c, const char* name) {
  const int64_t number = c.integer(name);
  for (const auto& [type, dtype] : kElementTypes)
    if (type == number) return dtype;
  c.unsupported(std::string(name) + "=" + std::to_string(number) + " (an element type)");
}

void discard_float8(AtenCall& c) {
  if (c.has_argument("saturate")) c.discard("saturate", "only of casts to float8, which are not read");
  if (c.has_argument("round_mode")) c.discard("round_mode", "only of casts to float8e8m0, which are not read");
}

ValueId cast_to(AtenCall& c) {
  discard_float8(c);
  return c.b.cast(c.tensor("x"), element_type(c, "to"));
}

ValueId cast_like(AtenCall& c) {
  discard_float8(c);
  return c.b.cast(c.tensor("x"), c.b.dtype(c.tensor("like")));
}

ValueId infinite(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const bool low = c.integer("detect_negative") != 0, high = c.integer("detect_positive") != 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (low && high) return c.b.unary("isinf", x);
  if (!low && !high) return c.b.full(false, DType::boolean, c.b.shape(x));
  return c.b.compare("eq", x, low ? -kInfinity : kInfinity);
}

ValueId chosen(AtenCall& c) {
  const ValueId yes = c.tensor("yes"), no = c.tensor("no");
  c.expects(c.b.dtype(yes) == c.b.dtype(no), "two choices of one dtype");
  return c.b.select(c.tensor("condition"), yes, no);
}

ValueId softsign(AtenCall& c) {
  const ValueId x = c.b.widened(c.tensor("x"));
  return c.b.narrowed(c.b.div(x, c.b.add(c.b.abs(x), 1.0)), c.b.dtype(c.tensor("x")));
}

OpDef mapped(const char* op, const char* overload, Formula f) {
  return mapping(op).from_aten_call(overload, [f](AtenCall& c) -> Values { return {f(c)}; });
}

}  // namespace

std::vector<OpDef> elementwise_onnx_ops() {
  return {two_operands("add", {"onnx.Add.7(a, b)"}),
          two_operands("sub", {"onnx.Sub.7(a, b)"}),
          two_operands("mul", {"onnx.Mul.7(a, b)"}),
          mapped("div", "onnx.Div.7(a, b)", divided),
          mapped("pow", "onnx.Pow.7(a, b)", power),
          mapped("fmod", "onnx.Mod.10(a, b; fmod=0)", modulo),
          two_operands("eq", {"onnx.Equal.7(a, b)"}),
          two_operands("lt", {"onnx.Less.7(a, b)"}),
          two_operands("le", {"onnx.LessOrEqual.12(a, b)"}),
          two_operands("gt", {"onnx.Greater.7(a, b)"}),
          two_operands("ge", {"onnx.GreaterOrEqual.12(a, b)"}),
          two_operands("bitwise_and", {"onnx.And.7(a, b)", "onnx.BitwiseAnd.18(a, b)"}),
          two_operands("bitwise_or", {"onnx.Or.7(a, b)", "onnx.BitwiseOr.18(a, b)"}),
          two_operands("bitwise_xor", {"onnx.Xor.7(a, b)", "onnx.BitwiseXor.18(a, b)"}),
          one_operand("bitwise_not", {"onnx.Not.1(x)", "onnx.BitwiseNot.18(x)"}),
          mapped("add", "onnx.Sum.8(xs*)", [](AtenCall& c) { return folded(c, "add"); }),
          mapped("div", "onnx.Mean.8(xs*)", mean_of),
          mapped("maximum", "onnx.Max.8(xs*)", [](AtenCall& c) { return folded(c, "maximum"); }),
          mapped("minimum", "onnx.Min.8(xs*)", [](AtenCall& c) { return folded(c, "minimum"); }),
          mapped("clamp", "onnx.Clip.6(x; min=-3.4028234663852886e+38, max=3.4028234663852886e+38)", clipped_by_attributes),
          mapped("clamp", "onnx.Clip.11(x, min?, max?)", clipped),
          mapped("cast", "onnx.Cast.6(x; to!)", cast_to),
          mapped("cast", "onnx.Cast.19(x; to!, saturate=1)", cast_to),
          mapped("cast", "onnx.Cast.24(x; to!, saturate=1, round_mode=\"up\")", cast_to),
          mapped("cast", "onnx.CastLike.15(x, like)", cast_like),
          mapped("cast", "onnx.CastLike.19(x, like; saturate=1)", cast_like),
          mapped("cast", "onnx.CastLike.24(x, like; saturate=1, round_mode=\"up\")", cast_like),
          mapped("cast", "onnx.Identity.1(x)", [](AtenCall& c) { return c.tensor("x"); }),
          mapped("isinf", "onnx.IsInf.10(x; detect_negative=1, detect_positive=1)", infinite),
          mapped("isnan", "onnx.IsNaN.9(x)", [](AtenCall& c) { return c.b.unary("isnan", c.tensor("x")); }),
          mapped("select", "onnx.Where.9(condition, yes, no)", chosen),
          mapped("div", "onnx.Softsign.1(x)", softsign),
          one_operand("neg", {"onnx.Neg.6(x)"}),
          one_operand("abs", {"onnx.Abs.6(x)"}),
          one_operand("sign", {"onnx.Sign.9(x)"}),
          one_operand("exp", {"onnx.Exp.6(x)"}),
          one_operand("log", {"onnx.Log.6(x)"}),
          one_operand("sqrt", {"onnx.Sqrt.6(x)"}),
          one_operand("reciprocal", {"onnx.Reciprocal.6(x)"}),
          one_operand("sin", {"onnx.Sin.7(x)"}),
          one_operand("cos", {"onnx.Cos.7(x)"}),
          one_operand("tan", {"onnx.Tan.7(x)"}),
          one_operand("asin", {"onnx.Asin.7(x)"}),
          one_operand("acos", {"onnx.Acos.7(x)"}),
          one_operand("atan", {"onnx.Atan.7(x)"}),
          one_operand("sinh", {"onnx.Sinh.9(x)"}),
          one_operand("cosh", {"onnx.Cosh.9(x)"}),
          one_operand("asinh", {"onnx.Asinh.9(x)"}),
          one_operand("acosh", {"onnx.Acosh.9(x)"}),
          one_operand("atanh", {"onnx.Atanh.9(x)"}),
          one_operand("tanh", {"onnx.Tanh.6(x)"}),
          one_operand("erf", {"onnx.Erf.9(x)"}),
          one_operand("ceil", {"onnx.Ceil.6(x)"}),
          one_operand("floor", {"onnx.Floor.6(x)"}),
          one_operand("round", {"onnx.Round.11(x)"})};
}

}  // namespace pycandle
