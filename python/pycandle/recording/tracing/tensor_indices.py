"""`x[i]` and `x[:, i] = y` where `i` is a tensor of one integer: torch reads its value, which no trace can.

What `i` points at is cut out as a part of length 1, and the index is 0 there; an assignment puts the part back.
"""

from __future__ import annotations

import torch

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def get_item(x, index):
    part, _, rest = _cut(x, index)
    return part[rest]


def set_item(x, index, value):
    part, cuts, rest = _cut(x, index)
    part[rest] = value
    for whole, axis, place in reversed(cuts):
        part = whole.index_copy_(axis, place, part)


def _cut(x, index):
    """The part, from which tensors it was cut on which axis and where, and the index into it."""
    entries = list(index) if isinstance(index, tuple) else [index]
    cuts = []
    for number, entry in enumerate(entries):
        if _is_place(entry):
            axis = _axis_of(number, entries, x.dim())
            place = torch.where(entry < 0, entry + x.shape[axis], entry).to(torch.int64).reshape(1)
            cuts.append((x, axis, place))
            x = x.index_select(axis, place)
            entries[number] = 0
    return x, cuts, tuple(entries)


def _is_place(entry) -> bool:
    return isinstance(entry, torch.Tensor) and entry.dim() == 0 and entry.dtype in _INTEGERS


def holds_places(index) -> bool:
    return any(map(_is_place, index if isinstance(index, tuple) else (index,)))


def _axis_of(number: int, entries: list, rank: int) -> int:
    """The axis of the tensor that an entry of the index is for."""
    before, after = sum(map(_axes, entries[:number])), sum(map(_axes, entries[number:]))
    return rank - after if any(entry is Ellipsis for entry in entries[:number]) else before


def _axes(entry) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    is_mask = isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8)
    return entry.dim() if is_mask else 1
