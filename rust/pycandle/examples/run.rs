//! Runs a model on zeros and says how long a call takes: `cargo run --release --features bridge --example run -- MODEL [SIZE]`.
//! Sizes that are open are SIZE (1).

use std::time::Instant;

use pycandle::bridge::{Array, Model, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let model = Model::load(arguments.next().unwrap_or_else(|| "model.pycandle".into()))?;
    let size: usize = arguments.next().map_or(1, |n| n.parse().expect("a number"));
    let mut inputs = Vec::new();
    for info in model.inputs()? {
        let open = |dim: &String| dim.parse().unwrap_or(size);
        let shape: Vec<usize> = info.shape.iter().map(open).collect();
        let zeros = vec![0; shape.iter().product::<usize>() * info.dtype.size()];
        inputs.push((info.name, Array::from_bytes(info.dtype, &shape, &zeros)?));
    }
    let inputs: Vec<_> = inputs.iter().map(|(n, a)| (n.as_str(), a)).collect();
    for (name, value) in model.run(&inputs)?.iter() {
        println!("{name} {:?} {:?}", value.dtype(), value.shape());
    }
    let (mut best, mut calls) = (f64::INFINITY, 0);
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 2.0 || calls < 10 {
        let start = Instant::now();
        model.run(&inputs)?;
        best = best.min(start.elapsed().as_secs_f64());
        calls += 1;
    }
    println!("{:.3} ms a call on {}", best * 1e3, model.backend());
    Ok(())
}
