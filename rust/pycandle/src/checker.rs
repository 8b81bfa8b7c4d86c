//! Values beside the ones that PyTorch gave.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;

use crate::floors::{self, Floor};
use crate::recording::{Recording, TensorFile};

/// A floor is what one order of rounding gave; another correct order may give this many times as much.
const RMS_FACTOR: f64 = 4.0;
const MAX_FACTOR: f64 = 16.0;

/// The golden values of a recording, and what was compared with them so far.
///
/// Clones share one list of results. [`Scoped::pp`] gives the checker of a module below, as `VarBuilder::pp` does for weights.
#[derive(Clone)]
pub struct PyChecker {
    shared: Arc<Shared>,
    path: String,
}

struct Shared {
    recording: Recording,
    goldens: TensorFile,
    key_of: HashMap<String, String>,
    floors: HashMap<String, Floor>,
    only_collects: bool,
    failures: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: HashMap<String, usize>,
    results: Vec<Comparison>,
}

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
    /// One sentence when it did not pass.
    pub why: String,
}

impl fmt::Debug for PyChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PyChecker({} {:?})",
            self.shared.recording.name(),
            self.path
        )
    }
}

impl PyChecker {
    /// The golden values of `{folder}/{name}_manifest.json`.
    pub fn load(name: &str, folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let recording = Recording::open(name, folder, device)?;
        let goldens = recording.goldens()?;
        let taps = recording.taps();
        let key_of = taps
            .map(|(id, key)| (id.to_string(), key.to_string()))
            .collect();
        let floors = floors::read(&recording);
        let shared = Shared {
            recording,
            goldens,
            key_of,
            floors,
            only_collects: false,
            failures: None,
            state: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            path: String::new(),
        })
    }

    /// The same, but [`py_check!`](crate::py_check) notes what is wrong instead of returning an error.
    pub fn collecting(name: &str, folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let mut checker = Self::load(name, folder, device)?;
        if let Some(shared) = Arc::get_mut(&mut checker.shared) {
            shared.only_collects = true;
        }
        Ok(checker)
    }

    /// Keeps the first wrong layer in this folder: both values, and a script that shows where they differ.
    pub fn keep_failures_in(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.failures = Some(folder.into());
        }
        self
    }

    pub fn recording(&self) -> &Recording {
        &self.shared.recording
    }

    /// The recorded weights, for a model's `load`.
    pub fn weights(&self, dtype: DType) -> Result<VarBuilder<'static>> {
        self.shared.recording.weights(dtype)
    }

    /// The recorded inputs, in the order of `forward`.
    pub fn inputs(&self) -> Result<Vec<Tensor>> {
        let names = self.shared.recording.inputs();
        names
            .iter()
            .map(|name| self.golden(&format!("input:{name}")))
            .collect()
    }

    /// A value that PyTorch gave, by its name in the file of golden values.
    pub fn golden(&self, key: &str) -> Result<Tensor> {
        self.shared
            .goldens
            .tensor(key, self.shared.recording.device())
    }

    /// `layer` is "h.0.mlp" for the output of its first call; "h.0.mlp@1" and "h.0.mlp@0/output.1" say more.
    pub fn verify(&self, layer: &str, value: &Tensor) -> Result<Comparison> {
        let id = tap_id(&self.full_path(layer));
        let Some(key) = self.shared.key_of.get(&id) else {
            bail!("there is no golden value of {id}");
        };
        let result = self.compared(&id, key, value)?;
        self.shared
            .state
            .lock()
            .unwrap()
            .results
            .push(result.clone());
        Ok(result)
    }

    /// An output of the whole model: "output", "output.logits".
    pub fn verify_output(&self, name: &str, value: &Tensor) -> Result<Comparison> {
        let result = self.compared(name, &format!("output:{name}"), value)?;
        self.shared
            .state
            .lock()
            .unwrap()
            .results
            .push(result.clone());
        Ok(result)
    }

    /// What was compared so far, in its order.
    pub fn report(&self) -> Report {
        Report {
            results: self.shared.state.lock().unwrap().results.clone(),
        }
    }

    fn full_path(&self, layer: &str) -> String {
        match (self.path.is_empty(), layer.is_empty()) {
            (true, _) => layer.to_string(),
            (_, true) => self.path.clone(),
            _ => format!("{}.{layer}", self.path),
        }
    }

    fn compared(&self, name: &str, key: &str, value: &Tensor) -> Result<Comparison> {
        let golden = self.golden(key)?;
        let mut result = compare(&golden, value, self.shared.floors.get(key))?;
        result.layer = name.to_string();
        if !result.passed {
            result.why = format!("{name} {}", result.why);
        }
        Ok(result)
    }

    fn check_layer(&self, layer: &str, value: &Tensor) -> Result<()> {
        let path = self.full_path(layer);
        let call = {
            let mut state = self.shared.state.lock().unwrap();
            let count = state.calls.entry(path.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let id = format!("{path}@{call}/output");
        let Some(key) = self.shared.key_of.get(&id) else {
            return Ok(());
        };
        if !self.shared.goldens.contains(key) {
            return Ok(());
        }
        let result = self.compared(&id, key, value)?;
        let (passed, why) = (result.passed, result.why.clone());
        let is_first = {
            let mut state = self.shared.state.lock().unwrap();
            let is_first = !passed && state.results.iter().all(|r| r.passed);
            state.results.push(result);
            is_first
        };
        if let (true, Some(folder)) = (is_first, &self.shared.failures) {
            keep_failure(folder, &id, value, &self.golden(key)?)?;
        }
        if !passed && !self.shared.only_collects {
            bail!("{why}");
        }
        Ok(())
    }
}

/// "h.0.mlp" → "h.0.mlp@0/output"
fn tap_id(layer: &str) -> String {
    let at = layer.rfind('@');
    match (at, layer[at.unwrap_or(0)..].contains('/')) {
        (None, _) => format!("{layer}@0/output"),
        (Some(_), false) => format!("{layer}/output"),
        _ => layer.to_string(),
    }
}

/// What [`py_check!`](crate::py_check) calls.
pub trait Checks {
    fn check(&self, layer: &dyn fmt::Display, value: &Tensor) -> Result<()>;
}

impl Checks for PyChecker {
    fn check(&self, layer: &dyn fmt::Display, value: &Tensor) -> Result<()> {
        self.check_layer(&layer.to_string(), value)
    }
}

impl<C: Checks> Checks for Option<C> {
    fn check(&self, layer: &dyn fmt::Display, value: &Tensor) -> Result<()> {
        match self {
            Some(checker) => checker.check(layer, value),
            None => Ok(()),
        }
    }
}

/// The checker of a module below this one.
pub trait Scoped {
    fn pp(&self, path: impl fmt::Display) -> Self;
}

impl Scoped for PyChecker {
    fn pp(&self, path: impl fmt::Display) -> Self {
        Self {
            shared: self.shared.clone(),
            path: self.full_path(&path.to_string()),
        }
    }
}

impl Scoped for Option<PyChecker> {
    fn pp(&self, path: impl fmt::Display) -> Self {
        self.as_ref().map(|checker| checker.pp(path))
    }
}

/// All comparisons of a run.
pub struct Report {
    results: Vec<Comparison>,
}

impl Report {
    pub fn results(&self) -> &[Comparison] {
        &self.results
    }

    /// Something was compared, and nothing was wrong.
    pub fn passed(&self) -> bool {
        !self.results.is_empty() && self.results.iter().all(|r| r.passed)
    }

    /// The layer in which a value is wrong first.
    pub fn first_wrong(&self) -> Option<&Comparison> {
        self.results.iter().find(|r| !r.passed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong: Vec<_> = self.results.iter().filter(|r| !r.passed).collect();
        let Some(first) = wrong.first() else {
            return match self.results.len() {
                0 => write!(f, "nothing was compared: record with --taps modules"),
                n => write!(f, "{n} values are PyTorch's, but for rounding"),
            };
        };
        let (count, all) = (wrong.len(), self.results.len());
        writeln!(f, "wrong first: {}", first.why)?;
        write!(f, "{count} of {all} values are wrong:")?;
        for result in wrong.iter().take(20) {
            write!(
                f,
                "\n  {}: {:.2e}, may be {:.2e}",
                result.layer, result.error, result.tolerance
            )?;
        }
        Ok(())
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

fn as_f64(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn rms(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    (values.map(|v| v * v).sum::<f64>() / count.max(1) as f64).sqrt()
}

fn compare(golden: &Tensor, value: &Tensor, floor: Option<&Floor>) -> Result<Comparison> {
    let mut result = Comparison {
        layer: String::new(),
        mse: f64::INFINITY,
        max_diff: f64::INFINITY,
        cosine: 0.0,
        error: f64::INFINITY,
        tolerance: 0.0,
        guessed: false,
        passed: false,
        why: String::new(),
    };
    if golden.dims() != value.dims() || golden.dtype() != value.dtype() {
        result.why = format!(
            "is {:?} {:?} where PyTorch has {:?} {:?}",
            value.dtype(),
            value.dims(),
            golden.dtype(),
            golden.dims()
        );
        return Ok(result);
    }
    let (ours, theirs) = (as_f64(value)?, as_f64(golden)?);
    let special = |x: f64| !x.is_finite();
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let pairs = || ours.iter().copied().zip(theirs.iter().copied());
    let mismatches = pairs()
        .filter(|&(a, b)| (special(a) || special(b)) && !same(a, b))
        .count();
    let finite: Vec<_> = pairs()
        .filter(|&(a, b)| !special(a) && !special(b))
        .collect();
    let error = rms(finite.iter().map(|(a, b)| a - b), finite.len());
    let (ours_size, size) = (
        rms(finite.iter().map(|p| p.0), finite.len()),
        rms(finite.iter().map(|p| p.1), finite.len()),
    );
    let dot = finite.iter().map(|(a, b)| a * b).sum::<f64>() / finite.len().max(1) as f64;
    result.mse = error * error;
    result.max_diff = finite
        .iter()
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    result.cosine = if ours_size * size > 0.0 {
        dot / (ours_size * size)
    } else {
        f64::from(error == 0.0)
    };
    result.error = if size > 0.0 { error / size } else { error };
    let mut worst = f64::INFINITY;
    match floor {
        _ if !is_float(golden.dtype()) => result.tolerance = 0.0,
        Some(floor) => {
            let floor = floor.of_candle(golden.dtype(), size);
            result.tolerance = RMS_FACTOR * floor.rms / if size > 0.0 { size } else { 1.0 };
            worst = MAX_FACTOR * floor.max;
        }
        None => {
            result.tolerance = floors::guessed_tolerance(golden.dtype());
            result.guessed = true;
        }
    }
    result.passed = mismatches == 0 && result.error <= result.tolerance && result.max_diff <= worst;
    if !result.passed {
        result.why = format!(
            "is off by {:.2e} of its size (rounding explains {:.2e}), {:.2e} at the worst element",
            result.error, result.tolerance, result.max_diff
        );
        if mismatches > 0 {
            result.why += &format!(", and has NaN or infinities elsewhere, {mismatches} of them");
        }
    }
    Ok(result)
}

const DEBUG_SCRIPT: &str = include_str!("debug_layer.py");

fn keep_failure(folder: &Path, layer: &str, ours: &Tensor, golden: &Tensor) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let as_f32 = |x: &Tensor| x.to_dtype(DType::F32)?.contiguous();
    let tensors = HashMap::from([("rust", as_f32(ours)?), ("pytorch", as_f32(golden)?)]);
    candle_core::safetensors::save(&tensors, folder.join("failing_layer.safetensors"))?;
    std::fs::write(
        folder.join("debug_layer.py"),
        DEBUG_SCRIPT.replace("@LAYER@", layer),
    )?;
    Ok(())
}
