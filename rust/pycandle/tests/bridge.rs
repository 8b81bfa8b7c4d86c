//! PyCandle's library from Rust; tests/python/test_rust_bridge.py records the models and says where they are.

use std::path::PathBuf;

use pycandle::bridge::{Array, DType, ErrorKind, Model, Options, Result};

fn recorded(name: &str) -> PathBuf {
    let folder = std::env::var_os("PYCANDLE_RECORDINGS").expect("PYCANDLE_RECORDINGS");
    PathBuf::from(folder).join(name)
}

fn floats(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(recorded(name)).expect("a file of floats");
    let parts = bytes.chunks_exact(4);
    parts
        .map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

fn assert_close(ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} beside {b}");
    }
}

#[test]
fn a_model_gives_what_torch_gives() -> Result<()> {
    let model = Model::load(recorded("heads"))?;
    let inputs = model.inputs()?;
    assert_eq!(
        (inputs[0].name.as_str(), inputs[0].dtype),
        ("x", DType::F32)
    );
    assert_eq!(inputs[0].shape[1], "8");
    assert!(model.can("forward") && !model.can("levitate"));
    let x = Array::new(&[5, 8], &floats("x"))?;
    let outputs = model.run(&[("x", &x)])?;
    drop(model); // results live on
    let names: Vec<_> = outputs.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["output.value", "output.policy"]);
    assert_eq!(outputs["output.policy"].shape(), [5, 4]);
    assert_close(outputs["output.value"].as_slice()?, &floats("value"));
    assert_close(outputs["output.policy"].as_slice()?, &floats("policy"));
    let wrong = outputs["output.value"].as_slice::<f64>().unwrap_err();
    assert_eq!(wrong.message, "the array is F32, not F64");
    Ok(())
}

#[test]
fn errors_are_the_librarys() -> Result<()> {
    let missing = Model::load("/no/such/model").unwrap_err();
    assert_eq!(missing.kind, ErrorKind::BadInput);
    assert!(missing.text.contains("/no/such/model"), "{missing}");
    let options = Options {
        backend: Some("abacus".into()),
        ..Options::default()
    };
    let unknown = Model::load_with(recorded("heads"), &options).unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::Usage);
    let model = Model::load(recorded("heads"))?;
    let narrow = Array::new(&[2, 7], &[0f32; 14])?;
    assert_eq!(
        model.run(&[("x", &narrow)]).unwrap_err().kind,
        ErrorKind::BadInput
    );
    assert!(model.run(&[]).unwrap_err().text.contains('x'));
    assert!(Array::new(&[2, 2], &[1i64; 3]).is_err());
    assert!(Array::from_bytes(DType::F64, &[usize::MAX, 9], &[]).is_err());
    Ok(())
}

#[test]
fn threads_share_a_model_and_sessions_keep_states() -> Result<()> {
    let model = Model::load(recorded("counter"))?;
    let one = Array::new(&[1], &[1f32])?;
    let count = |m: &Model| -> Result<f32> { Ok(m.run(&[("x", &one)])?["output"].as_slice()?[0]) };
    assert_eq!((count(&model)?, count(&model)?), (1.0, 2.0));
    let session = model.session()?;
    assert_eq!((count(&session)?, count(&model)?), (1.0, 3.0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count(&model).expect("a count"));
        }
    });
    assert_eq!(count(&model)?, 8.0);
    Ok(())
}

#[test]
fn steps_are_rows_of_the_whole_run() -> Result<()> {
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let model = Model::load_with(recorded("gpt2"), &options)?;
    let ids = [3i64, 1, 4, 1, 5, 9, 2];
    let all = Array::new(&[1, 7], &ids)?;
    let whole = model.run(&[("input_ids", &all)])?;
    let (_, logits) = whole.iter().next().expect("logits");
    let width = logits.shape()[2];
    let mut cache = model.new_cache(1, 16, &[])?;
    for (i, id) in ids.iter().enumerate() {
        let token = Array::new(&[1, 1], &[*id])?;
        let step = model.step_last(&mut cache, &[("input_ids", &token)])?;
        let (_, ours) = step.iter().next().expect("logits");
        assert_close(
            ours.as_slice()?,
            &logits.as_slice()?[i * width..(i + 1) * width],
        );
    }
    assert_eq!(cache.lengths(), [7]);
    let mut fork = cache.fork(&[0, 0])?;
    fork.truncate(1, 2)?;
    assert_eq!(fork.lengths(), [7, 2]);
    assert!(fork.truncate(5, 0).is_err());
    Ok(())
}

#[cfg(feature = "candle")]
#[test]
fn arrays_are_candles_tensors() -> candle_core::Result<()> {
    let device = candle_core::Device::Cpu;
    for dtype in [
        candle_core::DType::F32,
        candle_core::DType::BF16,
        candle_core::DType::F16,
    ] {
        let x = candle_core::Tensor::arange(0f32, 6.0, &device)?;
        let x = x.to_dtype(dtype)?.reshape((2, 3))?.t()?;
        let back = Array::try_from(&x)?.to_candle(&device)?;
        assert_eq!((back.dims(), back.dtype()), (&[3, 2][..], dtype));
        let (a, b) = (
            x.to_dtype(candle_core::DType::F32)?,
            back.to_dtype(candle_core::DType::F32)?,
        );
        assert_eq!(a.to_vec2::<f32>()?, b.to_vec2::<f32>()?);
    }
    Ok(())
}
