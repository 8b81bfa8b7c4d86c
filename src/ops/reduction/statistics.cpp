// Reductions that are a formula: variance, norms, logsumexp, differences, and counts into bins.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/mistakes.h"
#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/core/functional_helpers.h"
#include "ops/reduction/reduction_helpers.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OpDef reduction(const char* name, const char* doc) {
  std::string id = name;
  return functional(name)
      .doc(doc)
      .operands("x")
      .attributes(attr<Ints>("axes"), attr<bool>("keep", false))
      .constraint(id + "_c1", "x is floating or complex", [](const Call& c) { return is_inexact(c.type("x").dtype); })
      .constraint(id + "_c2", "axes are different axes of x",
                  [](const Call& c) { return are_axes(c.integers("axes"), c.rank("x")); })
      .infer([](const Call& c) {
        return Type{real_of(c.type("x").dtype), reduced_shape(c.shape("x"), c.integers("axes"), c.boolean("keep"))};
      });
}

Dim count_of(const Shape& shape, const Ints& axes) {
  Dim count = 1;
  for (int64_t axis : axes) count = count * shape[axis];
  return count;
}

// ---- variance

// The mean square distance from the mean, over count - correction (not below 0); in f32 for f16 and bf16.
ValueId variance(Builder& b, ValueId wide, const Ints& axes, double correction, bool keep) {
  ValueId centred = axes.empty() ? b.sub(wide, wide) : b.sub(wide, b.mean(wide, axes));
  ValueId squares = is_complex(b.dtype(wide)) ? b.square(b.abs(centred)) : b.square(centred);
  ValueId total = b.sum(squares, axes, keep);
  DType dtype = b.dtype(total);
  Dim count = count_of(b.shape(wide), axes);
  ValueId divisor = count.is_number() ? b.full(std::max(0.0, static_cast<double>(count.number()) - correction), dtype)
                                      : b.maximum(b.sub(b.dim_value(count, dtype), correction), 0.0);
  return b.div(total, divisor);
}

OpDef of_variance(const char* name, const char* doc, bool root) {
  OpDef def = reduction(name, doc).attributes(attr<double>("correction", 1.0));
  def.decompose([root](Builder& b, const Call& c) {
    ValueId x = c.value("x");
    ValueId v = variance(b, b.widened(x), c.integers("axes"), c.number("correction"), c.boolean("keep"));
    return b.narrowed(root ? b.sqrt(v) : v, real_of(b.dtype(x)));
  });
  return def.spelled_torch(fmt::format("torch.{}({{x}}, {{axes}}, correction={{correction}}, keepdim={{keep}})", name))
      .mistakes([](Mistakes& m) {
        const char *biased = "the biased variance", *unbiased = "the unbiased variance";
        if (m.call().number("correction") != 0) m.attribute("variance", "correction", 0.0, unbiased, biased);
        if (m.call().number("correction") != 1) m.attribute("variance", "correction", 1.0, biased, unbiased);
      });
}

// var.default and var.dim have `unbiased`, var.correction has `correction`, whose None is 1.
Attributes spread_attributes(AtenCall& c, ValueId x) {
  double correction = 1;
  if (c.has_argument("unbiased")) correction = c.boolean("unbiased") ? 1 : 0;
  if (c.has_argument("correction")) correction = c.maybe_number("correction").value_or(1);
  Ints axes = reduced_axes(c, c.b.rank(x));
  return {{"axes", axes}, {"keep", keeps_axes(c)}, {"correction", correction}};
}

void add_spread(OpDef& def, const std::string& name) {
  for (const char* overload : {"default", "dim", "correction"}) {
    def.from_aten_call(fmt::format("aten.{}.{}", name, overload), [name](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      return {c.b.create(name, {x}, spread_attributes(c, x))};
    });
    def.from_aten_call(fmt::format("aten.{}_mean.{}", name, overload), [name](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      Attributes attributes = spread_attributes(c, x);
      ValueId result = c.b.create(name, {x}, attributes);
      attributes.pop_back();  // correction
      return {result, std::get<Ints>(attributes[0].second).empty() ? x : c.b.create("mean", {x}, attributes)};
    });
  }
  def.sample(fmt::format("torch.{}(t(4, 5))", name))
      .sample(fmt::format("torch.{}(t(4, 5), dim=1)", name))
      .sample(fmt::format("torch.{}(t(4, 5), dim=(0, 1), keepdim=True)", name))
      .sample(fmt::format("torch.{}(t(4, 5), unbiased=False)", name))
      .sample(fmt::format("torch.{}(t(4, 5), dim=-1, unbiased=False)", name))
      .sample(fmt::format("torch.{}(t(4, 5), dim=0, correction=2)", name))
      .sample(fmt::format("torch.{}(t(9, 5, dtype=torch.bfloat16), dim=0)", name))
      .sample(fmt::format("torch.{}_mean(t(4, 5), dim=0, keepdim=True)", name))
      .sample(fmt::format("torch.{}_mean(t(4, 5))", name));
}

OpDef var() {
  OpDef def = of_variance(
      "var", "variance over the axes: squared distances from the mean, summed and divided by count - correction", false);
  add_spread(def, "var");
  return def;
}

OpDef std_deviation() {
  OpDef def = of_variance("std", "square root of var", true);
  add_spread(def, "std");
  return def;
}

// ---- norms

ValueId norm(Builder& b, ValueId x, double order, const Ints& axes, bool keep) {
  ValueId size = b.abs(b.widened(x));
  ValueId result;
  if (order == kInfinity) {
    result = b.reduce("reduce_max", size, axes, keep);
  } else if (order == -kInfinity) {
    result = b.reduce("reduce_min", size, axes, keep);
  } else if (order == 0) {
    result = b.sum(b.cast(b.compare("ne", size, 0.0), b.dtype(size)), axes, keep);
  } else if (order == 1) {
    result = b.sum(size, axes, keep);
  } else if (order == 2) {
    result = b.sqrt(b.sum(b.square(size), axes, keep));
  } else {
    result = b.pow(b.sum(b.pow(size, order), axes, keep), 1 / order);
  }
  return b.narrowed(result, real_of(b.dtype(x)));
}

OpDef vector_norm() {
  OpDef def = reduction("vector_norm",
                        "(sum |x|^order)^(1/order) over the axes; inf and -inf are the extremes, 0 counts what is not zero");
  def.attributes(attr<double>("order", 2.0)).decompose([](Builder& b, const Call& c) {
    return norm(b, c.value("x"), c.number("order"), c.integers("axes"), c.boolean("keep"));
  });
  auto build = [](AtenCall& c, double order) -> Values {
    ValueId x = c.tensor("self");
    std::optional<DType> dtype = c.has_argument("dtype") ? c.dtype("dtype") : std::nullopt;
    x = c.b.cast(x, dtype.value_or(float_result(c.b.dtype(x))));
    Ints axes = reduced_axes(c, c.b.rank(x));
    bool keep = keeps_axes(c);
    return {c.b.create("vector_norm", {x}, {{"axes", axes}, {"keep", keep}, {"order", order}})};
  };
  def.from_aten_call("aten.linalg_vector_norm.default", [build](AtenCall& c) { return build(c, c.number("ord")); });
  for (const char* overload : {"Scalar", "ScalarOpt_dim", "ScalarOpt_dtype", "ScalarOpt_dim_dtype"})
    def.from_aten_call(fmt::format("aten.norm.{}", overload),
                       [build](AtenCall& c) { return build(c, c.maybe_number("p").value_or(2.0)); });
  return def.sample("torch.linalg.vector_norm(t(4, 5))")
      .sample("torch.linalg.vector_norm(t(4, 5), dim=1, keepdim=True)")
      .sample("torch.linalg.vector_norm(t(4, 5), ord=1, dim=0)")
      .sample("torch.linalg.vector_norm(t(4, 5), ord=3.5, dim=(0, 1))")
      .sample("torch.linalg.vector_norm(t(4, 5), ord=float('inf'), dim=0)")
      .sample("torch.linalg.vector_norm(t(4, 5), ord=float('-inf'))")
      .sample("torch.linalg.vector_norm(t(4, 5).round(), ord=0)")
      .sample("torch.linalg.vector_norm(t(64, 5, dtype=torch.float16), dim=0)")
      .sample("torch.linalg.vector_norm(t(4, 5), dtype=torch.float64)")
      .sample("t(4, 5).norm(dim=-1)")
      .sample("t(4, 5).norm(p=1)");
}

// ---- logsumexp: torch rounds every step to the tensor's dtype

OpDef logsumexp() {
  OpDef def = reduction("logsumexp", "log of the sum of exp(x) over the axes, from the largest");
  def.infer(
      [](const Call& c) { return Type{c.type("x").dtype, reduced_shape(c.shape("x"), c.integers("axes"), c.boolean("keep"))}; });
  def.decompose([](Builder& b, const Call& c) {
    ValueId x = c.value("x");
    const Ints& axes = c.integers("axes");
    const auto over = [&](ValueId v, auto reduce) { return axes.empty() ? v : reduce(v); };
    // An infinite maximum would give inf - inf: it is left out, and comes back by itself.
    ValueId top = over(is_complex(b.dtype(x)) ? b.unary("real", x) : x, [&](ValueId v) { return b.max(v, axes); });
    ValueId shift = b.cast(b.select(b.compare("eq", b.abs(top), kInfinity), b.full(0.0, b.dtype(top)), top), b.dtype(x));
    ValueId sum = b.log(over(b.exp(b.sub(x, shift)), [&](ValueId v) { return b.sum(v, axes); }));
    ValueId result = b.add(sum, shift);
    return b.reshape(result, reduced_shape(c.shape("x"), axes, c.boolean("keep")));
  });
  return def
      .from_aten_call("aten.logsumexp.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        x = c.b.cast(x, float_result(c.b.dtype(x)));
                        Ints axes = reduced_axes(c, c.b.rank(x));
                        return {c.b.create("logsumexp", {x}, {{"axes", axes}, {"keep", keeps_axes(c)}})};
                      })
      .sample("torch.logsumexp(t(4, 5), 1)")
      .sample("torch.logsumexp(t(4, 5) * 100, (0, 1), keepdim=True)")
      .sample("torch.logsumexp(torch.full((2, 3), float('-inf')), -1)")
      .sample("torch.logsumexp(i(4), 0)")
      .sample("torch.logsumexp(t(4, 5, dtype=torch.bfloat16), 1)");
}

// ---- differences

OpDef diff() {
  OpDef def = functional("diff");
  def.doc("differences of neighbours along an axis, taken n times; for bool, whether they differ")
      .operands("x")
      .attributes(attr<int64_t>("n", int64_t{1}), attr<int64_t>("axis"))
      .constraint("diff_c1", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("diff_c2", "n is 0 to 64", [](const Call& c) { return c.integer("n") >= 0 && c.integer("n") <= 64; })
      .infer([](const Call& c) {
        Type type = c.type("x");
        Dim& size = type.shape[c.integer("axis")];
        Dim shorter = size - c.integer("n");
        size = shorter.is_number() ? max(shorter, 0) : shorter;
        return type;
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        int64_t axis = c.integer("axis");
        for (int64_t i = 0; i < c.integer("n"); ++i) {
          Dim size = b.shape(x)[axis];
          if (size == Dim(0)) break;
          ValueId next = b.slice(x, axis, 1, size), here = b.slice(x, axis, 0, size - 1);
          x = b.binary(b.dtype(x) == DType::boolean ? "ne" : "sub", next, here);
        }
        return x;
      });
  return def
      .from_aten_call("aten.diff.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        int64_t axis = c.b.normal_axis(c.integer("dim"), c.b.rank(x)), n = c.integer("n");
                        Values parts;
                        if (auto before = c.maybe_tensor("prepend")) parts.push_back(*before);
                        parts.push_back(x);
                        if (auto after = c.maybe_tensor("append")) parts.push_back(*after);
                        if (parts.size() > 1 && n > 0) {
                          parts = promote(c.b, std::vector<Operand>(parts.begin(), parts.end()));
                          for (ValueId& part : parts) {  // a 0-d end is one slice of that number
                            if (c.b.rank(part) != 0) continue;
                            Shape one = c.b.shape(x);
                            one[axis] = 1;
                            part = c.b.broadcast_to(part, one);
                          }
                          x = c.b.concat(parts, axis);
                        }
                        return {c.b.create("diff", {x}, {{"n", n}, {"axis", axis}})};
                      })
      .sample("torch.diff(t(5))")
      .sample("torch.diff(t(3, 5), n=2, dim=0)")
      .sample("torch.diff(i(5), prepend=torch.tensor([0]), append=torch.tensor([9]))")
      .sample("torch.diff(m(5))")
      .sample("torch.diff(t(5), n=0, prepend=t(2))")
      .sample("torch.diff(t(2), n=4)");
}

// ---- areas under the line through points

// The distances between neighbours among the points of an axis of y.
ValueId distances(AtenCall& c, ValueId y, int64_t axis) {
  Builder& b = c.b;
  ValueId x = c.tensor("x");
  if (b.rank(x) == 1) {
    c.expects(equal(b.shape(x)[0], b.shape(y)[axis]) != Tri::no, "as many points as values");
    x = along_axis(b, x, axis, b.rank(y));
  }
  while (b.rank(x) < b.rank(y)) x = b.unsqueeze(x, 0);
  const Dim size = b.shape(x)[axis];
  return arithmetic(b, "sub", b.slice(x, axis, 1, size), b.slice(x, axis, 0, size - 1));
}

// In the order of torch's products and sums.
OpDef trapezoids() {
  OpDef def = mapping("reduce_sum");
  const auto at_points = [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const bool running = c.overload() == "aten.cumulative_trapezoid.x" || c.overload() == "aten.cumulative_trapezoid.dx";
    const ValueId y = c.tensor("y");
    const int64_t axis = b.normal_axis(c.integer("dim"), b.rank(y));
    const Dim size = b.shape(y)[axis];
    const bool evenly = !c.has_argument("x");
    const double step = evenly ? as_double(c.scalar("dx")) : 1;
    const auto summed = [&](ValueId v) {
      if (!is_inexact(b.dtype(v))) v = b.cast(v, DType::i64);
      return running ? b.create("cumsum", {v}, {{"axis", axis}}) : b.sum(v, {axis}, false);
    };
    if (size == Dim(0) && !running) {
      if (!evenly) c.discard("x", "there are no values");
      return {b.full(int64_t{0}, b.dtype(y), without_axes(b.shape(y), {axis}))};
    }
    if (evenly && !running) {
      const ValueId ends = arithmetic(b, "add", b.select_index(y, axis, 0), b.select_index(y, axis, size - 1));
      const ValueId inner = arithmetic(b, "sub", summed(y), arithmetic(b, "mul", ends, Scalar{0.5}));
      return {arithmetic(b, "mul", inner, Scalar{step})};
    }
    const ValueId pairs = arithmetic(b, "add", b.slice(y, axis, 0, size - 1), b.slice(y, axis, 1, size));
    if (evenly) return {summed(arithmetic(b, "mul", pairs, Scalar{step / 2}))};
    return {arithmetic(b, "div", summed(arithmetic(b, "mul", pairs, distances(c, y, axis))), Scalar{2.0})};
  };
  for (const char* name : {"trapezoid", "trapz", "cumulative_trapezoid"})
    for (const char* overload : {"x", "dx"}) def.from_aten_call(fmt::format("aten.{}.{}", name, overload), at_points);
  return def.sample("torch.trapezoid(t(3, 5))")
      .sample("torch.trapezoid(t(3, 5), dx=0.3, dim=0)")
      .sample("torch.trapezoid(t(3, 5), t(5))")
      .sample("torch.trapezoid(i(3, 5), i(3, 5), dim=0)")
      .sample("torch.trapz(t(3, 5), t(3), dim=0)")
      .sample("torch.trapz(t(0, 3), dx=2, dim=0)")
      .sample("torch.cumulative_trapezoid(t(3, 5), t(3, 5))")
      .sample("torch.cumulative_trapezoid(i(5), dx=2)");
}

// ---- bins

// How many boundaries lie before each value: one comparison with every boundary, counted. NaN belongs behind all.
ValueId bucket(Builder& b, ValueId boundaries, ValueId values, bool right) {
  // boundaries [B] or [..., B], values [...] → [..., 1] against [..., B]
  ValueId wide = b.unsqueeze(values, -1);
  const ValueId before = b.logical_not(right ? b.compare("gt", boundaries, wide) : b.compare("ge", boundaries, wide));
  return b.sum(b.cast(before, DType::i64), {-1}, false);
}

OpDef searchsorted() {
  OpDef def = functional("searchsorted");
  def.doc("where each value belongs among sorted boundaries: before equal ones, or after them with right")
      .operands("boundaries", "values")
      .attributes(attr<bool>("right", false))
      .constraint("searchsorted_c1", "boundaries and values have one dtype",
                  [](const Call& c) { return c.type("boundaries").dtype == c.type("values").dtype; })
      .constraint("searchsorted_c2", "boundaries are 1-d, or agree with values on all axes but the last",
                  [](const Call& c) {
                    if (c.rank("boundaries") == 1) return true;
                    Shape a = c.shape("boundaries"), v = c.shape("values");
                    if (a.empty() || v.size() != a.size()) return false;
                    a.pop_back();
                    v.pop_back();
                    return c.agree(a, v, "boundaries and values");
                  })
      .infer([](const Call& c) { return Type{DType::i64, c.shape("values")}; })
      .decompose([](Builder& b, const Call& c) {
        ValueId boundaries = c.value("boundaries");
        // Many sorted rows: [..., B] stands beside values [..., V] as [..., 1, B].
        if (b.rank(boundaries) > 1) boundaries = b.unsqueeze(boundaries, -2);
        return bucket(b, boundaries, c.value("values"), c.boolean("right"));
      });
  auto result = [](AtenCall& c, ValueId index) { return Values{c.boolean("out_int32") ? c.b.cast(index, DType::i32) : index}; };
  for (const char* overload : {"Tensor", "Scalar"})
    def.from_aten_call(fmt::format("aten.bucketize.{}", overload), [result](AtenCall& c) {
      ValueId boundaries = c.tensor("boundaries");
      Values v = promote(c.b, {boundaries, c.operand("self")});
      return result(c, c.b.create("searchsorted", v, {{"right", c.boolean("right")}}));
    });
  for (const char* overload : {"Tensor", "Scalar"})
    def.from_aten_call(fmt::format("aten.searchsorted.{}", overload), [result](AtenCall& c) {
      ValueId boundaries = c.tensor("sorted_sequence");
      if (auto sorter = c.maybe_tensor("sorter")) {  // the order in which they are sorted
        c.expects(c.b.dtype(*sorter) == DType::i64 && c.b.shape(*sorter) == c.b.shape(boundaries),
                  "a sorter of int64 with the shape of sorted_sequence");
        boundaries = c.b.create("gather", {boundaries, *sorter}, {{"axis", c.b.rank(boundaries) - 1}});
      }
      std::optional<std::string> side = c.maybe_string("side");
      bool right = c.boolean("right") || (side && *side == "right");
      Values v = promote(c.b, {boundaries, c.operand("self")});
      return result(c, c.b.create("searchsorted", v, {{"right", right}}));
    });
  return def.sample("torch.bucketize(t(3, 4), torch.tensor([-1.0, 0.0, 1.0]))")
      .sample("torch.bucketize(i(9), torch.tensor([0, 2, 4]), right=True, out_int32=True)")
      .sample("torch.searchsorted(torch.tensor([[0.0, 1.0], [-1.0, 0.5]]), t(2, 3))")
      .sample("torch.searchsorted(torch.tensor([0.0, 1.0]), t(2, 3), side='right')")
      .sample("torch.searchsorted(torch.tensor([1.0, -0.5, 0.5]), t(2, 3), sorter=torch.tensor([1, 2, 0]))")
      .sample("torch.searchsorted(torch.tensor([[1, 0], [3, 5]]), i(2, 3), right=True, sorter=torch.tensor([[1, 0], [0, 1]]))");
}

OpDef histc() {
  OpDef def = functional("histc");
  def.doc("how many elements fall into each of the bins between min and max, max included; others are not counted")
      .operands("x")
      .attributes(attr<Dim>("bins"), attr<double>("min"), attr<double>("max"))
      .constraint("histc_c1", "min is at most max; when they are equal the range is that of the data",
                  [](const Call& c) { return c.number("min") <= c.number("max"); })
      .constraint("histc_c2", "x holds numbers and there are bins",
                  [](const Call& c) {
                    const DType dtype = c.type("x").dtype;
                    return (is_floating(dtype) || is_integral(dtype)) && may_be_at_most(1, c.dim("bins"));
                  })
      .constraint("histc_c3", "min and max of integers are whole numbers",
                  [](const Call& c) {
                    const auto is_whole = [&](const char* name) { return c.number(name) == std::floor(c.number(name)); };
                    return !is_integral(c.type("x").dtype) || (is_whole("min") && is_whole("max"));
                  })
      .infer([](const Call& c) { return Type{c.type("x").dtype, {c.dim("bins")}}; })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = c.value("x");
        DType dtype = b.dtype(x);
        Dim count = product(c.shape("x")), bins = c.dim("bins");
        ValueId flat = b.cast(b.reshape(x, {count}), DType::f64);
        ValueId low = b.full(c.number("min"), DType::f64), high = b.full(c.number("max"), DType::f64);
        if (c.number("min") == c.number("max")) {
          if (count != Dim(0)) low = b.reduce("reduce_min", flat, {0}, false), high = b.max(flat, {0}, false);
          ValueId no_width = b.compare("eq", low, high);
          low = b.select(no_width, b.sub(low, 1.0), low);
          high = b.select(no_width, b.add(high, 1.0), high);
        }
        ValueId bin = b.div(b.mul(b.sub(flat, low), b.dim_value(bins, DType::f64)), b.sub(high, low));
        ValueId whole = b.minimum(b.unary("floor", bin), b.dim_value(bins - 1, DType::f64));
        ValueId above = b.compare("ge", flat, low);
        ValueId inside = b.logical_and(above, b.compare("le", flat, high));
        ValueId mine = b.compare("eq", b.unsqueeze(whole, 1), b.reshape(b.iota(bins, DType::f64), {1, bins}));
        ValueId counted = b.logical_and(mine, b.unsqueeze(inside, 1));
        return b.cast(b.sum(b.cast(counted, DType::i64), {0}, false), dtype);
      });
  return def
      .from_aten_call("aten.histc.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        double low = c.number("min"), high = c.number("max");
                        return {c.b.create("histc", {x}, {{"bins", c.dim("bins")}, {"min", low}, {"max", high}})};
                      })
      .sample("torch.histc(t(50), bins=5, min=-1, max=1)")
      .sample("torch.histc(t(50), bins=5)")
      .sample("torch.histc(torch.full((3,), 2.0), bins=4, min=1, max=1)")
      .sample("torch.histc(i(50, low=0, high=8).float(), bins=8, min=0, max=7)");
}

}  // namespace

std::vector<OpDef> statistics_ops() {
  return formulas({var(), std_deviation(), vector_norm(), logsumexp(), diff(), trapezoids(), searchsorted(), histc()});
}

}  // namespace pycandle
