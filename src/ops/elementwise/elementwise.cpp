// Elementwise arithmetic: the primitives on one number and on two.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"
#include "ops/elementwise/special_functions.h"

namespace pycandle {

namespace {

using Kind = Rounding;
using Cpp = CppForm::Kind;

// ---- one operand

// What an op computes on each kind of number; null where it is not defined. Integers and bools share a function.
struct Unary {
  const char* name;
  double (*real)(double);
  Complex (*complex)(Complex);
  int64_t (*integer)(int64_t);
  unsigned kinds;
  Kind rounding;
  const char* doc;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t same_integer(int64_t v) { return v; }

Array evaluate_unary(const Unary& row, const Evaluation& ev) {
  const Array& x = ev.array("x");
  switch (domain_of(x.dtype())) {
    case Domain::real: return map_as<double>(ev, row.real, x);
    case Domain::complex: return map_as<Complex>(ev, row.complex, x);
    default: return map_as<int64_t>(ev, row.integer, x);
  }
}

OpDef unary(const char* name, unsigned kinds) {
  return primitive(name)
      .operands("x")
      .constraint(std::string(name) + "_c1", "x is " + text_of_kinds(kinds),
                  [kinds](const Call& c) { return is_one_of(c.type("x").dtype, kinds); })
      .spelled_torch(fmt::format("torch.{}({{x}})", name))
      .pointwise();
}

// A row: an op on x whose result has the type of x.
OpDef of_x(const Unary& row) {
  return unary(row.name, row.kinds)
      .doc(row.doc)
      .infer([](const Call& c) { return c.type("x"); })
      .rounds(row.rounding)
      .evaluator([row](const Evaluation& ev) { return evaluate_unary(row, ev); });
}

// A double function and a complex one of the same name in the library.
#define BOTH(function) [](double v) { return std::function(v); }, [](Complex v) { return std::function(v); }
#define REAL(...) [](double v) -> double { return __VA_ARGS__; }
#define COMPLEX(...) [](Complex v) -> Complex { return __VA_ARGS__; }
#define INTEGER(...) [](int64_t v) -> int64_t { return __VA_ARGS__; }

// Half-way between two integers: torch goes to the even one.
void other_halves(Mistakes& m) {
  constexpr const char *kKind = "rounding mode", *kNow = "half to even";
  if (!is_floating(m.call().type("x").dtype)) return;
  m.build(kKind, kNow, "half up",
          [](const MistakeSite& site) { return Values{site.b.unary("floor", site.b.add(site.operands[0], 0.5))}; });
  m.build(kKind, kNow, "half away from zero", [](const MistakeSite& site) {
    const ValueId x = site.operands[0], sign = site.b.unary("sign", x);
    return Values{site.b.mul(sign, site.b.unary("floor", site.b.add(site.b.mul(x, sign), 0.5)))};
  });
}

// floor(x + 0.5)
void halves_up(Mistakes& m) {
  const Node* sum = made_by(m.call().graph(), m.call().value("x"), "add");
  if (sum == nullptr) return;
  m.build("rounding mode", "half up", "half to even", [](const MistakeSite& site) {
    return Values{site.b.unary("round", made_by(site.b.graph(), site.operands[0], "add")->operands[0])};
  });
}

std::vector<OpDef> same_type_ops() {
  return {
      of_x({"neg", REAL(-v), COMPLEX(-v), INTEGER(difference_of<int64_t>(0, v)), numbers, Kind::exact, "-x; integers wrap"})
          .spelled_cpp(Cpp::prefix, "-"),
      of_x({"sign", REAL((v > 0) - (v < 0)), COMPLEX(v == Complex{} ? v : v / std::abs(v)), INTEGER((v > 0) - (v < 0)), anything,
            Kind::exact, "-1, 0 or 1 (0 for NaN, as torch); x/|x| for complex numbers"})
          .step(),
      of_x({"exp", BOTH(exp), nullptr, inexact, Kind::relative, "e to the x"}).mistaken_for("function", {"expm1", "exp2"}),
      of_x({"exp2", REAL(std::exp2(v)), COMPLEX(std::exp(v * std::numbers::ln2)), nullptr, inexact, Kind::relative, "2 to the x"})
          .called("a power of two")
          .mistaken_for("function", {"exp", "expm1"}),
      of_x({"expm1", REAL(std::expm1(v)), COMPLEX(std::exp(v) - 1.0), nullptr, inexact, Kind::relative, "exp(x) - 1"})
          .called("exp less one")
          .mistaken_for("function", {"exp", "exp2"}),
      of_x({"log", BOTH(log), nullptr, inexact, Kind::relative, "natural logarithm"})
          .mistaken_for("function", {"log1p", "log2", "log10"}),
      of_x({"log2", REAL(std::log2(v)), COMPLEX(std::log(v) / std::numbers::ln2), nullptr, inexact, Kind::relative,
            "logarithm to base 2"})
          .called("log to base two")
          .mistaken_for("function", {"log", "log1p", "log10"}),
      of_x({"log10", BOTH(log10), nullptr, inexact, Kind::relative, "logarithm to base 10"})
          .called("log to base ten")
          .mistaken_for("function", {"log", "log1p", "log2"}),
      of_x({"log1p", REAL(std::log1p(v)), COMPLEX(std::log(1.0 + v)), nullptr, inexact, Kind::relative, "log(1 + x)"})
          .called("log of one more")
          .mistaken_for("function", {"log", "log2", "log10"}),
      of_x({"sqrt", BOTH(sqrt), nullptr, inexact, Kind::relative, "square root"})
          .correctly_rounded()
          .called("a root")
          .mistaken_for("function", {"rsqrt", "reciprocal"}),
      of_x({"rsqrt", REAL(1 / std::sqrt(v)), COMPLEX(1.0 / std::sqrt(v)), nullptr, inexact, Kind::relative, "1 / sqrt(x)"})
          .called("one by a root")
          .mistaken_for("function", {"sqrt", "reciprocal"}),
      of_x({"sin", BOTH(sin), nullptr, inexact, Kind::relative, "sine"}).called("sine").mistaken_for("function", {"cos"}),
      of_x({"cos", BOTH(cos), nullptr, inexact, Kind::relative, "cosine"}).called("cosine").mistaken_for("function", {"sin"}),
      of_x({"tan", BOTH(tan), nullptr, inexact, Kind::relative, "tangent"}),
      of_x({"asin", BOTH(asin), nullptr, inexact, Kind::relative, "inverse sine"}),
      of_x({"acos", BOTH(acos), nullptr, inexact, Kind::relative, "inverse cosine"}),
      of_x({"atan", BOTH(atan), nullptr, inexact, Kind::relative, "inverse tangent"}),
      of_x({"sinh", BOTH(sinh), nullptr, inexact, Kind::relative, "hyperbolic sine"}),
      of_x({"cosh", BOTH(cosh), nullptr, inexact, Kind::relative, "hyperbolic cosine"}),
      of_x({"tanh", BOTH(tanh), nullptr, inexact, Kind::relative, "hyperbolic tangent"})
          .nn("Tanh", no_arguments)
          .called("tanh")
          .activation(),
      of_x({"asinh", BOTH(asinh), nullptr, inexact, Kind::relative, "inverse hyperbolic sine"}),
      of_x({"acosh", BOTH(acosh), nullptr, inexact, Kind::relative, "inverse hyperbolic cosine"}),
      of_x({"atanh", BOTH(atanh), nullptr, inexact, Kind::relative, "inverse hyperbolic tangent"}),
      of_x({"erf", REAL(std::erf(v)), nullptr, nullptr, floats, Kind::relative, "error function"}),
      of_x({"erfc", REAL(std::erfc(v)), nullptr, nullptr, floats, Kind::relative, "1 - erf(x)"}),
      of_x({"erfinv", REAL(erfinv(v)), nullptr, nullptr, floats, Kind::relative, "inverse of erf"}),
      of_x({"lgamma", REAL(pycandle::lgamma(v)), nullptr, nullptr, floats, Kind::relative, "log |gamma(x)|"}),
      of_x({"digamma", REAL(digamma(v)), nullptr, nullptr, floats, Kind::relative, "derivative of lgamma"}),
      of_x({"ceil", REAL(std::ceil(v)), nullptr, same_integer, reals, Kind::exact, "least integer not below x"})
          .called("rounding up")
          .mistaken_for("rounding mode", {"round", "floor", "trunc"})
          .step(),
      of_x({"floor", REAL(std::floor(v)), nullptr, same_integer, reals, Kind::exact, "greatest integer not above x"})
          .called("rounding down")
          .mistakes(halves_up)
          .mistaken_for("rounding mode", {"round", "ceil", "trunc"})
          .step(),
      of_x({"round", REAL(std::nearbyint(v)), nullptr, same_integer, reals, Kind::exact, "nearest integer, half to even"})
          .called("rounding to nearest, half to even")
          .mistakes(other_halves)
          .mistaken_for("rounding mode", {"floor", "ceil", "trunc"})
          .step(),
      of_x({"trunc", REAL(std::trunc(v)), nullptr, same_integer, reals, Kind::exact, "toward zero"})
          .called("rounding toward zero")
          .mistaken_for("rounding mode", {"round", "floor", "ceil"})
          .step(),
      of_x({"reciprocal", REAL(1 / v), COMPLEX(1.0 / v), nullptr, inexact, Kind::relative, "1 / x"})
          .called("one by x")
          .mistaken_for("function", {"sqrt", "rsqrt"}),
      of_x({"conj", REAL(v), COMPLEX(std::conj(v)), same_integer, anything, Kind::exact, "complex conjugate; a real x itself"}),
  };
}
#undef BOTH
#undef REAL
#undef COMPLEX
#undef INTEGER

// Ops whose result has another dtype than x: abs and the parts of complex numbers are real, tests are bool.
Type real_type(const Call& c) { return {real_of(c.type("x").dtype), c.shape("x")}; }
Type bool_type(const Call& c) { return {DType::boolean, c.shape("x")}; }

std::vector<OpDef> unary_with_own_type() {
  return {
      unary("abs", numbers).doc("|x|; real for complex x").infer(real_type).evaluator([](const Evaluation& ev) {
        const auto magnitude = [](auto v) {
          if constexpr (std::is_same_v<decltype(v), int64_t>)
            return v < 0 ? difference_of<int64_t>(0, v) : v;
          else
            return std::abs(v);
        };
        return map(ev, magnitude, ev.array("x"));
      }),
      unary("real", inexact).doc("real part").infer(real_type).evaluator([](const Evaluation& ev) {
        return map_as<Complex>(ev, [](Complex v) { return v.real(); }, ev.array("x"));
      }),
      unary("imag", complexes).doc("imaginary part").infer(real_type).evaluator([](const Evaluation& ev) {
        return map_as<Complex>(ev, [](Complex v) { return v.imag(); }, ev.array("x"));
      }),
      unary("angle", inexact)
          .doc("argument of a complex number; 0 or pi for a real one, NaN for NaN")
          .infer(real_type)
          .rounds(Kind::relative)
          .evaluator([](const Evaluation& ev) {
            const auto of_real = [](double v) { return is_nan(v) ? v : v < 0 ? std::numbers::pi : 0.0; };
            const auto of_complex = [](Complex v) { return std::arg(v); };
            const Array& x = ev.array("x");
            return is_complex(x.dtype()) ? map_as<Complex>(ev, of_complex, x) : map_as<double>(ev, of_real, x);
          }),
      unary("isnan", inexact).doc("is it NaN, in either part?").infer(bool_type).evaluator([](const Evaluation& ev) {
        return map(ev, [](auto v) { return is_nan(v); }, ev.array("x"));
      }),
      unary("isinf", inexact).doc("is it infinite, in either part?").infer(bool_type).evaluator([](const Evaluation& ev) {
        const auto infinite = [](Complex v) { return std::abs(v.real()) == kInfinity || std::abs(v.imag()) == kInfinity; };
        return map_as<Complex>(ev, infinite, ev.array("x"));
      }),
      unary("bitwise_not", integers | booleans)
          .doc("every bit flipped; logical not for bool")
          .spelled_cpp(Cpp::prefix, "~")
          .infer([](const Call& c) { return c.type("x"); })
          .evaluator([](const Evaluation& ev) {
            if (ev.array("x").dtype() == DType::boolean)
              return map_as<int64_t>(ev, [](int64_t v) { return v == 0; }, ev.array("x"));
            return map_as<int64_t>(ev, [](int64_t v) { return ~v; }, ev.array("x"));
          }),
  };
}

// ---- two operands of the same type

OpDef binary(const char* name, unsigned kinds, const char* doc) {
  return binary_primitive(name, kinds, doc).spelled_torch(fmt::format("torch.{}({{a}}, {{b}})", name)).pointwise();
}

template <class F> OpDef binary(const char* name, unsigned kinds, Kind rounding, const char* doc, F f) {
  return binary(name, kinds, doc).rounds(rounding).evaluator([f](const Evaluation& ev) {
    const Array& a = ev.array("a");
    return in_domain(a.dtype(), [&](auto zero) {
      using C = decltype(zero);
      if constexpr (std::is_invocable_v<F, C, C>) {
        return map_as<C>(ev, f, a, ev.array("b"));
      } else {
        internal_error(ev.node().op->name + " has no function for " + std::string(name_of(a.dtype())));
        return Array();
      }
    });
  });
}
template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

// torch raises for integers, and the least int64 divided by -1 wraps instead of trapping.
int64_t nonzero_divisor(const char* op, int64_t b) {
  if (b == 0) throw Error(ErrorCode::bad_input, "integer division by zero").op(op).expected("a divisor other than 0").found("0");
  return b;
}
int64_t truncated_quotient(int64_t a, int64_t b) { return b == -1 ? difference_of<int64_t>(0, a) : a / b; }
int64_t truncated_rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

double floor_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base = product_of(base, base)) {
    if (exponent & 1) result = product_of(result, base);
  }
  return result;
}

template <class T> T larger(T a, T b) { return is_nan(a) ? a : is_nan(b) ? b : std::max(a, b); }
template <class T> T smaller(T a, T b) { return is_nan(a) ? a : is_nan(b) ? b : std::min(a, b); }

OpDef shift(const char* name, const char* doc, int64_t (*f)(int64_t value, int64_t by, int64_t bits)) {
  return binary(name, integers, doc).evaluator([f](const Evaluation& ev) {
    const auto bits = static_cast<int64_t>(8 * size_of(ev.array("a").dtype()));
    return map_as<int64_t>(ev, [=](int64_t a, int64_t b) { return f(a, b, bits); }, ev.array("a"), ev.array("b"));
  });
}

// ---- what people get wrong

bool is_of_indices(const Mistakes& m) { return !is_inexact(m.call().type("a").dtype); }

void swapped_operands(Mistakes& m) { m.swapped("operand order", "a", "b", "its operands in order", "its operands swapped"); }

// What it is when one operand is not there. A number is a number, whatever it is added to or multiplied by.
std::string kind_without(const Mistakes& m, const char* kind, bool is_number) {
  const bool is_sum = m.call().op().name == "add" || m.call().op().name == "sub";
  if (is_of_indices(m) && is_sum) return "index offset";
  return is_number && (is_sum || is_of_indices(m)) ? "constant" : kind;
}

// One of the operands is not there; or, where the last two dims are of one size and nothing else notices, it is transposed.
std::function<void(Mistakes&)> left_out(const char* kind) {
  return [kind](Mistakes& m) {
    for (const size_t i : {0, 1}) {
      const std::optional<double> number = number_of(m.call().graph(), m.call().value(i == 0 ? "b" : "a"));
      m.build(kind_without(m, kind, number.has_value()),
              number ? fmt::format("{} with {:.6g}", noun_of(m.call()), *number) : noun_of(m.call()) + " of two operands",
              number ? "none" : fmt::format("only the {} of them", i == 0 ? "first" : "second"),
              [i](const MistakeSite& site) { return Values{site.operands[i]}; });
    }
    if (is_of_indices(m)) return;
    for (const char* name : {"a", "b"}) {
      const Shape& shape = m.call().shape(name);
      if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() == Dim(1)) continue;
      m.operand("dim order", name, fmt::format("its operand {}", name), fmt::format("its operand {} transposed", name),
                [](Builder& b, ValueId x) { return b.swap_axes(x, -2, -1); });
    }
  };
}

// A gate times the result of a linear layer, or times what the layer reads: the reset of a GRU.
void gate_before_linear(Mistakes& m) {
  for (const char* name : {"a", "b"}) {
    const Node* linear = made_by(m.call().graph(), m.call().value(name), "linear");
    if (linear == nullptr || m.call().graph().type(linear->operands[0]) != m.call().type(name)) continue;
    m.build("gru reset", "a gate times the result of a linear layer", "the gate times what the layer reads",
            [name](const MistakeSite& site) {
              const ValueId gated = site.operand(name), gate = site.operand(*name == 'a' ? "b" : "a");
              const Node layer = *made_by(site.b.graph(), gated, "linear");
              Values operands = layer.operands;
              operands[0] = site.b.mul(gate, operands[0]);
              return site.b.create_all("linear", operands, layer.attributes);
            });
  }
}

// What was cast to this value; half precision is widened for a scale.
ValueId before_casts(const Graph& g, ValueId v) {
  const Node* cast = made_by(g, v, "cast");
  return cast == nullptr ? v : before_casts(g, cast->operands[0]);
}

const char* const kSides[] = {"a", "b"};
const char* const kOrdinals[] = {"first", "second"};

// A sum of which one term is scaled, or the whole of it: attention whose bias is scaled with its scores.
void scaled_sum(Mistakes& m) {
  const std::string scale = m.call().op().name;
  const Graph& g = m.call().graph();
  for (const size_t side : {0, 1}) {
    if (!number_of(g, m.call().value(kSides[1 - side])) || (scale == "div" && side == 1)) continue;
    for (const char* op : {"add", "sub"}) {
      if (made_by(g, before_casts(g, m.call().value(kSides[side])), op) == nullptr) continue;
      for (const size_t term : {0, 1}) {
        m.build("scale place", "a scale of the whole sum", fmt::format("a scale of its {} term", kOrdinals[term]),
                [=](const MistakeSite& site) {
                  const ValueId factor = site.operands[1 - side];
                  Values terms = made_by(site.b.graph(), before_casts(site.b.graph(), site.operands[side]), op)->operands;
                  for (ValueId& v : terms) v = site.b.cast(v, site.b.dtype(factor));
                  terms[term] = site.b.binary(scale, terms[term], factor);
                  return site.b.create_all(op, terms, {});
                });
      }
    }
  }
}

void scaled_term(Mistakes& m) {
  const std::string op = m.call().op().name;
  const Graph& g = m.call().graph();
  for (const size_t side : {0, 1}) {
    for (const char* scale : {"mul", "div"}) {
      const Node* scaled = made_by(g, before_casts(g, m.call().value(kSides[side])), scale);
      if (scaled == nullptr || !number_of(g, scaled->operands[1])) continue;
      m.build(
          "scale place", fmt::format("a scale of the {} term", kOrdinals[side]), "a scale of the whole sum",
          [=](const MistakeSite& site) {
            const Values factors = made_by(site.b.graph(), before_casts(site.b.graph(), site.operands[side]), scale)->operands;
            Values terms = site.operands;
            const DType dtype = site.b.dtype(terms[side]), wide = site.b.dtype(factors[1]);
            terms[side] = factors[0];
            for (ValueId& v : terms) v = site.b.cast(v, wide);
            return Values{site.b.cast(site.b.binary(scale, site.b.create(op, terms, {}), factors[1]), dtype)};
          });
    }
  }
}

// A sum with a norm, or the norm of the sum.
void norm_of_sum(Mistakes& m) {
  for (const char* name : {"a", "b"}) {
    for (const char* op : {"layer_norm", "rms_norm"}) {
      if (made_by(m.call().graph(), m.call().value(name), op) == nullptr) continue;
      m.build("norm order", "a sum with a norm", "the norm of the sum", [name, op](const MistakeSite& site) {
        const Node norm = *made_by(site.b.graph(), site.operand(name), op);
        Values operands = norm.operands;
        operands[0] = site.b.add(operands[0], site.operand(*name == 'a' ? "b" : "a"));
        return site.b.create_all(op, operands, norm.attributes);
      });
    }
  }
}

// a * b + c * d: the same four, multiplied otherwise. The update of a GRU the other way round is one.
void exchanged_factors(Mistakes& m) {
  const Graph& g = m.call().graph();
  const Node *first = made_by(g, m.call().value("a"), "mul"), *second = made_by(g, m.call().value("b"), "mul");
  if (first == nullptr || second == nullptr) return;
  for (const size_t i : {0, 1}) {
    if (first->operands[1] == second->operands[i]) continue;
    m.build("operand order", "two products", "the products with factors exchanged", [i](const MistakeSite& site) {
      const Node a = *made_by(site.b.graph(), site.operand("a"), "mul"), b = *made_by(site.b.graph(), site.operand("b"), "mul");
      return site.same({site.b.mul(a.operands[0], b.operands[i]), site.b.mul(a.operands[1], b.operands[1 - i])});
    });
  }
}

// x * sigmoid(c * x): SiLU and the sigmoid GELU, where rounding between its steps keeps it from being one op.
void activation_by_hand(Mistakes& m) {
  const Graph& g = m.call().graph();
  for (const char* name : {"a", "b"}) {
    const Node* sigmoid = made_by(g, m.call().value(name), "sigmoid");
    const char* other = *name == 'a' ? "b" : "a";
    if (sigmoid == nullptr) continue;
    const Node* scaled = made_by(g, sigmoid->operands[0], "mul");
    const ValueId x = m.call().value(other);
    const bool is_of_x = scaled != nullptr && (scaled->operands[0] == x || scaled->operands[1] == x);
    if (is_of_x || sigmoid->operands[0] == x) m.activations_of(other, is_of_x ? "the sigmoid GELU" : "SiLU");
  }
}

void other_operations(Mistakes& m) {
  if (is_of_indices(m)) return;
  for (const char* op : {"add", "sub", "mul", "div"}) {
    if (m.call().op().name != op) m.other_op("operation", op);
  }
}

std::vector<OpDef> sums_and_products() {
  return {
      binary("add", numbers, Kind::linear, "a + b", [](auto a, auto b) { return sum_of(a, b); })
          .commutative()
          .correctly_rounded()
          .spelled_cpp(Cpp::infix, "+")
          .called("a sum")
          .results({"sum"})
          .mistakes(left_out("missing residual"))
          .mistakes(norm_of_sum)
          .mistakes(exchanged_factors)
          .mistakes(scaled_term)
          .mistakes(other_operations),
      binary("sub", numbers, Kind::linear, "a - b", [](auto a, auto b) { return difference_of(a, b); })
          .correctly_rounded()
          .spelled_cpp(Cpp::infix, "-")
          .called("a difference")
          .results({"difference"})
          .mistakes(swapped_operands)
          .mistakes(left_out("missing residual"))
          .mistakes(scaled_term)
          .mistakes(other_operations),
      binary("mul", numbers, Kind::relative, "a * b", [](auto a, auto b) { return product_of(a, b); })
          .commutative()
          .correctly_rounded()
          .spelled_cpp(Cpp::infix, "*")
          .called("a product")
          .results({"product"})
          .mistakes(left_out("missing factor"))
          .mistakes(gate_before_linear)
          .mistakes(activation_by_hand)
          .mistakes(scaled_sum)
          .mistakes(other_operations),
      binary("div", inexact, Kind::relative, "a / b, true division",
             Overloaded{[](double a, double b) { return a / b; }, [](Complex a, Complex b) { return a / b; }})
          .correctly_rounded()
          .float_results()
          .spelled_cpp(Cpp::infix, "/")
          .called("a quotient")
          .results({"ratio"})
          .mistakes(swapped_operands)
          .mistakes(left_out("missing factor"))
          .mistakes(scaled_sum)
          .mistakes(other_operations),
      binary("pow", numbers, Kind::relative, "a to the b; integers wrap, and a negative exponent gives 0 unless a is 1 or -1",
             Overloaded{[](double a, double b) { return std::pow(a, b); }, [](Complex a, Complex b) { return std::pow(a, b); },
                        [](int64_t a, int64_t b) { return integer_power(a, b); }})
          .mistakes(swapped_operands),
  };
}

std::vector<OpDef> extremes_and_quotients() {
  const auto largest = Overloaded{[](double a, double b) { return larger(a, b); },
                                  [](int64_t a, int64_t b) { return larger(a, b); }};
  const auto smallest = Overloaded{[](double a, double b) { return smaller(a, b); },
                                   [](int64_t a, int64_t b) { return smaller(a, b); }};
  return {
      binary("maximum", reals | booleans, Kind::exact, "the larger; NaN wins", largest)
          .commutative()
          .called("the maximum")
          .mistaken_for("extreme", {"minimum"}),
      binary("minimum", reals | booleans, Kind::exact, "the smaller; NaN wins", smallest)
          .commutative()
          .called("the minimum")
          .mistaken_for("extreme", {"maximum"}),
      binary("fmax", reals | booleans, Kind::exact, "the larger; NaN loses",
             Overloaded{[](double a, double b) { return std::fmax(a, b); }, [](int64_t a, int64_t b) { return larger(a, b); }}),
      binary("fmin", reals | booleans, Kind::exact, "the smaller; NaN loses",
             Overloaded{[](double a, double b) { return std::fmin(a, b); }, [](int64_t a, int64_t b) { return smaller(a, b); }}),
      binary("remainder", reals, Kind::relative, "what floor_divide leaves: the sign of b, as Python's %",
             Overloaded{[](double a, double b) {
                          const double rest = std::fmod(a, b);
                          return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
                        },
                        [](int64_t a, int64_t b) {
                          const int64_t rest = truncated_rest(a, nonzero_divisor("remainder", b));
                          return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
                        }})
          .spelled_cpp(Cpp::infix, "%")
          .called("a remainder with the divisor's sign")
          .mistaken_for("rounding mode", {"fmod"}),
      binary("fmod", reals, Kind::relative, "what trunc_divide leaves: the sign of a",
             Overloaded{[](double a, double b) { return std::fmod(a, b); },
                        [](int64_t a, int64_t b) { return truncated_rest(a, nonzero_divisor("fmod", b)); }})
          .called("a remainder with the dividend's sign")
          .mistaken_for("rounding mode", {"remainder"}),
      binary("floor_divide", reals, Kind::relative, "the quotient toward minus infinity",
             Overloaded{[](double a, double b) { return floor_quotient(a, b); },
                        [](int64_t a, int64_t b) {
                          const int64_t quotient = truncated_quotient(a, nonzero_divisor("floor_divide", b));
                          return truncated_rest(a, b) != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
                        }})
          .step()
          .called("division rounded down")
          .mistaken_for("rounding mode", {"trunc_divide"}),
      binary("trunc_divide", reals, Kind::relative, "the quotient toward zero",
             Overloaded{[](double a, double b) { return std::trunc(a / b); },
                        [](int64_t a, int64_t b) { return truncated_quotient(a, nonzero_divisor("trunc_divide", b)); }})
          .step()
          .spelled_torch("torch.div({a}, {b}, rounding_mode='trunc')")
          .called("division rounded toward zero")
          .mistaken_for("rounding mode", {"floor_divide"}),
      binary("atan2", floats, Kind::relative, "the angle of the point (b, a)",
             [](double a, double b) { return std::atan2(a, b); })
          .float_results()
          .mistakes(swapped_operands),
  };
}

std::vector<OpDef> bits_and_parts() {
  return {
      binary("bitwise_and", integers | booleans, Kind::exact, "bits of both; logical and for bool",
             [](int64_t a, int64_t b) { return a & b; })
          .commutative()
          .spelled_cpp(Cpp::infix, "&"),
      binary("bitwise_or", integers | booleans, Kind::exact, "bits of either; logical or for bool",
             [](int64_t a, int64_t b) { return a | b; })
          .commutative()
          .spelled_cpp(Cpp::infix, "|"),
      binary("bitwise_xor", integers | booleans, Kind::exact, "bits of one; logical xor for bool",
             [](int64_t a, int64_t b) { return a ^ b; })
          .commutative()
          .spelled_cpp(Cpp::infix, "^"),
      shift("shift_left", "a << b; 0 when b is not within the width",
            [](int64_t a, int64_t b, int64_t bits) { return b < 0 || b >= bits ? 0 : wrapping(static_cast<uint64_t>(a) << b); })
          .spelled_torch("torch.bitwise_left_shift({a}, {b})"),
      shift("shift_right", "a >> b with the sign filled in, also when b is not within the width",
            [](int64_t a, int64_t b, int64_t bits) { return a >> (b < 0 || b >= bits ? 63 : b); })
          .spelled_torch("torch.bitwise_right_shift({a}, {b})"),
      binary("make_complex", floats, "a + b i; f32 gives c64, f64 gives c128")
          .spelled_torch("torch.complex({a}, {b})")
          .constraint("make_complex_c4", "a is f32 or f64",
                      [](const Call& c) { return c.type("a").dtype == DType::f32 || c.type("a").dtype == DType::f64; })
          .infer([](const Call& c) { return Type{complex_of(c.type("a").dtype), c.shape("a")}; })
          .evaluator([](const Evaluation& ev) {
            return map_as<double>(ev, [](double a, double b) { return Complex(a, b); }, ev.array("a"), ev.array("b"));
          }),
  };
}

}  // namespace

std::vector<OpDef> elementwise_ops() {
  std::vector<OpDef> ops;
  for (auto family : {same_type_ops, unary_with_own_type, sums_and_products, extremes_and_quotients, bits_and_parts}) {
    for (OpDef& op : family()) ops.push_back(std::move(op));
  }
  return formulas(std::move(ops));
}

}  // namespace pycandle
