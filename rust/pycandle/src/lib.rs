//! What Candle code emitted by `pycandle codegen --target candle` stands on.
//!
//! - [`ops`]: operators with PyTorch's semantics: its promotion of dtypes, its broadcasting, and what Candle lacks.
//! - [`nn`]: layers that `candle_nn` lacks, or that it computes otherwise than PyTorch.
//! - [`PyChecker`], [`py_check!`]: values beside those that PyTorch gave, layer by layer.
//! - `bridge`, with the feature of that name: the portable program in PyCandle's own library, without Candle.
//!
//! ```no_run
//! use candle_core::{DType, Device, Result, Tensor};
//! use pycandle::{py_check, PyChecker};
//!
//! # fn main() -> Result<()> {
//! let device = Device::Cpu;
//! let checker = PyChecker::load("my_model", "pycandle_trace", &device)?;
//! let x = Tensor::zeros((2, 8), DType::F32, &device)?;
//! println!("MSE: {}", checker.verify("linear1", &x)?.mse);
//! py_check!(checker, "linear1", &x); // an error that names the layer when it is wrong
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "bridge")]
pub mod bridge;
#[cfg(feature = "candle")]
mod checker;
#[cfg(feature = "candle")]
mod compare;
#[cfg(feature = "candle")]
mod floors;
#[cfg(feature = "candle")]
mod recording;
#[cfg(feature = "candle")]
mod result;

#[cfg(feature = "candle")]
pub mod nn;
#[cfg(feature = "candle")]
pub mod ops;

#[cfg(feature = "bridge")]
pub use bridge::Model;
#[cfg(feature = "candle")]
pub use checker::{checked, Checked, Checks, PyChecker, Report, Scoped};
#[cfg(feature = "candle")]
pub use compare::Comparison;
#[cfg(feature = "candle")]
pub use recording::Recording;

/// Compares a layer's value with the one that PyTorch gave. Does nothing where there is no checker, or no such value.
///
/// The value, or a tuple of the parts that a layer gives, is lent, or given, and then it comes back: `let y = py_check!(checker, "linear", linear.forward(&x)?);`.
/// The checker is a [`PyChecker`] or an `Option<PyChecker>`. The error of a wrong layer leaves the function with `?`.
#[cfg(feature = "candle")]
#[macro_export]
macro_rules! py_check {
    ($checker:expr, $layer:expr, $value:expr) => {
        $crate::checked(&$checker, &$layer, $value)?
    };
}
