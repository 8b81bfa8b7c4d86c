//! WhisperForConditionalGeneration, ported from PyTorch by `pycandle codegen`.

use candle_core::{DType, Result, Tensor};
use candle_nn::{
    embedding, layer_norm, linear, linear_no_bias, Conv1d, Embedding, LayerNorm, Linear, Module,
    VarBuilder,
};
use pycandle::{nn, ops, py_check, PyChecker, Scoped};
use serde::{Deserialize, Serialize};

/// The sizes that Python keeps in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub d_model: usize,
    pub encoder_ffn_dim: usize,
    pub decoder_ffn_dim: usize,
    pub num_mel_bins: usize,
    pub max_source_positions: usize,
    pub encoder_layers: usize,
    pub vocab_size: usize,
    pub decoder_layers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            d_model: 384,
            encoder_ffn_dim: 1536,
            decoder_ffn_dim: 1536,
            num_mel_bins: 80,
            max_source_positions: 1500,
            encoder_layers: 4,
            vocab_size: 51865,
            decoder_layers: 4,
        }
    }
}

/// WhisperAttention, transformers/models/whisper/modeling_whisper.py:242 (4 instances).
#[derive(Debug, Clone)]
pub struct WhisperAttention {
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub out_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl WhisperAttention {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            q_proj: linear(c.d_model, c.d_model, vb.pp("q_proj"))?,
            k_proj: linear_no_bias(c.d_model, c.d_model, vb.pp("k_proj"))?,
            v_proj: linear(c.d_model, c.d_model, vb.pp("v_proj"))?,
            out_proj: linear(c.d_model, c.d_model, vb.pp("out_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor) -> Result<Tensor> {
        let query_states = py_check!(self.checker, "q_proj", self.q_proj.forward(hidden_states)?);
        let query_states = ops::split_heads(&(&query_states * 0.125)?, 6)?;
        let key_states = py_check!(self.checker, "k_proj", self.k_proj.forward(hidden_states)?);
        let key_states = ops::split_heads(&key_states, 6)?;
        let value_states = py_check!(self.checker, "v_proj", self.v_proj.forward(hidden_states)?);
        let value_states = ops::split_heads(&value_states, 6)?;
        let attn_output = ops::scaled_dot_product_attention(
            &query_states,
            &key_states,
            &value_states,
            ops::Attention {
                scale: Some(1.0),
                ..Default::default()
            },
        )?;
        let attn_output = self.out_proj.forward(&ops::merge_heads(&attn_output)?)?;
        py_check!(self.checker, "out_proj", &attn_output);
        Ok(attn_output)
    }
}

/// WhisperPositionalEmbedding, transformers/models/whisper/modeling_whisper.py:205.
#[derive(Debug, Clone)]
pub struct WhisperPositionalEmbedding {
    pub weight: Tensor,
}

impl WhisperPositionalEmbedding {
    pub fn load(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            weight: vb.get((448, 384), "weight")?,
        })
    }

    pub fn forward(&self, position_ids: &Tensor) -> Result<Tensor> {
        ops::gather_nd(&self.weight, &[position_ids], &[0])
    }
}

/// WhisperAttention, transformers/models/whisper/modeling_whisper.py:242 (4 instances).
#[derive(Debug, Clone)]
pub struct WhisperAttentionWithCausal {
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub out_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl WhisperAttentionWithCausal {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            q_proj: linear(c.d_model, c.d_model, vb.pp("q_proj"))?,
            k_proj: linear_no_bias(c.d_model, c.d_model, vb.pp("k_proj"))?,
            v_proj: linear(c.d_model, c.d_model, vb.pp("v_proj"))?,
            out_proj: linear(c.d_model, c.d_model, vb.pp("out_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor) -> Result<Tensor> {
        let query_states = py_check!(self.checker, "q_proj", self.q_proj.forward(hidden_states)?);
        let query_states = ops::split_heads(&(&query_states * 0.125)?, 6)?;
        let key_states = py_check!(self.checker, "k_proj", self.k_proj.forward(hidden_states)?);
        let key_states = ops::split_heads(&key_states, 6)?;
        let value_states = py_check!(self.checker, "v_proj", self.v_proj.forward(hidden_states)?);
        let value_states = ops::split_heads(&value_states, 6)?;
        let attn_output = ops::scaled_dot_product_attention(
            &query_states,
            &key_states,
            &value_states,
            ops::Attention {
                is_causal: true,
                scale: Some(1.0),
                ..Default::default()
            },
        )?;
        let attn_output = self.out_proj.forward(&ops::merge_heads(&attn_output)?)?;
        py_check!(self.checker, "out_proj", &attn_output);
        Ok(attn_output)
    }
}

/// WhisperAttention, transformers/models/whisper/modeling_whisper.py:242 (4 instances).
#[derive(Debug, Clone)]
pub struct WhisperAttentionWithKeyValueStates {
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub out_proj: Linear,
    pub checker: Option<PyChecker>,
}

impl WhisperAttentionWithKeyValueStates {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            q_proj: linear(c.d_model, c.d_model, vb.pp("q_proj"))?,
            k_proj: linear_no_bias(c.d_model, c.d_model, vb.pp("k_proj"))?,
            v_proj: linear(c.d_model, c.d_model, vb.pp("v_proj"))?,
            out_proj: linear(c.d_model, c.d_model, vb.pp("out_proj"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor, key_value_states: &Tensor) -> Result<Tensor> {
        let query_states = py_check!(self.checker, "q_proj", self.q_proj.forward(hidden_states)?);
        let query_states = ops::split_heads(&(&query_states * 0.125)?, 6)?;
        let key_states = self.k_proj.forward(key_value_states)?;
        py_check!(self.checker, "k_proj", &key_states);
        let key_states = ops::split_heads(&key_states, 6)?;
        let value_states = self.v_proj.forward(key_value_states)?;
        py_check!(self.checker, "v_proj", &value_states);
        let value_states = ops::split_heads(&value_states, 6)?;
        let attn_output = ops::scaled_dot_product_attention(
            &query_states,
            &key_states,
            &value_states,
            ops::Attention {
                scale: Some(1.0),
                ..Default::default()
            },
        )?;
        let attn_output = self.out_proj.forward(&ops::merge_heads(&attn_output)?)?;
        py_check!(self.checker, "out_proj", &attn_output);
        Ok(attn_output)
    }
}

/// WhisperEncoderLayer, transformers/models/whisper/modeling_whisper.py:362 (4 instances).
#[derive(Debug, Clone)]
pub struct WhisperEncoderLayer {
    pub self_attn_layer_norm: LayerNorm,
    pub self_attn: WhisperAttention,
    pub final_layer_norm: LayerNorm,
    pub fc1: Linear,
    pub fc2: Linear,
    pub checker: Option<PyChecker>,
}

impl WhisperEncoderLayer {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            self_attn_layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("self_attn_layer_norm"))?,
            self_attn: WhisperAttention::load(vb.pp("self_attn"), c, checker.pp("self_attn"))?,
            final_layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("final_layer_norm"))?,
            fc1: linear(c.d_model, c.encoder_ffn_dim, vb.pp("fc1"))?,
            fc2: linear(c.encoder_ffn_dim, c.d_model, vb.pp("fc2"))?,
            checker,
        })
    }

    pub fn forward(&self, hidden_states: &Tensor) -> Result<Tensor> {
        let self_attn_layer_norm_output = self.self_attn_layer_norm.forward(hidden_states)?;
        py_check!(
            self.checker,
            "self_attn_layer_norm",
            &self_attn_layer_norm_output
        );
        let self_attn_output = self.self_attn.forward(&self_attn_layer_norm_output)?;
        py_check!(self.checker, "self_attn", &self_attn_output);
        let hidden_states = (hidden_states + &self_attn_output)?;
        let final_layer_norm_output = self.final_layer_norm.forward(&hidden_states)?;
        py_check!(self.checker, "final_layer_norm", &final_layer_norm_output);
        let fc1_output = self.fc1.forward(&final_layer_norm_output)?;
        py_check!(self.checker, "fc1", &fc1_output);
        let fc2_output = self.fc2.forward(&fc1_output.gelu_erf()?)?;
        py_check!(self.checker, "fc2", &fc2_output);
        &hidden_states + &fc2_output
    }
}

/// WhisperDecoderLayer, transformers/models/whisper/modeling_whisper.py:418 (4 instances).
#[derive(Debug, Clone)]
pub struct WhisperDecoderLayer {
    pub self_attn_layer_norm: LayerNorm,
    pub self_attn: WhisperAttentionWithCausal,
    pub encoder_attn_layer_norm: LayerNorm,
    pub encoder_attn: WhisperAttentionWithKeyValueStates,
    pub final_layer_norm: LayerNorm,
    pub fc1: Linear,
    pub fc2: Linear,
    pub checker: Option<PyChecker>,
}

impl WhisperDecoderLayer {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            self_attn_layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("self_attn_layer_norm"))?,
            self_attn: WhisperAttentionWithCausal::load(
                vb.pp("self_attn"),
                c,
                checker.pp("self_attn"),
            )?,
            encoder_attn_layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("encoder_attn_layer_norm"))?,
            encoder_attn: WhisperAttentionWithKeyValueStates::load(
                vb.pp("encoder_attn"),
                c,
                checker.pp("encoder_attn"),
            )?,
            final_layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("final_layer_norm"))?,
            fc1: linear(c.d_model, c.decoder_ffn_dim, vb.pp("fc1"))?,
            fc2: linear(c.decoder_ffn_dim, c.d_model, vb.pp("fc2"))?,
            checker,
        })
    }

    pub fn forward(
        &self,
        hidden_states: &Tensor,
        encoder_hidden_states: &Tensor,
    ) -> Result<Tensor> {
        let self_attn_layer_norm_output = self.self_attn_layer_norm.forward(hidden_states)?;
        py_check!(
            self.checker,
            "self_attn_layer_norm",
            &self_attn_layer_norm_output
        );
        let self_attn_output = self.self_attn.forward(&self_attn_layer_norm_output)?;
        py_check!(self.checker, "self_attn", &self_attn_output);
        let hidden_states = (hidden_states + &self_attn_output)?;
        let encoder_attn_layer_norm_output =
            self.encoder_attn_layer_norm.forward(&hidden_states)?;
        py_check!(
            self.checker,
            "encoder_attn_layer_norm",
            &encoder_attn_layer_norm_output
        );
        let encoder_attn_output = self
            .encoder_attn
            .forward(&encoder_attn_layer_norm_output, encoder_hidden_states)?;
        py_check!(self.checker, "encoder_attn", &encoder_attn_output);
        let hidden_states = (&hidden_states + &encoder_attn_output)?;
        let final_layer_norm_output = self.final_layer_norm.forward(&hidden_states)?;
        py_check!(self.checker, "final_layer_norm", &final_layer_norm_output);
        let fc1_output = self.fc1.forward(&final_layer_norm_output)?;
        py_check!(self.checker, "fc1", &fc1_output);
        let fc2_output = self.fc2.forward(&fc1_output.gelu_erf()?)?;
        py_check!(self.checker, "fc2", &fc2_output);
        &hidden_states + &fc2_output
    }
}

/// WhisperEncoder, transformers/models/whisper/modeling_whisper.py:542.
#[derive(Debug, Clone)]
pub struct WhisperEncoder {
    pub conv1: Conv1d,
    pub conv2: Conv1d,
    pub embed_positions: Embedding,
    pub layers: Vec<WhisperEncoderLayer>,
    pub layer_norm: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl WhisperEncoder {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv1d(c.num_mel_bins, c.d_model, 3, 1, 1, vb.pp("conv1"))?,
            conv2: nn::conv1d(c.d_model, c.d_model, 3, 2, 1, vb.pp("conv2"))?,
            embed_positions: embedding(
                c.max_source_positions,
                c.d_model,
                vb.pp("embed_positions"),
            )?,
            layers: (0..c.encoder_layers)
                .map(|i| {
                    WhisperEncoderLayer::load(
                        vb.pp(format!("layers.{i}")),
                        c,
                        checker.pp(format!("layers.{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("layer_norm"))?,
            checker,
        })
    }

    pub fn forward(&self, input_features: &Tensor) -> Result<Tensor> {
        let inputs_embeds = py_check!(self.checker, "conv1", self.conv1.forward(input_features)?);
        let inputs_embeds = self.conv2.forward(&inputs_embeds.gelu_erf()?)?;
        py_check!(self.checker, "conv2", &inputs_embeds);
        let inputs_embeds = inputs_embeds.gelu_erf()?.transpose(1, 2)?.contiguous()?;
        let all_positions = ops::arange(0, 1500, 1, DType::I64, input_features.device())?;
        let hidden_states = self.embed_positions.forward(&all_positions)?;
        py_check!(self.checker, "embed_positions", &hidden_states);
        let mut hidden_states = inputs_embeds.broadcast_add(&hidden_states)?;
        for (i, layer) in self.layers.iter().enumerate() {
            hidden_states = layer.forward(&hidden_states)?;
            py_check!(self.checker, format!("layers.{i}"), &hidden_states);
        }
        let hidden_states = self.layer_norm.forward(&hidden_states)?;
        py_check!(self.checker, "layer_norm", &hidden_states);
        Ok(hidden_states)
    }
}

/// WhisperDecoder, transformers/models/whisper/modeling_whisper.py:646.
#[derive(Debug, Clone)]
pub struct WhisperDecoder {
    pub embed_tokens: Embedding,
    pub embed_positions: WhisperPositionalEmbedding,
    pub layers: Vec<WhisperDecoderLayer>,
    pub layer_norm: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl WhisperDecoder {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            embed_tokens: embedding(c.vocab_size, c.d_model, vb.pp("embed_tokens"))?,
            embed_positions: WhisperPositionalEmbedding::load(vb.pp("embed_positions"))?,
            layers: (0..c.decoder_layers)
                .map(|i| {
                    WhisperDecoderLayer::load(
                        vb.pp(format!("layers.{i}")),
                        c,
                        checker.pp(format!("layers.{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            layer_norm: layer_norm(c.d_model, 1e-5, vb.pp("layer_norm"))?,
            checker,
        })
    }

    pub fn forward(&self, input_ids: &Tensor, encoder_hidden_states: &Tensor) -> Result<Tensor> {
        let inputs_embeds = self.embed_tokens.forward(input_ids)?;
        py_check!(self.checker, "embed_tokens", &inputs_embeds);
        let position_ids = Tensor::arange(0, input_ids.dim(1)? as i64, input_ids.device())?;
        let position_ids = ops::broadcast(
            &position_ids.unsqueeze(0)?,
            &[input_ids.dim(0)?, 1, 1, input_ids.dim(1)?],
            &[1, 3],
        )?;
        let position_ids = position_ids.flatten(0, 2)?;
        let positions = self.embed_positions.forward(&position_ids)?;
        py_check!(self.checker, "embed_positions", &positions);
        let mut hidden_states = (&inputs_embeds + &positions)?;
        for (i, layer) in self.layers.iter().enumerate() {
            hidden_states = layer.forward(&hidden_states, encoder_hidden_states)?;
            py_check!(self.checker, format!("layers.{i}"), &hidden_states);
        }
        let hidden_states = self.layer_norm.forward(&hidden_states)?;
        py_check!(self.checker, "layer_norm", &hidden_states);
        Ok(hidden_states)
    }
}

/// WhisperModel, transformers/models/whisper/modeling_whisper.py:825.
#[derive(Debug, Clone)]
pub struct WhisperModel {
    pub encoder: WhisperEncoder,
    pub decoder: WhisperDecoder,
    pub checker: Option<PyChecker>,
}

/// What `WhisperModel` gives.
#[derive(Debug, Clone)]
pub struct WhisperModelOutput {
    pub last_hidden_state: Tensor,
    pub encoder_last_hidden_state: Tensor,
}

impl WhisperModel {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            encoder: WhisperEncoder::load(vb.pp("encoder"), c, checker.pp("encoder"))?,
            decoder: WhisperDecoder::load(vb.pp("decoder"), c, checker.pp("decoder"))?,
            checker,
        })
    }

    pub fn forward(
        &self,
        input_features: &Tensor,
        decoder_input_ids: &Tensor,
    ) -> Result<WhisperModelOutput> {
        let encoder_outputs = self.encoder.forward(input_features)?;
        py_check!(self.checker, "encoder", &encoder_outputs);
        let decoder_outputs = self.decoder.forward(decoder_input_ids, &encoder_outputs)?;
        py_check!(self.checker, "decoder", &decoder_outputs);
        Ok(WhisperModelOutput {
            last_hidden_state: decoder_outputs,
            encoder_last_hidden_state: encoder_outputs,
        })
    }
}

/// WhisperForConditionalGeneration, transformers/models/whisper/modeling_whisper.py:985.
#[derive(Debug, Clone)]
pub struct WhisperForConditionalGeneration {
    pub model: WhisperModel,
    pub proj_out: Linear,
    pub checker: Option<PyChecker>,
}

/// What `WhisperForConditionalGeneration` gives.
#[derive(Debug, Clone)]
pub struct WhisperForConditionalGenerationOutput {
    pub logits: Tensor,
    pub encoder_last_hidden_state: Tensor,
}

impl WhisperForConditionalGeneration {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Self::with_config(vb, &Config::default(), checker)
    }

    pub fn with_config(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            model: WhisperModel::load(vb.pp("model"), c, checker.pp("model"))?,
            proj_out: linear_no_bias(
                c.d_model,
                c.vocab_size,
                nn::tied(
                    vb.pp("proj_out"),
                    &[("weight", "model.decoder.embed_tokens.weight")],
                ),
            )?,
            checker,
        })
    }

    pub fn forward(
        &self,
        input_features: &Tensor,
        decoder_input_ids: &Tensor,
    ) -> Result<WhisperForConditionalGenerationOutput> {
        let WhisperModelOutput {
            last_hidden_state: model_output,
            encoder_last_hidden_state: normed,
        } = self.model.forward(input_features, decoder_input_ids)?;
        py_check!(
            self.checker,
            "model/output.last_hidden_state",
            &model_output
        );
        py_check!(
            self.checker,
            "model/output.encoder_last_hidden_state",
            &normed
        );
        let lm_logits = self.proj_out.forward(&model_output)?;
        py_check!(self.checker, "proj_out", &lm_logits);
        Ok(WhisperForConditionalGenerationOutput {
            logits: lm_logits,
            encoder_last_hidden_state: normed,
        })
    }
}
