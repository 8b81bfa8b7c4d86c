//! How far a value is from the golden one, and whether rounding explains that.

use candle_core::{DType, Result, Tensor};

use crate::floors::{self, Floor};

/// A floor is what one order of rounding gave; another correct order may give this many times as much.
const RMS_FACTOR: f64 = 4.0;
const MAX_FACTOR: f64 = 16.0;

/// Units in the last place apart: 0, 1, 2 to 3, 4 to 7, …; the last one has all that are further apart.
const ULP_BUCKETS: usize = 13;

/// How far a value is from PyTorch's.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub layer: String,
    pub mse: f64,
    pub max_diff: f64,
    pub cosine: f64,
    /// Root mean square of the difference, relative to that of the golden values.
    pub error: f64,
    /// What `error` may be at most.
    pub tolerance: f64,
    /// Nothing was at hand that says what rounding does here.
    pub guessed: bool,
    pub passed: bool,
    /// It passed, and rounding alone moves PyTorch's value by half of its digits.
    pub unstable: bool,
    /// One sentence when it did not pass.
    pub why: String,
    pub(crate) facts: Facts,
}

/// What a result file has of it beside that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub key: String,
    pub dtype: String,
    pub shape: Vec<usize>,
    pub rms: f64,
    pub max_rel: f64,
    pub differing: usize,
    pub first_difference: Option<usize>,
    pub largest_difference: Option<usize>,
    pub nan_mismatches: usize,
    pub first_nan_mismatch: Option<usize>,
    pub ulps: [u64; ULP_BUCKETS],
    pub floor: Floor,
    pub picture: Option<Picture>,
}

/// Where two values differ, as a plane: the last axis across, all others down.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub rows: usize,
    pub columns: usize,
    pub cells: String,
    pub largest: f64,
    pub first_decade: i32,
    pub decades: Vec<u64>,
}

pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

fn as_f64(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn rms(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for v in values.filter(|v| v.is_finite()) {
        sum += v * v;
        count += 1;
    }
    (sum / count.max(1) as f64).sqrt()
}

fn is_same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// Floats in the order of the numbers, neighbours one apart.
fn ordinal(v: f64, dtype: DType) -> i64 {
    let signed = |magnitude: u64, negative: bool| {
        let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
        if negative {
            -magnitude
        } else {
            magnitude
        }
    };
    let negative = v.is_sign_negative();
    match dtype {
        DType::F64 => signed(v.abs().to_bits(), negative),
        DType::F16 => signed(half::f16::from_f64(v.abs()).to_bits().into(), negative),
        DType::BF16 => signed(half::bf16::from_f64(v.abs()).to_bits().into(), negative),
        _ => signed((v.abs() as f32).to_bits().into(), negative),
    }
}

fn ulp_bucket(a: f64, b: f64, dtype: DType) -> usize {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() {
            0
        } else {
            ULP_BUCKETS - 1
        };
    }
    let apart = ordinal(a, dtype).abs_diff(ordinal(b, dtype));
    ((u64::BITS - apart.leading_zeros()) as usize).min(ULP_BUCKETS - 1)
}

fn measure(ours: &[f64], theirs: &[f64], dtype: DType, result: &mut Comparison) {
    let size = rms(theirs.iter().copied());
    let facts = &mut result.facts;
    let (mut squares, mut dot, mut norm, mut golden_norm) = (0.0, 0.0, 0.0, 0.0);
    result.max_diff = 0.0;
    for (i, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        if !is_same(a, b) {
            facts.differing += 1;
            facts.first_difference.get_or_insert(i);
        }
        if is_float(dtype) {
            facts.ulps[ulp_bucket(a, b, dtype)] += 1;
        }
        if !a.is_finite() || !b.is_finite() {
            if !is_same(a, b) {
                facts.nan_mismatches += 1;
                facts.first_nan_mismatch.get_or_insert(i);
            }
            continue;
        }
        let apart = (a - b).abs();
        if apart > result.max_diff {
            result.max_diff = apart;
            facts.largest_difference = Some(i);
        }
        if apart > 0.0 {
            facts.max_rel = facts.max_rel.max(apart / b.abs().max(1e-3 * size));
        }
        squares += apart * apart;
        dot += a * b;
        norm += a * a;
        golden_norm += b * b;
    }
    result.mse = squares / ours.len().max(1) as f64;
    facts.rms = result.mse.sqrt();
    result.cosine = if norm > 0.0 && golden_norm > 0.0 {
        (dot / (norm.sqrt() * golden_norm.sqrt())).min(1.0)
    } else {
        f64::from(norm == golden_norm)
    };
    result.error = if size > 0.0 {
        facts.rms / size
    } else {
        facts.rms
    };
    if facts.nan_mismatches > 0 {
        // a number that is missing is no small error
        facts.largest_difference = facts.first_nan_mismatch;
        facts.max_rel = f64::INFINITY;
        facts.rms = f64::INFINITY;
        result.mse = f64::INFINITY;
        result.max_diff = f64::INFINITY;
        result.cosine = 0.0;
    }
}

fn picture(ours: &[f64], theirs: &[f64], shape: &[usize]) -> Option<Picture> {
    let width = shape.last().copied().unwrap_or(1);
    let height = ours.len() / width.max(1);
    let (rows, columns) = (height.min(12), width.min(32));
    let mut cells = vec![0f64; rows * columns];
    let mut decades = std::collections::BTreeMap::new();
    let mut largest = 0f64;
    for (i, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        if is_same(a, b) {
            continue;
        }
        let apart = (a - b).abs();
        let (row, column) = (i / width * rows / height, i % width * columns / width);
        let cell = &mut cells[row * columns + column];
        if !apart.is_finite() {
            *cell = f64::INFINITY;
            continue;
        }
        *cell = cell.max(apart);
        largest = largest.max(apart);
        let decade = (apart.log10().floor() as i32).clamp(-40, 20);
        *decades.entry(decade).or_insert(0u64) += 1;
    }
    if cells.iter().all(|&v| v == 0.0) {
        return None;
    }
    let letter = |v: f64| {
        if v == 0.0 {
            '.'
        } else if v == f64::INFINITY {
            '!'
        } else {
            let below = (largest.log2().floor() - v.log2().floor()).clamp(0.0, 25.0);
            (b'z' - below as u8) as char
        }
    };
    let first_decade = decades.keys().next().copied().unwrap_or(0);
    let last = decades.keys().last().copied().unwrap_or(first_decade - 1);
    Some(Picture {
        rows,
        columns,
        cells: cells.into_iter().map(letter).collect(),
        largest,
        first_decade,
        decades: (first_decade..=last)
            .map(|d| decades.get(&d).copied().unwrap_or(0))
            .collect(),
    })
}

fn dtype_name(dtype: DType) -> String {
    dtype.as_str().to_string()
}

/// What PyTorch has once for a batch, as positions, a decode step has for each sequence.
pub(crate) fn for_each_sequence(golden: &Tensor, value: &Tensor) -> Result<Tensor> {
    let (one, all) = (golden.dims(), value.dims());
    let repeats = one.len() == all.len() && one.first() == Some(&1) && one[1..] == all[1..];
    if repeats {
        golden.broadcast_as(all)
    } else {
        Ok(golden.clone())
    }
}

pub(crate) fn compare(
    golden: &Tensor,
    value: &Tensor,
    floor: Option<&Floor>,
) -> Result<Comparison> {
    let mut result = Comparison {
        layer: String::new(),
        mse: f64::INFINITY,
        max_diff: f64::INFINITY,
        cosine: 0.0,
        error: f64::INFINITY,
        tolerance: 0.0,
        guessed: false,
        passed: false,
        unstable: false,
        why: String::new(),
        facts: Facts {
            dtype: dtype_name(golden.dtype()),
            shape: golden.dims().to_vec(),
            rms: f64::INFINITY,
            ..Facts::default()
        },
    };
    if golden.dims() != value.dims() || golden.dtype() != value.dtype() {
        result.why = format!(
            "is {:?} {:?} where PyTorch has {:?} {:?}",
            value.dtype(),
            value.dims(),
            golden.dtype(),
            golden.dims()
        );
        result.facts.differing = golden.elem_count();
        return Ok(result);
    }
    let (ours, theirs) = (as_f64(value)?, as_f64(golden)?);
    measure(&ours, &theirs, golden.dtype(), &mut result);
    result.facts.picture = picture(&ours, &theirs, golden.dims());
    judge(
        golden.dtype(),
        rms(theirs.iter().copied()),
        floor,
        &mut result,
    );
    Ok(result)
}

fn judge(dtype: DType, size: f64, floor: Option<&Floor>, result: &mut Comparison) {
    let unit = if size > 0.0 { size } else { 1.0 };
    let mut worst = f64::INFINITY;
    match floor {
        _ if !is_float(dtype) => (),
        Some(floor) => {
            result.facts.floor = *floor;
            result.tolerance = RMS_FACTOR * floor.rms / unit;
            worst = MAX_FACTOR * floor.max;
        }
        None => {
            result.tolerance = floors::guessed_tolerance(dtype);
            result.facts.floor.rms = result.tolerance * unit / RMS_FACTOR;
            result.guessed = true;
        }
    }
    let facts = &result.facts;
    result.passed =
        facts.nan_mismatches == 0 && result.error <= result.tolerance && result.max_diff <= worst;
    let moved = facts.floor.rms / unit;
    if result.passed && !result.guessed && facts.differing > 0 {
        result.unstable = moved > floors::roundoff(dtype).sqrt();
    }
    if result.unstable {
        result.why = format!("rounding alone moves this value by {moved:.2e} of its size");
    }
    if !result.passed {
        result.why = format!(
            "is off by {:.2e} of its size (rounding explains {:.2e}), {:.2e} at the worst element",
            result.error, result.tolerance, result.max_diff
        );
        let missing = facts.nan_mismatches;
        if missing > 0 {
            result.why += &format!(", and has NaN or infinities elsewhere, {missing} of them");
        }
    }
}
