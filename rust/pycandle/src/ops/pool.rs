//! Windows: maximum, mean and sum over each, sliding and adaptive.

use candle_core::{bail, Result, Tensor};

use super::host::{floats, from_floats, strides_of};

/// Where one window of an axis begins and ends in the input, and what PyTorch's mean divides by there.
#[derive(Clone, Copy)]
struct Span {
    start: i64,
    end: i64,
    step: i64,
    divisor: i64,
}

impl Span {
    fn inside(self, size: i64) -> impl Iterator<Item = usize> {
        let places = (self.start..self.end).step_by(self.step as usize);
        places
            .filter(move |&at| at >= 0 && at < size)
            .map(|at| at as usize)
    }
}

/// What a sliding pool takes beside the kernel; an empty list is the default: a stride of the kernel, no padding.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pool<'a> {
    pub stride: &'a [usize],
    pub padding: &'a [usize],
    pub dilation: &'a [usize],
    pub ceil_mode: bool,
    /// Averages divide by the places of the input alone.
    pub without_padding: bool,
    pub divisor: Option<i64>,
}

/// The windows of one axis, by PyTorch's rule: with `ceil_mode` one may start anywhere before the end of the padded input.
fn sliding(
    size: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> Vec<Span> {
    let (size, kernel, stride, padding, dilation) = (
        size as i64,
        kernel as i64,
        stride as i64,
        padding as i64,
        dilation as i64,
    );
    let room = size + 2 * padding - dilation * (kernel - 1) - 1;
    let mut count = if ceil_mode {
        (room + stride - 1).div_euclid(stride)
    } else {
        room.div_euclid(stride)
    } + 1;
    if ceil_mode && (count - 1) * stride >= size + padding {
        count -= 1;
    }
    let span = |i: i64| {
        let start = i * stride - padding;
        let end = start + dilation * (kernel - 1) + 1;
        Span {
            start,
            end,
            step: dilation,
            divisor: end.min(size + padding) - start,
        }
    };
    (0..count.max(0)).map(span).collect()
}

/// `f` of the elements of every window; the windows stand on the last axes.
fn over(
    x: &Tensor,
    windows: &[Vec<Span>],
    f: impl Fn(&mut dyn Iterator<Item = f64>, i64) -> f64,
) -> Result<Tensor> {
    let n = windows.len();
    if x.rank() < n {
        bail!("{n} axes are pooled, and {:?} has fewer", x.dims());
    }
    let leading = x.rank() - n;
    let sizes = &x.dims()[leading..];
    let strides = strides_of(sizes);
    let plane: usize = sizes.iter().product();
    let counts: Vec<usize> = windows.iter().map(Vec::len).collect();
    let out_strides = strides_of(&counts);
    let out_plane: usize = counts.iter().product();
    // of each window the places in a plane, and the product of its divisors
    let mut found: Vec<(Vec<usize>, i64)> = Vec::with_capacity(out_plane);
    for point in 0..out_plane {
        let (mut places, mut divisor) = (vec![0], 1);
        for axis in 0..n {
            let span = windows[axis][point / out_strides[axis] % counts[axis]];
            let stride = strides[axis];
            let here: Vec<usize> = span
                .inside(sizes[axis] as i64)
                .map(|at| at * stride)
                .collect();
            places = places
                .iter()
                .flat_map(|p| here.iter().map(move |h| p + h))
                .collect();
            divisor *= span.divisor;
        }
        found.push((places, divisor));
    }
    let values = floats(x)?;
    let mut out = Vec::with_capacity(values.len() / plane.max(1) * out_plane);
    for row in values.chunks(plane.max(1)) {
        for (places, divisor) in &found {
            out.push(f(&mut places.iter().map(|&p| row[p]), *divisor));
        }
    }
    from_floats(out, x, [&x.dims()[..leading], &counts[..]].concat())
}

fn windows_of(x: &Tensor, kernel: &[usize], options: &Pool) -> Vec<Vec<Span>> {
    let n = kernel.len();
    let at = |list: &[usize], axis: usize, default: usize| match list.len() {
        0 => default,
        1 => list[0],
        _ => list[axis],
    };
    let leading = x.rank().saturating_sub(n);
    let of = |axis: usize| {
        let (stride, padding) = (
            at(options.stride, axis, kernel[axis]),
            at(options.padding, axis, 0),
        );
        sliding(
            x.dims()[leading + axis],
            kernel[axis],
            stride,
            padding,
            at(options.dilation, axis, 1),
            options.ceil_mode,
        )
    };
    (0..n).map(of).collect()
}

fn largest(values: &mut dyn Iterator<Item = f64>) -> f64 {
    values.fold(
        f64::NEG_INFINITY,
        |a, b| if b > a || b.is_nan() { b } else { a },
    )
}

/// The largest element of each window of the last axes.
pub fn max_pool(x: &Tensor, kernel: &[usize], options: Pool) -> Result<Tensor> {
    over(x, &windows_of(x, kernel, &options), |values, _| {
        largest(values)
    })
}

fn square_max_pool<const N: usize>(
    x: &Tensor,
    kernel: usize,
    stride: usize,
    padding: usize,
) -> Result<Tensor> {
    let options = Pool {
        stride: &[stride; N],
        padding: &[padding; N],
        ..Default::default()
    };
    max_pool(x, &[kernel; N], options)
}

/// The same over the last axis, with one number for each axis.
pub fn max_pool1d(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    square_max_pool::<1>(x, kernel, stride, padding)
}

/// The same over the last two axes, with one number for each axis.
pub fn max_pool2d(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    square_max_pool::<2>(x, kernel, stride, padding)
}

/// The same over the last three axes, with one number for each axis.
pub fn max_pool3d(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    square_max_pool::<3>(x, kernel, stride, padding)
}

/// The mean of each window of the last axes.
pub fn avg_pool(x: &Tensor, kernel: &[usize], options: Pool) -> Result<Tensor> {
    over(x, &windows_of(x, kernel, &options), |values, padded| {
        let (mut sum, mut count) = (0.0, 0);
        for value in values {
            sum += value;
            count += 1;
        }
        let divisor = options.divisor.unwrap_or(if options.without_padding {
            count
        } else {
            padded
        });
        sum / divisor as f64
    })
}

/// As many windows of about one size as the output has places.
fn adaptive(x: &Tensor, output: &[usize]) -> Vec<Vec<Span>> {
    let leading = x.rank().saturating_sub(output.len());
    let of = |(axis, &count): (usize, &usize)| {
        let size = x.dims()[leading + axis];
        let span = |i: usize| {
            let (start, end) = (
                (i * size / count) as i64,
                ((i + 1) * size).div_ceil(count) as i64,
            );
            Span {
                start,
                end,
                step: 1,
                divisor: end - start,
            }
        };
        (0..count).map(span).collect()
    };
    output.iter().enumerate().map(of).collect()
}

pub fn adaptive_avg_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    over(x, &adaptive(x, output), |values, divisor| {
        values.sum::<f64>() / divisor as f64
    })
}

pub fn adaptive_max_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    over(x, &adaptive(x, output), |values, _| largest(values))
}

/// "sum", "prod", "max" or "min" of the windows; what is padded takes no part.
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a> {
    pub window: &'a [usize],
    pub strides: &'a [usize],
    pub dilation: &'a [usize],
    pub padding_low: &'a [i64],
    pub padding_high: &'a [i64],
}

pub fn reduce_window(x: &Tensor, kind: &str, w: Windows) -> Result<Tensor> {
    let leading = x.rank() - w.window.len();
    let of = |axis: usize| {
        let size = x.dims()[leading + axis] as i64 + w.padding_low[axis] + w.padding_high[axis];
        let reach = (w.dilation[axis] * (w.window[axis] - 1) + 1) as i64;
        let count = (size - reach).div_euclid(w.strides[axis] as i64) + 1;
        let span = |i: i64| {
            let start = i * w.strides[axis] as i64 - w.padding_low[axis];
            Span {
                start,
                end: start + reach,
                step: w.dilation[axis] as i64,
                divisor: 1,
            }
        };
        (0..count).map(span).collect()
    };
    let windows: Vec<Vec<Span>> = (0..w.window.len()).map(of).collect();
    windowed(x, kind, &windows)
}

/// The same over adaptive windows, also "mean".
pub fn adaptive_window(x: &Tensor, kind: &str, output: &[usize]) -> Result<Tensor> {
    windowed(x, kind, &adaptive(x, output))
}

fn windowed(x: &Tensor, kind: &str, windows: &[Vec<Span>]) -> Result<Tensor> {
    match kind {
        "sum" => over(x, windows, |values, _| values.sum()),
        "prod" => over(x, windows, |values, _| values.product()),
        "max" => over(x, windows, |values, _| largest(values)),
        "min" => over(x, windows, |values, _| -largest(&mut values.map(|v| -v))),
        "mean" => over(x, windows, |values, divisor| {
            values.sum::<f64>() / divisor as f64
        }),
        other => bail!("windows have no {other}"),
    }
}
