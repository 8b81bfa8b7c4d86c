// Two blocks of a GPT-2 with its embeddings and head; the head's weight is the embedding's.
#include <cmath>

#include "run.h"

using namespace pycandle;

struct Config {
  int64_t n_embd = 32, n_head = 4, n_layer = 2, n_positions = 64, vocab_size = 100;
  double layer_norm_epsilon = 1e-5;
};

struct Attention : nn::Module<Attention> {
  int64_t heads;
  double scale;
  nn::Linear c_attn, c_proj;

  Attention(const Config& c, const Weights& w)
      : Module(w),
        heads(c.n_head),
        scale(std::pow(c.n_embd / c.n_head, -0.5)),
        c_attn(c.n_embd, 3 * c.n_embd, {.weight_order = "in_out"}, w / "c_attn"),
        c_proj(c.n_embd, c.n_embd, {.weight_order = "in_out"}, w / "c_proj") {}

  Tensor forward(const Tensor& x) const {
    auto [query, key, value] = c_attn(x).chunk<3>(-1);
    query = functional::split_heads(query, heads);
    key = functional::split_heads(key, heads);
    value = functional::split_heads(value, heads);
    const Tensor attended = functional::scaled_dot_product_attention(query, key, value, {.is_causal = true, .scale = scale});
    return c_proj(functional::merge_heads(attended));
  }
};

struct Mlp : nn::Module<Mlp> {
  nn::Linear c_fc, c_proj;
  nn::GELU act;

  Mlp(const Config& c, const Weights& w)
      : Module(w),
        c_fc(c.n_embd, 4 * c.n_embd, {.weight_order = "in_out"}, w / "c_fc"),
        c_proj(4 * c.n_embd, c.n_embd, {.weight_order = "in_out"}, w / "c_proj"),
        act({.approximate = "tanh"}, w / "act") {}

  Tensor forward(const Tensor& x) const { return c_proj(act(c_fc(x))); }
};

struct Block : nn::Module<Block> {
  nn::LayerNorm ln_1, ln_2;
  Attention attn;
  Mlp mlp;

  Block(const Config& c, const Weights& w)
      : Module(w),
        ln_1(c.n_embd, c.layer_norm_epsilon, w / "ln_1"),
        ln_2(c.n_embd, c.layer_norm_epsilon, w / "ln_2"),
        attn(c, w / "attn"),
        mlp(c, w / "mlp") {}

  Tensor forward(Tensor x) const {
    x = attn(ln_1(x)) + x;
    return x + mlp(ln_2(x));
  }
};

struct Gpt : nn::Module<Gpt> {
  nn::Embedding wte, wpe;
  nn::ModuleList<Block> h;
  nn::LayerNorm ln_f;
  nn::Linear lm_head;

  Gpt(const Config& c, const Weights& w)
      : Module(w),
        wte(c.vocab_size, c.n_embd, w / "transformer.wte"),
        wpe(c.n_positions, c.n_embd, w / "transformer.wpe"),
        h(c.n_layer, w / "transformer.h", c),
        ln_f(c.n_embd, c.layer_norm_epsilon, w / "transformer.ln_f"),
        lm_head(c.n_embd, c.vocab_size, {.bias = false}, (w / "lm_head").tied("weight", "transformer.wte.weight")) {}

  struct Output {
    Tensor logits;
    template <class F> void each(F&& f) const { f("logits", logits); }
  };

  Output forward(const Tensor& input_ids) const {
    Tensor x = wte(input_ids) + wpe(arange(input_ids.dim(1)).unsqueeze(0));
    for (const Block& block : h) x = block(x);
    return {lm_head(ln_f(x))};
  }
};

int main(int count, char** arguments) {
  return run_example(count, arguments, {{"input_ids", DType::i64, {"batch", "sequence"}}},
                     [](const Weights& w) { return Gpt(Config(), w); });
}
