//! Elements moved, not computed.

use candle_core::{bail, DType, Device, Result, Shape, Tensor};

use super::host::{self, around, points, strides_of, take_flat};
use super::{axes_of, axis_of};

/// Along `axis` from `start` to before `stop` in steps, as Python's x[start:stop:step].
pub fn slice(x: &Tensor, axis: i64, start: usize, stop: usize, step: usize) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let stop = stop.min(x.dim(axis)?).max(start);
    if step == 1 {
        return x.narrow(axis, start, stop - start);
    }
    let places: Vec<u32> = (start..stop).step_by(step).map(|i| i as u32).collect();
    let count = places.len();
    x.contiguous()?
        .index_select(&Tensor::from_vec(places, count, x.device())?, axis)
}

/// Parts of these sizes, one behind the other along the axis.
pub fn split<const N: usize>(x: &Tensor, sizes: [usize; N], axis: i64) -> Result<[Tensor; N]> {
    let axis = axis_of(axis, x.rank())?;
    let mut start = 0;
    let mut parts = Vec::with_capacity(N);
    for size in sizes {
        parts.push(x.narrow(axis, start, size)?.contiguous()?);
        start += size;
    }
    <[Tensor; N]>::try_from(parts)
        .map_err(|_| candle_core::Error::Msg("parts of other sizes".into()))
}

/// N equal parts.
pub fn chunk<const N: usize>(x: &Tensor, axis: i64) -> Result<[Tensor; N]> {
    let size = x.dim(axis_of(axis, x.rank())?)? / N;
    split(x, [size; N], axis)
}

/// To a larger shape; axis i of x is axis `axes[i]` of the result.
pub fn broadcast(x: &Tensor, shape: &[usize], axes: &[usize]) -> Result<Tensor> {
    let mut dims = vec![1; shape.len()];
    for (i, &axis) in axes.iter().enumerate() {
        dims[axis] = x.dim(i)?;
    }
    x.reshape(dims)?.broadcast_as(shape)
}

/// A constant around x: `low` before and `high` behind it on each axis. Negative ones cut off.
pub fn pad(x: &Tensor, low: &[i64], high: &[i64], value: f64) -> Result<Tensor> {
    let mut y = x.clone();
    for axis in 0..x.rank() {
        let (before, behind) = (low[axis], high[axis]);
        let size = y.dim(axis)? as i64;
        let (from, to) = ((-before).max(0), size - (-behind).max(0));
        if to < from {
            bail!(
                "padding of {before} and {behind} leaves nothing of axis {axis}, which has {size}"
            );
        }
        y = y.narrow(axis, from as usize, (to - from) as usize)?;
        let filled = |count: i64, y: &Tensor| -> Result<Tensor> {
            let mut dims = y.dims().to_vec();
            dims[axis] = count as usize;
            full(&dims, value, y.dtype(), y.device())
        };
        let mut parts = vec![y.clone()];
        if before > 0 {
            parts.insert(0, filled(before, &y)?);
        }
        if behind > 0 {
            parts.push(filled(behind, &y)?);
        }
        if parts.len() > 1 {
            y = Tensor::cat(&parts, axis)?;
        }
    }
    Ok(y)
}

fn padded_by(
    x: &Tensor,
    low: &[usize],
    high: &[usize],
    place: impl Fn(i64, i64) -> i64,
) -> Result<Tensor> {
    let mut y = x.clone();
    for axis in 0..x.rank() {
        if low[axis] == 0 && high[axis] == 0 {
            continue;
        }
        let size = y.dim(axis)? as i64;
        let places = -(low[axis] as i64)..size + high[axis] as i64;
        let places: Vec<u32> = places.map(|at| place(at, size) as u32).collect();
        let count = places.len();
        y = y
            .contiguous()?
            .index_select(&Tensor::from_vec(places, count, x.device())?, axis)?;
    }
    Ok(y)
}

/// Mirrored at the first and the last element, which are not repeated.
pub fn reflection_pad(x: &Tensor, low: &[usize], high: &[usize]) -> Result<Tensor> {
    padded_by(x, low, high, |at, size| {
        let inside = at.abs();
        if inside < size {
            inside
        } else {
            2 * (size - 1) - inside
        }
    })
}

/// The first and the last element repeated.
pub fn replication_pad(x: &Tensor, low: &[usize], high: &[usize]) -> Result<Tensor> {
    padded_by(x, low, high, |at, size| at.clamp(0, size - 1))
}

/// As if x went on from its start.
pub fn circular_pad(x: &Tensor, low: &[usize], high: &[usize]) -> Result<Tensor> {
    padded_by(x, low, high, |at, size| at.rem_euclid(size))
}

pub fn reverse(x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    let mut y = x.contiguous()?;
    for axis in axes_of(axes, x.rank())? {
        let size = y.dim(axis)? as u32;
        let places: Vec<u32> = (0..size).rev().collect();
        y = y.index_select(&Tensor::from_vec(places, size as usize, x.device())?, axis)?;
    }
    Ok(y)
}

pub fn roll(x: &Tensor, shifts: &[i64], axes: &[i64]) -> Result<Tensor> {
    let mut y = x.contiguous()?;
    for (&shift, axis) in shifts.iter().zip(axes_of(axes, x.rank())?) {
        let size = y.dim(axis)? as i64;
        let places: Vec<u32> = (0..size)
            .map(|at| (at - shift).rem_euclid(size) as u32)
            .collect();
        y = y.index_select(&Tensor::from_vec(places, size as usize, x.device())?, axis)?;
    }
    Ok(y)
}

/// Every element of the axis `repeats` times in a row.
pub fn repeat_interleave(x: &Tensor, repeats: usize, axis: i64) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let size = x.dim(axis)?;
    let places: Vec<u32> = (0..size * repeats)
        .map(|at| (at / repeats) as u32)
        .collect();
    x.contiguous()?
        .index_select(&Tensor::from_vec(places, size * repeats, x.device())?, axis)
}

fn triangle(x: &Tensor, keeps: impl Fn(i64, i64) -> bool) -> Result<Tensor> {
    let rank = x.rank();
    let (rows, columns) = (x.dim(rank - 2)?, x.dim(rank - 1)?);
    let mask =
        (0..rows * columns).map(|n| u8::from(keeps((n / columns) as i64, (n % columns) as i64)));
    let mask = Tensor::from_vec(mask.collect::<Vec<u8>>(), (rows, columns), x.device())?;
    mask.broadcast_as(x.shape())?
        .contiguous()?
        .where_cond(&x.contiguous()?, &x.zeros_like()?)
}

/// What is on the diagonal and below it.
pub fn tril(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, |row, column| column - row <= diagonal)
}

/// What is on the diagonal and above it.
pub fn triu(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle(x, |row, column| column - row >= diagonal)
}

/// Windows of `size` along the axis, `step` apart; their elements are a new last axis.
pub fn unfold(x: &Tensor, axis: i64, size: usize, step: usize) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let count = (x.dim(axis)? - size) / step + 1;
    let windows = (0..count).map(|i| {
        let window = x.narrow(axis, i * step, size)?.unsqueeze(axis)?;
        window
            .transpose(axis + 1, x.rank())
            .and_then(|w| w.contiguous())
    });
    let windows = windows.collect::<Result<Vec<_>>>()?;
    // the window's own axis went last, and what was last is where the axis was: put it back
    let mut parts = Vec::with_capacity(count);
    for window in windows {
        let mut order: Vec<usize> = (0..=x.rank()).collect();
        let moved = order.remove(axis + 1);
        if axis + 1 < x.rank() {
            order.insert(x.rank() - 1, moved);
        } else {
            order.insert(axis + 1, moved);
        }
        parts.push(window.permute(order)?.contiguous()?);
    }
    Tensor::cat(&parts, axis)
}

/// One value everywhere.
pub fn full(shape: &[usize], value: f64, dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::full(value, Shape::from(shape), device)?.to_dtype(dtype)
}

/// 0, 1, … in the dtype.
pub fn iota(size: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    arange(0, size as i64, 1, dtype, device)
}

/// From `start` to before `stop`, in the dtype.
pub fn arange(start: i64, stop: i64, step: i64, dtype: DType, device: &Device) -> Result<Tensor> {
    let mut values = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        values.push(at);
        at += step;
    }
    let count = values.len();
    Tensor::from_vec(values, count, device)?.to_dtype(dtype)
}

/// Diagonal number `offset` of the two axes, as the last axis.
pub fn diagonal(x: &Tensor, offset: i64, axis1: i64, axis2: i64) -> Result<Tensor> {
    let (one, two) = (axis_of(axis1, x.rank())?, axis_of(axis2, x.rank())?);
    let (rows, columns) = (x.dim(one)? as i64, x.dim(two)? as i64);
    let (row, column) = ((-offset).max(0), offset.max(0));
    let count = (rows - row).min(columns - column).max(0) as usize;
    let others: Vec<usize> = (0..x.rank()).filter(|&a| a != one && a != two).collect();
    let dims: Vec<usize> = others.iter().map(|&a| x.dims()[a]).chain([count]).collect();
    let strides = strides_of(x.dims());
    let places = points(&dims).map(|point| {
        let outer: usize = others
            .iter()
            .zip(&point)
            .map(|(&a, &p)| strides[a] * p)
            .sum();
        let at = point[dims.len() - 1];
        (outer + (row as usize + at) * strides[one] + (column as usize + at) * strides[two]) as u32
    });
    take_flat(x, places.collect(), dims.clone())
}

/// […, length, heads * width] → […, heads, length, width]
pub fn split_heads(x: &Tensor, heads: usize) -> Result<Tensor> {
    let rank = x.rank();
    let mut dims = x.dims().to_vec();
    let width = dims[rank - 1] / heads;
    dims[rank - 1] = heads;
    dims.push(width);
    x.reshape(dims)?.transpose(rank - 2, rank - 1)?.contiguous()
}

/// […, heads, length, width] → […, length, heads * width]
pub fn merge_heads(x: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    let y = x.transpose(rank - 3, rank - 2)?;
    let mut dims = y.dims().to_vec();
    let width = dims.pop().unwrap_or(1);
    dims[rank - 2] *= width;
    y.reshape(dims)
}

/// `src` in the place of x[start:stop:step] along the axis.
pub fn slice_scatter(
    x: &Tensor,
    src: &Tensor,
    axis: i64,
    start: usize,
    stop: usize,
    step: usize,
) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let (outer, size, inner) = around(x.dims(), axis);
    let places: Vec<usize> = (start..stop.min(size)).step_by(step).collect();
    // places of both as one tensor: those of x, or those of src behind it
    let mut from: Vec<u32> = (0..(outer * size * inner) as u32).collect();
    for o in 0..outer {
        for (n, &at) in places.iter().enumerate() {
            for i in 0..inner {
                let behind = outer * size * inner + (o * places.len() + n) * inner + i;
                from[(o * size + at) * inner + i] = behind as u32;
            }
        }
    }
    let src = src.to_dtype(x.dtype())?.contiguous()?.flatten_all()?;
    let both = Tensor::cat(&[x.contiguous()?.flatten_all()?, src], 0)?;
    host::take_flat(&both, from, x.dims())
}
