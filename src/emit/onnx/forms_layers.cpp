// Layers: convolutions, pools, norms, attention, images.
#include <algorithm>
#include <numeric>

#include "emit/onnx/forms.h"
#include "emit/onnx/kernels.h"

namespace pycandle::emit::onnx {
namespace {

bool is_f32(const Call& c) { return c.type(c.op().operand_specs[0].name).dtype == DType::f32; }
bool is_float(const Call& c) { return is_floating(c.type(c.op().operand_specs[0].name).dtype); }

// [C, positions…] as a batch of one: ONNX's layers have a batch.
struct Batched {
  const Site& s;
  bool is_unbatched;
  Batched(const Site& site, size_t positions) : s(site), is_unbatched(site.c.shape("x").size() == positions + 1) {}
  std::string x() const { return is_unbatched ? s.w.unsqueeze(s["x"], {0}) : s["x"]; }
  std::string result(const std::string& y) const { return is_unbatched ? s.w.squeeze(y, {0}) : y; }
};

Ints joined(Ints low, const Ints& high) {
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

// ---- convolutions

template <size_t n> Names conv(const Site& s) {
  const Batched batched(s, n);
  Ints low = s.c.integers("padding"), high = low;
  for (size_t i = 0; s.c.boolean("same") && i < n; ++i) {
    const int64_t total = s.c.integers("dilation")[i] * (s.c.shape("weight")[i + 2].number() - 1);
    low[i] = total / 2;
    high[i] = total - low[i];
  }
  Names inputs{batched.x(), s["weight"]};
  if (s.c.has("bias")) inputs.push_back(s["bias"]);
  return {batched.result(s.w.run("Conv", inputs, s.dtype("x"),
                                 {{"dilations", s.c.integers("dilation")},
                                  {"group", s.c.integer("groups")},
                                  {"pads", joined(low, high)},
                                  {"strides", s.c.integers("stride")}}))};
}
bool has_kernel(const Call& c) {
  const Shape& weight = c.shape("weight");
  return is_float(c) && std::all_of(weight.begin() + 2, weight.end(), [](Dim d) { return d.is_number(); });
}

template <size_t n> Names conv_transpose(const Site& s) {
  const Batched batched(s, n);
  Names inputs{batched.x(), s["weight"]};
  if (s.c.has("bias")) inputs.push_back(s["bias"]);
  return {batched.result(s.w.run("ConvTranspose", inputs, s.dtype("x"),
                                 {{"dilations", s.c.integers("dilation")},
                                  {"group", s.c.integer("groups")},
                                  {"output_padding", s.c.integers("output_padding")},
                                  {"pads", joined(s.c.integers("padding"), s.c.integers("padding"))},
                                  {"strides", s.c.integers("stride")}}))};
}

// Zeros between the elements of an axis.
std::string spread(const Site& s, std::string x, const Ints& steps) {
  Shape now = s.c.shape("x");
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == 1) continue;
    const size_t axis = i + 2;
    Ints amounts(2 * (now.size() + 1), 0);
    amounts[now.size() + 1 + axis + 1] = steps[i] - 1;
    const std::string zero = s.w.scalar(0.0, s.dtype("x"));
    x = s.w.node("Pad", {s.w.unsqueeze(x, {static_cast<int64_t>(axis) + 1}), s.w.ints(amounts), zero});
    const Dim size = now[axis];
    now[axis] = size * Dim(steps[i]);
    x = s.w.slice(s.w.reshape(x, {}, now), static_cast<int64_t>(axis), 0, (size - 1) * Dim(steps[i]) + 1);
    now[axis] = (size - 1) * Dim(steps[i]) + 1;
  }
  return x;
}
Names convolution(const Site& s) {
  return {s.w.run("Conv", {spread(s, s["x"], s.c.integers("input_dilation")), s["weight"]}, s.dtype("x"),
                  {{"dilations", s.c.integers("dilation")},
                   {"group", s.c.integer("groups")},
                   {"pads", joined(s.c.integers("padding_low"), s.c.integers("padding_high"))},
                   {"strides", s.c.integers("strides")}})};
}

// ---- pools

OnnxAttributes pool_attributes(const Site& s) {
  return {{"kernel_shape", s.c.integers("kernel_size")},
          {"strides", s.c.integers("stride")},
          {"pads", joined(s.c.integers("padding"), s.c.integers("padding"))},
          {"ceil_mode", int64_t{s.c.boolean("ceil_mode") ? 1 : 0}}};
}
template <size_t n> Names max_pool(const Site& s) {
  const Batched batched(s, n);
  OnnxAttributes attributes = pool_attributes(s);
  attributes.emplace_back("dilations", s.c.integers("dilation"));
  return {batched.result(s.w.run("MaxPool", {batched.x()}, s.dtype("x"), attributes))};
}
// ONNX counts positions in the whole tensor, torch in each plane.
template <size_t n> Names max_pool_with_indices(const Site& s) {
  const Batched batched(s, n);
  OnnxAttributes attributes = pool_attributes(s);
  attributes.emplace_back("dilations", s.c.integers("dilation"));
  const Names found = s.w.nodes("MaxPool", {batched.x()}, attributes, 2);
  const Shape& shape = s.c.shape("x");
  const std::string plane = s.w.dim(product(Shape(shape.end() - n, shape.end())));
  return {batched.result(found[0]), batched.result(s.w.node("Mod", {found[1], plane}))};
}
template <size_t n> Names avg_pool(const Site& s) {
  const Batched batched(s, n);
  OnnxAttributes attributes = pool_attributes(s);
  attributes.emplace_back("count_include_pad", int64_t{s.c.boolean("count_include_pad") ? 1 : 0});
  return {batched.result(s.w.run("AveragePool", {batched.x()}, s.dtype("x"), attributes))};
}
bool divides_by_count(const Call& c) { return is_float(c) && !c.has("divisor_override") && !c.boolean("ceil_mode"); }

Names adaptive_avg_pool(const Site& s) {
  const auto rank = s.c.rank("x"), n = static_cast<int64_t>(s.c.dims("output_size").size());
  if (s.c.dims("output_size") != Dims(static_cast<size_t>(n), Dim(1))) internal_error("a pool to more than one cell");
  if (rank == n + 2) return {s.w.run("GlobalAveragePool", {s["x"]}, s.dtype("x"))};
  return {s.w.run("ReduceMean", {s["x"], s.w.ints(all_axes(rank - n, rank))}, s.dtype("x"), {{"keepdims", int64_t{1}}})};
}
bool pools_to_one(const Call& c) { return is_float(c) && c.dims("output_size") == Dims(c.dims("output_size").size(), Dim(1)); }

// The windows of the last axes, over [N, 1, positions…].
struct Windows {
  const Site& s;
  size_t n;
  std::string x() const {
    const Shape& shape = s.c.shape("x");
    if (shape.size() == n + 2) return s["x"];
    Shape whole{product(Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(n))), Dim(1)};
    whole.insert(whole.end(), shape.end() - static_cast<std::ptrdiff_t>(n), shape.end());
    return s.w.reshape(s["x"], {}, whole);
  }
  std::string result(const std::string& y) const {
    return s.c.shape("x").size() == n + 2 ? y : s.w.reshape(y, {}, s.result().shape);
  }
};
Names reduce_window(const Site& s) {
  const Ints& window = s.c.integers("window");
  const Windows windows{s, window.size()};
  OnnxAttributes attributes{{"kernel_shape", window},
                            {"strides", s.c.integers("strides")},
                            {"dilations", s.c.integers("dilation")},
                            {"pads", joined(s.c.integers("padding_low"), s.c.integers("padding_high"))}};
  const std::string& kind = s.c.string("kind");
  const DType d = s.dtype("x");
  if (kind == "max") return {windows.result(s.w.run("MaxPool", {windows.x()}, d, attributes))};
  attributes.emplace_back("count_include_pad", int64_t{1});
  const std::string means = s.w.run("AveragePool", {windows.x()}, d, attributes);
  const int64_t count = std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>());
  return {windows.result(s.w.run("Mul", {means, s.w.scalar(static_cast<double>(count), d)}, d))};
}
// torch lets no window lie in the padding alone, ONNX Runtime refuses such.
bool is_pooled(const Call& c) {
  if (!is_float(c) || (c.string("kind") != "max" && c.string("kind") != "sum")) return false;
  for (size_t i = 0; i < c.integers("window").size(); ++i) {
    if (std::max(c.integers("padding_low")[i], c.integers("padding_high")[i]) >= c.integers("window")[i]) return false;
  }
  return true;
}

// Where the cells cover the positions evenly: windows; else sums over each cell, as a product with a matrix.
bool is_even(const Call& c) {
  const Dims& out = c.dims("output");
  const Shape& x = c.shape("x");
  for (size_t i = 0; i < out.size(); ++i) {
    const auto in = x[x.size() - out.size() + i].maybe_number(), cells = out[i].maybe_number();
    if (!in || !cells || *cells == 0 || *in % *cells != 0) return false;
  }
  return true;
}
bool is_adaptive(const Call& c) {
  const Dims& out = c.dims("output");
  const Shape& x = c.shape("x");
  const bool has_numbers = all_numbers(out) && std::all_of(x.end() - static_cast<std::ptrdiff_t>(out.size()), x.end(),
                                                           [](Dim d) { return d.is_number() && d.number() > 0; });
  return is_float(c) && has_numbers && (is_even(c) || c.string("kind") == "mean");
}
Names adaptive_window(const Site& s) {
  const Dims& out = s.c.dims("output");
  const Shape& shape = s.c.shape("x");
  const DType d = s.dtype("x");
  if (is_even(s.c)) {
    Ints window;
    for (size_t i = 0; i < out.size(); ++i) window.push_back(shape[shape.size() - out.size() + i].number() / out[i].number());
    const Windows windows{s, window.size()};
    const char* op = s.c.string("kind") == "max" ? "MaxPool" : "AveragePool";
    return {windows.result(s.w.run(op, {windows.x()}, d, {{"kernel_shape", window}, {"strides", window}}))};
  }
  std::string x = s["x"];
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t axis = shape.size() - out.size() + i;
    const int64_t in = shape[axis].number(), cells = out[i].number();
    std::vector<double> weights(static_cast<size_t>(in * cells), 0.0);
    for (int64_t o = 0; o < cells; ++o) {
      const int64_t first = o * in / cells, end = ((o + 1) * in + cells - 1) / cells;
      for (int64_t p = first; p < end; ++p) weights[static_cast<size_t>(p * cells + o)] = 1 / static_cast<double>(end - first);
    }
    Ints swap = all_axes(0, static_cast<int64_t>(shape.size()));
    std::swap(swap[axis], swap.back());
    x = s.w.transpose(s.w.run("MatMul", {s.w.transpose(x, swap), s.w.tensor(store(d, {in, cells}, weights), "cells")}, d), swap);
  }
  return {x};
}

// ---- norms

// Weight or bias of a norm, or what stands for it: of a size that is a number.
std::string entries(const Site& s, const char* name, const Shape& shape, double otherwise) {
  if (s.c.has(name)) return s[name];
  const Sizes sizes = evaluate(shape, {});
  return s.w.tensor(store(s.dtype("x"), sizes, std::vector<double>(static_cast<size_t>(element_count(sizes)), otherwise)),
                    otherwise == 0 ? "zeros" : "ones");
}
bool affine_of_dtype(const Call& c) {
  const DType d = c.type("x").dtype;
  const auto fits = [&](const char* name) { return c.op().operand_index(name) < 0 || !c.has(name) || c.type(name).dtype == d; };
  return is_floating(d) && fits("weight") && fits("bias") && fits("mean") && fits("var");
}
bool has_norm_sizes(const Call& c) {
  return affine_of_dtype(c) && (c.has("weight") || all_numbers(c.dims("normalized_shape"))) &&
         !c.dims("normalized_shape").empty();
}
bool has_channel_number(const Call& c) {
  return affine_of_dtype(c) && c.type("x").dtype == DType::f32 && c.rank("x") >= 2 &&
         ((c.has("weight") && c.has("bias")) || c.shape("x")[1].is_number());
}
Names layer_norm(const Site& s) {
  const Shape& shape = s.c.dims("normalized_shape");
  Names inputs{s["x"], entries(s, "weight", shape, 1)};
  if (s.c.has("bias")) inputs.push_back(s["bias"]);
  return {s.w.run("LayerNormalization", inputs, s.dtype("x"),
                  {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", s.c.number("eps")}})};
}
Names rms_norm(const Site& s) {
  const Shape& shape = s.c.dims("normalized_shape");
  return {s.w.node("RMSNormalization", {s["x"], entries(s, "weight", shape, 1)},
                   {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", s.c.number("eps")}})};
}
bool is_plain_rms_norm(const Call& c) {
  const bool computes_itself = !c.has("compute_dtype") || c.dtype("compute_dtype") == c.type("x").dtype;
  return has_norm_sizes(c) && is_f32(c) && c.has("eps") && c.number("weight_offset") == 0 && computes_itself;
}
Names batch_norm(const Site& s) {
  const Shape channels{s.c.shape("x")[1]};
  return {s.w.run("BatchNormalization",
                  {s["x"], entries(s, "weight", channels, 1), entries(s, "bias", channels, 0), s["mean"], s["var"]}, s.dtype("x"),
                  {{"epsilon", s.c.number("eps")}})};
}
Names instance_norm(const Site& s) {
  const Shape channels{s.c.shape("x")[1]};
  return {s.w.run("InstanceNormalization", {s["x"], entries(s, "weight", channels, 1), entries(s, "bias", channels, 0)},
                  s.dtype("x"), {{"epsilon", s.c.number("eps")}})};
}
Names group_norm(const Site& s) {
  const Shape channels{s.c.shape("x")[1]};
  return {s.w.run("GroupNormalization", {s["x"], entries(s, "weight", channels, 1), entries(s, "bias", channels, 0)},
                  s.dtype("x"), {{"num_groups", s.c.integer("groups")}, {"epsilon", s.c.number("eps")}})};
}

// ---- attention: a query that attends nowhere gives zeros in torch and a mean in ONNX, so a mask is written out

Names attention(const Site& s) {
  OnnxAttributes attributes{{"is_causal", int64_t{s.c.boolean("is_causal") ? 1 : 0}}};
  if (s.c.has("scale")) attributes.emplace_back("scale", s.c.number("scale"));
  return {s.w.node("Attention", {s["query"], s["key"], s["value"]}, attributes)};
}
bool is_unmasked(const Call& c) {
  const Shape &q = c.shape("query"), &k = c.shape("key"), &v = c.shape("value");
  const auto absent = [&](const char* name) { return !c.has(name); };
  const bool has_none = absent("attn_mask") && absent("key_mask") && absent("alibi_slopes") && absent("window");
  if (!is_f32(c) || !has_none || c.boolean("eager") || c.dim("query_offset") != Dim(0) || q.size() != 4) return false;
  if (k.size() != 4 || v.size() != 4 || q[0] != k[0] || k[0] != v[0] || k[1] != v[1]) return false;
  if (c.boolean("is_causal") && q[2] != k[2]) return false;
  return (c.has("scale") || q[3].is_number()) && (c.boolean("enable_gqa") || q[1] == k[1]);
}

// ---- images

Names pixel_shuffle(const Site& s) {
  return {s.w.run("DepthToSpace", {s["x"]}, s.dtype("x"), {{"blocksize", s.c.integer("factor")}, {"mode", std::string("CRD")}})};
}
bool is_image(const Call& c) { return is_float(c) && c.rank("x") == 4; }

Names interpolate(const Site& s) {
  const bool corners = s.c.boolean("align_corners"), is_nearest = s.c.string("mode") == "nearest";
  OnnxAttributes attributes{{"mode", s.c.string("mode")},
                            {"coordinate_transformation_mode", std::string(is_nearest ? "asymmetric"
                                                                           : corners  ? "align_corners"
                                                                                      : "half_pixel")}};
  if (is_nearest) attributes.emplace_back("nearest_mode", std::string("floor"));
  const std::string sizes = s.w.shape(s.c.dims("output_size"));
  const Shape& x = s.c.shape("x");
  const std::string all = s.w.node("Concat", {s.w.shape({x[0], x[1]}), sizes}, {{"axis", int64_t{0}}});
  return {s.w.run("Resize", {s["x"], "", "", all}, s.dtype("x"), attributes)};
}
// Where the ratio of the sizes is a whole number both round alike; elsewhere the decomposition says it.
bool is_whole_ratio(const Call& c) {
  const Dims& out = c.dims("output_size");
  const Shape& x = c.shape("x");
  if (!is_f32(c) || c.boolean("antialias") || out.size() != 2) return false;
  if (c.string("mode") != "nearest" && c.string("mode") != "linear") return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto in = x[i + 2].maybe_number(), size = out[i].maybe_number();
    if (!in || !size || *in == 0 || *size % *in != 0) return false;
    if (c.has("scales") && c.numbers("scales")[i] != static_cast<double>(*size / *in)) return false;
  }
  return true;
}

Names grid_sample(const Site& s) {
  return {s.w.run("GridSample", {s["x"], s["grid"]}, s.dtype("x"),
                  {{"mode", std::string(s.c.string("mode") == "nearest" ? "nearest" : "linear")},
                   {"padding_mode", s.c.string("padding")},
                   {"align_corners", int64_t{s.c.boolean("align_corners") ? 1 : 0}}})};
}
bool is_sampled_image(const Call& c) { return is_f32(c) && c.rank("x") == 4 && c.string("mode") == "bilinear"; }

constexpr Form kForms[] = {
    {"conv1d", conv<1>, has_kernel},
    {"conv2d", conv<2>, has_kernel},
    {"conv3d", conv<3>, has_kernel},
    {"conv_transpose1d", conv_transpose<1>, has_kernel},
    {"conv_transpose2d", conv_transpose<2>, has_kernel},
    {"conv_transpose3d", conv_transpose<3>, has_kernel},
    {"convolution", convolution, is_float},
    {"max_pool1d", max_pool<1>, is_float},
    {"max_pool2d", max_pool<2>, is_float},
    {"max_pool3d", max_pool<3>, is_float},
    {"max_pool1d_with_indices", max_pool_with_indices<1>, is_f32},
    {"max_pool2d_with_indices", max_pool_with_indices<2>, is_f32},
    {"max_pool3d_with_indices", max_pool_with_indices<3>, is_f32},
    {"avg_pool1d", avg_pool<1>, divides_by_count},
    {"avg_pool2d", avg_pool<2>, divides_by_count},
    {"avg_pool3d", avg_pool<3>, divides_by_count},
    {"adaptive_avg_pool1d", adaptive_avg_pool, pools_to_one},
    {"adaptive_avg_pool2d", adaptive_avg_pool, pools_to_one},
    {"adaptive_avg_pool3d", adaptive_avg_pool, pools_to_one},
    {"reduce_window", reduce_window, is_pooled},
    {"adaptive_window", adaptive_window, is_adaptive},
    {"layer_norm", layer_norm, has_norm_sizes},
    {"rms_norm", rms_norm, is_plain_rms_norm, 23},
    {"batch_norm", batch_norm, has_channel_number},
    {"instance_norm", instance_norm, has_channel_number},
    {"group_norm", group_norm, has_channel_number, 21},
    {"scaled_dot_product_attention", attention, is_unmasked, 24},
    {"pixel_shuffle", pixel_shuffle, is_image},
    {"interpolate", interpolate, is_whole_ratio},
    {"grid_sample", grid_sample, is_sampled_image},
};

}  // namespace

std::span<const Form> layer_forms() { return kForms; }

}  // namespace pycandle::emit::onnx
