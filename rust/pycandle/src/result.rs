//! The result file of `pycandle verify --out`, of a run in Rust: `pycandle report` and `pycandle dashboard` show it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use candle_core::{Error, Result};
use serde_json::{json, Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::compare::{Comparison, Facts};
use crate::Recording;

const VERSION: &str = "1.3.0";
const VERDICTS: [&str; 8] = [
    "exact",
    "within rounding",
    "within tolerance",
    "accumulated rounding",
    "reference unstable",
    "no evidence",
    "wrong upstream",
    "wrong here",
];

fn number(v: f64) -> Value {
    if v.is_finite() {
        json!(v)
    } else if v.is_nan() {
        json!("nan")
    } else {
        json!(if v > 0.0 { "inf" } else { "-inf" })
    }
}

fn place(index: Option<usize>, shape: &[usize]) -> Value {
    let Some(mut index) = index else {
        return Value::Null;
    };
    let mut at = vec![0; shape.len()];
    for (axis, &size) in shape.iter().enumerate().rev() {
        at[axis] = index % size;
        index /= size;
    }
    json!(at)
}

fn metrics(c: &Comparison) -> Map<String, Value> {
    let f = &c.facts;
    let entries = [
        ("max_abs", number(c.max_diff)),
        ("max_rel", number(f.max_rel)),
        ("rms", number(f.rms)),
        ("mse", number(c.mse)),
        ("cosine", number(c.cosine)),
        ("differing", json!(f.differing)),
        ("first_difference", place(f.first_difference, &f.shape)),
        ("largest_difference", place(f.largest_difference, &f.shape)),
        ("nan_mismatches", json!(f.nan_mismatches)),
        ("first_nan_mismatch", place(f.first_nan_mismatch, &f.shape)),
        ("ulps", json!(f.ulps)),
    ];
    entries
        .map(|(k, v)| (k.to_string(), v))
        .into_iter()
        .collect()
}

/// Where a value was computed in Python.
struct Places<'a> {
    manifest: &'a Value,
    node_of: HashMap<u64, &'a Value>,
    /// By id; an output of the model also by its name.
    tap_of: HashMap<&'a str, &'a Value>,
}

impl<'a> Places<'a> {
    fn new(manifest: &'a Value) -> Self {
        let list = |kind: &str| manifest[kind].as_array().into_iter().flatten();
        let mut node_of = HashMap::new();
        for node in list("nodes") {
            for result in node["results"].as_array().into_iter().flatten() {
                node_of.extend(result["value"].as_u64().map(|value| (value, node)));
            }
        }
        let mut tap_of = HashMap::new();
        for tap in list("taps") {
            let (id, key) = (tap["id"].as_str(), tap["key"].as_str());
            tap_of.extend(id.map(|id| (id, tap)));
            let of_model = id.is_some_and(|id| id.starts_with("@0/"));
            let output = key.and_then(|key| key.strip_prefix("output:"));
            tap_of.extend(output.filter(|_| of_model).map(|name| (name, tap)));
        }
        Self {
            manifest,
            node_of,
            tap_of,
        }
    }

    /// Tap, op, module call, file and line, that line.
    fn of(&self, c: &Comparison) -> [String; 5] {
        let tap = self.tap_of.get(c.layer.as_str()).copied();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
        let id = tap.map_or_else(|| c.layer.clone(), |tap| text(&tap["id"]));
        let node = tap.and_then(|tap| self.node_of.get(&tap["value"].as_u64()?));
        let Some(node) = node else {
            return [
                id,
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ];
        };
        let op = text(&node["op"]);
        let op = op.split('.').nth(1).unwrap_or(&op).to_string();
        let call = &self.manifest["module_calls"][node["call"].as_u64().unwrap_or(0) as usize];
        let path = match call["path"].as_str() {
            Some("") | None => String::new(),
            Some(path) => format!("{path}@{}", call["call"]),
        };
        let file = &self.manifest["files_table"][node["file"].as_u64().unwrap_or(0) as usize];
        let line = node["line"].to_string();
        let source = text(&file["lines"][&line]);
        let python = file["path"].as_str().map(|path| format!("{path}:{line}"));
        [id, op, path, python.unwrap_or_default(), source]
    }
}

fn layer(c: &Comparison, first_wrong: Option<&str>, places: &Places) -> (usize, Value) {
    let [tap, op, path, python, source] = places.of(c);
    let (verdict, why) = match first_wrong {
        _ if c.passed && c.unstable => (4, c.why.clone()),
        _ if c.passed && c.facts.differing == 0 => (0, String::new()),
        _ if c.passed => (1, String::new()),
        Some(first) if first != c.layer => (6, format!("{first} is wrong before it")),
        _ => (7, c.why.clone()),
    };
    let Facts {
        dtype,
        shape,
        rms,
        floor,
        picture,
        ..
    } = &c.facts;
    let mut all = metrics(c);
    let whole = Value::Object(all.clone());
    let own = json!({
        "tap": tap, "op": op, "path": path, "python": python, "source": source, "dtype": dtype, "shape": shape,
        "cumulative": whole, "error_rms": number(*rms), "error_max": number(c.max_diff), "floor_rms": number(floor.rms),
        "floor_max": number(floor.max), "judged": "backend", "verdict": VERDICTS[verdict], "why": why,
    });
    all.extend(own.as_object().cloned().unwrap_or_default());
    if let Some(p) = picture {
        all.insert(
            "picture".into(),
            json!({"rows": p.rows, "columns": p.columns, "cells": p.cells, "largest": p.largest}),
        );
        if !p.decades.is_empty() {
            let errors = json!({"first": p.first_decade, "counts": p.decades});
            all.insert("errors".into(), errors);
        }
    }
    (verdict, json!({ "layer": all }))
}

fn hash(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

fn file_hash(path: &Path) -> Result<String> {
    let at = |e: std::io::Error| Error::Msg(format!("{}: {e}", path.display()));
    let file = fs::File::open(path).map_err(at)?;
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(at)?;
    Ok(hash(&map))
}

fn hashes(recording: &Recording) -> Result<Value> {
    let of_files = |files: BTreeMap<String, std::path::PathBuf>| -> Result<String> {
        let mut text = String::new();
        for (name, path) in &files {
            text += &format!("{name}\n{}\n", file_hash(path)?);
        }
        Ok(hash(text.as_bytes()))
    };
    let named = |names: Vec<&str>| {
        let files = names
            .into_iter()
            .map(|n| (n.to_string(), recording.in_folder(n)));
        files.collect::<BTreeMap<_, _>>()
    };
    let program = std::env::current_exe()?;
    Ok(json!({
        "manifest": file_hash(&recording.beside("manifest.json"))?,
        "weights": of_files(named(recording.weight_files()))?,
        "goldens": of_files(named(recording.trace_files()))?,
        "library": file_hash(&program)?,
    }))
}

fn is_output(c: &Comparison) -> bool {
    c.facts.key.strip_prefix("output:") == Some(c.layer.as_str())
}

/// One document per line, the last one with the hash of all before it; written beside and renamed.
pub(crate) fn write(path: &Path, recording: &Recording, results: &[Comparison]) -> Result<()> {
    let places = Places::new(recording.manifest());
    let first_wrong = results.iter().find(|c| !c.passed).map(|c| c.layer.as_str());
    // an output that a layer gave as well was judged there
    let is_layer = |c: &Comparison| {
        let same = |other: &Comparison| other.facts.key == c.facts.key && other.layer != c.layer;
        !is_output(c) || !results.iter().any(same)
    };
    let layers: Vec<_> = results.iter().filter(|c| is_layer(c)).collect();
    let mut counts = [0; VERDICTS.len()];
    let mut lines = vec![json!({
        "result": "pycandle.result", "version": VERSION, "pycandle": env!("CARGO_PKG_VERSION"), "name": recording.name(),
        "backend": "candle", "against": "", "tolerance": null, "disabled_passes": [],
        "threads": std::thread::available_parallelism().map_or(1, |n| n.get()), "overrides": {}, "weights": "f32",
        "planned": layers.len(), "hashes": hashes(recording)?,
    })];
    for c in &layers {
        let (verdict, line) = layer(c, first_wrong, &places);
        counts[verdict] += 1;
        lines.push(line);
    }
    for c in results.iter().filter(|c| is_output(c)) {
        let error = json!({
            "name": c.layer, "max_abs": number(c.max_diff), "rms": number(c.facts.rms), "cosine": number(c.cosine),
        });
        lines.push(json!({ "output": error }));
    }
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let status = match (first_wrong, results.is_empty()) {
        (Some(_), _) => "wrong",
        (None, true) => "no evidence",
        (None, false) => "passed",
    };
    let counts: Map<_, _> = VERDICTS
        .iter()
        .zip(counts)
        .map(|(name, count)| (name.replace(' ', "_"), json!(count)))
        .collect();
    let complete = json!({
        "status": status, "layers": layers.len(), "counts": counts, "hash": hash(text.as_bytes()),
    });
    text += &format!("{}\n", json!({ "complete": complete }));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension("jsonl.partial");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)?;
    Ok(())
}
