//! Products.

use candle_core::{bail, Result, Tensor};

use super::elementwise::broadcast_dims;
use super::host;
use super::operand::is_float;

/// As Candle multiplies it: matrices by rows or by columns, equally far apart; else a copy.
fn multipliable(x: &Tensor) -> Result<Tensor> {
    let (dims, stride, rank) = (x.dims(), x.stride(), x.rank());
    let (rows, columns) = (dims[rank - 2], dims[rank - 1]);
    let by_rows = stride[rank - 1] == 1 && stride[rank - 2] == columns;
    let by_columns = stride[rank - 2] == 1 && stride[rank - 1] == rows;
    let evenly = match rank {
        2 | 3 => true,
        4 => dims[0] == 1 || dims[1] == 1 || stride[0] == stride[1] * dims[1],
        _ => false,
    };
    if (by_rows || by_columns) && evenly {
        Ok(x.clone())
    } else {
        x.contiguous()
    }
}

/// Of batches of matrices of one shape of batch.
fn product(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let rank = left.rank();
    if is_float(left.dtype()) && rank > 4 {
        let flat = |x: &Tensor| x.flatten(0, rank - 3)?.contiguous();
        let dims = [&left.dims()[..rank - 1], &right.dims()[rank - 1..]].concat();
        return flat(left)?.matmul(&flat(right)?)?.reshape(dims);
    }
    if is_float(left.dtype()) {
        return multipliable(left)?.matmul(&multipliable(right)?);
    }
    let (rows, inner, columns) = (
        left.dim(rank - 2)?,
        left.dim(rank - 1)?,
        right.dim(rank - 1)?,
    );
    let (a, b) = (host::integers(left)?, host::integers(right)?);
    let batch: usize = left.dims()[..rank - 2].iter().product();
    let mut out = Vec::with_capacity(batch * rows * columns);
    for n in 0..batch {
        for r in 0..rows {
            for c in 0..columns {
                let terms = (0..inner)
                    .map(|i| a[(n * rows + r) * inner + i] * b[(n * inner + i) * columns + c]);
                out.push(terms.sum());
            }
        }
    }
    let dims = [&left.dims()[..rank - 1], &[columns]].concat();
    host::from_integers(out, left, dims)
}

/// Of vectors, matrices or batches of matrices; batches broadcast.
pub fn matmul(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    match (left.rank(), right.rank()) {
        (0, _) | (_, 0) => bail!("matmul takes vectors and matrices, not numbers"),
        (1, 1) => {
            return matmul(&left.unsqueeze(0)?, &right.unsqueeze(1)?)?
                .squeeze(1)?
                .squeeze(0)
        }
        (1, rank) => return matmul(&left.unsqueeze(0)?, right)?.squeeze(rank - 2),
        (rank, 1) => return matmul(left, &right.unsqueeze(1)?)?.squeeze(rank - 1),
        (2, 2) => return product(left, right),
        // one matrix for a whole batch: its rows are one long list
        (rank, 2) if is_float(left.dtype()) => {
            let rows: usize = left.dims()[..rank - 1].iter().product();
            let flat = left.contiguous()?.reshape((rows, left.dim(rank - 1)?))?;
            let dims = [&left.dims()[..rank - 1], &right.dims()[1..]].concat();
            return product(&flat, right)?.reshape(dims);
        }
        _ => {}
    }
    let batch = broadcast_dims(
        &left.dims()[..left.rank() - 2],
        &right.dims()[..right.rank() - 2],
    )?;
    let wide = |x: &Tensor| x.broadcast_as([batch.dims(), &x.dims()[x.rank() - 2..]].concat());
    product(&wide(left)?, &wide(right)?)
}

/// x @ weight.T + bias.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = if weight.rank() == 1 {
        matmul(x, weight)?
    } else {
        matmul(x, &weight.t()?)?
    };
    match bias {
        Some(bias) => y.broadcast_add(bias),
        None => Ok(y),
    }
}

/// The axes that both have in `batch` stay, those in `contract` are summed over, then come the others of left and of right.
pub fn dot_general(
    left: &Tensor,
    right: &Tensor,
    batch: (&[usize], &[usize]),
    contract: (&[usize], &[usize]),
) -> Result<Tensor> {
    let others = |x: &Tensor, taken: [&[usize]; 2]| -> Vec<usize> {
        (0..x.rank())
            .filter(|axis| taken.iter().all(|axes| !axes.contains(axis)))
            .collect()
    };
    let (rows, columns) = (
        others(left, [batch.0, contract.0]),
        others(right, [batch.1, contract.1]),
    );
    let sizes =
        |x: &Tensor, axes: &[usize]| axes.iter().map(|&a| x.dims()[a]).collect::<Vec<usize>>();
    let count = |x: &Tensor, axes: &[usize]| sizes(x, axes).iter().product::<usize>();
    let arranged = |x: &Tensor, order: [&[usize]; 3]| -> Result<Tensor> {
        let dims: Vec<usize> = order.iter().map(|axes| count(x, axes)).collect();
        let moved = if x.rank() == 0 {
            x.clone()
        } else {
            x.permute(order.concat())?
        };
        moved.contiguous()?.reshape(dims)
    };
    let a = arranged(left, [batch.0, &rows, contract.0])?;
    let b = arranged(right, [batch.1, contract.1, &columns])?;
    let dims = [
        sizes(left, batch.0),
        sizes(left, &rows),
        sizes(right, &columns),
    ]
    .concat();
    product(&a, &b)?.reshape(dims)
}
