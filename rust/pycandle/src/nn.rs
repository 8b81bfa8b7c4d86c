//! Layers that `candle_nn` lacks, or that it computes otherwise than PyTorch.

use std::sync::Arc;

use candle_core::{bail, Result, Tensor, D};
use candle_nn::{Linear, Module, VarBuilder};

use crate::ops::{self, Cell};

/// Weights of which some stand elsewhere in the model: ("weight", "transformer.wte.weight").
pub fn tied<'a>(vb: VarBuilder<'a>, ties: &[(&str, &str)]) -> VarBuilder<'a> {
    let prefix = vb.prefix();
    let ties: Vec<(String, String)> = ties
        .iter()
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect();
    vb.root().rename_f(
        move |name| match ties.iter().find(|(local, _)| local == name) {
            Some((_, canonical)) => canonical.clone(),
            None if prefix.is_empty() => name.to_string(),
            None => format!("{prefix}.{name}"),
        },
    )
}

/// A linear layer whose weight is stored as [in, out]: GPT-2's `Conv1D`.
pub fn linear_in_out(in_dim: usize, out_dim: usize, bias: bool, vb: VarBuilder) -> Result<Linear> {
    let weight = vb.get((in_dim, out_dim), "weight")?.t()?.contiguous()?;
    let bias = if bias {
        Some(vb.get(out_dim, "bias")?)
    } else {
        None
    };
    Ok(Linear::new(weight, bias))
}

/// `nn.RMSNorm`, and those of models that round elsewhere.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    weight: Option<Tensor>,
    config: RmsNormConfig,
}

/// How an RMS norm is computed; see [`ops::RmsNorm`].
#[derive(Debug, Clone, Copy)]
pub struct RmsNormConfig {
    pub eps: Option<f64>,
    pub affine: bool,
    pub compute_dtype: Option<candle_core::DType>,
    pub round_before_weight: bool,
    pub weight_offset: f64,
}

impl Default for RmsNormConfig {
    fn default() -> Self {
        Self {
            eps: None,
            affine: true,
            compute_dtype: None,
            round_before_weight: false,
            weight_offset: 0.0,
        }
    }
}

pub fn rms_norm(size: usize, config: RmsNormConfig, vb: VarBuilder) -> Result<RmsNorm> {
    let weight = if config.affine {
        Some(vb.get(size, "weight")?)
    } else {
        None
    };
    Ok(RmsNorm { weight, config })
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let c = self.config;
        let options = ops::RmsNorm {
            weight: self.weight.as_ref(),
            eps: c.eps,
            compute_dtype: c.compute_dtype,
            round_before_weight: c.round_before_weight,
            weight_offset: c.weight_offset,
        };
        ops::rms_norm(x, 1, options)
    }
}

/// `nn.Conv1d` with a square kernel.
pub fn conv1d(
    in_channels: usize,
    out_channels: usize,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    vb: VarBuilder,
) -> Result<candle_nn::Conv1d> {
    let config = candle_nn::Conv1dConfig {
        stride,
        padding,
        ..Default::default()
    };
    candle_nn::conv1d(in_channels, out_channels, kernel_size, config, vb)
}

/// `nn.Conv1d` with a square kernel and no bias.
pub fn conv1d_no_bias(
    in_channels: usize,
    out_channels: usize,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    vb: VarBuilder,
) -> Result<candle_nn::Conv1d> {
    let config = candle_nn::Conv1dConfig {
        stride,
        padding,
        ..Default::default()
    };
    candle_nn::conv1d_no_bias(in_channels, out_channels, kernel_size, config, vb)
}

/// `nn.Conv2d` with a square kernel.
pub fn conv2d(
    in_channels: usize,
    out_channels: usize,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    vb: VarBuilder,
) -> Result<candle_nn::Conv2d> {
    let config = candle_nn::Conv2dConfig {
        stride,
        padding,
        ..Default::default()
    };
    candle_nn::conv2d(in_channels, out_channels, kernel_size, config, vb)
}

/// `nn.Conv2d` with a square kernel and no bias.
pub fn conv2d_no_bias(
    in_channels: usize,
    out_channels: usize,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    vb: VarBuilder,
) -> Result<candle_nn::Conv2d> {
    let config = candle_nn::Conv2dConfig {
        stride,
        padding,
        ..Default::default()
    };
    candle_nn::conv2d_no_bias(in_channels, out_channels, kernel_size, config, vb)
}

/// The shape of a convolution; one entry for each axis, or one for all. An empty list is the default.
#[derive(Debug, Clone, Default)]
pub struct ConvConfig {
    pub stride: Vec<usize>,
    pub padding: Vec<usize>,
    pub dilation: Vec<usize>,
    pub output_padding: Vec<usize>,
    /// 0 is 1.
    pub groups: usize,
    pub same: bool,
    pub transposed: bool,
    pub no_bias: bool,
}

/// A convolution of any kernel in one to three dimensions.
#[derive(Debug, Clone)]
pub struct Conv {
    weight: Tensor,
    bias: Option<Tensor>,
    config: ConvConfig,
}

pub fn conv(
    in_channels: usize,
    out_channels: usize,
    kernel: &[usize],
    config: ConvConfig,
    vb: VarBuilder,
) -> Result<Conv> {
    let groups = config.groups.max(1);
    let first = if config.transposed {
        [in_channels, out_channels / groups]
    } else {
        [out_channels, in_channels / groups]
    };
    let weight = vb.get([&first[..], kernel].concat(), "weight")?;
    let bias = if config.no_bias {
        None
    } else {
        Some(vb.get(out_channels, "bias")?)
    };
    Ok(Conv {
        weight,
        bias,
        config,
    })
}

impl Module for Conv {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let c = &self.config;
        let options = ops::Conv {
            bias: self.bias.as_ref(),
            stride: &c.stride,
            padding: &c.padding,
            dilation: &c.dilation,
            groups: c.groups,
            same: c.same,
            output_padding: &c.output_padding,
        };
        if c.transposed {
            ops::conv_transpose2d(x, &self.weight, options)
        } else {
            ops::conv2d(x, &self.weight, options)
        }
    }
}

/// Rows that a layer keeps of the tokens that it has seen, `[batch, heads, tokens, width]`. A clone goes on by itself.
#[derive(Debug, Clone, Default)]
pub struct CacheRows {
    /// With room for rows to come; nobody else's while `owner` has no clone.
    buffer: Option<Tensor>,
    owner: Arc<()>,
    len: usize,
}

impl CacheRows {
    /// Rows that a buffer gets at a time.
    const ROOM: usize = 256;

    /// The rows so far with those of new tokens behind them: as many for every sequence of the batch.
    pub fn append(&mut self, new: &Tensor) -> Result<Tensor> {
        let (axis, count) = (new.rank() - 2, new.dim(D::Minus2)?);
        let buffer = match &self.buffer {
            Some(rows) if rows.dim(0)? != new.dim(0)? => bail!(
                "the cache has {} sequences and the new tokens are of {}: the sequences of a batch have one length, \
                 they begin and go on together; one of another length needs a cache of its own",
                rows.dim(0)?,
                new.dim(0)?
            ),
            Some(rows) if Arc::strong_count(&self.owner) == 1 && self.len + count <= rows.dim(axis)? => {
                rows.clone()
            }
            earlier => {
                let mut dims = new.dims().to_vec();
                dims[axis] = (self.len + count).next_multiple_of(Self::ROOM);
                let larger = Tensor::zeros(dims, new.dtype(), new.device())?;
                if let Some(rows) = earlier {
                    larger.slice_set(&rows.narrow(axis, 0, self.len)?.contiguous()?, axis, 0)?;
                }
                self.owner = Arc::new(());
                larger
            }
        };
        buffer.slice_set(&new.contiguous()?, axis, self.len)?;
        self.len += count;
        let all = buffer.narrow(axis, 0, self.len)?;
        self.buffer = Some(buffer);
        Ok(all)
    }
}

/// The caches of layers that are alike; those that nobody has asked for yet are empty.
#[derive(Debug, Clone)]
pub struct CacheList<T> {
    caches: Vec<T>,
}

impl<T> Default for CacheList<T> {
    fn default() -> Self {
        Self { caches: Vec::new() }
    }
}

impl<T: Default> CacheList<T> {
    /// The cache of layer i.
    pub fn at(&mut self, i: usize) -> &mut T {
        if i >= self.caches.len() {
            self.caches.resize_with(i + 1, T::default);
        }
        &mut self.caches[i]
    }
}

/// What a recurrent layer is made of.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentConfig {
    pub num_layers: usize,
    pub bias: bool,
    pub batch_first: bool,
    pub bidirectional: bool,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self {
            num_layers: 1,
            bias: true,
            batch_first: false,
            bidirectional: false,
        }
    }
}

/// `nn.LSTM`, `nn.GRU` or `nn.RNN`, starting from zeros.
#[derive(Debug, Clone)]
pub struct Recurrent {
    cell: Cell,
    hidden: usize,
    params: Vec<Tensor>,
    config: RecurrentConfig,
}

fn recurrent(
    cell: Cell,
    input: usize,
    hidden: usize,
    config: RecurrentConfig,
    vb: VarBuilder,
) -> Result<Recurrent> {
    let gates = match cell {
        Cell::Lstm => 4,
        Cell::Gru => 3,
        Cell::Tanh | Cell::Relu => 1,
    };
    let directions = if config.bidirectional {
        &["", "_reverse"][..]
    } else {
        &[""]
    };
    let mut params = Vec::new();
    for layer in 0..config.num_layers {
        let width = if layer == 0 {
            input
        } else {
            hidden * directions.len()
        };
        for direction in directions {
            params.push(vb.get(
                (gates * hidden, width),
                &format!("weight_ih_l{layer}{direction}"),
            )?);
            params.push(vb.get(
                (gates * hidden, hidden),
                &format!("weight_hh_l{layer}{direction}"),
            )?);
            if config.bias {
                params.push(vb.get(gates * hidden, &format!("bias_ih_l{layer}{direction}"))?);
                params.push(vb.get(gates * hidden, &format!("bias_hh_l{layer}{direction}"))?);
            }
        }
    }
    Ok(Recurrent {
        cell,
        hidden,
        params,
        config,
    })
}

pub fn lstm(
    input: usize,
    hidden: usize,
    config: RecurrentConfig,
    vb: VarBuilder,
) -> Result<Recurrent> {
    recurrent(Cell::Lstm, input, hidden, config, vb)
}

pub fn gru(
    input: usize,
    hidden: usize,
    config: RecurrentConfig,
    vb: VarBuilder,
) -> Result<Recurrent> {
    recurrent(Cell::Gru, input, hidden, config, vb)
}

/// `nonlinearity` is "tanh" or "relu".
pub fn rnn(
    input: usize,
    hidden: usize,
    nonlinearity: &str,
    config: RecurrentConfig,
    vb: VarBuilder,
) -> Result<Recurrent> {
    match nonlinearity {
        "tanh" => recurrent(Cell::Tanh, input, hidden, config, vb),
        "relu" => recurrent(Cell::Relu, input, hidden, config, vb),
        other => bail!("a recurrent layer has no nonlinearity {other}"),
    }
}

impl Recurrent {
    /// Output, the last h, and the last c (of an LSTM).
    pub fn forward(&self, x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let c = &self.config;
        let batch = x.dim(usize::from(!c.batch_first))?;
        let count = c.num_layers * if c.bidirectional { 2 } else { 1 };
        let zeros = Tensor::zeros((count, batch, self.hidden), x.dtype(), x.device())?;
        let params: Vec<&Tensor> = self.params.iter().collect();
        let options = ops::Recurrent {
            num_layers: c.num_layers,
            has_biases: c.bias,
            bidirectional: c.bidirectional,
            batch_first: c.batch_first,
        };
        let [output, h, c] = ops::recurrent(self.cell, x, &zeros, &zeros, &params, options)?;
        Ok((output, h, c))
    }
}

/// `nn.MultiheadAttention` of a batch to itself, without masks.
#[derive(Debug, Clone)]
pub struct SelfAttention {
    in_proj: Linear,
    out_proj: Linear,
    heads: usize,
    batch_first: bool,
}

pub fn self_attention(
    width: usize,
    heads: usize,
    bias: bool,
    batch_first: bool,
    vb: VarBuilder,
) -> Result<SelfAttention> {
    let in_bias = if bias {
        Some(vb.get(3 * width, "in_proj_bias")?)
    } else {
        None
    };
    let in_proj = Linear::new(vb.get((3 * width, width), "in_proj_weight")?, in_bias);
    let out_proj = candle_nn::linear_b(width, width, bias, vb.pp("out_proj"))?;
    Ok(SelfAttention {
        in_proj,
        out_proj,
        heads,
        batch_first,
    })
}

impl Module for SelfAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let swapped = |x: &Tensor| {
            if self.batch_first {
                Ok(x.clone())
            } else {
                x.transpose(0, 1)?.contiguous()
            }
        };
        let projected = self.in_proj.forward(&swapped(x)?)?;
        let parts = projected.chunk(3, 2)?;
        let heads = |part: &Tensor| ops::split_heads(part, self.heads);
        let (q, k, v) = (heads(&parts[0])?, heads(&parts[1])?, heads(&parts[2])?);
        let y = ops::scaled_dot_product_attention(&q, &k, &v, ops::Attention::default())?;
        swapped(&self.out_proj.forward(&ops::merge_heads(&y)?)?)
    }
}
