"""scripts/eval.py and the exporters, as their page shows them."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from warm_python import WarmPython

import pycandle as pc

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def run():
    python = WarmPython({**os.environ})

    def scripts_output(script: str, *arguments, status: int = 0, **environment: str) -> str:
        finished = python.run(SCRIPTS / script, Path.cwd(), *arguments, **environment)
        assert finished.returncode == status, finished.stdout + finished.stderr
        return finished.stdout

    yield scripts_output
    python.close()


def test_validate_compares_outputs_on_inputs_that_were_not_recorded(run) -> None:
    rows = json.loads(run("eval.py", "--model", "gpt2", "--tiny", "--format", "json"))
    assert [row["agrees"] for row in rows] == [True] * 3
    assert 0 < max(row["difference"] for row in rows) < 1e-4


def test_trace_names_every_layer(run) -> None:
    rows = json.loads(run("eval.py", "--model", "llama", "--workload", "trace", "--tiny", "--format", "json"))
    assert len(rows) > 20 and all(row["agrees"] for row in rows)


def test_bench_and_run_give_tables(tmp_path, run) -> None:
    text = run(
        "eval.py", "--model", "gpt2", "--workload", "bench", "--tiny", "--rounds", 1, "--bench-tokens", 1, 8,
        "--format", "csv", "--dump-dir", tmp_path,
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["what"] for row in rows] == ["1 tokens", "8 tokens"]
    assert all(float(row["torch_ms"]) > 0 and float(row["pycandle_ms"]) > 0 for row in rows)
    assert list(tmp_path.rglob("*.ptir"))
    assert "output.logits" in run("eval.py", "--model", "gpt2", "--workload", "run", "--tiny")


@pytest.mark.full
def test_the_commands_of_the_page_run(tmp_path, monkeypatch, run) -> None:
    monkeypatch.chdir(tmp_path)
    page = (SCRIPTS / "README.md").read_text()
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("python scripts/")]
    assert len(commands) >= 6
    for script, *arguments in commands:
        run(Path(script).name, *arguments)


def test_a_wrong_use_is_refused(run) -> None:
    run("eval.py", status=2)
    run("eval.py", "--model", "nobody", status=2)


def test_exported_weights_are_a_checkpoint(tmp_path, pycandle, run) -> None:
    out = tmp_path / "gpt2.safetensors"
    run("export_model_weights.py", "--model", "gpt2", "--tiny", "--out", out)
    weights = load_file(out)
    weights["transformer.ln_f.bias"] = weights["transformer.ln_f.bias"] + np.float32(3)
    save_file(weights, out)
    bundle = tmp_path / "gpt2.pycandle"
    run("export_gpt2.py", "--checkpoint", out, "--tiny", "--out", bundle, "--single-file")
    model = pc.load_model(bundle)
    assert model.capabilities == ["forward", "trace", "causal_lm"]
    run("export_gpt2.py", "--tiny", "--out", tmp_path / "other")
    tokens = np.arange(5).reshape(1, 5)
    other = pc.load_model(tmp_path / "other")(tokens)["output.logits"]
    assert abs(model(tokens)["output.logits"] - other).max() > 0.01


@pytest.mark.parametrize("variable", ["reference", "cpu"])
def test_the_environment_names_the_backend(variable, tmp_path, monkeypatch, run) -> None:
    monkeypatch.setenv("PYCANDLE_BACKEND", variable)
    assert pc.get_backend() == variable
    options = ["--model", "gpt2", "--workload", "run", "--tiny", "--format", "json"]
    rows = json.loads(run("eval.py", *options, PYCANDLE_BACKEND=variable))
    assert rows[0]["what"] == "output.logits"
