"""Functions that take or give a plain number, which would fix a size, by means of those that take a size."""

from __future__ import annotations

import builtins
import contextlib
import math

import torch

from ..torch_compat import ADAPTIVE_MAX_POOL2D, ADAPTIVE_MAX_POOL3D, SYM_SQRT

_WITHOUT_EFFECT = ("layout", "pin_memory", "requires_grad")


@contextlib.contextmanager
def sizes_in_python():
    """len(x) gives, and math.sqrt(n) takes, plain numbers alone: while torch traces, they do with sizes."""
    originals = [(builtins, "len", len), (math, "sqrt", math.sqrt)]
    plain_len, plain_sqrt = len, math.sqrt

    def length(value, /):
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            return value.shape[0]
        return plain_len(value)

    def square_root(value, /):
        return SYM_SQRT(value) if isinstance(value, (torch.SymInt, torch.SymFloat)) else plain_sqrt(value)

    builtins.len, math.sqrt = length, square_root
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


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


def triu_indices(row, col, offset=0, **options):
    return _triangle(torch.triu_indices, row, col, offset, options)


def tril_indices(row, col, offset=0, **options):
    return _triangle(torch.tril_indices, row, col, offset, options)


def _triangle(original, row, col, offset, options):
    """Of a square with an open size: its places in order, those of the triangle first, as many as it has."""
    if not isinstance(row, torch.SymInt) or not isinstance(col, torch.SymInt) or row != col:
        return original(row, col, offset, **options)
    upper = original is torch.triu_indices
    step = torch.arange(row)
    distance = (step - step.unsqueeze(1)) if upper else (step.unsqueeze(1) - step)
    least = offset if upper else -offset
    places = (distance < least).flatten().to(torch.int64).argsort(stable=True)[: _places(row, least)]
    dtype = options.get("dtype") or torch.int64
    return torch.stack([places // row, places % row]).to(dtype)


def _places(size, least):
    """How many places of a square are at least so far to the right of its diagonal."""
    if least <= 0:
        below = _triangular(size + least - 1, 1 - least)
        return size * size - below
    return _triangular(size - least, least)


def _triangular(side, less):
    side = torch.sym_max(side, 0) if less > 1 else side  # a size is at least 1
    return side * (side + 1) // 2


def adaptive_max_pool2d(x, output_size):
    return _adaptive_max_pool(ADAPTIVE_MAX_POOL2D, x, output_size)


def adaptive_max_pool3d(x, output_size):
    return _adaptive_max_pool(ADAPTIVE_MAX_POOL3D, x, output_size)


def _adaptive_max_pool(original, x, output_size):
    """Axes that keep their open size (`None` in the module) are not pooled: they go to the batch."""
    wanted = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size]
    sizes = x.shape[-len(wanted) :]
    kept = [
        isinstance(w, torch.SymInt) and isinstance(size, torch.SymInt) and bool(w == size)
        for w, size in zip(wanted, sizes, strict=False)
    ]
    if len(wanted) == 1 or not any(kept):
        return original(x, output_size)
    axes = [i - len(wanted) for i, keep in enumerate(kept) if keep]
    pooled = [i - len(wanted) for i, keep in enumerate(kept) if not keep]
    places = {axis: torch.arange(x.shape[axis]).reshape([-1] + [1] * (-1 - axis)) for axis in axes}
    values = x.clone()
    if pooled:
        front = x.movedim(axes, list(range(len(axes))))
        flat = front.reshape(-1, *front.shape[-1 - len(pooled) :])
        pool = torch.adaptive_max_pool1d if len(pooled) == 1 else ADAPTIVE_MAX_POOL2D
        values, where = (
            t.reshape(*front.shape[: -len(pooled)], *t.shape[-len(pooled) :]).movedim(
                list(range(len(axes))), axes
            )
            for t in pool(flat, [wanted[axis] for axis in pooled])
        )
        for axis in reversed(pooled):
            places[axis], where = where % x.shape[axis], where // x.shape[axis]
    index = 0
    for axis, size in enumerate(sizes, -len(wanted)):
        index = index * size + places[axis]
    return values, index.expand(values.shape)
