// MobileNetV2, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace mobile_net_v2 {
using namespace pycandle;

// Conv2dNormActivation, torchvision/ops/misc.py:126 (35 instances)
struct Conv2dNormActivation : nn::Module<Conv2dNormActivation> {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  nn::Hardtanh act;

  Conv2dNormActivation(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
      int64_t stride, int64_t padding, int64_t groups, const Weights& w)
      : Module(w),
        conv(in_channels, out_channels, kernel_size,
            {.stride = stride, .padding = padding, .groups = groups, .bias = false}, w / "0"),
        norm(out_channels, w / "1"),
        act({.min_val = 0.0, .max_val = 6.0}, w / "2") {}

  Tensor forward(const Tensor& input) const {
    return act(norm(conv(input)));
  }
};

// InvertedResidual, torchvision/models/mobilenetv2.py:19
struct FirstInvertedResidual : nn::Module<FirstInvertedResidual> {
  nn::Sequential<Conv2dNormActivation, nn::Conv2d, nn::BatchNorm2d> conv;

  explicit FirstInvertedResidual(const Weights& w)
      : Module(w),
        conv(w / "conv", Conv2dNormActivation(32, 32, 3, 1, 1, 32, w / "conv.0"),
            nn::Conv2d(32, 16, 1, {.bias = false}, w / "conv.1"),
            nn::BatchNorm2d(16, w / "conv.2")) {}

  Tensor forward(const Tensor& x) const {
    return conv(x);
  }
};

// InvertedResidual, torchvision/models/mobilenetv2.py:19 (6 instances)
struct InvertedResidualWithoutResConnect : nn::Module<InvertedResidualWithoutResConnect> {
  nn::Sequential<Conv2dNormActivation, Conv2dNormActivation, nn::Conv2d, nn::BatchNorm2d> conv;

  InvertedResidualWithoutResConnect(int64_t in_channels, int64_t channels, int64_t stride,
      int64_t out_channels, const Weights& w)
      : Module(w),
        conv(w / "conv", Conv2dNormActivation(in_channels, channels, 1, 1, 0, 1, w / "conv.0"),
            Conv2dNormActivation(channels, channels, 3, stride, 1, channels, w / "conv.1"),
            nn::Conv2d(channels, out_channels, 1, {.bias = false}, w / "conv.2"),
            nn::BatchNorm2d(out_channels, w / "conv.3")) {}

  Tensor forward(const Tensor& x) const {
    return conv(x);
  }
};

// InvertedResidual, torchvision/models/mobilenetv2.py:19 (10 instances)
struct InvertedResidual : nn::Module<InvertedResidual> {
  nn::Sequential<Conv2dNormActivation, Conv2dNormActivation, nn::Conv2d, nn::BatchNorm2d> conv;

  InvertedResidual(int64_t channels, int64_t hidden_channels, const Weights& w)
      : Module(w),
        conv(w / "conv", Conv2dNormActivation(channels, hidden_channels, 1, 1, 0, 1, w / "conv.0"),
            Conv2dNormActivation(hidden_channels, hidden_channels, 3, 1, 1, hidden_channels, w / "conv.1"),
            nn::Conv2d(hidden_channels, channels, 1, {.bias = false}, w / "conv.2"),
            nn::BatchNorm2d(channels, w / "conv.3")) {}

  Tensor forward(const Tensor& x) const {
    return x + conv(x);
  }
};

// MobileNetV2, torchvision/models/mobilenetv2.py:67
struct MobileNetV2 : nn::Module<MobileNetV2> {
  nn::Sequential<Conv2dNormActivation, FirstInvertedResidual, InvertedResidualWithoutResConnect,
      InvertedResidual, InvertedResidualWithoutResConnect, InvertedResidual, InvertedResidual,
      InvertedResidualWithoutResConnect, InvertedResidual, InvertedResidual, InvertedResidual,
      InvertedResidualWithoutResConnect, InvertedResidual, InvertedResidual,
      InvertedResidualWithoutResConnect, InvertedResidual, InvertedResidual,
      InvertedResidualWithoutResConnect, Conv2dNormActivation>
      features;
  nn::Sequential<nn::Linear> classifier;

  explicit MobileNetV2(const Weights& w, const Checker& checker = {})
      : Module(w, checker),
        features(w / "features", Conv2dNormActivation(3, 32, 3, 2, 1, 1, w / "features.0"),
            FirstInvertedResidual(w / "features.1"),
            InvertedResidualWithoutResConnect(16, 96, 2, 24, w / "features.2"),
            InvertedResidual(24, 144, w / "features.3"),
            InvertedResidualWithoutResConnect(24, 144, 2, 32, w / "features.4"),
            InvertedResidual(32, 192, w / "features.5"),
            InvertedResidual(32, 192, w / "features.6"),
            InvertedResidualWithoutResConnect(32, 192, 2, 64, w / "features.7"),
            InvertedResidual(64, 384, w / "features.8"),
            InvertedResidual(64, 384, w / "features.9"),
            InvertedResidual(64, 384, w / "features.10"),
            InvertedResidualWithoutResConnect(64, 384, 1, 96, w / "features.11"),
            InvertedResidual(96, 576, w / "features.12"),
            InvertedResidual(96, 576, w / "features.13"),
            InvertedResidualWithoutResConnect(96, 576, 2, 160, w / "features.14"),
            InvertedResidual(160, 960, w / "features.15"),
            InvertedResidual(160, 960, w / "features.16"),
            InvertedResidualWithoutResConnect(160, 960, 1, 320, w / "features.17"),
            Conv2dNormActivation(320, 1280, 1, 1, 0, 1, w / "features.18")),
        classifier(w / "classifier", nn::Linear(1280, 1000, w / "classifier.1")) {}

  Tensor forward(const Tensor& x) const {
    return classifier(functional::adaptive_avg_pool2d(features(x), {1, 1}).flatten(1));
  }
};

}  // namespace mobile_net_v2
