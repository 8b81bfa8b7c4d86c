#include "emit/proof/layers.h"

#include <fmt/format.h>

#include <tuple>
#include <type_traits>

namespace pycandle::emit::proof {
namespace {

namespace nn = front::nn;
using front::Tensor;
using front::Weights;

// The options of a module by their names.
template <class O> using Fields = std::vector<std::pair<const char*, std::function<void(O&, const Value&)>>>;
template <class O, class M> typename Fields<O>::value_type field(const char* name, M O::* member) {
  return {name, [member](O& options, const Value& value) { options.*member = to<M>(value); }};
}
struct NoOptions {};
template <class O> const Fields<O>& fields_of() {
  static const Fields<O> none;
  return none;
}

template <> const Fields<nn::Linear::Options>& fields_of() {
  using O = nn::Linear::Options;
  static const Fields<O> all{field("bias", &O::bias), field("weight_order", &O::weight_order)};
  return all;
}
template <> const Fields<nn::LayerNorm::Options>& fields_of() {
  using O = nn::LayerNorm::Options;
  static const Fields<O> all{field("eps", &O::eps), field("elementwise_affine", &O::elementwise_affine), field("bias", &O::bias)};
  return all;
}
template <> const Fields<nn::RMSNorm::Options>& fields_of() {
  using O = nn::RMSNorm::Options;
  static const Fields<O> all{field("eps", &O::eps), field("elementwise_affine", &O::elementwise_affine),
                             field("compute_dtype", &O::compute_dtype), field("round_before_weight", &O::round_before_weight),
                             field("weight_offset", &O::weight_offset)};
  return all;
}
template <> const Fields<nn::GroupNorm::Options>& fields_of() {
  using O = nn::GroupNorm::Options;
  static const Fields<O> all{field("eps", &O::eps), field("affine", &O::affine)};
  return all;
}
template <> const Fields<nn::BatchNormOptions>& fields_of() {
  using O = nn::BatchNormOptions;
  static const Fields<O> all{field("eps", &O::eps), field("affine", &O::affine)};
  return all;
}
template <> const Fields<nn::ConvOptions>& fields_of() {
  using O = nn::ConvOptions;
  static const Fields<O> all{field("stride", &O::stride), field("padding", &O::padding), field("dilation", &O::dilation),
                             field("groups", &O::groups), field("bias", &O::bias),       field("same", &O::same)};
  return all;
}
template <> const Fields<nn::ConvTransposeOptions>& fields_of() {
  using O = nn::ConvTransposeOptions;
  static const Fields<O> all{
      field("stride", &O::stride),     field("padding", &O::padding), field("output_padding", &O::output_padding),
      field("dilation", &O::dilation), field("groups", &O::groups),   field("bias", &O::bias)};
  return all;
}
template <> const Fields<nn::MaxPoolOptions>& fields_of() {
  using O = nn::MaxPoolOptions;
  static const Fields<O> all{field("stride", &O::stride), field("padding", &O::padding), field("dilation", &O::dilation),
                             field("ceil_mode", &O::ceil_mode)};
  return all;
}
template <> const Fields<nn::AvgPoolOptions>& fields_of() {
  using O = nn::AvgPoolOptions;
  static const Fields<O> all{field("stride", &O::stride), field("padding", &O::padding), field("ceil_mode", &O::ceil_mode),
                             field("count_include_pad", &O::count_include_pad), field("divisor_override", &O::divisor_override)};
  return all;
}
template <> const Fields<nn::MultiheadAttention::Options>& fields_of() {
  using O = nn::MultiheadAttention::Options;
  static const Fields<O> all{field("bias", &O::bias), field("batch_first", &O::batch_first), field("kdim", &O::kdim),
                             field("vdim", &O::vdim)};
  return all;
}
template <> const Fields<nn::RecurrentOptions>& fields_of() {
  using O = nn::RecurrentOptions;
  static const Fields<O> all{field("num_layers", &O::num_layers), field("bias", &O::bias), field("batch_first", &O::batch_first),
                             field("bidirectional", &O::bidirectional), field("nonlinearity", &O::nonlinearity)};
  return all;
}
template <> const Fields<nn::GELU::Options>& fields_of() {
  using O = nn::GELU::Options;
  static const Fields<O> all{field("approximate", &O::approximate)};
  return all;
}
template <> const Fields<nn::Hardtanh::Options>& fields_of() {
  using O = nn::Hardtanh::Options;
  static const Fields<O> all{field("min_val", &O::min_val), field("max_val", &O::max_val)};
  return all;
}

template <class O> O options_of(const Record& given) {
  O options;
  for (const auto& [name, value] : given.fields) {
    bool known = false;
    for (const auto& [field, set] : fields_of<O>()) {
      if (name != field) continue;
      set(options, value);
      known = true;
    }
    if (!known) throw Error(ErrorCode::gap, fmt::format("a module has no option {}", name));
  }
  return options;
}

template <class T> class NnLayer final : public Layer {
 public:
  explicit NnLayer(T module) : module_(std::move(module)) {}
  Value call(const List& arguments) const override {
    if (arguments.size() != 1) throw Error(ErrorCode::gap, fmt::format("{} takes one tensor", type));
    return value_of(module_(to<Tensor>(arguments[0])));
  }

 private:
  T module_;
};

[[noreturn]] void wrong_arguments(size_t expected, size_t found) {
  throw Error(ErrorCode::gap, "a module is built with other arguments than it has")
      .expected(fmt::format("{} arguments, options, and weights", expected))
      .found(fmt::format("{} arguments", found));
}

// T(P…, options, weights) or T(P…, weights).
template <class T, class O, class... P> std::shared_ptr<Layer> made(const List& arguments) {
  constexpr size_t count = sizeof...(P);
  const bool has_options = arguments.size() == count + 2;
  if (!has_options && arguments.size() != count + 1) wrong_arguments(count, arguments.size());
  const Weights w = to<Weights>(arguments.back());
  return [&]<size_t... i>(std::index_sequence<i...>) -> std::shared_ptr<Layer> {
    if constexpr (!std::is_same_v<O, NoOptions>) {
      if (has_options) {
        const Record* record = arguments[count].record();
        if (!record) cannot_be(arguments[count], "options");
        return std::make_shared<NnLayer<T>>(T(to<P>(arguments[i])..., options_of<O>(*record), w));
      }
    }
    if (has_options) wrong_arguments(count, arguments.size());
    return std::make_shared<NnLayer<T>>(T(to<P>(arguments[i])..., w));
  }(std::make_index_sequence<count>());
}

using Make = std::shared_ptr<Layer> (*)(const List&);
using nn::Spread;
const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> all{
      {"nn::Linear", made<nn::Linear, nn::Linear::Options, int64_t, int64_t>},
      {"nn::Embedding", made<nn::Embedding, NoOptions, int64_t, int64_t>},
      {"nn::LayerNorm", made<nn::LayerNorm, nn::LayerNorm::Options, Spread>},
      {"nn::RMSNorm", made<nn::RMSNorm, nn::RMSNorm::Options, Spread>},
      {"nn::GroupNorm", made<nn::GroupNorm, nn::GroupNorm::Options, int64_t, int64_t>},
      {"nn::BatchNorm1d", made<nn::BatchNorm1d, nn::BatchNormOptions, int64_t>},
      {"nn::BatchNorm2d", made<nn::BatchNorm2d, nn::BatchNormOptions, int64_t>},
      {"nn::BatchNorm3d", made<nn::BatchNorm3d, nn::BatchNormOptions, int64_t>},
      {"nn::Conv1d", made<nn::Conv1d, nn::ConvOptions, int64_t, int64_t, Spread>},
      {"nn::Conv2d", made<nn::Conv2d, nn::ConvOptions, int64_t, int64_t, Spread>},
      {"nn::Conv3d", made<nn::Conv3d, nn::ConvOptions, int64_t, int64_t, Spread>},
      {"nn::ConvTranspose1d", made<nn::ConvTranspose1d, nn::ConvTransposeOptions, int64_t, int64_t, Spread>},
      {"nn::ConvTranspose2d", made<nn::ConvTranspose2d, nn::ConvTransposeOptions, int64_t, int64_t, Spread>},
      {"nn::ConvTranspose3d", made<nn::ConvTranspose3d, nn::ConvTransposeOptions, int64_t, int64_t, Spread>},
      {"nn::MaxPool1d", made<nn::MaxPool1d, nn::MaxPoolOptions, Spread>},
      {"nn::MaxPool2d", made<nn::MaxPool2d, nn::MaxPoolOptions, Spread>},
      {"nn::MaxPool3d", made<nn::MaxPool3d, nn::MaxPoolOptions, Spread>},
      {"nn::AvgPool1d", made<nn::AvgPool1d, nn::AvgPoolOptions, Spread>},
      {"nn::AvgPool2d", made<nn::AvgPool2d, nn::AvgPoolOptions, Spread>},
      {"nn::AvgPool3d", made<nn::AvgPool3d, nn::AvgPoolOptions, Spread>},
      {"nn::AdaptiveAvgPool1d", made<nn::AdaptiveAvgPool1d, NoOptions, Spread>},
      {"nn::AdaptiveAvgPool2d", made<nn::AdaptiveAvgPool2d, NoOptions, Spread>},
      {"nn::AdaptiveAvgPool3d", made<nn::AdaptiveAvgPool3d, NoOptions, Spread>},
      {"nn::MultiheadAttention", made<nn::MultiheadAttention, nn::MultiheadAttention::Options, int64_t, int64_t>},
      {"nn::LSTM", made<nn::LSTM, nn::RecurrentOptions, int64_t, int64_t>},
      {"nn::GRU", made<nn::GRU, nn::RecurrentOptions, int64_t, int64_t>},
      {"nn::RNN", made<nn::RNN, nn::RecurrentOptions, int64_t, int64_t>},
      {"nn::ReLU", made<nn::ReLU, NoOptions>},
      {"nn::ReLU6", made<nn::ReLU6, NoOptions>},
      {"nn::SiLU", made<nn::SiLU, NoOptions>},
      {"nn::Mish", made<nn::Mish, NoOptions>},
      {"nn::Sigmoid", made<nn::Sigmoid, NoOptions>},
      {"nn::Tanh", made<nn::Tanh, NoOptions>},
      {"nn::Hardswish", made<nn::Hardswish, NoOptions>},
      {"nn::Hardsigmoid", made<nn::Hardsigmoid, NoOptions>},
      {"nn::LogSigmoid", made<nn::LogSigmoid, NoOptions>},
      {"nn::GELU", made<nn::GELU, nn::GELU::Options>},
      {"nn::Hardtanh", made<nn::Hardtanh, nn::Hardtanh::Options>},
      {"nn::LeakyReLU", made<nn::LeakyReLU, NoOptions, double>},
      {"nn::ELU", made<nn::ELU, NoOptions, double>},
      {"nn::PReLU", made<nn::PReLU, NoOptions, int64_t>},
      {"nn::Softmax", made<nn::Softmax, NoOptions, int64_t>},
      {"nn::LogSoftmax", made<nn::LogSoftmax, NoOptions, int64_t>},
  };
  return all;
}

}  // namespace

std::shared_ptr<const Layer> make_layer(const std::string& name, const List& arguments) {
  const auto found = makers().find(name);
  if (found == makers().end()) return nullptr;
  std::shared_ptr<Layer> layer = found->second(arguments);
  layer->type = name;
  return layer;
}

}  // namespace pycandle::emit::proof
