//! Many elements to one.

use candle_core::{DType, Result, Tensor, D};

use super::host;
use super::operand::is_float;
use super::{axes_of, axis_of};

/// The elements of `axes` moved to the end, as rows: (rows, what stays).
fn rows(x: &Tensor, axes: &[i64]) -> Result<(Tensor, Vec<usize>, Vec<usize>)> {
    let rank = x.rank();
    let gone = if axes.is_empty() {
        (0..rank).collect()
    } else {
        axes_of(axes, rank)?
    };
    let kept: Vec<usize> = (0..rank).filter(|axis| !gone.contains(axis)).collect();
    let order: Vec<usize> = kept.iter().chain(&gone).copied().collect();
    let count: usize = kept.iter().map(|&axis| x.dim(axis).unwrap_or(1)).product();
    let size: usize = gone.iter().map(|&axis| x.dim(axis).unwrap_or(1)).product();
    let rows = if rank == 0 {
        x.clone()
    } else {
        x.permute(order)?
    };
    Ok((rows.contiguous()?.reshape((count, size))?, kept, gone))
}

fn shaped(y: Tensor, x: &Tensor, kept: &[usize], gone: &[usize], keep: bool) -> Result<Tensor> {
    let dims: Vec<usize> = if keep {
        (0..x.rank())
            .map(|axis| {
                if gone.contains(&axis) {
                    1
                } else {
                    x.dims()[axis]
                }
            })
            .collect()
    } else {
        kept.iter().map(|&axis| x.dims()[axis]).collect()
    };
    y.reshape(dims)
}

fn reduced(
    x: &Tensor,
    axes: &[i64],
    keep: bool,
    f: impl Fn(&[f64]) -> f64,
    g: impl Fn(&[i64]) -> i64,
) -> Result<Tensor> {
    let (rows, kept, gone) = rows(x, axes)?;
    let (count, size) = rows.dims2()?;
    let range = |row: usize| row * size..(row + 1) * size;
    let y = if is_float(x.dtype()) {
        let values = host::floats(&rows)?;
        host::from_floats(
            (0..count).map(|row| f(&values[range(row)])).collect(),
            x,
            count,
        )?
    } else {
        let values = host::integers(&rows)?;
        host::from_integers(
            (0..count).map(|row| g(&values[range(row)])).collect(),
            x,
            count,
        )?
    };
    shaped(y, x, &kept, &gone, keep)
}

fn largest(row: &[f64]) -> f64 {
    row.iter().fold(
        f64::NEG_INFINITY,
        |a, &b| if b > a || b.is_nan() { b } else { a },
    )
}

/// All axes when none is given; the sum is rounded once.
pub fn sum(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    reduced(
        x,
        axes,
        keep,
        |row| row.iter().sum(),
        |row| row.iter().sum(),
    )
}

pub fn prod(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    reduced(
        x,
        axes,
        keep,
        |row| row.iter().product(),
        |row| row.iter().product(),
    )
}

pub fn mean(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    reduced(
        x,
        axes,
        keep,
        |row| row.iter().sum::<f64>() / row.len() as f64,
        |_| 0,
    )
}

/// NaN where there is one.
pub fn max(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    reduced(x, axes, keep, largest, |row| {
        row.iter().copied().max().unwrap_or(i64::MIN)
    })
}

pub fn min(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    let smallest = |row: &[f64]| -largest(&row.iter().map(|v| -v).collect::<Vec<_>>());
    reduced(x, axes, keep, smallest, |row| {
        row.iter().copied().min().unwrap_or(i64::MAX)
    })
}

fn truths(x: &Tensor, axes: &[i64], keep: bool, all: bool) -> Result<Tensor> {
    let set = super::to_bool(x)?;
    let holds = |row: &[i64]| {
        if all {
            row.iter().all(|&v| v != 0)
        } else {
            row.iter().any(|&v| v != 0)
        }
    };
    reduced(&set, axes, keep, |_| 0.0, |row| i64::from(holds(row)))
}

pub fn all(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    truths(x, axes, keep, true)
}

pub fn any(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    truths(x, axes, keep, false)
}

/// The variance, divided by n - correction.
pub fn var(x: &Tensor, axes: &[i64], correction: f64, keep: bool) -> Result<Tensor> {
    let of = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        let squares: f64 = row.iter().map(|v| (v - mean) * (v - mean)).sum();
        squares / (row.len() as f64 - correction).max(0.0)
    };
    reduced(x, axes, keep, of, |_| 0)
}

pub fn std(x: &Tensor, axes: &[i64], correction: f64, keep: bool) -> Result<Tensor> {
    super::sqrt(&var(x, axes, correction, keep)?)
}

/// (sum of |x|^order)^(1 / order); also of infinite order, and of 0: how many are not 0.
pub fn vector_norm(x: &Tensor, axes: &[i64], order: f64, keep: bool) -> Result<Tensor> {
    let of = |row: &[f64]| {
        let sizes = row.iter().map(|v| v.abs());
        if order == f64::INFINITY {
            largest(&sizes.collect::<Vec<_>>())
        } else if order == 0.0 {
            sizes.filter(|v| *v != 0.0).count() as f64
        } else if order == 2.0 {
            sizes.map(|v| v * v).sum::<f64>().sqrt()
        } else {
            sizes.map(|v| v.powf(order)).sum::<f64>().powf(1.0 / order)
        }
    };
    reduced(x, axes, keep, of, |_| 0)
}

fn chosen(x: &Tensor, axis: i64, better: impl Fn(f64, f64) -> bool) -> Result<Tensor> {
    let (rows, kept, gone) = rows(x, &[axis])?;
    let (count, size) = rows.dims2()?;
    let values = host::floats(&rows)?;
    let of = |row: &[f64]| {
        let mut best = 0;
        for (i, &v) in row.iter().enumerate() {
            if !row[best].is_nan() && (better(v, row[best]) || v.is_nan()) {
                best = i;
            }
        }
        best as i64
    };
    let places: Vec<i64> = (0..count)
        .map(|row| of(&values[row * size..(row + 1) * size]))
        .collect();
    shaped(
        Tensor::from_vec(places, count, x.device())?,
        x,
        &kept,
        &gone,
        false,
    )
}

/// The place of the first largest element, I64.
pub fn argmax(x: &Tensor, axis: i64) -> Result<Tensor> {
    chosen(x, axis, |a, b| a > b)
}

pub fn argmin(x: &Tensor, axis: i64) -> Result<Tensor> {
    chosen(x, axis, |a, b| a < b)
}

fn running(
    x: &Tensor,
    axis: i64,
    f: impl Fn(f64, f64) -> f64,
    g: impl Fn(i64, i64) -> i64,
) -> Result<Tensor> {
    let (outer, size, inner) = host::around(x.dims(), axis_of(axis, x.rank())?);
    let steps = (0..outer).flat_map(|o| {
        (0..inner).flat_map(move |i| (1..size).map(move |s| (o * size + s) * inner + i))
    });
    if is_float(x.dtype()) {
        let mut values = host::floats(x)?;
        steps.for_each(|at| values[at] = f(values[at - inner], values[at]));
        host::from_floats(values, x, x.dims())
    } else {
        let mut values = host::integers(x)?;
        steps.for_each(|at| values[at] = g(values[at - inner], values[at]));
        host::from_integers(values, x, x.dims())
    }
}

pub fn cumsum(x: &Tensor, axis: i64) -> Result<Tensor> {
    running(x, axis, |a, b| a + b, |a, b| a.wrapping_add(b))
}

pub fn cumprod(x: &Tensor, axis: i64) -> Result<Tensor> {
    running(x, axis, |a, b| a * b, |a, b| a.wrapping_mul(b))
}

/// ln(sum(exp(x))).
pub fn logsumexp(x: &Tensor, axes: &[i64], keep: bool) -> Result<Tensor> {
    let of = |row: &[f64]| {
        let top = largest(row);
        if top.is_infinite() {
            return top;
        }
        row.iter().map(|v| (v - top).exp()).sum::<f64>().ln() + top
    };
    reduced(x, axes, keep, of, |_| 0)
}

/// Along one axis; f16 and bf16 are computed in f32.
pub fn softmax(x: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    if x.rank() == 0 {
        return x.ones_like();
    }
    let wide = super::widened(x)?;
    let y = if axis + 1 == x.rank() {
        candle_nn::ops::softmax_last_dim(&wide.contiguous()?)?
    } else {
        candle_nn::ops::softmax(&wide, axis)?
    };
    y.to_dtype(x.dtype())
}

pub fn log_softmax(x: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    if x.rank() == 0 {
        return x.zeros_like();
    }
    candle_nn::ops::log_softmax(&super::widened(x)?, axis)?.to_dtype(x.dtype())
}

/// The order of the elements of one axis: NaN counts as larger than all.
fn order_of(row: &[f64], descending: bool) -> Vec<u32> {
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    let key = |i: &u32| row[*i as usize];
    let compare = |a: &u32, b: &u32| match (key(a).is_nan(), key(b).is_nan()) {
        (false, false) => key(a).total_cmp(&(key(b) + 0.0)),
        (a, b) => a.cmp(&b),
    };
    order.sort_by(|a, b| {
        if descending {
            compare(b, a)
        } else {
            compare(a, b)
        }
    });
    order
}

/// Values and their places (I64), equal ones in their order.
pub fn sort(x: &Tensor, axis: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    let axis = axis_of(axis, x.rank())?;
    if x.rank() == 0 {
        return Ok((x.clone(), x.zeros_like()?.to_dtype(DType::I64)?));
    }
    let last = x.transpose(axis, D::Minus1)?.contiguous()?;
    let size = last.dim(D::Minus1)?;
    let values = host::floats(&last)?;
    let rows = values.chunks(size.max(1));
    let places: Vec<u32> = rows.flat_map(|row| order_of(row, descending)).collect();
    let places = Tensor::from_vec(places, last.dims(), x.device())?;
    let sorted = last
        .gather(&places, D::Minus1)?
        .transpose(axis, D::Minus1)?
        .contiguous()?;
    Ok((
        sorted,
        places
            .to_dtype(DType::I64)?
            .transpose(axis, D::Minus1)?
            .contiguous()?,
    ))
}

/// The k largest (or smallest) elements, sorted, and their places (I64).
pub fn topk(x: &Tensor, k: usize, axis: i64, largest: bool) -> Result<(Tensor, Tensor)> {
    let (values, places) = sort(x, axis, largest)?;
    let axis = axis_of(axis, x.rank())?;
    Ok((
        values.narrow(axis, 0, k)?.contiguous()?,
        places.narrow(axis, 0, k)?.contiguous()?,
    ))
}
