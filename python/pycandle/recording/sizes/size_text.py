"""Sizes as a manifest writes them (`2*s0 + 1`, `floordiv(s1, 2)`, `floor(1.7*s0)`), evaluated."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS = {"floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max}
_FUNCTIONS |= {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round}


def size_of(text: str, sizes: Mapping[str, int]) -> int:
    """KeyError names a size that is not among `sizes`, such as one that only data decides."""
    return _size(ast.parse(text, mode="eval").body, sizes)


def _size(text: ast.expr, sizes: Mapping[str, int]) -> int | float:
    if isinstance(text, ast.Constant) and isinstance(text.value, (int, float)):
        return text.value
    if isinstance(text, ast.UnaryOp) and isinstance(text.op, ast.USub):
        return -_size(text.operand, sizes)
    if isinstance(text, ast.BinOp) and type(text.op) in _ARITHMETIC:
        return _ARITHMETIC[type(text.op)](_size(text.left, sizes), _size(text.right, sizes))
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id in _FUNCTIONS:
        return _FUNCTIONS[text.func.id](*(_size(argument, sizes) for argument in text.args))
    if isinstance(text, ast.Name) and text.id in sizes:
        return sizes[text.id]
    raise KeyError(ast.unparse(text))
