//! candle's own models as a runner of the benchmark: docs/benchmarks.md has the protocol.
//!
//!   candle-peer <model> <weights.safetensors> --inputs <file> --outputs <file>
//!   candle-peer gpt2-decoding <weights.safetensors>        the protocol of benchmarks/decoding/workers.py
//!   candle-peer gpt2-emitted <weights.safetensors>         the same of models/gpt2/decode.rs, which codegen wrote
use std::collections::HashMap;
use std::io::BufRead;
use std::time::Instant;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::rnn::{lstm, LSTMConfig, RNN};
use candle_nn::VarBuilder;
use candle_transformers::models::{bert, convnext, resnet, vit};

#[path = "../../../models/gpt2/decode.rs"]
mod emitted;
mod gpt2;

type Run = Box<dyn Fn(&HashMap<String, Tensor>) -> Result<Tensor>>;

fn model(name: &str, vb: VarBuilder<'static>) -> Result<Run> {
    Ok(match name {
        "resnet34" => {
            let net = resnet::resnet34(1000, vb)?;
            Box::new(move |x| net.forward(&x["x"]))
        }
        "convnext-tiny" => {
            let net = convnext::convnext(&convnext::Config::tiny(), 1000, vb)?;
            Box::new(move |x| net.forward(&x["x"]))
        }
        "vit-b16" => {
            let vb = vb.rename_f(vit_name).pp("model");
            let net = vit::Model::new(&vit::Config::vit_base_patch16_224(), 1000, vb)?;
            Box::new(move |x| net.forward(&x["x"]))
        }
        "minilm" => {
            let config = bert::Config {
                vocab_size: 30522,
                hidden_size: 384,
                num_hidden_layers: 6,
                num_attention_heads: 12,
                intermediate_size: 1536,
                ..Default::default()
            };
            let net = bert::BertModel::load(vb.pp("model"), &config)?;
            Box::new(move |x| {
                let ids = &x["x"];
                net.forward(ids, &ids.zeros_like()?, None)
            })
        }
        "lstm" => {
            let layers = (0..2)
                .map(|layer| {
                    let config = LSTMConfig { layer_idx: layer, ..Default::default() };
                    lstm(256, 256, config, vb.pp("lstm"))
                })
                .collect::<Result<Vec<_>>>()?;
            Box::new(move |x| {
                let mut x = x["x"].clone();
                for layer in &layers {
                    x = layer.states_to_tensor(&layer.seq(&x)?)?;
                }
                Ok(x)
            })
        }
        other => candle_core::bail!("candle-transformers has no {other}"),
    })
}

/// Candle's model has the names of an older release of transformers.
fn vit_name(name: &str) -> String {
    [
        ("encoder.layer.", "layers."),
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
        ("attention.output.dense", "attention.o_proj"),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
    ]
    .iter()
    .fold(name.to_string(), |name, (old, new)| name.replace(old, new))
}

/// The clock that all runners share, in seconds.
fn monotonic() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn serve() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| {
        let at = arguments.iter().position(|a| a == flag).expect("--inputs and --outputs are needed");
        &arguments[at + 1]
    };
    let device = Device::Cpu;
    let inputs = candle_core::safetensors::load(after("--inputs"), &device)?;
    let vb = unsafe { VarBuilder::from_mmaped_safetensors(&[&arguments[2]], DType::F32, &device)? };
    let run = model(&arguments[1], vb)?;
    let loaded = monotonic();
    let output = run(&inputs)?;
    let first = monotonic();
    candle_core::safetensors::save(&HashMap::from([("0000", output.contiguous()?)]), after("--outputs"))?;
    println!("{}", serde_json::json!({"version": "candle 0.11.1", "loaded": loaded, "first": first}));
    for line in std::io::stdin().lock().lines() {
        let milliseconds: f64 = line?.trim().parse().map_err(candle_core::Error::wrap)?;
        run(&inputs)?;
        let start = Instant::now();
        let mut times = Vec::new();
        while times.is_empty() || start.elapsed().as_secs_f64() * 1e3 < milliseconds {
            let begin = Instant::now();
            run(&inputs)?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        println!("{}", serde_json::json!(times));
    }
    Ok(())
}

/// Takes new tokens and how many came before them, gives the logits of the last one.
type Decoder = Box<dyn FnMut(&Tensor, usize) -> Result<Tensor>>;

/// With an empty cache.
fn decoder(name: &str, vb: VarBuilder) -> Result<Decoder> {
    if name == "gpt2-decoding" {
        let mut net = gpt2::Gpt2::load(vb)?;
        return Ok(Box::new(move |ids, seen| net.forward(ids, seen)));
    }
    let net = emitted::GPT2LMHeadModel::load(vb, None)?;
    let mut cache = emitted::Cache::default();
    Ok(Box::new(move |ids, _| net.forward(ids, &mut cache)?.narrow(1, ids.dim(1)? - 1, 1)))
}

fn decode(name: &str) -> Result<()> {
    let weights = std::env::args().nth(2).expect("the file of the weights is needed");
    let device = Device::Cpu;
    let vb = unsafe { VarBuilder::from_mmaped_safetensors(&[weights], DType::F32, &device)? };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let wanted: serde_json::Value = serde_json::from_str(&line?).map_err(candle_core::Error::wrap)?;
        let prompt: Vec<u32> =
            wanted["prompt"].as_array().expect("a prompt").iter().map(|t| t.as_u64().unwrap() as u32).collect();
        let count = wanted["tokens"].as_u64().expect("a number of tokens");
        let mut net = decoder(name, vb.clone())?;
        let mut seen = 0;
        let mut step = |tokens: &[u32]| -> Result<u32> {
            let logits = net(&Tensor::new(tokens, &device)?.unsqueeze(0)?, seen)?;
            seen += tokens.len();
            logits.flatten_all()?.argmax(0)?.to_scalar::<u32>()
        };
        let mut start = Instant::now();
        let mut tokens = vec![step(&prompt)?];
        if count > 0 {
            start = Instant::now();
        }
        for _ in 0..count {
            tokens.push(step(&tokens[tokens.len() - 1..])?);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{}", serde_json::json!({"seconds": seconds, "tokens": tokens}));
    }
    Ok(())
}

fn main() {
    if let Some(name) = std::env::args().nth(1).filter(|name| name.starts_with("gpt2-")) {
        if let Err(error) = decode(&name) {
            eprintln!("{error}");
            std::process::exit(1);
        }
        return;
    }
    if let Err(error) = serve() {
        println!("{}", serde_json::json!({"error": error.to_string().lines().next()}));
    }
}
