// The layers of torch.nn, for inference. Arguments are torch's: those it requires come first, its keywords are options, and
// the weights come last.
//
//   nn::Linear fc(768, 3072, w / "fc");
//   nn::Conv2d conv(3, 64, 7, {.stride = 2, .padding = 3, .bias = false}, w / "conv1");
//   nn::GELU act({.approximate = "tanh"}, w / "act");       // no parameters: the path is for checks and errors
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pycandle/module.h"

namespace pycandle::front {
namespace nn {

// A number for each axis: 3, or {3, 5}.
class PYCANDLE_API PerAxis {
 public:
  PerAxis(int value) : values_{value} {}                                        // NOLINT(google-explicit-constructor)
  PerAxis(int64_t value) : values_{value} {}                                    // NOLINT(google-explicit-constructor)
  PerAxis(std::initializer_list<int64_t> values) : values_(values) {}
  PerAxis(Ints values) : values_(std::move(values)) {}                          // NOLINT(google-explicit-constructor)
  Ints over(size_t axes) const;  // one number stands for all
  const Ints& values() const { return values_; }

 private:
  Ints values_;
};

// ---- linear

struct PYCANDLE_API Linear : Module<Linear> {
  struct Options {
    bool bias = true;
    std::string weight_order = "out_in";  // "in_out": [in, out], as in GPT-2
  };
  Linear(int64_t in, int64_t out, const Weights& w) : Linear(in, out, Options(), w) {}
  Linear(int64_t in, int64_t out, const Options&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  std::string weight_order;
};

struct PYCANDLE_API Bilinear : Module<Bilinear> {
  struct Options {
    bool bias = true;
  };
  Bilinear(int64_t in1, int64_t in2, int64_t out, const Weights& w) : Bilinear(in1, in2, out, Options(), w) {}
  Bilinear(int64_t in1, int64_t in2, int64_t out, const Options&, const Weights&);
  Tensor forward(const Tensor& x1, const Tensor& x2) const;
  Tensor weight, bias;
};

struct PYCANDLE_API Embedding : Module<Embedding> {
  Embedding(int64_t count, int64_t size, const Weights&);
  Tensor forward(const Tensor& indices) const;
  Tensor weight;
};

// ---- normalization

struct PYCANDLE_API LayerNorm : Module<LayerNorm> {
  struct Options {
    double eps = 1e-5;
    bool elementwise_affine = true, bias = true;
  };
  LayerNorm(const PerAxis& shape, const Weights& w) : LayerNorm(shape, Options(), w) {}
  LayerNorm(const PerAxis& shape, double eps, const Weights& w) : LayerNorm(shape, Options{.eps = eps}, w) {}
  LayerNorm(const PerAxis& shape, const Options&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  Dims normalized_shape;
  double eps;
};

struct PYCANDLE_API RMSNorm : Module<RMSNorm> {
  struct Options {
    std::optional<double> eps = {};                // absent: of the dtype
    bool elementwise_affine = true;
    std::optional<DType> compute_dtype = {};       // where the root mean square is computed in
    bool round_before_weight = false;              // as in T5 and Llama
    double weight_offset = 0;                      // 1: Gemma's (1 + weight)
  };
  RMSNorm(const PerAxis& shape, const Weights& w) : RMSNorm(shape, Options(), w) {}
  RMSNorm(const PerAxis& shape, double eps, const Weights& w) : RMSNorm(shape, Options{.eps = eps}, w) {}
  RMSNorm(const PerAxis& shape, const Options&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight;
  Dims normalized_shape;
  Options options;
};

struct PYCANDLE_API GroupNorm : Module<GroupNorm> {
  struct Options {
    double eps = 1e-5;
    bool affine = true;
  };
  GroupNorm(int64_t groups, int64_t channels, const Weights& w) : GroupNorm(groups, channels, Options(), w) {}
  GroupNorm(int64_t groups, int64_t channels, const Options&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  int64_t groups;
  double eps;
};

struct BatchNormOptions {
  double eps = 1e-5;
  bool affine = true;
};
// With the running statistics.
template <int axes> struct PYCANDLE_API BatchNorm : Module<BatchNorm<axes>> {
  BatchNorm(int64_t features, const Weights& w) : BatchNorm(features, BatchNormOptions(), w) {}
  BatchNorm(int64_t features, const BatchNormOptions&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias, running_mean, running_var;
  double eps;
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false;
};
template <int axes> struct PYCANDLE_API InstanceNorm : Module<InstanceNorm<axes>> {
  explicit InstanceNorm(int64_t features, const Weights& w = {}) : InstanceNorm(features, InstanceNormOptions(), w) {}
  InstanceNorm(int64_t features, const InstanceNormOptions&, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  double eps;
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

// ---- convolution

struct ConvOptions {
  PerAxis stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  bool same = false;  // padding='same'
};
template <int axes> struct PYCANDLE_API Conv : Module<Conv<axes>> {
  Conv(int64_t in, int64_t out, const PerAxis& kernel, const Weights& w) : Conv(in, out, kernel, ConvOptions(), w) {}
  Conv(int64_t in, int64_t out, const PerAxis& kernel, const ConvOptions&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  Ints stride, padding, dilation;
  int64_t groups;
  bool same;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

struct ConvTransposeOptions {
  PerAxis stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
template <int axes> struct PYCANDLE_API ConvTranspose : Module<ConvTranspose<axes>> {
  ConvTranspose(int64_t in, int64_t out, const PerAxis& kernel, const Weights& w)
      : ConvTranspose(in, out, kernel, ConvTransposeOptions(), w) {}
  ConvTranspose(int64_t in, int64_t out, const PerAxis& kernel, const ConvTransposeOptions&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;
  Ints stride, padding, output_padding, dilation;
  int64_t groups;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

// ---- pooling, padding, resizing

struct MaxPoolOptions {
  std::optional<PerAxis> stride = {};  // absent: the kernel's size
  PerAxis padding = 0, dilation = 1;
  bool ceil_mode = false;
};
template <int axes> struct PYCANDLE_API MaxPool : Module<MaxPool<axes>> {
  explicit MaxPool(const PerAxis& kernel, const Weights& w = {}) : MaxPool(kernel, MaxPoolOptions(), w) {}
  MaxPool(const PerAxis& kernel, const MaxPoolOptions&, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Ints kernel_size, stride, padding, dilation;
  bool ceil_mode;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

struct AvgPoolOptions {
  std::optional<PerAxis> stride = {};
  PerAxis padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};
template <int axes> struct PYCANDLE_API AvgPool : Module<AvgPool<axes>> {
  explicit AvgPool(const PerAxis& kernel, const Weights& w = {}) : AvgPool(kernel, AvgPoolOptions(), w) {}
  AvgPool(const PerAxis& kernel, const AvgPoolOptions&, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Ints kernel_size, stride, padding;
  bool ceil_mode, count_include_pad;
  std::optional<int64_t> divisor_override;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

template <int axes> struct PYCANDLE_API AdaptiveAvgPool : Module<AdaptiveAvgPool<axes>> {
  explicit AdaptiveAvgPool(const PerAxis& output, const Weights& w = {});  // -1 keeps a size, as torch's None
  Tensor forward(const Tensor& x) const;
  Ints output_size;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

template <int axes> struct PYCANDLE_API AdaptiveMaxPool : Module<AdaptiveMaxPool<axes>> {
  explicit AdaptiveMaxPool(const PerAxis& output, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Ints output_size;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

// padding: one number for all sides, or torch's list (last axis first: left, right, top, bottom, …).
template <int axes> struct PYCANDLE_API ConstantPad : Module<ConstantPad<axes>> {
  ConstantPad(const PerAxis& padding, double value, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Ints padding;
  double value;
};
using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
template <int axes> struct ZeroPad : ConstantPad<axes> {
  explicit ZeroPad(const PerAxis& padding, const Weights& w = {}) : ConstantPad<axes>(padding, 0, w) {}
};
using ZeroPad1d = ZeroPad<1>;
using ZeroPad2d = ZeroPad<2>;
using ZeroPad3d = ZeroPad<3>;

#define PYCANDLE_PAD(Name)                                            \
  template <int axes> struct PYCANDLE_API Name : Module<Name<axes>> { \
    explicit Name(const PerAxis& padding, const Weights& w = {});     \
    Tensor forward(const Tensor& x) const;                            \
    Ints padding;                                                     \
  };                                                                  \
  using Name##1d = Name<1>;                                           \
  using Name##2d = Name<2>;                                           \
  using Name##3d = Name<3>;
PYCANDLE_PAD(ReflectionPad)
PYCANDLE_PAD(ReplicationPad)
PYCANDLE_PAD(CircularPad)
#undef PYCANDLE_PAD

struct PYCANDLE_API Upsample : Module<Upsample> {
  struct Options {
    std::optional<PerAxis> size = {};
    Numbers scale_factor = {};  // one for all axes, or one for each
    std::string mode = "nearest";
    bool align_corners = false;
  };
  explicit Upsample(const Options&, const Weights& w = {});
  Tensor forward(const Tensor& x) const;
  Options options;
};

// ---- attention

struct AttentionOptions {
  Tensor attn_mask = {};          // bool: where it may not look (true is masked, as torch's module has it); float: added
  Tensor key_padding_mask = {};   // bool [batch, keys]: true is padding
  bool is_causal = false;
};
struct PYCANDLE_API MultiheadAttention : Module<MultiheadAttention> {
  struct Options {
    bool bias = true, batch_first = false;
    std::optional<int64_t> kdim = {}, vdim = {};
  };
  MultiheadAttention(int64_t embed_dim, int64_t heads, const Weights& w) : MultiheadAttention(embed_dim, heads, Options(), w) {}
  MultiheadAttention(int64_t embed_dim, int64_t heads, const Options&, const Weights&);
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options = {}) const;
  Tensor forward(const Tensor& x, const AttentionOptions& options = {}) const;  // of x to itself: projected as a whole
  Tensor q_weight, k_weight, v_weight, in_weight, in_bias, out_weight, out_bias;  // in_weight, or three
  int64_t embed_dim, heads;
  bool batch_first;

 private:
  Tensor split(const Tensor& projected) const;
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) const;
};

// ---- recurrent

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true, batch_first = false, bidirectional = false;
  std::string nonlinearity = "tanh";  // RNN: or "relu"
};
struct PYCANDLE_API LSTM : Module<LSTM> {
  LSTM(int64_t input, int64_t hidden, const Weights& w) : LSTM(input, hidden, RecurrentOptions(), w) {}
  LSTM(int64_t input, int64_t hidden, const RecurrentOptions&, const Weights&);
  // output, (h_n, c_n); states that are not given are zeros.
  std::pair<Tensor, std::pair<Tensor, Tensor>> forward(const Tensor& x, const Tensor& h0 = {}, const Tensor& c0 = {}) const;
  std::vector<Tensor> parameters;
  int64_t hidden_size;
  RecurrentOptions options;
};
struct PYCANDLE_API GRU : Module<GRU> {
  GRU(int64_t input, int64_t hidden, const Weights& w) : GRU(input, hidden, RecurrentOptions(), w) {}
  GRU(int64_t input, int64_t hidden, const RecurrentOptions&, const Weights&);
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {}) const;
  std::vector<Tensor> parameters;
  int64_t hidden_size;
  RecurrentOptions options;
};
struct PYCANDLE_API RNN : Module<RNN> {
  RNN(int64_t input, int64_t hidden, const Weights& w) : RNN(input, hidden, RecurrentOptions(), w) {}
  RNN(int64_t input, int64_t hidden, const RecurrentOptions&, const Weights&);
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {}) const;
  std::vector<Tensor> parameters;
  int64_t hidden_size;
  RecurrentOptions options;
};
struct CellOptions {
  bool bias = true;
  std::string nonlinearity = "tanh";  // RNNCell: or "relu"
};
struct PYCANDLE_API LSTMCell : Module<LSTMCell> {
  LSTMCell(int64_t input, int64_t hidden, const Weights& w) : LSTMCell(input, hidden, CellOptions(), w) {}
  LSTMCell(int64_t input, int64_t hidden, const CellOptions&, const Weights&);
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h, const Tensor& c) const;
  Tensor w_ih, w_hh, b_ih, b_hh;
};
struct PYCANDLE_API GRUCell : Module<GRUCell> {
  GRUCell(int64_t input, int64_t hidden, const Weights& w) : GRUCell(input, hidden, CellOptions(), w) {}
  GRUCell(int64_t input, int64_t hidden, const CellOptions&, const Weights&);
  Tensor forward(const Tensor& x, const Tensor& h) const;
  Tensor w_ih, w_hh, b_ih, b_hh;
};
struct PYCANDLE_API RNNCell : Module<RNNCell> {
  RNNCell(int64_t input, int64_t hidden, const Weights& w) : RNNCell(input, hidden, CellOptions(), w) {}
  RNNCell(int64_t input, int64_t hidden, const CellOptions&, const Weights&);
  Tensor forward(const Tensor& x, const Tensor& h) const;
  Tensor w_ih, w_hh, b_ih, b_hh;
  bool is_relu;
};

// ---- activations

// Those without parameters: the class, and the functional that it is.
#define PYCANDLE_ACTIVATIONS(X) \
  X(ReLU, relu)                 \
  X(ReLU6, relu6)               \
  X(SiLU, silu)                 \
  X(Mish, mish)                 \
  X(Sigmoid, sigmoid)           \
  X(Tanh, tanh)                 \
  X(Hardswish, hardswish)       \
  X(Hardsigmoid, hardsigmoid)   \
  X(LogSigmoid, log_sigmoid)
#define PYCANDLE_ACTIVATION(Name, functional)           \
  struct PYCANDLE_API Name : Module<Name> {             \
    explicit Name(const Weights& w = {}) : Module(w) {} \
    Tensor forward(const Tensor& x) const;              \
  };
PYCANDLE_ACTIVATIONS(PYCANDLE_ACTIVATION)
PYCANDLE_ACTIVATION(Softsign, )
PYCANDLE_ACTIVATION(Tanhshrink, )
PYCANDLE_ACTIVATION(SELU, )
PYCANDLE_ACTIVATION(Identity, )
#undef PYCANDLE_ACTIVATION

struct PYCANDLE_API GELU : Module<GELU> {
  struct Options {
    std::string approximate = "none";  // or "tanh"
  };
  explicit GELU(const Weights& w = {}) : Module(w) {}
  explicit GELU(Options given, const Weights& w = {}) : Module(w), options(std::move(given)) {}
  Tensor forward(const Tensor& x) const;
  Options options;
};
struct PYCANDLE_API Softplus : Module<Softplus> {
  struct Options {
    Scalar beta = 1.0, threshold = 20.0;
  };
  explicit Softplus(const Weights& w = {}) : Module(w) {}
  explicit Softplus(Options given, const Weights& w = {}) : Module(w), options(given) {}
  Tensor forward(const Tensor& x) const;
  Options options;
};
struct PYCANDLE_API Hardtanh : Module<Hardtanh> {
  struct Options {
    Scalar min_val = -1.0, max_val = 1.0;
  };
  explicit Hardtanh(const Weights& w = {}) : Module(w) {}
  explicit Hardtanh(Options given, const Weights& w = {}) : Module(w), options(given) {}
  Tensor forward(const Tensor& x) const;
  Options options;
};
struct PYCANDLE_API LeakyReLU : Module<LeakyReLU> {
  explicit LeakyReLU(double slope = 0.01, const Weights& w = {}) : Module(w), negative_slope(slope) {}
  Tensor forward(const Tensor& x) const;
  double negative_slope;
};
struct PYCANDLE_API ELU : Module<ELU> {
  explicit ELU(double factor = 1, const Weights& w = {}) : Module(w), alpha(factor) {}
  Tensor forward(const Tensor& x) const;
  double alpha;
};
struct PYCANDLE_API CELU : Module<CELU> {
  explicit CELU(double factor = 1, const Weights& w = {}) : Module(w), alpha(factor) {}
  Tensor forward(const Tensor& x) const;
  double alpha;
};
struct PYCANDLE_API GLU : Module<GLU> {
  explicit GLU(int64_t axis = -1, const Weights& w = {}) : Module(w), dim(axis) {}
  Tensor forward(const Tensor& x) const;
  int64_t dim;
};
struct PYCANDLE_API Softmax : Module<Softmax> {
  explicit Softmax(int64_t axis, const Weights& w = {}) : Module(w), dim(axis) {}
  Tensor forward(const Tensor& x) const;
  int64_t dim;
};
struct PYCANDLE_API LogSoftmax : Module<LogSoftmax> {
  explicit LogSoftmax(int64_t axis, const Weights& w = {}) : Module(w), dim(axis) {}
  Tensor forward(const Tensor& x) const;
  int64_t dim;
};
struct PYCANDLE_API PReLU : Module<PReLU> {
  PReLU(int64_t count, const Weights&);
  explicit PReLU(const Weights& w) : PReLU(1, w) {}
  Tensor forward(const Tensor& x) const;
  Tensor weight;
};
// x + sin²(alpha x) / beta over the channels of [N, C, …]; without beta, alpha is both.
struct PYCANDLE_API Snake : Module<Snake> {
  struct Options {
    bool beta = false;       // has a beta of its own
    bool log_scale = false;  // parameters are logarithms
    double eps = 1e-9;
  };
  Snake(int64_t channels, const Weights& w) : Snake(channels, Options(), w) {}
  Snake(int64_t channels, const Options&, const Weights&);
  Tensor forward(const Tensor& x) const;
  Tensor alpha, beta;
  Options options;
};
// For inference: gives its argument back.
struct PYCANDLE_API Dropout : Module<Dropout> {
  explicit Dropout(double = 0.5, const Weights& w = {}) : Module(w) {}
  explicit Dropout(const Weights& w) : Module(w) {}
  Tensor forward(const Tensor& x) const { return x; }
};

// ---- shape

struct PYCANDLE_API Flatten : Module<Flatten> {
  explicit Flatten(int64_t first = 1, int64_t last = -1, const Weights& w = {}) : Module(w), start_dim(first), end_dim(last) {}
  explicit Flatten(const Weights& w) : Flatten(1, -1, w) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
  int64_t start_dim, end_dim;
};
struct PYCANDLE_API Unflatten : Module<Unflatten> {
  Unflatten(int64_t axis, Dims parts, const Weights& w = {}) : Module(w), dim(axis), sizes(std::move(parts)) {}
  Tensor forward(const Tensor& x) const { return x.unflatten(dim, sizes); }
  int64_t dim;
  Dims sizes;
};
struct PYCANDLE_API PixelShuffle : Module<PixelShuffle> {
  explicit PixelShuffle(int64_t upscale, const Weights& w = {}) : Module(w), factor(upscale) {}
  Tensor forward(const Tensor& x) const;
  int64_t factor;
};
struct PYCANDLE_API PixelUnshuffle : Module<PixelUnshuffle> {
  explicit PixelUnshuffle(int64_t downscale, const Weights& w = {}) : Module(w), factor(downscale) {}
  Tensor forward(const Tensor& x) const;
  int64_t factor;
};
struct PYCANDLE_API ChannelShuffle : Module<ChannelShuffle> {
  explicit ChannelShuffle(int64_t count, const Weights& w = {}) : Module(w), groups(count) {}
  Tensor forward(const Tensor& x) const;
  int64_t groups;
};

// ---- containers

// One after another: nn::Sequential<nn::Linear, nn::ReLU> net(w / "net", nn::Linear(…), nn::ReLU(…));
template <class... Modules> struct Sequential : Module<Sequential<Modules...>> {
  Sequential(const Weights& w, Modules... parts) : Module<Sequential>(w), modules(std::move(parts)...) {}
  template <class X> auto forward(const X& x) const { return from<0>(x); }
  template <size_t i> const auto& get() const { return std::get<i>(modules); }
  std::tuple<Modules...> modules;

 private:
  template <size_t i, class X> auto from(const X& x) const {
    if constexpr (i == sizeof...(Modules))
      return x;
    else
      return from<i + 1>(std::get<i>(modules)(x));
  }
};

// Modules of one class: h(12, w / "h", config) makes Block(config, w / "h" / 0), …
template <class T> class ModuleList {
 public:
  ModuleList() = default;
  template <class... A>
    requires std::is_constructible_v<T, const A&..., const Weights&>
  ModuleList(int64_t count, const Weights& w, const A&... arguments) {
    for (int64_t i = 0; i < count; ++i) modules_.emplace_back(arguments..., w / i);
  }
  // make(i) for each i
  template <class Make>
    requires std::is_invocable_r_v<T, Make, int64_t>
  ModuleList(int64_t count, Make&& make) {
    for (int64_t i = 0; i < count; ++i) modules_.push_back(make(i));
  }
  void push_back(T module) { modules_.push_back(std::move(module)); }
  size_t size() const { return modules_.size(); }
  const T& operator[](size_t i) const { return modules_.at(i); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }

 private:
  std::vector<T> modules_;
};

#ifdef PYCANDLE_INSIDE
// What emitted code names, for the proof that reads it again: the fields of options, and each class with its options and
// the arguments before them.
// clang-format off
#define PYCANDLE_NN_OPTIONS(X)                                                                          \
  X(Linear::Options, bias, weight_order)                                                                \
  X(LayerNorm::Options, eps, elementwise_affine, bias)                                                  \
  X(RMSNorm::Options, eps, elementwise_affine, compute_dtype, round_before_weight, weight_offset)       \
  X(GroupNorm::Options, eps, affine)                                                                    \
  X(BatchNormOptions, eps, affine)                                                                      \
  X(InstanceNormOptions, eps, affine)                                                                   \
  X(ConvOptions, stride, padding, dilation, groups, bias, same)                                         \
  X(ConvTransposeOptions, stride, padding, output_padding, dilation, groups, bias)                      \
  X(MaxPoolOptions, stride, padding, dilation, ceil_mode)                                               \
  X(AvgPoolOptions, stride, padding, ceil_mode, count_include_pad, divisor_override)                    \
  X(MultiheadAttention::Options, bias, batch_first, kdim, vdim)                                         \
  X(RecurrentOptions, num_layers, bias, batch_first, bidirectional, nonlinearity)                       \
  X(GELU::Options, approximate)                                                                         \
  X(Hardtanh::Options, min_val, max_val)

struct NoOptions {};
#define PYCANDLE_NN_AXES(X, name, ...) X(name##1d, __VA_ARGS__) X(name##2d, __VA_ARGS__) X(name##3d, __VA_ARGS__)
#define PYCANDLE_NN_CLASSES(X)                                                        \
  X(Linear, Linear::Options, int64_t, int64_t)                                        \
  X(Embedding, NoOptions, int64_t, int64_t)                                           \
  X(LayerNorm, LayerNorm::Options, PerAxis)                                           \
  X(RMSNorm, RMSNorm::Options, PerAxis)                                               \
  X(GroupNorm, GroupNorm::Options, int64_t, int64_t)                                  \
  PYCANDLE_NN_AXES(X, BatchNorm, BatchNormOptions, int64_t)                           \
  PYCANDLE_NN_AXES(X, Conv, ConvOptions, int64_t, int64_t, PerAxis)                   \
  PYCANDLE_NN_AXES(X, ConvTranspose, ConvTransposeOptions, int64_t, int64_t, PerAxis) \
  PYCANDLE_NN_AXES(X, MaxPool, MaxPoolOptions, PerAxis)                               \
  PYCANDLE_NN_AXES(X, AvgPool, AvgPoolOptions, PerAxis)                               \
  PYCANDLE_NN_AXES(X, AdaptiveAvgPool, NoOptions, PerAxis)                            \
  PYCANDLE_NN_AXES(X, InstanceNorm, InstanceNormOptions, int64_t)                     \
  PYCANDLE_NN_AXES(X, ReflectionPad, NoOptions, PerAxis)                              \
  PYCANDLE_NN_AXES(X, ReplicationPad, NoOptions, PerAxis)                             \
  PYCANDLE_NN_AXES(X, CircularPad, NoOptions, PerAxis)                                \
  PYCANDLE_NN_AXES(X, ZeroPad, NoOptions, PerAxis)                                    \
  PYCANDLE_NN_AXES(X, ConstantPad, NoOptions, PerAxis, double)                        \
  X(MultiheadAttention, MultiheadAttention::Options, int64_t, int64_t)                \
  X(LSTM, RecurrentOptions, int64_t, int64_t)                                         \
  X(GRU, RecurrentOptions, int64_t, int64_t)                                          \
  X(RNN, RecurrentOptions, int64_t, int64_t)                                          \
  X(GELU, GELU::Options)                                                              \
  X(Hardtanh, Hardtanh::Options)                                                      \
  X(LeakyReLU, NoOptions, double)                                                     \
  X(ELU, NoOptions, double)                                                           \
  X(PReLU, NoOptions, int64_t)                                                        \
  X(Softmax, NoOptions, int64_t)                                                      \
  X(LogSoftmax, NoOptions, int64_t)
// clang-format on
#endif

}  // namespace nn
}  // namespace pycandle::front
