"""Extraction out of a checkpoint that is much larger than what it may take of memory."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from conftest import PYCANDLE
from memory import peaks_of
from safetensors.torch import load_file, save_file

ROWS, COLUMNS, TENSORS, USED = 4096, 4096, 48, 16  # 64 MB each: 3 GB, of which 1 GB is used


@pytest.fixture(params=["shards", "bin"])
def checkpoint(request, tmp_path):
    def tensor(i: int) -> torch.Tensor:
        return torch.full((ROWS, COLUMNS), float(i))

    names = [f"layers.{i}.weight" for i in range(TENSORS)]
    wanted = tmp_path / "wanted.safetensors"
    header = {
        name: {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [i * ROWS * COLUMNS * 4, (i + 1) * ROWS * COLUMNS * 4]}
        for i, name in enumerate(names[:USED])
    }  # fmt: skip
    text = json.dumps(header).encode()
    with wanted.open("wb") as file:  # names and shapes; the data is a hole
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + USED * ROWS * COLUMNS * 4)
    if request.param == "bin":
        torch.save({name: tensor(i) for i, name in enumerate(names)}, tmp_path / "model.bin")
        return tmp_path / "model.bin", wanted
    folder = tmp_path / "model"
    folder.mkdir()
    weight_map = {}
    for shard in range(6):
        part = {names[i]: tensor(i) for i in range(shard, TENSORS, 6)}
        file = f"model-{shard + 1:05}-of-00006.safetensors"
        save_file(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder, wanted


@pytest.mark.full
def test_extraction_takes_little_memory(checkpoint, tmp_path):
    source, wanted = checkpoint
    out = tmp_path / "out.safetensors"
    command = [PYCANDLE, "weights", "extract", "--checkpoint", source, "--manifest", wanted, "--out", out]
    peak = peaks_of(command)["pycandle"]
    assert peak < 300e6
    for i, (name, tensor) in enumerate(load_file(out).items()):
        assert name.startswith("layers.") and bool((tensor == float(name.split(".")[1])).all()), i
    shutil.rmtree(tmp_path, ignore_errors=True)


RULES = {
    "transposed": "transpose(a)",
    "joined": "join(a, b)",
    "joined in rows": "join(a, b, 1)",
    "rotary": "rope_halves(a, 32)",
    "merged": "lora(a, down, up, 2)",
    "weight norm": "weight_norm(g, a)",
}


@pytest.mark.full
def test_what_is_turned_joined_or_computed_needs_one_tensor_and_64_mb(tmp_path, pycandle):
    """A tensor of 256 MB; what is made of it is in memory once, and never beside its source."""
    size = 8192
    tensors = {"a": torch.randn(size, size), "b": torch.randn(size, size), "g": torch.randn(size)}
    tensors |= {"down": torch.randn(4, size), "up": torch.randn(size, 4)}
    save_file(tensors, tmp_path / "all.safetensors")
    a, b = tensors["a"], tensors["b"]
    expected = {
        "transposed": a.t(),
        "joined": torch.cat([a, b]),
        "joined in rows": torch.cat([a, b], 1),
        "rotary": a.view(32, size // 64, 2, size).transpose(1, 2).reshape(size, size),
        "merged": (a.double() + 2 * (tensors["up"].double() @ tensors["down"].double())).float(),
        "weight norm": a * (tensors["g"] / a.norm(dim=1))[:, None],
    }
    for name, made in expected.items():
        save_file({"x": made.contiguous()}, tmp_path / "wanted.safetensors")
        (tmp_path / "x.map").write_text(f"x = {RULES[name]}\n")
        files = ["--checkpoint", tmp_path / "all.safetensors", "--manifest", tmp_path / "wanted.safetensors"]
        command = [PYCANDLE, "weights", "extract", *files, "--map", tmp_path / "x.map", "--out", tmp_path / "out.safetensors"]  # fmt: skip
        peak = peaks_of(command)["pycandle"]
        print(f"{name}: {peak / 1e6:.0f} MB for a tensor of {made.numel() * 4 / 1e6:.0f} MB")
        torch.testing.assert_close(load_file(tmp_path / "out.safetensors")["x"], made, rtol=1e-6, atol=1e-6)
        assert peak < made.numel() * 4 + 64 * 2**20, name
