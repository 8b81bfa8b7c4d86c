// torch's reductions: axes, keepdim, dtype and their defaults; what becomes which primitive or functional.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/aten_call.h"
#include "ops/core/constraints.h"
#include "ops/core/functional_helpers.h"
#include "ops/reduction/reduction_helpers.h"

namespace pycandle {

Ints reduced_axes(AtenCall& c, int64_t rank) {
  Ints axes;
  if (c.has_argument("dim") && !c.is_none("dim")) axes = c.integers("dim");
  if (rank == 0) {  // torch lets axis 0 and -1 of a 0-d tensor stand for nothing
    for (int64_t axis : axes) c.b.normal_axis(axis, 1);
    return {};
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = c.b.normal_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

bool keeps_axes(AtenCall& c) { return c.has_argument("keepdim") && c.boolean("keepdim"); }

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keep) {
  if (!keep) return without_axes(shape, axes);
  Shape kept = shape;
  for (int64_t axis : axes) kept[axis] = 1;
  return kept;
}

namespace {

DType sum_dtype(AtenCall& c, ValueId x) {
  std::optional<DType> given = c.has_argument("dtype") ? c.dtype("dtype") : std::nullopt;
  return given.value_or(is_inexact(c.b.dtype(x)) ? c.b.dtype(x) : DType::i64);
}

// ---- sums and products: integers and bools become i64

OpDef sum() {
  OpDef def = mapping("reduce_sum");
  for (const char* overload : {"aten.sum.default", "aten.sum.dim_IntList"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      x = c.b.cast(x, sum_dtype(c, x));
      Ints axes = reduced_axes(c, c.b.rank(x));
      return {c.b.sum(x, axes, keeps_axes(c))};
    });
  for (const char* overload : {"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      ValueId counted = c.b.cast(c.b.cast(x, DType::boolean), DType::i64);
      return {c.b.sum(counted, reduced_axes(c, c.b.rank(x)), false)};
    });
  def.from_aten_call("aten.trace.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    c.expects(c.b.rank(x) == 2, "a matrix");
    ValueId diagonal = c.b.create("diagonal", {x});
    return {c.b.sum(c.b.cast(diagonal, sum_dtype(c, x)), {0}, false)};
  });
  // NaN counts as nothing.
  def.from_aten_call("aten.nansum.default", [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    DType dtype = sum_dtype(c, x);
    if (is_inexact(c.b.dtype(x))) x = c.b.select(c.b.unary("isnan", x), c.b.full(0.0, c.b.dtype(x)), x);
    x = c.b.cast(x, dtype);
    Ints axes = reduced_axes(c, c.b.rank(x));
    return {c.b.sum(x, axes, keeps_axes(c))};
  });
  // Divided by how many numbers there are; by none of them, that is NaN.
  def.from_aten_call("aten.nanmean.default", [](AtenCall& c) -> Values {
    Builder& b = c.b;
    const ValueId x = c.tensor("self");
    c.expects(is_inexact(b.dtype(x)), "a floating or complex tensor");
    const DType dtype = sum_dtype(c, x);
    const Ints axes = reduced_axes(c, b.rank(x));
    const bool keep = keeps_axes(c);
    const ValueId missing = b.unary("isnan", x);
    const ValueId total = b.sum(b.cast(b.select(missing, b.full(0.0, b.dtype(x)), x), dtype), axes, keep);
    const ValueId count = b.sum(b.cast(b.logical_not(missing), DType::i64), axes, keep);
    return {b.div(total, b.cast(count, dtype))};
  });
  return def.sample("t(2, 3).sum()")
      .sample("t(2, 3, 4).sum((0, -1))")
      .sample("t(2, 3, 4).sum(1, keepdim=True)")
      .sample("i(4, dtype=torch.int32).sum()")
      .sample("m(2, 3).sum(0)")
      .sample("t(2, 3, dtype=torch.bfloat16).sum(-1)")
      .sample("t(2, 3).sum(dtype=torch.float64)")
      .sample("i(4).sum(dtype=torch.float32)")
      .sample("t(0, 3).sum(0)")
      .sample("t().sum()")
      .sample("t().sum(0)")
      .sample("torch.count_nonzero(i(3, 4), dim=1)")
      .sample("torch.trace(t(3, 4))")
      .sample("torch.nansum(torch.tensor([1.0, float('nan')]))")
      .sample("torch.nanmean(torch.where(m(4, 5), t(4, 5), float('nan')), 1, keepdim=True)")
      .sample("torch.nanmean(torch.full_like(t(2, 3), float('nan')))")
      .sample("torch.nanmean(t(2, 3), (0, 1), dtype=torch.float64)");
}

OpDef prod() {
  OpDef def = mapping("reduce_prod");
  for (const char* overload : {"aten.prod.default", "aten.prod.dim_int"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      const DType dtype = sum_dtype(c, x);
      x = c.b.cast(x, dtype);
      Ints axes = reduced_axes(c, c.b.rank(x));
      if (dtype == DType::boolean) x = c.b.cast(x, DType::i64);  // of zeros and ones
      return {c.b.cast(c.b.reduce("reduce_prod", x, axes, keeps_axes(c)), dtype)};
    });
  return def.sample("t(2, 3).prod()")
      .sample("t(2, 3).prod(1, keepdim=True)")
      .sample("m(4, 3).prod(1, dtype=torch.bool)")
      .sample("i(4, dtype=torch.int32).prod()")
      .sample("t(0, 3).prod(0)")
      .sample("t().prod(0)");
}

OpDef mean() {
  OpDef def = functional("mean");
  def.doc("the mean over the axes; f16 and bf16 are summed in f32 and rounded once")
      .operands("x")
      .attributes(attr<Ints>("axes"), attr<bool>("keep", false))
      .constraint("mean_c1", "x is floating or complex", [](const Call& c) { return is_inexact(c.type("x").dtype); })
      .constraint("mean_c2", "axes are different axes of x",
                  [](const Call& c) { return are_axes(c.integers("axes"), c.rank("x")); })
      .infer([](const Call& c) {
        return Type{c.type("x").dtype, reduced_shape(c.shape("x"), c.integers("axes"), c.boolean("keep"))};
      })
      .decompose([](Builder& b, const Call& c) {
        ValueId x = b.widened(c.value("x"));
        return b.narrowed(b.mean(x, c.integers("axes"), c.boolean("keep")), c.type("x").dtype);
      })
      .aligned(along_what_is_not_reduced)
      .spelled_cpp(CppForm::Kind::member, "mean")
      .spelled_torch("torch.mean({x}, {axes}, {keep})")
      .results({"mean"})
      .mistakes([](Mistakes& m) {
        m.other_axis("axes");
        Dim count(1);
        for (const int64_t axis : m.call().integers("axes")) count = count * m.call().shape("x")[axis];
        m.result("reduction", "a mean", "a sum",
                 [count](Builder& b, ValueId y) { return b.mul(y, b.dim_value(count, b.dtype(y))); });
      });
  for (const char* overload : {"aten.mean.default", "aten.mean.dim"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      x = c.b.cast(x, c.dtype("dtype").value_or(c.b.dtype(x)));
      Ints axes = reduced_axes(c, c.b.rank(x));
      bool keep = keeps_axes(c);
      if (axes.empty()) return {x};
      return {c.b.create("mean", {x}, {{"axes", axes}, {"keep", keep}})};
    });
  return def.sample("t(2, 3).mean()")
      .sample("t(2, 3, 4).mean((-2, -1), keepdim=True)")
      .sample("t(2, 3, 4).mean(1)")
      .sample("t(64, 3, dtype=torch.bfloat16).mean(0)")
      .sample("i(4).mean(dtype=torch.float32)")
      .sample("t().mean()")
      .sample("t(0, 3).mean(0)")
      .sample("t(2, 3).mean([])");
}

// ---- extremes

OpDef extreme(const std::string& word, const char* reduce, const char* arg) {
  OpDef def = mapping(reduce);
  auto over = [reduce](AtenCall& c, ValueId x, const Ints& axes, bool keep) { return c.b.reduce(reduce, x, axes, keep); };
  def.from_aten_call(fmt::format("aten.a{}.default", word), [over](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    Ints axes = reduced_axes(c, c.b.rank(x));
    return {over(c, x, axes, keeps_axes(c))};
  });
  def.from_aten_call(fmt::format("aten.{}.default", word), [over](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    return {over(c, x, reduced_axes(c, c.b.rank(x)), false)};
  });
  def.from_aten_call(fmt::format("aten.{}.dim", word), [over, arg](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    Ints axes = reduced_axes(c, c.b.rank(x));
    bool keep = keeps_axes(c);
    if (axes.empty()) return {x, c.b.full(Scalar{int64_t{0}}, DType::i64)};
    ValueId place = c.b.create(arg, {x}, {{"axis", axes[0]}});
    ValueId value = over(c, x, axes, keep);
    return {value, keep ? c.b.unsqueeze(place, axes[0]) : place};
  });
  return def.sample(fmt::format("t(2, 3).a{}()", word))
      .sample(fmt::format("t(2, 3, 4).a{}((0, 2), keepdim=True)", word))
      .sample(fmt::format("t(2, 3).{}()", word))
      .sample(fmt::format("t(2, 3).{}(1)", word))
      .sample(fmt::format("i(3, 4).{}(-2, keepdim=True)", word))
      .sample(fmt::format("torch.tensor([1.0, float('nan'), 2.0]).{}(0)", word))
      .sample(fmt::format("m(3, 4).{}(0)", word))
      .sample(fmt::format("t().{}(0)", word));
}

OpDef aminmax() {
  return mapping("reduce_min")
      .from_aten_call("aten.aminmax.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        Ints axes = reduced_axes(c, c.b.rank(x));
                        bool keep = keeps_axes(c);
                        // Without an axis, keepdim keeps them all.
                        ValueId low = c.b.reduce("reduce_min", x, axes, keep);
                        return {low, c.b.reduce("reduce_max", x, axes, keep)};
                      })
      .sample("torch.aminmax(t(2, 3))")
      .sample("torch.aminmax(t(2, 3), dim=-1, keepdim=True)");
}

OpDef arg_extreme(const std::string& name) {
  return mapping(name)
      .from_aten_call("aten." + name + ".default",
                      [name](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        bool keep = c.boolean("keepdim"), flat = c.is_none("dim");
                        int64_t rank = c.b.rank(x);
                        int64_t axis = flat ? 0 : c.b.normal_axis(c.integer("dim"), std::max<int64_t>(rank, 1));
                        if (rank == 0) return {c.b.full(Scalar{int64_t{0}}, DType::i64)};
                        if (flat) x = c.b.reshape(x, {product(c.b.shape(x))});
                        ValueId place = c.b.create(name, {x}, {{"axis", axis}});
                        if (flat && keep) return {c.b.reshape(place, Shape(rank, Dim(1)))};
                        return {keep ? c.b.unsqueeze(place, axis) : place};
                      })
      .sample("torch." + name + "(t(2, 3))")
      .sample("torch." + name + "(t(2, 3), dim=-1)")
      .sample("torch." + name + "(i(2, 9), dim=1, keepdim=True)")
      .sample("torch." + name + "(t(2, 3), keepdim=True)")
      .sample("torch." + name + "(t())");
}

OpDef any_all(const std::string& word, const char* reduce) {
  OpDef def = mapping(reduce);
  for (const char* overload : {"default", "dim", "dims"})
    def.from_aten_call(fmt::format("aten.{}.{}", word, overload), [reduce](AtenCall& c) -> Values {
      ValueId x = c.tensor("self");
      Ints axes = reduced_axes(c, c.b.rank(x));
      bool keep = keeps_axes(c);
      // u8 stays u8: an old habit of torch.
      DType result = c.b.dtype(x) == DType::u8 ? DType::u8 : DType::boolean;
      return {c.b.cast(c.b.reduce(reduce, c.b.cast(x, DType::boolean), axes, keep), result)};
    });
  return def.sample(fmt::format("m(2, 3).{}()", word))
      .sample(fmt::format("i(2, 3).{}(1, keepdim=True)", word))
      .sample(fmt::format("t(2, 3).{}(-1)", word))
      .sample(fmt::format("torch.{}(m(2, 3, 4), dim=(0, 2))", word))
      .sample(fmt::format("i(3, low=0, high=3, dtype=torch.uint8).{}()", word))
      .sample(fmt::format("m(0, 3).{}(0)", word))
      .sample(fmt::format("torch.tensor(True).{}(0)", word));
}

// ---- running ones

OpDef cumulative(const std::string& name, bool sums) {
  OpDef def = mapping(name);
  def.from_aten_call("aten." + name + ".default", [name, sums](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    if (sums) x = c.b.cast(x, sum_dtype(c, x));
    int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
    if (c.b.rank(x) == 0) return sums || name == "logcumsumexp" ? Values{x} : Values{x, c.b.full(Scalar{int64_t{0}}, DType::i64)};
    return c.b.create_all(name, {x}, {{"axis", axis}});
  });
  if (sums)
    def.sample("torch." + name + "(i(4, dtype=torch.int32), 0)")
        .sample("torch." + name + "(m(4), 0)")
        .sample("torch." + name + "(i(4), 0, dtype=torch.float32)");
  return def.sample("torch." + name + "(t(2, 5), 1)")
      .sample("torch." + name + "(t(2, 5), -2)")
      .sample("torch." + name + "(t(), 0)");
}

// ---- order

OpDef sort() {
  OpDef def = mapping("sort");
  auto sorted = [](AtenCall& c) -> Values {
    ValueId x = c.tensor("self");
    int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
    bool descending = c.boolean("descending");
    if (c.has_argument("stable")) c.discard("stable", "sort is always stable here");
    if (c.b.rank(x) == 0) return {x, c.b.full(Scalar{int64_t{0}}, DType::i64)};
    return c.b.create_all("sort", {x}, {{"axis", axis}, {"descending", descending}});
  };
  for (const char* overload : {"aten.sort.default", "aten.sort.stable"}) def.from_aten_call(overload, sorted);
  for (const char* overload : {"aten.argsort.default", "aten.argsort.stable"})
    def.from_aten_call(overload, [sorted](AtenCall& c) -> Values { return {sorted(c)[1]}; });
  def.from_aten_call("aten.msort.default", [](AtenCall& c) -> Values {
    return {c.b.create_all("sort", {c.tensor("self")}, {{"axis", int64_t{0}}})[0]};
  });
  return def.sample("torch.sort(t(3, 5))")
      .sample("torch.sort(t(3, 5), dim=0, descending=True)")
      .sample("torch.sort(i(9), stable=True)")
      .sample("torch.argsort(t(3, 5), -1, True)")
      .sample("torch.sort(t())");
}

OpDef topk() {
  return mapping("topk")
      .from_aten_call("aten.topk.default",
                      [](AtenCall& c) -> Values {
                        ValueId x = c.tensor("self");
                        Dim k = c.dim("k");
                        bool largest = c.boolean("largest"), in_order = c.boolean("sorted");
                        int64_t axis = c.b.normal_axis(c.integer("dim"), std::max<int64_t>(c.b.rank(x), 1));
                        if (c.b.rank(x) == 0) return {x, c.b.full(Scalar{int64_t{0}}, DType::i64)};
                        return c.b.create_all("topk", {x},
                                              {{"k", k}, {"axis", axis}, {"largest", largest}, {"sorted", in_order}});
                      })
      .sample("torch.topk(t(3, 9), 4)")
      .sample("torch.topk(t(9, 3), 2, dim=0, largest=False)")
      .sample("torch.topk(t(3, 9), 0)");
}

// The axes that broadcasting would have repeated, summed up again.
OpDef sums_to_size() {
  return mapping("reduce_sum")
      .from_aten_call("aten.sum_to_size.default",
                      [](AtenCall& c) -> Values {
                        Builder& b = c.b;
                        ValueId x = c.tensor("self");
                        const Dims size = c.dims("size");
                        const size_t extra = b.shape(x).size() - std::min(size.size(), b.shape(x).size());
                        Ints axes = axes_between(0, static_cast<int64_t>(extra));
                        for (size_t i = 0; i < size.size() && extra + i < b.shape(x).size(); ++i)
                          if (size[i] == Dim(1) && b.shape(x)[extra + i] != Dim(1))
                            axes.push_back(static_cast<int64_t>(extra + i));
                        const bool integer = !is_inexact(b.dtype(x));
                        if ((!axes.empty() || size.empty()) && integer) x = b.cast(x, DType::i64);
                        return {b.reshape(b.sum(x, axes), size)};
                      })
      .sample("t(2, 3, 4).sum_to_size(3, 1)")
      .sample("t(2, 3).sum_to_size(2, 3)")
      .sample("i(dtype=torch.int32).sum_to_size(())");
}

}  // namespace

std::vector<OpDef> reduction_aten_ops() {
  return formulas({sum(), sums_to_size(), prod(), mean(), extreme("max", "reduce_max", "argmax"),
                   extreme("min", "reduce_min", "argmin"), aminmax(), arg_extreme("argmax"), arg_extreme("argmin"),
                   any_all("any", "reduce_or"), any_all("all", "reduce_and"), cumulative("cumsum", true),
                   cumulative("cumprod", true), cumulative("cummax", false), cumulative("cummin", false),
                   cumulative("logcumsumexp", false), sort(), topk()});
}

}  // namespace pycandle
