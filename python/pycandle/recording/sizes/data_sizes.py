"""Sizes that torch leaves open though another size decides them.

Where data decides how long an axis is (`u0`), torch gives `x[:300]` a new symbol. It is `min(u0, 300)`, and the manifest says so.
`bincount(x, minlength=300)[:300]` has 300 elements, because `u0` is at least 300.
"""

from __future__ import annotations

import sys

import sympy
import torch
from torch.fx import Graph, Node

from ..torch_compat import pytree
from ..torch_compat.symbolic import free_unbacked_symbols, least_value, sympy_functions
from .dims import DimNames, symbol_of

_ARGUMENTS = ("self", "dim", "start", "end", "step")


def tie_slices(graph: Graph, dims: DimNames) -> None:
    """Ties the symbol of each such slice to the size that Python's rules give."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.slice.Tensor and node.meta.get("unbacked_bindings"):
            given = {**dict(zip(_ARGUMENTS, node.args, strict=False)), **node.kwargs}
            axis = given.get("dim", 0)
            made = symbol_of(node.meta["val"].shape[axis])
            size = symbol_of(given["self"].meta["val"].shape[axis])
            length = _length(size, given.get("start"), given.get("end"), given.get("step", 1))
            if length is not None and isinstance(made, sympy.Symbol):
                dims.tie(made, dims.resolve(length))


def least_sizes(graph: Graph) -> dict[sympy.Symbol, int]:
    """How long an axis is at least whose length data decides."""
    tensors = (
        leaf
        for node in graph.nodes
        for leaf in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(leaf, torch.Tensor)
    )
    sizes = (
        size
        for tensor in tensors
        for size in tensor.shape
        if isinstance(size, torch.SymInt) and free_unbacked_symbols(size)
    )
    return {symbol_of(size): least_value(size) for size in sizes}


def _length(size: sympy.Expr | int, start: object, end: object, step: object) -> sympy.Expr | None:
    """None where it depends on numbers that were read from tensors, whose signs nobody knows."""
    first, last = _bound(start, size, 0), _bound(end, size, size)
    if first is None or last is None or not isinstance(step, int):
        return None
    length = sympy.Max(0, last - first) if first != 0 else last
    return length if step == 1 else sympy_functions.FloorDiv(length + step - 1, step)


def _bound(index: object, size: sympy.Expr | int, default: sympy.Expr | int) -> sympy.Expr | int | None:
    """Where a slice begins or ends: negative indices count from the end, and none goes beyond it."""
    value = index.meta["val"] if isinstance(index, Node) else index
    if isinstance(value, torch.SymInt) and free_unbacked_symbols(value):
        return None
    if value is None or symbol_of(value) == sys.maxsize:  # what torch writes for a slice to the end
        return default
    at = sympy.sympify(symbol_of(value))
    if at.is_nonnegative:
        return sympy.Min(at, size)
    return sympy.Max(0, size + at) if at.is_negative else None
