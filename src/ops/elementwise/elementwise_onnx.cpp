// ONNX's elementwise operators. Their operands have one dtype and broadcast; nothing is promoted.
#include <cmath>
#include <limits>

#include "base/file_dtypes.h"
#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

using Formula = ValueId (*)(AtenCall&);

Values broadcast_together(AtenCall& c, const Values& xs) {
  for (const ValueId x : xs) c.expects(c.b.dtype(x) == c.b.dtype(xs[0]), "operands of one dtype");
  return promote_and_broadcast(c.b, {xs.begin(), xs.end()});
}

// Before opset 7 b broadcast only where it was asked to, from an axis of a on.
ValueId right_operand(AtenCall& c) {
  Builder& b = c.b;
  const ValueId right = c.tensor("b");
  if (!c.has_argument("broadcast")) return right;
  const ValueId left = c.tensor("a");
  const bool broadcasts = c.integer("broadcast") != 0;
  const auto axis = c.is_none("axis") ? std::nullopt : std::optional(c.integer("axis"));
  if (!broadcasts || !axis) return right;
  Shape shape = b.shape(right);
  const int64_t behind = b.rank(left) - b.normal_axis(*axis, b.rank(left)) - b.rank(right);
  c.expects(behind >= 0, "a second operand that lies inside the first");
  shape.resize(shape.size() + static_cast<size_t>(behind), Dim(1));
  return b.reshape(right, shape);
}

ValueId binary(AtenCall& c, const char* op) {
  const ValueId left = c.tensor("a");
  return c.b.create(op, broadcast_together(c, {left, right_operand(c)}));
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
  const ValueId a = c.tensor("a"), exponent = right_operand(c);
  const DType dtype = c.b.dtype(a);
  if (dtype == c.b.dtype(exponent)) return binary(c, "pow");
  if (!is_floating(dtype)) {
    const Values v = promote_and_broadcast(c.b, {c.b.cast(a, DType::f64), c.b.cast(exponent, DType::f64)});
    return c.b.cast(c.b.pow(v[0], v[1]), dtype);
  }
  const Values v = promote_and_broadcast(c.b, {a, c.b.cast(exponent, dtype)});
  return c.b.pow(v[0], v[1]);
}

// fmod has the sign of a, otherwise the result has the sign of b.
ValueId modulo(AtenCall& c) { return binary(c, c.integer("fmod") != 0 ? "fmod" : "remainder"); }

ValueId shifted(AtenCall& c) {
  const std::string direction = c.string("direction");
  c.expects(direction == "LEFT" || direction == "RIGHT", "LEFT or RIGHT");
  return binary(c, direction == "LEFT" ? "shift_left" : "shift_right");
}

ValueId bits_as(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const DType from = c.b.dtype(x), to = onnx_dtype(c, "to");
  if (from == to) return x;
  if (size_of(from) != size_of(to)) c.unsupported("elements of another size");
  return c.b.create("bitcast", {x}, {{"from", from}, {"to", to}});
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

// NaN stays NaN. Bounds that are numbers of the program are attributes.
ValueId clipped(AtenCall& c) {
  ValueId x = c.tensor("x");
  const auto min = c.maybe_tensor("min"), max = c.maybe_tensor("max");
  const auto low = min ? number_in_program(c.b, c.b.graph(), *min) : std::nullopt,
             high = max ? number_in_program(c.b, c.b.graph(), *max) : std::nullopt;
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
  const auto bound = [&](const char* name) { return c.is_none(name) ? Attribute{} : Attribute{c.number(name)}; };
  const Attribute low = bound("min"), high = bound("max");
  return c.b.create("clamp", {x}, {{"min", low}, {"max", high}});
}

// What does not fit is the largest number where the cast saturates; infinities too.
ValueId cast_to_narrow(Builder& b, ValueId x, DType to, bool saturates) {
  const ValueId wide = b.cast(x, b.dtype(x) == DType::f64 ? DType::f64 : DType::f32);
  if (!saturates || !is_floating(b.dtype(x))) return b.cast(wide, to);
  return b.cast(b.maximum(b.minimum(wide, highest_of(to)), lowest_of(to)), to);
}

// A power of two: the next one up or down, or the nearest.
ValueId cast_to_exponent(AtenCall& c, ValueId x, bool saturates, const std::string& rounding) {
  Builder& b = c.b;
  const ValueId wide = b.cast(x, DType::f64);
  const ValueId power = b.unary("log2", wide);
  const ValueId low = b.unary("floor", power), lower = b.unary("exp2", low);
  ValueId whole;
  if (rounding == "up")
    whole = b.unary("ceil", power);
  else if (rounding == "down")
    whole = low;
  else if (rounding == "nearest")  // between two powers, the upper one from the middle on
    whole = b.select(b.compare("ge", b.sub(wide, lower), b.mul(lower, 0.5)), b.add(low, 1.0), low);
  else
    c.unsupported("round_mode='" + rounding + "'");
  const ValueId most = b.full(127.0, DType::f64);
  if (saturates) whole = b.minimum(whole, most);
  return b.cast(b.unary("exp2", b.maximum(whole, -127.0)), file_dtype::f8e8m0);
}

ValueId converted(AtenCall& c, DType to) {
  const ValueId x = c.tensor("x");
  const bool saturates = !c.has_argument("saturate") || c.integer("saturate") != 0;
  const std::string rounding = c.has_argument("round_mode") ? c.string("round_mode") : "up";
  if (to == c.b.dtype(x)) return x;
  if (to == file_dtype::f8e8m0) return cast_to_exponent(c, x, saturates, rounding);
  if (is_stored_only(to) && is_floating(to)) return cast_to_narrow(c.b, x, to, saturates);
  return c.b.cast(x, to);
}

ValueId cast_to(AtenCall& c) { return converted(c, onnx_dtype(c, "to")); }
ValueId cast_like(AtenCall& c) { return converted(c, c.b.dtype(c.tensor("like"))); }

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
  return {
      two_operands("add", {"onnx.Add.1(a, b; axis=none, broadcast=0)", "onnx.Add.7(a, b)"}),
      two_operands("sub", {"onnx.Sub.1(a, b; axis=none, broadcast=0)", "onnx.Sub.7(a, b)"}),
      two_operands("mul", {"onnx.Mul.1(a, b; axis=none, broadcast=0)", "onnx.Mul.7(a, b)"}),
      onnx_mapped("div", {"onnx.Div.1(a, b; axis=none, broadcast=0)", "onnx.Div.7(a, b)"}, divided),
      onnx_mapped("pow", {"onnx.Pow.1(a, b; axis=none, broadcast=0)", "onnx.Pow.7(a, b)"}, power),
      mapped("shift_left", "onnx.BitShift.11(a, b; direction!)", shifted),
      mapped("bitcast", "onnx.BitCast.26(x; to!)", bits_as),
      mapped("fmod", "onnx.Mod.10(a, b; fmod=0)", modulo),
      two_operands("eq", {"onnx.Equal.1(a, b; axis=none, broadcast=0)", "onnx.Equal.7(a, b)"}),
      two_operands("lt", {"onnx.Less.1(a, b; axis=none, broadcast=0)", "onnx.Less.7(a, b)"}),
      two_operands("le", {"onnx.LessOrEqual.12(a, b)"}),
      two_operands("gt", {"onnx.Greater.1(a, b; axis=none, broadcast=0)", "onnx.Greater.7(a, b)"}),
      two_operands("ge", {"onnx.GreaterOrEqual.12(a, b)"}),
      two_operands("bitwise_and", {"onnx.And.1(a, b; axis=none, broadcast=0)", "onnx.And.7(a, b)", "onnx.BitwiseAnd.18(a, b)"}),
      two_operands("bitwise_or", {"onnx.Or.1(a, b; axis=none, broadcast=0)", "onnx.Or.7(a, b)", "onnx.BitwiseOr.18(a, b)"}),
      two_operands("bitwise_xor", {"onnx.Xor.1(a, b; axis=none, broadcast=0)", "onnx.Xor.7(a, b)", "onnx.BitwiseXor.18(a, b)"}),
      one_operand("bitwise_not", {"onnx.Not.1(x)", "onnx.BitwiseNot.18(x)"}),
      mapped("add", "onnx.Sum.1(xs*)", [](AtenCall& c) { return folded(c, "add"); }),
      mapped("div", "onnx.Mean.1(xs*)", mean_of),
      mapped("maximum", "onnx.Max.1(xs*)", [](AtenCall& c) { return folded(c, "maximum"); }),
      mapped("minimum", "onnx.Min.1(xs*)", [](AtenCall& c) { return folded(c, "minimum"); }),
      mapped("clamp", "onnx.Clip.1(x; max=none, min=none)", clipped_by_attributes),
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
      one_operand("neg", {"onnx.Neg.1(x)"}),
      one_operand("abs", {"onnx.Abs.1(x)"}),
      one_operand("sign", {"onnx.Sign.9(x)"}),
      one_operand("exp", {"onnx.Exp.1(x)"}),
      one_operand("log", {"onnx.Log.1(x)"}),
      one_operand("sqrt", {"onnx.Sqrt.1(x)"}),
      one_operand("reciprocal", {"onnx.Reciprocal.1(x)"}),
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
      one_operand("tanh", {"onnx.Tanh.1(x)"}),
      one_operand("erf", {"onnx.Erf.9(x)"}),
      one_operand("ceil", {"onnx.Ceil.1(x)"}),
      one_operand("floor", {"onnx.Floor.1(x)"}),
      one_operand("round", {"onnx.Round.11(x)"})};
}

}  // namespace pycandle
