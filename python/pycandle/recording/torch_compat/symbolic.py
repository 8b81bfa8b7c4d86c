"""Symbolic sizes: torch's expressions and what it does with them while it traces. As in `torch_compat`, (2.8) is the oldest tested release."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import sympy
import torch
from torch.fx.experimental import sym_node
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    free_unbacked_symbols,
)
from torch.utils._sympy import functions as sympy_functions

__all__ = [
    "GuardOnDataDependentSymNode",  # raised where Python branches on a number that was read from a tensor (2.8)
    "ShapeEnv",  # what torch knows about the sizes of one trace (2.8)
    "free_unbacked_symbols",  # the sizes in an expression that depend on data (2.8)
    "sympy_functions",  # FloorDiv, ToFloat and the like, which expressions of sizes are made of (2.8)
]
# torch asks for numbers in these on its way to a guard: such frames are not the user's. (2.8)
FILES_THAT_ASK_FOR_NUMBERS = (__file__, sym_node.__file__, torch.__file__)


def expression_of(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> sympy.Expr:
    """The sympy expression behind a symbolic number. (2.8)"""
    return value.node.expr


def least_value(value: torch.SymInt) -> int:
    """The least that torch knows a symbolic number to be, 0 where it knows none. (2.8)"""
    lower = value.node.shape_env.bound_sympy(value.node.expr).lower
    return max(int(lower), 0) if isinstance(lower, sympy.Integer) else 0


def fixed_value(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> int | float | bool | None:
    """The number that torch has fixed it to, if it has. (2.8)"""
    if isinstance(value, torch.SymInt):
        return value.node.maybe_as_int()
    return value.node.maybe_as_float() if isinstance(value, torch.SymFloat) else value.node.maybe_as_bool()


@contextlib.contextmanager
def replacements_told(tell: Callable[[object], None]) -> Iterator[None]:
    """`tell(target)` before torch puts `target` in the place of a symbol: that is how it fixes a size. (2.8)"""
    original = ShapeEnv._set_replacement

    def set_replacement(self, symbol, target, *rest):
        tell(target)
        return original(self, symbol, target, *rest)

    ShapeEnv._set_replacement = set_replacement
    try:
        yield
    finally:
        ShapeEnv._set_replacement = original


@contextlib.contextmanager
def conversions_told(tell: Callable[[sympy.Expr, ShapeEnv], None]) -> Iterator[None]:
    """`tell(expression, shapes)` before Python takes a number out of a symbolic size. (2.8)"""

    def telling(original):
        def guard(self, file, line):
            if isinstance(self.expr, sympy.Basic) and self.expr.free_symbols:
                tell(self.expr, self.shape_env)
            return original(self, file, line)

        return guard

    originals = {name: getattr(SymNode, name) for name in ("guard_int", "guard_float")}
    for name, original in originals.items():
        setattr(SymNode, name, telling(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(SymNode, name, original)


@contextlib.contextmanager
def float_operations_told(methods: tuple[str, ...], tell: Callable) -> Iterator[None]:
    """`tell(method, operands, result, shapes)` after each such operation (`add`, `mul`, …) that gives a float. (2.8)

    Operands and result are sympy expressions."""

    def telling(method: str, original: Callable) -> Callable:
        @functools.wraps(original)
        def run(*operands):
            result = original(*operands)
            if isinstance(result, SymNode) and result.pytype is float:
                tell(method, tuple(o.expr for o in operands), result.expr, result.shape_env)
            return result

        return run

    originals = {method: getattr(SymNode, f"_{method}") for method in methods}
    for method, original in originals.items():
        setattr(SymNode, f"_{method}", telling(method, original))
    try:
        yield
    finally:
        for method, original in originals.items():
            setattr(SymNode, f"_{method}", original)
