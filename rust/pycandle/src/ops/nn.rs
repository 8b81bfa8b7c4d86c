//! Norms and recurrent layers as functions.

use candle_core::{bail, DType, Result, Tensor, D};

use super::{axis_of, linear, sigmoid, wide_of, widened};

fn affine(y: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let mut y = y.clone();
    if let Some(weight) = weight {
        y = y.broadcast_mul(&weight.to_dtype(y.dtype())?)?;
    }
    if let Some(bias) = bias {
        y = y.broadcast_add(&bias.to_dtype(y.dtype())?)?;
    }
    Ok(y)
}

/// Over the last axes as rows: what `f` makes of them.
fn over_last(x: &Tensor, axes: usize, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let kept: usize = x.dims()[..x.rank() - axes].iter().product();
    f(&x.contiguous()?.reshape((kept, ()))?)?.reshape(x.shape())
}

/// (x - mean) / sqrt(var + eps) over the last `axes` axes, then weight and bias; f16 and bf16 in f32.
pub fn layer_norm(
    x: &Tensor,
    axes: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let y = over_last(&widened(x)?, axes, |rows| {
        let centred = rows.broadcast_sub(&rows.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        centred.broadcast_div(&(variance + eps)?.sqrt()?)
    })?;
    affine(&y, weight, bias)?.to_dtype(x.dtype())
}

/// How `rms_norm` rounds and what it multiplies with.
#[derive(Debug, Clone, Copy, Default)]
pub struct RmsNorm<'a> {
    pub weight: Option<&'a Tensor>,
    /// Two roundoffs of the dtype it is computed in when it is not given.
    pub eps: Option<f64>,
    pub compute_dtype: Option<DType>,
    /// To the dtype of x before the weight, as Llama's and T5's do.
    pub round_before_weight: bool,
    /// Added to the weight: Gemma's is kept less 1.
    pub weight_offset: f64,
}

/// x / sqrt(mean(x²) + eps) over the last `axes` axes, then the weight.
pub fn rms_norm(x: &Tensor, axes: usize, options: RmsNorm) -> Result<Tensor> {
    let dtype = options.compute_dtype.unwrap_or(wide_of(x.dtype()));
    let roundoff = if dtype == DType::F64 {
        f64::EPSILON
    } else {
        f64::from(f32::EPSILON)
    };
    let eps = options.eps.unwrap_or(roundoff);
    let mut y = over_last(&x.to_dtype(dtype)?, axes, |rows| {
        rows.broadcast_div(&(rows.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?)
    })?;
    if options.round_before_weight {
        y = y.to_dtype(x.dtype())?;
    }
    if let Some(weight) = options.weight {
        y = y.broadcast_mul(&(weight.to_dtype(y.dtype())? + options.weight_offset)?)?;
    }
    y.to_dtype(x.dtype())
}

/// One number for each channel, which is axis 1.
fn channels(x: &Tensor, like: &Tensor) -> Result<Tensor> {
    let mut dims = vec![1; like.rank()];
    dims[1] = x.elem_count();
    widened(x)?.reshape(dims)
}

/// With the statistics of training.
pub fn batch_norm(
    x: &Tensor,
    mean: &Tensor,
    var: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let root = (channels(var, x)? + eps)?.sqrt()?;
    let y = widened(x)?
        .broadcast_sub(&channels(mean, x)?)?
        .broadcast_div(&root)?;
    let (weight, bias) = (
        weight.map(|w| channels(w, x)).transpose()?,
        bias.map(|b| channels(b, x)).transpose()?,
    );
    affine(&y, weight.as_ref(), bias.as_ref())?.to_dtype(x.dtype())
}

/// Each group of channels by its own mean and variance.
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let rows = widened(x)?
        .contiguous()?
        .reshape((x.dim(0)? * groups, ()))?;
    let y = layer_norm(&rows, 1, None, None, eps)?.reshape(x.shape())?;
    let (weight, bias) = (
        weight.map(|w| channels(w, x)).transpose()?,
        bias.map(|b| channels(b, x)).transpose()?,
    );
    affine(&y, weight.as_ref(), bias.as_ref())?.to_dtype(x.dtype())
}

pub fn instance_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    group_norm(x, x.dim(1)?, weight, bias, eps)
}

/// 0.5 * x * (1 + erf(x / sqrt 2)) of all dtypes; Candle's `gelu_erf` is the same in f32.
pub fn gelu(x: &Tensor, tanh: bool) -> Result<Tensor> {
    let wide = widened(x)?;
    if tanh { wide.gelu() } else { wide.gelu_erf() }?.to_dtype(x.dtype())
}

/// Half of the axis times the sigmoid of the other half.
pub fn glu(x: &Tensor, dim: i64) -> Result<Tensor> {
    let parts = x.chunk(2, axis_of(dim, x.rank())?)?;
    &parts[0] * sigmoid(&parts[1])?
}

/// A slope for each channel, or one for all, below 0.
pub fn prelu(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let slope = if weight.elem_count() > 1 && x.rank() > 1 {
        channels(weight, x)?
    } else {
        weight.clone()
    };
    let below = super::mul(&super::minimum(x, 0.0)?, &slope)?;
    super::maximum(x, 0.0)? + below
}

/// Which recurrent layer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// What recurrent layers take beside their parameters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recurrent {
    pub num_layers: usize,
    pub has_biases: bool,
    pub bidirectional: bool,
    pub batch_first: bool,
}

struct Weights<'a> {
    w_ih: &'a Tensor,
    w_hh: &'a Tensor,
    b_ih: Option<&'a Tensor>,
    b_hh: Option<&'a Tensor>,
    /// Of an LSTM whose h is projected.
    w_hr: Option<&'a Tensor>,
}

/// One step: the next (h, c).
fn step(
    cell: Cell,
    from_x: &Tensor,
    h: &Tensor,
    c: &Tensor,
    w: &Weights,
) -> Result<(Tensor, Tensor)> {
    let from_h = linear(h, w.w_hh, w.b_hh)?;
    match cell {
        Cell::Tanh => Ok(((from_x + from_h)?.tanh()?, c.clone())),
        Cell::Relu => Ok(((from_x + from_h)?.relu()?, c.clone())),
        Cell::Lstm => {
            let gates = (from_x + from_h)?.chunk(4, 1)?;
            let (i, f, o) = (
                sigmoid(&gates[0])?,
                sigmoid(&gates[1])?,
                sigmoid(&gates[3])?,
            );
            let c = ((f * c)? + (i * gates[2].tanh()?)?)?;
            let h = (o * c.tanh()?)?;
            match w.w_hr {
                Some(weight) => Ok((linear(&h, weight, None)?, c)),
                None => Ok((h, c)),
            }
        }
        Cell::Gru => {
            let (x, h3) = (from_x.chunk(3, 1)?, from_h.chunk(3, 1)?);
            let reset = sigmoid(&(&x[0] + &h3[0])?)?;
            let update = sigmoid(&(&x[1] + &h3[1])?)?;
            let new = (&x[2] + (reset * &h3[2])?)?.tanh()?;
            let next = (((1.0 - &update)? * new)? + (update * h)?)?;
            Ok((next, c.clone()))
        }
    }
}

/// All steps of one direction of one layer over x, [length, batch, width].
fn direction(
    cell: Cell,
    x: &Tensor,
    h: Tensor,
    c: Tensor,
    w: &Weights,
    backwards: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let length = x.dim(0)?;
    let from_x = linear(x, w.w_ih, w.b_ih)?;
    let (mut h, mut c) = (h, c);
    let mut outputs = Vec::with_capacity(length);
    for n in 0..length {
        let at = if backwards { length - 1 - n } else { n };
        (h, c) = step(cell, &from_x.get(at)?, &h, &c, w)?;
        outputs.push(h.clone());
    }
    if backwards {
        outputs.reverse();
    }
    Ok((Tensor::stack(&outputs, 0)?, h, c))
}

/// Output, last h and last c (of LSTM) of nn.LSTM, nn.GRU and nn.RNN. `params` are in PyTorch's order.
pub fn recurrent(
    cell: Cell,
    x: &Tensor,
    h0: &Tensor,
    c0: &Tensor,
    params: &[&Tensor],
    options: Recurrent,
) -> Result<[Tensor; 3]> {
    let unbatched = x.rank() == 2;
    let batch_axis = usize::from(!options.batch_first);
    let with_batch = |t: &Tensor, axis: usize| {
        if unbatched {
            t.unsqueeze(axis)
        } else {
            Ok(t.clone())
        }
    };
    let mut y = with_batch(x, if unbatched { 1 } else { batch_axis })?;
    let (h0, c0) = (with_batch(h0, 1)?, with_batch(c0, 1)?);
    let by_time = options.batch_first && !unbatched;
    if by_time {
        y = y.transpose(0, 1)?.contiguous()?;
    }
    let directions = 1 + usize::from(options.bidirectional);
    let count = options.num_layers * directions;
    let plain = if options.has_biases { 4 } else { 2 };
    let is_projected = cell == Cell::Lstm && params.len() == count * (plain + 1);
    let each = plain + usize::from(is_projected);
    if params.len() != count * each {
        bail!(
            "{} parameters of a recurrent layer, not {}",
            params.len(),
            count * each
        );
    }
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for layer in 0..options.num_layers {
        let mut outputs = Vec::new();
        for d in 0..directions {
            let n = layer * directions + d;
            let own = &params[n * each..(n + 1) * each];
            let w = Weights {
                w_ih: own[0],
                w_hh: own[1],
                b_ih: own[2..plain].first().copied(),
                b_hh: own[2..plain].last().copied(),
                w_hr: own.get(plain).copied(),
            };
            let (output, h, c) = direction(cell, &y, h0.get(n)?, c0.get(n)?, &w, d == 1)?;
            outputs.push(output);
            last_h.push(h);
            last_c.push(c);
        }
        y = Tensor::cat(&outputs, D::Minus1)?;
    }
    if by_time {
        y = y.transpose(0, 1)?.contiguous()?;
    }
    let (h, c) = (Tensor::stack(&last_h, 0)?, Tensor::stack(&last_c, 0)?);
    if unbatched {
        return Ok([y.squeeze(1)?, h.squeeze(1)?, c.squeeze(1)?]);
    }
    Ok([y, h, c])
}
