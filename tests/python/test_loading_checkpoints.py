"""A checkpoint as the weights of a recorded program, without extraction; the ledger of every load."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import GoldenRecorder, load_model, perturb


class Scorer(nn.Module):
    """A buffer that is not saved, a buffer that forward changes, and a norm."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.register_buffer("shift", torch.linspace(-1, 1, 6), persistent=False)
        self.register_buffer("count", torch.tensor(3.0))

    def forward(self, x):
        self.count += 1
        return self.norm(self.inner(x) + self.shift) * self.count


X = torch.randn(2, 6, generator=torch.Generator().manual_seed(4))
RULES = "inner.weight = transpose(net.w)\ninner.{leaf} = net.{leaf}\n"


@pytest.fixture
def scorer():
    torch.manual_seed(1)
    model = Scorer().eval()
    perturb(model, 2)
    return model


def outputs_of(model: Scorer) -> np.ndarray:
    with torch.no_grad():
        return model(X).numpy()


def recorded(model: nn.Module, folder: Path, weights: str) -> Path:
    recorder = GoldenRecorder(output_dir=folder, weights=weights)
    recorder.record(model, X)
    recorder.save("scorer")
    return folder


@pytest.fixture
def trace(scorer, tmp_path):
    return recorded(scorer, tmp_path / "trace", "none")


@pytest.fixture
def checkpoint(scorer, tmp_path):
    """The scorer's weights under other names, one transposed, one in another dtype, with a tensor too many."""
    state = scorer.state_dict()
    state["net.w"] = state.pop("inner.weight").t().contiguous()
    state["net.bias"] = state.pop("inner.bias")
    state["norm.bias"] = state["norm.bias"].double()
    torch.save(state | {"other": torch.ones(2)}, tmp_path / "model.bin")
    (tmp_path / "names.map").write_text(RULES)
    return tmp_path / "model.bin"


def fates(ledger: dict) -> dict[str, str]:
    return {p["name"]: p["fate"] for p in ledger["parameters"]}


EXPECTED = {
    "inner.weight": "transposed",
    "inner.bias": "used as is",
    "norm.weight": "used as is",
    "norm.bias": "cast",
    "shift": "carried",
    "count": "used as is",
}


def test_a_program_runs_with_the_weights_of_a_checkpoint(scorer, trace, checkpoint, tmp_path, pycandle):
    save_file({"x": X}, tmp_path / "x.safetensors")
    arguments = ("forward", trace, "--checkpoint", checkpoint, "--map", tmp_path / "names.map", "--inputs", tmp_path / "x.safetensors", "--out", tmp_path / "y.safetensors", "--ledger", tmp_path / "ledger.json")  # fmt: skip
    said = pycandle(*arguments).stdout
    assert "weights: 3 used as is, 1 cast, 1 transposed, 1 carried" in said
    assert "1 of 6 tensors unused: other" in said
    np.testing.assert_allclose(
        load_file(tmp_path / "y.safetensors")["output"].numpy(), outputs_of(scorer), rtol=1e-5, atol=1e-5
    )
    assert fates(json.loads((tmp_path / "ledger.json").read_text())) == EXPECTED
    shown = pycandle.json(*arguments)["weights"]
    assert shown["complete"] and shown["unused"] == 1 and shown["counts"]["transposed"] == 1
    assert not list(trace.glob("*.bin")), "nothing is copied into the recording"


def test_a_checkpoint_that_does_not_fit_is_an_error_with_the_nearest_names(trace, checkpoint, pycandle):
    said = pycandle("forward", trace, "--checkpoint", checkpoint, status=2).stderr
    assert "2 missing, 0 mismatched" in said and "inner.bias (nearest: net.bias, norm.bias)" in said
    said = pycandle("forward", trace, "--map", "names.map", status=2).stderr
    assert "--checkpoint FILE with them" in said


def test_a_buffer_whose_file_was_deleted_says_what_to_do(trace, checkpoint, tmp_path, pycandle):
    out = trace / "scorer_weights.safetensors"
    arguments = ("weights", "extract", "--checkpoint", checkpoint, "--manifest", trace, "--map", tmp_path / "names.map", "--out", out)  # fmt: skip
    pycandle(*arguments)
    pycandle(*arguments)  # over itself
    out.unlink()
    said = pycandle(*arguments, status=2).stderr
    assert "buffer shift is in no checkpoint" in said and "record the model again" in said


def test_verify_judges_the_weights_of_a_checkpoint(trace, checkpoint, tmp_path, pycandle):
    arguments = ("verify", trace, "--checkpoint", checkpoint, "--map", tmp_path / "names.map")
    said = pycandle(
        *arguments, "--ledger", tmp_path / "ledger.json", "--out", tmp_path / "result.jsonl"
    ).stdout
    assert "weights: 3 used as is, 1 cast, 1 transposed, 1 carried" in said
    assert fates(json.loads((tmp_path / "ledger.json").read_text())) == EXPECTED
    assert pycandle.json(*arguments)["weights"]["counts"]["transposed"] == 1
    state = torch.load(checkpoint)
    state["norm.weight"][2] *= 1.5
    torch.save(state, checkpoint)
    wrong = pycandle.json(*arguments, "--out", tmp_path / "other.jsonl", status=1)
    assert {layer["tap"] for layer in wrong["layers"] if layer["verdict"] == "wrong here"} == {
        "norm@0/output"
    }
    hashes = [json.loads((tmp_path / f"{name}.jsonl").read_text().splitlines()[0])["hashes"] for name in ("result", "other")]  # fmt: skip
    assert hashes[0]["weights"] != hashes[1]["weights"] and hashes[0]["goldens"] == hashes[1]["goldens"]
    refused = pycandle(*arguments, "--stream", status=2).stderr
    assert "the recording's own weights" in refused and "weights extract" in refused


def test_load_model_takes_a_checkpoint_and_shows_the_ledger(scorer, trace, checkpoint, tmp_path):
    model = load_model(trace, checkpoint=checkpoint, rules=tmp_path / "names.map")
    assert fates(model.ledger) == EXPECTED
    again = pickle.loads(pickle.dumps(model))
    expected = outputs_of(scorer)
    for one in (model, again):
        np.testing.assert_allclose(one(X.numpy())["output"], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(Exception, match="other"):
        load_model(trace, checkpoint=checkpoint, rules=tmp_path / "names.map", strict=True)
    with pytest.raises(ValueError, match="none is given"):
        load_model(trace, lora="adapter")


def test_a_recording_with_weights_has_a_ledger_too(scorer, tmp_path, pycandle):
    trace = recorded(scorer, tmp_path / "full", "save")
    pycandle("verify", trace, "--ledger", tmp_path / "ledger.json")
    assert set(fates(json.loads((tmp_path / "ledger.json").read_text())).values()) == {"used as is"}
    assert set(fates(load_model(trace).ledger).values()) == {"used as is"}
    assert "weights: 6 used as is" in pycandle("forward", trace).stdout
    (file,) = trace.glob("*_weights.safetensors")
    tensors = load_file(file)
    tensors["norm.wieght"] = tensors.pop("norm.weight")
    save_file(tensors, file)
    said = pycandle("forward", trace, status=2).stderr
    assert (
        "parameter norm.weight is not in its file" in said
        and "nearest: inner.weight, norm.bias, norm.wieght" in said
    )


def test_the_report_says_what_each_parameter_was_made_of(scorer, trace, checkpoint, tmp_path, pycandle):
    def weights(folder, *options) -> dict:
        pycandle("report", folder, "--format", "json", "-o", tmp_path / "report.json", *options)
        return json.loads((tmp_path / "report.json").read_text())["weights"]

    out = trace / "scorer_weights.safetensors"
    pycandle("weights", "extract", "--checkpoint", checkpoint, "--manifest", trace, "--map", tmp_path / "names.map", "--out", out, "--ledger", tmp_path / "ledger.json")  # fmt: skip
    found = weights(trace, "--ledger", tmp_path / "ledger.json")
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["inner.weight"]["fate"] == "transposed"
    assert rows["inner.weight"]["source"] == "transpose(net.w)"
    assert found["ledger"]["left"] == [{"name": "other", "fate": "unused"}]
    own = weights(trace)
    assert {row["fate"] for row in own["rows"]} == {"used as is"} and own["ledger"]["left"] == []
    (tmp_path / "wrong.json").write_text('{"parameters": [], "tensors": [], "counts": {}}')
    refused = pycandle(
        "report", trace, "--ledger", tmp_path / "wrong.json", "-o", tmp_path / "r.html", status=2
    )
    assert (
        "is not the ledger of this model" in refused.stderr and "no parameter inner.weight" in refused.stderr
    )


# ---- .pycandle/scripts/weight_extractor.py, as docs/meta-trace.md types it

RECORDER = """
import torch
from torch import nn
from spy import GoldenRecorder

with torch.device("meta"):
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
recorder = GoldenRecorder(output_dir="../traces")
recorder.record(model, torch.zeros(1, 6, device="meta"))
recorder.save("my_large_model_meta")
"""


@pytest.fixture(autouse=True)
def uv_in_path(monkeypatch):
    """The PATH's own uv comes first; otherwise the copy that the build made."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{Path(__file__).parents[2] / '.uv/bin'}")


def extract_with_uv(folder: Path) -> subprocess.CompletedProcess:
    """In the project's folder; uv may not ask the network for anything."""
    command = [
        "uv", "run", ".pycandle/scripts/weight_extractor.py",
        "--checkpoint", "large_model.bin",
        "--manifest", ".pycandle/traces/my_large_model_meta_manifest.json",
        "--out", ".pycandle/traces/my_large_model_weights.safetensors",
    ]  # fmt: skip
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    environment = kept | {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_PYTHON_DOWNLOADS": "never"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_workflow(folder: Path, pycandle) -> None:
    (folder / ".pycandle/scripts/recorder.py").write_text(RECORDER)
    pycandle("record", cwd=folder)
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    torch.save(model.state_dict(), folder / "large_model.bin")
    ran = extract_with_uv(folder)
    assert ran.returncode == 0, ran.stderr
    assert "4 used as is; 0 tensors unused" in ran.stdout
    with torch.no_grad():
        expected = model(X).numpy()
    found = load_model(folder / ".pycandle/traces")(X.numpy())["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_uv_runs_the_extractor_with_the_projects_environment(pycandle, tmp_path):
    """The environment here is this one under the project's name; the next test makes a real one."""
    pycandle("init", "--no-env", cwd=tmp_path)
    python = tmp_path / ".pycandle/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    run_workflow(tmp_path, pycandle)


@pytest.mark.full
def test_uv_runs_the_extractor_in_a_project_that_init_made(pycandle, tmp_path):
    pycandle("init", cwd=tmp_path)
    run_workflow(tmp_path, pycandle)


def test_an_extractor_without_an_environment_says_what_to_do(pycandle, tmp_path):
    pycandle("init", "--no-env", cwd=tmp_path)
    ran = extract_with_uv(tmp_path)
    assert ran.returncode == 1 and "run pycandle init, or pycandle weights extract" in ran.stderr
