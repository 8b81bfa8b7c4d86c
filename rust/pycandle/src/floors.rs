//! What rounding does to the recorded program: `{name}_floors.json`, which `pycandle codegen` writes beside the recording.

use std::collections::HashMap;

use candle_core::DType;
use serde_json::Value;

use crate::Recording;

/// How far rounding alone moves a value, and by how much at the worst element.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Floor {
    pub rms: f64,
    pub max: f64,
}

pub(crate) fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON / 2.0,
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => f64::from(f32::EPSILON) / 2.0,
    }
}

/// By the value's name among the goldens; empty where there is no such file. Candle adds the terms of sums in an order of its own,
/// so the floors are those of runs in which sums err as they do in any order.
pub(crate) fn read(recording: &Recording) -> HashMap<String, Floor> {
    let mut floors = HashMap::new();
    let Ok(text) = std::fs::read_to_string(recording.beside("floors.json")) else {
        return floors;
    };
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let first_call = json["calls_in_any_order"][0].as_object();
    for (key, numbers) in first_call.into_iter().flatten() {
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
