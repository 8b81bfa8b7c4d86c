//! Scaled dot-product attention, with the masks that models build around it.

use candle_core::{DType, Result, Tensor, D};

use super::{matmul, wide_of};

/// What attention takes beside query, key and value.
#[derive(Debug, Clone, Default)]
pub struct Attention<'a> {
    /// Booleans that say who attends, or numbers that are added to the scores.
    pub attn_mask: Option<&'a Tensor>,
    /// Booleans `[keys]` or `[batch, keys]`: the keys that are there.
    pub key_mask: Option<&'a Tensor>,
    /// Query i attends to keys up to i + `query_offset`.
    pub is_causal: bool,
    /// 1 / sqrt(width) when it is not given.
    pub scale: Option<f64>,
    /// Of the keys up to its own a query sees the last so many.
    pub window: Option<usize>,
    pub query_offset: usize,
    /// What is added to the scores of other keys, in place of minus infinity.
    pub masked_bias: Option<f64>,
    /// Every step rounds to the dtype, and a query that attends nowhere gives NaN.
    pub eager: bool,
}

/// Each head of keys or values serves as many heads of queries in a row.
fn repeat_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let rank = x.rank();
    if rank < 3 || x.dim(rank - 3)? == heads || x.dim(rank - 3)? == 1 {
        return Ok(x.clone());
    }
    super::repeat_interleave(x, heads / x.dim(rank - 3)?, rank as i64 - 3)
}

/// 1 where a query attends to a key, `[queries, keys]`.
fn structure(
    queries: usize,
    keys: usize,
    options: &Attention,
    x: &Tensor,
) -> Result<Option<Tensor>> {
    let sees_all = !options.is_causal || options.query_offset + 1 >= keys;
    if sees_all && options.window.is_none() {
        return Ok(None);
    }
    let allowed = |query: usize, key: usize| {
        let here = query + options.query_offset;
        let causal = !options.is_causal || key <= here;
        causal && options.window.is_none_or(|window| key + window > here)
    };
    let mask = (0..queries).flat_map(|q| (0..keys).map(move |k| u8::from(allowed(q, k))));
    Ok(Some(Tensor::from_vec(
        mask.collect::<Vec<_>>(),
        (queries, keys),
        x.device(),
    )?))
}

fn masked(scores: &Tensor, mask: &Tensor, bias: Option<f64>) -> Result<Tensor> {
    match bias {
        Some(bias) => {
            let nothing = Tensor::zeros((), scores.dtype(), scores.device())?;
            let bias = super::full(&[], bias, scores.dtype(), scores.device())?;
            scores.broadcast_add(&super::where_cond(mask, &nothing, &bias)?)
        }
        None => super::where_cond(mask, scores, f64::NEG_INFINITY),
    }
}

/// softmax(query · keyᵀ · scale + mask) · value.
///
/// Keys and values may have fewer heads than the queries. A query that attends nowhere gives zeros.
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: Attention,
) -> Result<Tensor> {
    let (dtype, rank) = (query.dtype(), query.rank());
    #[cfg(feature = "flash-attn")]
    if let Some(y) = flash(query, key, value, &options)? {
        return Ok(y);
    }
    let wide = if options.eager { dtype } else { wide_of(dtype) };
    let heads = if rank >= 3 { query.dim(rank - 3)? } else { 1 };
    let query = query.to_dtype(wide)?;
    let key = repeat_heads(&key.to_dtype(wide)?, heads)?;
    let value = repeat_heads(&value.to_dtype(wide)?, heads)?;
    let scale = options
        .scale
        .unwrap_or(1.0 / (query.dim(D::Minus1)? as f64).sqrt());
    let mut scores = (matmul(&query, &key.transpose(D::Minus2, D::Minus1)?)? * scale)?;
    let (queries, keys) = (scores.dim(D::Minus2)?, scores.dim(D::Minus1)?);
    if let Some(mask) = structure(queries, keys, &options, &scores)? {
        scores = masked(&scores, &mask, options.masked_bias)?;
    }
    if let Some(mask) = options.key_mask {
        let mask = match mask.rank() {
            1 => mask.clone(),
            _ => {
                let mut dims = vec![1; scores.rank()];
                dims[0] = mask.dim(0)?;
                dims[scores.rank() - 1] = mask.dim(1)?;
                mask.reshape(dims)?
            }
        };
        scores = masked(&scores, &mask, options.masked_bias)?;
    }
    if let Some(mask) = options.attn_mask {
        scores = match mask.dtype() {
            DType::U8 => masked(&scores, mask, None)?,
            _ => scores.broadcast_add(&mask.to_dtype(wide)?)?,
        };
    }
    let mut weights = super::softmax(&scores, -1)?;
    let has_masks = options.key_mask.is_some() || options.attn_mask.is_some();
    if !options.eager && (has_masks || options.window.is_some()) {
        // nothing to attend to: 0 in place of NaN
        let nowhere = scores.max_keepdim(D::Minus1)?.eq(f64::NEG_INFINITY)?;
        weights = super::where_cond(&nowhere, 0.0, &weights)?;
    }
    matmul(&weights, &value)?.to_dtype(dtype)
}

/// softmax(query · keyᵀ / sqrt(width)) · value, where query i attends to keys up to i.
pub fn causal_attention(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
    let options = Attention {
        is_causal: true,
        ..Default::default()
    };
    scaled_dot_product_attention(query, key, value, options)
}

/// The same for the last tokens of a sequence: the keys begin with those of the tokens before them.
pub fn cached_attention(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
    cached_attention_with(query, key, value, Attention::default())
}

pub fn cached_attention_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: Attention,
) -> Result<Tensor> {
    let options = Attention {
        is_causal: true,
        query_offset: key.dim(D::Minus2)? - query.dim(D::Minus2)?,
        ..options
    };
    scaled_dot_product_attention(query, key, value, options)
}

/// The kernel of `candle-flash-attn`, where it computes the same: half precision on CUDA, without a mask that is data.
#[cfg(feature = "flash-attn")]
fn flash(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: &Attention,
) -> Result<Option<Tensor>> {
    let is_half = matches!(query.dtype(), DType::F16 | DType::BF16);
    let has_mask = options.attn_mask.is_some() || options.key_mask.is_some();
    let is_plain = options.window.is_none() && !options.eager;
    // the kernel lines up the ends of queries and keys
    let end = query.dim(D::Minus2)? + options.query_offset;
    let lined_up = !options.is_causal || end == key.dim(D::Minus2)?;
    let fits = query.rank() == 4 && query.dim(D::Minus1)? <= 256;
    if !query.device().is_cuda() || !is_half || has_mask || !is_plain || !lined_up || !fits {
        return Ok(None);
    }
    let scale = options
        .scale
        .unwrap_or(1.0 / (query.dim(D::Minus1)? as f64).sqrt());
    let by_length = |x: &Tensor| x.transpose(1, 2);
    let (q, k, v) = (by_length(query)?, by_length(key)?, by_length(value)?);
    let y = candle_flash_attn::flash_attn(&q, &k, &v, scale as f32, options.is_causal)?;
    by_length(&y).map(Some)
}

/// How `rotary_embedding` pairs the elements of the last axis.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rotary {
    /// Neighbours are a pair (GPT-J), not elements half the width apart (Llama).
    pub interleaved: bool,
    /// cos and sin have one element for each pair.
    pub paired: bool,
    /// Where cos and sin lack the axis of the heads.
    pub unsqueeze_dim: Option<i64>,
}

fn halves(x: &Tensor, interleaved: bool) -> Result<(Tensor, Tensor)> {
    let size = x.dim(D::Minus1)?;
    if interleaved {
        return Ok((
            super::slice(x, -1, 0, size, 2)?,
            super::slice(x, -1, 1, size, 2)?,
        ));
    }
    Ok((
        x.narrow(D::Minus1, 0, size / 2)?,
        x.narrow(D::Minus1, size / 2, size - size / 2)?,
    ))
}

fn joined(first: &Tensor, second: &Tensor, x: &Tensor, interleaved: bool) -> Result<Tensor> {
    if !interleaved {
        return Tensor::cat(&[first, second], D::Minus1);
    }
    Tensor::stack(&[first, second], first.rank())?.reshape(x.shape())
}

/// Llama's rotary embedding of heads: cos and sin are `[batch, sequence, width]`.
pub fn rotary(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let options = Rotary {
        unsqueeze_dim: Some(1),
        ..Default::default()
    };
    rotary_embedding(x, cos, sin, options)
}

/// Pairs of elements of x turned by the angles of cos and sin. What is behind them stays.
pub fn rotary_embedding(x: &Tensor, cos: &Tensor, sin: &Tensor, options: Rotary) -> Result<Tensor> {
    let with_heads = |t: &Tensor| match options.unsqueeze_dim {
        Some(axis) => t.unsqueeze(super::axis_of(axis, t.rank() + 1)?),
        None => Ok(t.clone()),
    };
    let (cos, sin) = (with_heads(cos)?, with_heads(sin)?);
    let size = x.dim(D::Minus1)?;
    let turned = cos.dim(D::Minus1)? * if options.paired { 2 } else { 1 };
    let part = x.narrow(D::Minus1, 0, turned)?;
    let (first, second) = halves(&part, options.interleaved)?;
    let y = if options.paired {
        let left = (super::mul(&first, &cos)? - super::mul(&second, &sin)?)?;
        let right = (super::mul(&second, &cos)? + super::mul(&first, &sin)?)?;
        joined(&left, &right, &part, options.interleaved)?
    } else {
        let quarter = joined(&second.neg()?, &first, &part, options.interleaved)?;
        (super::mul(&part, &cos)? + super::mul(&quarter, &sin)?)?
    };
    if turned == size {
        return Ok(y);
    }
    let rest = x
        .narrow(D::Minus1, turned, size - turned)?
        .to_dtype(y.dtype())?;
    Tensor::cat(&[&y, &rest], D::Minus1)
}
