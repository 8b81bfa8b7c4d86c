// Special functions and number theory: each row of a table is a primitive and torch's names for it.
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/core/constraints.h"
#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"
#include "ops/elementwise/special_functions.h"

namespace pycandle {
namespace {

// ---- one operand; integers and bools become f32 first

struct Unary {
  const char* name;
  std::vector<const char*> aten;  // aten.<name>.default
  double (*value)(double);
  const char *doc, *sample;
};

const Unary kUnary[] = {
    {"i0",
     {"i0", "special_i0", "special_modified_bessel_i0"},
     [](double v) { return bessel_i(0, v, false); },
     "modified Bessel function of order 0",
     "torch.special.i0(t(9) * 4)"},
    {"i0e", {"special_i0e"}, [](double v) { return bessel_i(0, v, true); }, "exp(-|x|) i0(x)", "torch.special.i0e(t(9) * 20)"},
    {"i1",
     {"special_i1", "special_modified_bessel_i1"},
     [](double v) { return bessel_i(1, v, false); },
     "modified Bessel function of order 1",
     "torch.special.i1(t(9) * 4)"},
    {"i1e", {"special_i1e"}, [](double v) { return bessel_i(1, v, true); }, "exp(-|x|) i1(x)", "torch.special.i1e(t(9) * 20)"},
    {"erfcx", {"special_erfcx"}, erfcx, "exp(x²) erfc(x)", "torch.special.erfcx(t(9, low=-2, high=30))"},
    {"log_ndtr",
     {"special_log_ndtr"},
     log_ndtr,
     "logarithm of the normal distribution function",
     "torch.special.log_ndtr(t(9) * 9)"},
    {"ndtri",
     {"special_ndtri"},
     ndtri,
     "inverse of the normal distribution function",
     "torch.special.ndtri(t(9, low=0, high=1))"},
    {"entr", {"special_entr"}, entr, "-x log x; 0 at 0, -inf below", "torch.special.entr(t(9))"},
};

OpDef unary(const Unary& row) {
  OpDef def = primitive(row.name);
  def.doc(row.doc)
      .operands("x")
      .constraint(std::string(row.name) + "_c1", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
      .infer([](const Call& c) { return c.type("x"); })
      .rounds(Rounding::relative)
      .evaluator([f = row.value](const Evaluation& ev) { return map_as<double>(ev, f, ev.array("x")); });
  for (const char* name : row.aten)
    def.from_aten_call(std::string("aten.") + name + ".default", [op = row.name](AtenCall& c) -> Values {
      const ValueId x = c.tensor("self");
      return {c.b.unary(op, c.b.cast(x, float_result(c.b.dtype(x))))};
    });
  return def.sample(row.sample);
}

OpDef polygamma_op() {
  OpDef def = primitive("polygamma")
                  .doc("n-th derivative of digamma")
                  .operands("x")
                  .attributes(attr<int64_t>("n"))
                  .constraint("polygamma_c1", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
                  .constraint("polygamma_c2", "n is not negative", [](const Call& c) { return c.integer("n") >= 0; })
                  .infer([](const Call& c) { return c.type("x"); })
                  .rounds(Rounding::relative)
                  .evaluator([](const Evaluation& ev) {
                    const int64_t n = ev.integer("n");
                    return map_as<double>(ev, [n](double v) { return polygamma(n, v); }, ev.array("x"));
                  });
  for (const char* name : {"polygamma", "special_polygamma"})
    def.from_aten_call(std::string("aten.") + name + ".default", [](AtenCall& c) -> Values {
      const ValueId x = c.tensor("self");
      return {c.b.create("polygamma", {c.b.cast(x, float_result(c.b.dtype(x)))}, {{"n", c.integer("n")}})};
    });
  return def.sample("torch.polygamma(1, t(9))")
      .sample("torch.polygamma(3, t(9).abs())")
      .sample("torch.polygamma(0, i(9, low=1, high=9))");
}

// pi (p - 1) p / 4 + the sum over j < p of lgamma(x - j / 2)
OpDef multivariate_gamma() {
  OpDef def = mapping("lgamma");
  for (const char* name : {"mvlgamma", "special_multigammaln"})
    def.from_aten_call(std::string("aten.") + name + ".default", [](AtenCall& c) -> Values {
      Builder& b = c.b;
      const ValueId x = c.tensor("self"), wide = b.widened(b.cast(x, float_result(b.dtype(x))));
      const int64_t p = c.integer("p");
      if (p < 1 || p > 4096) c.unsupported("p=" + std::to_string(p));
      ValueId sum = b.full(static_cast<double>(p * (p - 1)) / 4 * std::log(std::numbers::pi), b.dtype(wide));
      for (int64_t j = 0; j < p; ++j) sum = b.add(sum, b.unary("lgamma", b.sub(wide, static_cast<double>(j) / 2)));
      return {b.narrowed(sum, float_result(b.dtype(x)))};
    });
  return def.sample("torch.mvlgamma(t(9).abs() + 3, 3)");
}

// (1 + erf(x / sqrt 2)) / 2, step by step as torch, whose result is 0 far out on the left.
OpDef normal_distribution() {
  return mapping("erf")
      .from_aten_call("aten.special_ndtr.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        const ValueId x = c.tensor("self");
                        const ValueId scaled = b.mul(b.cast(x, float_result(b.dtype(x))), std::numbers::sqrt2 / 2);
                        return {b.mul(b.add(b.unary("erf", scaled), 1.0), 0.5)};
                      })
      .sample("torch.special.ndtr(t(9) * 3)")
      .sample("torch.special.ndtr(t(9) * 9)");
}

// ---- two operands

OpDef real_binary(const char* name, const char* doc, double (*value)(double, double), const std::vector<const char*>& overloads) {
  OpDef def = binary_primitive(name, floats, doc);
  def.rounds(Rounding::relative).evaluator([value](const Evaluation& ev) {
    return map_as<double>(ev, value, ev.array("a"), ev.array("b"));
  });
  for (const char* overload : overloads)
    def.from_aten_call(overload, [op = std::string(name)](AtenCall& c) -> Values {
      const Operand self = c.operand("self"), other = c.operand("other");
      return {c.b.create(op, promote_and_broadcast(c.b, {self, other}, float_result(result_type(c.b, {self, other}))))};
    });
  return def;
}

OpDef integer_binary(const char* name, const char* doc, int64_t (*value)(int64_t, int64_t)) {
  return binary_primitive(name, integers, doc)
      .evaluator([value](const Evaluation& ev) { return map_as<int64_t>(ev, value, ev.array("a"), ev.array("b")); })
      .from_aten_call(std::string("aten.") + name + ".default", [op = std::string(name)](AtenCall& c) -> Values {
        return {c.b.create(op, promote_and_broadcast(c.b, {c.operand("self"), c.operand("other")}))};
      });
}

uint64_t magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }
int64_t greatest_divisor(int64_t a, int64_t b) { return wrapping(std::gcd(magnitude(a), magnitude(b))); }
int64_t least_multiple(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const int64_t multiple = product_of(a / greatest_divisor(a, b), b);
  return multiple < 0 ? difference_of<int64_t>(0, multiple) : multiple;
}

// The neighbour of a float with these bits, one step up or down.
template <class Bits> Bits neighbour(Bits bits, bool up) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  if ((bits & static_cast<Bits>(~kSign)) == 0) return static_cast<Bits>(up ? 1 : kSign | 1);
  const bool grows = ((bits & kSign) == 0) == up;
  return static_cast<Bits>(grows ? bits + 1 : bits - 1);
}
double next_after(double a, double b, DType dtype) {
  if (is_nan(a) || is_nan(b)) return a + b;
  if (a == b) return b;
  const bool up = b > a;
  switch (dtype) {
    case DType::f16: return from_f16(neighbour(to_f16(a), up));
    case DType::bf16: return from_bf16(neighbour(to_bf16(a), up));
    case DType::f32: return std::bit_cast<float>(neighbour(std::bit_cast<uint32_t>(static_cast<float>(a)), up));
    default: return std::bit_cast<double>(neighbour(std::bit_cast<uint64_t>(a), up));
  }
}

OpDef nextafter() {
  return binary_primitive("nextafter", floats, "the next number after a in the direction of b, among those of the dtype")
      .evaluator([](const Evaluation& ev) {
        const DType dtype = ev.array("a").dtype();
        return map_as<double>(ev, [dtype](double a, double b) { return next_after(a, b, dtype); }, ev.array("a"), ev.array("b"));
      })
      .from_aten_call("aten.nextafter.default",
                      [](AtenCall& c) -> Values {
                        return {c.b.create("nextafter", promote_and_broadcast(c.b, {c.operand("self"), c.operand("other")}))};
                      })
      .sample("torch.nextafter(t(2, 9), t(9))")
      .sample("torch.nextafter(torch.tensor([0.0, -0.0, 1.0, float('inf')]), torch.tensor([1.0, -1.0, 1.0, 0.0]))");
}

// ---- powers of two

OpDef frexp() {
  return primitive("frexp")
      .doc("x = mantissa * 2^exponent, with the mantissa's size from 0.5 to 1")
      .operands("x")
      .constraint("frexp_c1", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
      .infer_all([](const Call& c) { return std::vector<Type>{c.type("x"), {DType::i32, c.shape("x")}}; })
      .evaluator_all([](const Evaluation& ev) {
        const Array& x = ev.array("x");
        Array mantissas(ev.out_dtype(0), x.shape()), exponents(DType::i32, x.shape());
        for_chunks(x.size(), [&](int64_t first, int64_t count) {
          std::array<double, kChunk> values;
          std::array<int64_t, kChunk> powers;
          load_chunk(x, first, count, values.data());
          for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
            int exponent = 0;
            values[i] = std::frexp(values[i], &exponent);
            powers[i] = std::isfinite(values[i]) ? exponent : 0;
          }
          store_chunk(mantissas, first, count, values.data());
          store_chunk(exponents, first, count, powers.data());
        });
        return std::vector<Array>{mantissas, exponents};
      })
      .from_aten("aten.frexp.Tensor(x)")
      .sample("torch.frexp(t(9) * 100)")
      .sample("torch.frexp(torch.tensor([0.0, -0.0, 1e-40, 3.0]))");
}

OpDef ldexp() {
  return mapping("mul")
      .from_aten_call("aten.ldexp.Tensor",
                      [](AtenCall& c) -> Values {
                        const Operand self = c.operand("self"), other = c.operand("other");
                        const DType dtype = c.result().dtype;
                        const Values v = promote_and_broadcast(c.b, {self, other}, wide_of(dtype));
                        return {c.b.narrowed(c.b.mul(v[0], c.b.unary("exp2", v[1])), dtype)};
                      })
      .sample("torch.ldexp(t(5), i(5, low=-3, high=5))")
      .sample("torch.ldexp(t(5), torch.tensor(3))");
}

}  // namespace

std::vector<OpDef> special_ops() {
  std::vector<OpDef> ops;
  for (const Unary& row : kUnary) ops.push_back(unary(row));
  ops.push_back(real_binary("zeta", "Hurwitz zeta function: the sum of (k + b)^-a", zeta,
                            {"aten.special_zeta.default", "aten.special_zeta.other_scalar", "aten.special_zeta.self_scalar"})
                    .sample("torch.special.zeta(t(9).abs() + 1.5, t(9).abs())")
                    .sample("torch.special.zeta(i(9, low=0, high=4), 2.5)"));
  ops.push_back(real_binary("igamma", "lower incomplete gamma function of order a, regularised", igamma,
                            {"aten.igamma.default", "aten.special_gammainc.default"})
                    .sample("torch.igamma(t(9).abs() * 3, t(9).abs() * 3)"));
  ops.push_back(real_binary("igammac", "upper incomplete gamma function of order a, regularised", igammac,
                            {"aten.igammac.default", "aten.special_gammaincc.default"})
                    .sample("torch.igammac(t(9).abs() * 3, t(9).abs() * 3)"));
  ops.push_back(integer_binary("gcd", "greatest common divisor, not negative", greatest_divisor)
                    .sample("torch.gcd(i(9, low=-20, high=20), i(9, low=-20, high=20))"));
  ops.push_back(integer_binary("lcm", "least common multiple, not negative", least_multiple)
                    .sample("torch.lcm(i(3, 9, low=-20, high=20), i(9, low=-20, high=20, dtype=torch.int32))"));
  for (OpDef (*op)() : {polygamma_op, multivariate_gamma, normal_distribution, nextafter, frexp, ldexp}) ops.push_back(op());
  return ops;
}

}  // namespace pycandle
