// ONNX's operators on images: Resize in all its forms, grids, boxes.
#include <cmath>
#include <numeric>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

// ---- Resize: one axis after the other

struct ResizedAxis {
  int64_t axis;
  Dim in, out;
  double scale;            // out / in, as the file says it
  bool is_exact = false;   // the scale is the quotient of the sizes
  double roi_start = 0, roi_end = 1;
};

struct Resizing {
  std::string mode, coordinates, rounding;
  double a, outside;
  bool excludes, antialias;
};

ValueId number_of(Builder& b, Dim d) { return b.cast(b.dim_value(d), DType::f64); }

// Where element i of the result lies in x.
ValueId places(AtenCall& c, const Resizing& r, const ResizedAxis& s) {
  Builder& b = c.b;
  const ValueId i = b.cast(b.iota(s.out), DType::f64);
  const ValueId in = number_of(b, s.in), out = number_of(b, s.out);
  const ValueId scale = s.is_exact ? b.div(out, in) : b.full(s.scale, DType::f64);
  const ValueId wide = s.is_exact ? out : b.mul(in, s.scale);  // before it was rounded
  const auto steps = [&](ValueId length) {                     // length - 1 per wide - 1; one element stands at the start
    const ValueId is_one = b.compare("eq", wide, 1.0);
    return b.select(is_one, b.full(0.0, DType::f64), b.div(length, b.select(is_one, b.full(1.0, DType::f64), b.sub(wide, 1.0))));
  };
  if (r.coordinates == "half_pixel") return b.sub(b.div(b.add(i, 0.5), scale), 0.5);
  if (r.coordinates == "asymmetric") return b.div(i, scale);
  if (r.coordinates == "align_corners") return b.mul(i, steps(b.sub(in, 1.0)));
  if (r.coordinates == "pytorch_half_pixel")
    return b.select(b.compare("eq", wide, 1.0), b.full(-0.5, DType::f64), b.sub(b.div(b.add(i, 0.5), scale), 0.5));
  if (r.coordinates == "tf_half_pixel_for_nn") return b.div(b.add(i, 0.5), scale);
  if (r.coordinates == "half_pixel_symmetric") {
    const ValueId offset = b.mul(b.div(in, 2.0), b.sub(1.0, b.div(out, wide)));
    return b.add(offset, b.sub(b.div(b.add(i, 0.5), scale), 0.5));
  }
  if (r.coordinates == "tf_crop_and_resize") {
    const ValueId last = b.sub(in, 1.0);
    const double part = s.roi_end - s.roi_start;
    const ValueId one = b.div(b.mul(last, part), 2.0), many = b.mul(i, steps(b.mul(last, part)));
    return b.add(b.select(b.compare("eq", wide, 1.0), one, many), b.mul(last, s.roi_start));
  }
  c.unsupported("coordinate_transformation_mode='" + r.coordinates + "'");
}

// The weight of an element that lies at this distance.
ValueId kernel_at(Builder& b, const Resizing& r, ValueId distance) {
  const ValueId d = b.abs(distance), zero = b.full(0.0, DType::f64);
  if (r.mode == "linear") return b.maximum(b.sub(1.0, d), 0.0);
  const ValueId near = b.add(b.mul(b.sub(b.mul(d, r.a + 2), r.a + 3), b.square(d)), 1.0);
  const ValueId far = b.mul(b.sub(b.mul(b.add(b.mul(b.sub(d, 5.0), d), 8.0), d), 4.0), r.a);
  return b.select(b.compare("le", d, 1.0), near, b.select(b.compare("lt", d, 2.0), far, zero));
}

// [out, in]: what each element of x gives to each of the result. Elements outside are those at the edge.
ValueId weights_of(AtenCall& c, const Resizing& r, const ResizedAxis& s, ValueId at) {
  Builder& b = c.b;
  const double shrink = r.antialias ? std::min(s.scale, 1.0) : 1.0;
  const int64_t reach = static_cast<int64_t>(std::ceil((r.mode == "linear" ? 1 : 2) / shrink));
  c.expects(reach <= 4096, "a scale that is not that small");
  const ValueId whole = b.unary("floor", at);
  const ValueId column = b.cast(b.iota(s.in), DType::f64), last = b.sub(number_of(b, s.in), 1.0);
  ValueId all = kNoValue, total = kNoValue;
  for (int64_t tap = 1 - reach; tap <= reach; ++tap) {
    const ValueId place = b.add(whole, static_cast<double>(tap));
    ValueId weight = kernel_at(b, r, b.mul(b.sub(place, at), shrink));
    const ValueId inside = b.logical_and(b.compare("ge", place, 0.0), b.compare("le", place, last));
    if (r.excludes) weight = b.select(inside, weight, b.full(0.0, DType::f64));
    total = total == kNoValue ? weight : b.add(total, weight);
    const ValueId edge = b.minimum(b.maximum(place, 0.0), last);
    const ValueId hit = b.compare("eq", b.unsqueeze(edge, 1), column);
    const ValueId part = b.select(hit, b.unsqueeze(weight, 1), b.full(0.0, DType::f64));
    all = all == kNoValue ? part : b.add(all, part);
  }
  return r.excludes || r.antialias ? b.div(all, b.unsqueeze(total, 1)) : all;
}

ValueId nearest_place(AtenCall& c, const Resizing& r, const ResizedAxis& s, ValueId at) {
  Builder& b = c.b;
  ValueId place;
  if (r.rounding == "round_prefer_floor")
    place = b.unary("ceil", b.sub(at, 0.5));
  else if (r.rounding == "round_prefer_ceil")
    place = b.unary("floor", b.add(at, 0.5));
  else if (r.rounding == "floor" || r.rounding == "ceil")
    place = b.unary(r.rounding, at);
  else
    c.unsupported("nearest_mode='" + r.rounding + "'");
  return b.cast(b.minimum(b.maximum(place, 0.0), b.sub(number_of(b, s.in), 1.0)), DType::i64);
}

ValueId resized_axis(AtenCall& c, const Resizing& r, const ResizedAxis& s, ValueId x) {
  Builder& b = c.b;
  const ValueId at = places(c, r, s);
  ValueId y;
  if (r.mode == "nearest") {
    y = b.create("take", {x, nearest_place(c, r, s, at)}, {{"axis", s.axis}});
  } else {
    const ValueId weights = b.cast(weights_of(c, r, s, at), b.dtype(x));
    const ValueId product = b.dot_general(x, weights, {}, {}, {s.axis}, {1});  // the axis is last now
    Ints order(static_cast<size_t>(b.rank(x)));
    std::iota(order.begin(), order.end(), 0);
    order.pop_back();
    order.insert(order.begin() + s.axis, b.rank(x) - 1);
    y = b.transpose(product, order);
  }
  if (r.coordinates != "tf_crop_and_resize") return y;
  const ValueId out = b.logical_or(b.compare("lt", at, 0.0), b.compare("gt", at, b.sub(number_of(b, s.in), 1.0)));
  return b.select(along_axis(b, out, s.axis, b.rank(y)), b.full(r.outside, b.dtype(y)), y);
}

// What torch calls so is one operator.
std::optional<ValueId> as_torch(Builder& b, ValueId x, const Resizing& r, const std::vector<ResizedAxis>& axes) {
  const int64_t rank = b.rank(x);
  if (rank < 3 || rank > 5 || axes.empty() || axes[0].axis < 2 || r.excludes || r.antialias) return std::nullopt;
  if (!is_floating(b.dtype(x))) return std::nullopt;
  std::string mode;
  bool corners = false;
  const bool is_half = r.coordinates == "half_pixel" || r.coordinates == "pytorch_half_pixel";
  if (r.mode == "nearest" && r.coordinates == "asymmetric" && r.rounding == "floor") mode = "nearest";
  if (r.mode == "linear" && (is_half || r.coordinates == "align_corners")) mode = "linear";
  if (r.mode == "cubic" && rank == 4 && r.a == -0.75 && (is_half || r.coordinates == "align_corners")) mode = "cubic";
  if (mode.empty()) return std::nullopt;
  corners = r.coordinates == "align_corners";
  Dims sizes(b.shape(x).begin() + 2, b.shape(x).end());
  Numbers scales(sizes.size(), 1.0);
  bool exact = true;
  for (const ResizedAxis& s : axes) {
    if (r.coordinates == "pytorch_half_pixel" && !(s.out.is_number() && s.out.number() > 1)) return std::nullopt;
    sizes[static_cast<size_t>(s.axis - 2)] = s.out;
    scales[static_cast<size_t>(s.axis - 2)] = s.scale;
    exact = exact && s.is_exact;
  }
  if (corners && !exact) return std::nullopt;  // ONNX's corners are those before the size was rounded
  return b.create("interpolate", {x},
                  {{"mode", mode},
                   {"output_size", sizes},
                   {"scales", exact || corners ? Attribute{} : Attribute{scales}},
                   {"align_corners", corners}});
}

ValueId resized_by(AtenCall& c, ValueId x, const Resizing& r, const std::vector<ResizedAxis>& axes) {
  Builder& b = c.b;
  if (axes.empty()) return x;
  if (const auto made = as_torch(b, x, r, axes)) return *made;
  const DType dtype = b.dtype(x);
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic") c.unsupported("mode='" + r.mode + "'");
  ValueId y = r.mode == "nearest" ? x : is_floating(dtype) ? b.widened(x) : b.cast(x, DType::f32);
  for (const ResizedAxis& s : axes) y = resized_axis(c, r, s, y);
  if (r.mode != "nearest" && is_integral(dtype))
    y = b.maximum(b.minimum(b.unary("round", y), highest_of(dtype)), lowest_of(dtype));
  return b.cast(y, dtype);
}

// The result's size for a scale: rounded down. A whole scale serves an open size too.
Dim scaled(AtenCall& c, Dim in, double scale) {
  if (const auto number = in.maybe_number()) return Dim(static_cast<int64_t>(std::floor(static_cast<double>(*number) * scale)));
  if (scale == std::floor(scale) && scale >= 1) return in * Dim(static_cast<int64_t>(scale));
  const double part = 1 / scale;
  if (part == std::floor(part) && part < (1 << 20)) return floordiv(in, Dim(static_cast<int64_t>(part)));
  c.unsupported("a scale that is not whole, of an axis whose size is open");
}

std::vector<ResizedAxis> axes_by_scales(AtenCall& c, ValueId x, const Numbers& scales, const Ints& axes, const Numbers& roi) {
  std::vector<ResizedAxis> all;
  c.expects(scales.size() == axes.size(), "a scale for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    c.expects(scales[i] > 0 && scales[i] < (1 << 20), "positive scales");
    const Dim in = c.b.shape(x)[axes[i]], out = scaled(c, in, scales[i]);
    ResizedAxis s{axes[i], in, out, scales[i],
                  out == in * Dim(static_cast<int64_t>(scales[i])) && scales[i] == std::floor(scales[i])};
    if (!roi.empty()) s.roi_start = roi[i], s.roi_end = roi[i + axes.size()];
    if (scales[i] != 1.0 || s.roi_start != 0 || s.roi_end != 1) all.push_back(s);
  }
  return all;
}

std::vector<ResizedAxis> axes_by_sizes(AtenCall& c, ValueId x, Dims sizes, const Ints& axes, const Numbers& roi,
                                       const std::string& policy) {
  Builder& b = c.b;
  c.expects(sizes.size() == axes.size(), "a size for each axis");
  std::optional<double> common;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto in = b.shape(x)[axes[i]].maybe_number(), out = sizes[i].maybe_number();
    if (policy == "stretch") continue;
    if (!in || !out || *in == 0) c.unsupported("keep_aspect_ratio_policy where a size is open");
    const double scale = static_cast<double>(*out) / static_cast<double>(*in);
    common = !common ? scale : policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
  }
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    c.unsupported("keep_aspect_ratio_policy='" + policy + "'");
  std::vector<ResizedAxis> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim in = b.shape(x)[axes[i]];
    Dim out = sizes[i];
    if (common) out = Dim(static_cast<int64_t>(std::floor(*common * static_cast<double>(in.number()) + 0.5)));
    const bool known = in.is_number() && out.is_number() && in.number() > 0;
    ResizedAxis s{axes[i], in, out, known ? static_cast<double>(out.number()) / static_cast<double>(in.number()) : 1.0, true};
    if (common) s.scale = *common, s.is_exact = false;
    if (!roi.empty()) s.roi_start = roi[i], s.roi_end = roi[i + axes.size()];
    if (!known && c.has_argument("antialias") && c.integer("antialias") != 0) c.unsupported("antialias where a size is open");
    if (!(in == out) || s.roi_start != 0 || s.roi_end != 1) all.push_back(s);
  }
  return all;
}

ValueId resize(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  const auto flag = [&](const char* name) { return c.has_argument(name) && c.integer(name) != 0; };
  const Resizing r{c.string("mode"),
                   c.string("coordinate_transformation_mode"),
                   c.string("nearest_mode"),
                   c.number("cubic_coeff_a"),
                   c.number("extrapolation_value"),
                   flag("exclude_outside"),
                   flag("antialias")};
  Ints axes(static_cast<size_t>(b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has_argument("axes") && !c.is_none("axes")) axes = c.integers("axes");
  for (int64_t& axis : axes) axis = b.normal_axis(axis, b.rank(x));
  Numbers roi = c.numbers("roi");
  if (r.coordinates != "tf_crop_and_resize") roi.clear();
  c.expects(roi.empty() || roi.size() == 2 * axes.size(), "a start and an end of each axis");
  const std::string policy = c.has_argument("keep_aspect_ratio_policy") ? c.string("keep_aspect_ratio_policy") : "stretch";
  const Numbers scales = c.numbers("scales");
  const auto sizes = c.maybe_dims("sizes");
  if (sizes && !sizes->empty()) return resized_by(c, x, r, axes_by_sizes(c, x, *sizes, axes, roi, policy));
  return resized_by(c, x, r, axes_by_scales(c, x, scales, axes, roi));
}

// Upsample, and Resize before opset 11.
ValueId upsampled(AtenCall& c) {
  const ValueId x = c.tensor("X");
  Numbers scales;
  if (c.has_argument("scales"))
    scales = c.numbers("scales");
  else
    scales = {1.0, 1.0, c.number("height_scale"), c.number("width_scale")};
  Ints axes(static_cast<size_t>(c.b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  std::string mode = c.string("mode");
  if (mode == "bilinear") mode = "linear";
  return resized_by(c, x, {mode, "asymmetric", "floor", -0.75, 0, false, false}, axes_by_scales(c, x, scales, axes, {}));
}

// ---- grids and crops

ValueId sampled_at(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("X"), grid = c.tensor("grid");
  std::string mode = c.string("mode");
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  const DType dtype = b.dtype(x);
  return b.cast(
      b.create("grid_sample", {x, b.cast(grid, dtype)},
               {{"mode", mode}, {"padding", c.string("padding_mode")}, {"align_corners", c.integer("align_corners") != 0}}),
      dtype);
}

ValueId affine_points(AtenCall& c) {
  return c.b.create("affine_grid", {c.tensor("theta")},
                    {{"size", c.dims("size")}, {"align_corners", c.integer("align_corners") != 0}});
}

// The odd one: cropped off the end, padded at the end.
ValueId centred(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("input_data");
  const Dims sizes = c.dims("shape");
  Ints axes(static_cast<size_t>(b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  if (!c.is_none("axes")) axes = c.integers("axes");
  c.expects(axes.size() == sizes.size(), "a size for each axis");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = b.normal_axis(axes[i], b.rank(x));
    const auto in = b.shape(x)[axis].maybe_number(), out = sizes[i].maybe_number();
    if (b.shape(x)[axis] == sizes[i]) continue;
    if (!in || !out) c.unsupported("an axis whose size is open");
    if (*out < *in) {
      const int64_t start = (*in - *out) / 2;
      x = b.slice(x, axis, start, start + *out);
    } else {
      Dims low(static_cast<size_t>(b.rank(x)), Dim(0)), high = low;
      low[axis] = (*out - *in) / 2;
      high[axis] = *out - *in - (*out - *in) / 2;
      x = b.pad(x, low, high, is_floating(b.dtype(x)) ? Scalar{0.0} : Scalar{int64_t{0}});
    }
  }
  return x;
}

// ---- boxes

ValueId boxes_of_images(AtenCall& c, DType dtype) {
  Builder& b = c.b;
  const ValueId rois = c.tensor("rois"), images = c.tensor("batch_indices");
  return b.concat({b.cast(b.unsqueeze(images, 1), dtype), b.cast(rois, dtype)}, 1);
}

ValueId aligned_regions(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  if (c.string("mode") != "avg") c.unsupported("mode='" + c.string("mode") + "'");
  const bool half = c.has_argument("coordinate_transformation_mode") &&
                    c.string("coordinate_transformation_mode") == "half_pixel";
  if (c.has_argument("coordinate_transformation_mode") && !half &&
      c.string("coordinate_transformation_mode") != "output_half_pixel")
    c.unsupported("coordinate_transformation_mode='" + c.string("coordinate_transformation_mode") + "'");
  return b.create("roi_align", {x, boxes_of_images(c, b.dtype(x))},
                  {{"scale", c.number("spatial_scale")},
                   {"height", c.integer("output_height")},
                   {"width", c.integer("output_width")},
                   {"sampling", c.integer("sampling_ratio")},
                   {"aligned", half}});
}

ValueId pooled_regions(AtenCall& c) {
  const ValueId x = c.tensor("X");
  const Ints shape = c.integers("pooled_shape");
  c.expects(shape.size() == 2, "a height and a width");
  return c.b.create("roi_pool", {x, c.tensor("rois")},
                    {{"scale", c.number("spatial_scale")}, {"height", shape[0]}, {"width", shape[1]}});
}

std::optional<double> one_number(AtenCall& c, const char* name) {
  const Numbers given = c.numbers(name);
  c.expects(given.size() <= 1, "one number");
  return given.empty() ? std::nullopt : std::optional(given[0]);
}

// Rows (image, class, box), best first for each image and class.
ValueId without_overlaps(AtenCall& c) {
  Builder& b = c.b;
  const ValueId all_boxes = c.tensor("boxes"), all_scores = c.tensor("scores");
  const double overlap = one_number(c, "iou_threshold").value_or(0.0);
  const auto least = one_number(c, "score_threshold");
  const auto most = static_cast<int64_t>(one_number(c, "max_output_boxes_per_class").value_or(0.0));
  const bool is_centre = c.integer("center_point_box") != 0;
  const auto images = b.shape(all_scores).at(0).maybe_number(), classes = b.shape(all_scores).at(1).maybe_number();
  if (!images || !classes || *images * *classes > 4096) c.unsupported("batches or classes whose number is open");
  Values rows;
  for (int64_t image = 0; image < *images && most > 0; ++image) {
    const ValueId given = b.select_index(all_boxes, 0, image);
    const auto part = [&](int64_t i) { return b.slice(given, 1, i, i + 1); };
    ValueId corners;
    if (is_centre) {
      const ValueId w = b.div(part(2), 2.0), h = b.div(part(3), 2.0);
      corners = b.concat({b.sub(part(0), w), b.sub(part(1), h), b.add(part(0), w), b.add(part(1), h)}, 1);
    } else {  // any two corners, y first
      corners = b.concat(
          {b.minimum(part(1), part(3)), b.minimum(part(0), part(2)), b.maximum(part(1), part(3)), b.maximum(part(0), part(2))},
          1);
    }
    for (int64_t kind = 0; kind < *classes; ++kind) {
      ValueId scores = b.select_index(b.select_index(all_scores, 0, image), 0, kind), boxes = corners, places = kNoValue;
      if (least) {
        const Dim found = DataSizes::of(c, 0, 0);
        places = b.reshape(b.create("nonzero", {b.compare("gt", scores, *least)}, {{"count", found}}), {found});
        scores = b.create("take", {scores, places}, {{"axis", int64_t{0}}});
        boxes = b.create("take", {boxes, places}, {{"axis", int64_t{0}}});
      }
      const Dim kept = DataSizes::of(c, 0, 0);
      ValueId best = b.create("nms", {boxes, scores}, {{"iou_threshold", overlap}, {"count", kept}});
      const Dim count = min(kept, Dim(most));
      best = b.slice(best, 0, 0, count);
      if (places != kNoValue) best = b.create("take", {places, best}, {{"axis", int64_t{0}}});
      const ValueId column = b.unsqueeze(best, 1);
      rows.push_back(b.concat({b.full(image, DType::i64, {count, 1}), b.full(kind, DType::i64, {count, 1}), column}, 1));
    }
  }
  if (rows.empty()) return b.full(int64_t{0}, DType::i64, {0, 3});
  return rows.size() == 1 ? rows[0] : b.concat(rows, 0);
}

Values deformed_convolution(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X"), w = c.tensor("W");
  c.expects(b.rank(x) == 4, "[N, C, H, W]");
  c.maybe_integers("kernel_shape");
  const Ints pads = c.maybe_integers("pads").value_or(Ints(4, 0));
  c.expects(pads.size() == 4, "two pads for each position axis");
  if (pads[0] != pads[2] || pads[1] != pads[3]) c.unsupported("pads that differ at the two ends of an axis");
  const auto bias = c.maybe_tensor("B"), mask = c.maybe_tensor("mask");
  return {b.create("deform_conv2d", {x, w, c.tensor("offset"), mask.value_or(kNoValue), bias.value_or(kNoValue)},
                   {{"stride", c.maybe_integers("strides").value_or(Ints{1, 1})},
                    {"padding", Ints{pads[0], pads[1]}},
                    {"dilation", c.maybe_integers("dilations").value_or(Ints{1, 1})},
                    {"groups", c.integer("group")},
                    {"offset_groups", c.integer("offset_group")}})};
}

#define RESIZE                                                                                                       \
  "coordinate_transformation_mode=\"half_pixel\", cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, " \
  "mode=\"nearest\", nearest_mode=\"round_prefer_floor\""
#define BOXES "(boxes, scores, max_output_boxes_per_class#?, iou_threshold#?, score_threshold#?; center_point_box=0)"

}  // namespace

std::vector<OpDef> vision_onnx_ops() {
  return {
      onnx_mapped(
          "interpolate",
          {"onnx.Resize.11(X, roi#?, scales#?, sizes#?; " RESIZE ")",
           "onnx.Resize.18(X, roi#?, scales#?, sizes#?; antialias=0, axes=none, keep_aspect_ratio_policy=\"stretch\", " RESIZE
           ")"},
          resize),
      onnx_mapped(
          "interpolate",
          {"onnx.Resize.10(X, scales#; mode=\"nearest\")", "onnx.Upsample.9(X, scales#; mode=\"nearest\")",
           "onnx.Upsample.7(X; mode=\"nearest\", scales!)", "onnx.Upsample.1(X; height_scale!, mode=\"nearest\", width_scale!)"},
          upsampled),
      onnx_mapped("grid_sample",
                  {"onnx.GridSample.16(X, grid; align_corners=0, mode=\"bilinear\", padding_mode=\"zeros\")",
                   "onnx.GridSample.20(X, grid; align_corners=0, mode=\"linear\", padding_mode=\"zeros\")"},
                  sampled_at),
      onnx_mapped("affine_grid", {"onnx.AffineGrid.20(theta, size#; align_corners=0)"}, affine_points),
      onnx_mapped("slice", {"onnx.CenterCropPad.18(input_data, shape#; axes=none)"}, centred),
      onnx_mapped("roi_align",
                  {"onnx.RoiAlign.10(X, rois, batch_indices; mode=\"avg\", output_height=1, output_width=1, sampling_ratio=0, "
                   "spatial_scale=1.0)",
                   "onnx.RoiAlign.16(X, rois, batch_indices; coordinate_transformation_mode=\"half_pixel\", mode=\"avg\", "
                   "output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0)"},
                  aligned_regions),
      onnx_mapped("roi_pool", {"onnx.MaxRoiPool.1(X, rois; pooled_shape!, spatial_scale=1.0)"}, pooled_regions),
      onnx_mapped("nms", {"onnx.NonMaxSuppression.10" BOXES}, without_overlaps),
      onnx_mapped_all("deform_conv2d",
                      {"onnx.DeformConv.19(X, W, offset, B?, mask?; dilations=none, group=1, kernel_shape=none, offset_group=1, "
                       "pads=none, strides=none)"},
                      deformed_convolution)};
}

#undef RESIZE
#undef BOXES

}  // namespace pycandle
