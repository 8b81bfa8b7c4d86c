"""A call of `forward` apart from the values of its tensors: one program serves all calls of one form."""

from __future__ import annotations

import inspect
import pathlib
import struct
from dataclasses import dataclass

import numpy as np
import torch

from ..recording.inputs import DTYPE_NAMES, bound_arguments, is_odd_value, register_dataclasses, step_name
from ..recording.torch_compat import pytree

_LONGEST_VALUE = 60


@dataclass(frozen=True)
class TensorLeaf:
    """A tensor input. Its sizes are the program's to accept or refuse."""

    dtype: torch.dtype
    axes: int

    def __str__(self) -> str:
        dtype = DTYPE_NAMES.get(self.dtype, self.dtype)
        return f"a tensor of {dtype} with {self.axes} {'axis' if self.axes == 1 else 'axes'}"


@dataclass(frozen=True, eq=False)
class PlainLeaf:
    """A value that is baked in. 1, True and 1.0 are three values; so are 0.0 and -0.0."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainLeaf) and _same(self.value, other.value)

    def __str__(self) -> str:
        text = repr(self.value)
        return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _same(a: object, b: object) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    if isinstance(a, (float, complex)):
        return struct.pack("dd", a.real, a.imag) == struct.pack("dd", b.real, b.imag)
    if isinstance(a, (range, slice, torch.Size)):
        return repr(a) == repr(b)  # slice(0, 1) and slice(False, 1) are equal
    if a is None or isinstance(a, (bool, int, str, bytes, pathlib.PurePath, torch.device)):
        return a == b
    return a is b  # members of an enum, dtypes, functions; defaults of forward may be anything


@dataclass(frozen=True)
class CallForm:
    """The arguments by name with forward's defaults filled in, so that `f(x, 2.0)` and `f(x, scale=2.0)` are one form."""

    leaves: dict[str, TensorLeaf | PlainLeaf]
    containers: pytree.TreeSpec
    defaults: frozenset[str]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallForm)
            and self.containers == other.containers
            and self.leaves == other.leaves
        )

    def difference(self, before: CallForm) -> str:
        """What is not as it was `before`, in words."""
        for name, leaf in self.leaves.items():
            default = " (the default)" if name.split(".")[0] in self.defaults else ""
            if name not in before.leaves:
                return f"{name} is {leaf}{default}, and there was none"
            if leaf != before.leaves[name]:
                return f"{name} is {leaf}{default} instead of {before.leaves[name]}"
        for name, leaf in before.leaves.items():
            if name not in self.leaves:
                return f"{name} is missing, which was {leaf}"
        return f"the arguments are nested as {self.containers} instead of {before.containers}"


def form_of(signature: inspect.Signature, args: tuple, kwargs: dict) -> CallForm:
    bound = bound_arguments(signature, args, kwargs)
    given = set(bound.arguments)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    register_dataclasses(arguments)
    with_paths, containers = pytree.tree_flatten_with_path(arguments, is_leaf=is_odd_value)
    leaves: dict[str, TensorLeaf | PlainLeaf] = {}
    for path, leaf in with_paths:
        name = ".".join(step_name(key) for key in path)
        is_input = isinstance(leaf, torch.Tensor) and path[0].key in given
        leaves[name] = TensorLeaf(leaf.dtype, leaf.dim()) if is_input else PlainLeaf(leaf)
    if torch.is_autocast_enabled("cpu"):
        leaves["torch.autocast()"] = PlainLeaf(str(torch.get_autocast_dtype("cpu")))
    return CallForm(leaves, containers, frozenset(set(arguments) - given))
