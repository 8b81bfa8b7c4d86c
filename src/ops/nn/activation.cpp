// Activations. Each is a formula over one tensor, computed wide and rounded once.
#include <cmath>
#include <numbers>

#include "ir/fragment.h"
#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

using Formula = std::function<ValueId(Builder&, const Call&, ValueId x)>;

// y of the type of x. `kinds`: the dtypes that torch takes.
OpDef activation(const std::string& name, const char* text, unsigned kinds, Formula formula) {
  return functional(name)
      .doc(text)
      .operands("x")
      .constraint(name + "_c1", "x is " + text_of_kinds(kinds),
                  [kinds](const Call& c) { return is_one_of(c.type("x").dtype, kinds); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([formula = std::move(formula)](Builder& b, const Call& c) {
        return b.narrowed(formula(b, c, b.widened(c.value("x"))), c.type("x").dtype);
      })
      .pointwise();
}

// Another spelling of it.
void written_as(OpDef& op, Formula formula) {
  op.also_written_as([formula = std::move(formula)](Builder& b, const Call& c) {
    return b.narrowed(formula(b, c, b.widened(c.value("x"))), c.type("x").dtype);
  });
}

ValueId clamped(Builder& b, ValueId x, double low, double high) { return b.minimum(b.maximum(x, low), high); }

OpDef relu() {
  return activation("relu", "max(x, 0)", reals, [](Builder& b, const Call&, ValueId x) { return b.maximum(x, 0.0); })
      .from_aten("aten.relu.default(x)")
      .sample("F.relu(t(3, 4))")
      .sample("F.relu(i(3, 4, low=-5, high=5))")
      .sample("F.relu(torch.where(m(3, 4), t(3, 4), float('nan')))")
      .spelled_torch("F.relu({x})")
      .nn("ReLU", no_arguments)
      .called("ReLU")
      .activation();
}

OpDef relu6() {
  return activation("relu6", "x between 0 and 6", reals, [](Builder& b, const Call&, ValueId x) { return clamped(b, x, 0, 6); })
      .from_aten("aten.relu6.default(x)")
      .sample("F.relu6(t(3, 4) * 5)")
      .sample("F.relu6(i(3, 4, low=-9, high=9))")
      .spelled_torch("F.relu6({x})")
      .nn("ReLU6", no_arguments)
      .called("ReLU6")
      .activation();
}

OpDef hardtanh() {
  return activation("hardtanh", "x between min_val and max_val", reals,
                    [](Builder& b, const Call& c, ValueId x) {
                      const auto bound = [&](const char* name) {  // of integers: toward zero
                        return materialise(b, c.scalar(name), b.dtype(x));
                      };
                      const ValueId low = bound("min_val");
                      return b.minimum(b.maximum(x, low), bound("max_val"));
                    })
      .attributes(attr<Scalar>("min_val", int64_t{-1}), attr<Scalar>("max_val", int64_t{1}))
      .from_aten("aten.hardtanh.default(x, min_val, max_val)")
      .sample("F.hardtanh(t(3, 4))")
      .sample("F.hardtanh(t(3, 4), -0.5, 0.25)")
      .sample("F.hardtanh(i(3, 4, low=-9, high=9), -3, 5)")
      .sample("F.hardtanh(i(3, 4, low=-9, high=9), -1.7, 2.5)")
      .spelled_torch("F.hardtanh({x}, {min_val}, {max_val})")
      .nn("Hardtanh", [](const LayerCall& l) -> LayerArguments {
        const Attribute &low = l.attribute("min_val"), &high = l.attribute("max_val");
        if (!std::holds_alternative<double>(low) || !std::holds_alternative<double>(high)) return {};
        return {{option("min_val", low, -1.0), option("max_val", high, 1.0)}};
      });
}

// The cubic of tanh GELU, z = sqrt(2 / pi) * (x + 0.044715 * x³), as people write it; the first is torch's.
using Cubic = ValueId (*)(Builder&, ValueId x);
constexpr double kCube = 0.044715;
const double kSlope = std::sqrt(2 / std::numbers::pi);
const Cubic kCubics[] = {
    [](Builder& b, ValueId x) { return b.mul(b.add(x, b.mul(b.mul(b.square(x), x), kCube)), kSlope); },
    [](Builder& b, ValueId x) { return b.mul(b.add(x, b.mul(b.pow(x, 3.0), kCube)), kSlope); },
    [](Builder& b, ValueId x) { return b.mul(b.add(x, b.mul(b.mul(b.mul(x, kCube), x), x)), kSlope); },
    [](Builder& b, ValueId x) { return b.mul(b.add(x, b.mul(b.mul(x, kCube), b.square(x))), kSlope); },
    [](Builder& b, ValueId x) { return b.mul(b.mul(x, kSlope), b.add(b.mul(b.mul(x, kCube), x), 1.0)); },
    [](Builder& b, ValueId x) { return b.mul(b.mul(x, kSlope), b.add(b.mul(b.square(x), kCube), 1.0)); },
    [](Builder& b, ValueId x) { return b.mul(b.mul(x, b.add(b.mul(b.square(x), kCube), 1.0)), kSlope); },
};

ValueId erf_gelu(Builder& b, ValueId x, ValueId argument) { return b.mul(b.mul(x, 0.5), b.add(b.erf(argument), 1.0)); }
ValueId tanh_gelu(Builder& b, ValueId x, ValueId argument) { return b.mul(b.mul(x, 0.5), b.add(b.tanh(argument), 1.0)); }
bool is_exact(const Call& c) { return c.string("approximate") == "none"; }

constexpr const char* kGeluForm = "gelu form";

OpDef gelu() {
  OpDef op = activation("gelu", "x times the normal distribution function of x, exact or by tanh", floats,
                        [](Builder& b, const Call& c, ValueId x) {
                          return is_exact(c) ? erf_gelu(b, x, b.mul(x, std::numbers::sqrt2 / 2))
                                             : tanh_gelu(b, x, kCubics[0](b, x));
                        })
                 .attributes(attr<std::string>("approximate", std::string("none")))
                 .constraint("gelu_c2", "approximate is none or tanh",
                             [](const Call& c) { return is_exact(c) || c.string("approximate") == "tanh"; })
                 .from_aten("aten.gelu.default(x, approximate)")
                 .sample("F.gelu(t(30, 4) * 2)")
                 .sample("F.gelu(t(30, 4) * 2, approximate='tanh')")
                 .spelled_torch("F.gelu({x}, approximate={approximate})")
                 .nn("GELU",
                     [](const LayerCall& l) -> LayerArguments {
                       return {{option("approximate", l.attribute("approximate"), std::string("none"))}};
                     })
                 .called("the erf GELU", {{"approximate", std::string("none")}}, kGeluForm)
                 .called("the tanh GELU", {{"approximate", std::string("tanh")}}, kGeluForm)
                 .activation()
                 .recognised([](const Type&) {
                   return std::vector<Attributes>{{{"approximate", std::string("none")}}, {{"approximate", std::string("tanh")}}};
                 });
  written_as(op, [](Builder& b, const Call& c, ValueId x) {
    return is_exact(c) ? erf_gelu(b, x, b.div(x, std::numbers::sqrt2)) : tanh_gelu(b, x, kCubics[1](b, x));
  });
  written_as(op, [](Builder& b, const Call& c, ValueId x) {
    if (is_exact(c)) return b.mul(b.mul(x, 0.5), b.unary("erfc", b.neg(b.div(x, std::numbers::sqrt2))));
    return b.mul(x, b.sigmoid(b.mul(kCubics[0](b, x), 2.0)));
  });
  for (size_t i = 2; i < std::size(kCubics); ++i) {
    written_as(op, [i](Builder& b, const Call& c, ValueId x) {
      return is_exact(c) ? erf_gelu(b, x, b.mul(x, std::numbers::sqrt2 / 2)) : tanh_gelu(b, x, kCubics[i](b, x));
    });
  }
  return op;
}

// As CLIP has it.
OpDef quick_gelu() {
  return activation("quick_gelu", "x * sigmoid(1.702 * x)", floats,
                    [](Builder& b, const Call&, ValueId x) { return b.mul(x, sigmoid_value(b, b.mul(x, 1.702))); })
      .called("the sigmoid GELU", {}, kGeluForm)
      .activation()
      .recognised();
}

OpDef sigmoid() {
  const auto build = [](AtenCall& a) {
    const ValueId x = a.tensor("self");
    return a.b.create_all("sigmoid", {a.b.cast(x, float_result(a.b.dtype(x)))});
  };
  return activation("sigmoid", "1 / (1 + exp(-x))", inexact,
                    [](Builder& b, const Call&, ValueId x) { return sigmoid_value(b, x); })
      .from_aten_call("aten.sigmoid.default", build)
      .from_aten_call("aten.special_expit.default", build)
      .sample("torch.sigmoid(t(3, 4) * 5)")
      .sample("torch.sigmoid(t(3, 4) * 100)")
      .sample("torch.sigmoid(i(3, 4, low=-5, high=5))")
      .sample("torch.sigmoid(m(3, 4))")
      .spelled_torch("torch.sigmoid({x})")
      .nn("Sigmoid", no_arguments)
      .called("a sigmoid")
      .activation()
      .recognised();
}

OpDef silu() {
  OpDef op = activation("silu", "x * sigmoid(x)", inexact,
                        [](Builder& b, const Call&, ValueId x) { return b.div(x, b.add(b.exp(b.neg(x)), 1.0)); })
                 .from_aten("aten.silu.default(x)")
                 .sample("F.silu(t(3, 4) * 5)")
                 .sample("F.silu(t(3, 4, dtype=torch.complex64))")
                 .spelled_torch("F.silu({x})")
                 .nn("SiLU", no_arguments)
                 .called("SiLU")
                 .activation()
                 .recognised();
  written_as(op, [](Builder& b, const Call&, ValueId x) { return b.mul(x, sigmoid_value(b, x)); });
  return op;
}

OpDef mish() {
  OpDef op = activation("mish", "x * tanh(log(1 + exp(x)))", floats,
                        [](Builder& b, const Call&, ValueId x) { return b.mul(x, b.tanh(b.unary("log1p", b.exp(x)))); })
                 .from_aten("aten.mish.default(x)")
                 .sample("F.mish(t(3, 4) * 5)")
                 .sample("F.mish(t(3, 4) * 100)")
                 .spelled_torch("F.mish({x})")
                 .nn("Mish", no_arguments)
                 .called("Mish")
                 .activation()
                 .recognised();
  written_as(op, [](Builder& b, const Call&, ValueId x) { return b.mul(x, b.tanh(b.create("softplus", {x}))); });
  written_as(op, [](Builder& b, const Call&, ValueId x) { return b.mul(x, b.tanh(b.log(b.add(b.exp(x), 1.0)))); });
  return op;
}

// x + sin(alpha * x)² / (beta + eps): DAC, and BigVGAN with a beta of its own.
std::vector<Proposal> propose_snake(const Fragment& f) {
  const auto small = [&](ValueId v) { return f.behind(v, {"broadcast"}); };
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = f.operand(f.result(), i), wave = f.operand(f.result(), 1 - i);
    const ValueId angle = f.operand(f.nearest(wave, {"sin"}), 0);
    const ValueId quotient = f.nearest(wave, {"div", "reciprocal"});
    if (!f.is(angle, "mul") || quotient == kNoValue) continue;
    const ValueId a = f.operand(angle, 0), b = f.operand(angle, 1);
    if (a != x && b != x) continue;
    const ValueId alpha = small(a == x ? b : a);
    ValueId beta = small(f.operand(quotient, f.is(quotient, "div") ? 1 : 0));
    double eps = 0;
    if (const auto sum = f.is(beta, "add") ? f.with_number(beta) : std::nullopt) {
      eps = sum->first;
      beta = small(sum->second);
    }
    return {{{x, alpha, beta == alpha ? kNoValue : beta}, {{"eps", eps}}, {}}};
  }
  return {};
}

using Wave = ValueId (*)(Builder&, ValueId square, ValueId divisor);
ValueId snake_value(Builder& b, const Call& c, Wave wave) {
  const ValueId x = c.value("x"), alpha = c.value("alpha");
  ValueId divisor = c.maybe("beta").value_or(alpha);
  if (c.number("eps") != 0) divisor = b.add(divisor, c.number("eps"));
  return b.add(x, wave(b, b.square(b.unary("sin", b.mul(x, alpha))), divisor));
}

// Not through activation(): torch has no such op, so models write it out and round every step.
OpDef snake() {
  const auto fits = [](const Call& c, const char* name) {
    if (!c.has(name)) return true;
    const Shape &small = c.shape(name), &x = c.shape("x");
    bool agrees = c.type(name).dtype == c.type("x").dtype && small.size() <= x.size();
    for (size_t i = 1; agrees && i <= small.size(); ++i) {
      const Dim size = small[small.size() - i];
      agrees = size == Dim(1) || c.agree(size, x[x.size() - i]);
    }
    return agrees;
  };
  return functional("snake")
      .doc("x + sin(alpha * x)² / (beta + eps); without beta it is alpha")
      .operands("x", "alpha", optional("beta"))
      .attributes(attr<double>("eps", 0.0))
      .constraint("snake_c1", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
      .constraint("snake_c2", "alpha and beta have the dtype of x and broadcast to it",
                  [fits](const Call& c) { return fits(c, "alpha") && fits(c, "beta"); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        return snake_value(b, c,
                           [](Builder& b2, ValueId square, ValueId divisor) { return b2.mul(b2.div(1.0, divisor), square); });
      })
      .also_written_as([](Builder& b, const Call& c) {
        return snake_value(b, c, [](Builder& b2, ValueId square, ValueId divisor) { return b2.div(square, divisor); });
      })
      .recognised_at({"add"}, propose_snake)
      .mistakes([](Mistakes& m) { m.number("epsilon", "eps", "an epsilon", kEpsilons, {0, 1e-9, 1e-3}); })
      .pointwise();
}

OpDef softplus() {
  return activation("softplus", "log(1 + exp(beta * x)) / beta, and x itself above the threshold", floats,
                    [](Builder& b, const Call& c, ValueId x) {
                      const double beta = as_double(c.scalar("beta"));
                      const ValueId scaled = b.mul(x, beta);
                      return b.select(b.compare("gt", scaled, as_double(c.scalar("threshold"))), x,
                                      b.div(b.unary("log1p", b.exp(scaled)), beta));
                    })
      .attributes(attr<Scalar>("beta", int64_t{1}), attr<Scalar>("threshold", int64_t{20}))
      .from_aten("aten.softplus.default(x, beta, threshold)")
      .sample("F.softplus(t(3, 4) * 20)")
      .sample("F.softplus(t(3, 4), beta=2.5, threshold=1)")
      .spelled_torch("F.softplus({x}, {beta}, {threshold})")
      .called("softplus")
      .activation()
      .mistakes([](Mistakes& m) {
        m.number("softplus threshold", "threshold", "a threshold", {-20, -5, -2, 0, 1, 2, 5, 10, 20, 50}, {20, 10, 5, 1, 0});
        m.number("softplus beta", "beta", "a beta", kFactors, {1, 2, 0.5, 10});
      });
}

OpDef hardsigmoid() {
  return activation("hardsigmoid", "x + 3 between 0 and 6, over 6", floats,
                    [](Builder& b, const Call&, ValueId x) { return b.div(clamped(b, b.add(x, 3.0), 0, 6), 6.0); })
      .from_aten("aten.hardsigmoid.default(x)")
      .sample("F.hardsigmoid(t(3, 4) * 4)")
      .spelled_torch("F.hardsigmoid({x})")
      .nn("Hardsigmoid", no_arguments)
      .called("hardsigmoid")
      .activation()
      .recognised();
}

OpDef hardswish() {
  OpDef op = activation("hardswish", "x * hardsigmoid(x)", floats,
                        [](Builder& b, const Call&, ValueId x) { return b.div(b.mul(x, clamped(b, b.add(x, 3.0), 0, 6)), 6.0); })
                 .from_aten("aten.hardswish.default(x)")
                 .sample("F.hardswish(t(3, 4) * 4)")
                 .spelled_torch("F.hardswish({x})")
                 .nn("Hardswish", no_arguments)
                 .called("hardswish")
                 .activation()
                 .recognised();
  written_as(op, [](Builder& b, const Call&, ValueId x) { return b.mul(x, b.div(clamped(b, b.add(x, 3.0), 0, 6), 6.0)); });
  return op;
}

ValueId leaky(Builder& b, ValueId x, ValueId scaled) { return b.select(b.compare("gt", x, 0.0), x, scaled); }

OpDef leaky_relu() {
  return activation(
             "leaky_relu", "x where positive, else x * negative_slope", floats,
             [](Builder& b, const Call& c, ValueId x) { return leaky(b, x, b.mul(x, as_double(c.scalar("negative_slope")))); })
      .attributes(attr<Scalar>("negative_slope", 0.01))
      .from_aten("aten.leaky_relu.default(x, negative_slope)")
      .from_aten_call(
          "aten.rrelu.default",
          [](AtenCall& a) -> Values {
            Builder& b = a.b;
            a.discard("generator", "random values are not torch's in any case");
            const ValueId x = a.tensor("self");
            const double lower = as_double(a.scalar("lower")), upper = as_double(a.scalar("upper"));
            if (!(lower <= upper))
              throw Error(ErrorCode::bad_input, "the slopes of rrelu are in the wrong order").expected("lower <= upper");
            if (!a.boolean("training")) return {b.create("leaky_relu", {x}, {{"negative_slope", (lower + upper) / 2}})};
            const ValueId wide = b.widened(x);
            const ValueId noise = b.create("uniform", {}, {{"shape", b.shape(x)}, {"dtype", b.dtype(wide)}});
            const ValueId slope = b.add(b.mul(noise, upper - lower), lower);
            return {b.narrowed(leaky(b, wide, b.mul(wide, slope)), b.dtype(x))};
          })
      .sample("F.leaky_relu(t(3, 4))")
      .sample("F.leaky_relu(t(3, 4), 0.3)")
      .sample("F.rrelu(t(3, 4), 0.1, 0.5)")
      .spelled_torch("F.leaky_relu({x}, {negative_slope})")
      .nn("LeakyReLU",
          [](const LayerCall& l) -> LayerArguments { return {{required("negative_slope", l.attribute("negative_slope"))}}; })
      .called("leaky ReLU", {{"negative_slope", 0.01}})
      .activation()
      .mistakes([](Mistakes& m) { m.number("slope", "negative_slope", "a slope", {0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5}); });
}

bool is_one(const Call& c, const char* name) { return as_double(c.scalar(name)) == 1; }

OpDef elu() {
  return activation("elu", "scale * x where positive, else scale * alpha * (exp(input_scale * x) - 1)", floats,
                    [](Builder& b, const Call& c, ValueId x) {
                      const double alpha = as_double(c.scalar("alpha")), scale = as_double(c.scalar("scale"));
                      const ValueId low = b.mul(b.unary("expm1", b.mul(x, as_double(c.scalar("input_scale")))), alpha * scale);
                      return b.select(b.compare("le", x, 0.0), low, b.mul(x, scale));
                    })
      .attributes(attr<Scalar>("alpha", int64_t{1}), attr<Scalar>("scale", int64_t{1}), attr<Scalar>("input_scale", int64_t{1}))
      .from_aten("aten.elu.default(x, alpha, scale, input_scale)")
      .from_aten_call("aten.celu.default",
                      [](AtenCall& a) {
                        const double alpha = as_double(a.scalar("alpha"));
                        return a.b.create_all("elu", {a.tensor("self")}, {{"alpha", alpha}, {"input_scale", 1 / alpha}});
                      })
      .from_aten_call("aten.selu.default",
                      [](AtenCall& a) {
                        return a.b.create_all(
                            "elu", {a.tensor("self")},
                            {{"alpha", 1.6732632423543772848170429916717}, {"scale", 1.0507009873554804934193349852946}});
                      })
      .sample("F.elu(t(3, 4), 0.7)")
      .sample("F.celu(t(3, 4), 0.7)")
      .sample("F.selu(t(3, 4))")
      .spelled_torch("F.elu({x}, {alpha})", [](const Call& c) { return is_one(c, "scale") && is_one(c, "input_scale"); })
      .nn("ELU",
          [](const LayerCall& l) -> LayerArguments {
            if (!is_one(l.call(), "scale") || !is_one(l.call(), "input_scale")) return {};
            return {{required("alpha", l.attribute("alpha"))}};
          })
      .called("ELU")
      .activation()
      .mistakes([](Mistakes& m) { m.number("slope", "alpha", "an alpha", kFactors); });
}

OpDef prelu() {
  return functional("prelu")
      .doc("x where positive, else x * weight; weight has one entry, or one a channel")
      .operands("x", "weight")
      .constraint("prelu_c1", "x and weight are floating and have one dtype",
                  [](const Call& c) { return is_floating(c.type("x").dtype) && c.type("x").dtype == c.type("weight").dtype; })
      .constraint("prelu_c2", "weight is a number or a vector of one entry or one a channel",
                  [](const Call& c) {
                    if (c.rank("weight") == 0 || c.shape("weight") == Shape{Dim(1)}) return true;
                    return c.rank("weight") == 1 && c.rank("x") >= 2 && c.agree(c.shape("weight")[0], c.shape("x")[1]);
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x"));
        ValueId weight = b.widened(c.value("weight"));
        if (b.rank(weight) == 1 && b.rank(x) >= 2) weight = along_axis(b, weight, 1, b.rank(x));
        if (b.rank(x) == 0) weight = b.reshape(weight, {});
        return b.narrowed(leaky(b, x, b.mul(x, weight)), c.type("x").dtype);
      })
      .from_aten("aten.prelu.default(x, weight)")
      .from_aten_call("aten._prelu_kernel.default",  // weight broadcasts
                      [](AtenCall& a) -> Values {
                        const ValueId x = a.tensor("self"), wide = a.b.widened(x);
                        const ValueId scaled = a.b.mul(wide, a.b.widened(a.tensor("weight")));
                        return {a.b.narrowed(leaky(a.b, wide, scaled), a.b.dtype(x))};
                      })
      .sample("F.prelu(t(2, 3, 4), t(3))")
      .sample("F.prelu(t(2, 3, 4), t(1))")
      .sample("F.prelu(t(5), t(1))")
      .spelled_torch("F.prelu({x}, {weight})")
      .nn("PReLU",
          [](const LayerCall& l) -> LayerArguments {
            if (!l.is_own("weight")) return {};
            return {{required("num_parameters", l.size("weight", 0))}};
          })
      .pointwise();
}

OpDef glu() {
  return functional("glu")
      .doc("the first half of an axis times sigmoid of the second")
      .operands("x")
      .attributes(attr<int64_t>("dim", int64_t{-1}))
      .constraint("glu_c1", "dim is an axis of x whose size is even",
                  [](const Call& c) {
                    const int64_t rank = c.rank("x"), dim = c.integer("dim");
                    return rank > 0 && axis_fits(dim, rank) && c.agree(mod(c.shape("x")[axis_of(dim, rank)], Dim(2)), Dim(0));
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        Dim& size = y.shape[axis_of(c.integer("dim"), y.rank())];
        size = floordiv(size, Dim(2));
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x"));
        const int64_t axis = axis_of(c.integer("dim"), b.rank(x));
        const Dim size = b.shape(x)[axis], half = floordiv(size, Dim(2));
        return b.narrowed(b.mul(b.slice(x, axis, 0, half), sigmoid_value(b, b.slice(x, axis, half, size))), c.type("x").dtype);
      })
      .from_aten("aten.glu.default(x, dim)")
      .sample("F.glu(t(3, 4))")
      .sample("F.glu(t(3, 4, 5), 1)")
      .spelled_torch("F.glu({x}, {dim})")
      .recognised([](const Type& x) {
        std::vector<Attributes> calls;
        for (int64_t axis = 0; axis < x.rank(); ++axis) {
          const Dim size = x.shape[axis];
          if (equal(mod(size, Dim(2)), Dim(0)) == Tri::yes) calls.push_back({{"dim", axis == x.rank() - 1 ? -1 : axis}});
        }
        return calls;
      });
}

OpDef threshold() {
  return activation("threshold", "x where above the threshold, else value", reals,
                    [](Builder& b, const Call& c, ValueId x) {
                      return b.select(b.compare("le", x, b.full(c.scalar("threshold"), b.dtype(x))),
                                      b.full(c.scalar("value"), b.dtype(x)), x);
                    })
      .attributes(attr<Scalar>("threshold"), attr<Scalar>("value"))
      .from_aten("aten.threshold.default(x, threshold, value)")
      .sample("F.threshold(t(3, 4), 0.1, 20.0)")
      .sample("F.threshold(i(3, 4, low=-5, high=5), 1, -7)")
      .spelled_torch("F.threshold({x}, {threshold}, {value})");
}

OpDef log_sigmoid() {
  return activation("log_sigmoid", "log(sigmoid(x))", floats,
                    [](Builder& b, const Call&, ValueId x) {
                      return b.sub(b.minimum(x, 0.0), b.unary("log1p", b.exp(b.neg(b.abs(x)))));
                    })
      .from_aten("aten.log_sigmoid.default(x)")
      .from_aten_call("aten.log_sigmoid_forward.default",  // its second result is for training
                      [](AtenCall& a) { return a.b.create_all("log_sigmoid", {a.tensor("self")}); })
      .sample("F.logsigmoid(t(3, 4) * 20)")
      .spelled_torch("F.logsigmoid({x})")
      .nn("LogSigmoid", no_arguments)
      .called("log of a sigmoid")
      .activation();
}

OpDef logit() {
  const auto build = [](AtenCall& a) {
    const ValueId x = a.tensor("self");
    const auto eps = a.maybe_number("eps");
    return a.b.create_all("logit", {a.b.cast(x, float_result(a.b.dtype(x)))}, {{"eps", eps ? Attribute(*eps) : Attribute()}});
  };
  // Not through activation(): torch rounds every step to the dtype of x.
  return functional("logit")
      .doc("log(x / (1 - x)), x first kept eps away from 0 and 1")
      .operands("x")
      .attributes(optional_attr<double>("eps"))
      .constraint("logit_c1", "x is floating", [](const Call& c) { return is_floating(c.type("x").dtype); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        const auto one = b.full(1.0, b.dtype(x));
        if (c.has("eps")) {
          const ValueId eps = b.full(c.number("eps"), b.dtype(x));
          x = b.minimum(b.maximum(x, eps), b.sub(one, eps));
        }
        return b.log(b.div(x, b.sub(one, x)));
      })
      .from_aten_call("aten.logit.default", build)
      .from_aten_call("aten.special_logit.default", build)
      .sample("torch.logit(t(3, 4, low=0.1, high=0.9))")
      .sample("torch.logit(t(3, 4), 0.125)")
      .sample("torch.logit(i(3, 4, low=0, high=1), 0.125)")
      .spelled_torch("torch.logit({x}, {eps})")
      .pointwise();
}

}  // namespace

std::vector<OpDef> activation_ops() {
  return formulas({relu(), relu6(), hardtanh(), gelu(), quick_gelu(), sigmoid(), silu(), mish(), snake(), softplus(),
                   hardsigmoid(), hardswish(), leaky_relu(), elu(), prelu(), glu(), threshold(), log_sigmoid(), logit()});
}

}  // namespace pycandle
