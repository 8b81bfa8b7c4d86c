// ONNX's reductions: axes are an attribute, and an input in later opsets; without axes all are reduced, or none.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/core/aten_call.h"
#include "ops/core/functional_helpers.h"
#include "ops/reduction/reduction_helpers.h"

namespace pycandle {
namespace {

struct Reduction {
  ValueId x;
  Ints axes;
  bool keep, does_nothing = false;
};

Reduction reduction_of(AtenCall& c) {
  Reduction r{c.tensor("x"), {}, c.integer("keepdims") != 0};
  const int64_t rank = c.b.rank(r.x);
  if (const auto given = c.maybe_integers("axes")) r.axes = *given;
  const bool none_means_none = c.has_argument("noop_with_empty_axes") && c.integer("noop_with_empty_axes") != 0;
  if (r.axes.empty()) {
    r.does_nothing = none_means_none;
    r.axes.resize(static_cast<size_t>(rank));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  for (int64_t& axis : r.axes) axis = c.b.normal_axis(axis, rank);
  std::sort(r.axes.begin(), r.axes.end());
  c.expects(std::adjacent_find(r.axes.begin(), r.axes.end()) == r.axes.end(), "axes that differ");
  return r;
}

using Before = ValueId (*)(Builder&, ValueId);
ValueId as_it_is(Builder&, ValueId x) { return x; }
ValueId squared(Builder& b, ValueId x) { return b.square(x); }
ValueId magnitude(Builder& b, ValueId x) { return b.abs(x); }
ValueId root(Builder& b, ValueId x) { return b.sqrt(x); }
ValueId logarithm(Builder& b, ValueId x) { return b.log(x); }

// The largest and the least of no elements.
std::optional<Scalar> of_nothing(const Builder& b, std::string_view op, ValueId x, const Reduction& r) {
  const bool is_empty = std::any_of(r.axes.begin(), r.axes.end(), [&](int64_t axis) { return b.shape(x)[axis] == Dim(0); });
  if (!is_empty || (op != "reduce_max" && op != "reduce_min")) return std::nullopt;
  const bool is_max = op == "reduce_max";
  const DType dtype = b.dtype(x);
  if (dtype == DType::boolean) return Scalar{!is_max};
  if (is_floating(dtype))
    return Scalar{is_max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity()};
  return Scalar{to_int64(is_max ? lowest_of(dtype) : highest_of(dtype))};
}

Shape shape_after(const Builder& b, ValueId x, const Reduction& r) {
  Shape shape;
  for (int64_t axis = 0; axis < b.rank(x); ++axis) {
    if (!std::binary_search(r.axes.begin(), r.axes.end(), axis))
      shape.push_back(b.shape(x)[axis]);
    else if (r.keep)
      shape.emplace_back(1);
  }
  return shape;
}

// after(op(before(x))); f16 and bf16 in f32, integers as they are.
OpDef reduced(const char* op, const std::string& name, std::initializer_list<int> opsets, Before before = as_it_is,
              Before after = as_it_is) {
  OpDef def = mapping(op);
  for (const int opset : opsets) {
    const bool is_input = opset >= 18 || (name == "Sum" && opset >= 13);
    const std::string form = is_input ? "(x, axes#?; keepdims=1, noop_with_empty_axes=0)" : "(x; axes=none, keepdims=1)";
    def.from_aten_call("onnx.Reduce" + name + "." + std::to_string(opset) + form, [op, before, after](AtenCall& c) -> Values {
      const Reduction r = reduction_of(c);
      const DType dtype = c.b.dtype(r.x);
      ValueId y = before(c.b, c.b.widened(r.x));
      if (!r.does_nothing)
        y = of_nothing(c.b, op, y, r) ? c.b.full(*of_nothing(c.b, op, y, r), c.b.dtype(y), shape_after(c.b, y, r))
                                      : c.b.reduce(op, y, r.axes, r.keep);
      return {c.b.narrowed(after(c.b, y), dtype)};
    });
  }
  return def;
}

OpDef mean() {
  OpDef def = mapping("mean");
  for (const char* overload :
       {"onnx.ReduceMean.1(x; axes=none, keepdims=1)", "onnx.ReduceMean.18(x, axes#?; keepdims=1, noop_with_empty_axes=0)"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      const Reduction r = reduction_of(c);
      if (r.does_nothing) return {r.x};
      c.expects(is_floating(c.b.dtype(r.x)), "floats");
      return c.b.create_all("mean", {r.x}, {{"axes", r.axes}, {"keep", r.keep}});
    });
  // In torch's own pooling module it is a pool, as torch's exporter writes it.
  def.from_aten_call("onnx.pycandle.ReduceMean.1(x, axes#?; keepdims=1, noop_with_empty_axes=0)", [](AtenCall& c) -> Values {
    const Reduction r = reduction_of(c);
    const int64_t spatial = c.b.rank(r.x) - 2;
    const bool is_pool = r.keep && spatial >= 1 && spatial <= 3 && r.axes == last_axes(spatial + 2, static_cast<size_t>(spatial));
    if (!is_pool) return c.b.create_all("mean", {r.x}, {{"axes", r.axes}, {"keep", r.keep}});
    const Dims one(static_cast<size_t>(spatial), Dim(1));
    return c.b.create_all("adaptive_avg_pool" + std::to_string(spatial) + "d", {r.x}, {{"output_size", one}});
  });
  return def;
}

OpDef log_sum_exp() {
  OpDef def = mapping("logsumexp");
  for (const char* overload : {"onnx.ReduceLogSumExp.1(x; axes=none, keepdims=1)",
                               "onnx.ReduceLogSumExp.18(x, axes#?; keepdims=1, noop_with_empty_axes=0)"})
    def.from_aten_call(overload, [](AtenCall& c) -> Values {
      const Reduction r = reduction_of(c);
      if (r.does_nothing) return {r.x};
      if (const auto nothing = of_nothing(c.b, "reduce_max", r.x, r))
        return {c.b.full(*nothing, c.b.dtype(r.x), shape_after(c.b, r.x, r))};
      return c.b.create_all("logsumexp", {r.x}, {{"axes", r.axes}, {"keep", r.keep}});
    });
  return def;
}

// The first of equal elements, or the last.
OpDef position(const char* op, const char* name) {
  OpDef def = mapping(op);
  const auto build = [op](AtenCall& c) -> Values {
    Builder& b = c.b;
    ValueId x = c.tensor("x");
    const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
    const bool last = c.has_argument("select_last_index") && c.integer("select_last_index") != 0;
    const Dim size = b.shape(x)[axis];
    if (last) x = b.reverse(x, {axis});
    ValueId place = b.create(op, {x}, {{"axis", axis}});
    if (last) place = b.sub(b.dim_value(size - Dim(1)), place);
    return {c.integer("keepdims") != 0 ? b.unsqueeze(place, axis) : place};
  };
  return def.from_aten_call(std::string("onnx.") + name + ".1(x; axis=0, keepdims=1)", build)
      .from_aten_call(std::string("onnx.") + name + ".12(x; axis=0, keepdims=1, select_last_index=0)", build);
}

// exclusive: without the element itself; reverse: from the end.
Values cumulated(AtenCall& c, const char* op, double first) {
  Builder& b = c.b;
  ValueId x = c.tensor("x");
  const DType dtype = b.dtype(x);
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  const bool backwards = c.integer("reverse") != 0;
  if (backwards) x = b.reverse(x, {axis});
  ValueId y = b.create(op, {b.widened(x)}, {{"axis", axis}});
  if (c.integer("exclusive") != 0) {
    Dims low(static_cast<size_t>(b.rank(x)), Dim(0));
    low[axis] = 1;
    y = b.slice(b.pad(y, low, Dims(low.size(), Dim(0)), first), axis, 0, b.shape(x)[axis]);
  }
  if (backwards) y = b.reverse(y, {axis});
  return {b.narrowed(y, dtype)};
}

Values largest(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const Dims k = c.dims("k");
  c.expects(k.size() == 1, "one k");
  return c.b.create_all("topk", {x},
                        {{"k", k[0]},
                         {"axis", c.b.normal_axis(c.integer("axis"), c.b.rank(x))},
                         {"largest", !c.has_argument("largest") || c.integer("largest") != 0},
                         {"sorted", !c.has_argument("sorted") || c.integer("sorted") != 0},
                         {"stable", true}});
}

}  // namespace

std::vector<OpDef> reduction_onnx_ops() {
  return {reduced("reduce_sum", "Sum", {1, 13}),
          reduced("reduce_prod", "Prod", {1, 18}),
          reduced("reduce_max", "Max", {1, 18}),
          reduced("reduce_min", "Min", {1, 18}),
          reduced("reduce_sum", "SumSquare", {1, 18}, squared),
          reduced("reduce_sum", "L1", {1, 18}, magnitude),
          reduced("reduce_sum", "L2", {1, 18}, squared, root),
          reduced("reduce_sum", "LogSum", {1, 18}, as_it_is, logarithm),
          mean(),
          log_sum_exp(),
          position("argmax", "ArgMax"),
          position("argmin", "ArgMin"),
          mapping("cumsum").from_aten_call("onnx.CumSum.11(x, axis#; exclusive=0, reverse=0)",
                                           [](AtenCall& c) { return cumulated(c, "cumsum", 0.0); }),
          mapping("cumprod").from_aten_call("onnx.CumProd.26(x, axis#; exclusive=0, reverse=0)",
                                            [](AtenCall& c) { return cumulated(c, "cumprod", 1.0); }),
          mapping("topk")
              .from_aten_call("onnx.TopK.1(x; axis=-1, k!)", largest)
              .from_aten_call("onnx.TopK.10(x, k#; axis=-1)", largest)
              .from_aten_call("onnx.TopK.11(x, k#; axis=-1, largest=1, sorted=1)", largest)};
}

}  // namespace pycandle
