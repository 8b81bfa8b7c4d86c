#include "pycandle/functional.h"
#include "pycandle/nn.h"

namespace pycandle::front::nn {

#define FORWARD(Name, function) \
  Tensor Name::forward(const Tensor& x) const { return functional::function(x); }
PYCANDLE_ACTIVATIONS(FORWARD)
#undef FORWARD
Tensor Softsign::forward(const Tensor& x) const { return x / (functional::abs(x) + 1); }
Tensor Tanhshrink::forward(const Tensor& x) const { return x - functional::tanh(x); }
Tensor Identity::forward(const Tensor& x) const { return x; }
Tensor GELU::forward(const Tensor& x) const { return functional::gelu(x, {.approximate = options.approximate}); }
Tensor LeakyReLU::forward(const Tensor& x) const { return functional::leaky_relu(x, {.negative_slope = negative_slope}); }
Tensor ELU::forward(const Tensor& x) const { return functional::elu(x, {.alpha = alpha}); }
Tensor CELU::forward(const Tensor& x) const { return functional::elu(x, {.alpha = alpha, .input_scale = 1 / alpha}); }
Tensor GLU::forward(const Tensor& x) const { return functional::glu(x, {.dim = dim}); }
Tensor Softmax::forward(const Tensor& x) const { return functional::softmax(x, dim); }
Tensor LogSoftmax::forward(const Tensor& x) const { return functional::log_softmax(x, dim); }

Tensor SELU::forward(const Tensor& x) const {
  return functional::elu(x, {.alpha = 1.6732632423543772848170429916717, .scale = 1.0507009873554804934193349852946});
}

Tensor Softplus::forward(const Tensor& x) const {
  return functional::softplus(x, {.beta = options.beta, .threshold = options.threshold});
}

Tensor Hardtanh::forward(const Tensor& x) const {
  return functional::hardtanh(x, {.min_val = options.min_val, .max_val = options.max_val});
}

PReLU::PReLU(int64_t count, const Weights& w) : Module(w), weight(w.get("weight", {count})) {}
Tensor PReLU::forward(const Tensor& x) const { return functional::prelu(x, weight); }

Snake::Snake(int64_t channels, const Options& given, const Weights& w)
    : Module(w), alpha(w.get("alpha", {channels})), beta(given.beta ? w.get("beta", {channels}) : Tensor()), options(given) {}

Tensor Snake::forward(const Tensor& x) const {
  const auto over_channels = [&](Tensor parameter) {
    if (!parameter.defined()) return parameter;
    Dims shape(static_cast<size_t>(x.rank()), 1);
    shape.at(1) = parameter.dim(0);
    parameter = parameter.reshape(shape);
    return options.log_scale ? functional::exp(parameter) : parameter;
  };
  return functional::snake(x, over_channels(alpha), {.beta = over_channels(beta), .eps = options.eps});
}

}  // namespace pycandle::front::nn
