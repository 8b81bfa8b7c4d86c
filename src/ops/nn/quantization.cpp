// Fake quantization: rounding to the grid of a quantized dtype and back, as models have it that were trained for one; and
// what weights are that a backend keeps in fewer bytes.
#include "base/weight_format.h"
#include "ops/core/evaluate.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// scale and zero_point: one for all of x, or one for each index of `axis`.
struct Grid {
  ValueId scale, zero_point;
  std::optional<int64_t> axis;
};

// [C] → [1, C, 1] beside x; one element → a scalar.
ValueId beside(Builder& b, ValueId parameter, const Grid& grid, ValueId x) {
  return grid.axis ? along_axis(b, parameter, axis_of(*grid.axis, b.rank(x)), b.rank(x)) : b.reshape(parameter, {});
}

// The steps of the grid that x lies at, not yet clamped: torch multiplies by 1 / scale, rounded to f32.
ValueId steps_of(Builder& b, ValueId x, const Grid& grid) {
  const ValueId wide = b.widened(x), scale = b.cast(beside(b, grid.scale, grid, x), DType::f32);
  const ValueId zero = b.cast(beside(b, grid.zero_point, grid, x), b.dtype(wide));
  const ValueId scaled = b.mul(wide, b.cast(b.div(1.0, scale), b.dtype(wide)));
  if (is_floating(b.dtype(grid.zero_point))) return b.unary("round", b.add(scaled, zero));
  return b.add(b.unary("round", scaled), zero);
}

ValueId quantized(Builder& b, ValueId x, const Grid& grid, double low, double high) {
  const ValueId steps = steps_of(b, x, grid);
  const ValueId known = b.select(b.unary("isnan", steps), b.like(steps, low), steps);  // NaN becomes the least, as in torch
  const ValueId clamped = b.minimum(b.maximum(known, low), high);
  // The way back is computed in f32 for one scale and in f64 for one per channel.
  const DType back = grid.axis ? DType::f64 : DType::f32;
  const ValueId zero = b.cast(beside(b, grid.zero_point, grid, x), back), scale = b.cast(beside(b, grid.scale, grid, x), back);
  return b.narrowed(b.mul(b.sub(b.cast(clamped, back), zero), scale), b.dtype(x));
}

bool is_parameter_of(const Call& c, const char* name) {
  if (!c.has("axis")) return product(c.shape(name)) == Dim(1);
  const int64_t axis = axis_of(c.integer("axis"), c.rank("x"));
  return c.rank(name) == 1 && axis_fits(c.integer("axis"), c.rank("x")) && c.rank("x") > 0 &&
         c.agree(c.shape(name)[0], c.shape("x")[axis]);
}

Grid grid_of(const Call& c) {
  return {c.value("scale"), c.value("zero_point"), c.has("axis") ? std::optional(c.integer("axis")) : std::nullopt};
}

// A learned zero point is rounded and clamped before it is used.
ValueId rounded_zero_point(Builder& b, ValueId zero_point, int64_t low, int64_t high) {
  const ValueId wide = b.cast(zero_point, DType::f32);
  return b.cast(b.minimum(b.maximum(b.unary("round", wide), static_cast<double>(low)), static_cast<double>(high)), DType::i32);
}

// Reads a recorded call of any of torch's overloads; `learned`: the zero point is a float that is trained.
Values import_call(AtenCall& a, bool learned, bool with_mask) {
  Builder& b = a.b;
  const ValueId x = a.tensor("self");
  const int64_t low = a.integer("quant_min"), high = a.integer("quant_max");
  Grid grid{kNoValue, kNoValue, {}};
  if (a.has_tensor("scale")) {
    grid.scale = a.tensor("scale");
    grid.zero_point = a.tensor("zero_point");
  } else {
    grid.scale = b.full(a.number("scale"), DType::f32);
    grid.zero_point = b.full(a.integer("zero_point"), DType::i64);
  }
  if (a.has_argument("axis")) grid.axis = a.integer("axis");
  if (learned) {
    a.discard("grad_factor", "gradients only");
    grid.zero_point = rounded_zero_point(b, grid.zero_point, low, high);
  }
  Attributes attributes{{"quant_min", low}, {"quant_max", high}};
  if (grid.axis) attributes.emplace_back("axis", *grid.axis);
  Values results{b.create("fake_quantize", {x, grid.scale, grid.zero_point}, attributes)};
  if (with_mask) {
    const ValueId steps = steps_of(b, x, grid);
    results.push_back(
        b.logical_and(b.compare("ge", steps, static_cast<double>(low)), b.compare("le", steps, static_cast<double>(high))));
  }
  return results;
}

OpDef fake_quantize() {
  OpDef def = functional("fake_quantize");
  def.doc(
         "x rounded to steps of scale around zero_point, between quant_min and quant_max steps; with axis, each index has its "
         "own")
      .operands("x", "scale", "zero_point")
      .attributes(attr<int64_t>("quant_min"), attr<int64_t>("quant_max"), optional_attr<int64_t>("axis"))
      .constraint("fake_quantize_c1", "x and scale are floating, and zero_point is no complex number",
                  [](const Call& c) {
                    return is_floating(c.type("x").dtype) && is_floating(c.type("scale").dtype) &&
                           !is_complex(c.type("zero_point").dtype);
                  })
      .constraint("fake_quantize_c2", "scale and zero_point have one element, or one for each index of axis",
                  [](const Call& c) { return is_parameter_of(c, "scale") && is_parameter_of(c, "zero_point"); })
      .constraint("fake_quantize_c3", "quant_min is at most quant_max",
                  [](const Call& c) { return c.integer("quant_min") <= c.integer("quant_max"); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        return quantized(b, c.value("x"), grid_of(c), static_cast<double>(c.integer("quant_min")),
                         static_cast<double>(c.integer("quant_max")));
      });
  for (const char* overload :
       {"aten.fake_quantize_per_tensor_affine.default", "aten.fake_quantize_per_tensor_affine.tensor_qparams",
        "aten.fake_quantize_per_channel_affine.default"})
    def.from_aten_call(overload, [](AtenCall& a) { return import_call(a, false, false); });
  for (const char* overload :
       {"aten.fake_quantize_per_tensor_affine_cachemask.default", "aten.fake_quantize_per_channel_affine_cachemask.default"})
    def.from_aten_call(overload, [](AtenCall& a) { return import_call(a, false, true); });
  for (const char* overload :
       {"aten._fake_quantize_learnable_per_tensor_affine.default", "aten._fake_quantize_learnable_per_channel_affine.default"})
    def.from_aten_call(overload, [](AtenCall& a) { return import_call(a, true, false); });
  return def.sample("torch.fake_quantize_per_tensor_affine(t(3, 4) * 3, 0.1, 3, -8, 7)")
      .sample("torch.fake_quantize_per_tensor_affine(torch.where(m(3, 4), t(3, 4), float('nan')), 0.1, 3, -8, 7)");
}

// A primitive, because what a kernel packs and what verify judges must be the same numbers to the last bit.
OpDef stored_as() {
  return primitive("stored_as")
      .doc(
          "x as it comes back from a narrower format: bf16, f16, int8 (one scale along axis), int4 (one for each 32 there) or "
          "int16 (128)")
      .operands("x")
      .attributes(attr<std::string>("format"), attr<int64_t>("axis"))
      .constraint("stored_as_c1", "x is f32", [](const Call& c) { return c.type("x").dtype == DType::f32; })
      .constraint("stored_as_c2", "axis is an axis of x", [](const Call& c) { return is_axis(c.integer("axis"), c.rank("x")); })
      .constraint("stored_as_c3", "format is bf16, f16, int8, int4 or int16",
                  [](const Call& c) { return round_trip(c.string("format")) != nullptr; })
      .infer([](const Call& c) { return c.type("x"); })
      .evaluator([](const Evaluation& ev) {
        const Array rows = axis_to_end(ev.array("x"), ev.integer("axis"));
        const int64_t length = rows.shape().back();
        std::vector<double> values = load_all<double>(rows);
        const RoundTrip through = round_trip(ev.string("format"));
        parallel_for(length == 0 ? 0 : rows.size() / length, 16, [&](int64_t begin, int64_t end) {
          std::vector<float> lane(static_cast<size_t>(length)), kept(lane.size());
          for (int64_t r = begin; r < end; ++r) {
            double* at = values.data() + r * length;
            for (int64_t i = 0; i < length; ++i) lane[i] = static_cast<float>(at[i]);
            through(lane.data(), length, kept.data());
            std::copy(kept.begin(), kept.end(), at);
          }
        });
        return axis_from_end(store_all(ev.out_dtype(), rows.shape(), values), ev.integer("axis"));
      });
}

}  // namespace

std::vector<OpDef> quantization_ops() { return {fake_quantize(), stored_as()}; }

}  // namespace pycandle
