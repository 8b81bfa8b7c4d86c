"""`pycandle record model.onnx`: ONNX Runtime runs the file with every value as an output, and its values become goldens.

`pycandle onnx-convert` writes manifest and weights; this adds the trace, the taps and what ran it.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import RecordingError, UsageError

# What a trace holds, by the manifest's names.
DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
    "i8": np.int8, "u8": np.uint8, "bool": np.bool_, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip


@dataclass
class RecordedFile:
    """What was written."""

    manifest: Path
    trace: Path
    taps: int
    nodes: int


def record_file(
    program: str,
    model: Path,
    out: Path,
    name: str | None,
    inputs: dict[str, np.ndarray] | None = None,
    sizes: dict[str, int] | None = None,
    seed: int = 0,
    taps: str = "all",
) -> RecordedFile:
    """program: the path of the executable `pycandle`. Inputs that are not given are random, of the sizes `s0`, `s1`, …"""
    name = name or model.stem
    made = subprocess.run(
        [program, "onnx-convert", "--onnx", str(model), "--name", name, "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        facts = json.loads(made.stdout).get("error", {}) if made.stdout.startswith("{") else {}
        text = facts.get("text") or facts.get("message") or made.stderr.removeprefix("error: ").strip()
        raise (RecordingError if made.returncode == 1 else UsageError)(text)
    converted = json.loads(made.stdout)
    path = Path(converted["manifest"])
    manifest = json.loads(path.read_text())
    given = _inputs(manifest, inputs or {}, sizes or {}, seed)
    values = {} if taps == "none" else dict(converted["values"])
    outputs = [o["name"].removeprefix("output.") for o in manifest["outputs"]]
    found, version = _run(model, given, list(dict.fromkeys([*outputs, *values])))

    trace = {f"input:{n}": array for n, array in given.items()}
    trace |= {f"output:output.{n}": found[n] for n in outputs}
    listed = []
    for value_name, value in values.items():
        array = found.get(value_name)
        if array is None or array.dtype not in map(np.dtype, DTYPES.values()) or value_name in outputs:
            continue
        key = f"node:{value_name}"
        listed.append({"id": key, "value": value, "key": key})
        trace[key] = array
    trace_path = out / f"{name}_trace.safetensors"
    _save(trace, trace_path)
    manifest["producer"]["onnxruntime"] = version
    manifest["model"]["seed"] = seed
    manifest["files"]["trace"] = trace_path.name
    manifest["taps"] = listed
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    partial.replace(path)
    return RecordedFile(path, trace_path, len(listed), len(manifest["nodes"]))


def _inputs(
    manifest: dict[str, Any], given: dict[str, np.ndarray], sizes: dict[str, int], seed: int
) -> dict[str, np.ndarray]:
    known = {s["name"]: s["example"] for s in manifest["symbols"]} | sizes
    if unknown := sizes.keys() - {s["name"] for s in manifest["symbols"]}:
        raise UsageError(f"the model has no size {sorted(unknown)[0]}: it has {', '.join(known) or 'none'}")
    names = [entry["name"] for entry in manifest["inputs"]]
    if unknown := given.keys() - set(names):
        raise UsageError(f"the model has no input {sorted(unknown)[0]}: it has {', '.join(names)}")
    generator = np.random.default_rng(seed)
    made = {}
    for entry in manifest["inputs"]:
        name = entry["name"]
        shape = [size if isinstance(size, int) else known[size] for size in entry["shape"]]
        dtype = DTYPES.get(entry["dtype"])
        if name in given:
            made[name] = np.asarray(given[name], order="C")  # keeps arrays without axes
        elif dtype is None:
            raise UsageError(f"input {name} of {entry['dtype']} cannot be made up: give it with --inputs")
        elif np.issubdtype(dtype, np.floating):
            made[name] = generator.standard_normal(shape).astype(dtype)
        else:
            made[name] = generator.integers(0, 2, shape).astype(dtype)
    return made


def _run(model: Path, inputs: dict[str, np.ndarray], wanted: list[str]) -> tuple[dict[str, np.ndarray], str]:
    """Values by name, of one run without graph optimisations: those would take values away."""
    import onnx
    import onnxruntime

    proto = onnx.load(model)
    there = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in there)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
        arrays = session.run(wanted, inputs)
    except Exception as error:  # its exceptions have no common base
        raise RecordingError(f"ONNX Runtime does not run {model.name}: {error}") from error
    found = {n: a for n, a in zip(wanted, arrays, strict=True) if isinstance(a, np.ndarray)}
    return found, onnxruntime.__version__


def _save(arrays: dict[str, np.ndarray], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)
