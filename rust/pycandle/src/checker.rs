//! Values beside the ones that PyTorch gave.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use candle_core::{bail, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;

use crate::compare::{compare, for_each_sequence, Comparison};
use crate::floors::{self, Floor};
use crate::recording::{Recording, TensorFile};
use crate::result;

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
    /// "h.0.attn@0/output" → "h.0.attn@0/output.0": of what modules gave in parts, the part that is recorded first.
    first_part: HashMap<String, String>,
    floors: HashMap<String, Floor>,
    only_collects: bool,
    is_decode_step: bool,
    failures: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: HashMap<String, usize>,
    results: Vec<Comparison>,
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
        let (mut key_of, mut first_part) = (HashMap::new(), HashMap::new());
        for (id, key) in recording.taps() {
            key_of.insert(id.to_string(), key.to_string());
            if let Some(at) = id.find("/output.") {
                let whole = id[..at + "/output".len()].to_string();
                first_part.entry(whole).or_insert_with(|| id.to_string());
            }
        }
        let floors = floors::read(&recording);
        let shared = Shared {
            recording,
            goldens,
            key_of,
            first_part,
            floors,
            only_collects: false,
            is_decode_step: false,
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

    /// For a decode step: what PyTorch has once for a batch, as positions, the step has for each sequence.
    pub fn for_decode_step(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.is_decode_step = true;
        }
        self
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

    /// `layer` is "h.0.mlp" for the output of its first call, the first part of it where it has several;
    /// "h.0.mlp@1" and "h.0.mlp@0/output.1" say more.
    pub fn verify(&self, layer: &str, value: &Tensor) -> Result<Comparison> {
        let id = tap_id(&self.full_path(layer));
        let Some((id, key)) = self.recorded(&id) else {
            bail!("there is no golden value of {id}");
        };
        let result = self.compared(id, key, value)?;
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

    /// What was compared so far, as the result file of `pycandle verify --out`: for `pycandle report` and `pycandle dashboard`.
    pub fn write_result(&self, path: impl AsRef<Path>) -> Result<()> {
        let results = self.report().results;
        result::write(path.as_ref(), &self.shared.recording, &results)
    }

    /// An error of a run, with the layer that was checked last before it.
    pub fn placed<T>(&self, run: Result<T>) -> Result<T> {
        run.map_err(
            |error| match self.shared.state.lock().unwrap().results.last() {
                Some(last) => error.context(format!("after the layer {}", last.layer)),
                None => error.context("before the first layer"),
            },
        )
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
        let mut golden = self.golden(key)?;
        if self.shared.is_decode_step {
            golden = for_each_sequence(&golden, value)?;
        }
        let mut result = compare(&golden, value, self.shared.floors.get(key))?;
        result.layer = name.to_string();
        result.facts.key = key.to_string();
        if !result.passed {
            result.why = format!("{name} {}", result.why);
        }
        Ok(result)
    }

    /// The id and the key of a golden value; the first part stands for a whole that has parts.
    fn recorded<'a>(&'a self, id: &'a str) -> Option<(&'a str, &'a str)> {
        let shared = &self.shared;
        if let Some(key) = shared.key_of.get(id) {
            return Some((id, key));
        }
        let part = shared.first_part.get(id)?;
        Some((part, shared.key_of.get(part)?))
    }

    fn check_layer(&self, layer: &str, values: &[&Tensor]) -> Result<()> {
        let layer = self.full_path(layer);
        let (module, part) = layer.split_once('/').unwrap_or((&layer, "output"));
        let call = {
            let mut state = self.shared.state.lock().unwrap();
            let count = state.calls.entry(layer.clone()).or_default();
            *count += 1;
            *count - 1
        };
        for (i, value) in values.iter().enumerate() {
            let id = match values.len() {
                1 => format!("{module}@{call}/{part}"),
                _ => format!("{module}@{call}/{part}.{i}"),
            };
            if let Some((id, key)) = self.recorded(&id) {
                if self.shared.goldens.contains(key) {
                    self.check_value(id, key, value)?;
                }
            }
        }
        Ok(())
    }

    fn check_value(&self, id: &str, key: &str, value: &Tensor) -> Result<()> {
        let result = self.compared(id, key, value)?;
        let (passed, why) = (result.passed, result.why.clone());
        let is_first = {
            let mut state = self.shared.state.lock().unwrap();
            let is_first = !passed && state.results.iter().all(|r| r.passed);
            state.results.push(result);
            is_first
        };
        if let (true, Some(folder)) = (is_first, &self.shared.failures) {
            keep_failure(folder, id, value, &self.golden(key)?)?;
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
    /// Of several values, the parts of what a layer gave.
    fn check(&self, layer: &dyn fmt::Display, values: &[&Tensor]) -> Result<()>;
}

impl Checks for PyChecker {
    fn check(&self, layer: &dyn fmt::Display, values: &[&Tensor]) -> Result<()> {
        self.check_layer(&layer.to_string(), values)
    }
}

impl<C: Checks> Checks for Option<C> {
    fn check(&self, layer: &dyn fmt::Display, values: &[&Tensor]) -> Result<()> {
        match self {
            Some(checker) => checker.check(layer, values),
            None => Ok(()),
        }
    }
}

/// A tensor or a tuple of them that is checked: what is lent gives nothing, what is given comes back.
pub trait Checked {
    type Back;
    fn check(&self, checker: &impl Checks, layer: &dyn fmt::Display) -> Result<()>;
    fn back(self) -> Self::Back;
}

impl Checked for &Tensor {
    type Back = ();
    fn check(&self, checker: &impl Checks, layer: &dyn fmt::Display) -> Result<()> {
        checker.check(layer, &[self])
    }
    fn back(self) {}
}

impl Checked for Tensor {
    type Back = Self;
    fn check(&self, checker: &impl Checks, layer: &dyn fmt::Display) -> Result<()> {
        checker.check(layer, &[self])
    }
    fn back(self) -> Self {
        self
    }
}

macro_rules! checked_tuple {
    ($($tensor:ident $name:ident),+) => {
        impl Checked for ($(&$tensor,)+) {
            type Back = ();
            fn check(&self, checker: &impl Checks, layer: &dyn fmt::Display) -> Result<()> {
                let ($($name,)+) = self;
                checker.check(layer, &[$($name),+])
            }
            fn back(self) {}
        }

        impl Checked for ($($tensor,)+) {
            type Back = Self;
            fn check(&self, checker: &impl Checks, layer: &dyn fmt::Display) -> Result<()> {
                let ($($name,)+) = self;
                checker.check(layer, &[$($name),+])
            }
            fn back(self) -> Self {
                self
            }
        }
    };
}
checked_tuple!(Tensor a, Tensor b);
checked_tuple!(Tensor a, Tensor b, Tensor c);
checked_tuple!(Tensor a, Tensor b, Tensor c, Tensor d);
checked_tuple!(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e);
checked_tuple!(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f);

/// What [`py_check!`](crate::py_check) calls.
pub fn checked<V: Checked>(
    checker: &impl Checks,
    layer: &dyn fmt::Display,
    value: V,
) -> Result<V::Back> {
    value.check(checker, layer)?;
    Ok(value.back())
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
