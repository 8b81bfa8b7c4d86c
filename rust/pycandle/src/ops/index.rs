//! Elements picked by indices that are data.

use candle_core::{bail, DType, Result, Tensor};

use super::host::{self, strides_of, take_flat};
use super::operand::is_float;
use super::{axes_of, axis_of};

/// Indices on the host, checked; negative ones count from the end.
fn places(indices: &Tensor, size: usize) -> Result<Vec<usize>> {
    let wrapped = |at: i64| {
        let place = if at < 0 { at + size as i64 } else { at };
        if place < 0 || place >= size as i64 {
            bail!("index {at} is none of an axis of {size}");
        }
        Ok(place as usize)
    };
    host::integers(indices)?.into_iter().map(wrapped).collect()
}

/// The entries of one axis; the shape of the indices stands in its place.
pub fn take(x: &Tensor, indices: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let ids: Vec<u32> = places(indices, x.dim(axis)?)?
        .into_iter()
        .map(|p| p as u32)
        .collect();
    let count = ids.len();
    let dims: Vec<usize> = [&x.dims()[..axis], indices.dims(), &x.dims()[axis + 1..]].concat();
    let ids = Tensor::from_vec(ids, count, x.device())?;
    x.contiguous()?.index_select(&ids, axis)?.reshape(dims)
}

/// For each element of `index` its place in an array of these dims, where the axis is indexed.
fn along(index: &Tensor, dims: &[usize], axis: usize) -> Result<Vec<usize>> {
    let strides = strides_of(dims);
    let at = places(index, dims[axis])?;
    let of = |(n, point): (usize, Vec<usize>)| {
        let others = (0..dims.len()).filter(|&a| a != axis);
        others.map(|a| point[a] * strides[a]).sum::<usize>() + at[n] * strides[axis]
    };
    Ok(host::points(index.dims()).enumerate().map(of).collect())
}

/// out[i, j] = x[index[i, j], j] for axis 0, as torch.gather.
pub fn gather(x: &Tensor, index: &Tensor, axis: i64) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let from = along(index, x.dims(), axis)?.into_iter().map(|p| p as u32);
    take_flat(x, from.collect(), index.dims())
}

/// Places of x at index tensors, one for each axis, and the shape of what they pick.
fn at_indices(
    dims: &[usize],
    indices: &[&Tensor],
    axes: &[usize],
) -> Result<(Vec<usize>, Vec<usize>)> {
    let shape = indices[0].dims();
    let strides = strides_of(dims);
    let mut offsets = vec![0; indices[0].elem_count()];
    for (index, &axis) in indices.iter().zip(axes) {
        let index = index.broadcast_as(shape)?;
        for (offset, at) in offsets.iter_mut().zip(places(&index, dims[axis])?) {
            *offset += at * strides[axis];
        }
    }
    let consecutive = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let first = if consecutive { axes[0] } else { 0 };
    let others: Vec<usize> = (0..dims.len()).filter(|a| !axes.contains(a)).collect();
    let before: Vec<usize> = others
        .iter()
        .copied()
        .filter(|&a| consecutive && a < first)
        .collect();
    let behind: Vec<usize> = others
        .iter()
        .copied()
        .filter(|a| !before.contains(a))
        .collect();
    let sizes = |axes: &[usize]| axes.iter().map(|&a| dims[a]).collect::<Vec<_>>();
    let offset = |axes: &[usize], point: &[usize]| {
        axes.iter()
            .zip(point)
            .map(|(&a, &p)| strides[a] * p)
            .sum::<usize>()
    };
    let (outer, inner) = (sizes(&before), sizes(&behind));
    let mut places = Vec::new();
    for front in host::points(&outer) {
        for &picked in &offsets {
            for back in host::points(&inner) {
                places.push(offset(&before, &front) + picked + offset(&behind, &back));
            }
        }
    }
    Ok((places, [&outer[..], shape, &inner[..]].concat()))
}

/// x at several index tensors of one shape, one for each axis. Their shape stands in place of the axes when these are
/// consecutive, else first.
pub fn gather_nd(x: &Tensor, indices: &[&Tensor], axes: &[i64]) -> Result<Tensor> {
    let (from, dims) = at_indices(x.dims(), indices, &axes_of(axes, x.rank())?)?;
    take_flat(x, from.into_iter().map(|p| p as u32).collect(), dims)
}

/// x with `updates` (of the shape that `gather_nd` gives) at the indices, or added there.
pub fn scatter_nd(
    x: &Tensor,
    updates: &Tensor,
    indices: &[&Tensor],
    axes: &[i64],
    accumulate: bool,
) -> Result<Tensor> {
    let (to, dims) = at_indices(x.dims(), indices, &axes_of(axes, x.rank())?)?;
    let updates = updates.broadcast_as(dims)?;
    written(x, &updates, &to, if accumulate { "sum" } else { "" }, true)
}

/// `src` written at the places that `index` names along the axis; `reduce` is "none", "sum", "prod", "mean", "amax" or "amin".
pub fn scatter(
    x: &Tensor,
    index: &Tensor,
    src: &Tensor,
    axis: i64,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let axis = axis_of(axis, x.rank())?;
    let to = along(index, x.dims(), axis)?;
    let mut source = src.clone();
    for (a, &size) in index.dims().iter().enumerate() {
        source = source.narrow(a, 0, size)?;
    }
    written(x, &source, &to, reduce, include_self)
}

fn written(
    x: &Tensor,
    updates: &Tensor,
    to: &[usize],
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    if is_float(x.dtype()) {
        let values = combined(
            host::floats(x)?,
            host::floats(updates)?,
            to,
            reduce,
            include_self,
            |a, n| a / n as f64,
        )?;
        host::from_floats(values, x, x.dims())
    } else {
        let values = combined(
            host::integers(x)?,
            host::integers(updates)?,
            to,
            reduce,
            include_self,
            |a, n| a.div_euclid(n),
        )?;
        host::from_integers(values, x, x.dims())
    }
}

fn combined<T>(
    mut values: Vec<T>,
    given: Vec<T>,
    to: &[usize],
    reduce: &str,
    include_self: bool,
    divide: impl Fn(T, i64) -> T,
) -> Result<Vec<T>>
where
    T: Copy + PartialOrd + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    let mut counts = vec![i64::from(include_self); values.len()];
    for (&at, &new) in to.iter().zip(&given) {
        let old = values[at];
        let is_first = counts[at] == 0;
        counts[at] += 1;
        values[at] = match reduce {
            _ if is_first => new,
            "" | "none" => new,
            "sum" | "add" | "mean" => old + new,
            "prod" | "multiply" => old * new,
            "amax" => {
                if new > old {
                    new
                } else {
                    old
                }
            }
            "amin" => {
                if new < old {
                    new
                } else {
                    old
                }
            }
            other => bail!("scatter has no reduce {other}"),
        };
    }
    if reduce == "mean" {
        for (value, &count) in values.iter_mut().zip(&counts) {
            if count > 1 {
                *value = divide(*value, count);
            }
        }
    }
    Ok(values)
}

/// Rows of the table.
pub fn embedding(weight: &Tensor, indices: &Tensor) -> Result<Tensor> {
    take(weight, indices, 0)
}

/// 1 where the last axis is what x says.
pub fn one_hot(x: &Tensor, classes: usize) -> Result<Tensor> {
    let ids = places(x, classes)?;
    let mut values = vec![0i64; ids.len() * classes];
    for (row, id) in ids.into_iter().enumerate() {
        values[row * classes + id] = 1;
    }
    let dims = [x.dims(), &[classes]].concat();
    Tensor::from_vec(values, dims, x.device())?.to_dtype(DType::I64)
}
