"""Sizes that Python computes with floats, `int(n * 1.7)`: which double operations, in which order.

torch keeps such a size as a sympy expression, and sympy merges what it may not: `n*0.1*3.0` becomes
`0.30000000000000004*n`, which is another number once both are rounded. So every float operation on sizes is noted while
torch traces, and a size is written only when its expression stands for one order of operations.

    TruncToInt(0.3*ToFloat(s0))  →  Rounded_trunc(FloatMul(0.3, s0))  →  "floor(0.3*s0)"
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable

import sympy
import torch

from ...errors import RecordingError
from ..places import place_here
from ..torch_compat.symbolic import ShapeEnv, expression_of, float_operations_told, sympy_functions


class FloatAdd(sympy.Function):
    """One double addition, which nothing reassociates."""


class FloatMul(sympy.Function):
    """One double multiplication."""


class FloatDiv(sympy.Function):
    """One double division."""


FLOAT_OPERATIONS = (FloatAdd, FloatMul, FloatDiv)


class Rounded(sympy.Function):
    """A double made an integer again."""

    is_integer = True


class Rounded_floor(Rounded):
    round_off = math.floor


class Rounded_ceil(Rounded):
    round_off = math.ceil


class Rounded_trunc(Rounded):
    round_off = math.trunc


class Rounded_round(Rounded):
    round_off = round


_ROUNDINGS = {
    "FloorToInt": Rounded_floor,
    "floor": Rounded_floor,
    "CeilToInt": Rounded_ceil,
    "ceiling": Rounded_ceil,
    "TruncToInt": Rounded_trunc,
    "RoundToInt": Rounded_round,
}
_OPERATIONS: dict[str, Callable] = {
    "add": lambda a, b: FloatAdd(*_in_order(a, b)),
    "sub": lambda a, b: FloatAdd(a, _negated(b)),
    "mul": lambda a, b: FloatMul(*_in_order(a, b)),
    "neg": lambda a: _negated(a),
}


class Unclear(Exception):
    """An expression that several orders of float operations lead to, or none that is known."""


class FloatSizes:
    """The float operations on sizes that were seen while torch traced."""

    def __init__(self) -> None:
        self._seen: list[tuple[object, str, sympy.Expr, tuple[sympy.Expr, ...]]] = []
        self._ways: dict[sympy.Expr, set[tuple[str, tuple[sympy.Expr, ...]]]] | None = None

    def note(
        self, method: str, operands: tuple[sympy.Expr, ...], result: sympy.Expr, shapes: ShapeEnv
    ) -> None:
        if isinstance(result, (sympy.Add, sympy.Mul)) and not _in_a_guard():
            self._seen.append((shapes, method, result, operands))
            self._ways = None

    @contextlib.contextmanager
    def watching(self):
        """Notes what Python does with symbolic floats; refuses `//`, which torch rounds twice and Python once."""
        divisions = {kind: kind.__floordiv__ for kind in (torch.SymInt, torch.SymFloat)}
        for kind, original in divisions.items():
            kind.__floordiv__ = _refusing_fractions(original)
        try:
            with float_operations_told(tuple(_OPERATIONS), self.note):
                yield
        finally:
            for kind, original in divisions.items():
                kind.__floordiv__ = original

    def in_order(self, expression: sympy.Expr) -> sympy.Expr:
        """The expression with every float operation in its order; raises Unclear where that is not known."""
        if not isinstance(expression, sympy.Basic) or not expression.args:
            return expression
        rounding = _ROUNDINGS.get(type(expression).__name__)
        if rounding is not None:
            value = self._real(expression.args[0], ())
            return value if value.is_integer else rounding(value)
        return expression.func(*[self.in_order(argument) for argument in expression.args])

    def _real(self, expression: sympy.Expr, above: tuple) -> sympy.Expr:
        if expression.is_Number or expression.is_Symbol or expression.is_integer:
            return self.in_order(expression)
        kind = type(expression).__name__
        if kind == "ToFloat":
            return self.in_order(expression.args[0])
        if kind in ("IntTrueDiv", "FloatTrueDiv"):
            return FloatDiv(*[self._real(argument, above) for argument in expression.args])
        ways = self._known_ways().get(expression, ())
        if expression in above or not ways:
            raise Unclear(expression)
        found = {_OPERATIONS[way](*[self._real(o, (*above, expression)) for o in of]) for way, of in ways}
        if len(found) != 1:
            raise Unclear(expression)
        return found.pop()

    def _known_ways(self) -> dict:
        """By expression, as torch writes it now: it has replaced symbols since that turned out to be equal."""
        if self._ways is None:
            self._ways = {}
            for shapes, method, result, operands in self._seen:
                now = [shapes.replace(e) if isinstance(e, sympy.Basic) else e for e in (result, *operands)]
                if now[0] not in now[1:]:  # x*1.0, x + 0.0
                    self._ways.setdefault(now[0], set()).add((method, tuple(now[1:])))
        return self._ways


def _in_a_guard() -> bool:
    """torch writes its guards as code made from sympy's form, and runs it."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<string>" and frame.f_code.co_name == "_":
            return True
        frame = frame.f_back
    return False


def _refusing_fractions(original: Callable) -> Callable:
    def floordiv(size, other):
        is_plain = isinstance(size, torch.SymInt) or isinstance(expression_of(size), sympy_functions.ToFloat)
        if not isinstance(other, (int, torch.SymInt)) and not (
            is_plain and isinstance(other, float) and small_fraction(other)
        ):
            raise RecordingError(
                "a size is divided by a fraction with //, which torch.export rounds differently from Python",
                place_here(),
                "write math.floor(size / fraction), or fix the axis with dynamic=",
            )
        return original(size, other)

    return floordiv


def _in_order(a: sympy.Expr, b: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    return (a, b) if sympy.default_sort_key(a) <= sympy.default_sort_key(b) else (b, a)


def _negated(a: sympy.Expr) -> sympy.Expr:
    if a.is_Number or a.is_integer:
        return -a
    return FloatMul(sympy.Integer(-1), a)


def small_fraction(value: float) -> bool:
    """Products with it and sums are exact at all sizes below 2**37."""
    above, below = abs(value).as_integer_ratio() if math.isfinite(value) else (0, 0)
    return 0 < above <= 2**16 and below <= 2**16


# ---- as integers, where that is the same at all sizes --------------------------------------------------------------


def exact_fraction(value: sympy.Expr) -> sympy.Expr | None:
    """The rational function that rounds to the same integer, or None.

    All operations are exact, or one division by a number is the last but for sums: a quotient that is no integer is
    further from the next one than a rounding reaches, and one that is an integer has no rounding.
    """
    found = _fraction(value)
    return None if found is None else found[0]


def _fraction(value: sympy.Expr) -> tuple[sympy.Expr, bool] | None:
    """The rational function, and whether every operation so far is exact."""
    if value.is_Float:
        number = float(value)
        return (sympy.Rational(*number.as_integer_ratio()), True) if small_fraction(number) else None
    if value.is_integer:
        return value, True
    if not isinstance(value, FLOAT_OPERATIONS):
        return None
    sides = [_fraction(side) for side in value.args]
    if None in sides:
        return None
    (a, a_exact), (b, b_exact) = sides
    exact = a_exact and b_exact
    if isinstance(value, FloatAdd):
        return (a + b, exact) if a_exact or b_exact else None
    if isinstance(value, FloatMul):
        factor_is_power = any(_is_power_of_two(side) for side in (a, b))
        return (a * b, exact) if exact or factor_is_power else None
    if not exact or not b.is_Rational or b == 0:
        return None
    return a / b, _is_power_of_two(b)


def _is_power_of_two(value: sympy.Expr) -> bool:
    if not value.is_Rational or value == 0:
        return False
    above, below = abs(int(value.p)), int(value.q)
    return above & (above - 1) == 0 and below & (below - 1) == 0


def never_negative(value: sympy.Expr) -> bool:
    if value.is_Number:
        return bool(value >= 0)
    if isinstance(value, FLOAT_OPERATIONS):
        return all(never_negative(side) for side in value.args)
    if isinstance(value, Rounded):
        return never_negative(value.args[0])
    return bool(value.is_nonnegative)


def evaluate_real(value: sympy.Expr, whole: Callable[[sympy.Expr], int]) -> float:
    """The double that these operations give; `whole` evaluates the sizes in it."""
    if value.is_Float:
        return float(value)
    if not isinstance(value, FLOAT_OPERATIONS):
        return float(whole(value))
    a, b = (evaluate_real(side, whole) for side in value.args)
    if isinstance(value, FloatAdd):
        return a + b
    return a * b if isinstance(value, FloatMul) else a / b
