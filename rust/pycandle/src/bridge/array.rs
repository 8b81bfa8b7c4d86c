//! Arrays as the library has them: dense, row-major, in host memory.

use std::sync::Arc;

use super::model::Handle;
use super::{Error, ErrorKind, Result};

/// Element types, with the numbers that they have in the C ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    F64 = 0,
    F32 = 1,
    F16 = 2,
    BF16 = 3,
    I64 = 4,
    I32 = 5,
    I16 = 6,
    I8 = 7,
    U8 = 8,
    Bool = 9,
    C64 = 10,
    C128 = 11,
}

const DTYPES: [(DType, usize); 12] = [
    (DType::F64, 8),
    (DType::F32, 4),
    (DType::F16, 2),
    (DType::BF16, 2),
    (DType::I64, 8),
    (DType::I32, 4),
    (DType::I16, 2),
    (DType::I8, 1),
    (DType::U8, 1),
    (DType::Bool, 1),
    (DType::C64, 8),
    (DType::C128, 16),
];

impl DType {
    pub(crate) fn from_number(number: i32) -> Result<Self> {
        let at = usize::try_from(number).ok();
        let found = at.and_then(|n| DTYPES.get(n));
        found.map(|(dtype, _)| *dtype).ok_or_else(|| {
            Error::new(
                ErrorKind::Library,
                format!("the library has a dtype {number} that this crate does not know"),
            )
        })
    }

    /// Bytes an element.
    pub fn size(self) -> usize {
        DTYPES[self as usize].1
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Rust's types that are elements. F16, BF16 and complex numbers go as bytes.
pub trait Element: Copy + sealed::Sealed + 'static {
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}
elements!(f64 => F64, f32 => F32, i64 => I64, i32 => I32, i16 => I16, i8 => I8, u8 => U8, bool => Bool);

/// A dense, row-major array. Clones share the memory.
#[derive(Clone)]
pub struct Array {
    dtype: DType,
    shape: Vec<usize>,
    data: Data,
}

#[derive(Clone)]
enum Data {
    /// Words, so that it is aligned for every element.
    Own(Arc<[u64]>),
    /// Of a result, which it keeps alive.
    Result {
        data: *const u8,
        _owner: Arc<Handle>,
    },
}

// What a result points to is written by nobody.
unsafe impl Send for Data {}
unsafe impl Sync for Data {}

fn bytes_of(dtype: DType, shape: &[usize]) -> Result<usize> {
    let all = shape
        .iter()
        .try_fold(dtype.size(), |n, &d| n.checked_mul(d));
    all.filter(|&n| n <= isize::MAX as usize).ok_or_else(|| {
        Error::new(
            ErrorKind::BadInput,
            format!("an array of the shape {shape:?} is too large"),
        )
    })
}

impl Array {
    /// A copy of these elements.
    pub fn new<T: Element>(shape: &[usize], elements: &[T]) -> Result<Self> {
        // Elements have no padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), size_of_val(elements))
        };
        Self::from_bytes(T::DTYPE, shape, bytes)
    }

    /// A copy of these bytes, in the machine's order.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        let expected = bytes_of(dtype, shape)?;
        if expected != bytes.len() {
            return Err(Error::new(
                ErrorKind::BadInput,
                format!(
                    "an array {dtype:?} {shape:?} has {expected} bytes, not {}",
                    bytes.len()
                ),
            ));
        }
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                words.as_mut_ptr().cast::<u8>(),
                bytes.len(),
            );
        }
        Ok(Self {
            dtype,
            shape: shape.to_vec(),
            data: Data::Own(words.into()),
        })
    }

    /// # Safety
    /// `data` has the bytes of such an array for as long as `owner` lives.
    pub(crate) unsafe fn of_result(
        dtype: DType,
        shape: Vec<usize>,
        owner: Arc<Handle>,
        data: *const u8,
    ) -> Self {
        Self {
            dtype,
            shape,
            data: Data::Result {
                data,
                _owner: owner,
            },
        }
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(&self) -> *const u8 {
        match &self.data {
            Data::Own(words) => words.as_ptr().cast(),
            Data::Result { data, .. } => *data,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        if self.is_empty() {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(self.start(), self.len() * self.dtype.size()) }
    }

    /// The elements. Another type than the array's is an error.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if self.dtype != T::DTYPE {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("the array is {:?}, not {:?}", self.dtype, T::DTYPE),
            ));
        }
        if self.is_empty() {
            return Ok(&[]);
        }
        // The library aligns what it gives, and its booleans are 0 or 1.
        Ok(unsafe { std::slice::from_raw_parts(self.start().cast::<T>(), self.len()) })
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({:?} {:?})", self.dtype, self.shape)
    }
}

#[cfg(feature = "candle")]
mod with_candle {
    use candle_core::{DType as Candle, Device, Tensor};

    use super::{Array, DType};

    impl TryFrom<&Tensor> for Array {
        type Error = candle_core::Error;

        /// A copy in host memory.
        fn try_from(tensor: &Tensor) -> candle_core::Result<Self> {
            let flat = tensor.flatten_all()?;
            let shape = tensor.dims();
            let bits = |x: Vec<u16>, dtype| {
                let bytes: Vec<u8> = x.iter().flat_map(|b| b.to_ne_bytes()).collect();
                Self::from_bytes(dtype, shape, &bytes)
            };
            Ok(match tensor.dtype() {
                Candle::F64 => Self::new(shape, &flat.to_vec1::<f64>()?)?,
                Candle::F32 => Self::new(shape, &flat.to_vec1::<f32>()?)?,
                Candle::I64 => Self::new(shape, &flat.to_vec1::<i64>()?)?,
                Candle::I32 => Self::new(shape, &flat.to_vec1::<i32>()?)?,
                Candle::I16 => Self::new(shape, &flat.to_vec1::<i16>()?)?,
                Candle::U8 => Self::new(shape, &flat.to_vec1::<u8>()?)?,
                Candle::F16 => {
                    let x = flat.to_vec1::<half::f16>()?;
                    bits(x.iter().map(|v| v.to_bits()).collect(), DType::F16)?
                }
                Candle::BF16 => {
                    let x = flat.to_vec1::<half::bf16>()?;
                    bits(x.iter().map(|v| v.to_bits()).collect(), DType::BF16)?
                }
                other => candle_core::bail!("PyCandle has no arrays of {other:?}"),
            })
        }
    }

    impl Array {
        /// A copy as Candle's tensor. Booleans are U8 there, and i8 is I16.
        pub fn to_candle(&self, device: &Device) -> candle_core::Result<Tensor> {
            let dtype = match self.dtype() {
                DType::F64 => Candle::F64,
                DType::F32 => Candle::F32,
                DType::F16 => Candle::F16,
                DType::BF16 => Candle::BF16,
                DType::I64 => Candle::I64,
                DType::I32 => Candle::I32,
                DType::I16 => Candle::I16,
                DType::U8 | DType::Bool => Candle::U8,
                DType::I8 => {
                    let wide: Vec<i16> = self.as_slice::<i8>()?.iter().map(|&v| v.into()).collect();
                    return Tensor::from_vec(wide, self.shape(), device);
                }
                other => candle_core::bail!("Candle has no tensors of {other:?}"),
            };
            Tensor::from_raw_buffer(self.bytes(), dtype, self.shape(), device)
        }
    }
}
