"""The peers of a run: which are here, why others are not, and how each is started."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import sys
from pathlib import Path

from .files import Files
from .models import Entry

ROOT = Path(__file__).parents[2]
PYCANDLE = ROOT / ".venv/bin/pycandle"
PEERS = ("torch", "torch-compile", "onnxruntime", "openvino", "candle", "llama.cpp")
_PACKAGES = {
    "torch": ("torch",),
    "torch-compile": ("torch",),
    "onnxruntime": ("onnxruntime", "onnx"),
    "openvino": ("openvino",),
    "llama.cpp": ("llama-cpp-python", "gguf"),
}
_OF_CANDLE = ("vit-b16", "minilm", "lstm", "resnet34", "convnext-tiny")


def candle_program() -> Path:
    """Outside the checkout, as other compiled peers: it is compiled once for all of them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "pycandle-bench/candle/release/candle-peer"


def absent() -> dict[str, str]:
    """Why a peer is not here: what installing it said, or what is not installed."""
    reasons = {}
    for peer in PEERS:
        said = ROOT / "build/bench/missing" / peer
        if said.exists():
            reasons[peer] = said.read_text().strip().splitlines()[-1]
        elif peer == "candle" and not candle_program().exists():
            reasons[peer] = "not compiled"
        elif lacking := [p for p in _PACKAGES.get(peer, ()) if not version_of(p)]:
            reasons[peer] = f"{', '.join(lacking)} not installed"
    return reasons


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def unsuitable(peer: str, entry: Entry) -> str:
    """Why a peer that is here has no row for this model."""
    if peer == "candle" and entry.name not in _OF_CANDLE:
        return "candle-transformers has no such model"
    if peer == "llama.cpp" and not entry.gguf:
        return "not a model for llama.cpp"
    return ""


def bench_command(
    entry: Entry, files: Files, peers: list[str], threads: int, rounds: int, seconds: float
) -> list[str]:
    command = [
        PYCANDLE,
        "bench",
        files.manifest,
        "--threads",
        threads,
        "--rounds",
        rounds,
        "--seconds",
        seconds,
        "--json",
    ]
    command += ["--inputs", files.inputs, "--keep", files.folder, "--python", sys.executable]
    if exported := [peer for peer in peers if peer in ("onnxruntime", "openvino")]:
        command += ["--against", ",".join(exported)]
    for peer in peers:
        if line := own_command(peer, entry, files):
            command += ["--peer", f"{peer}={line}"]
    return [str(word) for word in command]


def own_command(peer: str, entry: Entry, files: Files) -> str:
    python = shlex.quote(sys.executable)
    return {
        "torch": f"{python} -m peers.real_torch eager {entry.name} {files.weights} {{threads}}",
        "torch-compile": f"{python} -m peers.real_torch compile {entry.name} {files.weights} {{threads}}",
        "candle": f"{candle_program()} {entry.name} {files.weights}",
        "llama.cpp": f"{python} -m peers.llama {files.gguf} {{threads}}",
    }.get(peer, "")
