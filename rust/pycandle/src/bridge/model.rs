//! Models, their results and caches.

use std::ffi::CString;
use std::ops::Index;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use super::array::{Array, DType};
use super::ffi::{self, Functions, RawCache, RawInfo, RawModel, RawOptions, RawTensor, RawTensors};
use super::{Error, ErrorKind, Result};

/// The library's defaults are these too.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `PYCANDLE_BACKEND`, or "cpu"; "reference" is the definition of right.
    pub backend: Option<String>,
    /// 0: `PYCANDLE_THREADS`, or all cores.
    pub threads: usize,
    /// Of linear layers and embeddings: "f32", "bf16", "f16", "int8", "int4".
    pub weights: Option<String>,
    /// Weights from this file or folder, not those beside the program.
    pub checkpoint: Option<String>,
    /// What rows of a cache are kept in: "f32", "bf16", "f16".
    pub cache: Option<String>,
    /// Most bytes of weights in memory.
    pub parameter_budget: Option<usize>,
    /// Weights are read where they lie, in about half of the memory, and slower.
    pub small_memory: bool,
    /// All weights are read now, and damaged ones refused.
    pub check_weights: bool,
}

/// An input or output. `shape` has numbers, or names and expressions of sizes that are open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<String>,
}

/// A recorded model or a bundle that runs in PyCandle's library. It may be shared by threads; calls that change the same states
/// take turns.
pub struct Model {
    library: &'static Functions,
    raw: *mut RawModel,
}

unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { (self.library.model_free)(self.raw) }
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::new(ErrorKind::Usage, format!("{text:?} has a zero byte")))
}

/// Inputs as C takes them; the texts and shapes that they point to are kept beside.
struct Given {
    tensors: Vec<RawTensor>,
    _names: Vec<CString>,
    _shapes: Vec<Vec<i64>>,
}

impl Given {
    fn new(inputs: &[(&str, &Array)]) -> Result<Self> {
        let names = inputs
            .iter()
            .map(|(name, _)| c_text(name))
            .collect::<Result<Vec<_>>>()?;
        let shapes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|(_, array)| array.shape().iter().map(|&d| d as i64).collect())
            .collect();
        let tensors = inputs.iter().zip(&names).zip(&shapes);
        let tensors = tensors.map(|(((_, array), name), shape)| RawTensor {
            name: name.as_ptr(),
            dtype: array.dtype() as i32,
            rank: shape.len() as i32,
            shape: shape.as_ptr(),
            data: array.bytes().as_ptr().cast(),
        });
        Ok(Self {
            tensors: tensors.collect(),
            _names: names,
            _shapes: shapes,
        })
    }
}

impl Model {
    /// A bundle, a manifest, or the folder of one.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with(path, &Options::default())
    }

    pub fn load_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let library = ffi::library()?;
        let path = path.as_ref();
        let path = path.to_str().ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("{} is not UTF-8", path.display()))
        })?;
        let path = c_text(path)?;
        let texts = [
            &options.backend,
            &options.weights,
            &options.checkpoint,
            &options.cache,
        ];
        let texts = texts.map(|text| text.as_deref().map(c_text).transpose());
        let [backend, weights, checkpoint, cache] = texts;
        let (backend, weights, checkpoint, cache) = (backend?, weights?, checkpoint?, cache?);
        let or_null = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |t| t.as_ptr());
        let options = RawOptions {
            size: size_of::<RawOptions>(),
            backend: or_null(&backend),
            weights: or_null(&weights),
            checkpoint: or_null(&checkpoint),
            cache: or_null(&cache),
            parameter_budget: options.parameter_budget.unwrap_or(0),
            threads: i32::try_from(options.threads).unwrap_or(i32::MAX),
            small_memory: options.small_memory.into(),
            check_weights: options.check_weights.into(),
        };
        let raw = ffi::made(library, |result| unsafe {
            (library.load)(path.as_ptr(), &options, result)
        })?;
        Ok(Self { library, raw })
    }

    /// The same weights and plans, with states of its own that begin as recorded.
    pub fn session(&self) -> Result<Self> {
        let library = self.library;
        let raw = ffi::made(library, |result| unsafe {
            (library.session)(self.raw, result)
        })?;
        Ok(Self { library, raw })
    }

    pub fn name(&self) -> String {
        unsafe { ffi::text((self.library.model_name)(self.raw)) }
    }

    pub fn backend(&self) -> String {
        unsafe { ffi::text((self.library.model_backend)(self.raw)) }
    }

    /// "forward", "trace", "causal_lm", "embedding".
    pub fn can(&self, capability: &str) -> bool {
        let Ok(capability) = c_text(capability) else {
            return false;
        };
        unsafe { (self.library.model_can)(self.raw, capability.as_ptr()) == 1 }
    }

    pub fn inputs(&self) -> Result<Vec<TensorInfo>> {
        let count = unsafe { (self.library.input_count)(self.raw) };
        (0..count)
            .map(|i| unsafe { info((self.library.input_at)(self.raw, i)) })
            .collect()
    }

    pub fn outputs(&self) -> Result<Vec<TensorInfo>> {
        let count = unsafe { (self.library.output_count)(self.raw) };
        (0..count)
            .map(|i| unsafe { info((self.library.output_at)(self.raw, i)) })
            .collect()
    }

    /// Inputs by name, in any order.
    pub fn run(&self, inputs: &[(&str, &Array)]) -> Result<Outputs> {
        let given = Given::new(inputs)?;
        let tensors = &given.tensors;
        let raw = ffi::made(self.library, |result| unsafe {
            (self.library.run)(self.raw, tensors.as_ptr(), tensors.len(), result)
        })?;
        Outputs::new(self.library, raw)
    }

    /// For a model that can "causal_lm": what it has seen of each sequence of a batch. `inputs` are what it reads once, as an
    /// encoder; none for most.
    pub fn new_cache(
        &self,
        batch: usize,
        capacity: usize,
        inputs: &[(&str, &Array)],
    ) -> Result<Cache> {
        let given = Given::new(inputs)?;
        let tensors = &given.tensors;
        let library = self.library;
        let raw = ffi::made(library, |result| unsafe {
            (library.cache_new)(
                self.raw,
                batch as i64,
                capacity as i64,
                tensors.as_ptr(),
                tensors.len(),
                result,
            )
        })?;
        Ok(Cache { library, raw })
    }

    /// Runs new tokens `[batch, new]` behind those in the cache.
    pub fn step(&self, cache: &mut Cache, tokens: &[(&str, &Array)]) -> Result<Outputs> {
        self.stepped(cache, tokens, false)
    }

    /// The same; the outputs are those of each sequence's last token.
    pub fn step_last(&self, cache: &mut Cache, tokens: &[(&str, &Array)]) -> Result<Outputs> {
        self.stepped(cache, tokens, true)
    }

    fn stepped(&self, cache: &mut Cache, tokens: &[(&str, &Array)], last: bool) -> Result<Outputs> {
        let given = Given::new(tokens)?;
        let tensors = &given.tensors;
        let raw = ffi::made(self.library, |result| unsafe {
            (self.library.step)(
                self.raw,
                cache.raw,
                tensors.as_ptr(),
                tensors.len(),
                ptr::null(),
                last.into(),
                result,
            )
        })?;
        Outputs::new(self.library, raw)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Model({} on {})", self.name(), self.backend())
    }
}

/// # Safety
/// Of a model that is alive.
unsafe fn info(raw: RawInfo) -> Result<TensorInfo> {
    let dims = (0..raw.rank as usize).map(|i| ffi::text(*raw.dims.add(i)));
    Ok(TensorInfo {
        name: ffi::text(raw.name),
        dtype: DType::from_number(raw.dtype)?,
        shape: dims.collect(),
    })
}

/// What arrays of a result keep alive.
pub(crate) struct Handle {
    library: &'static Functions,
    raw: *mut RawTensors,
}

// Nobody writes to results.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        unsafe { (self.library.tensors_free)(self.raw) }
    }
}

/// The outputs of a run in the model's order: `outputs["output.logits"]`.
#[derive(Debug, Clone)]
pub struct Outputs {
    all: Vec<(String, Array)>,
}

impl Outputs {
    fn new(library: &'static Functions, raw: *mut RawTensors) -> Result<Self> {
        let handle = Arc::new(Handle { library, raw });
        let count = unsafe { (library.tensors_count)(raw) };
        let all = (0..count).map(|i| unsafe {
            let t = (library.tensors_at)(raw, i);
            let shape = (0..t.rank as usize).map(|d| *t.shape.add(d) as usize);
            let (dtype, shape) = (DType::from_number(t.dtype)?, shape.collect());
            let array = Array::of_result(dtype, shape, handle.clone(), t.data.cast());
            Ok((ffi::text(t.name), array))
        });
        Ok(Self {
            all: all.collect::<Result<_>>()?,
        })
    }

    pub fn get(&self, name: &str) -> Option<&Array> {
        self.all.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Array)> {
        self.all.iter().map(|(name, array)| (name.as_str(), array))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Index<&str> for Outputs {
    type Output = Array;

    /// Panics where there is no such output; [`Outputs::get`] does not.
    fn index(&self, name: &str) -> &Array {
        let names = || {
            let names: Vec<_> = self.iter().map(|(name, _)| name).collect();
            names.join(", ")
        };
        self.get(name)
            .unwrap_or_else(|| panic!("there is no output {name}, but {}", names()))
    }
}

/// The version of PyCandle's library: "0.2.0".
pub fn library_version() -> Result<String> {
    let library = ffi::library()?;
    Ok(unsafe { ffi::text((library.library_version)()) })
}

/// What a model has seen of each sequence of a batch.
pub struct Cache {
    library: &'static Functions,
    raw: *mut RawCache,
}

unsafe impl Send for Cache {}

impl Drop for Cache {
    fn drop(&mut self) {
        unsafe { (self.library.cache_free)(self.raw) }
    }
}

impl Cache {
    pub fn batch(&self) -> usize {
        unsafe { (self.library.cache_batch)(self.raw) as usize }
    }

    pub fn capacity(&self) -> usize {
        unsafe { (self.library.cache_capacity)(self.raw) as usize }
    }

    /// Tokens of each sequence.
    pub fn lengths(&self) -> Vec<usize> {
        let length = |i| unsafe { (self.library.cache_length)(self.raw, i) as usize };
        (0..self.batch() as i64).map(length).collect()
    }

    /// Forgets the tokens of a sequence behind the first `length`.
    pub fn truncate(&mut self, sequence: usize, length: usize) -> Result<()> {
        let raw =
            unsafe { (self.library.cache_truncate)(self.raw, sequence as i64, length as i64) };
        ffi::checked(self.library, raw)
    }

    /// A copy of these sequences: samples from one prompt, beams.
    pub fn fork(&self, sequences: &[usize]) -> Result<Self> {
        let sequences: Vec<i64> = sequences.iter().map(|&s| s as i64).collect();
        let library = self.library;
        let raw = ffi::made(library, |result| unsafe {
            (library.cache_fork)(self.raw, sequences.as_ptr(), sequences.len(), result)
        })?;
        Ok(Self { library, raw })
    }
}
