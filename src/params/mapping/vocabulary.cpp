#include "params/mapping/vocabulary.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

namespace pycandle {
namespace {

struct Phrase {
  std::string_view spelled, common;  // whole parts of a name
};

// In this order: a phrase stands before those that it contains.
constexpr Phrase kPhrases[] = {
    // wrappers around weights
    {"parametrizations.weight.original0", "weight_g"},
    {"parametrizations.weight.original1", "weight_v"},
    {"base_layer", ""},
    // images, before the layers: HF's ResNet in torchvision's words
    {"embedder.embedder.convolution", "conv1"},
    {"embedder.embedder.normalization", "bn1"},
    {"shortcut.convolution", "shortcut.conv"},
    {"shortcut.normalization", "shortcut.norm"},
    {"downsample.0", "shortcut.conv"},
    {"downsample.1", "shortcut.norm"},
    {"layer.0.convolution", "conv1"},
    {"layer.0.normalization", "bn1"},
    {"layer.1.convolution", "conv2"},
    {"layer.1.normalization", "bn2"},
    {"layer.2.convolution", "conv3"},
    {"layer.2.normalization", "bn3"},
    {"stages.0.layers", "layer1"},
    {"stages.1.layers", "layer2"},
    {"stages.2.layers", "layer3"},
    {"stages.3.layers", "layer4"},
    // attention
    {"attention.self.query", "attn.q"},
    {"attention.self.key", "attn.k"},
    {"attention.self.value", "attn.v"},
    {"attention.attention.query", "attn.q"},
    {"attention.attention.key", "attn.k"},
    {"attention.attention.value", "attn.v"},
    {"attention.output.dense", "attn.o"},
    {"attention.output.layernorm", "norm1"},
    {"self_attn_layer_norm", "norm1"},
    {"encoder_attn_layer_norm", "cross_norm"},
    {"cross_attn_ln", "cross_norm"},
    {"attn_ln", "norm1"},
    {"encoder_attn", "cross_attn"},
    {"cross_attn.q_proj", "cross_attn.query"},
    {"cross_attn.k_proj", "cross_attn.key"},
    {"cross_attn.v_proj", "cross_attn.value"},
    {"cross_attn.out_proj", "cross_attn.out"},
    {"self_attention", "attn"},
    {"self_attn", "attn"},
    {"attention", "attn"},
    {"attn.q_proj", "attn.q"},
    {"attn.k_proj", "attn.k"},
    {"attn.v_proj", "attn.v"},
    {"attn.o_proj", "attn.o"},
    {"attn.out_proj", "attn.o"},
    {"attn.c_proj", "attn.o"},
    {"attn.proj", "attn.o"},
    {"attn.query", "attn.q"},
    {"attn.key", "attn.k"},
    {"attn.value", "attn.v"},
    {"attn.out", "attn.o"},
    {"attn.wq", "attn.q"},
    {"attn.wk", "attn.k"},
    {"attn.wv", "attn.v"},
    {"attn.wo", "attn.o"},
    {"attn.q_lin", "attn.q"},
    {"attn.k_lin", "attn.k"},
    {"attn.v_lin", "attn.v"},
    {"attn.out_lin", "attn.o"},
    {"attn_q", "attn.q"},
    {"attn_k", "attn.k"},
    {"attn_v", "attn.v"},
    {"attn_qkv", "attn.qkv"},
    {"attn_output", "attn.o"},
    {"attn.c_attn", "attn.qkv"},
    {"attn.in_proj", "attn.qkv"},
    {"attn.qkv_proj", "attn.qkv"},
    {"attn.wqkv", "attn.qkv"},
    // the layers after it
    {"mlp.c_fc", "mlp.up"},
    {"mlp.c_proj", "mlp.down"},
    {"mlp.fc1", "mlp.up"},
    {"mlp.fc2", "mlp.down"},
    {"mlp.linear_1", "mlp.up"},
    {"mlp.linear_2", "mlp.down"},
    {"mlp.0", "mlp.up"},
    {"mlp.2", "mlp.down"},
    {"mlp.3", "mlp.down"},
    {"intermediate.dense", "mlp.up"},
    {"output.dense", "mlp.down"},
    {"ffn.lin1", "mlp.up"},
    {"ffn.lin2", "mlp.down"},
    {"fc1", "mlp.up"},
    {"fc2", "mlp.down"},
    {"linear1", "mlp.up"},
    {"linear2", "mlp.down"},
    {"mlp.gate_proj", "mlp.gate"},
    {"mlp.up_proj", "mlp.up"},
    {"mlp.down_proj", "mlp.down"},
    {"mlp.gate_up_proj", "mlp.gate_up"},
    {"feed_forward.w1", "mlp.gate"},
    {"feed_forward.w3", "mlp.up"},
    {"feed_forward.w2", "mlp.down"},
    {"ffn_gate", "mlp.gate"},
    {"ffn_up", "mlp.up"},
    {"ffn_down", "mlp.down"},
    // norms of a layer
    {"input_layernorm", "norm1"},
    {"attention_norm", "norm1"},
    {"attn_norm", "norm1"},
    {"layernorm_before", "norm1"},
    {"layer_norm1", "norm1"},
    {"sa_layer_norm", "norm1"},
    {"ln_1", "norm1"},
    {"post_attention_layernorm", "norm2"},
    {"ffn_norm", "norm2"},
    {"layernorm_after", "norm2"},
    {"layer_norm2", "norm2"},
    {"output_layer_norm", "norm2"},
    {"output.layernorm", "norm2"},
    {"ln_2", "norm2"},
    // what stands before the layers
    {"embeddings.word_embeddings", "embed"},
    {"embeddings.token_embedding", "embed"},
    {"token_embedding", "embed"},
    {"tok_embeddings", "embed"},
    {"embed_tokens", "embed"},
    {"token_embd", "embed"},
    {"wte", "embed"},
    {"embeddings.position_embeddings", "position"},
    {"embeddings.position_embedding", "position"},
    {"positional_embedding", "position"},
    {"embed_positions", "position"},
    {"pos_embedding", "position"},
    {"pos_embed", "position"},
    {"wpe", "position"},
    {"embeddings.token_type_embeddings", "kind"},
    {"embeddings.layernorm", "embed_norm"},
    {"embeddings.patch_embeddings.projection", "patch"},
    {"embeddings.patch_embedding", "patch"},
    {"patch_embed.proj", "patch"},
    {"conv_proj", "patch"},
    {"visual.conv1", "visual.patch"},
    {"embeddings.cls_token", "cls"},
    {"embeddings.class_embedding", "cls"},
    {"class_embedding", "cls"},
    {"class_token", "cls"},
    {"cls_token", "cls"},
    // towers of models that see and read
    {"vision_model", "visual"},
    {"visual_projection", "visual.proj"},
    {"text_projection", "text_proj"},
    {"pre_layrnorm", "norm_before"},
    {"ln_pre", "norm_before"},
    {"post_layernorm", "final_norm"},
    {"ln_post", "final_norm"},
    {"ln_final", "final_norm"},
    {"final_layer_norm", "final_norm"},
    {"mlp_ln", "final_norm"},
    {"encoder.layer_norm", "final_norm"},
    {"decoder.layer_norm", "decoder.final_norm"},
    {"decoder.ln", "decoder.final_norm"},
    {"final_layernorm", "final_norm"},
    {"output_norm", "final_norm"},
    {"ln_f", "final_norm"},
    {"encoder.ln", "final_norm"},
    {"heads.head", "head"},
    {"lm_head", "head"},
    {"classifier.1", "head"},
};

// Parts that only wrap others. What two names have left must still tell them apart, else neither is mapped.
const std::set<std::string_view> kWrappers = {"module",     "_orig_mod",  "model",    "base_model", "transformer",
                                              "encoder",    "text_model", "bert",     "roberta",    "vit",
                                              "distilbert", "resnet",     "backbone", "net"};
const std::set<std::string_view> kLayers = {"layers", "layer", "h", "blocks", "block", "blk", "resblocks", "encoder_layer"};

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.' || c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return parts;
}

bool is_number(const std::string& part) { return !part.empty() && part.find_first_not_of("0123456789") == std::string::npos; }

// "h3" and "encoder_layer_3" are two parts, "in_proj_weight" too; ":0" of TensorFlow is none.
std::vector<std::string> split_further(const std::vector<std::string>& parts) {
  std::vector<std::string> out;
  for (std::string part : parts) {
    if (part.ends_with(":0")) part.erase(part.size() - 2);
    const size_t digits = part.find_last_not_of("0123456789") + 1;
    std::string stem = part.substr(0, digits);
    if (stem.ends_with('_')) stem.pop_back();
    if (digits < part.size() && (stem == "h" || stem == "encoder_layer" || (stem == "layer" && part[digits - 1] == '_'))) {
      out.push_back(stem);
      out.push_back(part.substr(digits));
    } else if (part == "in_proj_weight" || part == "in_proj_bias") {
      out.emplace_back("in_proj");
      out.push_back(part.substr(8));
    } else {
      out.push_back(part);
    }
  }
  return out;
}

std::string leaf_of(const std::string& leaf) {
  if (leaf == "gamma" || leaf == "w" || leaf == "g" || leaf == "kernel" || leaf == "scale") return "weight";
  if (leaf == "beta" || leaf == "b") return "bias";
  if (leaf == "moving_mean") return "running_mean";
  if (leaf == "moving_variance") return "running_var";
  return leaf;
}

void replace_phrases(std::string& text) {  // with a dot at both ends
  for (const Phrase& phrase : kPhrases) {
    const std::string from = "." + std::string(phrase.spelled) + ".";
    const std::string to = phrase.common.empty() ? "." : "." + std::string(phrase.common) + ".";
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string common_name(const std::string& name) {
  std::vector<std::string> parts = split_further(parts_of(name));
  parts.back() = leaf_of(parts.back());
  std::string text = ".";
  for (const std::string& part : parts) text += part + ".";
  replace_phrases(text);
  // The words that wrap, and one word for all lists of layers.
  std::vector<std::string> kept;
  parts = parts_of(text.substr(1, text.size() - 2));
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool counts = i + 1 < parts.size() && is_number(parts[i + 1]);
    if (kWrappers.contains(parts[i]) && i + 1 < parts.size()) continue;
    if (kLayers.contains(parts[i]) && (counts || parts[i] != "layer")) {
      if (!kept.empty() && kept.back() == "layer") continue;  // layers.encoder_layer_0
      kept.emplace_back("layer");
      continue;
    }
    kept.push_back(parts[i]);
  }
  // At the top, a norm is the last one, and a linear layer the head.
  if (kept.size() == 2 && (kept[0] == "norm" || kept[0] == "layernorm" || kept[0] == "ln")) kept[0] = "final_norm";
  if (kept.size() == 2 && (kept[0] == "output" || kept[0] == "classifier" || kept[0] == "fc")) kept[0] = "head";
  const bool is_table = kept.size() >= 2 && (kept[kept.size() - 2] == "embed" || kept[kept.size() - 2] == "position");
  if (is_table && kept.back() == "weight") kept.pop_back();  // a module here, a bare parameter there
  const bool is_projection = kept.size() >= 2 &&
                             (kept[kept.size() - 2] == "text_proj" ||
                              (kept.size() >= 3 && kept[kept.size() - 3] == "visual" && kept[kept.size() - 2] == "proj"));
  if (is_projection && kept.back() == "weight") kept.pop_back();
  std::string out;
  for (const std::string& part : kept) out += (out.empty() ? "" : ".") + part;
  return out;
}

bool has_rope_pairs(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return has("attention.wq.") || has("attention.wk.") || has(".attn_q.") || has(".attn_k.");
}

}  // namespace pycandle
