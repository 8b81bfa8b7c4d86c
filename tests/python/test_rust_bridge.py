"""The crate's bridge: a Rust program that runs portable programs in the shared library, without Candle."""

from __future__ import annotations

import re

import generating_models
import torch
from rust_crates import CRATE, ROOT, cargo, passes
from test_c_abi import Counter, TwoHeads

from pycandle import GoldenRecorder, perturb

BRIDGE = ("--no-default-features", "--features", "bridge", "--locked")
LIBRARY = ROOT / "build" / "release" / "libpycandle.so"


def recordings(folder):
    heads = perturb(TwoHeads().eval(), seed=5)
    for name, model, x, dynamic in (
        ("heads", heads, torch.randn(3, 8), {"x": {0: "batch"}}),
        ("counter", Counter().eval(), torch.ones(1), None),
    ):
        recorder = GoldenRecorder(folder / name, dynamic=dynamic)
        recorder.record(model, x)
        recorder.save(name)
    (folder / "gpt2").mkdir()
    generating_models.record(generating_models.make("gpt2"), folder / "gpt2")
    x = torch.randn(5, 8)
    with torch.no_grad():
        values = {"x": x, **heads(x)}
    for name, value in values.items():
        (folder / name).write_bytes(value.numpy().tobytes())
    return folder


def test_rust_runs_portable_programs_without_candle(tmp_path):
    run = cargo(CRATE, "test", *BRIDGE, "--test", "bridge", PYCANDLE_RECORDINGS=str(recordings(tmp_path)))
    passes(run)
    assert "test result: ok. 4 passed" in run.stdout
    assert "warning" not in run.stderr, run.stderr
    assert "candle-core" not in cargo(CRATE, "tree", *BRIDGE, "-e", "normal").stdout


def test_the_library_is_where_pycandle_library_says(tmp_path):
    model = tmp_path / "no_model"
    program = ("run", *BRIDGE, "--example", "run", "--", str(model))
    missing = cargo(CRATE, *program, PYCANDLE_LIBRARY=str(tmp_path / "libnone.so"))
    assert missing.returncode != 0
    assert re.search(r"looked in .*libnone\.so \(no such file\)", missing.stderr), missing.stderr
    found = cargo(CRATE, *program, PYCANDLE_LIBRARY=str(LIBRARY))
    assert "no_model" in found.stderr, found.stderr
