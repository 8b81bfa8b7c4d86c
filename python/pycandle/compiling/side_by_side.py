"""PyTorch and PyCandle side by side, layer by layer."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file

from ..errors import UsageError
from ..recording.graph.taps import _slots, module_tap
from ..recording.processor import dtypes_of, make_bf16_safe, safe_for
from ..recording.tracing.module_calls import encode_tree
from ..running.model import load_model


@dataclass(frozen=True)
class Layer:
    """One module's output in both runs, each from its own inputs: errors add up along the way."""

    tap: str
    torch: torch.Tensor
    ours: torch.Tensor

    @property
    def max_abs(self) -> float:
        return self._difference().abs().max().item() if self.torch.numel() else 0.0

    @property
    def rms(self) -> float:
        return self._difference().square().mean().sqrt().item() if self.torch.numel() else 0.0

    def _difference(self) -> torch.Tensor:
        wide = torch.complex128 if self.torch.is_complex() else torch.float64
        return (self.ours.to(wide) - self.torch.to(wide)).abs()

    def __repr__(self) -> str:
        return f"Layer({self.tap!r}, max_abs={self.max_abs:.3e}, rms={self.rms:.3e})"


def lockstep(
    model: torch.nn.Module, path: str | os.PathLike, *args, backend: str = "reference", **kwargs
) -> Iterator[Layer]:
    """Yields every module output that the recording at `path` knows, as torch and as `backend` compute it, in the order
    in which torch does. Without inputs the recorded ones are taken. States start from the model's buffers."""
    make_bf16_safe()
    recorded = load_model(path, backend)
    if not args and not kwargs:
        kwargs = _recorded_inputs(Path(path))
    buffers = dict(model.named_buffers())
    recorded.states.update({name: buffers[name] for name in recorded.states if name in buffers})
    named = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    ours = recorded.trace(**{name: value for name, value in named.items() if value is not None})
    for tap, value in _outputs(model, args, kwargs):
        if tap in ours:
            yield Layer(tap, value, ours[tap])


def _recorded_inputs(path: Path) -> dict[str, torch.Tensor]:
    manifests = [path] if path.is_file() else sorted(path.glob("*_manifest.json"))
    if len(manifests) != 1:
        raise UsageError(f"{path} is neither a manifest nor the folder of one")
    manifest = json.loads(manifests[0].read_text())
    tensors = load_file(manifests[0].with_name(manifest["files"]["trace"]))
    inputs = {key.removeprefix("input:"): t for key, t in tensors.items() if key.startswith("input:")}
    nested = [name for name in inputs if "." in name]
    if nested:
        raise UsageError(f"the recorded input {nested[0]} is nested: call lockstep(model, path, *inputs)")
    return inputs


def _outputs(model: torch.nn.Module, args: tuple, kwargs: dict) -> list[tuple[str, torch.Tensor]]:
    """What every module call gave: (`path@call/output`, value)."""
    found: list[tuple[str, torch.Tensor]] = []
    counts: dict[str, int] = {}

    def enter(numbers: list[int], path: str, *_) -> None:
        numbers.append(counts.get(path, 0))
        counts[path] = numbers[-1] + 1

    def leave(numbers: list[int], path: str, _module, _inputs, output) -> None:
        number = numbers.pop()
        tensors: list[torch.Tensor] = []
        for names, slot in _slots(encode_tree(output, tensors)):
            found.append((module_tap(path, number, "output", names), tensors[slot].detach().clone()))

    handles = []
    for path, module in model.named_modules():
        numbers: list[int] = []  # of the calls that are open
        handles.append(module.register_forward_pre_hook(partial(enter, numbers, path)))
        handles.append(module.register_forward_hook(partial(leave, numbers, path)))
    try:
        notes: list[str] = []
        with torch.no_grad(), safe_for(dtypes_of(model, (args, kwargs)), notes):
            model(*args, **kwargs)
        for note in notes:
            warnings.warn(f"lockstep: {note}", stacklevel=3)
    finally:
        for handle in handles:
            handle.remove()
    return found
