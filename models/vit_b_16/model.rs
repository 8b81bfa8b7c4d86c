//! VisionTransformer, ported from PyTorch by `pycandle codegen`.

use candle_core::{Result, Tensor};
use candle_nn::{layer_norm, linear, Conv2d, LayerNorm, Linear, Module, VarBuilder};
use pycandle::{nn, py_check, PyChecker, Scoped};
use serde::{Deserialize, Serialize};

/// The sizes that Python keeps in a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    pub hidden_dim: usize,
    pub mlp_dim: usize,
    pub num_classes: usize,
    pub patch_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hidden_dim: 768,
            mlp_dim: 3072,
            num_classes: 1000,
            patch_size: 16,
        }
    }
}

/// MLPBlock, torchvision/models/vision_transformer.py:40 (12 instances).
#[derive(Debug, Clone)]
pub struct MLPBlock {
    pub linear_0: Linear,
    pub linear_3: Linear,
    pub checker: Option<PyChecker>,
}

impl MLPBlock {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            linear_0: linear(c.hidden_dim, c.mlp_dim, vb.pp("0"))?,
            linear_3: linear(c.mlp_dim, c.hidden_dim, vb.pp("3"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let y = py_check!(self.checker, "0", self.linear_0.forward(input)?);
        let y = py_check!(self.checker, "3", self.linear_3.forward(&y.gelu_erf()?)?);
        Ok(y)
    }
}

/// nn.Sequential heads.
#[derive(Debug, Clone)]
pub struct Heads {
    pub head: Linear,
    pub checker: Option<PyChecker>,
}

impl Heads {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            head: linear(c.hidden_dim, c.num_classes, vb.pp("head"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(py_check!(self.checker, "head", self.head.forward(input)?))
    }
}

/// EncoderBlock, torchvision/models/vision_transformer.py:86 (12 instances).
#[derive(Debug, Clone)]
pub struct EncoderBlock {
    pub ln_1: LayerNorm,
    pub self_attention: nn::SelfAttention,
    pub ln_2: LayerNorm,
    pub mlp: MLPBlock,
    pub checker: Option<PyChecker>,
}

impl EncoderBlock {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            ln_1: layer_norm(c.hidden_dim, 1e-6, vb.pp("ln_1"))?,
            self_attention: nn::self_attention(
                c.hidden_dim,
                12,
                true,
                true,
                vb.pp("self_attention"),
            )?,
            ln_2: layer_norm(c.hidden_dim, 1e-6, vb.pp("ln_2"))?,
            mlp: MLPBlock::load(vb.pp("mlp"), c, checker.pp("mlp"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let x = py_check!(self.checker, "ln_1", self.ln_1.forward(input)?);
        let x = self.self_attention.forward(&x)?;
        py_check!(self.checker, "self_attention", &x);
        let x = (&x + input)?;
        let y = py_check!(self.checker, "ln_2", self.ln_2.forward(&x)?);
        let y = py_check!(self.checker, "mlp", self.mlp.forward(&y)?);
        &x + &y
    }
}

/// Encoder, torchvision/models/vision_transformer.py:122.
#[derive(Debug, Clone)]
pub struct Encoder {
    pub pos_embedding: Tensor,
    pub encoder_layers: Vec<EncoderBlock>,
    pub ln: LayerNorm,
    pub checker: Option<PyChecker>,
}

impl Encoder {
    pub fn load(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            pos_embedding: vb.get((1, 197, 768), "pos_embedding")?,
            encoder_layers: (0..12)
                .map(|i| {
                    EncoderBlock::load(
                        vb.pp(format!("layers.encoder_layer_{i}")),
                        c,
                        checker.pp(format!("layers.encoder_layer_{i}")),
                    )
                })
                .collect::<Result<_>>()?,
            ln: layer_norm(c.hidden_dim, 1e-6, vb.pp("ln"))?,
            checker,
        })
    }

    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut input = input.broadcast_add(&self.pos_embedding)?;
        for (i, encoder_layer) in self.encoder_layers.iter().enumerate() {
            input = encoder_layer.forward(&input)?;
            py_check!(self.checker, format!("layers.encoder_layer_{i}"), &input);
        }
        Ok(py_check!(self.checker, "ln", self.ln.forward(&input)?))
    }
}

/// VisionTransformer, torchvision/models/vision_transformer.py:160.
#[derive(Debug, Clone)]
pub struct VisionTransformer {
    pub class_token: Tensor,
    pub conv_proj: Conv2d,
    pub encoder: Encoder,
    pub heads: Heads,
    pub checker: Option<PyChecker>,
}

impl VisionTransformer {
    pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {
        Self::with_config(vb, &Config::default(), checker)
    }

    pub fn with_config(vb: VarBuilder, c: &Config, checker: Option<PyChecker>) -> Result<Self> {
        Ok(Self {
            class_token: vb.get((1, 1, 768), "class_token")?,
            conv_proj: nn::conv2d(
                3,
                c.hidden_dim,
                c.patch_size,
                c.patch_size,
                0,
                vb.pp("conv_proj"),
            )?,
            encoder: Encoder::load(vb.pp("encoder"), c, checker.pp("encoder"))?,
            heads: Heads::load(vb.pp("heads"), c, checker.pp("heads"))?,
            checker,
        })
    }

    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let conv_proj_output = py_check!(self.checker, "conv_proj", self.conv_proj.forward(x)?);
        let transposed = conv_proj_output
            .flatten_from(2)?
            .transpose(1, 2)?
            .contiguous()?;
        let batch_class_token = self.class_token.broadcast_as((x.dim(0)?, 1, 768))?;
        let x = self
            .encoder
            .forward(&Tensor::cat(&[&batch_class_token, &transposed], 1)?)?;
        py_check!(self.checker, "encoder", &x);
        let x = self.heads.forward(&x.get_on_dim(1, 0)?)?;
        py_check!(self.checker, "heads", &x);
        Ok(x)
    }
}
