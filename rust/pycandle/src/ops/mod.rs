//! Operators as PyTorch computes them: its promotion of dtypes, its broadcasting, its negative axes, its rounding in f16 and bf16.
//!
//! Booleans are U8, as what Candle's comparisons give.

mod attention;
mod conv;
pub mod dims;
mod elementwise;
mod host;
mod index;
mod linalg;
mod nn;
mod operand;
mod pool;
mod reduce;
mod shape;

pub use attention::*;
pub use conv::*;
pub use elementwise::*;
pub use index::*;
pub use linalg::*;
pub use nn::*;
pub use operand::Operand;
pub use pool::*;
pub use reduce::*;
pub use shape::*;

use candle_core::{bail, DType, Result, Tensor};

/// The dtype in which PyTorch computes what it rounds to this one at the end.
pub(crate) fn wide_of(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

pub(crate) fn widened(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(wide_of(x.dtype()))
}

pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    let rank_or_one = rank.max(1) as i64;
    if axis < -rank_or_one || axis >= rank_or_one {
        bail!("axis {axis} is none of a tensor of rank {rank}");
    }
    Ok(axis.rem_euclid(rank_or_one) as usize)
}

pub(crate) fn axes_of(axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    axes.iter().map(|&axis| axis_of(axis, rank)).collect()
}
