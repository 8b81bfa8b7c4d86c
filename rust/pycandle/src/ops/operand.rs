//! Tensors and numbers in one expression.

use candle_core::{DType, Device, Result, Tensor};

/// What an arithmetic operator takes: a tensor, or a number that takes the tensor's dtype where PyTorch's would.
#[derive(Clone)]
pub enum Operand {
    Tensor(Tensor),
    Integer(i64),
    Float(f64),
}

impl From<Tensor> for Operand {
    fn from(x: Tensor) -> Self {
        Self::Tensor(x)
    }
}

impl From<&Tensor> for Operand {
    fn from(x: &Tensor) -> Self {
        Self::Tensor(x.clone())
    }
}

impl From<f64> for Operand {
    fn from(x: f64) -> Self {
        Self::Float(x)
    }
}

impl From<i64> for Operand {
    fn from(x: i64) -> Self {
        Self::Integer(x)
    }
}

impl From<i32> for Operand {
    fn from(x: i32) -> Self {
        Self::Integer(x.into())
    }
}

impl From<usize> for Operand {
    fn from(x: usize) -> Self {
        Self::Integer(x as i64)
    }
}

/// How much a dtype holds; the larger of two wins.
fn order(dtype: DType) -> u32 {
    match dtype {
        DType::U8 => 0,
        DType::U32 => 1,
        DType::I16 => 2,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F16 => 10,
        DType::BF16 => 11,
        DType::F32 => 12,
        DType::F64 => 13,
        _ => 14,
    }
}

pub(crate) fn is_float(dtype: DType) -> bool {
    order(dtype) >= 10
}

fn promoted(a: DType, b: DType) -> DType {
    match (a, b) {
        (DType::F16, DType::BF16) | (DType::BF16, DType::F16) => DType::F32,
        _ if order(a) >= order(b) => a,
        _ => b,
    }
}

impl Operand {
    fn device(&self) -> Option<&Device> {
        match self {
            Self::Tensor(x) => Some(x.device()),
            _ => None,
        }
    }

    fn on(&self, device: &Device) -> Result<Tensor> {
        match self {
            Self::Tensor(x) => Ok(x.clone()),
            Self::Integer(x) => Tensor::new(*x, device),
            Self::Float(x) => Tensor::new(*x, device),
        }
    }
}

/// PyTorch's rule: tensors with axes decide, then tensors without, then numbers, each where it is of a higher kind.
pub(crate) fn result_type(operands: &[&Operand]) -> DType {
    let kinds = |pick: &dyn Fn(&Operand) -> Option<DType>| {
        operands.iter().filter_map(|o| pick(o)).reduce(promoted)
    };
    let with_axes = kinds(&|o| match o {
        Operand::Tensor(x) if x.rank() > 0 => Some(x.dtype()),
        _ => None,
    });
    let without = kinds(&|o| match o {
        Operand::Tensor(x) if x.rank() == 0 => Some(x.dtype()),
        _ => None,
    });
    let numbers = kinds(&|o| match o {
        Operand::Integer(_) => Some(DType::I64),
        Operand::Float(_) => Some(DType::F32),
        Operand::Tensor(_) => None,
    });
    let higher = |a: DType, b: DType| if is_float(b) && !is_float(a) { b } else { a };
    let mut found = with_axes;
    for next in [without, numbers].into_iter().flatten() {
        found = Some(found.map_or(next, |dtype| higher(dtype, next)));
    }
    found.unwrap_or(DType::F32)
}

/// Both as tensors of one dtype.
pub(crate) fn promote(a: &Operand, b: &Operand) -> Result<(Tensor, Tensor)> {
    let dtype = result_type(&[a, b]);
    let device = a.device().or(b.device()).cloned().unwrap_or(Device::Cpu);
    Ok((
        a.on(&device)?.to_dtype(dtype)?,
        b.on(&device)?.to_dtype(dtype)?,
    ))
}

pub(crate) fn as_tensor(a: &Operand, device: &Device) -> Result<Tensor> {
    a.on(device)
}
