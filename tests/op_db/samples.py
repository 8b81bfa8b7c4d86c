"""The entries of torch's operator database and their calls."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy
import torch
import torch.utils._pytree as pytree

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
}

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}


@dataclass
class Call:
    """A function, and arguments whose tensors can be exchanged for others."""

    function: Callable
    leaves: list
    spec: pytree.TreeSpec
    default: torch.dtype = torch.float32  # what integers become

    @staticmethod
    def of(function: Callable, args: tuple, kwargs: dict) -> Call:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        return Call(function, [_plain(leaf) for leaf in leaves], spec)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def on(self, tensors) -> object:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)

    def tensors_on(self, tensors) -> list[torch.Tensor]:
        """The tensors among the results; a bool (torch.equal) is one of no axes, as it is recorded."""
        usual = torch.get_default_dtype()
        torch.set_default_dtype(self.default)
        try:
            with torch.no_grad():
                found = pytree.tree_leaves(self.on(tensors))
                found = [torch.tensor(leaf) if isinstance(leaf, bool) else leaf for leaf in found]
                return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        finally:
            torch.set_default_dtype(usual)

    def wide(self) -> Call:
        """The same in double precision: dtypes among the arguments, and what integers become."""
        return self._with_dtypes(WIDE, torch.float64)

    def narrow(self) -> Call:
        return self._with_dtypes(NARROW, torch.float32)

    def _with_dtypes(self, instead: dict[torch.dtype, torch.dtype], default: torch.dtype) -> Call:
        leaves = [instead.get(x, x) if isinstance(x, torch.dtype) else x for x in self.leaves]
        return Call(self.function, leaves, self.spec, default)

    def __str__(self) -> str:
        args, kwargs = pytree.tree_unflatten([_Shown(leaf) for leaf in self.leaves], self.spec)
        shown = [str(a) for a in args] + [f"{name}={value}" for name, value in kwargs.items()]
        return ", ".join(shown)


class _Shown:
    def __init__(self, leaf: object):
        self.leaf = leaf

    def __repr__(self) -> str:
        if not isinstance(self.leaf, torch.Tensor):
            return repr(self.leaf)
        return f"{str(self.leaf.dtype).removeprefix('torch.')}{list(self.leaf.shape)}"


def _plain(leaf: object) -> object:
    """A tensor without history: what is compared is the forward pass."""
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


@cache
def entries() -> dict[str, object]:
    """Every entry of op_db by its full name: `sum`, `div.floor_rounding`."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = {}
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        assert name not in found, name
        found[name] = op
    return found


def dtypes_of(op) -> list[str]:
    listed = op.supported_dtypes("cpu")
    return [name for name, dtype in DTYPES.items() if dtype in listed]


def seed(text: str) -> None:
    """Samples are drawn anew in every run, always the same."""
    number = zlib.crc32(text.encode())
    torch.manual_seed(number)
    numpy.random.seed(number)
    random.seed(number)


def calls_of(name: str, dtype: str) -> Iterator[Call]:
    op = entries()[name]
    seed(f"{name} {dtype}")
    for sample in op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False, set_seed=False):
        yield Call.of(op.op, (sample.input, *sample.args), sample.kwargs)
