// SentenceEncoder, ported from PyTorch by pycandle codegen.
#pragma once

#include <pycandle/pycandle.h>

namespace sentence_encoder {
using namespace pycandle;

struct Config {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 384;
  int64_t type_vocab_size = 2;
  int64_t max_position_embeddings = 512;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 1536;
  int64_t num_hidden_layers = 6;
  double layer_norm_eps = 1e-12;
};

// BertEmbeddings, transformers/models/bert/modeling_bert.py:53
struct BertEmbeddings : nn::Module<BertEmbeddings> {
  Tensor position_ids_stored, token_type_ids_stored;
  nn::Embedding word_embeddings, token_type_embeddings, position_embeddings;
  nn::LayerNorm LayerNorm;

  BertEmbeddings(const Config& c, const Weights& w)
      : Module(w),
        position_ids_stored(w.get("position_ids")),
        token_type_ids_stored(w.get("token_type_ids")),
        word_embeddings(c.vocab_size, c.hidden_size, w / "word_embeddings"),
        token_type_embeddings(c.type_vocab_size, c.hidden_size, w / "token_type_embeddings"),
        position_embeddings(c.max_position_embeddings, c.hidden_size, w / "position_embeddings"),
        LayerNorm(c.hidden_size, {.eps = c.layer_norm_eps}, w / "LayerNorm") {}

  Tensor forward(const Tensor& input_ids) const {
    const Tensor position_ids = position_ids_stored.slice(1, 0, input_ids.dim(1));
    const Tensor buffered_token_type_ids = functional::gather(token_type_ids_stored, position_ids,
        1);
    const Tensor token_type_ids = buffered_token_type_ids.expand({input_ids.dim(0), -1});
    const Tensor inputs_embeds = word_embeddings(input_ids);
    const Tensor embeddings = inputs_embeds + token_type_embeddings(token_type_ids) +
        position_embeddings(position_ids);
    return LayerNorm(embeddings);
  }
};

// BertSelfAttention, transformers/models/bert/modeling_bert.py:139 (6 instances)
struct BertSelfAttention : nn::Module<BertSelfAttention> {
  int64_t num_attention_heads;
  nn::Linear query, key, value;

  BertSelfAttention(const Config& c, const Weights& w)
      : Module(w),
        num_attention_heads(c.num_attention_heads),
        query(c.hidden_size, c.hidden_size, w / "query"),
        key(c.hidden_size, c.hidden_size, w / "key"),
        value(c.hidden_size, c.hidden_size, w / "value") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& attention_mask) const {
    const Tensor query_layer = functional::split_heads(query(hidden_states), num_attention_heads);
    const Tensor key_layer = functional::split_heads(key(hidden_states), num_attention_heads);
    const Tensor value_layer = functional::split_heads(value(hidden_states), num_attention_heads);
    const Tensor attn_output = functional::scaled_dot_product_attention(query_layer, key_layer,
        value_layer, {.key_mask = attention_mask});
    return functional::merge_heads(attn_output);
  }
};

// BertSelfOutput, transformers/models/bert/modeling_bert.py:282 (6 instances)
struct BertSelfOutput : nn::Module<BertSelfOutput> {
  nn::Linear dense;
  nn::LayerNorm LayerNorm;

  BertSelfOutput(const Config& c, const Weights& w)
      : Module(w),
        dense(c.hidden_size, c.hidden_size, w / "dense"),
        LayerNorm(c.hidden_size, {.eps = c.layer_norm_eps}, w / "LayerNorm") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& input_tensor) const {
    return LayerNorm(dense(hidden_states) + input_tensor);
  }
};

// BertIntermediate, transformers/models/bert/modeling_bert.py:325 (6 instances)
struct BertIntermediate : nn::Module<BertIntermediate> {
  nn::Linear dense;
  nn::GELU intermediate_act_fn;

  BertIntermediate(const Config& c, const Weights& w)
      : Module(w),
        dense(c.hidden_size, c.intermediate_size, w / "dense"),
        intermediate_act_fn(w / "intermediate_act_fn") {}

  Tensor forward(const Tensor& hidden_states) const {
    return intermediate_act_fn(dense(hidden_states));
  }
};

// BertOutput, transformers/models/bert/modeling_bert.py:340 (6 instances)
struct BertOutput : nn::Module<BertOutput> {
  nn::Linear dense;
  nn::LayerNorm LayerNorm;

  BertOutput(const Config& c, const Weights& w)
      : Module(w),
        dense(c.intermediate_size, c.hidden_size, w / "dense"),
        LayerNorm(c.hidden_size, {.eps = c.layer_norm_eps}, w / "LayerNorm") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& input_tensor) const {
    return LayerNorm(dense(hidden_states) + input_tensor);
  }
};

// BertAttention, transformers/models/bert/modeling_bert.py:296 (6 instances)
struct BertAttention : nn::Module<BertAttention> {
  BertSelfAttention self;
  BertSelfOutput output;

  BertAttention(const Config& c, const Weights& w)
      : Module(w),
        self(c, w / "self"),
        output(c, w / "output") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& attention_mask) const {
    return output(self(hidden_states, attention_mask), hidden_states);
  }
};

// BertLayer, transformers/models/bert/modeling_bert.py:354 (6 instances)
struct BertLayer : nn::Module<BertLayer> {
  BertAttention attention;
  BertIntermediate intermediate;
  BertOutput output;

  BertLayer(const Config& c, const Weights& w)
      : Module(w),
        attention(c, w / "attention"),
        intermediate(c, w / "intermediate"),
        output(c, w / "output") {}

  Tensor forward(const Tensor& hidden_states, const Tensor& attention_mask) const {
    const Tensor self_attention_output = attention(hidden_states, attention_mask);
    const Tensor intermediate_output = intermediate(self_attention_output);
    return output(intermediate_output, self_attention_output);
  }
};

// BertEncoder, transformers/models/bert/modeling_bert.py:419
struct BertEncoder : nn::Module<BertEncoder> {
  nn::ModuleList<BertLayer> layer;

  BertEncoder(const Config& c, const Weights& w)
      : Module(w),
        layer(c.num_hidden_layers, w / "layer", c) {}

  Tensor forward(Tensor hidden_states, const Tensor& attention_mask) const {
    for (const BertLayer& block : layer) hidden_states = block(hidden_states, attention_mask);
    return hidden_states;
  }
};

// BertModel, transformers/models/bert/modeling_bert.py:582
struct BertModel : nn::Module<BertModel> {
  BertEmbeddings embeddings;
  BertEncoder encoder;

  BertModel(const Config& c, const Weights& w)
      : Module(w),
        embeddings(c, w / "embeddings"),
        encoder(c, w / "encoder") {}

  Tensor forward(const Tensor& input_ids, Tensor attention_mask) const {
    const Tensor embedding_output = embeddings(input_ids);
    attention_mask = attention_mask.to(DType::boolean);
    return encoder(embedding_output, attention_mask);
  }
};

// SentenceEncoder, minilm.py:27
struct SentenceEncoder : nn::Module<SentenceEncoder> {
  BertModel bert;

  explicit SentenceEncoder(const Weights& w, const Checker& checker = {}, const Config& c = {})
      : Module(w, checker),
        bert(c, w / "bert") {}

  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask) const {
    const Tensor tokens = bert(input_ids, attention_mask);
    const Tensor weights = attention_mask.unsqueeze(2);
    const Tensor mean = (tokens * weights).sum({1}) /
        functional::clamp(weights.to(DType::f32).sum({1}), {.min = 1e-09});
    const Tensor clamp_out = functional::clamp(functional::vector_norm(mean, {1}, {.keep = true}),
        {.min = 1e-12});
    return mean / clamp_out;
  }
};

}  // namespace sentence_encoder
