// GPT2LMHeadModel, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace gpt2_lm_head_model {
using namespace pycandle;

// GPT2Attention, transformers/models/gpt2/modeling_gpt2.py:75 (12 instances)
struct GPT2Attention : nn::Module<GPT2Attention> {
  nn::Linear c_attn, c_proj;

  explicit GPT2Attention(const Weights& w)
      : Module(w),
        c_attn(768, 2304, {.weight_order = "in_out"}, w / "c_attn"),
        c_proj(768, 768, {.weight_order = "in_out"}, w / "c_proj") {}

  Tensor forward(const Tensor& hidden_states) const {
    auto [query_states, key_states, value_states] = c_attn(hidden_states).chunk<3>(2);
    key_states = functional::split_heads(key_states, 12);
    value_states = functional::split_heads(value_states, 12);
    query_states = functional::split_heads(query_states, 12);
    const Tensor attn_output = functional::scaled_dot_product_attention(query_states, key_states,
        value_states, {.is_causal = true, .scale = 0.125});
    return c_proj(functional::merge_heads(attn_output));
  }
};

// GPT2MLP, transformers/models/gpt2/modeling_gpt2.py:229 (12 instances)
struct GPT2MLP : nn::Module<GPT2MLP> {
  nn::Linear c_fc, c_proj;
  nn::GELU act;

  explicit GPT2MLP(const Weights& w)
      : Module(w),
        c_fc(768, 3072, {.weight_order = "in_out"}, w / "c_fc"),
        c_proj(3072, 768, {.weight_order = "in_out"}, w / "c_proj"),
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

  explicit GPT2Block(const Weights& w)
      : Module(w),
        ln_1(768, w / "ln_1"),
        ln_2(768, w / "ln_2"),
        attn(w / "attn"),
        mlp(w / "mlp") {}

  Tensor forward(Tensor hidden_states) const {
    const Tensor attn_output = attn(ln_1(hidden_states));
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

  explicit GPT2Model(const Weights& w)
      : Module(w),
        wte(50257, 768, w / "wte"),
        wpe(1024, 768, w / "wpe"),
        h(12, w / "h"),
        ln_f(768, w / "ln_f") {}

  Tensor forward(const Tensor& input_ids) const {
    const Tensor inputs_embeds = wte(input_ids);
    const Tensor position_ids = arange(input_ids.dim(1)).unsqueeze(0);
    const Tensor position_embeds = wpe(position_ids);
    Tensor hidden_states = inputs_embeds + position_embeds;
    for (const GPT2Block& block : h) hidden_states = block(hidden_states);
    return ln_f(hidden_states);
  }
};

// GPT2LMHeadModel, transformers/models/gpt2/modeling_gpt2.py:630
struct GPT2LMHeadModel : nn::Module<GPT2LMHeadModel> {
  GPT2Model transformer;
  nn::Linear lm_head;

  explicit GPT2LMHeadModel(const Weights& w, const Checker& checker = {})
      : Module(w, checker),
        transformer(w / "transformer"),
        lm_head(768, 50257, {.bias = false}, (w / "lm_head").tied("weight", "transformer.wte.weight")) {}

  struct Output {
    Tensor logits;
    template <class F>
    void each(F&& f) const {
      f("logits", logits);
    }
  };

  Output forward(const Tensor& input_ids) const {
    const Tensor transformer_outputs = transformer(input_ids);
    return {lm_head(transformer_outputs)};
  }
};

}  // namespace gpt2_lm_head_model
