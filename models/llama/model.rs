//! LlamaForCausalLM, ported from PyTorch by `pycandle codegen`.

use candle_core::{Result, Tensor};
use candle_nn::{
    embedding, linear_no_bias, rms_norm, Embedding, Linear, Module, RmsNorm, VarBuilder,
};
use pycandle::{ops, py_check, PyChecker, Scoped};
use serde::{Deserialize, Serialize};

/// The sizes that Python keeps in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub hidden_size: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub rms_norm_eps: f64,
    pub vocab_size: usize,
    pub num_hidden_layers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_size: 4096,
            num_key_value_heads: 8,
            head_dim: 128,
            num_attention_heads: 32,
            intermediate_size: 14336,
            rms_norm_eps: 1e-5,
            vocab_size: 128256,
            num_hidden_layers: 32,
        }
    }
}

/// LlamaRotaryEmbedding, transformers/models/llama/modeling_llama.py:72.
#[derive(Debug, Clone)]
pub struct LlamaRotaryEmbedding {
    pub inv_freq: Tensor,
}

impl LlamaRotaryEmbedding {
    pub fn load(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            inv_freq: vb.get(64, "inv_freq")?,
        })
    }

    pub fn forward(&self, position_ids: &Tensor) -> Result<(Tensor, Tensor)> {
        let freqs = ops::mul(&position_ids.unsqueeze(2)?, &self.inv_freq)?;
        let emb = Tensor::cat(&[&freqs, &freqs], 2)?;
        Ok((emb.cos()?, emb.sin()?))
    }
}

/// LlamaAttention, transformers/models/llama/modeling_llama.py:205 (32 instances).
#[derive(Debug, Clone)]
pub struct LlamaAttention {
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub o_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl LlamaAttention {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            num_attention_heads: c.num_attention_heads,
            num_key_value_heads: c.num_key_value_heads,
            q_proj: linear_no_bias(c.hidden_size, c.hidden_size, vb.pp("q_proj"))?,
            k_proj: linear_no_bias(
                c.hidden_size,
                c.num_key_value_heads * c.head_dim,
                vb.pp("k_proj"),
            )?,
            v_proj: linear_no_bias(
                c.hidden_size,
                c.num_key_value_heads * c.head_dim,
                vb.pp("v_proj"),
            )?,
            o_proj: linear_no_bias(c.hidden_size, c.hidden_size, vb.pp("o_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let query_states = py_check!(self.checker, "q_proj", self.q_proj.forward(hidden_states)?);
        let query_states = ops::split_heads(&query_states, self.num_attention_heads)?;
        let key_states = py_check!(self.checker, "k_proj", self.k_proj.forward(hidden_states)?);
        let key_states = ops::split_heads(&key_states, self.num_key_value_heads)?;
        let value_states = py_check!(self.checker, "v_proj", self.v_proj.forward(hidden_states)?);
        let value_states = ops::split_heads(&value_states, self.num_key_value_heads)?;
        let q_embed = ops::rotary(&query_states, cos, sin)?;
        let k_embed = ops::rotary(&key_states, cos, sin)?;
        let attn_output =
            ops::merge_heads(&ops::causal_attention(&q_embed, &k_embed, &value_states)?)?;
        let attn_output = py_check!(self.checker, "o_proj", self.o_proj.forward(&attn_output)?);
        Ok(attn_output)
    }
}

/// LlamaMLP, transformers/models/llama/modeling_llama.py:152 (32 instances).
#[derive(Debug, Clone)]
pub struct LlamaMLP {
    pub gate_proj: Linear,
    pub up_proj: Linear,
    pub down_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl LlamaMLP {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            gate_proj: linear_no_bias(c.hidden_size, c.intermediate_size, vb.pp("gate_proj"))?,
            up_proj: linear_no_bias(c.hidden_size, c.intermediate_size, vb.pp("up_proj"))?,
            down_proj: linear_no_bias(c.intermediate_size, c.hidden_size, vb.pp("down_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let down_proj = py_check!(self.checker, "gate_proj", self.gate_proj.forward(x)?);
        let up_proj_output = py_check!(self.checker, "up_proj", self.up_proj.forward(x)?);
        let down_proj = self
            .down_proj
            .forward(&(&down_proj.silu()? * &up_proj_output)?)?;
        py_check!(self.checker, "down_proj", &down_proj);
        Ok(down_proj)
    }
}

/// LlamaDecoderLayer, transformers/models/llama/modeling_llama.py:273 (32 instances).
#[derive(Debug, Clone)]
pub struct LlamaDecoderLayer {
    pub input_layernorm: RmsNorm,
    pub self_attn: LlamaAttention,
    pub post_attention_layernorm: RmsNorm,
    pub mlp: LlamaMLP,
    pub checker: Option<PyChecker>,
}

impl LlamaDecoderLayer {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            input_layernorm: rms_norm(c.hidden_size, c.rms_norm_eps, vb.pp("input_layernorm"))?,
            self_attn: LlamaAttention::load(vb.pp("self_attn"), c, checker.pp("self_attn"))?,
            post_attention_layernorm: rms_norm(
                c.hidden_size,
                c.rms_norm_eps,
                vb.pp("post_attention_layernorm"),
            )?,
            mlp: LlamaMLP::load(vb.pp("mlp"), c, checker.pp("mlp"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let input_layernorm_output = self.input_layernorm.forward(hidden_states)?;
        py_check!(self.checker, "input_layernorm", &input_layernorm_output);
        let self_attn_output = self.self_attn.forward(&input_layernorm_output, cos, sin)?;
        py_check!(self.checker, "self_attn", &self_attn_output);
        let hidden_states = (hidden_states + &self_attn_output)?;
        let post_attention_layernorm_output =
            self.post_attention_layernorm.forward(&hidden_states)?;
        py_check!(
            self.checker,
            "post_attention_layernorm",
            &post_attention_layernorm_output
        );
        let mlp_output = self.mlp.forward(&post_attention_layernorm_output)?;
        py_check!(self.checker, "mlp", &mlp_output);
        &hidden_states + &mlp_output
    }
}

/// LlamaModel, transformers/models/llama/modeling_llama.py:335.
#[derive(Debug, Clone)]
pub struct LlamaModel {
    pub embed_tokens: Embedding,
    pub rotary_emb: LlamaRotaryEmbedding,
    pub layers: Vec<LlamaDecoderLayer>,
    pub norm: RmsNorm,
    pub checker: Option<PyChecker>,
}

impl LlamaModel {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            embed_tokens: embedding(c.vocab_size, c.hidden_size, vb.pp("embed_tokens"))?,
            rotary_emb: LlamaRotaryEmbedding::load(vb.pp("rotary_emb"))?,
            layers: (0..c.num_hidden_layers)
                .map(|i| {
                    LlamaDecoderLayer::load(
                        vb.pp(format!("layers.{i}")),
                        c,
                        checker.pp(format!("layers.{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            norm: rms_norm(c.hidden_size, c.rms_norm_eps, vb.pp("norm"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let inputs_embeds = self.embed_tokens.forward(input_ids)?;
        py_check!(self.checker, "embed_tokens", &inputs_embeds);
        let position_ids = Tensor::arange(0, input_ids.dim(1)? as i64, input_ids.device())?;
        let position_ids = position_ids.unsqueeze(0)?;
        let (cos, sin) = self.rotary_emb.forward(&position_ids)?;
        py_check!(self.checker, "rotary_emb", (&cos, &sin));
        let mut hidden_states = inputs_embeds;
        for (i, layer) in self.layers.iter().enumerate() {
            hidden_states = layer.forward(&hidden_states, &cos, &sin)?;
            py_check!(self.checker, format!("layers.{i}"), &hidden_states);
        }
        let hidden_states = py_check!(self.checker, "norm", self.norm.forward(&hidden_states)?);
        Ok(hidden_states)
    }
}

/// LlamaForCausalLM, transformers/models/llama/modeling_llama.py:409.
#[derive(Debug, Clone)]
pub struct LlamaForCausalLM {
    pub model: LlamaModel,
    pub lm_head: Linear,
    pub checker: Option<PyChecker>,
}

impl LlamaForCausalLM {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Self::with_config(vb, &Config::default(), checker)
    }

    pub fn with_config(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            model: LlamaModel::load(vb.pp("model"), c, checker.pp("model"))?,
            lm_head: linear_no_bias(c.hidden_size, c.vocab_size, vb.pp("lm_head"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor) -> Result<Tensor> {
        let outputs = py_check!(self.checker, "model", self.model.forward(input_ids)?);
        let logits = py_check!(self.checker, "lm_head", self.lm_head.forward(&outputs)?);
        Ok(logits)
    }
}
