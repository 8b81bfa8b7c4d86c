"""`x.tensor_split(3)` at any size: torch decides which parts are longer by the example's remainder."""

from __future__ import annotations

import contextlib

import torch


@contextlib.contextmanager
def tensor_splits_at_any_size():
    """While a model is recorded, an open axis is split into sizes that hold for every remainder."""
    function, method = torch.tensor_split, torch.Tensor.tensor_split

    def tensor_split(x: torch.Tensor, sections, dim: int = 0):
        if not isinstance(sections, int) or sections < 1 or not isinstance(x.shape[dim], torch.SymInt):
            return function(x, sections, dim)
        size = x.shape[dim]
        parts = [(size + (sections - 1 - i)) // sections for i in range(sections - 1)]
        return x.split([*parts, size - sum(parts)], dim)

    def named(x: torch.Tensor, indices_or_sections=None, dim: int = 0, **one):
        return tensor_split(x, next(iter(one.values()), indices_or_sections), dim)

    torch.tensor_split = torch.Tensor.tensor_split = named
    try:
        yield
    finally:
        torch.tensor_split = function
        torch.Tensor.tensor_split = method
