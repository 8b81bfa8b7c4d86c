//! What rounding does to the recorded program: `{name}_floors.json`, which `pycandle codegen` writes beside the recording.

use std::collections::HashMap;

use candle_core::DType;
use serde_json::Value;

use crate::Recording;

/// How far rounding alone moves a value, and its size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    pub rms: f64,
    pub max: f64,
}

/// A guess, not a measurement: Candle adds the terms of products and convolutions in another order than PyTorch, and this many
/// roundoffs of the value's size pass for that.
const GROWTH: f64 = 10.0;

fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON / 2.0,
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => f64::from(f32::EPSILON) / 2.0,
    }
}

impl Floor {
    /// The floor of a value of this size that Candle computed.
    pub(crate) fn of_candle(self, dtype: DType, size: f64) -> Self {
        let least = GROWTH * roundoff(dtype) * size;
        Self {
            rms: self.rms.max(least),
            max: self.max.max(least),
        }
    }
}

/// By the value's name among the goldens; empty where there is no such file.
pub(crate) fn read(recording: &Recording) -> HashMap<String, Floor> {
    let mut floors = HashMap::new();
    let Ok(text) = std::fs::read_to_string(recording.beside("floors.json")) else {
        return floors;
    };
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    for (key, numbers) in json["calls"][0].as_object().into_iter().flatten() {
        if let (Some(rms), Some(max)) = (numbers[0].as_f64(), numbers[1].as_f64()) {
            floors.insert(key.clone(), Floor { rms, max });
        }
    }
    floors
}

/// What rounding may come to through a whole model, relative to the values: a guess, for where no floor is at hand.
pub(crate) fn guessed_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-8,
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 1e-3,
    }
}
