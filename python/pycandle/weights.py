"""Checkpoints: look into them, rename their tensors, and take out what a recorded program needs.

The same code as `pycandle weights`: safetensors, torch (zip and legacy), GGUF and NumPy files are mapped, nothing in
them is executed, and a tensor is read when it is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core
from .running.arrays import to_numpy, to_torch

__all__ = ["Checkpoint", "Extracted", "Mapped", "TensorInfo", "extract", "map_names", "open_checkpoint"]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a checkpoint. `stored` says how it lies in the file ("q4_1"), `dtype` what reading gives."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    stored: str


class Checkpoint(Mapping):
    """Tensors by name: NumPy arrays, or torch tensors with `framework="torch"`, each read when it is asked for."""

    def __init__(
        self, path: str | os.PathLike, *, section: str | None = None, framework: str = "numpy"
    ) -> None:
        if framework not in ("numpy", "torch"):
            raise ValueError(f"framework is 'numpy' or 'torch', not {framework!r}")
        self._core = _core.Checkpoint(Path(path), section)
        self._framework = framework
        self.info = {
            name: TensorInfo(name, dtype, tuple(shape), stored)
            for name, dtype, shape, stored in self._core.tensors
        }

    @property
    def format(self) -> str:
        return self._core.format

    @property
    def section(self) -> str:
        """Of a training checkpoint: the part that was read."""
        return self._core.section

    @property
    def left_out(self) -> dict[str, int]:
        """Of a training checkpoint: the parts that were not read, and how many tensors each has."""
        return self._core.left_out

    @property
    def metadata(self) -> dict[str, str]:
        return self._core.metadata

    def __getitem__(self, name: str) -> Any:
        if name not in self.info:
            raise KeyError(name)
        value = {name: self._core.read(name)}
        if self._framework == "torch":
            import torch  # noqa: F401  to_torch finds it among the imported modules

            return to_torch(value)[name]
        return to_numpy(value)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.info)

    def __len__(self) -> int:
        return len(self.info)


def open_checkpoint(
    path: str | os.PathLike, *, section: str | None = None, framework: str = "numpy"
) -> Checkpoint:
    """A file, an index.json, or the folder of a checkpoint; `section` names the weights of a training checkpoint."""
    return Checkpoint(path, section=section, framework=framework)


@dataclass(frozen=True)
class Extracted:
    """What was written, and the fate of every tensor and parameter."""

    files: list[Path]
    ledger: dict[str, Any]
    attached: bool  # the manifest names the files now


def extract(
    checkpoint: str | os.PathLike,
    manifest: str | os.PathLike,
    out: str | os.PathLike,
    *,
    rules: str | os.PathLike = "",
    lora: str | os.PathLike = "",
    dtype: str = "",
    shard_bytes: int = 0,
    strict: bool = False,
    attach: bool = True,
    section: str | None = None,
) -> Extracted:
    """Writes the weights that a recorded program needs, as `pycandle weights extract` does."""
    files, ledger, attached = _core.extract_weights(
        Path(checkpoint), Path(manifest), Path(out), _path(rules), _path(lora), dtype, shard_bytes, strict, attach, section
    )  # fmt: skip
    return Extracted([Path(f) for f in files], json.loads(ledger), attached)


@dataclass(frozen=True)
class Mapped:
    """Rules that say which tensor is which parameter, as text."""

    rules: str
    complete: bool
    ambiguous: list[str]


def map_names(
    checkpoint: str | os.PathLike,
    manifest: str | os.PathLike,
    *,
    heads: int = 0,
    key_heads: int = 0,
    section: str | None = None,
) -> Mapped:
    """Proposes the rules for names that differ, as `pycandle weights map` does."""
    return Mapped(*_core.map_weights(Path(checkpoint), Path(manifest), heads, key_heads or heads, section))


def _path(path: str | os.PathLike) -> Path | str:
    return Path(path) if path else ""


def main(arguments: list[str] | None = None) -> int:
    """The command line of `.pycandle/scripts/weight_extractor.py`."""
    parser = argparse.ArgumentParser(description="Writes the weights that a recorded program needs.")
    parser.add_argument("--checkpoint", required=True, help="a file, an index.json, or a folder")
    parser.add_argument("--manifest", required=True, help="the recording's manifest")
    parser.add_argument("--out", required=True, help="the safetensors file to write")
    parser.add_argument("--map", default="", help="rules for names that differ: pycandle weights map")
    parser.add_argument("--lora", default="", help="a LoRA adapter (peft): its folder or its file")
    parser.add_argument(
        "--dtype", default="", choices=["f32", "f16", "bf16"], help="of floating-point weights"
    )
    parser.add_argument("--section", help="of a training checkpoint: where its weights are")
    parser.add_argument("--ledger", help="write what became of each tensor and parameter to this JSON file")
    parser.add_argument("--strict", action="store_true", help="tensors that nothing uses are an error")
    given = parser.parse_args(arguments)
    try:
        done = extract(
            given.checkpoint, given.manifest, given.out,
            rules=given.map, lora=given.lora, dtype=given.dtype, strict=given.strict, section=given.section,
        )  # fmt: skip
    except _core.Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.ledger:
        Path(given.ledger).write_text(json.dumps(done.ledger, indent=2) + "\n")
    counts = ", ".join(f"{count} {fate}" for fate, count in done.ledger["counts"].items())
    print(f"{counts}; {done.ledger['unused']} tensors unused")
    print(f"written to {', '.join(map(str, done.files))}")
    return 0
