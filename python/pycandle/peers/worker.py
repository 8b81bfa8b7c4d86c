"""A peer's side of the protocol: ready with its first output, then a line of times for every line that asks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file, save_file

from . import PeerError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Job:
    """What a peer is told. `files` is where exported models lie."""

    manifest: Path
    inputs: Path
    outputs: Path
    files: Path
    threads: int

    def arrays(self) -> dict[str, np.ndarray]:
        return load_file(self.inputs)

    def tensors(self) -> dict[str, torch.Tensor]:
        from safetensors.torch import load_file as load_tensors

        return load_tensors(self.inputs)


class Answers:
    """Lines to whoever started this process. What libraries print goes to the errors instead."""

    def __init__(self) -> None:
        self._pipe = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def __call__(self, answer: object) -> None:
        print(json.dumps(answer), file=self._pipe, flush=True)

    def refusal(self, error: Exception) -> None:
        what = str(error) if isinstance(error, PeerError) else f"{type(error).__name__}: {error}"
        self({"error": what, "hint": getattr(error, "hint", "")})


def serve(
    answers: Answers, version: str, outputs: Path, load: Callable[[], Callable[[], Sequence[object]]]
) -> None:
    """Everything is imported when this is called; `load` gives the function that runs the model once."""
    imported = time.monotonic()
    run = load()
    loaded = time.monotonic()
    results = run()
    first = time.monotonic()
    _save({f"{i:04}": array for i, array in enumerate(results)}, outputs)
    answers({"version": version, "imported": imported, "loaded": loaded, "first": first})
    for line in sys.stdin:
        answers(_times(run, float(line)))


def _save(results: dict[str, object], path: Path) -> None:
    if all(hasattr(result, "detach") for result in results.values()):  # tensors: NumPy has no bf16
        from safetensors.torch import save_file as save_tensors

        save_tensors({name: result.detach().clone().contiguous() for name, result in results.items()}, path)
    else:
        save_file({name: np.array(result, order="C") for name, result in results.items()}, path)


def _times(run: Callable, milliseconds: float) -> list[float]:
    run()  # brings the model back into the caches after the other runners' turns
    found: list[float] = []
    until = time.perf_counter() + milliseconds / 1000
    while not found or time.perf_counter() < until:
        start = time.perf_counter()
        run()
        found.append((time.perf_counter() - start) * 1000)
    return found
