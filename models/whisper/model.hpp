// WhisperForConditionalGeneration, ported from PyTorch by pycandle codegen.
#pragma once

#include <cmath>

#include <pycandle/pycandle.h>

namespace whisper_for_conditional_generation {
using namespace pycandle;

struct Config {
  int64_t d_model = 384;
  int64_t encoder_attention_heads = 6;
  int64_t encoder_ffn_dim = 1536;
  int64_t decoder_attention_heads = 6;
  int64_t decoder_ffn_dim = 1536;
  int64_t num_mel_bins = 80;
  int64_t max_source_positions = 1500;
  int64_t encoder_layers = 4;
  int64_t vocab_size = 51865;
  int64_t decoder_layers = 4;
};

// WhisperPositionalEmbedding, transformers/models/whisper/modeling_whisper.py:205
struct WhisperPositionalEmbedding : nn::Module<WhisperPositionalEmbedding> {
  Tensor weight;

  explicit WhisperPositionalEmbedding(const Weights& w)
      : Module(w),
        weight(w.get("weight")) {}

  Tensor forward(const Tensor& position_ids) const {
    return functional::gather_nd(weight, {position_ids}, {0});
  }
};

// WhisperAttention, transformers/models/whisper/modeling_whisper.py:242 (12 instances)
struct WhisperAttention : nn::Module<WhisperAttention> {
  int64_t num_heads;
  bool is_causal;
  double scaling;
  nn::Linear q_proj, k_proj, v_proj, out_proj;

  WhisperAttention(const Config& c, int64_t num_heads, bool is_causal, const Weights& w)
      : Module(w),
        num_heads(num_heads),
        is_causal(is_causal),
        scaling(std::pow(c.d_model / num_heads, -0.5)),
        q_proj(c.d_model, c.d_model, w / "q_proj"),
        k_proj(c.d_model, c.d_model, {.bias = false}, w / "k_proj"),
        v_proj(c.d_model, c.d_model, w / "v_proj"),
        out_proj(c.d_model, c.d_model, w / "out_proj") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& key_value_states = {}) const {
    const Tensor current_states = key_value_states.defined() ? key_value_states : hidden_states;
    const Tensor query_states = functional::split_heads(q_proj(hidden_states) * scaling, num_heads);
    const Tensor key_states = functional::split_heads(k_proj(current_states), num_heads);
    const Tensor value_states = functional::split_heads(v_proj(current_states), num_heads);
    const Tensor attn_output = functional::scaled_dot_product_attention(query_states, key_states,
        value_states, {.is_causal = is_causal, .scale = 1.0});
    return out_proj(functional::merge_heads(attn_output));
  }
};

// WhisperEncoderLayer, transformers/models/whisper/modeling_whisper.py:362 (4 instances)
struct WhisperEncoderLayer : nn::Module<WhisperEncoderLayer> {
  nn::LayerNorm self_attn_layer_norm, final_layer_norm;
  WhisperAttention self_attn;
  nn::Linear fc1, fc2;
  nn::GELU activation_fn;

  WhisperEncoderLayer(const Config& c, const Weights& w)
      : Module(w),
        self_attn_layer_norm(c.d_model, w / "self_attn_layer_norm"),
        final_layer_norm(c.d_model, w / "final_layer_norm"),
        self_attn(c, c.encoder_attention_heads, false, w / "self_attn"),
        fc1(c.d_model, c.encoder_ffn_dim, w / "fc1"),
        fc2(c.encoder_ffn_dim, c.d_model, w / "fc2"),
        activation_fn(w / "activation_fn") {}

  Tensor forward(Tensor hidden_states) const {
    hidden_states = hidden_states + self_attn(self_attn_layer_norm(hidden_states));
    return hidden_states + fc2(activation_fn(fc1(final_layer_norm(hidden_states))));
  }
};

// WhisperDecoderLayer, transformers/models/whisper/modeling_whisper.py:418 (4 instances)
struct WhisperDecoderLayer : nn::Module<WhisperDecoderLayer> {
  nn::LayerNorm self_attn_layer_norm, encoder_attn_layer_norm, final_layer_norm;
  WhisperAttention self_attn, encoder_attn;
  nn::Linear fc1, fc2;
  nn::GELU activation_fn;

  WhisperDecoderLayer(const Config& c, const Weights& w)
      : Module(w),
        self_attn_layer_norm(c.d_model, w / "self_attn_layer_norm"),
        encoder_attn_layer_norm(c.d_model, w / "encoder_attn_layer_norm"),
        final_layer_norm(c.d_model, w / "final_layer_norm"),
        self_attn(c, c.decoder_attention_heads, true, w / "self_attn"),
        encoder_attn(c, c.decoder_attention_heads, false, w / "encoder_attn"),
        fc1(c.d_model, c.decoder_ffn_dim, w / "fc1"),
        fc2(c.decoder_ffn_dim, c.d_model, w / "fc2"),
        activation_fn(w / "activation_fn") {}

  Tensor forward(Tensor hidden_states, const Tensor& encoder_hidden_states) const {
    hidden_states = hidden_states + self_attn(self_attn_layer_norm(hidden_states));
    hidden_states = hidden_states +
        encoder_attn(encoder_attn_layer_norm(hidden_states), encoder_hidden_states);
    return hidden_states + fc2(activation_fn(fc1(final_layer_norm(hidden_states))));
  }
};

// WhisperEncoder, transformers/models/whisper/modeling_whisper.py:542
struct WhisperEncoder : nn::Module<WhisperEncoder> {
  nn::Conv1d conv1, conv2;
  nn::Embedding embed_positions;
  nn::ModuleList<WhisperEncoderLayer> layers;
  nn::LayerNorm layer_norm;

  WhisperEncoder(const Config& c, const Weights& w)
      : Module(w),
        conv1(c.num_mel_bins, c.d_model, 3, {.padding = 1}, w / "conv1"),
        conv2(c.d_model, c.d_model, 3, {.stride = 2, .padding = 1}, w / "conv2"),
        embed_positions(c.max_source_positions, c.d_model, w / "embed_positions"),
        layers(c.encoder_layers, w / "layers", c),
        layer_norm(c.d_model, w / "layer_norm") {}

  Tensor forward(const Tensor& input_features) const {
    Tensor inputs_embeds = functional::gelu(conv2(functional::gelu(conv1(input_features))));
    inputs_embeds = inputs_embeds.transpose(1, 2);
    const Tensor all_positions = arange(1500);
    Tensor hidden_states = inputs_embeds + embed_positions(all_positions);
    for (const WhisperEncoderLayer& layer : layers) hidden_states = layer(hidden_states);
    return layer_norm(hidden_states);
  }
};

// WhisperDecoder, transformers/models/whisper/modeling_whisper.py:646
struct WhisperDecoder : nn::Module<WhisperDecoder> {
  nn::Embedding embed_tokens;
  WhisperPositionalEmbedding embed_positions;
  nn::ModuleList<WhisperDecoderLayer> layers;
  nn::LayerNorm layer_norm;

  WhisperDecoder(const Config& c, const Weights& w)
      : Module(w),
        embed_tokens(c.vocab_size, c.d_model, w / "embed_tokens"),
        embed_positions(w / "embed_positions"),
        layers(c.decoder_layers, w / "layers", c),
        layer_norm(c.d_model, w / "layer_norm") {}

  Tensor forward(const Tensor& input_ids, const Tensor& encoder_hidden_states) const {
    const Tensor inputs_embeds = embed_tokens(input_ids);
    const Tensor position_ids = functional::repeat(arange(input_ids.dim(1)).unsqueeze(0),
        {input_ids.dim(0), 1});
    const Tensor positions = embed_positions(position_ids);
    Tensor hidden_states = inputs_embeds + positions;
    for (const WhisperDecoderLayer& layer : layers) {
      hidden_states = layer(hidden_states, encoder_hidden_states);
    }
    return layer_norm(hidden_states);
  }
};

// WhisperModel, transformers/models/whisper/modeling_whisper.py:825
struct WhisperModel : nn::Module<WhisperModel> {
  WhisperEncoder encoder;
  WhisperDecoder decoder;

  WhisperModel(const Config& c, const Weights& w)
      : Module(w),
        encoder(c, w / "encoder"),
        decoder(c, w / "decoder") {}

  struct Output {
    Tensor last_hidden_state, encoder_last_hidden_state;
    template <class F>
    void each(F&& f) const {
      f("last_hidden_state", last_hidden_state);
      f("encoder_last_hidden_state", encoder_last_hidden_state);
    }
  };

  Output forward(const Tensor& input_features, const Tensor& decoder_input_ids) const {
    const Tensor encoder_outputs = encoder(input_features);
    return {decoder(decoder_input_ids, encoder_outputs), encoder_outputs};
  }
};

// WhisperForConditionalGeneration, transformers/models/whisper/modeling_whisper.py:985
struct WhisperForConditionalGeneration : nn::Module<WhisperForConditionalGeneration> {
  WhisperModel model;
  nn::Linear proj_out;

  explicit WhisperForConditionalGeneration(const Weights& w, const Checker& checker = {},
      const Config& c = {})
      : Module(w, checker),
        model(c, w / "model"),
        proj_out(c.d_model, c.vocab_size, {.bias = false},
            (w / "proj_out").tied("weight", "model.decoder.embed_tokens.weight")) {}

  struct Output {
    Tensor logits, encoder_last_hidden_state;
    template <class F>
    void each(F&& f) const {
      f("logits", logits);
      f("encoder_last_hidden_state", encoder_last_hidden_state);
    }
  };

  Output forward(const Tensor& input_features, const Tensor& decoder_input_ids) const {
    auto [model_output, normed] = model(input_features, decoder_input_ids);
    return {proj_out(model_output), normed};
  }
};

}  // namespace whisper_for_conditional_generation
