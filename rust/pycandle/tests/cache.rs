//! What a decode step keeps: the rows of all tokens, in their order.

use candle_core::{Device, Result, Tensor};
use pycandle::nn::CacheRows;

/// Rows [2, 3, count, 4] that are counted from `start`.
fn rows(start: usize, count: usize) -> Result<Tensor> {
    let values = Tensor::arange(start as f32, (start + count) as f32, &Device::Cpu)?;
    values
        .reshape((1, 1, count, 1))?
        .broadcast_as((2, 3, count, 4))?
        .contiguous()
}

fn check(all: &Tensor, count: usize) -> Result<()> {
    assert_eq!(all.dims(), [2, 3, count, 4]);
    let wrong = (all - rows(0, count)?)?.abs()?.sum_all()?;
    assert_eq!(wrong.to_scalar::<f32>()?, 0.0);
    Ok(())
}

#[test]
fn rows_stay_in_their_order_when_a_cache_grows() -> Result<()> {
    let mut cache = CacheRows::default();
    let mut seen = 0;
    for count in [5, 250, 1, 1, 300, 1] {
        let all = cache.append(&rows(seen, count)?)?;
        seen += count;
        check(&all, seen)?;
    }
    Ok(())
}

#[test]
fn a_clone_goes_on_by_itself() -> Result<()> {
    let mut cache = CacheRows::default();
    cache.append(&rows(0, 3)?)?;
    let mut other = cache.clone();
    let ours = cache.append(&rows(3, 1)?)?;
    let theirs = other.append(&(rows(3, 1)? * -1.0)?)?;
    check(&ours, 4)?;
    assert_eq!(theirs.get(0)?.get(0)?.get(3)?.to_vec1::<f32>()?, [-3.0; 4]);
    check(&cache.append(&rows(4, 1)?)?, 5)?;
    drop(other);
    check(&cache.append(&rows(5, 1)?)?, 6)
}

#[test]
fn sequences_that_join_later_are_refused() -> Result<()> {
    let mut cache = CacheRows::default();
    cache.append(&rows(0, 3)?)?;
    let error = cache.append(&rows(0, 1)?.narrow(0, 0, 1)?).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("the cache has 2 sequences and the new tokens are of 1"),
        "{said}"
    );
    Ok(())
}
