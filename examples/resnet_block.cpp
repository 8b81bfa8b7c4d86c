// The basic block of a ResNet that halves the image: torchvision.models.resnet.BasicBlock.
#include "run.h"

using namespace pycandle;

struct BasicBlock : nn::Module<BasicBlock> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::ReLU relu;
  nn::Sequential<nn::Conv2d, nn::BatchNorm2d> downsample;

  BasicBlock(int64_t in, int64_t out, int64_t stride, const Weights& w)
      : Module(w),
        conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}, w / "conv1"),
        conv2(out, out, 3, {.padding = 1, .bias = false}, w / "conv2"),
        bn1(out, w / "bn1"),
        bn2(out, w / "bn2"),
        relu(w / "relu"),
        downsample(w / "downsample", nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}, w / "downsample" / 0),
                   nn::BatchNorm2d(out, w / "downsample" / 1)) {}

  Tensor forward(const Tensor& x) const {
    Tensor out = relu(bn1(conv1(x)));
    out = bn2(conv2(out));
    return relu(out + downsample(x));
  }
};

int main(int count, char** arguments) {
  return run_example(count, arguments, {{"x", DType::f32, {"batch", 8, "height", "width"}}},
                     [](const Weights& w) { return BasicBlock(8, 16, 2, w); });
}
