"""Sizes at which double arithmetic turns over: `int(10 * 1.7)` is 17, although 1.7 is stored as a little less."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import sympy

from .dims import DimNames, evaluate_expression
from .float_sizes import FLOAT_OPERATIONS, FloatAdd, FloatMul, Rounded

_NEAR = sorted({10 * k for k in range(1, 14)} | {2**k + d for k in range(2, 8) for d in (-1, 0, 1)})
_MOST = 3


def turning_sizes(dims: DimNames, symbol: sympy.Symbol, others: dict[sympy.Symbol, int]) -> Iterator[int]:
    """Multiples of ten, powers of two and their neighbours, first those where rounding decides a size."""
    fractions = [
        part for size in dims.fractions for part in size.atoms(Rounded) if symbol in part.free_symbols
    ]
    if not fractions:
        return
    decided = [n for n in _NEAR if any(_rounding_decides(part, {**others, symbol: n}) for part in fractions)]
    yield from dict.fromkeys([*decided[:_MOST], *(n for n in _NEAR if n not in decided)])


def _rounding_decides(part: Rounded, sizes: dict[sympy.Symbol, int]) -> bool:
    whole = evaluate_expression(part, sizes)
    exact = _exact(part.args[0], sizes)
    return whole is not None and exact is not None and whole != type(part).round_off(exact)


def _exact(value: sympy.Expr, sizes: dict[sympy.Symbol, int]) -> Fraction | None:
    if value.is_Float:
        return Fraction(float(value))
    if not isinstance(value, FLOAT_OPERATIONS):
        whole = evaluate_expression(value, sizes)
        return None if whole is None else Fraction(whole)
    a, b = (_exact(side, sizes) for side in value.args)
    if a is None or b is None or (b == 0 and not isinstance(value, (FloatAdd, FloatMul))):
        return None
    if isinstance(value, FloatAdd):
        return a + b
    return a * b if isinstance(value, FloatMul) else a / b
