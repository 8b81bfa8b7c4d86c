#include "emit/rust/layers.h"

#include <fmt/format.h>

#include "emit/rust/text.h"

namespace pycandle::emit::rust {
namespace {

// The arguments of a module's constructor, by name.
class Arguments {
 public:
  Arguments(const NnModule& nn, const ArgumentText& text) : nn_(&nn), text_(&text) {}

  const Attribute& value(std::string_view name) const { return nn_->arguments[index(name)].value; }
  std::string text(std::string_view name) const { return (*text_)(index(name)); }
  bool flag(std::string_view name) const { return std::get<bool>(value(name)); }
  bool is_default(std::string_view name) const {
    const LayerArgument& a = nn_->arguments[index(name)];
    return same(a.value, a.default_value) && (*text_)(index(name)) == rust_literal(a.value);
  }
  bool is_number(std::string_view name) const { return std::holds_alternative<int64_t>(value(name)); }
  bool has(std::string_view name) const { return find(name) < nn_->arguments.size(); }

 private:
  size_t find(std::string_view name) const {
    for (size_t i = 0; i < nn_->arguments.size(); ++i) {
      if (nn_->arguments[i].name == name) return i;
    }
    return nn_->arguments.size();
  }
  size_t index(std::string_view name) const {
    const size_t found = find(name);
    if (found == nn_->arguments.size()) internal_error(fmt::format("{} has no argument {}", nn_->name, name));
    return found;
  }
  const NnModule* nn_;
  const ArgumentText* text_;
};

std::string config(const std::string& type, const std::vector<std::string>& given) {
  if (given.empty()) return type + "::default()";
  return fmt::format("{} {{ {}, ..Default::default() }}", type, joined(given));
}

// candle_nn has square kernels in one and two dimensions, with one number for each of the rest.
LayerText convolution(const NnModule& nn, const Arguments& a) {
  const bool transposed = nn.name.starts_with("ConvTranspose");
  const char n = nn.name[nn.name.size() - 2];
  const bool bias = a.flag("bias");
  bool is_square = !transposed && n != '3' && !(a.has("same") && a.flag("same")) && a.is_number("kernel_size");
  for (const char* name : {"stride", "padding", "dilation"}) is_square = is_square && a.is_number(name);
  std::vector<std::string> given;
  if (is_square) {
    for (const char* name : {"stride", "padding", "dilation", "groups"}) {
      if (!a.is_default(name)) given.push_back(a.text(name) == name ? name : fmt::format("{}: {}", name, a.text(name)));
    }
    const bool is_usual = a.is_default("dilation") && a.is_default("groups");
    if (is_usual && !(a.is_default("stride") && a.is_default("padding"))) {
      return {fmt::format("Conv{}d", n),
              fmt::format("nn::conv{}d{}", n, bias ? "" : "_no_bias"),
              {a.text("in_channels"), a.text("out_channels"), a.text("kernel_size"), a.text("stride"), a.text("padding")}};
    }
    return {
        fmt::format("Conv{}d", n),
        fmt::format("conv{}d{}", n, bias ? "" : "_no_bias"),
        {a.text("in_channels"), a.text("out_channels"), a.text("kernel_size"), config(fmt::format("Conv{}dConfig", n), given)}};
  }
  for (const char* name : {"stride", "padding", "output_padding", "dilation"}) {
    if (!a.has(name) || a.is_default(name)) continue;
    given.push_back(fmt::format("{}: vec!{}", name, a.is_number(name) ? "[" + a.text(name) + "]" : a.text(name)));
  }
  if (!a.is_default("groups")) given.push_back(a.text("groups") == "groups" ? "groups" : "groups: " + a.text("groups"));
  if (a.has("same") && a.flag("same")) given.emplace_back("same: true");
  if (transposed) given.emplace_back("transposed: true");
  if (!bias) given.emplace_back("no_bias: true");
  const std::string kernel = a.is_number("kernel_size") ? fmt::format("&[{}; {}]", a.text("kernel_size"), n)
                                                        : "&" + a.text("kernel_size");
  return {"nn::Conv", "nn::conv", {a.text("in_channels"), a.text("out_channels"), kernel, config("nn::ConvConfig", given)}};
}

LayerText rms_norm(const Arguments& a) {
  const bool is_plain = !a.is_default("eps") && std::holds_alternative<std::monostate>(a.value("compute_dtype")) &&
                        !a.flag("round_before_weight") && a.is_default("weight_offset") && a.flag("elementwise_affine");
  if (is_plain) return {"RmsNorm", "rms_norm", {a.text("normalized_shape"), a.text("eps")}};
  std::vector<std::string> given;
  if (!std::holds_alternative<std::monostate>(a.value("eps"))) given.push_back(fmt::format("eps: Some({})", a.text("eps")));
  if (!a.flag("elementwise_affine")) given.emplace_back("affine: false");
  if (!std::holds_alternative<std::monostate>(a.value("compute_dtype")))
    given.push_back(fmt::format("compute_dtype: Some({})", a.text("compute_dtype")));
  if (a.flag("round_before_weight")) given.emplace_back("round_before_weight: true");
  if (!a.is_default("weight_offset")) given.push_back("weight_offset: " + a.text("weight_offset"));
  return {"nn::RmsNorm", "nn::rms_norm", {a.text("normalized_shape"), config("nn::RmsNormConfig", given)}};
}

LayerText recurrent(const NnModule& nn, const Arguments& a) {
  std::vector<std::string> given;
  for (const char* name : {"num_layers", "bias", "batch_first", "bidirectional"}) {
    if (!a.is_default(name)) given.push_back(a.text(name) == name ? name : fmt::format("{}: {}", name, a.text(name)));
  }
  std::vector<std::string> arguments{a.text("input_size"), a.text("hidden_size")};
  if (nn.name == "RNN") arguments.push_back(a.text("nonlinearity"));
  arguments.push_back(config("nn::RecurrentConfig", given));
  const char* function = nn.name == "LSTM" ? "nn::lstm" : nn.name == "GRU" ? "nn::gru" : "nn::rnn";
  return {"nn::Recurrent", function, arguments};
}

}  // namespace

bool has_layer(const CallTree& tree, const NnModule& nn) {
  if (nn.inputs.size() != 1) return false;  // a state is given
  const auto affine = [&](const char* name) {
    for (const LayerArgument& a : nn.arguments) {
      if (a.name == name) return std::get<bool>(a.value);
    }
    return true;
  };
  const Graph& g = tree.program().graph;
  const Type& x = g.type(nn.inputs[0]);
  if (nn.name == "LayerNorm") return affine("elementwise_affine");
  if (nn.name == "GroupNorm") return affine("affine") && x.rank() >= 3;
  if (nn.name.starts_with("BatchNorm")) return x.rank() >= 2;
  if (nn.name == "Linear") return x.rank() >= 2 && x.rank() <= 4;
  if (nn.name.starts_with("Conv")) return x.rank() == nn.name[nn.name.size() - 2] - '0' + 2;  // with a batch
  return nn.name == "Embedding" || nn.name == "RMSNorm" || nn.name == "LSTM" || nn.name == "GRU" || nn.name == "RNN" ||
         nn.name == "MultiheadAttention";
}

LayerText layer_text(const NnModule& nn, const ArgumentText& text) {
  const Arguments a(nn, text);
  if (nn.name.starts_with("Conv")) return convolution(nn, a);
  if (nn.name == "RMSNorm") return rms_norm(a);
  if (nn.name == "LSTM" || nn.name == "GRU" || nn.name == "RNN") return recurrent(nn, a);
  if (nn.name == "Linear") {
    const std::string in = a.text("in_features"), out = a.text("out_features");
    if (!a.is_default("weight_order")) return {"Linear", "nn::linear_in_out", {in, out, a.text("bias")}};
    return {"Linear", a.flag("bias") ? "linear" : "linear_no_bias", {in, out}};
  }
  if (nn.name == "LayerNorm") {
    return {"LayerNorm", a.flag("bias") ? "layer_norm" : "layer_norm_no_bias", {a.text("normalized_shape"), a.text("eps")}};
  }
  if (nn.name == "Embedding") return {"Embedding", "embedding", {a.text("num_embeddings"), a.text("embedding_dim")}};
  if (nn.name == "GroupNorm") {
    return {"GroupNorm", "group_norm", {a.text("num_groups"), a.text("num_channels"), a.text("eps")}};
  }
  if (nn.name.starts_with("BatchNorm")) {
    const std::string how = a.flag("affine") ? a.text("eps")
                                             : fmt::format("BatchNormConfig {{ eps: {}, affine: false, ..Default::default() }}",
                                                           a.text("eps"));
    return {"BatchNorm", "batch_norm", {a.text("num_features"), how}, true};
  }
  return {"nn::SelfAttention",
          "nn::self_attention",
          {a.text("embed_dim"), a.text("num_heads"), a.text("bias"), a.text("batch_first")}};
}

}  // namespace pycandle::emit::rust
