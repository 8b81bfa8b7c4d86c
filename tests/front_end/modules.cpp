// Every layer by name: modules <weights.safetensors> <inputs.safetensors> <outputs.safetensors>
// Inputs are named <case>/<position>, parameters <case>.<name>; outputs come out as <case>/<output>.
// tests/python/test_front_end.py has the torch twin of each case.
#include <pycandle/pycandle.h>

#include <cstdio>

using namespace pycandle;
using Arguments = std::vector<Tensor>;
using Results = std::vector<std::pair<std::string, Tensor>>;

template <class R> Results named(const R& result) {
  Results all;
  each_tensor(result, "output", [&](const std::string& name, const Tensor& t) { all.emplace_back(name, t); });
  return all;
}

struct Case {
  const char* name;
  Results (*run)(const Arguments&, const Weights&);
};

#define CASE(name, ...)                               \
  Case {                                              \
    #name, [](const Arguments& x, const Weights& w) { \
      (void)w;                                        \
      const auto module = __VA_ARGS__;                \
      return named(module(x[0]));                     \
    }                                                 \
  }

const Case kCases[] = {
    CASE(linear, nn::Linear(6, 4, w)),
    CASE(linear_without_bias, nn::Linear(6, 4, {.bias = false}, w)),
    Case{"bilinear", [](const Arguments& x, const Weights& w) { return named(nn::Bilinear(3, 4, 5, w)(x[0], x[1])); }},
    CASE(embedding, nn::Embedding(10, 4, w)),
    CASE(layer_norm, nn::LayerNorm({3, 4}, {.eps = 1e-3}, w)),
    CASE(layer_norm_plain, nn::LayerNorm(4, {.elementwise_affine = false}, w)),
    CASE(rms_norm, nn::RMSNorm(4, 1e-3, w)),
    CASE(rms_norm_default, nn::RMSNorm(4, w)),
    CASE(group_norm, nn::GroupNorm(2, 4, w)),
    CASE(batch_norm1d, nn::BatchNorm1d(4, w)),
    CASE(batch_norm2d, nn::BatchNorm2d(4, {.eps = 1e-2}, w)),
    CASE(batch_norm3d, nn::BatchNorm3d(4, {.affine = false}, w)),
    CASE(instance_norm2d, nn::InstanceNorm2d(4, {.affine = true}, w)),
    CASE(instance_norm1d, nn::InstanceNorm1d(4)),
    CASE(conv1d, nn::Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}, w)),
    CASE(conv2d, nn::Conv2d(4, 6, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .bias = false}, w)),
    CASE(conv2d_same, nn::Conv2d(4, 6, 3, {.same = true}, w)),
    CASE(conv3d, nn::Conv3d(2, 3, 2, w)),
    CASE(conv_transpose1d, nn::ConvTranspose1d(4, 6, 3, {.stride = 2, .output_padding = 1}, w)),
    CASE(conv_transpose2d, nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}, w)),
    CASE(conv_transpose3d, nn::ConvTranspose3d(2, 3, 2, w)),
    CASE(max_pool1d, nn::MaxPool1d(3)),
    CASE(max_pool2d, nn::MaxPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true})),
    CASE(max_pool3d, nn::MaxPool3d(2, {.dilation = 1})),
    CASE(avg_pool1d, nn::AvgPool1d(3, {.padding = 1})),
    CASE(avg_pool2d, nn::AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false})),
    CASE(avg_pool3d, nn::AvgPool3d(2)),
    CASE(adaptive_avg_pool1d, nn::AdaptiveAvgPool1d(3)),
    CASE(adaptive_avg_pool2d, nn::AdaptiveAvgPool2d({3, 2})),
    CASE(adaptive_avg_pool2d_kept, nn::AdaptiveAvgPool2d({-1, 2})),
    CASE(adaptive_max_pool2d, nn::AdaptiveMaxPool2d({3, 2})),
    CASE(constant_pad2d, nn::ConstantPad2d({1, 2, 3, 0}, 0.5)),
    CASE(zero_pad1d, nn::ZeroPad1d(2)),
    CASE(reflection_pad2d, nn::ReflectionPad2d({1, 2, 0, 1})),
    CASE(replication_pad1d, nn::ReplicationPad1d(2)),
    CASE(circular_pad1d, nn::CircularPad1d(2)),
    CASE(upsample, nn::Upsample({.scale_factor = {2.0}})),
    CASE(upsample_bilinear, nn::Upsample({.size = nn::PerAxis{7, 9}, .mode = "bilinear", .align_corners = true})),
    CASE(upsample_fraction, nn::Upsample({.scale_factor = {1.5}, .mode = "bilinear"})),
    Case{"multihead_attention",
         [](const Arguments& x, const Weights& w) { return named(nn::MultiheadAttention(8, 2, w)(x[0], x[1], x[1])); }},
    Case{"multihead_attention_masked",
         [](const Arguments& x, const Weights& w) {
           const nn::MultiheadAttention attention(8, 2, {.batch_first = true}, w);
           const nn::AttentionOptions options{.attn_mask = x[1], .key_padding_mask = x[2]};
           return named(attention(x[0], x[0], x[0], options));
         }},
    Case{"multihead_attention_own_widths",
         [](const Arguments& x, const Weights& w) {
           const nn::MultiheadAttention attention(8, 2, {.bias = false, .batch_first = true, .kdim = 5, .vdim = 6}, w);
           return named(attention(x[0], x[1], x[2]));
         }},
    CASE(lstm, nn::LSTM(3, 5, {.num_layers = 2, .batch_first = true, .bidirectional = true}, w)),
    Case{"lstm_with_states",
         [](const Arguments& x, const Weights& w) { return named(nn::LSTM(3, 5, w)(x[0], x[1], x[2])); }},
    CASE(lstm_without_batch, nn::LSTM(3, 5, w)),
    CASE(gru, nn::GRU(3, 5, {.num_layers = 2, .bias = false}, w)),
    CASE(rnn, nn::RNN(3, 5, {.nonlinearity = "relu"}, w)),
    Case{"lstm_cell", [](const Arguments& x, const Weights& w) { return named(nn::LSTMCell(3, 5, w)(x[0], x[1], x[2])); }},
    Case{"gru_cell", [](const Arguments& x, const Weights& w) { return named(nn::GRUCell(3, 5, w)(x[0], x[1])); }},
    Case{"rnn_cell", [](const Arguments& x, const Weights& w) { return named(nn::RNNCell(3, 5, w)(x[0], x[1])); }},
    CASE(relu, nn::ReLU()),
    CASE(relu6, nn::ReLU6()),
    CASE(silu, nn::SiLU()),
    CASE(mish, nn::Mish()),
    CASE(sigmoid, nn::Sigmoid()),
    CASE(tanh, nn::Tanh()),
    CASE(hardswish, nn::Hardswish()),
    CASE(hardsigmoid, nn::Hardsigmoid()),
    CASE(log_sigmoid, nn::LogSigmoid()),
    CASE(softsign, nn::Softsign()),
    CASE(tanhshrink, nn::Tanhshrink()),
    CASE(selu, nn::SELU()),
    CASE(identity, nn::Identity()),
    CASE(gelu, nn::GELU()),
    CASE(gelu_tanh, nn::GELU({.approximate = "tanh"})),
    CASE(softplus, nn::Softplus({.beta = 2.0, .threshold = 3.0})),
    CASE(hardtanh, nn::Hardtanh({.min_val = -0.5, .max_val = 0.7})),
    CASE(leaky_relu, nn::LeakyReLU(0.2)),
    CASE(elu, nn::ELU(0.7)),
    CASE(celu, nn::CELU(0.7)),
    CASE(glu, nn::GLU(1)),
    CASE(softmax, nn::Softmax(1)),
    CASE(log_softmax, nn::LogSoftmax(-1)),
    CASE(prelu, nn::PReLU(4, w)),
    CASE(snake, nn::Snake(4, w)),
    CASE(snake_beta, nn::Snake(4, {.beta = true, .log_scale = true}, w)),
    CASE(dropout, nn::Dropout(0.3)),
    CASE(flatten, nn::Flatten()),
    CASE(unflatten, nn::Unflatten(1, {2, 2})),
    CASE(pixel_shuffle, nn::PixelShuffle(2)),
    CASE(pixel_unshuffle, nn::PixelUnshuffle(2)),
    CASE(channel_shuffle, nn::ChannelShuffle(2)),
};

// Takes all inputs as one list and gives every case's outputs.
struct All {
  const Weights& weights;
  std::vector<std::string> inputs;

  struct Outputs {
    Results all;
    template <class F> void each(F&& f) const {
      for (const auto& [name, tensor] : all) f(name.c_str(), tensor);
    }
  };
  Outputs operator()(const std::vector<Tensor>& tensors) const {
    Outputs outputs;
    for (const Case& one : kCases) {
      Arguments arguments;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].starts_with(std::string(one.name) + "/")) arguments.push_back(tensors[i]);
      }
      for (const auto& [name, tensor] : one.run(arguments, weights / one.name))
        outputs.all.emplace_back(std::string(one.name) + "/" + name, tensor);
    }
    return outputs;
  }
};

int main(int, char** arguments) {
  try {
    const Weights weights = Weights::open(arguments[1]);
    const auto inputs = load_arrays(arguments[2]);
    All all{weights, {}};
    Signature signature;
    for (const auto& [name, array] : inputs) {
      all.inputs.push_back(name);
      InputSpec input{name, array.dtype()};
      for (size_t axis = 0; axis < array.shape().size(); ++axis) {
        // The first axis is dynamic: its size is no number while the model is captured.
        const bool is_dynamic = axis == 0 && name.find("mask") == std::string::npos &&
                                name.find("without_batch") == std::string::npos;
        std::string symbol = "n" + std::to_string(signature.size());
        input.shape.push_back(is_dynamic ? SignatureDim(symbol) : SignatureDim(array.shape()[axis]));
      }
      signature.push_back(std::move(input));
    }
    save_arrays(arguments[3], compile(all, signature).run(inputs));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
