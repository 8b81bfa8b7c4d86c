//! Convolutions in one, two and three dimensions.

use candle_core::{bail, Result, Tensor};

use super::{pad, reverse, slice, widened};

/// What a convolution takes beside x and weight; one entry for each axis, or one for all. An empty list is the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conv<'a> {
    pub bias: Option<&'a Tensor>,
    pub stride: &'a [usize],
    pub padding: &'a [usize],
    pub dilation: &'a [usize],
    /// 0 is 1.
    pub groups: usize,
    /// Padding that keeps the size; `padding` is not looked at.
    pub same: bool,
    /// Of transposed convolutions.
    pub output_padding: &'a [usize],
}

/// The steps of the primitive below, one entry for each axis.
struct Geometry {
    stride: Vec<usize>,
    low: Vec<i64>,
    high: Vec<i64>,
    dilation: Vec<usize>,
    groups: usize,
}

fn per_axis(given: &[usize], n: usize, default: usize) -> Vec<usize> {
    match given.len() {
        0 => vec![default; n],
        1 => vec![given[0]; n],
        _ => given.to_vec(),
    }
}

/// `by` - 1 zeros between the elements of the axis.
fn spread(x: &Tensor, axis: usize, by: usize) -> Result<Tensor> {
    if by == 1 || x.dim(axis)? < 2 {
        return Ok(x.clone());
    }
    let wide = x.unsqueeze(axis + 1)?.pad_with_zeros(axis + 1, 0, by - 1)?;
    let mut dims = x.dims().to_vec();
    dims[axis] *= by;
    let size = dims[axis];
    wide.reshape(dims)?.narrow(axis, 0, size - (by - 1))
}

/// Over [batch, channels, height, width], already padded.
fn planes(
    x: &Tensor,
    weight: &Tensor,
    stride: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<Tensor> {
    let mut weight = weight.clone();
    let mut dilated = dilation[0];
    if dilation[0] != dilation[1] {
        for (axis, &by) in dilation.iter().enumerate() {
            weight = spread(&weight, 2 + axis, by)?;
        }
        dilated = 1;
    }
    let (x, weight) = (x.contiguous()?, weight.contiguous()?);
    if stride[0] == stride[1] {
        return x.conv2d(&weight, 0, stride[0], dilated, groups);
    }
    let y = x.conv2d(&weight, 0, 1, dilated, groups)?;
    let y = slice(&y, 2, 0, y.dim(2)?, stride[0])?;
    slice(&y, 3, 0, y.dim(3)?, stride[1])
}

fn volumes(x: &Tensor, weight: &Tensor, g: &Geometry) -> Result<Tensor> {
    let (batch, channels, depth, height, width) = x.dims5()?;
    let kernel = weight.dim(2)?;
    let out = (depth - g.dilation[0] * (kernel - 1) - 1) / g.stride[0] + 1;
    let mut sum: Option<Tensor> = None;
    for k in 0..kernel {
        let start = k * g.dilation[0];
        let slab = slice(
            x,
            2,
            start,
            start + (out - 1) * g.stride[0] + 1,
            g.stride[0],
        )?;
        let flat =
            slab.transpose(1, 2)?
                .contiguous()?
                .reshape((batch * out, channels, height, width))?;
        let y = planes(
            &flat,
            &weight.narrow(2, k, 1)?.squeeze(2)?,
            &g.stride[1..],
            &g.dilation[1..],
            g.groups,
        )?;
        sum = Some(match sum {
            Some(sum) => (sum + y)?,
            None => y,
        });
    }
    let Some(sum) = sum else {
        bail!("a kernel of no size")
    };
    let (_, filters, rows, columns) = sum.dims4()?;
    sum.reshape((batch, out, filters, rows, columns))?
        .transpose(1, 2)?
        .contiguous()
}

fn convolved(x: &Tensor, weight: &Tensor, g: &Geometry) -> Result<Tensor> {
    let n = weight.rank() - 2;
    let frame = |sides: &[i64]| [&[0, 0], sides].concat();
    let x = pad(x, &frame(&g.low), &frame(&g.high), 0.0)?;
    match n {
        1 => {
            let (stride, dilation) = ([g.stride[0]; 2], [g.dilation[0]; 2]);
            planes(
                &x.unsqueeze(2)?,
                &weight.unsqueeze(2)?,
                &stride,
                &dilation,
                g.groups,
            )?
            .squeeze(2)
        }
        2 => planes(&x, weight, &g.stride, &g.dilation, g.groups),
        3 => volumes(&x, weight, g),
        _ => bail!("convolutions have one to three axes, not {n}"),
    }
}

/// Adds the batch where there is none, computes f16 and bf16 in f32, adds the bias.
fn around(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    f: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let has_batch = x.rank() == weight.rank();
    let batch = if has_batch {
        x.clone()
    } else {
        x.unsqueeze(0)?
    };
    let mut y = f(&widened(&batch)?, &widened(weight)?)?;
    if let Some(bias) = bias {
        let mut dims = vec![1; y.rank()];
        dims[1] = bias.dim(0)?;
        y = y.broadcast_add(&widened(bias)?.reshape(dims)?)?;
    }
    let y = y.to_dtype(x.dtype())?;
    if has_batch {
        Ok(y)
    } else {
        y.squeeze(0)
    }
}

fn conv(x: &Tensor, weight: &Tensor, options: Conv) -> Result<Tensor> {
    let n = weight.rank() - 2;
    let dilation = per_axis(options.dilation, n, 1);
    let padding: Vec<i64> = per_axis(options.padding, n, 0)
        .iter()
        .map(|&p| p as i64)
        .collect();
    let mut g = Geometry {
        stride: per_axis(options.stride, n, 1),
        low: padding.clone(),
        high: padding,
        groups: options.groups.max(1),
        dilation,
    };
    if options.same {
        for axis in 0..n {
            let all = (g.dilation[axis] * (weight.dim(2 + axis)? - 1)) as i64;
            (g.low[axis], g.high[axis]) = (all / 2, all - all / 2);
        }
    }
    around(x, weight, options.bias, |x, weight| {
        convolved(x, weight, &g)
    })
}

fn conv_transpose(x: &Tensor, weight: &Tensor, options: Conv) -> Result<Tensor> {
    let n = weight.rank() - 2;
    let (stride, groups) = (per_axis(options.stride, n, 1), options.groups.max(1));
    let (padding, dilation) = (
        per_axis(options.padding, n, 0),
        per_axis(options.dilation, n, 1),
    );
    let extra = per_axis(options.output_padding, n, 0);
    let mut g = Geometry {
        stride: vec![1; n],
        low: vec![],
        high: vec![],
        dilation,
        groups,
    };
    for axis in 0..n {
        let reach = (g.dilation[axis] * (weight.dim(2 + axis)? - 1)) as i64 - padding[axis] as i64;
        g.low.push(reach);
        g.high.push(reach + extra[axis] as i64);
    }
    around(x, weight, options.bias, |x, weight| {
        let mut wide = x.clone();
        for (axis, &by) in stride.iter().enumerate() {
            wide = spread(&wide, 2 + axis, by)?;
        }
        // [in, out / groups, …] mirrored, as [out, in / groups, …]
        let mirrored = reverse(weight, &(2..2 + n as i64).collect::<Vec<_>>())?;
        let parts = mirrored.chunk(groups, 0)?;
        let turned = parts
            .iter()
            .map(|part| part.transpose(0, 1))
            .collect::<Result<Vec<_>>>()?;
        convolved(&wide, &Tensor::cat(&turned, 0)?.contiguous()?, &g)
    })
}

macro_rules! named {
    ($($name:ident => $of:ident;)*) => {$(
        pub fn $name(x: &Tensor, weight: &Tensor, options: Conv) -> Result<Tensor> {
            $of(x, weight, options)
        }
    )*};
}

named! {
    conv1d => conv;
    conv2d => conv;
    conv3d => conv;
    conv_transpose1d => conv_transpose;
    conv_transpose2d => conv_transpose;
    conv_transpose3d => conv_transpose;
}

/// The steps of a convolution whose sides are padded each for itself, one entry for each axis.
#[derive(Debug, Clone, Copy)]
pub struct Convolution<'a> {
    pub strides: &'a [usize],
    pub padding_low: &'a [i64],
    pub padding_high: &'a [i64],
    pub dilation: &'a [usize],
    pub input_dilation: &'a [usize],
    pub groups: usize,
}

pub fn convolution(x: &Tensor, weight: &Tensor, options: Convolution) -> Result<Tensor> {
    let g = Geometry {
        stride: options.strides.to_vec(),
        low: options.padding_low.to_vec(),
        high: options.padding_high.to_vec(),
        dilation: options.dilation.to_vec(),
        groups: options.groups,
    };
    around(x, weight, None, |x, weight| {
        let mut wide = x.clone();
        for (axis, &by) in options.input_dilation.iter().enumerate() {
            wide = spread(&wide, 2 + axis, by)?;
        }
        convolved(&wide, weight, &g)
    })
}
