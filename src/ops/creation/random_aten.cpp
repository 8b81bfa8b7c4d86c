// torch's random operators over the primitives uniform and normal. Their values are not torch's: verification takes those
// from the goldens. What is not random about them (shapes, dtypes, certain results) is the same.
#include <cmath>
#include <numbers>

#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// What a tensor of that dtype is drawn in.
DType drawn_dtype(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }
ValueId drawn(Builder& b, const char* op, const Shape& shape, DType dtype) {
  return b.create(op, {}, {{"shape", shape}, {"dtype", dtype}});
}
// Complex numbers are drawn part by part; a normal one has variance 1 as a whole.
ValueId drawn_number(Builder& b, const char* op, const Shape& shape, DType dtype) {
  if (!is_complex(dtype)) return drawn(b, op, shape, dtype);
  const DType part = real_of(dtype);
  ValueId re = drawn(b, op, shape, part), im = drawn(b, op, shape, part);
  if (std::string_view(op) == "normal") {
    re = b.mul(re, std::numbers::sqrt2 / 2);
    im = b.mul(im, std::numbers::sqrt2 / 2);
  }
  return b.create("make_complex", {re, im});
}
// In (0, 1]: its logarithm is finite.
ValueId positive_uniform(Builder& b, const Shape& shape, DType dtype) { return b.sub(1.0, drawn(b, "uniform", shape, dtype)); }

void discard_generator(AtenCall& c) {
  if (c.has_argument("generator")) c.discard("generator", "random values are not torch's in any case");
}

// ---- rand and randn, of a size or like a tensor

OpDef plain(const char* op, const std::string& name) {
  return mapping(op)
      .from_aten_call("aten." + name + ".default",
                      [op](AtenCall& c) -> Values {
                        c.discard_placement();
                        const Shape shape = c.dims("size");
                        const DType dtype = c.dtype("dtype").value_or(DType::f32);
                        if (!is_inexact(dtype)) c.unsupported("dtype=" + std::string(name_of(dtype)));
                        return {drawn_number(c.b, op, shape, dtype)};
                      })
      .from_aten_call("aten." + name + "_like.default", [op](AtenCall& c) -> Values {
        c.discard_placement();
        const ValueId self = c.tensor("self");
        const DType dtype = c.dtype("dtype").value_or(c.b.dtype(self));
        if (!is_inexact(dtype)) c.unsupported("dtype=" + std::string(name_of(dtype)));
        return {drawn_number(c.b, op, c.b.shape(self), dtype)};
      });
}

// ---- a tensor filled from a distribution: only the shape and dtype of self matter

struct Distribution {
  const char* overload;
  const char *first, *second;  // names of its parameters; null when it has fewer
  const char* rule;
  bool (*holds)(double first, double second);
  ValueId (*value)(Builder&, const Shape&, DType, double first, double second);
};

const Distribution kDistributions[] = {
    {"aten.uniform.default", "from", "to", "from is not above to", [](double from, double to) { return from <= to; },
     [](Builder& b, const Shape& s, DType d, double from, double to) {
       return b.add(b.mul(drawn(b, "uniform", s, d), to - from), from);
     }},
    {"aten.normal_functional.default", "mean", "std", "std is not negative", [](double, double std) { return std >= 0; },
     [](Builder& b, const Shape& s, DType d, double mean, double std) {
       return b.add(b.mul(drawn(b, "normal", s, d), std), mean);
     }},
    {"aten.log_normal.default", "mean", "std", "std is positive", [](double, double std) { return std > 0; },
     [](Builder& b, const Shape& s, DType d, double mean, double std) {
       return b.exp(b.add(b.mul(drawn(b, "normal", s, d), std), mean));
     }},
    {"aten.exponential.default", "lambd", nullptr, "lambd is positive", [](double rate, double) { return rate > 0; },
     [](Builder& b, const Shape& s, DType d, double rate, double) {
       return b.div(b.neg(b.log(positive_uniform(b, s, d))), rate);
     }},
    {"aten.cauchy.default", "median", "sigma", "sigma is positive", [](double, double sigma) { return sigma > 0; },
     [](Builder& b, const Shape& s, DType d, double median, double sigma) {
       const ValueId turned = b.unary("tan", b.mul(b.sub(drawn(b, "uniform", s, d), 0.5), std::numbers::pi));
       return b.add(b.mul(turned, sigma), median);
     }},
    {"aten.geometric.default", "p", nullptr, "p is between 0 and 1", [](double p, double) { return p > 0 && p < 1; },
     [](Builder& b, const Shape& s, DType d, double p, double) {
       const ValueId tries = b.unary("ceil", b.div(b.log(positive_uniform(b, s, d)), std::log1p(-p)));
       return b.maximum(tries, 1.0);
     }},
};

OpDef distributions() {
  OpDef def = mapping("uniform");
  for (const Distribution& row : kDistributions)
    def.from_aten_call(row.overload, [&row](AtenCall& c) -> Values {
      discard_generator(c);
      const ValueId self = c.tensor("self");
      const double first = c.number(row.first), second = row.second ? c.number(row.second) : 0;
      if (!row.holds(first, second))
        throw Error(ErrorCode::bad_input, "there is no such distribution").expected(row.rule).op(c.overload());
      const DType dtype = c.b.dtype(self);
      return {c.b.cast(row.value(c.b, c.b.shape(self), drawn_dtype(dtype), first, second), dtype)};
    });
  return def.sample("torch.empty_like(t(3)).uniform_(2.0, 2.0) + t(3)").sample("torch.empty_like(t(3)).normal_(2.0, 0.0) + t(3)");
}

// torch.normal with tensors for the mean or the deviation.
OpDef normals() {
  OpDef def = mapping("normal");
  for (const char* overload : {"Tensor_Tensor", "Tensor_float", "float_Tensor"})
    def.from_aten_call(std::string("aten.normal.") + overload, [](AtenCall& c) -> Values {
      discard_generator(c);
      Builder& b = c.b;
      const Operand mean = c.operand("mean"), std = c.operand("std");
      const DType dtype = c.result().dtype;
      const Values v = promote_and_broadcast(b, {mean, std}, drawn_dtype(dtype));
      const ValueId noise = drawn(b, "normal", b.shape(v[0]), b.dtype(v[0]));
      return {b.cast(b.add(b.mul(noise, v[1]), v[0]), dtype)};
    });
  return def
      .from_aten_call("aten.normal.float_float",
                      [](AtenCall& c) -> Values {
                        c.discard_placement();
                        discard_generator(c);
                        const double mean = c.number("mean"), std = c.number("std");
                        const DType dtype = c.dtype("dtype").value_or(DType::f32);
                        const ValueId noise = drawn(c.b, "normal", c.dims("size"), drawn_dtype(dtype));
                        return {c.b.cast(c.b.add(c.b.mul(noise, std), mean), dtype)};
                      })
      .sample("torch.normal(t(2, 3), 0.0)")
      .sample("torch.normal(t(3), torch.zeros(2, 3).to(t(1)))")
      .sample("torch.normal(1.5, 0.0, (2, 3)) + t(3)");
}

// ---- coins and dice

OpDef bernoulli() {
  OpDef def = mapping("uniform");
  for (const char* overload : {"default", "p", "Tensor"})
    def.from_aten_call(std::string("aten.bernoulli.") + overload, [](AtenCall& c) -> Values {
      discard_generator(c);
      Builder& b = c.b;
      const ValueId self = c.tensor("self");
      const DType dtype = b.dtype(self), wide = drawn_dtype(dtype);
      const ValueId p = c.has_argument("p") ? materialise(b, c.operand("p"), wide) : b.cast(self, wide);
      return {b.cast(b.compare("lt", drawn(b, "uniform", b.shape(self), wide), p), dtype)};
    });
  return def.sample("torch.bernoulli(m(3, 4).to(t(1)))")
      .sample("torch.bernoulli(t(3, 4), 1.0)")
      .sample("i(3, 4).clone().bernoulli_(m(3, 4).float())");
}

// Integers from low to high - 1.
ValueId dice(Builder& b, const Operand& low, const Operand& high, const Shape& shape, DType dtype) {
  const ValueId first = materialise(b, low, DType::i64), end = materialise(b, high, DType::i64);
  const ValueId span = b.cast(b.sub(end, first), DType::f64);
  const ValueId number = b.cast(b.unary("floor", b.mul(drawn(b, "uniform", shape, DType::f64), span)), DType::i64);
  // A product may round up to the span itself.
  return b.cast(b.minimum(b.add(number, first), b.sub(end, b.full(int64_t{1}, DType::i64))), dtype);
}

OpDef integers_drawn() {
  OpDef def = mapping("uniform");
  const auto low_of = [](AtenCall& c) { return c.has_argument("low") ? c.operand("low") : Operand{Scalar{int64_t{0}}}; };
  for (const char* overload : {"default", "low"})
    def.from_aten_call(std::string("aten.randint.") + overload, [low_of](AtenCall& c) -> Values {
      c.discard_placement();
      const Operand low = low_of(c), high = c.operand("high");
      return {dice(c.b, low, high, c.dims("size"), c.dtype("dtype").value_or(DType::i64))};
    });
  for (const char* overload : {"default", "low_dtype", "Tensor"})
    def.from_aten_call(std::string("aten.randint_like.") + overload, [low_of](AtenCall& c) -> Values {
      c.discard_placement();
      const ValueId self = c.tensor("self");
      const Operand low = low_of(c), high = c.operand("high");
      return {dice(c.b, low, high, c.b.shape(self), c.dtype("dtype").value_or(c.b.dtype(self)))};
    });
  return def
      .from_aten_call("aten.randperm.default",
                      [](AtenCall& c) -> Values {
                        c.discard_placement();
                        const ValueId keys = drawn(c.b, "uniform", {c.dim("n")}, DType::f64);
                        const ValueId order = c.b.create_all("sort", {keys}, {{"axis", int64_t{0}}})[1];
                        return {c.b.cast(order, c.dtype("dtype").value_or(DType::i64))};
                      })
      .sample("torch.randint(3, 4, (2, 3)) + i(3)")
      .sample("torch.randint_like(t(3), 5, 6)")
      .sample("torch.randint(1, (2,), dtype=torch.float32) + t(2)")
      .sample("torch.randperm(1) + i(1)")
      .sample("torch.randperm(5).sort()[0] + i(5)");
}

OpDef multinomial() {
  return mapping("multinomial")
      .from_aten_call("aten.multinomial.default",
                      [](AtenCall& c) {
                        discard_generator(c);
                        return c.b.create_all("multinomial", {c.tensor("self")},
                                              {{"count", c.dim("num_samples")}, {"replacement", c.boolean("replacement")}});
                      })
      .sample("torch.multinomial(torch.tensor([[0.0, 0.0, 2.0], [1.0, 0.0, 0.0]]), 1) + i(1)")
      .sample("torch.multinomial(torch.tensor([0.0, 3.0, 0.0]), 4, replacement=True) + i(1)")
      .sample("torch.multinomial(torch.tensor([0.5, 3.0, 0.25]), 3).sort()[0] + i(1)");
}

}  // namespace

std::vector<OpDef> random_aten_ops() {
  return {plain("uniform", "rand"),
          plain("normal", "randn"),
          distributions(),
          normals(),
          bernoulli(),
          integers_drawn(),
          multinomial()};
}

}  // namespace pycandle
