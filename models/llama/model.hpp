// LlamaForCausalLM, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace llama_for_causal_lm {
using namespace pycandle;

struct Config {
  int64_t hidden_size = 4096;
  int64_t num_key_value_heads = 8;
  int64_t head_dim = 128;
  int64_t num_attention_heads = 32;
  int64_t intermediate_size = 14336;
  int64_t vocab_size = 128256;
  int64_t num_hidden_layers = 32;
  double rms_norm_eps = 1e-05;
};

// LlamaRotaryEmbedding, transformers/models/llama/modeling_llama.py:72
struct LlamaRotaryEmbedding : nn::Module<LlamaRotaryEmbedding> {
  Tensor inv_freq;

  explicit LlamaRotaryEmbedding(const Weights& w)
      : Module(w),
        inv_freq(w.get("inv_freq")) {}

  std::tuple<Tensor, Tensor> forward(const Tensor& position_ids) const {
    const Tensor freqs = position_ids.unsqueeze(2) * inv_freq;
    const Tensor emb = cat({freqs, freqs}, 2);
    return {functional::cos(emb), functional::sin(emb)};
  }
};

// LlamaAttention, transformers/models/llama/modeling_llama.py:205 (32 instances)
struct LlamaAttention : nn::Module<LlamaAttention> {
  int64_t num_attention_heads, num_key_value_heads;
  nn::Linear q_proj, k_proj, v_proj, o_proj;

  LlamaAttention(const Config& c, const Weights& w)
      : Module(w),
        num_attention_heads(c.num_attention_heads),
        num_key_value_heads(c.num_key_value_heads),
        q_proj(c.hidden_size, c.hidden_size, {.bias = false}, w / "q_proj"),
        k_proj(c.hidden_size, c.num_key_value_heads * c.head_dim, {.bias = false}, w / "k_proj"),
        v_proj(c.hidden_size, c.num_key_value_heads * c.head_dim, {.bias = false}, w / "v_proj"),
        o_proj(c.hidden_size, c.hidden_size, {.bias = false}, w / "o_proj") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& cos, const Tensor& sin) const {
    const Tensor query_states = functional::split_heads(q_proj(hidden_states), num_attention_heads);
    const Tensor key_states = functional::split_heads(k_proj(hidden_states), num_key_value_heads);
    const Tensor value_states = functional::split_heads(v_proj(hidden_states), num_key_value_heads);
    const Tensor q_embed = functional::rotary_embedding(query_states, cos, sin,
        {.unsqueeze_dim = 1});
    const Tensor k_embed = functional::rotary_embedding(key_states, cos, sin, {.unsqueeze_dim = 1});
    const Tensor attn_output = functional::scaled_dot_product_attention(q_embed, k_embed,
        value_states, {.is_causal = true, .enable_gqa = true});
    return o_proj(functional::merge_heads(attn_output));
  }
};

// LlamaMLP, transformers/models/llama/modeling_llama.py:152 (32 instances)
struct LlamaMLP : nn::Module<LlamaMLP> {
  nn::Linear gate_proj, up_proj, down_proj;
  nn::SiLU act_fn;

  LlamaMLP(const Config& c, const Weights& w)
      : Module(w),
        gate_proj(c.hidden_size, c.intermediate_size, {.bias = false}, w / "gate_proj"),
        up_proj(c.hidden_size, c.intermediate_size, {.bias = false}, w / "up_proj"),
        down_proj(c.intermediate_size, c.hidden_size, {.bias = false}, w / "down_proj"),
        act_fn(w / "act_fn") {}

  Tensor forward(const Tensor& x) const {
    return down_proj(act_fn(gate_proj(x)) * up_proj(x));
  }
};

// LlamaDecoderLayer, transformers/models/llama/modeling_llama.py:273 (32 instances)
struct LlamaDecoderLayer : nn::Module<LlamaDecoderLayer> {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  LlamaAttention self_attn;
  LlamaMLP mlp;

  LlamaDecoderLayer(const Config& c, const Weights& w)
      : Module(w),
        input_layernorm(c.hidden_size, {.eps = c.rms_norm_eps}, w / "input_layernorm"),
        post_attention_layernorm(c.hidden_size, {.eps = c.rms_norm_eps},
            w / "post_attention_layernorm"),
        self_attn(c, w / "self_attn"),
        mlp(c, w / "mlp") {}

  Tensor forward(Tensor hidden_states, const Tensor& cos, const Tensor& sin) const {
    hidden_states = hidden_states + self_attn(input_layernorm(hidden_states), cos, sin);
    return hidden_states + mlp(post_attention_layernorm(hidden_states));
  }
};

// LlamaModel, transformers/models/llama/modeling_llama.py:335
struct LlamaModel : nn::Module<LlamaModel> {
  nn::Embedding embed_tokens;
  LlamaRotaryEmbedding rotary_emb;
  nn::ModuleList<LlamaDecoderLayer> layers;
  nn::RMSNorm norm;

  LlamaModel(const Config& c, const Weights& w)
      : Module(w),
        embed_tokens(c.vocab_size, c.hidden_size, w / "embed_tokens"),
        rotary_emb(w / "rotary_emb"),
        layers(c.num_hidden_layers, w / "layers", c),
        norm(c.hidden_size, {.eps = c.rms_norm_eps}, w / "norm") {}

  Tensor forward(const Tensor& input_ids) const {
    const Tensor inputs_embeds = embed_tokens(input_ids);
    const Tensor position_ids = arange(input_ids.dim(1)).unsqueeze(0);
    auto [cos, sin] = rotary_emb(position_ids);
    Tensor hidden_states = inputs_embeds;
    for (const LlamaDecoderLayer& layer : layers) hidden_states = layer(hidden_states, cos, sin);
    return norm(hidden_states);
  }
};

// LlamaForCausalLM, transformers/models/llama/modeling_llama.py:409
struct LlamaForCausalLM : nn::Module<LlamaForCausalLM> {
  LlamaModel model;
  nn::Linear lm_head;

  explicit LlamaForCausalLM(const Weights& w, const Checker& checker = {}, const Config& c = {})
      : Module(w, checker),
        model(c, w / "model"),
        lm_head(c.hidden_size, c.vocab_size, {.bias = false}, w / "lm_head") {}

  struct Output {
    Tensor logits;
    template <class F>
    void each(F&& f) const {
      f("logits", logits);
    }
  };

  Output forward(const Tensor& input_ids) const {
    const Tensor outputs = model(input_ids);
    return {lm_head(outputs)};
  }
};

}  // namespace llama_for_causal_lm
