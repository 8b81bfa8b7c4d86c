//! SentenceEncoder, ported from PyTorch by `pycandle codegen`.

use candle_core::{DType, Result, Tensor};
use candle_nn::{embedding, layer_norm, linear, Embedding, LayerNorm, Linear, Module, VarBuilder};
use pycandle::{ops, py_check, PyChecker, Scoped};
use serde::{Deserialize, Serialize};

/// The sizes that Python keeps in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub type_vocab_size: usize,
    pub max_position_embeddings: usize,
    pub layer_norm_eps: f64,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            vocab_size: 30522,
            hidden_size: 384,
            type_vocab_size: 2,
            max_position_embeddings: 512,
            layer_norm_eps: 1e-12,
            num_attention_heads: 12,
            intermediate_size: 1536,
            num_hidden_layers: 6,
        }
    }
}

/// BertEmbeddings, transformers/models/bert/modeling_bert.py:53.
#[derive(Debug, Clone)]
pub struct BertEmbeddings {
    pub position_ids_stored: Tensor,
    pub token_type_ids_stored: Tensor,
    pub word_embeddings: Embedding,
    pub token_type_embeddings: Embedding,
    pub position_embeddings: Embedding,
    pub layer_norm: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl BertEmbeddings {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            position_ids_stored: vb.get_with_hints_dtype(
                (1, 512),
                "position_ids",
                Default::default(),
                DType::I64,
            )?,
            token_type_ids_stored: vb.get_with_hints_dtype(
                (1, 512),
                "token_type_ids",
                Default::default(),
                DType::I64,
            )?,
            word_embeddings: embedding(c.vocab_size, c.hidden_size, vb.pp("word_embeddings"))?,
            token_type_embeddings: embedding(
                c.type_vocab_size,
                c.hidden_size,
                vb.pp("token_type_embeddings"),
            )?,
            position_embeddings: embedding(
                c.max_position_embeddings,
                c.hidden_size,
                vb.pp("position_embeddings"),
            )?,
            layer_norm: layer_norm(c.hidden_size, c.layer_norm_eps, vb.pp("LayerNorm"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let position_ids = self.position_ids_stored.narrow(1, 0, input_ids.dim(1)?)?;
        let buffered_token_type_ids = ops::gather(&self.token_type_ids_stored, &position_ids, 1)?;
        let token_type_ids = buffered_token_type_ids
            .broadcast_as((input_ids.dim(0)?, buffered_token_type_ids.dim(1)?))?;
        let inputs_embeds = self.word_embeddings.forward(input_ids)?;
        py_check!(self.checker, "word_embeddings", &inputs_embeds);
        let token_type_embeddings = self
            .token_type_embeddings
            .forward(&token_type_ids.contiguous()?)?;
        py_check!(
            self.checker,
            "token_type_embeddings",
            &token_type_embeddings
        );
        let position_embeddings = self
            .position_embeddings
            .forward(&position_ids.contiguous()?)?;
        py_check!(self.checker, "position_embeddings", &position_embeddings);
        let embeddings =
            (&inputs_embeds + &token_type_embeddings)?.broadcast_add(&position_embeddings)?;
        let embeddings = self.layer_norm.forward(&embeddings)?;
        py_check!(self.checker, "LayerNorm", &embeddings);
        Ok(embeddings)
    }
}

/// BertSelfAttention, transformers/models/bert/modeling_bert.py:139 (6 instances).
#[derive(Debug, Clone)]
pub struct BertSelfAttention {
    pub num_attention_heads: usize,
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub checker: Option<PyChecker>,
}

impl BertSelfAttention {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            num_attention_heads: c.num_attention_heads,
            query: linear(c.hidden_size, c.hidden_size, vb.pp("query"))?,
            key: linear(c.hidden_size, c.hidden_size, vb.pp("key"))?,
            value: linear(c.hidden_size, c.hidden_size, vb.pp("value"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let query_layer = py_check!(self.checker, "query", self.query.forward(hidden_states)?);
        let query_layer = ops::split_heads(&query_layer, self.num_attention_heads)?;
        let key_layer = py_check!(self.checker, "key", self.key.forward(hidden_states)?);
        let key_layer = ops::split_heads(&key_layer, self.num_attention_heads)?;
        let value_layer = py_check!(self.checker, "value", self.value.forward(hidden_states)?);
        let value_layer = ops::split_heads(&value_layer, self.num_attention_heads)?;
        let attn_output = ops::scaled_dot_product_attention(
            &query_layer,
            &key_layer,
            &value_layer,
            ops::Attention {
                key_mask: Some(attention_mask),
                ..Default::default()
            },
        )?;
        ops::merge_heads(&attn_output)
    }
}

/// BertSelfOutput, transformers/models/bert/modeling_bert.py:282 (6 instances).
#[derive(Debug, Clone)]
pub struct BertSelfOutput {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl BertSelfOutput {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            dense: linear(c.hidden_size, c.hidden_size, vb.pp("dense"))?,
            layer_norm: layer_norm(c.hidden_size, c.layer_norm_eps, vb.pp("LayerNorm"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, input_tensor: &Tensor) -> Result<Tensor> {
        let hidden_states = py_check!(self.checker, "dense", self.dense.forward(hidden_states)?);
        let hidden_states = self.layer_norm.forward(&(&hidden_states + input_tensor)?)?;
        py_check!(self.checker, "LayerNorm", &hidden_states);
        Ok(hidden_states)
    }
}

/// BertIntermediate, transformers/models/bert/modeling_bert.py:325 (6 instances).
#[derive(Debug, Clone)]
pub struct BertIntermediate {
    pub dense: Linear,
    pub checker: Option<PyChecker>,
}

impl BertIntermediate {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            dense: linear(c.hidden_size, c.intermediate_size, vb.pp("dense"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor) -> Result<Tensor> {
        let hidden_states = py_check!(self.checker, "dense", self.dense.forward(hidden_states)?);
        hidden_states.gelu_erf()
    }
}

/// BertOutput, transformers/models/bert/modeling_bert.py:340 (6 instances).
#[derive(Debug, Clone)]
pub struct BertOutput {
    pub dense: Linear,
    pub layer_norm: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl BertOutput {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            dense: linear(c.intermediate_size, c.hidden_size, vb.pp("dense"))?,
            layer_norm: layer_norm(c.hidden_size, c.layer_norm_eps, vb.pp("LayerNorm"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, input_tensor: &Tensor) -> Result<Tensor> {
        let hidden_states = py_check!(self.checker, "dense", self.dense.forward(hidden_states)?);
        let hidden_states = self.layer_norm.forward(&(&hidden_states + input_tensor)?)?;
        py_check!(self.checker, "LayerNorm", &hidden_states);
        Ok(hidden_states)
    }
}

/// BertAttention, transformers/models/bert/modeling_bert.py:296 (6 instances).
#[derive(Debug, Clone)]
pub struct BertAttention {
    pub self_: BertSelfAttention,
    pub output: BertSelfOutput,
    pub checker: Option<PyChecker>,
}

impl BertAttention {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            self_: BertSelfAttention::load(vb.pp("self"), c, checker.pp("self"))?,
            output: BertSelfOutput::load(vb.pp("output"), c, checker.pp("output"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let attention_output = self.self_.forward(hidden_states, attention_mask)?;
        py_check!(self.checker, "self", &attention_output);
        let attention_output = self.output.forward(&attention_output, hidden_states)?;
        py_check!(self.checker, "output", &attention_output);
        Ok(attention_output)
    }
}

/// BertLayer, transformers/models/bert/modeling_bert.py:354 (6 instances).
#[derive(Debug, Clone)]
pub struct BertLayer {
    pub attention: BertAttention,
    pub intermediate: BertIntermediate,
    pub output: BertOutput,
    pub checker: Option<PyChecker>,
}

impl BertLayer {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            attention: BertAttention::load(vb.pp("attention"), c, checker.pp("attention"))?,
            intermediate: BertIntermediate::load(
                vb.pp("intermediate"),
                c,
                checker.pp("intermediate"),
            )?,
            output: BertOutput::load(vb.pp("output"), c, checker.pp("output"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let self_attention_output = self.attention.forward(hidden_states, attention_mask)?;
        py_check!(self.checker, "attention", &self_attention_output);
        let intermediate_output = self.intermediate.forward(&self_attention_output)?;
        py_check!(self.checker, "intermediate", &intermediate_output);
        let layer_output = self
            .output
            .forward(&intermediate_output, &self_attention_output)?;
        py_check!(self.checker, "output", &layer_output);
        Ok(layer_output)
    }
}

/// BertEncoder, transformers/models/bert/modeling_bert.py:419.
#[derive(Debug, Clone)]
pub struct BertEncoder {
    pub layer: Vec<BertLayer>,
    pub checker: Option<PyChecker>,
}

impl BertEncoder {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            layer: (0..c.num_hidden_layers)
                .map(|i| {
                    BertLayer::load(
                        vb.pp(format!("layer.{i}")),
                        c,
                        checker.pp(format!("layer.{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let mut hidden_states = hidden_states.clone();
        for (i, block) in self.layer.iter().enumerate() {
            hidden_states = block.forward(&hidden_states, attention_mask)?;
            py_check!(self.checker, format!("layer.{i}"), &hidden_states);
        }
        Ok(hidden_states)
    }
}

/// BertModel, transformers/models/bert/modeling_bert.py:582.
#[derive(Debug, Clone)]
pub struct BertModel {
    pub embeddings: BertEmbeddings,
    pub encoder: BertEncoder,
    pub checker: Option<PyChecker>,
}

impl BertModel {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            embeddings: BertEmbeddings::load(vb.pp("embeddings"), c, checker.pp("embeddings"))?,
            encoder: BertEncoder::load(vb.pp("encoder"), c, checker.pp("encoder"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let embedding_output = self.embeddings.forward(input_ids)?;
        py_check!(self.checker, "embeddings", &embedding_output);
        let attention_mask = ops::to_bool(attention_mask)?;
        let encoder_outputs = self.encoder.forward(&embedding_output, &attention_mask)?;
        py_check!(self.checker, "encoder", &encoder_outputs);
        Ok(encoder_outputs)
    }
}

/// SentenceEncoder, minilm.py:27.
#[derive(Debug, Clone)]
pub struct SentenceEncoder {
    pub bert: BertModel,
    pub checker: Option<PyChecker>,
}

impl SentenceEncoder {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Self::with_config(vb, &Config::default(), checker)
    }

    pub fn with_config(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            bert: BertModel::load(vb.pp("bert"), c, checker.pp("bert"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor, attention_mask: &Tensor) -> Result<Tensor> {
        let tokens = self.bert.forward(input_ids, attention_mask)?;
        py_check!(self.checker, "bert", &tokens);
        let weights = attention_mask.unsqueeze(2)?;
        let mean = ops::clamp(&weights.to_dtype(DType::F32)?.sum(1)?, Some(1e-9), None)?;
        let mean = ops::mul(&tokens, &weights)?.sum(1)?.broadcast_div(&mean)?;
        let clamp_out = ops::clamp(
            &ops::vector_norm(&mean, &[1], 2.0, true)?,
            Some(1e-12),
            None,
        )?;
        mean.broadcast_div(&clamp_out)
    }
}
