"""Sorts that leave the order of equal elements open are recorded as stable ones.

torch then puts equal elements in an order that depends on sizes and instruction sets. A model that computes
the same either way (a dispatch to experts) gets a program whose goldens anybody can reproduce; in one that does not, the
comparison with the model says so.
"""

from __future__ import annotations

import torch

_aten = torch.ops.aten
_STABLE = {_aten.sort.default: _aten.sort.stable, _aten.argsort.default: _aten.argsort.stable}


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
