// ResNet, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace res_net {
using namespace pycandle;

// BasicBlock, torchvision/models/resnet.py:59 (13 instances)
struct BasicBlock : nn::Module<BasicBlock> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::ReLU relu;

  BasicBlock(int64_t channels, const Weights& w)
      : Module(w),
        conv1(channels, channels, 3, {.padding = 1, .bias = false}, w / "conv1"),
        conv2(channels, channels, 3, {.padding = 1, .bias = false}, w / "conv2"),
        bn1(channels, w / "bn1"),
        bn2(channels, w / "bn2"),
        relu(w / "relu") {}

  Tensor forward(const Tensor& x) const {
    const Tensor out = relu(bn1(conv1(x)));
    return relu(bn2(conv2(out)) + x);
  }
};

// BasicBlock, torchvision/models/resnet.py:59 (3 instances)
struct BasicBlockWithDownsample : nn::Module<BasicBlockWithDownsample> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::ReLU relu;
  nn::Sequential<nn::Conv2d, nn::BatchNorm2d> downsample;

  BasicBlockWithDownsample(int64_t in_channels, int64_t channels, const Weights& w)
      : Module(w),
        conv1(in_channels, channels, 3, {.stride = 2, .padding = 1, .bias = false}, w / "conv1"),
        conv2(channels, channels, 3, {.padding = 1, .bias = false}, w / "conv2"),
        bn1(channels, w / "bn1"),
        bn2(channels, w / "bn2"),
        relu(w / "relu"),
        downsample(w / "downsample",
            nn::Conv2d(in_channels, channels, 1, {.stride = 2, .bias = false}, w / "downsample.0"),
            nn::BatchNorm2d(channels, w / "downsample.1")) {}

  Tensor forward(const Tensor& x) const {
    const Tensor out = relu(bn1(conv1(x)));
    const Tensor identity = downsample(x);
    return relu(bn2(conv2(out)) + identity);
  }
};

// nn.Sequential layer2 (3 instances)
struct Layer : nn::Module<Layer> {
  BasicBlockWithDownsample first;
  nn::ModuleList<BasicBlock> blocks;

  Layer(int64_t in_channels, int64_t channels, int64_t count, const Weights& w)
      : Module(w),
        first(in_channels, channels, w / "0"),
        blocks(count, [&](int64_t i) { return BasicBlock(channels, w / (1 + i)); }) {}

  Tensor forward(const Tensor& input) const {
    Tensor x = first(input);
    for (const BasicBlock& block : blocks) x = block(x);
    return x;
  }
};

// ResNet, torchvision/models/resnet.py:166
struct ResNet : nn::Module<ResNet> {
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::ReLU relu;
  nn::MaxPool2d maxpool;
  nn::ModuleList<BasicBlock> layer1;
  Layer layer2, layer3, layer4;
  nn::AdaptiveAvgPool2d avgpool;
  nn::Linear fc;

  explicit ResNet(const Weights& w, const Checker& checker = {})
      : Module(w, checker),
        conv1(3, 64, 7, {.stride = 2, .padding = 3, .bias = false}, w / "conv1"),
        bn1(64, w / "bn1"),
        relu(w / "relu"),
        maxpool(3, {.stride = 2, .padding = 1}, w / "maxpool"),
        layer1(3, w / "layer1", 64),
        layer2(64, 128, 3, w / "layer2"),
        layer3(128, 256, 5, w / "layer3"),
        layer4(256, 512, 2, w / "layer4"),
        avgpool(1, w / "avgpool"),
        fc(512, 1000, w / "fc") {}

  Tensor forward(Tensor x) const {
    x = maxpool(relu(bn1(conv1(x))));
    for (const BasicBlock& block : layer1) x = block(x);
    return fc(avgpool(layer4(layer3(layer2(x)))).flatten(1));
  }
};

}  // namespace res_net
