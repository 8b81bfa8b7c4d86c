// Layers over positions: convolution, pooling, padding, resizing.
#include <cmath>

#include "base/error.h"
#include "pycandle/functional.h"
#include "pycandle/nn.h"

namespace pycandle::front::nn {
namespace {

size_t count(int axes) { return static_cast<size_t>(axes); }

Dims kernel_shape(int64_t out, int64_t in, const Ints& kernel) {
  Dims shape{out, in};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return shape;
}

// Calls the one of three functions that has as many axes.
template <int axes, class F1, class F2, class F3> auto by_axes(F1 one, F2 two, F3 three) {
  if constexpr (axes == 1)
    return one;
  else if constexpr (axes == 2)
    return two;
  else
    return three;
}
#define PYCANDLE_BY_AXES(axes, name) by_axes<axes>(functional::name##1d, functional::name##2d, functional::name##3d)
template <int axes, class One, class Two, class Three>
using OptionsByAxes = std::conditional_t<axes == 1, One, std::conditional_t<axes == 2, Two, Three>>;

}  // namespace

template <int axes>
Conv<axes>::Conv(int64_t in, int64_t out, const PerAxis& kernel, const ConvOptions& o, const Weights& w)
    : Module<Conv>(w),
      weight(w.get("weight", kernel_shape(out, in / o.groups, kernel.over(count(axes))))),
      bias(o.bias ? w.get("bias", {out}) : Tensor()),
      stride(o.stride.over(count(axes))),
      padding(o.padding.over(count(axes))),
      dilation(o.dilation.over(count(axes))),
      groups(o.groups),
      same(o.same) {}

template <int axes> Tensor Conv<axes>::forward(const Tensor& x) const {
  using Options = OptionsByAxes<axes, functional::Conv1dOptions, functional::Conv2dOptions, functional::Conv3dOptions>;
  return PYCANDLE_BY_AXES(axes, conv)(
      x, weight,
      Options{.bias = bias, .stride = stride, .padding = padding, .dilation = dilation, .groups = groups, .same = same},
      Here::current());
}

template <int axes>
ConvTranspose<axes>::ConvTranspose(int64_t in, int64_t out, const PerAxis& kernel, const ConvTransposeOptions& o,
                                   const Weights& w)
    : Module<ConvTranspose>(w),
      weight(w.get("weight", kernel_shape(in, out / o.groups, kernel.over(count(axes))))),
      bias(o.bias ? w.get("bias", {out}) : Tensor()),
      stride(o.stride.over(count(axes))),
      padding(o.padding.over(count(axes))),
      output_padding(o.output_padding.over(count(axes))),
      dilation(o.dilation.over(count(axes))),
      groups(o.groups) {}

template <int axes> Tensor ConvTranspose<axes>::forward(const Tensor& x) const {
  using Options = OptionsByAxes<axes, functional::ConvTranspose1dOptions, functional::ConvTranspose2dOptions,
                                functional::ConvTranspose3dOptions>;
  return PYCANDLE_BY_AXES(axes, conv_transpose)(x, weight,
                                                Options{.bias = bias,
                                                        .stride = stride,
                                                        .padding = padding,
                                                        .output_padding = output_padding,
                                                        .dilation = dilation,
                                                        .groups = groups},
                                                Here::current());
}

// ---- pooling

template <int axes>
MaxPool<axes>::MaxPool(const PerAxis& kernel, const MaxPoolOptions& o, const Weights& w)
    : Module<MaxPool>(w),
      kernel_size(kernel.over(count(axes))),
      stride(o.stride.value_or(kernel).over(count(axes))),
      padding(o.padding.over(count(axes))),
      dilation(o.dilation.over(count(axes))),
      ceil_mode(o.ceil_mode) {}

template <int axes> Tensor MaxPool<axes>::forward(const Tensor& x) const {
  using Options = OptionsByAxes<axes, functional::MaxPool1dOptions, functional::MaxPool2dOptions, functional::MaxPool3dOptions>;
  return PYCANDLE_BY_AXES(axes, max_pool)(
      x, kernel_size, stride, Options{.padding = padding, .ceil_mode = ceil_mode, .dilation = dilation}, Here::current());
}

template <int axes>
AvgPool<axes>::AvgPool(const PerAxis& kernel, const AvgPoolOptions& o, const Weights& w)
    : Module<AvgPool>(w),
      kernel_size(kernel.over(count(axes))),
      stride(o.stride.value_or(kernel).over(count(axes))),
      padding(o.padding.over(count(axes))),
      ceil_mode(o.ceil_mode),
      count_include_pad(o.count_include_pad),
      divisor_override(o.divisor_override) {}

template <int axes> Tensor AvgPool<axes>::forward(const Tensor& x) const {
  using Options = OptionsByAxes<axes, functional::AvgPool1dOptions, functional::AvgPool2dOptions, functional::AvgPool3dOptions>;
  return PYCANDLE_BY_AXES(axes, avg_pool)(x, kernel_size, stride,
                                          Options{.padding = padding,
                                                  .ceil_mode = ceil_mode,
                                                  .count_include_pad = count_include_pad,
                                                  .divisor_override = divisor_override},
                                          Here::current());
}

namespace {

Dims adaptive_sizes(const Tensor& x, const Ints& output) {
  Dims sizes(output.begin(), output.end());
  for (size_t i = 0; i < output.size(); ++i) {
    if (output[i] == -1) sizes[i] = x.dim(static_cast<int64_t>(i) - static_cast<int64_t>(output.size()));
  }
  return sizes;
}

}  // namespace

template <int axes>
AdaptiveAvgPool<axes>::AdaptiveAvgPool(const PerAxis& output, const Weights& w)
    : Module<AdaptiveAvgPool>(w), output_size(output.over(count(axes))) {}

template <int axes> Tensor AdaptiveAvgPool<axes>::forward(const Tensor& x) const {
  return PYCANDLE_BY_AXES(axes, adaptive_avg_pool)(x, adaptive_sizes(x, output_size), Here::current());
}

template <int axes>
AdaptiveMaxPool<axes>::AdaptiveMaxPool(const PerAxis& output, const Weights& w)
    : Module<AdaptiveMaxPool>(w), output_size(output.over(count(axes))) {}

template <int axes> Tensor AdaptiveMaxPool<axes>::forward(const Tensor& x) const {
  return PYCANDLE_BY_AXES(axes, adaptive_max_pool)(x, adaptive_sizes(x, output_size), Here::current()).at(0);
}

// ---- padding

namespace {

// torch's list names the last axis first: left, right, top, bottom.
std::pair<Dims, Dims> amounts(const Tensor& x, const Ints& padding) {
  const size_t rank = static_cast<size_t>(x.rank());
  Dims low(rank, 0), high(rank, 0);
  for (size_t i = 0; i + 1 < padding.size(); i += 2) {
    low.at(rank - 1 - i / 2) = padding[i];
    high.at(rank - 1 - i / 2) = padding[i + 1];
  }
  return {low, high};
}

}  // namespace

template <int axes>
ConstantPad<axes>::ConstantPad(const PerAxis& sides, double number, const Weights& w)
    : Module<ConstantPad>(w), padding(sides.over(2 * count(axes))), value(number) {}

template <int axes> Tensor ConstantPad<axes>::forward(const Tensor& x) const {
  const auto [low, high] = amounts(x, padding);
  return functional::pad(x, low, high, {.value = value});
}

#define PYCANDLE_PAD(Name, name)                                                                                      \
  template <int axes>                                                                                                 \
  Name<axes>::Name(const PerAxis& sides, const Weights& w) : Module<Name>(w), padding(sides.over(2 * count(axes))) {} \
  template <int axes> Tensor Name<axes>::forward(const Tensor& x) const {                                             \
    const auto [low, high] = amounts(x, padding);                                                                     \
    return functional::name(x, low, high);                                                                            \
  }                                                                                                                   \
  template struct Name<1>;                                                                                            \
  template struct Name<2>;                                                                                            \
  template struct Name<3>;
PYCANDLE_PAD(ReflectionPad, reflection_pad)
PYCANDLE_PAD(ReplicationPad, replication_pad)
PYCANDLE_PAD(CircularPad, circular_pad)
#undef PYCANDLE_PAD

template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;
template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;
template struct MaxPool<1>;
template struct MaxPool<2>;
template struct MaxPool<3>;
template struct AvgPool<1>;
template struct AvgPool<2>;
template struct AvgPool<3>;
template struct AdaptiveAvgPool<1>;
template struct AdaptiveAvgPool<2>;
template struct AdaptiveAvgPool<3>;
template struct AdaptiveMaxPool<1>;
template struct AdaptiveMaxPool<2>;
template struct AdaptiveMaxPool<3>;
template struct ConstantPad<1>;
template struct ConstantPad<2>;
template struct ConstantPad<3>;

// ---- resizing

Upsample::Upsample(const Options& given, const Weights& w) : Module(w), options(given) {
  if (options.size.has_value() == !options.scale_factor.empty())
    throw Error(ErrorCode::bad_input, "Upsample takes a size or a scale_factor").module_path(path());
}

Tensor Upsample::forward(const Tensor& x) const {
  const size_t axes = static_cast<size_t>(x.rank()) - 2;
  const bool is_linear = options.mode == "linear" || options.mode == "bilinear" || options.mode == "trilinear";
  const std::string mode = is_linear ? "linear" : options.mode == "bicubic" ? "cubic" : options.mode;
  Dims size;
  std::optional<Numbers> scales;
  if (options.size) {
    const Ints sizes = options.size->over(axes);
    size.assign(sizes.begin(), sizes.end());
  } else {
    scales = options.scale_factor.size() == 1 ? Numbers(axes, options.scale_factor[0]) : options.scale_factor;
    for (size_t i = 0; i < axes; ++i) {
      const Dim in = x.dim(static_cast<int64_t>(i) + 2);
      const double factor = scales->at(i);
      if (std::trunc(factor) == factor)
        size.push_back(in * static_cast<int64_t>(factor));
      else
        size.push_back(static_cast<int64_t>(std::floor(static_cast<double>(in.number()) * factor)));
    }
  }
  return functional::interpolate(x, mode, size, {.scales = scales, .align_corners = options.align_corners});
}

Tensor PixelShuffle::forward(const Tensor& x) const { return functional::pixel_shuffle(x, factor); }
Tensor PixelUnshuffle::forward(const Tensor& x) const { return functional::pixel_unshuffle(x, factor); }
Tensor ChannelShuffle::forward(const Tensor& x) const { return functional::channel_shuffle(x, groups); }

}  // namespace pycandle::front::nn
