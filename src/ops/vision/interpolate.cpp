// torch's interpolation (F.interpolate): nearest, linear, cubic, with and without antialiasing. Every mode is separable:
// one axis is resampled after another.
#include <fmt/format.h>

#include <cmath>

#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"
#include "ops/vision/cubic.h"

namespace pycandle {
namespace {

// One axis being resampled from `in` to `out` positions.
struct Axis {
  int64_t axis;
  Dim in, out;
  std::optional<double> scale;  // out / in as the caller gave it
  std::optional<Dim> image;     // of two axes: the sum of their sizes in the result
};

// Positions per output position, in the dtype torch computes coordinates in.
ValueId step(Builder& b, const Axis& a, bool align_corners, DType dtype) {
  if (align_corners) {
    if (a.out == Dim(1)) return b.full(0.0, dtype);
    const ValueId gaps = b.dim_value(a.out - 1, dtype);
    if (a.out.is_number()) return b.div(b.dim_value(a.in - 1, dtype), gaps);
    // An open size may be 1, and then nothing is divided.
    const ValueId width = b.div(b.dim_value(a.in - 1, dtype), b.maximum(gaps, 1.0));
    return b.select(b.compare("eq", gaps, 0.0), b.full(0.0, dtype), width);
  }
  if (a.scale && *a.scale > 0) return b.full(1 / *a.scale, dtype);
  return b.div(b.dim_value(a.in, dtype), b.dim_value(a.out, dtype));
}

// Where each output position lies in the input: [out].
ValueId coordinates(Builder& b, const Axis& a, bool align_corners, DType dtype) {
  const ValueId width = step(b, a, align_corners, dtype);
  if (align_corners) return b.mul(b.iota(a.out, dtype), width);
  // (at + 0.5) * width - 0.5 with one rounding, as torch's kernels are compiled: the products of both halves are exact.
  const ValueId at = b.add(b.iota(a.out, DType::f64), 0.5), whole = b.cast(width, DType::f64);
  const ValueId high = b.cast(b.cast(whole, DType::f32), DType::f64), low = b.sub(whole, high);
  return b.cast(b.add(b.sub(b.mul(at, high), 0.5), b.mul(at, low)), dtype);
}

// torch copies where the sizes are equal, whatever the scale says. At open sizes that may be so at some of them only:
// floor(1.1*5) is 5.
bool may_copy(const Axis& a) { return a.in != a.out && a.scale && *a.scale > 1 && *a.scale < 1.5; }
ValueId sizes_equal(Builder& b, Dim x, Dim y) { return b.compare("eq", b.dim_value(x), b.dim_value(y)); }

ValueId at_most_last(Builder& b, ValueId index, Dim size) { return b.minimum(index, b.dim_value(size - 1)); }
ValueId taken(Builder& b, ValueId x, ValueId indices, int64_t axis) { return b.create("take", {x, indices}, {{"axis", axis}}); }
ValueId weighted(Builder& b, ValueId x, ValueId weights, int64_t axis) {
  return b.mul(x, along_axis(b, weights, axis, b.rank(x)));
}

// torch has a kernel of its own for small images, which copies where the sizes are equal and halves the index where the result is
// twice as long. The others follow the scale.
constexpr int64_t kSmallImage = 128;

ValueId nearest(Builder& b, ValueId x, const Axis& a, bool exact) {
  // torch computes the indices in f32, or in f64 for f64 tensors.
  const DType dtype = b.dtype(x) == DType::f64 ? DType::f64 : DType::f32;
  const bool by_scale = a.scale && *a.scale > 0;
  if (!exact && a.in == a.out && (!by_scale || *a.scale == 1)) return x;
  ValueId at = b.iota(a.out, dtype);
  if (exact) at = b.add(at, 0.5);
  ValueId index = b.cast(b.unary("floor", b.mul(at, step(b, a, false, dtype))), DType::i64);
  const bool may_be_small = a.image && at_most(Dim(kSmallImage + 1), *a.image) != Tri::yes;
  if (!exact && by_scale && may_be_small) {
    const auto replaced = [&](Dim size, ValueId other) {
      const ValueId is_small = b.compare("le", b.dim_value(*a.image), static_cast<double>(kSmallImage));
      index = b.select(b.logical_and(is_small, sizes_equal(b, size, a.out)), other, index);
    };
    if (a.in == a.out || may_copy(a)) replaced(a.in, b.iota(a.out));
    if (a.out == a.in * Dim(2) || (*a.scale > 2 && *a.scale < 2.5))
      replaced(a.in * Dim(2), b.cast(b.unary("floor", b.mul(at, 0.5)), DType::i64));
  }
  return taken(b, x, at_most_last(b, index, a.in), a.axis);
}

ValueId linear(Builder& b, ValueId x, const Axis& a, bool align_corners) {
  if (a.in == a.out) return x;
  ValueId source = b.maximum(coordinates(b, a, align_corners, b.dtype(x)), 0.0);
  if (!align_corners && may_copy(a)) source = b.select(sizes_equal(b, a.in, a.out), b.iota(a.out, b.dtype(x)), source);
  const ValueId low = at_most_last(b, b.cast(b.unary("floor", source), DType::i64), a.in);
  const ValueId high = at_most_last(b, b.add(low, 1.0), a.in);
  const ValueId part = b.minimum(b.maximum(b.sub(source, b.cast(low, b.dtype(x))), 0.0), 1.0);
  return b.add(weighted(b, taken(b, x, low, a.axis), b.sub(1.0, part), a.axis),
               weighted(b, taken(b, x, high, a.axis), part, a.axis));
}

// Four pixels around each output position: the second is the one at or before it.
struct CubicTaps {
  ValueId base;  // its place, [out]
  std::array<ValueId, 4> weights;
};
CubicTaps cubic_taps(Builder& b, const Axis& a, bool align_corners, DType dtype) {
  const ValueId source = coordinates(b, a, align_corners, dtype);
  const ValueId floor = b.unary("floor", source);
  return {b.cast(floor, DType::i64), cubic_weights(b, b.sub(source, floor))};
}
// The place of a tap, inside the axis.
ValueId tap_place(Builder& b, ValueId base, int offset, Dim size) {
  return at_most_last(b, b.maximum(b.add(base, static_cast<double>(offset)), 0.0), size);
}

// Of f16 and bf16 torch rounds the weights too.
ValueId cubic(Builder& b, ValueId x, const Axis& a, bool align_corners, DType of_weights) {
  CubicTaps taps = cubic_taps(b, a, align_corners, b.dtype(x));
  for (ValueId& w : taps.weights) w = b.cast(b.narrowed(w, of_weights), b.dtype(x));
  ValueId y = kNoValue;
  for (int tap = 0; tap < 4; ++tap) {
    const ValueId index = tap_place(b, taps.base, tap - 1, a.in);
    const ValueId term = weighted(b, taken(b, x, index, a.axis), taps.weights[tap], a.axis);
    y = y == kNoValue ? term : b.add(y, term);
  }
  return y;
}

// ---- as a product with a matrix of weights, [out, in]

ValueId times_matrix(Builder& b, ValueId x, ValueId weights, int64_t axis) {
  const ValueId y = b.dot_general(x, weights, {}, {}, {axis}, {1});  // the axis comes last
  Ints order = axes_between(0, b.rank(x) - 1);
  order.insert(order.begin() + axis, b.rank(x) - 1);
  return b.transpose(y, order);
}

// With antialiasing the kernel widens as the image shrinks; rows sum to 1.
ValueId antialiased_weights(Builder& b, const Axis& a, bool align_corners, bool is_cubic, DType dtype) {
  const double reach = is_cubic ? 2 : 1;
  const ValueId width = step(b, a, align_corners, dtype), stretch = b.maximum(width, 1.0);
  const ValueId support = b.mul(stretch, reach);
  const ValueId centre = b.unsqueeze(b.mul(b.add(b.iota(a.out, dtype), 0.5), width), 1);  // [out, 1]
  const ValueId position = b.iota(a.in, dtype);                                           // [in]
  const ValueId first = b.maximum(b.unary("trunc", b.add(b.sub(centre, support), 0.5)), 0.0);
  const ValueId end = b.unary("trunc", b.add(b.add(centre, support), 0.5));
  const ValueId inside = b.logical_and(b.compare("ge", position, first), b.compare("lt", position, end));
  const ValueId narrowing = b.div(1.0, stretch);
  const ValueId distance = b.abs(b.mul(b.add(b.sub(position, centre), 0.5), narrowing));
  const ValueId zero = b.full(0.0, dtype);
  ValueId weights;
  if (is_cubic) {
    constexpr double k = kAntialiasedSharpness;
    weights = b.select(b.compare("lt", distance, 1.0), cubic_near(b, distance, k),
                       b.select(b.compare("lt", distance, 2.0), cubic_far(b, distance, k), zero));
  } else {
    weights = b.maximum(b.sub(1.0, distance), 0.0);
  }
  weights = b.select(inside, weights, zero);
  return b.div(weights, b.sum(weights, {1}));
}

// Without it, two or four taps; those outside count for the pixel at the edge.
ValueId tap_weights(Builder& b, const Axis& a, bool align_corners, bool is_cubic, DType dtype) {
  const auto spread_out = [&](ValueId base, int offset, ValueId weight) {
    const ValueId here = b.compare("eq", b.unsqueeze(tap_place(b, base, offset, a.in), 1), b.iota(a.in));
    return b.select(here, b.unsqueeze(weight, 1), b.full(0.0, dtype));
  };
  if (is_cubic) {
    const CubicTaps taps = cubic_taps(b, a, align_corners, dtype);
    ValueId sum = spread_out(taps.base, -1, taps.weights[0]);
    for (int tap = 1; tap < 4; ++tap) sum = b.add(sum, spread_out(taps.base, tap - 1, taps.weights[tap]));
    return sum;
  }
  const ValueId source = coordinates(b, a, align_corners, dtype);
  const ValueId floor = b.unary("floor", source), part = b.sub(source, floor), base = b.cast(floor, DType::i64);
  return b.add(spread_out(base, 0, b.sub(1.0, part)), spread_out(base, 1, part));
}

// Bytes are resampled in integers, as torch does: weights of 15 bits, as many as the largest allows, one rounding an axis.
ValueId resampled_bytes(Builder& b, ValueId x, const Axis& a, ValueId weights) {
  constexpr int kMostBits = 22;
  const ValueId largest = b.max(weights, {0, 1}, false);
  const ValueId powers = b.unary("exp2", b.add(b.iota(kMostBits, DType::f64), 1.0));
  const ValueId fits = b.compare("lt", b.unary("floor", b.add(b.mul(powers, largest), 0.5)), 32768.0);
  const ValueId bits = b.sum(b.cast(fits, DType::f64), {0}, false), scale = b.unary("exp2", bits);
  const ValueId scaled = b.mul(weights, scale), half = b.full(0.5, DType::f64);
  const ValueId away = b.select(b.compare("lt", scaled, 0.0), b.sub(scaled, half), b.add(scaled, half));
  const ValueId whole = b.cast(b.unary("trunc", away), DType::i64);
  const ValueId sums = times_matrix(b, b.cast(x, DType::i64), whole, a.axis);
  const ValueId one = b.full(int64_t{1}, DType::i64), shift = b.cast(bits, DType::i64);
  const ValueId rounding = b.binary("shift_left", one, b.sub(shift, one));
  const ValueId y = b.binary("shift_right", b.add(sums, rounding), shift);
  return b.cast(b.minimum(b.maximum(y, 0.0), 255.0), DType::u8);
}

ValueId resampled(Builder& b, const Call& c, ValueId x, const Axis& a) {
  const std::string& mode = c.string("mode");
  const bool corners = c.boolean("align_corners");
  if (mode == "nearest" || mode == "nearest-exact") return nearest(b, x, a, mode == "nearest-exact");
  const bool is_cubic = mode == "cubic", is_bytes = b.dtype(x) == DType::u8;
  const DType dtype = is_bytes ? DType::f64 : b.dtype(x);
  if (is_bytes || c.boolean("antialias")) {
    if (a.in == a.out) return x;
    ValueId weights = c.boolean("antialias") ? antialiased_weights(b, a, corners, is_cubic, dtype)
                                             : tap_weights(b, a, corners, is_cubic, dtype);
    if (may_copy(a)) {
      const ValueId copied = b.cast(b.compare("eq", b.unsqueeze(b.iota(a.out), 1), b.iota(a.in)), dtype);
      weights = b.select(sizes_equal(b, a.in, a.out), copied, weights);
    }
    return is_bytes ? resampled_bytes(b, x, a, weights) : times_matrix(b, x, weights, a.axis);
  }
  return mode == "cubic" ? cubic(b, x, a, corners, c.type("x").dtype) : linear(b, x, a, corners);
}

bool is_nearest(const Call& c) { return c.string("mode").starts_with("nearest"); }

// upsample_*.vec(input, output_size?, [align_corners,] scale_factors?)
std::function<Values(AtenCall&)> from_vec(std::string mode, bool antialias = false) {
  return [mode, antialias](AtenCall& a) {
    const ValueId x = a.tensor("input");
    const size_t n = a.b.shape(x).size() - 2;
    Attributes attributes{{"mode", mode}, {"antialias", antialias}};
    if (a.has_argument("align_corners")) attributes.emplace_back("align_corners", a.boolean("align_corners"));
    const auto size = a.maybe_dims("output_size");
    if (!a.is_none("scale_factors")) attributes.emplace_back("scales", a.numbers("scale_factors"));
    // By factors alone the sizes are those that torch found: floor(in * factor).
    const Shape& result = a.result().shape;
    attributes.emplace_back("output_size", size ? *size : Dims(result.end() - static_cast<std::ptrdiff_t>(n), result.end()));
    return a.b.create_all("interpolate", {x}, std::move(attributes));
  };
}

// upsample_*.default(self, output_size, [align_corners,] scales…?): one argument for each scale.
std::function<Values(AtenCall&)> from_sizes(std::string mode, bool antialias = false) {
  return [mode, antialias](AtenCall& a) {
    const ValueId x = a.tensor("self");
    const Dims size = a.dims("output_size");
    Attributes attributes{{"mode", mode}, {"output_size", size}, {"antialias", antialias}};
    if (a.has_argument("align_corners")) attributes.emplace_back("align_corners", a.boolean("align_corners"));
    Numbers scales;
    for (const char* name : {"scales", "scales_d", "scales_h", "scales_w"})
      if (a.has_argument(name)) scales.push_back(a.maybe_number(name).value_or(0));  // 0: the sizes decide
    if (std::any_of(scales.begin(), scales.end(), [](double s) { return s != 0; })) attributes.emplace_back("scales", scales);
    return a.b.create_all("interpolate", {x}, std::move(attributes));
  };
}

void add_overloads(OpDef& def) {
  struct Spelling {
    const char *name, *mode;
    bool antialias;
  };
  for (const auto& [name, mode, antialias] : {Spelling{"upsample_nearest1d", "nearest", false},
                                              {"upsample_nearest2d", "nearest", false},
                                              {"upsample_nearest3d", "nearest", false},
                                              {"_upsample_nearest_exact1d", "nearest-exact", false},
                                              {"_upsample_nearest_exact2d", "nearest-exact", false},
                                              {"_upsample_nearest_exact3d", "nearest-exact", false},
                                              {"upsample_linear1d", "linear", false},
                                              {"upsample_bilinear2d", "linear", false},
                                              {"upsample_trilinear3d", "linear", false},
                                              {"upsample_bicubic2d", "cubic", false},
                                              {"_upsample_bilinear2d_aa", "linear", true},
                                              {"_upsample_bicubic2d_aa", "cubic", true}}) {
    def.from_aten_call(std::string("aten.") + name + ".vec", from_vec(mode, antialias));
    def.from_aten_call(std::string("aten.") + name + ".default", from_sizes(mode, antialias));
  }
}

void interpolation_mistakes(Mistakes& m) {
  m.flag("align corners", "align_corners", "align_corners", "no align_corners");
  m.flag("antialias", "antialias", "antialiasing", "no antialiasing");
  m.choice("interpolation mode", "mode",
           {{"nearest", "nearest"}, {"nearest-exact", "nearest-exact"}, {"linear", "linear"}, {"cubic", "cubic"}});
  const Dims& size = m.call().dims("output_size");
  if (is_floating(m.call().type("x").dtype))
    m.other_op("interpolation mode", fmt::format("adaptive_avg_pool{}d", size.size()), {{"output_size", size}},
               m.call().string("mode"), "area");
}

OpDef interpolate() {
  OpDef def = functional("interpolate");
  add_overloads(def);
  return def.doc("[N, C, positions…] resampled to output_size positions")
      .operands("x")
      .attributes(attr<std::string>("mode"), attr<Dims>("output_size"), optional_attr<Numbers>("scales"),
                  attr<bool>("align_corners", false), attr<bool>("antialias", false))
      .constraint("interpolate_c1", "x has batch, channels and as many positions as output_size (and scales)",
                  [](const Call& c) {
                    const size_t n = c.dims("output_size").size();
                    return c.shape("x").size() == n + 2 && (!c.has("scales") || c.numbers("scales").size() == n);
                  })
      .constraint("interpolate_c2", "mode is nearest, nearest-exact, linear or cubic; the last two need x floating or u8",
                  [](const Call& c) {
                    return c.string("mode") == "nearest" || c.string("mode") == "nearest-exact" ||
                           ((c.string("mode") == "linear" || c.string("mode") == "cubic") &&
                            (is_floating(c.type("x").dtype) || c.type("x").dtype == DType::u8));
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        std::copy(c.dims("output_size").begin(), c.dims("output_size").end(), y.shape.begin() + 2);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const Type& type = c.type("x");
        const Dims& size = c.dims("output_size");
        ValueId x = is_nearest(c) ? c.value("x") : b.widened(c.value("x"));
        for (size_t i = size.size(); i-- > 0;) {  // the last axis first, as torch does
          Axis axis{static_cast<int64_t>(i) + 2, type.shape[i + 2], size[i], std::nullopt, std::nullopt};
          if (size.size() == 2) axis.image = size[0] + size[1];
          if (c.has("scales")) axis.scale = c.numbers("scales")[i];
          x = resampled(b, c, x, axis);
        }
        return b.narrowed(x, type.dtype);
      })
      .mistakes(interpolation_mistakes)
      .sample("F.interpolate(t(2, 3, 5), scale_factor=2)")
      .sample("F.interpolate(t(2, 3, 5), size=7)")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=1.7)")
      .sample("F.interpolate(t(2, 3, 5), scale_factor=1.1)")
      .sample("F.interpolate(t(2, 3, 5), scale_factor=2.1)")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=(1.1, 2.1))")
      .sample("F.interpolate(t(1, 2, 5, 130), scale_factor=(2.1, 1.0))")
      .sample("F.interpolate(t(2, 3, 5, 6, 4), scale_factor=(1.1, 2.1, 1.7))")
      .sample("F.interpolate(t(2, 3, 5, 6), size=(3, 11))")
      .sample("F.interpolate(t(2, 3, 5, 6), size=(10, 9), mode='nearest-exact')")
      .sample("F.interpolate(t(2, 3, 5, 6, 4), size=(3, 11, 8))")
      .sample("F.interpolate(t(2, 3, 5), size=8, mode='linear')")
      .sample("F.interpolate(t(2, 3, 5), scale_factor=2.6, mode='linear')")
      .sample("F.interpolate(t(2, 3, 5), size=8, mode='linear', align_corners=True)")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=2, mode='bilinear')")
      .sample("F.interpolate(t(2, 3, 5, 6), size=(3, 11), mode='bilinear', align_corners=True)")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=(0.7, 1.3), mode='bilinear')")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=1.3, mode='bilinear', recompute_scale_factor=True)")
      .sample("F.interpolate(t(2, 3, 5, 6), size=(1, 6), mode='bilinear', align_corners=True)")
      .sample("F.interpolate(t(2, 3, 5, 6, 4), size=(3, 11, 8), mode='trilinear')")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=2, mode='bicubic')")
      .sample("F.interpolate(t(2, 3, 5, 6), size=(7, 4), mode='bicubic', align_corners=True)")
      .sample("F.interpolate(t(2, 3, 15, 16), size=(4, 21), mode='bilinear', antialias=True)")
      .sample("F.interpolate(t(2, 3, 15, 16), size=(4, 21), mode='bicubic', antialias=True)")
      .sample("F.interpolate(t(2, 3, 15, 16), scale_factor=0.4, mode='bilinear', antialias=True)")
      .sample("F.interpolate(i(2, 3, 9, 8, low=0, high=255, dtype=torch.uint8), size=(4, 12), mode='bilinear')")
      .sample(
          "F.interpolate(i(2, 3, 9, 8, low=0, high=255, dtype=torch.uint8), size=(4, 12), mode='bilinear', align_corners=True)")
      .sample("F.interpolate(i(2, 3, 9, 8, low=0, high=255, dtype=torch.uint8), size=(4, 12), mode='bicubic')")
      .sample("F.interpolate(i(2, 6, 9, 8, low=0, high=255, dtype=torch.uint8), scale_factor=1.3, mode='bicubic')")
      .sample("F.interpolate(i(2, 3, 9, 8, low=0, high=255, dtype=torch.uint8), size=(4, 12), mode='bilinear', antialias=True)")
      .sample("F.interpolate(i(2, 3, 9, 8, low=0, high=255, dtype=torch.uint8), size=(4, 12), mode='bicubic', antialias=True)")
      .sample("F.interpolate(t(2, 3, 5, 6), scale_factor=1.1, mode='bilinear', antialias=True)")
      .sample("F.interpolate(i(2, 3, 5, 6, low=0, high=255, dtype=torch.uint8), scale_factor=1.1, mode='bilinear')")
      .sample("torch.ops.aten.upsample_nearest2d(t(2, 3, 5, 6), [10, 9], 2.0, 1.6)")
      .sample("torch.ops.aten.upsample_bilinear2d(t(2, 3, 5, 6), [7, 9], False, None, 1.6)")
      .sample("torch.ops.aten.upsample_linear1d(t(2, 3, 5), [9], True)")
      .sample("torch.ops.aten._upsample_bicubic2d_aa(t(2, 3, 9, 8), [4, 12], False)");
}

}  // namespace

std::vector<OpDef> interpolate_ops() { return {interpolate()}; }

}  // namespace pycandle
