"""`x.tensor_split(3)` at any size: torch decides which parts are longer by the example's remainder."""

from __future__ import annotations

import torch


def split_tensor(*args, **kwargs):
    """An open axis is split into sizes that hold for every remainder."""
    x, sections, dim = _arguments(*args, **kwargs)
    if not isinstance(sections, int) or sections < 1 or not isinstance(x.shape[dim], torch.SymInt):
        return torch.tensor_split(*args, **kwargs)
    size = x.shape[dim]
    parts = [(size + (sections - 1 - i)) // sections for i in range(sections - 1)]
    return x.split([*parts, size - sum(parts)], dim)


def _arguments(input, indices_or_sections=None, dim: int = 0, **one):
    """The second has one of three names: sections, indices, tensor_indices_or_sections."""
    return input, next(iter(one.values()), indices_or_sections), dim
