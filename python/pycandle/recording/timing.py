"""How long the model itself takes in PyTorch: what a benchmark of the ported one is compared with."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .eager import Eager, quiet_inference
from .preparation import materialise_lazy_modules
from .recorder import GoldenRecorder

_SECONDS, _LEAST, _MOST = 1.0, 5, 1000


@dataclass
class Timing:
    """Milliseconds of a call, in torch's eager mode without gradients."""

    median_ms: float
    best_ms: float
    calls: int
    threads: int


def time_model(model: torch.nn.Module, args: tuple, kwargs: dict, seed: int = 0) -> Timing:
    found: list[float] = []
    materialise_lazy_modules(model, args, kwargs, seed)
    eager = Eager(model, seed)
    with quiet_inference(seed):
        model(*args, **kwargs)
        until = time.perf_counter() + _SECONDS
        while len(found) < _LEAST or (time.perf_counter() < until and len(found) < _MOST):
            eager.restore_buffers()  # every call is the same one, and the model stays as it was
            start = time.perf_counter()
            model(*args, **kwargs)
            found.append((time.perf_counter() - start) * 1000)
    eager.restore_buffers()
    return Timing(statistics.median(found), min(found), len(found), torch.get_num_threads())


@contextlib.contextmanager
def scripts_time_models() -> Iterator[list[Timing]]:
    """Scripts that are run meanwhile get a `GoldenRecorder` that times models and writes nothing."""
    import pycandle
    from pycandle import spy

    timings: list[Timing] = []

    class ModelTimer(GoldenRecorder):
        def record(self, model: torch.nn.Module, *args, **kwargs) -> None:
            timings.append(time_model(model, args, kwargs, self.seed))

        def save(self, name: str) -> None:
            """There is nothing to write."""

    pycandle.GoldenRecorder = spy.GoldenRecorder = ModelTimer
    try:
        yield timings
    finally:
        pycandle.GoldenRecorder = spy.GoldenRecorder = GoldenRecorder
