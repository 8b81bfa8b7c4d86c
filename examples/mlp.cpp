// A multilayer perceptron.
#include "run.h"

using namespace pycandle;

struct Mlp : nn::Module<Mlp> {
  nn::Sequential<nn::Linear, nn::ReLU, nn::Linear> net;

  explicit Mlp(const Weights& w)
      : Module(w), net(w / "net", nn::Linear(16, 32, w / "net" / 0), nn::ReLU(w / "net" / 1), nn::Linear(32, 4, w / "net" / 2)) {}

  Tensor forward(const Tensor& x) const { return functional::softmax(net(x), -1); }
};

int main(int count, char** arguments) {
  return run_example(count, arguments, {{"x", DType::f32, {"batch", 16}}}, [](const Weights& w) { return Mlp(w); });
}
