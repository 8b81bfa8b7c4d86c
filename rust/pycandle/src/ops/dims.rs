//! Sizes.

/// A size divided and rounded down.
pub fn floordiv(a: usize, b: usize) -> usize {
    a / b
}

/// What is left of a size.
pub fn mod_(a: usize, b: usize) -> usize {
    a % b
}

pub fn min(a: usize, b: usize) -> usize {
    a.min(b)
}

pub fn max(a: usize, b: usize) -> usize {
    a.max(b)
}
