// One element at a time: arithmetic, comparisons, mathematics, activations.
#include <cmath>
#include <numbers>

#include "emit/onnx/forms.h"

namespace pycandle::emit::onnx {
namespace {

bool is_float(DType d) { return is_floating(d); }

// Nodes over values of one dtype, which broadcast.
struct Math {
  GraphWriter& w;
  DType dtype;

  std::string operator()(const char* op, Names inputs, OnnxAttributes attributes = {}) const {
    return w.run(op, std::move(inputs), dtype, std::move(attributes));
  }
  std::string test(const char* op, const std::string& a, const std::string& b) const {
    return w.run(op, {a, b}, dtype, {}, false);
  }
  std::string number(double value) const {
    return w.scalar(is_float(dtype) ? Scalar(value) : Scalar(static_cast<int64_t>(value)), dtype);
  }
  std::string where(const std::string& condition, const std::string& yes, const std::string& no) const {
    return w.run("Where", {condition, yes, no}, dtype);
  }
};

Math math_of(const Site& s) { return {s.w, s.c.type(s.node.operands[0]).dtype}; }

// Broadcast operands: of a pointwise call.
Names operands(const Site& s) { return s.w.broadcasting(s.node.operands, s.result().shape); }

template <const char* const& op> Names unary(const Site& s) { return {math_of(s)(op, {s["x"]})}; }
template <const char* const& op> Names binary(const Site& s) { return {math_of(s)(op, operands(s))}; }
template <const char* const& op> Names comparison(const Site& s) {
  const DType d = s.dtype("a");
  Names in = operands(s);
  // What orders bools are numbers.
  if (d == DType::boolean && op != std::string_view("Equal")) {
    for (std::string& x : in) x = s.w.cast(x, d, DType::u8);
    return {s.w.node(op, in)};
  }
  return {s.w.run(op, in, d, {}, false)};
}

#define OPERATOR(name) constexpr const char* k##name = #name
OPERATOR(Abs);
OPERATOR(Acos);
OPERATOR(Acosh);
OPERATOR(Asin);
OPERATOR(Asinh);
OPERATOR(Atan);
OPERATOR(Atanh);
OPERATOR(Ceil);
OPERATOR(Cos);
OPERATOR(Cosh);
OPERATOR(Div);
OPERATOR(Equal);
OPERATOR(Erf);
OPERATOR(Exp);
OPERATOR(Floor);
OPERATOR(Greater);
OPERATOR(GreaterOrEqual);
OPERATOR(Less);
OPERATOR(LessOrEqual);
OPERATOR(Log);
OPERATOR(Max);
OPERATOR(Min);
OPERATOR(Mish);
OPERATOR(Pow);
OPERATOR(Reciprocal);
OPERATOR(Relu);
OPERATOR(Round);
OPERATOR(Sigmoid);
OPERATOR(Sign);
OPERATOR(Sin);
OPERATOR(Sinh);
OPERATOR(Sqrt);
OPERATOR(Sub);
OPERATOR(Tan);
OPERATOR(Tanh);
#undef OPERATOR

Names neg(const Site& s) {
  const Math m = math_of(s);
  return {m("Neg", {s["x"]})};
}
Names rsqrt(const Site& s) {
  const Math m = math_of(s);
  return {m("Reciprocal", {m("Sqrt", {s["x"]})})};
}
Names exp2(const Site& s) {
  const Math m = math_of(s);
  return {m("Pow", {m.number(2), s["x"]})};
}
template <int base> Names log_of_base(const Site& s) {
  const Math m = math_of(s);
  return {m("Mul", {m("Log", {s["x"]}), m.number(1 / std::log(base))})};
}
Names erfc(const Site& s) {
  const Math m = math_of(s);
  return {m("Sub", {m.number(1), m("Erf", {s["x"]})})};
}
Names trunc(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  return {m.where(m.test("Less", x, m.number(0)), m("Ceil", {x}), m("Floor", {x}))};
}
bool is_fraction(const Call& c) { return is_floating(c.type("x").dtype); }
Names unchanged(const Site& s) { return {s["x"]}; }
Names angle(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  const std::string real = m.where(m.test("Less", x, m.number(0)), m.number(std::numbers::pi), m.number(0));
  return {m.where(s.w.run("IsNaN", {x}, m.dtype, {}, false), x, real)};
}
template <const char* const& op> Names is_special(const Site& s) { return {s.w.run(op, {s["x"]}, s.dtype("x"), {}, false)}; }
constexpr const char *kIsNaN = "IsNaN", *kIsInf = "IsInf";

// Kahan's: what is lost in 1 + x is lost in both logarithm and divisor.
std::string log1p_of(const Math& m, const std::string& x) {
  const std::string one = m.number(1), u = m("Add", {x, one}), log = m("Log", {u});
  const std::string small = m("Mul", {log, m("Div", {x, m("Sub", {u, one})})});
  return m.where(m.test("Equal", u, one), x, m.where(m.test("Greater", x, one), log, small));
}
std::string expm1_of(const Math& m, const std::string& x) {
  const std::string one = m.number(1), u = m("Exp", {x}), less = m("Sub", {u, one});
  const std::string small = m("Mul", {less, m("Div", {x, m("Log", {u})})});
  return m.where(m.test("Equal", u, one), x, m.where(m.test("Greater", m("Abs", {x}), one), less, small));
}
Names log1p(const Site& s) { return {log1p_of(math_of(s), s["x"])}; }
Names expm1(const Site& s) { return {expm1_of(math_of(s), s["x"])}; }

// ---- bools are not numbers in ONNX

template <const char* const& number, const char* const& logical> Names of_bools_or_numbers(const Site& s) {
  if (s.dtype("a") == DType::boolean) return {s.w.node(logical, operands(s))};
  return {math_of(s)(number, operands(s))};
}
constexpr const char *kAdd = "Add", *kMul = "Mul", *kAnd = "And", *kOr = "Or", *kXor = "Xor";
constexpr const char *kBitwiseAnd = "BitwiseAnd", *kBitwiseOr = "BitwiseOr", *kBitwiseXor = "BitwiseXor";

Names bitwise_not(const Site& s) {
  if (s.dtype("x") == DType::boolean) return {s.w.node("Not", {s["x"]})};
  return {math_of(s)("BitwiseNot", {s["x"]})};
}
Names not_equal(const Site& s) { return {s.w.node("Not", comparison<kEqual>(s))}; }

// The one that is a number, where the other is NaN.
template <const char* const& op> Names numbers_win(const Site& s) {
  const Math m = math_of(s);
  const Names in = operands(s);
  if (!is_float(m.dtype)) return {m(op, in)};
  const auto nan = [&](const std::string& x) { return s.w.run("IsNaN", {x}, m.dtype, {}, false); };
  return {m.where(nan(in[0]), in[1], m.where(nan(in[1]), in[0], m(op, in)))};
}

// ---- division

std::string fmod_of(const Math& m, const Names& in) { return m("Mod", in, {{"fmod", int64_t{1}}}); }
// Do they have different signs?
std::string differ(const Math& m, const std::string& a, const std::string& b) {
  return m.w.node("Xor", {m.test("Less", a, m.number(0)), m.test("Less", b, m.number(0))});
}
std::string has_rest(const Math& m, const std::string& rest) { return m.w.node("Not", {m.test("Equal", rest, m.number(0))}); }

Names fmod(const Site& s) { return {fmod_of(math_of(s), operands(s))}; }
Names remainder(const Site& s) {
  const Math m = math_of(s);
  const Names in = operands(s);
  if (!is_float(m.dtype)) return {m("Mod", in)};
  const std::string rest = fmod_of(m, in);
  const std::string is_other = s.w.node("And", {has_rest(m, rest), differ(m, rest, in[1])});
  return {m.where(is_other, m("Add", {rest, in[1]}), rest)};
}
Names floor_divide(const Site& s) {
  const Math m = math_of(s);
  const Names in = operands(s);
  const std::string rest = fmod_of(m, in), one = m.number(1);
  const std::string is_less = s.w.node("And", {has_rest(m, rest), differ(m, rest, in[1])});
  if (!is_float(m.dtype)) {
    const std::string quotient = m("Div", in);
    return {m.where(is_less, m("Sub", {quotient, one}), quotient)};
  }
  const std::string quotient = m("Div", {m("Sub", {in[0], rest}), in[1]});
  return {m("Round", {m.where(is_less, m("Sub", {quotient, one}), quotient)})};
}
Names trunc_divide(const Site& s) {
  const Math m = math_of(s);
  const std::string quotient = m("Div", operands(s));
  if (!is_float(m.dtype)) return {quotient};
  return {m.where(m.test("Less", quotient, m.number(0)), m("Ceil", {quotient}), m("Floor", {quotient}))};
}

Names atan2(const Site& s) {
  const Math m = math_of(s);
  const Names in = operands(s);
  const std::string &y = in[0], &x = in[1], zero = m.number(0);
  const std::string base = m("Atan", {m("Div", {y, x})}), up = m.test("GreaterOrEqual", y, zero);
  const std::string left = m.where(up, m("Add", {base, m.number(std::numbers::pi)}),
                                   m("Sub", {base, m.number(std::numbers::pi)}));
  const std::string half = m("Mul", {m("Sign", {y}), m.number(std::numbers::pi / 2)});
  const std::string on_axis = m.where(m.test("Equal", y, zero), zero, half);
  const std::string sideways = m.where(m.test("Less", x, zero), left, on_axis);
  return {m.where(m.test("Greater", x, zero), base, sideways)};
}

// By powers of two: ONNX shifts numbers without sign alone.
Names shift_left(const Site& s) {
  const Names in = operands(s);
  const DType d = s.dtype("a");
  const Math m{s.w, DType::i64};
  const std::string a = s.w.cast(in[0], d, DType::i64), b = s.w.cast(in[1], d, DType::i64);
  return {s.w.cast(m("Mul", {a, m("Pow", {m.number(2), b})}), DType::i64, d)};
}
Names shift_right(const Site& s) {
  const Names in = operands(s);
  const DType d = s.dtype("a");
  const Math m{s.w, DType::i64};
  const std::string a = s.w.cast(in[0], d, DType::i64), power = m("Pow", {m.number(2), s.w.cast(in[1], d, DType::i64)});
  return {s.w.cast(m("Div", {m("Sub", {a, m("Mod", {a, power})}), power}), DType::i64, d)};
}

Names select(const Site& s) {
  const DType d = s.dtype("yes");
  const Names in = operands(s);
  return {s.w.run("Where", in, d)};
}
Names cast(const Site& s) { return {s.w.cast(s["x"], s.dtype("x"), s.c.dtype("dtype"))}; }
Names bitcast(const Site& s) {
  return {s.w.node("BitCast", {s["x"]}, {{"to", static_cast<int64_t>(element_type(s.result().dtype))}})};
}
bool keeps_size(const Call& c) {
  return size_of(c.dtype("from")) == size_of(c.dtype("to")) && c.dtype("to") != DType::boolean &&
         c.dtype("from") != DType::boolean;
}

// ---- activations

std::string clipped(const Math& m, const std::string& x, double low, double high) {
  return m("Clip", {x, m.number(low), m.number(high)});
}
Names relu6(const Site& s) { return {clipped(math_of(s), s["x"], 0, 6)}; }
Names hardtanh(const Site& s) {
  return {clipped(math_of(s), s["x"], as_double(s.c.scalar("min_val")), as_double(s.c.scalar("max_val")))};
}
Names clamp(const Site& s) {
  const Math m = math_of(s);
  const auto bound = [&](const char* name) { return s.c.has(name) ? s.w.scalar(s.c.scalar(name), m.dtype) : std::string(); };
  return {m("Clip", {s["x"], bound("min"), bound("max")})};
}
bool bounds_in_order(const Call& c) {
  if (!c.has("min") && !c.has("max")) return false;
  const bool are_floats = is_floating(c.type("x").dtype);
  const auto fits = [&](const char* name) {
    return !c.has(name) || are_floats || std::holds_alternative<int64_t>(c.scalar(name));
  };
  return fits("min") && fits("max") &&
         (!c.has("min") || !c.has("max") || as_double(c.scalar("min")) <= as_double(c.scalar("max")));
}
Names gelu(const Site& s) { return {math_of(s)("Gelu", {s["x"]}, {{"approximate", s.c.string("approximate")}})}; }
Names silu(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  return {m("Mul", {x, m("Sigmoid", {x})})};
}
Names softplus(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  const double beta = as_double(s.c.scalar("beta"));
  const std::string scaled = beta == 1 ? x : m("Mul", {x, m.number(beta)});
  const std::string soft = m("Softplus", {scaled});
  const std::string low = beta == 1 ? soft : m("Div", {soft, m.number(beta)});
  return {m.where(m.test("Greater", scaled, m.number(as_double(s.c.scalar("threshold")))), x, low)};
}
Names hardsigmoid(const Site& s) { return {math_of(s)("HardSigmoid", {s["x"]}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})}; }
Names hardswish(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  return {m("Mul", {x, m("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})})};
}
Names leaky_relu(const Site& s) {
  return {math_of(s)("LeakyRelu", {s["x"]}, {{"alpha", as_double(s.c.scalar("negative_slope"))}})};
}
Names elu(const Site& s) { return {math_of(s)("Elu", {s["x"]}, {{"alpha", as_double(s.c.scalar("alpha"))}})}; }
bool is_plain_elu(const Call& c) { return as_double(c.scalar("scale")) == 1 && as_double(c.scalar("input_scale")) == 1; }
Names prelu(const Site& s) {
  std::string weight = s["weight"];
  const int64_t rank = s.c.rank("x");
  if (s.c.rank("weight") == 1 && rank > 2) weight = s.w.unsqueeze(weight, all_axes(1, rank - 1));
  return {math_of(s)("PRelu", {s["x"], weight})};
}
bool has_channels(const Call& c) { return c.rank("x") >= 2; }
Names log_sigmoid(const Site& s) {
  const Math m = math_of(s);
  const std::string x = s["x"];
  return {m("Sub", {m("Min", {x, m.number(0)}), log1p_of(m, m("Exp", {m("Neg", {m("Abs", {x})})}))})};
}
Names softmax(const Site& s) { return {math_of(s)("Softmax", {s["x"]}, {{"axis", s.c.integer("dim")}})}; }
Names log_softmax(const Site& s) { return {math_of(s)("LogSoftmax", {s["x"]}, {{"axis", s.c.integer("dim")}})}; }
bool has_axes(const Call& c) { return c.rank("x") > 0; }

constexpr Form kForms[] = {
    {"neg", neg, is_real},
    {"sign", unary<kSign>, is_real},
    {"exp", unary<kExp>, is_real},
    {"exp2", exp2, is_real},
    {"expm1", expm1, is_real},
    {"log", unary<kLog>, is_real},
    {"log2", log_of_base<2>, is_real},
    {"log10", log_of_base<10>, is_real},
    {"log1p", log1p, is_real},
    {"sqrt", unary<kSqrt>, is_real},
    {"rsqrt", rsqrt, is_real},
    {"sin", unary<kSin>, is_real},
    {"cos", unary<kCos>, is_real},
    {"tan", unary<kTan>, is_real},
    {"asin", unary<kAsin>, is_real},
    {"acos", unary<kAcos>, is_real},
    {"atan", unary<kAtan>, is_real},
    {"sinh", unary<kSinh>, is_real},
    {"cosh", unary<kCosh>, is_real},
    {"tanh", unary<kTanh>, is_real},
    {"asinh", unary<kAsinh>, is_real},
    {"acosh", unary<kAcosh>, is_real},
    {"atanh", unary<kAtanh>, is_real},
    {"erf", unary<kErf>},
    {"erfc", erfc},
    {"ceil", unary<kCeil>, is_fraction},
    {"ceil", unchanged},
    {"floor", unary<kFloor>, is_fraction},
    {"floor", unchanged},
    {"round", unary<kRound>, is_fraction},
    {"round", unchanged},
    {"trunc", trunc, is_fraction},
    {"trunc", unchanged},
    {"reciprocal", unary<kReciprocal>, is_real},
    {"abs", unary<kAbs>, is_real},
    {"angle", angle, is_real},
    {"isnan", is_special<kIsNaN>, is_real},
    {"isinf", is_special<kIsInf>, is_real},
    {"bitwise_not", bitwise_not},
    {"add", of_bools_or_numbers<kAdd, kOr>, is_real},
    {"sub", binary<kSub>, is_real},
    {"mul", of_bools_or_numbers<kMul, kAnd>, is_real},
    {"div", binary<kDiv>, is_real},
    {"pow", binary<kPow>, is_real},
    {"maximum", of_bools_or_numbers<kMax, kOr>},
    {"minimum", of_bools_or_numbers<kMin, kAnd>},
    {"fmax", numbers_win<kMax>},
    {"fmin", numbers_win<kMin>},
    {"remainder", remainder},
    {"fmod", fmod},
    {"floor_divide", floor_divide},
    {"trunc_divide", trunc_divide},
    {"atan2", atan2},
    {"bitwise_and", of_bools_or_numbers<kBitwiseAnd, kAnd>},
    {"bitwise_or", of_bools_or_numbers<kBitwiseOr, kOr>},
    {"bitwise_xor", of_bools_or_numbers<kBitwiseXor, kXor>},
    {"shift_left", shift_left},
    {"shift_right", shift_right},
    {"eq", comparison<kEqual>, is_real},
    {"ne", not_equal, is_real},
    {"lt", comparison<kLess>},
    {"le", comparison<kLessOrEqual>},
    {"gt", comparison<kGreater>},
    {"ge", comparison<kGreaterOrEqual>},
    {"select", select, [](const Call& c) { return !is_complex(c.type("yes").dtype); }},
    {"cast", cast, [](const Call& c) { return is_real(c) && !is_complex(c.dtype("dtype")); }},
    {"bitcast", bitcast, keeps_size, 26},
    {"clamp", clamp, bounds_in_order},
    {"relu", unary<kRelu>, is_fraction},
    {"relu6", relu6},
    {"hardtanh", hardtanh, is_fraction},
    {"gelu", gelu},
    {"sigmoid", unary<kSigmoid>, is_real},
    {"silu", silu, is_real},
    {"mish", unary<kMish>},
    {"softplus", softplus},
    {"hardsigmoid", hardsigmoid},
    {"hardswish", hardswish},
    {"leaky_relu", leaky_relu},
    {"elu", elu, is_plain_elu},
    {"prelu", prelu, has_channels},
    {"log_sigmoid", log_sigmoid},
    {"softmax", softmax, has_axes},
    {"log_softmax", log_softmax, has_axes},
};

}  // namespace

std::span<const Form> elementwise_forms() { return kForms; }

}  // namespace pycandle::emit::onnx
