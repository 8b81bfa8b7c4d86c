//! A recording on disk: its manifest, its golden values, its weights.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{bail, DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use serde_json::Value;

/// A recording made by `pycandle record`.
pub struct Recording {
    name: String,
    folder: PathBuf,
    manifest: Value,
    device: Device,
}

impl Recording {
    /// Opens `{folder}/{name}_manifest.json`.
    pub fn open(name: &str, folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = folder.as_ref().join(format!("{name}_manifest.json"));
        let text = std::fs::read_to_string(&path)
            .map_err(|e| Error::Msg(format!("{}: {e}", path.display())))?;
        let manifest: Value = serde_json::from_str(&text)
            .map_err(|e| Error::Msg(format!("{}: {e}", path.display())))?;
        if manifest["format"] != "pycandle.manifest" {
            bail!("{} is no manifest of a recording", path.display());
        }
        Ok(Self {
            name: name.to_string(),
            folder: folder.as_ref().to_path_buf(),
            manifest,
            device: device.clone(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A file of the recording, by what the manifest calls it: "trace", "weights".
    fn file(&self, kind: &str) -> Option<PathBuf> {
        let name = self.manifest["files"][kind].as_str()?;
        Some(self.folder.join(name))
    }

    pub(crate) fn manifest(&self) -> &Value {
        &self.manifest
    }

    pub(crate) fn in_folder(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    pub(crate) fn trace_files(&self) -> Vec<&str> {
        let files = ["trace", "second_trace"].iter();
        files
            .filter_map(|kind| self.manifest["files"][kind].as_str())
            .collect()
    }

    /// Each once.
    pub(crate) fn weight_files(&self) -> Vec<&str> {
        let stored = [self.entries("parameters"), self.entries("states")];
        let files = stored.iter().flat_map(|list| list.iter());
        let mut files: Vec<_> = files.filter_map(|entry| entry["file"].as_str()).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The file of that ending beside the manifest: "floors.json".
    pub(crate) fn beside(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}_{ending}", self.name))
    }

    fn entries(&self, kind: &str) -> &[Value] {
        self.manifest[kind].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the model's inputs that it uses, in the order of `forward`.
    pub fn inputs(&self) -> Vec<&str> {
        let used = |entry: &&Value| entry["used"] != Value::Bool(false);
        let inputs = self.entries("inputs").iter().filter(used);
        inputs.filter_map(|entry| entry["name"].as_str()).collect()
    }

    /// The names of the model's outputs: "output", "output.logits".
    pub fn outputs(&self) -> Vec<&str> {
        let outputs = self.entries("outputs").iter();
        outputs.filter_map(|entry| entry["name"].as_str()).collect()
    }

    /// Of each tap its id and its key in the file of golden values.
    pub(crate) fn taps(&self) -> impl Iterator<Item = (&str, &str)> {
        let taps = self.entries("taps").iter();
        taps.filter_map(|tap| Some((tap["id"].as_str()?, tap["key"].as_str()?)))
    }

    pub(crate) fn goldens(&self) -> Result<TensorFile> {
        match self.file("trace") {
            Some(path) => TensorFile::open(&path),
            None => bail!("the recording {} has no golden values", self.name),
        }
    }

    /// The model's parameters under the names that its code asks for: canonical ones, and aliases of tied weights.
    pub fn weights(&self, dtype: DType) -> Result<VarBuilder<'static>> {
        let mut files: HashMap<PathBuf, TensorFile> = HashMap::new();
        let mut tensors = HashMap::new();
        let stored = self
            .entries("parameters")
            .iter()
            .chain(self.entries("states"));
        for parameter in stored {
            let (Some(name), Some(file), Some(key)) = (
                parameter["name"].as_str(),
                parameter["file"].as_str(),
                parameter["key"].as_str(),
            ) else {
                continue;
            };
            let path = self.folder.join(file);
            if !files.contains_key(&path) {
                files.insert(path.clone(), TensorFile::open(&path)?);
            }
            let tensor = files[&path].tensor(key, &self.device)?;
            let aliases = parameter["aliases"].as_array().into_iter().flatten();
            for alias in aliases.filter_map(Value::as_str) {
                tensors.insert(alias.to_string(), tensor.clone());
            }
            tensors.insert(name.to_string(), tensor);
        }
        if tensors.is_empty() && !self.entries("parameters").is_empty() {
            bail!(
                "the recording {} has no weights: record with --weights save",
                self.name
            );
        }
        Ok(VarBuilder::from_tensors(tensors, dtype, &self.device))
    }
}

/// A safetensors file that is mapped into memory.
pub(crate) struct TensorFile {
    map: memmap2::Mmap,
    path: PathBuf,
}

impl TensorFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let at = |e: std::io::Error| Error::Msg(format!("{}: {e}", path.display()));
        let file = std::fs::File::open(path).map_err(at)?;
        // The files of a recording are replaced by renaming, never changed in place.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(at)?;
        let opened = Self {
            map,
            path: path.to_path_buf(),
        };
        opened.parsed()?;
        Ok(opened)
    }

    fn parsed(&self) -> Result<safetensors::SafeTensors<'_>> {
        safetensors::SafeTensors::deserialize(&self.map)
            .map_err(|e| Error::Msg(format!("{}: {e}", self.path.display())))
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.parsed().is_ok_and(|file| file.tensor(key).is_ok())
    }

    /// Booleans come as U8, which is what Candle compares to, and I8 as I16.
    pub(crate) fn tensor(&self, key: &str, device: &Device) -> Result<Tensor> {
        use safetensors::Dtype;
        let file = self.parsed()?;
        let view = file
            .tensor(key)
            .map_err(|e| Error::Msg(format!("{}: {key}: {e}", self.path.display())))?;
        let (bytes, shape) = (view.data(), view.shape());
        let dtype = match view.dtype() {
            Dtype::BOOL => return Tensor::from_slice(bytes, shape, device),
            Dtype::I8 => {
                let wide: Vec<i16> = bytes.iter().map(|&b| i16::from(b as i8)).collect();
                return Tensor::from_vec(wide, shape, device);
            }
            Dtype::U8 => DType::U8,
            Dtype::U32 => DType::U32,
            Dtype::I16 => DType::I16,
            Dtype::I32 => DType::I32,
            Dtype::I64 => DType::I64,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            other => bail!("{key} is {other:?}, which Candle does not have"),
        };
        Tensor::from_raw_buffer(bytes, dtype, shape, device)
    }
}
