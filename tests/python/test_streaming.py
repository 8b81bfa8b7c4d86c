"""Models whose weights do not fit into memory: run within a budget, and verified layer by layer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import PYCANDLE
from memory import peaks_of
from safetensors.numpy import save_file
from torch import nn

from pycandle import GoldenRecorder
from pycandle.peers.streamed import write_goldens

WIDTH, LAYERS = 2048, 12  # 16.8 MB each in f32: 201 MB, in bf16 twice the budget and more
BUDGET = 40_000_000
OURS = 50_000_000  # of the program without weights, and more


def weight_bytes(folder: Path) -> int:
    return (folder / "deep_weights.safetensors").stat().st_size


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(x))


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def recording(request, tmp_path_factory):
    """Recorded on the meta device; the weights come afterwards."""
    folder = tmp_path_factory.mktemp("streaming")
    with torch.device("meta"):
        model = nn.Sequential(*[Block() for _ in range(LAYERS)]).to(request.param).eval()
    recorder = GoldenRecorder(output_dir=folder, progress=lambda text: None)
    recorder.record(model, torch.empty(2, WIDTH, device="meta", dtype=request.param))
    recorder.save("deep")
    random = np.random.default_rng(0)
    weights = {
        name: random.standard_normal(p.shape, "f4") / WIDTH**0.5 for name, p in model.named_parameters()
    }
    save_file(weights, folder / "checkpoint.safetensors")
    return folder


@pytest.fixture(scope="module")
def complete(recording, pycandle):
    command = ["--manifest", recording, "--out", recording / "deep_weights.safetensors"]
    pycandle("weights", "extract", "--checkpoint", recording / "checkpoint.safetensors", *command)
    return recording


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_run_keeps_its_weights_within_the_budget(complete, tmp_path, pycandle, backend):
    whole, within = tmp_path / "whole.safetensors", tmp_path / "within.safetensors"
    command = [PYCANDLE, "forward", complete, "--backend", backend, "--memory", "small", "--out"]
    without = peaks_of([*command, whole])["pycandle"]
    peak = peaks_of([*command, within, "--param-budget", "40MB"])["pycandle"]
    assert without > weight_bytes(complete) and peak < BUDGET + OURS < weight_bytes(complete), (without, peak)
    assert whole.read_bytes() == within.read_bytes()
    checkpoint = ["--checkpoint", complete / "checkpoint.safetensors"]  # f32: cast for a program in bf16
    peak = peaks_of([*command, within, "--param-budget", "40MB", *checkpoint])["pycandle"]
    assert peak < BUDGET + OURS, peak
    assert whole.read_bytes() == within.read_bytes()


def test_every_layer_is_verified_with_one_layer_in_memory(complete):
    nothing = "import pycandle.peers.streamed as s\nwith s.quiet_inference(0): s.torch.ones(2, 2).matmul(s.torch.ones(2))"
    (torch_alone,) = peaks_of([sys.executable, "-c", nothing]).values()
    said: list[str] = []
    peaks = peaks_of([PYCANDLE, "verify", complete, "--stream", "--param-budget", "40MB", "--json"], said)
    one_in_f64 = WIDTH * WIDTH * 8
    assert peaks.pop("pycandle") < BUDGET + OURS + 2 * one_in_f64
    assert max(peaks.values()) < torch_alone + OURS < torch_alone + weight_bytes(complete), (
        torch_alone,
        peaks,
    )
    (facts,) = map(json.loads, said)
    assert len(facts["layers"]) >= 2 * LAYERS and facts["status"] == "passed"


def test_wrong_values_of_a_streamed_layer_are_found(complete, pycandle, tmp_path):
    """torch and we read the same file; what differs is what is computed, here because the program was changed."""
    manifest = json.loads((complete / "deep_manifest.json").read_text())
    node = next(n for n in manifest["nodes"] if n["op"] == "aten.tanh.default")
    node["op"] = "aten.sigmoid.default"
    for file in complete.iterdir():
        if file.suffix == ".safetensors":
            (tmp_path / file.name).symlink_to(file)
    (tmp_path / "deep_manifest.json").write_text(json.dumps(manifest))
    trace = tmp_path / "streamed_trace.safetensors"
    inputs = {"input": np.ones((2, WIDTH), "f4")}
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[manifest["inputs"][0]["dtype"]]
    tensors = {name: torch.from_numpy(array).to(dtype) for name, array in inputs.items()}
    write_goldens(complete / "deep_manifest.json", tensors, trace, 0)
    said = pycandle.json("verify", tmp_path, "--trace", trace, status=1)
    wrong = [layer["tap"] for layer in said["layers"] if layer["verdict"] == "wrong here"]
    assert wrong == ["0@0/output"], wrong


@pytest.mark.parametrize("recording", [torch.float32], indirect=True)
def test_a_recording_without_weights_says_what_to_do(recording, pycandle):
    manifest = json.loads((recording / "deep_manifest.json").read_text())
    for entry in manifest["parameters"]:
        entry["file"] = entry["key"] = None
    (bare := recording / "bare").mkdir(exist_ok=True)
    (bare / "deep_manifest.json").write_text(json.dumps(manifest))
    ran = pycandle("verify", bare, "--stream", status=None)
    assert ran.returncode != 0 and "weights extract" in ran.stderr
    assert "verify --stream" in pycandle("verify", bare, status=None).stderr
