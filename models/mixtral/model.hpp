// MixtralForCausalLM, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace mixtral_for_causal_lm {
using namespace pycandle;

struct Config {
  int64_t hidden_size = 4096;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 8;
  int64_t vocab_size = 32000;
  int64_t num_hidden_layers = 32;
  double rms_norm_eps = 1e-05;
};

// MixtralRotaryEmbedding, transformers/models/mixtral/modeling_mixtral.py:153
struct MixtralRotaryEmbedding : nn::Module<MixtralRotaryEmbedding> {
  Tensor inv_freq;

  explicit MixtralRotaryEmbedding(const Weights& w)
      : Module(w),
        inv_freq(w.get("inv_freq")) {}

  std::tuple<Tensor, Tensor> forward(const Tensor& position_ids) const {
    const Tensor freqs = position_ids.unsqueeze(2) * inv_freq;
    const Tensor emb = cat({freqs, freqs}, 2);
    return {functional::cos(emb), functional::sin(emb)};
  }
};

// MixtralAttention, transformers/models/mixtral/modeling_mixtral.py:270 (32 instances)
struct MixtralAttention : nn::Module<MixtralAttention> {
  int64_t num_attention_heads, num_key_value_heads;
  nn::Linear q_proj, k_proj, v_proj, o_proj;

  MixtralAttention(const Config& c, const Weights& w)
      : Module(w),
        num_attention_heads(c.num_attention_heads),
        num_key_value_heads(c.num_key_value_heads),
        q_proj(c.hidden_size, c.hidden_size, {.bias = false}, w / "q_proj"),
        k_proj(c.hidden_size, 1024, {.bias = false}, w / "k_proj"),
        v_proj(c.hidden_size, 1024, {.bias = false}, w / "v_proj"),
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

// MixtralTopKRouter, transformers/models/mixtral/modeling_mixtral.py:95 (32 instances)
struct MixtralTopKRouter : nn::Module<MixtralTopKRouter> {
  Tensor weight;

  explicit MixtralTopKRouter(const Weights& w)
      : Module(w),
        weight(w.get("weight")) {}

  struct Output {
    Tensor router_top_value, router_indices;
    template <class F>
    void each(F&& f) const {
      f("1", router_top_value);
      f("2", router_indices);
    }
  };

  Output forward(const Tensor& hidden_states) const {
    const Tensor router_logits = functional::linear(hidden_states, weight);
    const Tensor router_probs = functional::softmax(router_logits, -1);
    auto [router_top_value, router_indices] = unpack<2>(functional::topk(router_probs, 2, 1));
    return {router_top_value / router_top_value.sum({1}).unsqueeze(1), router_indices};
  }
};

// MixtralExperts, transformers/models/mixtral/modeling_mixtral.py:55 (32 instances)
struct MixtralExperts : nn::Module<MixtralExperts> {
  Tensor gate_up_proj, down_proj;
  nn::SiLU act_fn;

  explicit MixtralExperts(const Weights& w)
      : Module(w),
        gate_up_proj(w.get("gate_up_proj")),
        down_proj(w.get("down_proj")),
        act_fn(w / "act_fn") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& top_k_index,
      const Tensor& top_k_weights) const {
    const Tensor expert_ids = top_k_index.flatten();
    auto [expert_ids_g, perm] = unpack<2>(functional::sort(expert_ids, 0));
    const Tensor selected_hidden_states_g = functional::gather_nd(hidden_states,
        {functional::floor_divide(perm, 2)}, {0});
    const Tensor sample_weights = top_k_weights.flatten();
    const Tensor sample_weights_g = functional::gather_nd(sample_weights, {perm}, {0});
    const Tensor histc_input = expert_ids_g.to(DType::i32);
    const Tensor tokens_per_expert = functional::histc(histc_input, 8, 0.0, 7.0);
    const Tensor offsets = functional::cumsum(tokens_per_expert, 0);
    Tensor out = functional::grouped_matmul(selected_hidden_states_g, gate_up_proj.transpose(1, 2),
        offsets);
    auto [gate, up] = out.chunk<2>(1);
    const Tensor proj_out = act_fn(gate) * up;
    out = functional::grouped_matmul(proj_out, down_proj.transpose(1, 2), offsets);
    const Tensor inv_perm = functional::scatter_nd(full({expert_ids.dim(0)}, 0, DType::i64),
        arange(expert_ids.dim(0)), {perm}, {0});
    const Tensor weighted_out = functional::gather_nd(out * sample_weights_g.unsqueeze(1),
        {inv_perm}, {0});
    return weighted_out.reshape({hidden_states.dim(0), 2, 4096}).sum({1});
  }
};

// MixtralSparseMoeBlock, transformers/models/mixtral/modeling_mixtral.py:113 (32 instances)
struct MixtralSparseMoeBlock : nn::Module<MixtralSparseMoeBlock> {
  MixtralTopKRouter gate;
  MixtralExperts experts;

  explicit MixtralSparseMoeBlock(const Weights& w)
      : Module(w),
        gate(w / "gate"),
        experts(w / "experts") {}

  Tensor forward(const Tensor& hidden_states) const {
    const Tensor reshaped = hidden_states.flatten(0, 1);
    auto [top_k_weights, top_k_index] = gate(reshaped);
    return experts(reshaped, top_k_index, top_k_weights)
        .reshape({hidden_states.dim(0), hidden_states.dim(1), 4096});
  }
};

// MixtralDecoderLayer, transformers/models/mixtral/modeling_mixtral.py:330 (32 instances)
struct MixtralDecoderLayer : nn::Module<MixtralDecoderLayer> {
  nn::RMSNorm input_layernorm, post_attention_layernorm;
  MixtralAttention self_attn;
  MixtralSparseMoeBlock mlp;

  MixtralDecoderLayer(const Config& c, const Weights& w)
      : Module(w),
        input_layernorm(c.hidden_size, {.eps = c.rms_norm_eps}, w / "input_layernorm"),
        post_attention_layernorm(c.hidden_size, {.eps = c.rms_norm_eps},
            w / "post_attention_layernorm"),
        self_attn(c, w / "self_attn"),
        mlp(w / "mlp") {}

  Tensor forward(Tensor hidden_states, const Tensor& cos, const Tensor& sin) const {
    hidden_states = hidden_states + self_attn(input_layernorm(hidden_states), cos, sin);
    return hidden_states + mlp(post_attention_layernorm(hidden_states));
  }
};

// MixtralModel, transformers/models/mixtral/modeling_mixtral.py:398
struct MixtralModel : nn::Module<MixtralModel> {
  nn::Embedding embed_tokens;
  MixtralRotaryEmbedding rotary_emb;
  nn::ModuleList<MixtralDecoderLayer> layers;
  nn::RMSNorm norm;

  MixtralModel(const Config& c, const Weights& w)
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
    for (const MixtralDecoderLayer& layer : layers) hidden_states = layer(hidden_states, cos, sin);
    return norm(hidden_states);
  }
};

// MixtralForCausalLM, transformers/models/mixtral/modeling_mixtral.py:543
struct MixtralForCausalLM : nn::Module<MixtralForCausalLM> {
  MixtralModel model;
  nn::Linear lm_head;

  explicit MixtralForCausalLM(const Weights& w, const Checker& checker = {}, const Config& c = {})
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

}  // namespace mixtral_for_causal_lm
