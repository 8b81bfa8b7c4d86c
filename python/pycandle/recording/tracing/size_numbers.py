"""Factories whose operator takes a plain integer, which would fix a size, by means of those that take a size."""

from __future__ import annotations

import torch

_WITHOUT_EFFECT = ("layout", "pin_memory", "requires_grad")


def linspace(*args, **kwargs):
    """torch.linspace; with a size as its steps an arange from both ends, so that both are exact, as in torch."""
    named = dict(zip(("start", "end", "steps"), args, strict=False)) | kwargs
    dtype = named.get("dtype") or torch.get_default_dtype()
    if not isinstance(named.get("steps"), torch.SymInt) or not dtype.is_floating_point or "out" in named:
        return torch.linspace(*args, **kwargs)
    named = {name: value for name, value in named.items() if name not in _WITHOUT_EFFECT}
    return _between(**{**named, "dtype": dtype})


def _between(start, end, steps, **options):
    count = torch.arange(steps, **options)
    last = torch.scalar_tensor(steps - 1, **options)
    start, end = (
        number.to(**options) if isinstance(number, torch.Tensor) else torch.scalar_tensor(number, **options)
        for number in (start, end)
    )
    width = (end - start) / last.clamp(min=1)
    from_start = count < (last / 2).clamp(min=0.5)  # a single step is the start
    return torch.where(from_start, start + count * width, end - (last - count) * width)
