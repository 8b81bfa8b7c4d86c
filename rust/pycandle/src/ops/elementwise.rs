//! One element at a time.

use candle_core::{bail, DType, Result, Shape, Tensor};

use super::host;
use super::operand::{as_tensor, is_float, promote, result_type, Operand};

fn broadcast(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    if a.dims() == b.dims() {
        return Ok((a.clone(), b.clone()));
    }
    let shape = broadcast_dims(a.dims(), b.dims())?;
    Ok((a.broadcast_as(shape.clone())?, b.broadcast_as(shape)?))
}

pub(crate) fn broadcast_dims(a: &[usize], b: &[usize]) -> Result<Shape> {
    let rank = a.len().max(b.len());
    let at =
        |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |i| dims[i]);
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        dims.push(match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => bail!("shapes {a:?} and {b:?} do not broadcast"),
        });
    }
    Ok(dims.into())
}

fn both(a: impl Into<Operand>, b: impl Into<Operand>) -> Result<(Tensor, Tensor)> {
    let (a, b) = promote(&a.into(), &b.into())?;
    broadcast(&a, &b)
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Tensor> {
            let (a, b) = both(a, b)?;
            a.$method(&b)
        }
    )*};
}

arithmetic! {
    add => add;
    sub => sub;
    mul => mul;
    eq => eq;
    ne => ne;
    lt => lt;
    le => le;
    gt => gt;
    ge => ge;
}

/// True division: of integers it gives floats.
pub fn div(a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Tensor> {
    let (a, b) = both(a, b)?;
    if is_float(a.dtype()) {
        return a.div(&b);
    }
    a.to_dtype(DType::F32)?.div(&b.to_dtype(DType::F32)?)
}

macro_rules! computed {
    ($($(#[$doc:meta])* $name:ident: $float:expr, $integer:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Tensor> {
            let (a, b) = both(a, b)?;
            host::zip(&a, &b, $float, $integer)
        }
    )*};
}

fn larger(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() {
        a
    } else {
        b
    }
}

fn integer_power(base: i64, exponent: i64) -> i64 {
    match u32::try_from(exponent) {
        Ok(n) => base.wrapping_pow(n),
        Err(_) if base == 1 => 1,
        Err(_) if base == -1 => 1 - 2 * (exponent & 1).abs(),
        Err(_) => 0,
    }
}

computed! {
    pow: |a: f64, b: f64| a.powf(b), integer_power;
    /// The larger of both; NaN where either is.
    maximum: larger, |a: i64, b: i64| a.max(b);
    /// The smaller of both; NaN where either is.
    minimum: |a, b| -larger(-a, -b), |a: i64, b: i64| a.min(b);
    fmax: |a: f64, b: f64| a.max(b), |a: i64, b: i64| a.max(b);
    fmin: |a: f64, b: f64| a.min(b), |a: i64, b: i64| a.min(b);
    /// The remainder with the sign of `b`, as Python's `%`.
    remainder: |a: f64, b: f64| { let r = a % b; if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r } },
        |a: i64, b: i64| a - b * a.div_euclid(b) + if b < 0 && a.rem_euclid(b) != 0 { b } else { 0 };
    /// The remainder with the sign of `a`, as C's `%`.
    fmod: |a: f64, b: f64| a % b, |a: i64, b: i64| a % b;
    /// The quotient rounded down, as Python's `//`.
    floor_divide: |a: f64, b: f64| floor_quotient(a, b),
        |a: i64, b: i64| a / b - i64::from(a % b != 0 && (a < 0) != (b < 0));
    trunc_divide: |a: f64, b: f64| (a / b).trunc(), |a: i64, b: i64| a / b;
    atan2: |a: f64, b: f64| a.atan2(b), |_, _| 0;
    bitwise_and: |_, _| f64::NAN, |a: i64, b: i64| a & b;
    bitwise_or: |_, _| f64::NAN, |a: i64, b: i64| a | b;
    bitwise_xor: |_, _| f64::NAN, |a: i64, b: i64| a ^ b;
}

fn floor_quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let rest = a % b;
    let exact = (a - rest) / b;
    let quotient = if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        exact - 1.0
    } else {
        exact
    };
    quotient.round()
}

/// Not, of booleans.
pub fn logical_not(x: &Tensor) -> Result<Tensor> {
    x.eq(&x.zeros_like()?)
}

/// Complement, of integers.
pub fn bitwise_not(x: &Tensor) -> Result<Tensor> {
    let values =
        host::integers(x)?
            .into_iter()
            .map(|v| if x.dtype() == DType::U8 { v ^ 255 } else { !v });
    host::from_integers(values.collect(), x, x.dims())
}

/// `yes` where the condition holds, `no` elsewhere.
pub fn where_cond(
    condition: &Tensor,
    yes: impl Into<Operand>,
    no: impl Into<Operand>,
) -> Result<Tensor> {
    let (yes, no) = (yes.into(), no.into());
    let dtype = result_type(&[&yes, &no]);
    let (yes, no) = (
        as_tensor(&yes, condition.device())?.to_dtype(dtype)?,
        as_tensor(&no, condition.device())?.to_dtype(dtype)?,
    );
    let choices = broadcast_dims(yes.dims(), no.dims())?;
    let shape = broadcast_dims(condition.dims(), choices.dims())?;
    let on = |x: &Tensor| x.broadcast_as(shape.clone())?.contiguous();
    on(condition)?.where_cond(&on(&yes)?, &on(&no)?)
}

/// Not below `min`, not above `max`; NaN stays.
pub fn clamp(x: &Tensor, min: Option<f64>, max: Option<f64>) -> Result<Tensor> {
    let (low, high) = (
        min.unwrap_or(f64::NEG_INFINITY),
        max.unwrap_or(f64::INFINITY),
    );
    if is_float(x.dtype()) {
        let round = |v: f64| {
            if x.dtype() == DType::F32 {
                f64::from(v as f32)
            } else {
                v
            }
        };
        let (low, high) = (round(low), round(high));
        return host::map(x, |v| {
            if v < low {
                low.min(high)
            } else if v > high {
                high
            } else {
                v
            }
        });
    }
    let (low, high) = (
        low.max(i64::MIN as f64) as i64,
        high.min(i64::MAX as f64) as i64,
    );
    let values = host::integers(x)?
        .into_iter()
        .map(|v| v.max(low).min(high))
        .collect();
    host::from_integers(values, x, x.dims())
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $f:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            host::map(x, $f)
        }
    )*};
}

functions! {
    exp: f64::exp;
    exp2: f64::exp2;
    expm1: f64::exp_m1;
    log: f64::ln;
    log2: f64::log2;
    log10: f64::log10;
    log1p: f64::ln_1p;
    sqrt: f64::sqrt;
    rsqrt: |v: f64| 1.0 / v.sqrt();
    sin: f64::sin;
    cos: f64::cos;
    tan: f64::tan;
    asin: f64::asin;
    acos: f64::acos;
    atan: f64::atan;
    sinh: f64::sinh;
    cosh: f64::cosh;
    tanh: f64::tanh;
    asinh: f64::asinh;
    acosh: f64::acosh;
    atanh: f64::atanh;
    erf: libm::erf;
    erfc: libm::erfc;
    lgamma: libm::lgamma;
    reciprocal: |v: f64| 1.0 / v;
    sigmoid: |v: f64| 1.0 / (1.0 + (-v).exp());
    quick_gelu: |v: f64| v / (1.0 + (-1.702 * v).exp());
    hardsigmoid: |v: f64| (v + 3.0).clamp(0.0, 6.0) / 6.0;
    hardswish: |v: f64| v * (v + 3.0).clamp(0.0, 6.0) / 6.0;
    mish: |v: f64| v * softplus_of(v).tanh();
    log_sigmoid: |v: f64| -softplus_of(-v);
}

fn softplus_of(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

/// ln(1 + exp(beta * x)) / beta, and x itself above the threshold.
pub fn softplus(x: &Tensor, beta: f64, threshold: f64) -> Result<Tensor> {
    host::map(x, |v| {
        if v * beta > threshold {
            v
        } else {
            softplus_of(v * beta) / beta
        }
    })
}

pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Result<Tensor> {
    host::map(x, |v| if v > 0.0 { v } else { v * negative_slope })
}

/// scale * (x above 0, alpha * (exp(x * input_scale) - 1) below).
pub fn elu(x: &Tensor, alpha: f64, scale: f64, input_scale: f64) -> Result<Tensor> {
    host::map(x, |v| {
        scale
            * if v > 0.0 {
                v
            } else {
                alpha * (v * input_scale).exp_m1()
            }
    })
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident: $f:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            if is_float(x.dtype()) { host::map(x, $f) } else { Ok(x.clone()) }
        }
    )*};
}

steps! {
    ceil: f64::ceil;
    floor: f64::floor;
    trunc: f64::trunc;
    /// To the nearest integer, halves to the even one.
    round: f64::round_ties_even;
}

pub fn neg(x: &Tensor) -> Result<Tensor> {
    host::zip(x, x, |v, _| -v, |v, _| v.wrapping_neg())
}

pub fn abs(x: &Tensor) -> Result<Tensor> {
    host::zip(x, x, |v, _| v.abs(), |v, _| v.wrapping_abs())
}

pub fn sign(x: &Tensor) -> Result<Tensor> {
    let of = |v: f64| {
        if v == 0.0 || v.is_nan() {
            v
        } else {
            v.signum()
        }
    };
    host::zip(x, x, |v, _| of(v), |v, _| v.signum())
}

pub fn isnan(x: &Tensor) -> Result<Tensor> {
    x.ne(x)
}

pub fn isinf(x: &Tensor) -> Result<Tensor> {
    let values = host::floats(x)?
        .into_iter()
        .map(|v| u8::from(v.is_infinite()))
        .collect();
    Tensor::from_vec(values, x.dims(), x.device())
}

/// To another dtype; floats become integers as C casts them, and a boolean says "not 0".
pub fn to_bool(x: &Tensor) -> Result<Tensor> {
    x.ne(&x.zeros_like()?)
}
