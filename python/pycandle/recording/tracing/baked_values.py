"""Arguments that torch.export does not take and that are values all the same: a dtype, an enum's member, a slice, torch.Size.

They are baked in like any other plain value. torch sees None in their place, and `forward` gets the value.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import replace

import torch

from ..inputs import Inputs, is_odd_value
from ..torch_compat import pytree


@contextlib.contextmanager
def baked_values(model: torch.nn.Module, inputs: Inputs) -> Iterator[Inputs]:
    """Yields the inputs as torch may see them; the model's own `forward` comes back afterwards."""
    if not any(is_odd_value(leaf) for leaf in inputs.leaves):
        yield inputs
        return
    original, own = model.forward, "forward" in model.__dict__

    def forward(*args, **kwargs):
        args = [_filled(seen, given) for seen, given in zip(args, inputs.args, strict=True)]
        return original(*args, **{name: _filled(seen, inputs.kwargs[name]) for name, seen in kwargs.items()})

    forward.__signature__ = inspect.signature(original)
    model.forward = forward
    try:
        seen = inputs.with_leaves([None if is_odd_value(leaf) else leaf for leaf in inputs.leaves])
        yield replace(seen, signature=inputs.signature)
    finally:
        if own:
            model.forward = original
        else:
            del model.forward


def _filled(seen: object, given: object) -> object:
    """What torch hands over, with the values in it that it was not shown."""
    values, spec = pytree.tree_flatten(given, is_leaf=is_odd_value)
    if not any(is_odd_value(value) for value in values):
        return seen
    leaves, _ = pytree.tree_flatten(seen)
    pairs = zip(leaves, values, strict=True)
    return pytree.tree_unflatten([value if is_odd_value(value) else leaf for leaf, value in pairs], spec)
