"""Sorts that leave the order of equal elements open are recorded as stable ones.

torch then puts equal elements in an order that depends on sizes and instruction sets. A model that computes
the same either way (a dispatch to experts) gets a program whose goldens anybody can reproduce. One whose results show the order
is compared as it is with stable sorts, and a note says so.
"""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

_aten = torch.ops.aten
_STABLE = {_aten.sort.default: _aten.sort.stable, _aten.argsort.default: _aten.argsort.stable}

_SORTS = (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort)


class StableSorts(TorchFunctionMode):
    """A model's own calls keep the order of equal elements."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in _SORTS and "out" not in kwargs:
            kwargs.update(zip(("dim", "descending"), args[1:], strict=False))
            args, kwargs["stable"] = args[:1], True
        return func(*args, **kwargs)


def has_stable_sorts(module: torch.fx.GraphModule) -> bool:
    parts = (part for part in module.modules() if isinstance(part, torch.fx.GraphModule))
    return any(node.target in _STABLE.values() for part in parts for node in part.graph.nodes)


def make_sorts_stable(module: torch.fx.GraphModule) -> None:
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if node.target in _STABLE:
                    node.target = _STABLE[node.target]
                    _name_arguments(node)
            part.recompile()


def _name_arguments(node: torch.fx.Node) -> None:
    """(x, dim, descending) → (x, stable=True, dim=…, descending=…): the stable overloads take them by name."""
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", -1)
    descending = node.args[2] if len(node.args) > 2 else node.kwargs.get("descending", False)
    node.args = node.args[:1]
    node.kwargs = {"stable": True, "dim": dim, "descending": descending}
