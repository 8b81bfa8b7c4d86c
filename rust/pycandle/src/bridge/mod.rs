//! Runs the portable program in PyCandle's own library, over its C ABI (`pycandle/c.h`): no Candle, the same kernels as C++.
//!
//! ```no_run
//! use pycandle::bridge::{Array, Model};
//!
//! # fn main() -> Result<(), pycandle::bridge::Error> {
//! let model = Model::load("model.pycandle")?;
//! let ids = Array::new(&[1, 3], &[15496i64, 11, 995])?;
//! let outputs = model.run(&[("input_ids", &ids)])?;
//! let logits: &[f32] = outputs["output.logits"].as_slice()?;
//! # let _ = logits;
//! # Ok(())
//! # }
//! ```
//!
//! The shared library is opened when the first model is loaded. It is looked for
//!
//! 1. in the file `PYCANDLE_LIBRARY`, and then nowhere else;
//! 2. beside the program, and in `../lib` from there;
//! 3. where the system looks (`LD_LIBRARY_PATH`, `ldconfig`);
//! 4. where this crate was when it was compiled: in the installation or wheel that it is from, or in `build/release`.

mod array;
mod ffi;
mod model;

pub use array::{Array, DType, Element};
pub use model::{library_version, Cache, Model, Options, Outputs, TensorInfo};

/// What went wrong, in the library's words.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// One sentence.
    pub message: String,
    /// All that is known, several lines.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The library cannot do this yet.
    Gap,
    /// A value is wrong.
    Verdict,
    /// The caller asked for what there is not.
    Usage,
    /// A file or a tensor is not what it should be.
    BadInput,
    /// A fault of the library, or no memory.
    Internal,
    /// There is no shared library, or another version of it.
    Library,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            kind,
            text: message.clone(),
            message,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// What `main` shows.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(feature = "candle")]
impl From<Error> for candle_core::Error {
    fn from(error: Error) -> Self {
        Self::wrap(error)
    }
}
