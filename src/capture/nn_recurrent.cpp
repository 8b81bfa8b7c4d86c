#include "base/error.h"
#include "pycandle/functional.h"
#include "pycandle/nn.h"

namespace pycandle::front::nn {
namespace {

// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then the reverse direction's, then the next layer's.
std::vector<Tensor> recurrent_parameters(int64_t input, int64_t hidden, int64_t gates, const RecurrentOptions& o,
                                         const Weights& w) {
  std::vector<Tensor> all;
  const int64_t directions = o.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < o.num_layers; ++layer) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      all.push_back(w.get("weight_ih" + suffix, {gates * hidden, layer == 0 ? input : directions * hidden}));
      all.push_back(w.get("weight_hh" + suffix, {gates * hidden, hidden}));
      if (!o.bias) continue;
      all.push_back(w.get("bias_ih" + suffix, {gates * hidden}));
      all.push_back(w.get("bias_hh" + suffix, {gates * hidden}));
    }
  }
  return all;
}

// x without a batch is a batch of one.
struct Batched {
  Batched(const Tensor& given, const RecurrentOptions& o) : has_batch(given.rank() == 3), axis(o.batch_first ? 0 : 1) {
    x = has_batch ? given : given.unsqueeze(axis);
  }
  Tensor state(const Tensor& given, const RecurrentOptions& o, int64_t hidden) const {
    if (given.defined()) return has_batch ? given : given.unsqueeze(1);
    return full({o.num_layers * (o.bidirectional ? 2 : 1), x.dim(axis), hidden}, 0.0, x.dtype());
  }
  Tensor output(const Tensor& y) const { return has_batch ? y : y.squeeze(axis); }
  Tensor last(const Tensor& h) const { return has_batch ? h : h.squeeze(1); }

  Tensor x;
  bool has_batch;
  int64_t axis;
};

}  // namespace

LSTM::LSTM(int64_t input, int64_t hidden, const RecurrentOptions& o, const Weights& w)
    : Module(w), parameters(recurrent_parameters(input, hidden, 4, o, w)), hidden_size(hidden), options(o) {}

std::pair<Tensor, std::pair<Tensor, Tensor>> LSTM::forward(const Tensor& x, const Tensor& h0, const Tensor& c0) const {
  const Batched batched(x, options);
  const Tensor h = batched.state(h0, options, hidden_size), c = batched.state(c0, options, hidden_size);
  const auto [y, h_n, c_n] = unpack<3>(functional::lstm(batched.x, h, c, parameters,
                                                        {.has_biases = options.bias,
                                                         .num_layers = options.num_layers,
                                                         .bidirectional = options.bidirectional,
                                                         .batch_first = options.batch_first}));
  return {batched.output(y), {batched.last(h_n), batched.last(c_n)}};
}

GRU::GRU(int64_t input, int64_t hidden, const RecurrentOptions& o, const Weights& w)
    : Module(w), parameters(recurrent_parameters(input, hidden, 3, o, w)), hidden_size(hidden), options(o) {}

std::pair<Tensor, Tensor> GRU::forward(const Tensor& x, const Tensor& h0) const {
  const Batched batched(x, options);
  const auto [y, h_n] = unpack<2>(functional::gru(batched.x, batched.state(h0, options, hidden_size), parameters,
                                                  {.has_biases = options.bias,
                                                   .num_layers = options.num_layers,
                                                   .bidirectional = options.bidirectional,
                                                   .batch_first = options.batch_first}));
  return {batched.output(y), batched.last(h_n)};
}

RNN::RNN(int64_t input, int64_t hidden, const RecurrentOptions& o, const Weights& w)
    : Module(w), parameters(recurrent_parameters(input, hidden, 1, o, w)), hidden_size(hidden), options(o) {
  if (o.nonlinearity != "tanh" && o.nonlinearity != "relu")
    throw Error(ErrorCode::bad_input, "RNN has no such nonlinearity")
        .expected("tanh or relu")
        .found(o.nonlinearity)
        .module_path(path());
}

std::pair<Tensor, Tensor> RNN::forward(const Tensor& x, const Tensor& h0) const {
  const Batched batched(x, options);
  const Tensor h = batched.state(h0, options, hidden_size);
  const auto run = [&] {
    if (options.nonlinearity == "relu")
      return functional::rnn_relu(batched.x, h, parameters,
                                  {.has_biases = options.bias,
                                   .num_layers = options.num_layers,
                                   .bidirectional = options.bidirectional,
                                   .batch_first = options.batch_first});
    return functional::rnn_tanh(batched.x, h, parameters,
                                {.has_biases = options.bias,
                                 .num_layers = options.num_layers,
                                 .bidirectional = options.bidirectional,
                                 .batch_first = options.batch_first});
  };
  const auto [y, h_n] = unpack<2>(run());
  return {batched.output(y), batched.last(h_n)};
}

// ---- one step

#define PYCANDLE_CELL_PARAMETERS(gates)                                                                      \
  w_ih(w.get("weight_ih", {(gates) * hidden, input})), w_hh(w.get("weight_hh", {(gates) * hidden, hidden})), \
      b_ih(o.bias ? w.get("bias_ih", {(gates) * hidden}) : Tensor()),                                        \
      b_hh(o.bias ? w.get("bias_hh", {(gates) * hidden}) : Tensor())

LSTMCell::LSTMCell(int64_t input, int64_t hidden, const CellOptions& o, const Weights& w)
    : Module(w), PYCANDLE_CELL_PARAMETERS(4) {}
GRUCell::GRUCell(int64_t input, int64_t hidden, const CellOptions& o, const Weights& w)
    : Module(w), PYCANDLE_CELL_PARAMETERS(3) {}
RNNCell::RNNCell(int64_t input, int64_t hidden, const CellOptions& o, const Weights& w)
    : Module(w), PYCANDLE_CELL_PARAMETERS(1), is_relu(o.nonlinearity == "relu") {}
#undef PYCANDLE_CELL_PARAMETERS

std::pair<Tensor, Tensor> LSTMCell::forward(const Tensor& x, const Tensor& h, const Tensor& c) const {
  const auto [next, cell] = unpack<2>(functional::lstm_cell(x, h, c, w_ih, w_hh, {.b_ih = b_ih, .b_hh = b_hh}));
  return {next, cell};
}
Tensor GRUCell::forward(const Tensor& x, const Tensor& h) const {
  return functional::gru_cell(x, h, w_ih, w_hh, {.b_ih = b_ih, .b_hh = b_hh}).at(0);
}
Tensor RNNCell::forward(const Tensor& x, const Tensor& h) const {
  if (is_relu) return functional::rnn_relu_cell(x, h, w_ih, w_hh, {.b_ih = b_ih, .b_hh = b_hh}).at(0);
  return functional::rnn_tanh_cell(x, h, w_ih, w_hh, {.b_ih = b_ih, .b_hh = b_hh}).at(0);
}

}  // namespace pycandle::front::nn
