//! GPT2LMHeadModel, ported from PyTorch by `pycandle codegen`.

use candle_core::{Result, Tensor};
use candle_nn::{
    embedding, layer_norm, linear_no_bias, Embedding, LayerNorm, Linear, Module, VarBuilder,
};
use pycandle::{nn, ops, py_check, PyChecker, Scoped};
use serde::{Deserialize, Serialize};

/// The sizes that Python keeps in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub n_embd: usize,
    pub n_head: usize,
    pub layer_norm_epsilon: f64,
    pub vocab_size: usize,
    pub n_positions: usize,
    pub n_layer: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            n_embd: 768,
            n_head: 12,
            layer_norm_epsilon: 1e-5,
            vocab_size: 50257,
            n_positions: 1024,
            n_layer: 12,
        }
    }
}

/// What GPT2Attention keeps of every token.
#[derive(Debug, Clone, Default)]
pub struct GPT2AttentionCache {
    pub key: nn::CacheRows,
    pub value: nn::CacheRows,
}

/// What GPT2LMHeadModel keeps of the tokens that it has seen.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    /// Tokens of each sequence: all sequences of a batch have one length.
    pub seen: usize,
    pub h: nn::CacheList<GPT2AttentionCache>,
}

/// GPT2Attention, transformers/models/gpt2/modeling_gpt2.py:75 (12 instances).
#[derive(Debug, Clone)]
pub struct GPT2Attention {
    pub num_heads: usize,
    pub c_attn: Linear,
    pub c_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl GPT2Attention {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            num_heads: c.n_head,
            c_attn: nn::linear_in_out(c.n_embd, 3 * c.n_embd, true, vb.pp("c_attn"))?,
            c_proj: nn::linear_in_out(c.n_embd, c.n_embd, true, vb.pp("c_proj"))?,
            checker,
        })
    }

    pub fn forward(
        &self,
        hidden_states: &Tensor,
        cache: &mut GPT2AttentionCache,
    ) -> Result<Tensor> {
        let c_attn_output = py_check!(self.checker, "c_attn", self.c_attn.forward(hidden_states)?);
        let [query_states, key_states, value_states] = ops::chunk(&c_attn_output, 2)?;
        let key_states = cache
            .key
            .append(&ops::split_heads(&key_states, self.num_heads)?)?;
        let value_states = cache
            .value
            .append(&ops::split_heads(&value_states, self.num_heads)?)?;
        let query_states = ops::split_heads(&query_states, self.num_heads)?;
        let attn_output = ops::cached_attention(&query_states, &key_states, &value_states)?;
        let attn_output = self.c_proj.forward(&ops::merge_heads(&attn_output)?)?;
        py_check!(self.checker, "c_proj", &attn_output);
        Ok(attn_output)
    }
}

/// GPT2MLP, transformers/models/gpt2/modeling_gpt2.py:229 (12 instances).
#[derive(Debug, Clone)]
pub struct GPT2MLP {
    pub c_fc: Linear,
    pub c_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl GPT2MLP {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            c_fc: nn::linear_in_out(c.n_embd, 4 * c.n_embd, true, vb.pp("c_fc"))?,
            c_proj: nn::linear_in_out(4 * c.n_embd, c.n_embd, true, vb.pp("c_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor) -> Result<Tensor> {
        let hidden_states = py_check!(self.checker, "c_fc", self.c_fc.forward(hidden_states)?);
        let hidden_states = self.c_proj.forward(&hidden_states.gelu()?)?;
        py_check!(self.checker, "c_proj", &hidden_states);
        Ok(hidden_states)
    }
}

/// GPT2Block, transformers/models/gpt2/modeling_gpt2.py:246 (12 instances).
#[derive(Debug, Clone)]
pub struct GPT2Block {
    pub ln_1: LayerNorm,
    pub attn: GPT2Attention,
    pub ln_2: LayerNorm,
    pub mlp: GPT2MLP,
    pub checker: Option<PyChecker>,
}

impl GPT2Block {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            ln_1: layer_norm(c.n_embd, c.layer_norm_epsilon, vb.pp("ln_1"))?,
            attn: GPT2Attention::load(vb.pp("attn"), c, checker.pp("attn"))?,
            ln_2: layer_norm(c.n_embd, c.layer_norm_epsilon, vb.pp("ln_2"))?,
            mlp: GPT2MLP::load(vb.pp("mlp"), c, checker.pp("mlp"))?,
            checker,
        })
    }

    pub fn forward(
        &self,
        hidden_states: &Tensor,
        cache: &mut GPT2AttentionCache,
    ) -> Result<Tensor> {
        let ln_1_output = py_check!(self.checker, "ln_1", self.ln_1.forward(hidden_states)?);
        let attn_output = self.attn.forward(&ln_1_output, cache)?;
        py_check!(self.checker, "attn", &attn_output);
        let hidden_states = (&attn_output + hidden_states)?;
        let ln_2_output = py_check!(self.checker, "ln_2", self.ln_2.forward(&hidden_states)?);
        let feed_forward_hidden_states =
            py_check!(self.checker, "mlp", self.mlp.forward(&ln_2_output)?);
        &hidden_states + &feed_forward_hidden_states
    }
}

/// GPT2Model, transformers/models/gpt2/modeling_gpt2.py:485.
#[derive(Debug, Clone)]
pub struct GPT2Model {
    pub wte: Embedding,
    pub wpe: Embedding,
    pub h: Vec<GPT2Block>,
    pub ln_f: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl GPT2Model {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            wte: embedding(c.vocab_size, c.n_embd, vb.pp("wte"))?,
            wpe: embedding(c.n_positions, c.n_embd, vb.pp("wpe"))?,
            h: (0..c.n_layer)
                .map(|i| GPT2Block::load(vb.pp(format!("h.{i}")), c, checker.pp(format!("h.{i}"))))
                .collect::<Result<_>>()?,
            ln_f: layer_norm(c.n_embd, c.layer_norm_epsilon, vb.pp("ln_f"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor, cache: &mut Cache) -> Result<Tensor> {
        let inputs_embeds = py_check!(self.checker, "wte", self.wte.forward(input_ids)?);
        let position_ids = Tensor::arange(0, input_ids.dim(1)? as i64, input_ids.device())?;
        let reshaped =
            Tensor::full(cache.seen as i64, input_ids.dim(0)?, input_ids.device())?.unsqueeze(1)?;
        let position_ids = reshaped.broadcast_add(&position_ids.unsqueeze(0)?)?;
        let position_embeds = py_check!(self.checker, "wpe", self.wpe.forward(&position_ids)?);
        let mut hidden_states = (&inputs_embeds + &position_embeds)?;
        for (i, block) in self.h.iter().enumerate() {
            hidden_states = block.forward(&hidden_states, cache.h.at(i))?;
            py_check!(self.checker, format!("h.{i}"), &hidden_states);
        }
        let hidden_states = py_check!(self.checker, "ln_f", self.ln_f.forward(&hidden_states)?);
        Ok(hidden_states)
    }
}

/// GPT2LMHeadModel, transformers/models/gpt2/modeling_gpt2.py:630.
#[derive(Debug, Clone)]
pub struct GPT2LMHeadModel {
    pub transformer: GPT2Model,
    pub lm_head: Linear,
    pub checker: Option<PyChecker>,
}

impl GPT2LMHeadModel {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Self::with_config(vb, &Config::default(), checker)
    }

    pub fn with_config(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            transformer: GPT2Model::load(vb.pp("transformer"), c, checker.pp("transformer"))?,
            lm_head: linear_no_bias(
                c.n_embd,
                c.vocab_size,
                nn::tied(vb.pp("lm_head"), &[("weight", "transformer.wte.weight")]),
            )?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor, cache: &mut Cache) -> Result<Tensor> {
        let transformer_outputs = self.transformer.forward(input_ids, cache)?;
        py_check!(self.checker, "transformer", &transformer_outputs);
        let logits = self.lm_head.forward(&transformer_outputs)?;
        py_check!(self.checker, "lm_head", &logits);
        cache.seen += input_ids.dim(1)?;
        Ok(logits)
    }
}
