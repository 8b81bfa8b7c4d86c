// torch's one-operand mathematics: which primitive each is, and where integers become floating.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/core/aten_call.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ValueId as_float(AtenCall& c, const char* name) {
  ValueId x = c.tensor(name);
  return c.b.cast(x, float_result(c.b.dtype(x)));
}

// ---- the same word in torch and here

struct Spelling {
  const char* op;
  std::vector<const char*> names;  // aten.<name>.default
  std::vector<const char*> samples;
};

// Integers and bools become f32 first.
const Spelling kFloating[] = {
    {"exp", {"exp"}, {"torch.exp(t(2, 3))", "torch.exp(i(4))", "torch.exp(t(9, dtype=torch.bfloat16))", "torch.exp(t())"}},
    {"exp2", {"exp2", "special_exp2"}, {"torch.exp2(t(4))"}},
    {"expm1", {"expm1", "special_expm1"}, {"torch.expm1(t(4))"}},
    {"log", {"log"}, {"torch.log(t(4).abs())", "torch.log(i(4, low=1, high=9))"}},
    {"log2", {"log2"}, {"torch.log2(t(4).abs())"}},
    {"log10", {"log10"}, {"torch.log10(t(4).abs())"}},
    {"log1p", {"log1p", "special_log1p"}, {"torch.log1p(t(4).abs())"}},
    {"sqrt", {"sqrt"}, {"torch.sqrt(t(4).abs())", "torch.sqrt(i(4, low=0, high=9, dtype=torch.int32))", "torch.sqrt(t(0, 3))"}},
    {"rsqrt", {"rsqrt"}, {"torch.rsqrt(t(4).abs())", "torch.rsqrt(t(4, dtype=torch.float16).abs())"}},
    {"reciprocal", {"reciprocal"}, {"torch.reciprocal(t(4))", "torch.reciprocal(i(4, low=1, high=9))"}},
    {"sin", {"sin"}, {"torch.sin(t(4))", "torch.sin(m(4))"}},
    {"cos", {"cos"}, {"torch.cos(t(4))", "torch.cos(i(4))"}},
    {"tan", {"tan"}, {"torch.tan(t(4))"}},
    {"asin", {"asin", "arcsin"}, {"torch.asin(t(4).tanh())"}},
    {"acos", {"acos", "arccos"}, {"torch.acos(t(4).tanh())"}},
    {"atan", {"atan", "arctan"}, {"torch.atan(t(4))"}},
    {"sinh", {"sinh"}, {"torch.sinh(t(4))"}},
    {"cosh", {"cosh"}, {"torch.cosh(t(4))"}},
    {"tanh", {"tanh"}, {"torch.tanh(t(4))", "torch.tanh(i(4))"}},
    {"asinh", {"asinh", "arcsinh"}, {"torch.asinh(t(4))"}},
    {"acosh", {"acosh", "arccosh"}, {"torch.acosh(t(4).abs() + 1)"}},
    {"atanh", {"atanh", "arctanh"}, {"torch.atanh(t(4).tanh())"}},
    {"erf", {"erf", "special_erf"}, {"torch.erf(t(4))"}},
    {"erfc", {"erfc", "special_erfc"}, {"torch.erfc(t(4))"}},
    {"erfinv", {"erfinv", "special_erfinv"}, {"torch.erfinv(t(4).tanh())"}},
    {"lgamma", {"lgamma", "special_gammaln"}, {"torch.lgamma(t(4).abs())"}},
    {"digamma", {"digamma", "special_digamma"}, {"torch.digamma(t(4).abs())"}},
    {"angle", {"angle"}, {"torch.angle(t(4))", "torch.angle(t(4, dtype=torch.complex64))", "torch.angle(i(4))"}},
};

// Every dtype stays what it is.
const Spelling kKeeping[] = {
    {"neg", {"neg", "negative", "_neg_view"}, {"-t(4)", "-i(4)", "-t(4, dtype=torch.complex64)"}},
    {"abs",
     {"abs", "absolute"},
     {"t(4).abs()", "i(4, low=-9, high=9, dtype=torch.int32).abs()", "t(4, dtype=torch.complex64).abs()"}},
    {"sign",
     {"sign", "sgn"},
     {"torch.sign(t(4))", "torch.sign(i(4))", "torch.sign(m(4))", "torch.sgn(t(4, dtype=torch.complex64))"}},
    {"ceil", {"ceil", "special_ceil"}, {"torch.ceil(t(9) * 3)", "torch.ceil(i(4))"}},
    {"floor", {"floor"}, {"torch.floor(t(9) * 3)"}},
    {"round", {"round", "special_round"}, {"torch.round(t(9) * 3)", "torch.round(torch.tensor([0.5, 1.5, -2.5]))"}},
    {"trunc", {"trunc", "fix"}, {"torch.trunc(t(9) * 3)"}},
};

OpDef floating(const Spelling& row) {
  OpDef def = mapping(row.op);
  for (const char* name : row.names)
    def.from_aten_call("aten." + std::string(name) + ".default",
                       [op = row.op](AtenCall& c) -> Values { return {c.b.unary(op, as_float(c, "self"))}; });
  for (const char* sample : row.samples) def.sample(sample);
  return def;
}

OpDef keeping(const Spelling& row) {
  OpDef def = mapping(row.op);
  for (const char* name : row.names)
    def.from_aten_call("aten." + std::string(name) + ".default",
                       [op = row.op](AtenCall& c) -> Values { return {c.b.unary(op, c.tensor("self"))}; });
  for (const char* sample : row.samples) def.sample(sample);
  return def;
}

// ---- a few primitives each

OpDef rounding() {
  return mapping("round")
      .from_aten_call("aten.round.decimals",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self");
                        double power = std::pow(10.0, std::abs(static_cast<double>(c.integer("decimals"))));
                        bool fraction = c.integer("decimals") >= 0;
                        ValueId wide = b.widened(x);
                        ValueId scaled = b.unary("round", b.binary(fraction ? "mul" : "div", wide, power));
                        return {b.narrowed(b.binary(fraction ? "div" : "mul", scaled, power), b.dtype(x))};
                      })
      .sample("torch.round(t(9) * 30, decimals=1)")
      .sample("torch.round(t(9) * 300, decimals=-1)");
}

OpDef squares() {
  return mapping("mul")
      .from_aten_call("aten.square.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        if (c.b.dtype(x) == DType::boolean) x = c.b.cast(x, DType::i64);
                        return {c.b.square(x)};
                      })
      .from_aten_call(
          "aten.deg2rad.default",
          [](AtenCall& c) -> Values { return {arithmetic(c.b, "mul", as_float(c, "self"), Scalar{std::numbers::pi / 180}, {})}; })
      .from_aten_call(
          "aten.rad2deg.default",
          [](AtenCall& c) -> Values { return {arithmetic(c.b, "mul", as_float(c, "self"), Scalar{180 / std::numbers::pi}, {})}; })
      .sample("torch.square(t(4))")
      .sample("torch.square(i(4))")
      .sample("torch.deg2rad(t(4))")
      .sample("torch.rad2deg(t(4))");
}

OpDef frac() {
  return mapping("sub")
      .from_aten_call("aten.frac.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        return {c.b.sub(x, c.b.unary("trunc", x))};
                      })
      .sample("torch.frac(t(9) * 3)");
}

OpDef positive() {
  OpDef def = mapping("cast");
  return def.from_aten_call("aten.positive.default", [](AtenCall& c) -> Values { return {c.tensor("self")}; });
}

// ---- tests of single numbers

// A test that is false for every integer.
template <class F> std::function<Values(AtenCall&)> float_test(F test) {
  return [test](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    if (!is_inexact(c.b.dtype(x))) return {c.b.full(Scalar{false}, DType::boolean, c.b.shape(x))};
    return {test(c.b, x)};
  };
}

OpDef tests() {
  return mapping("isnan")
      .from_aten_call("aten.isnan.default", float_test([](Builder& b, ValueId x) { return b.unary("isnan", x); }))
      .sample("torch.isnan(torch.tensor([float('nan'), 1.0, float('inf')]))")
      .sample("torch.isnan(i(3))");
}

OpDef infinity_tests() {
  return mapping("isinf")
      .from_aten_call("aten.isinf.default", float_test([](Builder& b, ValueId x) { return b.unary("isinf", x); }))
      .from_aten_call("aten.isposinf.default", float_test([](Builder& b, ValueId x) { return b.compare("eq", x, kInfinity); }))
      .from_aten_call("aten.isneginf.default", float_test([](Builder& b, ValueId x) { return b.compare("eq", x, -kInfinity); }))
      .from_aten_call("aten.isfinite.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        if (!is_inexact(c.b.dtype(x))) return {c.b.full(Scalar{true}, DType::boolean, c.b.shape(x))};
                        return {c.b.compare("lt", c.b.abs(x), kInfinity)};  // false for NaN too
                      })
      .from_aten_call("aten.signbit.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        if (is_inexact(c.b.dtype(x))) {  // -0.0 too: its reciprocal is -inf
                          ValueId negative = c.b.compare("lt", x, 0.0);
                          return {c.b.logical_or(negative, c.b.compare("lt", c.b.unary("reciprocal", x), 0.0))};
                        }
                        if (c.b.dtype(x) == DType::boolean) return {c.b.full(Scalar{false}, DType::boolean, c.b.shape(x))};
                        return {c.b.compare("lt", x, c.b.full(Scalar{int64_t{0}}, c.b.dtype(x)))};
                      })
      .sample("torch.isinf(torch.tensor([float('nan'), 1.0, float('-inf')]))")
      .sample("torch.isfinite(torch.tensor([float('nan'), 1.0, float('-inf')]))")
      .sample("torch.isposinf(torch.tensor([float('inf'), 1.0, float('-inf')]))")
      .sample("torch.isneginf(torch.tensor([float('inf'), 1.0, float('-inf')]))")
      .sample("torch.signbit(torch.tensor([-0.0, 0.0, -1.0, 2.0]))")
      .sample("torch.isfinite(i(3))");
}

// |a - b| <= atol + |rtol b|, or equal; integers and bools are compared as f32.
OpDef closeness() {
  return mapping("eq")
      .from_aten_call("aten.isclose.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        const ValueId left = c.tensor("self"), right = c.tensor("other");
                        const double relative = c.number("rtol"), absolute = c.number("atol");
                        const bool equal_nan = c.boolean("equal_nan");
                        c.expects(b.dtype(left) == b.dtype(right), "tensors of one dtype");
                        c.expects(relative >= 0 && absolute >= 0, "tolerances of at least 0");
                        Values v = promote_and_broadcast(b, {left, right});
                        ValueId close = b.compare("eq", v[0], v[1]);
                        if (equal_nan && is_inexact(b.dtype(left)))
                          close = b.logical_or(close, b.logical_and(b.unary("isnan", v[0]), b.unary("isnan", v[1])));
                        if (relative == 0 && absolute == 0) return {close};
                        for (ValueId& x : v) x = b.cast(x, float_result(b.dtype(x)));
                        const ValueId gap = b.abs(b.sub(v[0], v[1]));
                        const ValueId scaled = arithmetic(b, "mul", v[1], Scalar{relative});
                        const ValueId allowed = arithmetic(b, "add", b.abs(scaled), Scalar{absolute});
                        const ValueId near = b.logical_and(b.compare("lt", gap, kInfinity), b.compare("le", gap, allowed));
                        return {b.logical_or(close, near)};
                      })
      .from_aten_call("aten.isreal.default",
                      [](AtenCall& c) -> Values {
                        const ValueId x = c.tensor("self");
                        if (!is_complex(c.b.dtype(x))) return {c.b.full(Scalar{true}, DType::boolean, c.b.shape(x))};
                        return {c.b.compare("eq", c.b.unary("imag", x), 0.0)};
                      })
      .sample("torch.isclose(t(3, 4), t(4), rtol=0.5, atol=0.1)")
      .sample("torch.isclose(i(3, 4), i(3, 4))")
      .sample(
          "torch.isclose(torch.tensor([float('inf'), float('nan'), 1.0]), torch.tensor([float('inf'), float('nan'), 1.1]), "
          "equal_nan=True)")
      .sample("torch.isreal(t(3, dtype=torch.complex64))")
      .sample("torch.isreal(t(3))");
}

// ---- complex numbers

OpDef real_parts() {
  return mapping("real")
      .from_aten_call("aten.real.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        return {is_complex(c.b.dtype(x)) ? c.b.unary("real", x) : x};
                      })
      .from_aten_call("aten.view_as_real.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        ValueId re = c.b.unsqueeze(c.b.unary("real", x), -1);
                        return {c.b.concat({re, c.b.unsqueeze(c.b.unary("imag", x), -1)}, -1)};
                      })
      .sample("torch.real(t(4, dtype=torch.complex64))")
      .sample("torch.view_as_real(t(4, dtype=torch.complex64))");
}

OpDef imaginary() {
  return mapping("imag").from_aten_call("aten.imag.default",
                                        [](AtenCall& c) -> Values { return {c.b.unary("imag", c.tensor("self"))}; });
}

OpDef conjugate() {
  OpDef def = mapping("conj");
  for (const char* name : {"conj", "_conj", "conj_physical", "_conj_physical"})
    def.from_aten_call("aten." + std::string(name) + ".default", [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      return {is_complex(c.b.dtype(x)) ? c.b.unary("conj", x) : x};
    });
  for (const char* name : {"resolve_conj", "resolve_neg"})
    def.from_aten_call("aten." + std::string(name) + ".default", [](AtenCall& c) -> Values { return {c.tensor("self")}; });
  return def.sample("torch.conj(t(4, dtype=torch.complex64)).resolve_conj()").sample("torch.conj_physical(t(3))");
}

OpDef complex_numbers() {
  return mapping("make_complex")
      .from_aten_call("aten.complex.default",
                      [](AtenCall& c) -> Values {
                        ValueId re = c.tensor("real");
                        return {c.b.binary("make_complex", re, c.tensor("imag"))};
                      })
      .from_aten_call("aten.polar.default",
                      [](AtenCall& c) -> Values {
                        ValueId radius = c.tensor("abs"), angle = c.tensor("angle");
                        ValueId re = c.b.mul(radius, c.b.unary("cos", angle));
                        ValueId im = c.b.mul(radius, c.b.unary("sin", angle));
                        return {c.b.binary("make_complex", re, im)};
                      })
      .from_aten_call("aten.view_as_complex.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        ValueId re = c.b.select_index(x, -1, 0);
                        return {c.b.binary("make_complex", re, c.b.select_index(x, -1, 1))};
                      })
      .sample("torch.complex(t(2, 3, dtype=torch.float32), t(2, 3, dtype=torch.float32))")
      .sample("torch.polar(t(4).abs(), t(4))")
      .sample("torch.view_as_complex(t(3, 2, dtype=torch.float64))");
}

// ---- other functions

OpDef nan_to_num() {
  return mapping("select")
      .from_aten_call("aten.nan_to_num.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self");
                        DType d = b.dtype(x);
                        double nan = c.maybe_number("nan").value_or(0.0);
                        double high = c.maybe_number("posinf").value_or(highest_of(d)),
                               low = c.maybe_number("neginf").value_or(lowest_of(d));
                        if (!is_inexact(d)) return {x};
                        if (is_complex(d)) c.unsupported("a complex tensor");
                        ValueId y = b.select(b.unary("isnan", x), b.full(nan, d), x);
                        y = b.select(b.compare("eq", x, kInfinity), b.full(high, d), y);
                        return {b.select(b.compare("eq", x, -kInfinity), b.full(low, d), y)};
                      })
      .sample("torch.nan_to_num(torch.tensor([float('nan'), 1.0, float('inf'), float('-inf')]))")
      .sample(
          "torch.nan_to_num(torch.tensor([float('nan'), 1.0, float('inf'), float('-inf')]), nan=2.0, posinf=9.0, neginf=-3.0)");
}

// Two operands, computed in f32 for f16 and bf16 and rounded once.
template <class F> std::function<Values(AtenCall&)> wide_binary(F f) {
  return [f](AtenCall& c) -> Values {
    Builder& b = c.b;
    Operand self = c.operand("self"), other = c.operand("other");
    DType common = float_result(result_type(b, {self, other}));
    Values v = promote_and_broadcast(b, {self, other}, common);
    ValueId left = b.widened(v[0]), right = b.widened(v[1]);
    return {b.narrowed(f(b, left, right), common)};
  };
}

OpDef logarithmic() {
  // log(e^a + e^b), from the larger one; equal infinities are their own answer.
  auto logaddexp = [](bool base2) {
    return wide_binary([base2](Builder& b, ValueId x, ValueId y) {
      if (is_complex(b.dtype(x))) {  // the second of two running results
        int64_t axis = b.rank(x);
        ValueId both = b.concat({b.unsqueeze(x, axis), b.unsqueeze(y, axis)}, axis);
        return b.select_index(b.create("logcumsumexp", {both}, {{"axis", axis}}), axis, 1);
      }
      ValueId top = b.maximum(x, y);
      ValueId gap = b.neg(b.abs(b.sub(x, y)));
      ValueId rest = base2 ? b.mul(b.unary("log1p", b.unary("exp2", gap)), 1 / std::numbers::ln2) : b.unary("log1p", b.exp(gap));
      ValueId both_infinite = b.logical_and(b.compare("eq", x, y), b.unary("isinf", x));
      return b.select(both_infinite, x, b.add(top, rest));
    });
  };
  // x * log(y), 0 where x is 0 unless y is NaN. torch rounds log(y) before it multiplies.
  auto xlogy = [](const char* log) {
    return [log](AtenCall& c) -> Values {
      Builder& b = c.b;
      Operand self = c.operand("self"), other = c.operand("other");
      Values v = promote_and_broadcast(b, {self, other}, float_result(result_type(b, {self, other})));
      ValueId product = b.mul(v[0], b.unary(log, v[1]));
      ValueId zero = b.select(b.unary("isnan", v[1]), v[1], b.full(0.0, b.dtype(v[0])));
      return {b.select(b.compare("eq", v[0], 0.0), zero, product)};
    };
  };
  OpDef def = mapping("log1p");
  def.from_aten_call("aten.logaddexp.default", logaddexp(false)).from_aten_call("aten.logaddexp2.default", logaddexp(true));
  for (const char* overload : {"Tensor", "Scalar_Self", "Scalar_Other"})
    def.from_aten_call("aten.xlogy." + std::string(overload), xlogy("log"));
  for (const char* overload : {"default", "other_scalar", "self_scalar"})
    def.from_aten_call("aten.special_xlog1py." + std::string(overload), xlogy("log1p"));
  return def.sample("torch.logaddexp(t(4), t(4))")
      .sample("torch.logaddexp(torch.tensor([float('-inf'), 1.0]), torch.tensor([float('-inf'), float('inf')]))")
      .sample("torch.logaddexp2(t(4), t(4))")
      .sample("torch.xlogy(t(4), t(4).abs())")
      .sample("torch.xlogy(i(4, low=0, high=2), 2.0)")
      .sample("torch.special.xlog1py(t(4), t(4).abs())");
}

OpDef hypotenuse() {
  return mapping("sqrt")
      .from_aten_call("aten.hypot.default", wide_binary([](Builder& b, ValueId x, ValueId y) {
                        // From the larger side, so that nothing overflows.
                        ValueId ax = b.abs(x), ay = b.abs(y);
                        ValueId top = b.maximum(ax, ay), low = b.minimum(ax, ay);
                        ValueId zero = b.compare("eq", top, 0.0);
                        ValueId ratio = b.select(zero, top, b.div(low, top));
                        ValueId length = b.mul(top, b.sqrt(b.add(b.square(ratio), 1.0)));
                        // An infinite side makes it infinite, whatever the other: NaN too.
                        ValueId infinite = b.logical_or(b.unary("isinf", x), b.unary("isinf", y));
                        return b.select(infinite, b.full(kInfinity, b.dtype(x)), length);
                      }))
      .sample("torch.hypot(t(4), t(4))")
      .sample("torch.hypot(torch.tensor([0.0, 3e30]), torch.tensor([0.0, 4e30]))")
      .sample(
          "torch.hypot(torch.tensor([float('nan'), float('-inf'), float('nan')]), torch.tensor([float('inf'), float('nan'), "
          "1.0]))");
}

OpDef signs() {
  OpDef def = mapping("abs");
  auto copysign = [](AtenCall& c) -> Values {
    Builder& b = c.b;
    Operand self = c.operand("self"), other = c.operand("other");
    Values v = promote_and_broadcast(b, {self, other}, float_result(result_type(b, {self, other})));
    ValueId size = b.abs(v[0]);
    ValueId below = b.compare("lt", v[1], 0.0);
    ValueId negative = b.logical_or(below, b.compare("lt", b.unary("reciprocal", v[1]), 0.0));
    return {b.select(negative, b.neg(size), size)};
  };
  def.from_aten_call("aten.copysign.Tensor", copysign).from_aten_call("aten.copysign.Scalar", copysign);
  return def.sample("torch.copysign(t(4), t(4))").sample("torch.copysign(t(4), -0.0)");
}

OpDef heaviside() {
  return mapping("select")
      .from_aten_call("aten.heaviside.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId self = c.tensor("self");
                        Values v = promote_and_broadcast(b, {self, c.tensor("values")});
                        ValueId zero = materialise(b, Scalar{int64_t{0}}, b.dtype(v[0]));
                        ValueId step = b.cast(b.compare("gt", v[0], zero), b.dtype(v[0]));
                        return {b.select(b.compare("eq", v[0], zero), v[1], step)};
                      })
      .sample("torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), t(3))");
}

OpDef sinc() {
  return mapping("sin")
      .from_aten_call("aten.sinc.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = as_float(c, "self");
                        ValueId angle = b.mul(b.widened(x), std::numbers::pi);
                        ValueId zero = b.compare("eq", angle, 0.0);
                        ValueId y = b.select(zero, b.full(1.0, b.dtype(angle)), b.div(b.unary("sin", angle), angle));
                        return {b.narrowed(y, b.dtype(x))};
                      })
      .sample("torch.sinc(t(4))")
      .sample("torch.sinc(torch.zeros(2))");
}

}  // namespace

std::vector<OpDef> unary_ops() {
  std::vector<OpDef> ops;
  for (const Spelling& row : kFloating) ops.push_back(floating(row));
  for (const Spelling& row : kKeeping) ops.push_back(keeping(row));
  for (OpDef (*op)() : {rounding, squares, frac, positive, tests, infinity_tests, closeness, real_parts, imaginary, conjugate,
                        complex_numbers, nan_to_num, logarithmic, hypotenuse, signs, heaviside, sinc})
    ops.push_back(op());
  return ops;
}

}  // namespace pycandle
