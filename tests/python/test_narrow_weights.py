"""Weights in fewer bytes: asked for on the command line and in Python, judged as what was asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

FORMATS = ["bf16", "f16", "int8", "int4"]


class Block(nn.Module):
    """An embedding that is tied to the head, and an MLP."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(300, width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return x @ self.embed.weight.T


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    from pycandle import GoldenRecorder

    torch.manual_seed(0)
    recorder = GoldenRecorder(tmp_path_factory.mktemp("narrow"), progress=lambda text: None)
    recorder.record(Block().eval(), torch.randint(0, 300, (2, 9)))
    return recorder.save("block").manifest


@pytest.mark.parametrize("weights", FORMATS)
def test_verify_judges_a_layer_by_the_weights_that_were_asked_for(pycandle, manifest, weights, tmp_path):
    out = tmp_path / "result.jsonl"
    result = pycandle.json("verify", manifest, "--backend", "cpu", "--weights", weights, "--out", out)
    assert result["status"] == "passed"
    moved = {
        layer["tap"]: layer["weight_rounding"] for layer in result["layers"] if "weight_rounding" in layer
    }
    assert {"embed@0/output", "up@0/output", "down@0/output"} <= set(moved)
    least, most = {"bf16": (5e-4, 4e-3), "f16": (5e-5, 5e-4), "int8": (2e-3, 2e-2), "int4": (3e-2, 0.2)}[
        weights
    ]
    assert all(least < value < most for value in moved.values()), moved
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0]["weights"] == weights
    text = pycandle("verify", manifest, "--backend", "cpu", "--weights", weights).stdout
    assert "rounding them moves it by" in text


def test_a_layer_with_other_weights_than_those_asked_for_is_wrong(pycandle, manifest):
    # f32 weights where int4 was asked for: as far from it as the rounding, far beyond what kernels may add.
    good = pycandle.json("verify", manifest, "--backend", "cpu", "--weights", "int4")
    for layer in good["layers"]:
        if "weight_rounding" in layer and layer["op"] == "linear":
            assert 4 * layer["floor_rms"] < layer["rms"], "the floor would let the recorded weights pass"


def test_forward_and_bench_take_weights(pycandle, manifest, tmp_path):
    files = {}
    for weights in ["f32", *FORMATS]:
        files[weights] = tmp_path / f"{weights}.safetensors"
        found = pycandle.json("forward", manifest, "--weights", weights, "--out", files[weights], "--profile")
        kernels = {row["name"] for row in found["profile"]["kernels"]}
        assert ("narrow_gemm" in kernels) == (weights != "f32") == ("gather_narrow" in kernels)
    sizes = {
        w: pycandle.json("forward", manifest, "--weights", w, "--profile")["profile"]["weight_bytes"]
        for w in ("f32", "bf16", "int8", "int4")
    }
    assert sizes["f32"] > 1.8 * sizes["bf16"] > 3 * sizes["int8"] > 4 * sizes["int4"]
    found = pycandle.json(
        "bench", manifest, "--weights", "int8", "--threads", 1, "--seconds", 0.02, "--rounds", 1
    )
    assert found["status"] == "fine" and found["judged_by"] == "guess"


def test_python_takes_weights(manifest):
    import pycandle

    ids = np.arange(12).reshape(1, 12)
    exact = pycandle.load_model(manifest)(ids)["output"]
    for weights, most in [("bf16", 0.02), ("int8", 0.03), ("int4", 0.4)]:
        rough = pycandle.load_model(manifest, weights=weights)(ids)["output"]
        off = np.linalg.norm(rough - exact) / np.linalg.norm(exact)
        assert 1e-4 < off < most
    with pytest.raises(ValueError, match="int8"):
        pycandle.load_model(manifest, weights="q8_0")
    torch.manual_seed(0)
    model = Block().eval()
    compiled = pycandle.compile(model, torch.arange(6)[None], weights="int8")
    expected = model(torch.arange(6)[None])
    off = (compiled(torch.arange(6)[None]) - expected).norm() / expected.norm()
    assert 1e-4 < off < 0.03
