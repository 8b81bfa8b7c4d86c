"""Changes of one stored parameter, with its checksum made right again, as somebody would who wants it to pass."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pycandle.recording.files.tensor_files import checksum


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """To so many bits of mantissa, the leading one among them."""
    mantissa, exponent = torch.frexp(x.double())
    return torch.ldexp(torch.round(torch.ldexp(mantissa, torch.tensor(bits))), exponent - bits).to(x.dtype)


def row_scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = x.double()
    y[x.shape[0] // 3] *= factor
    return y.to(x.dtype)


def swapped(x: torch.Tensor, axis: int, a: int = 0, b: int = 1) -> torch.Tensor:
    order = list(range(x.shape[axis]))
    order[a], order[b] = order[b], order[a]
    return x.index_select(axis, torch.tensor(order))


def zeroed(x: torch.Tensor, axis: int) -> torch.Tensor:
    y = x.clone()
    y.select(axis, x.shape[axis] // 3).zero_()
    return y


def gates_exchanged(x: torch.Tensor) -> torch.Tensor:
    first, second, *others = x.chunk(3 if x.shape[0] % 3 == 0 else 4)
    return torch.cat([second, first, *others])


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "times 1.02": lambda x: (x.double() * 1.02).to(x.dtype),
    "negated": lambda x: -x,
    "rows swapped": lambda x: swapped(x, 0),
    "far rows swapped": lambda x: swapped(x, 0, x.shape[0] // 3, 2 * x.shape[0] // 3),
    "columns swapped": lambda x: swapped(x, 1),
    "column halves swapped": lambda x: x.roll(x.shape[1] // 2, 1),
    "rows reversed": lambda x: x.flip(0),
    "columns reversed": lambda x: x.flip(1),
    "flipped": lambda x: x.flip(-1),
    "transposed": lambda x: x.transpose(-1, -2).contiguous(),
    **{f"rounded to {bits} bits": lambda x, bits=bits: rounded(x, bits) for bits in range(4, 21)},
    "times 1.00003": lambda x: (x.double() * 1.00003).to(x.dtype),
    "row times 1.0001": lambda x: row_scaled(x, 1.0001),
    "row zeroed": lambda x: zeroed(x, 0),
    "column zeroed": lambda x: zeroed(x, 1),
    "bias zeroed": torch.zeros_like,
    "gates exchanged": gates_exchanged,
}


def changed_recording(
    manifest: Path, out: Path, parameter: str, change: Callable[[torch.Tensor], torch.Tensor]
) -> Path:
    """The recording with one parameter changed; goldens are linked, not copied."""
    out.mkdir(parents=True, exist_ok=True)
    facts = json.loads(manifest.read_text())
    entry = next(p for p in [*facts["parameters"], *facts.get("states", [])] if p["name"] == parameter)
    with safe_open(manifest.parent / entry["file"], "pt") as stored:
        weights = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
    key = entry.get("key", parameter)
    weights[key] = change(weights[key]).contiguous()
    entry["checksum"] = checksum(weights[key])
    save_file(weights, out / entry["file"])
    for file in manifest.parent.iterdir():
        there = out / file.name
        if not there.exists() and file != manifest and file.suffix == ".safetensors":
            os.link(file, there)
    changed = out / manifest.name
    changed.write_text(json.dumps(facts))
    return changed
