// GPT2LMHeadModel, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace gpt2_lm_head_model {
using namespace pycandle;

struct Config {
  int64_t n_embd = 768;
  int64_t n_head = 12;
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_layer = 12;
  double layer_norm_epsilon = 1e-05;
};

// What GPT2Attention keeps of every token.
struct GPT2AttentionCache {
  Tensor lengths;
  CacheRows key{lengths, "key"}, value{lengths, "value"};
};

// What GPT2LMHeadModel keeps of the tokens that it has seen.
struct Cache {
  Tensor lengths;  // tokens of each sequence, i64 [batch]
  CacheList<GPT2AttentionCache> h{lengths};
};

// GPT2Attention, transformers/models/gpt2/modeling_gpt2.py:75 (12 instances)
struct GPT2Attention : nn::Module<GPT2Attention> {
  int64_t num_heads;
  nn::Linear c_attn, c_proj;

  GPT2Attention(const Config& c, const Weights& w)
      : Module(w),
        num_heads(c.n_head),
        c_attn(c.n_embd, 3 * c.n_embd, {.weight_order = "in_out"}, w / "c_attn"),
        c_proj(c.n_embd, c.n_embd, {.weight_order = "in_out"}, w / "c_proj") {}

  Tensor forward(const Tensor& hidden_states, GPT2AttentionCache& cache) const {
    auto [query_states, key_states, value_states] = c_attn(hidden_states).chunk<3>(2);
    key_states = cache.key.append(functional::split_heads(key_states, num_heads));
    value_states = cache.value.append(functional::split_heads(value_states, num_heads));
    query_states = functional::split_heads(query_states, num_heads);
    const Tensor attn_output = functional::cached_attention(query_states, key_states, value_states,
        cache.lengths);
    return c_proj(functional::merge_heads(attn_output));
  }
};

// GPT2MLP, transformers/models/gpt2/modeling_gpt2.py:229 (12 instances)
struct GPT2MLP : nn::Module<GPT2MLP> {
  nn::Linear c_fc, c_proj;
  nn::GELU act;

  GPT2MLP(const Config& c, const Weights& w)
      : Module(w),
        c_fc(c.n_embd, 4 * c.n_embd, {.weight_order = "in_out"}, w / "c_fc"),
        c_proj(4 * c.n_embd, c.n_embd, {.weight_order = "in_out"}, w / "c_proj"),
        act({.approximate = "tanh"}, w / "act") {}

  Tensor forward(const Tensor& hidden_states) const {
    return c_proj(act(c_fc(hidden_states)));
  }
};

// GPT2Block, transformers/models/gpt2/modeling_gpt2.py:246 (12 instances)
struct GPT2Block : nn::Module<GPT2Block> {
  nn::LayerNorm ln_1, ln_2;
  GPT2Attention attn;
  GPT2MLP mlp;

  GPT2Block(const Config& c, const Weights& w)
      : Module(w),
        ln_1(c.n_embd, {.eps = c.layer_norm_epsilon}, w / "ln_1"),
        ln_2(c.n_embd, {.eps = c.layer_norm_epsilon}, w / "ln_2"),
        attn(c, w / "attn"),
        mlp(c, w / "mlp") {}

  Tensor forward(Tensor hidden_states, GPT2AttentionCache& cache) const {
    const Tensor attn_output = attn(ln_1(hidden_states), cache);
    hidden_states = attn_output + hidden_states;
    const Tensor feed_forward_hidden_states = mlp(ln_2(hidden_states));
    return hidden_states + feed_forward_hidden_states;
  }
};

// GPT2Model, transformers/models/gpt2/modeling_gpt2.py:485
struct GPT2Model : nn::Module<GPT2Model> {
  nn::Embedding wte, wpe;
  nn::ModuleList<GPT2Block> h;
  nn::LayerNorm ln_f;

  GPT2Model(const Config& c, const Weights& w)
      : Module(w),
        wte(c.vocab_size, c.n_embd, w / "wte"),
        wpe(c.n_positions, c.n_embd, w / "wpe"),
        h(c.n_layer, w / "h", c),
        ln_f(c.n_embd, {.eps = c.layer_norm_epsilon}, w / "ln_f") {}

  Tensor forward(const Tensor& input_ids, Cache& cache) const {
    const Tensor inputs_embeds = wte(input_ids);
    const Tensor position_ids = cache.lengths.unsqueeze(1) + arange(input_ids.dim(1)).unsqueeze(0);
    const Tensor position_embeds = wpe(position_ids);
    Tensor hidden_states = inputs_embeds + position_embeds;
    for (int64_t i = 0; i < static_cast<int64_t>(h.size()); ++i) {
      hidden_states = h[i](hidden_states, cache.h[i]);
    }
    return ln_f(hidden_states);
  }
};

// GPT2LMHeadModel, transformers/models/gpt2/modeling_gpt2.py:630
struct GPT2LMHeadModel : nn::Module<GPT2LMHeadModel> {
  GPT2Model transformer;
  nn::Linear lm_head;

  explicit GPT2LMHeadModel(const Weights& w, const Checker& checker = {}, const Config& c = {})
      : Module(w, checker),
        transformer(c, w / "transformer"),
        lm_head(c.n_embd, c.vocab_size, {.bias = false},
            (w / "lm_head").tied("weight", "transformer.wte.weight")) {}

  struct Output {
    Tensor logits;
    template <class F>
    void each(F&& f) const {
      f("logits", logits);
    }
  };

  Output forward(const Tensor& input_ids, Cache& cache) const {
    const Tensor transformer_outputs = transformer(input_ids, cache);
    return {lm_head(transformer_outputs)};
  }
};

}  // namespace gpt2_lm_head_model
