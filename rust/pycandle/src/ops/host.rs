//! Operators that Candle has no kernel for, computed where they can be computed exactly: in f64 or i64, rounded once.

use candle_core::{DType, Result, Shape, Tensor};

use super::operand::is_float;

pub(crate) fn floats(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

pub(crate) fn integers(x: &Tensor) -> Result<Vec<i64>> {
    x.to_dtype(DType::I64)?.flatten_all()?.to_vec1()
}

pub(crate) fn from_floats(
    values: Vec<f64>,
    like: &Tensor,
    shape: impl Into<Shape>,
) -> Result<Tensor> {
    Tensor::from_vec(values, shape.into(), like.device())?.to_dtype(like.dtype())
}

pub(crate) fn from_integers(
    values: Vec<i64>,
    like: &Tensor,
    shape: impl Into<Shape>,
) -> Result<Tensor> {
    Tensor::from_vec(values, shape.into(), like.device())?.to_dtype(like.dtype())
}

/// A function of floats; integers become f32, as PyTorch's do.
pub(crate) fn map(x: &Tensor, f: impl Fn(f64) -> f64) -> Result<Tensor> {
    let x = if is_float(x.dtype()) {
        x.clone()
    } else {
        x.to_dtype(DType::F32)?
    };
    let values = floats(&x)?.into_iter().map(f).collect();
    from_floats(values, &x, x.dims())
}

/// Two tensors of one dtype and shape; `f` for floats, `g` for integers.
pub(crate) fn zip(
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(f64, f64) -> f64,
    g: impl Fn(i64, i64) -> i64,
) -> Result<Tensor> {
    if is_float(a.dtype()) {
        let pairs = floats(a)?.into_iter().zip(floats(b)?);
        from_floats(pairs.map(|(a, b)| f(a, b)).collect(), a, a.dims())
    } else {
        let pairs = integers(a)?.into_iter().zip(integers(b)?);
        from_integers(pairs.map(|(a, b)| g(a, b)).collect(), a, a.dims())
    }
}

/// A tensor as [outer, axis, inner].
pub(crate) fn around(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    let size = dims.get(axis).copied().unwrap_or(1);
    (
        dims[..axis.min(dims.len())].iter().product(),
        size,
        dims[(axis + 1).min(dims.len())..].iter().product(),
    )
}

pub(crate) fn strides_of(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

/// The elements at these places of the flat tensor.
pub(crate) fn take_flat(x: &Tensor, places: Vec<u32>, shape: impl Into<Shape>) -> Result<Tensor> {
    let count = places.len();
    let places = Tensor::from_vec(places, count, x.device())?;
    x.contiguous()?
        .flatten_all()?
        .index_select(&places, 0)?
        .reshape(shape.into())
}

/// Every point of a shape, in order.
pub(crate) fn points(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let count: usize = dims.iter().product();
    let strides = strides_of(dims);
    (0..count).map(move |n| (0..dims.len()).map(|a| n / strides[a] % dims[a]).collect())
}
