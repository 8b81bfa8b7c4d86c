"""Symbolic sizes as dim texts: `2*s0 + 1`, `floordiv(s0 - 3, 2)`, `mod(s0, 8)`, `min(...)`, `max(...)`, `floor(1.7*s0)`."""

from __future__ import annotations

import re

import sympy
import torch

from ..torch_compat.symbolic import expression_of, fixed_value, sympy_functions
from .float_sizes import (
    FLOAT_OPERATIONS,
    FloatAdd,
    FloatDiv,
    FloatMul,
    FloatSizes,
    Rounded,
    Rounded_ceil,
    Rounded_floor,
    Rounded_trunc,
    Unclear,
    evaluate_real,
    exact_fraction,
    never_negative,
)

Dim = int | str
_ROUNDING = re.compile(r"\b(floor|ceil|trunc|round)\(")


class InexpressibleDim(Exception):
    """A size that the manifest's grammar cannot say."""

    def __init__(self, expression: object, why: str = ""):
        self.expression = expression
        super().__init__(f"the size {expression} cannot be written as a dim{why}")


def symbol_of(size: object) -> sympy.Expr | int:
    """The sympy expression of a size; a plain int when torch has fixed it, even inside a SymInt."""
    if isinstance(size, torch.SymInt):
        fixed = fixed_value(size)
        return expression_of(size) if fixed is None else fixed
    return int(size)


class DimNames:
    """Writes sizes as dim texts. Symbols are named by first use: s0, s1, … from inputs, u0, … from data."""

    def __init__(self, floats: FloatSizes | None = None) -> None:
        self.floats = floats or FloatSizes()
        self.fractions: set[sympy.Expr] = set()  # sizes that stay double arithmetic
        self.names: dict[sympy.Symbol, str] = {}
        self.same_as: dict[sympy.Symbol, sympy.Expr] = {}
        self.data_bound: list[sympy.Symbol] = []
        self._inputs = 0
        self._texts: dict[sympy.Expr, Dim] = {}

    def tie(self, symbol: sympy.Symbol, other: sympy.Expr) -> None:
        """From now on `symbol` is another name of `other`."""
        self.same_as[symbol] = other

    def resolve(self, expression: sympy.Expr) -> sympy.Expr:
        return expression.xreplace(self.same_as) if isinstance(expression, sympy.Basic) else expression

    def name_input_symbol(self, symbol: sympy.Symbol) -> str:
        if symbol not in self.names:
            self.names[symbol] = f"s{self._inputs}"
            self._inputs += 1
        return self.names[symbol]

    def _name(self, symbol: sympy.Symbol) -> str:
        if symbol not in self.names:
            self.names[symbol] = f"u{len(self.data_bound)}"
            self.data_bound.append(symbol)
        return self.names[symbol]

    def write(self, size: object) -> Dim:
        """An int, or the dim text of a SymInt (or sympy expression)."""
        expression = symbol_of(size) if not isinstance(size, sympy.Basic) else size
        if isinstance(expression, int):
            return expression
        if expression not in self._texts:
            resolved = self.resolve(self.in_order(expression))
            # Named before ordering, so that the order of terms does not depend on torch's symbol names.
            for symbol in sorted(resolved.free_symbols, key=str):
                self._name(symbol)
            text = self._texts[expression] = write_expression(resolved, self.names)
            if isinstance(text, str) and _ROUNDING.search(text):
                self.fractions.add(resolved)
        return self._texts[expression]

    def evaluate(self, size: object, sizes: dict[sympy.Symbol, int]) -> int | None:
        """The value of a size as it is written, when the symbols have these sizes; None where data decides."""
        expression = symbol_of(size)
        if isinstance(expression, int):
            return expression
        return evaluate_expression(self.resolve(self.in_order(expression)), sizes)

    def in_order(self, expression: sympy.Expr) -> sympy.Expr:
        try:
            return self.floats.in_order(expression)
        except Unclear as unclear:
            why = ": it does not say in which order Python rounded the floats in it"
            if isinstance(unclear.args[0], sympy.Function):
                why = ": of the functions of sizes, only those that round are known"
            raise InexpressibleDim(unclear.args[0], why) from None


def write_expression(expression: sympy.Expr, names: dict[sympy.Symbol, str]) -> Dim:
    renamed = {s: _plain_symbol(names[s]) for s in expression.free_symbols}
    expression = _as_integers(expression.xreplace(renamed))
    if expression.is_Integer:
        return int(expression)
    return _text(expression)


def _plain_symbol(name: str) -> sympy.Symbol:
    """Data may decide for a size of 0; no input has such an axis open."""
    return sympy.Symbol(
        name, integer=True, **({"nonnegative": True} if name[0] == "u" else {"positive": True})
    )


def _as_integers(expression: sympy.Expr) -> sympy.Expr:
    """Rewrites detours through floats (`CeilToInt(IntTrueDiv(s0, 2))`) into integer division where that is the same."""
    if not expression.args:
        return expression
    kind = type(expression).__name__
    if isinstance(expression, Rounded):
        return _rounded(type(expression), _real(expression.args[0]))
    arguments = [_as_integers(a) for a in expression.args]
    if kind in ("CleanDiv", "FloorDiv"):
        return _divide(*arguments)
    if kind in ("PythonMod", "Mod"):
        return sympy_functions.Mod(*arguments)
    if kind == "ModularIndexing":
        value, divisor, modulus = arguments
        return sympy_functions.Mod(_divide(value, divisor), modulus)
    if kind == "Identity":
        return arguments[0]
    if kind in ("Min", "Max"):
        arguments = _undominated(arguments, kind == "Max")
        if len(arguments) == 1:
            return arguments[0]
    return expression.func(*arguments)


def _real(value: sympy.Expr) -> sympy.Expr:
    if isinstance(value, FLOAT_OPERATIONS):
        return value.func(*[_real(side) for side in value.args])
    return value if value.is_Float else _as_integers(value)


def _rounded(rounding: type[Rounded], value: sympy.Expr) -> sympy.Expr:
    if rounding is Rounded_trunc and never_negative(value):
        rounding = Rounded_floor
    fraction = exact_fraction(value)
    if fraction is not None:
        above, below = sympy.fraction(sympy.together(fraction))
        if below == 1:
            return above
        if rounding is Rounded_ceil:
            above = above + below - 1
        if below.is_Integer and rounding in (Rounded_floor, Rounded_ceil):
            return sympy_functions.FloorDiv(sympy.expand(above), below)
    return rounding(value)


def _undominated(candidates: list[sympy.Expr], largest: bool) -> list[sympy.Expr]:
    """Without those that another one beats at all sizes: torch leaves `Max(0, 1 - s0)`, which is 0."""
    kept: list[sympy.Expr] = []
    for candidate in dict.fromkeys(candidates):
        if any(
            _never_below(other, candidate) if largest else _never_below(candidate, other) for other in kept
        ):
            continue
        kept = [
            other
            for other in kept
            if not (_never_below(candidate, other) if largest else _never_below(other, candidate))
        ]
        kept.append(candidate)
    return kept


def _never_below(a: sympy.Expr, b: sympy.Expr) -> bool:
    """a ≥ b whenever every symbol is at least 1 (0, when data decides): written in what the symbols are above that, the
    difference has no negative coefficient."""
    difference = sympy.expand(a - b)
    if difference.is_Integer:
        return difference >= 0
    if not difference.is_polynomial(*difference.free_symbols):
        return False
    least = {s: s + 1 for s in difference.free_symbols if s.is_positive}
    above = sympy.expand(difference.xreplace(least))
    return all(c >= 0 for c in sympy.Poly(above, *above.free_symbols).coeffs())


def _divide(above: sympy.Expr, below: sympy.Expr) -> sympy.Expr:
    exact = sympy.cancel(above / below) if not above.has(sympy_functions.FloorDiv) else None
    if exact is not None and exact.is_polynomial() and sympy.Poly(exact).domain in (sympy.ZZ,):
        return exact
    return sympy_functions.FloorDiv(above, below)


def _text(expression: sympy.Expr) -> str:
    expression = sympy.expand(expression)
    if not expression.is_Add:
        return _term(expression)
    terms = list(expression.as_ordered_terms())
    # A text begins with a term that is added: the grammar has no leading minus.
    terms.sort(key=lambda term: term.could_extract_minus_sign())
    text = _term(terms[0])
    for term in terms[1:]:
        text += f" - {_term(-term)}" if term.could_extract_minus_sign() else f" + {_term(term)}"
    return text


def _term(term: sympy.Expr) -> str:
    if term.could_extract_minus_sign() and not term.is_Integer:
        return f"0 - {_term(-term)}"
    factors = list(term.as_ordered_factors()) if term.is_Mul else [term]
    return "*".join(_factor(factor) for factor in factors)


def _factor(factor: sympy.Expr) -> str:
    kind = type(factor).__name__
    if factor.is_Symbol:
        return factor.name
    if factor.is_Integer:
        return str(int(factor))
    if factor.is_Pow and factor.exp.is_Integer and 0 < int(factor.exp) <= 16:
        return "*".join([_factor(factor.base)] * int(factor.exp))
    if kind in ("FloorDiv", "Mod", "PythonMod") and factor.args[1].is_Integer and int(factor.args[1]) > 0:
        function = "floordiv" if kind == "FloorDiv" else "mod"
        return f"{function}({_text(factor.args[0])}, {int(factor.args[1])})"
    if kind in ("Min", "Max"):
        arguments = sorted(_text(a) for a in factor.args)
        text = arguments[0]
        for other in arguments[1:]:
            text = f"{kind.lower()}({text}, {other})"
        return text
    if isinstance(factor, Rounded):
        return f"{kind.removeprefix('Rounded_')}({_real_text(factor.args[0])})"
    if factor.is_Add:
        return f"({_text(factor)})"
    raise InexpressibleDim(factor)


def _real_text(value: sympy.Expr) -> str:
    """Double operations in their order. A division has a float on one side: that of two sizes would be another."""
    if value.is_Float:
        return repr(float(value))
    if not isinstance(value, FLOAT_OPERATIONS):
        return _text(value)
    sides = []
    for side in value.args:
        text = _real_text(side)
        sides.append(
            text
            if side.is_Symbol or isinstance(side, Rounded) or (text[0].isdigit() and side.is_Number)
            else f"({text})"
        )
    sign = {FloatAdd: " + ", FloatMul: "*", FloatDiv: "/"}[type(value)]
    return sign.join(sides)


def evaluate(size: object, sizes: dict[sympy.Symbol, int]) -> int | None:
    """The value of a size when the symbols have these sizes; None where data decides."""
    expression = symbol_of(size)
    return expression if isinstance(expression, int) else evaluate_expression(expression, sizes)


def evaluate_expression(expression: sympy.Expr, sizes: dict[sympy.Symbol, int]) -> int | None:
    """The same for an expression; double operations in it run as Python runs them."""

    def whole(part: sympy.Expr) -> int:
        value = part.xreplace({r: sympy.Integer(rounded(r)) for r in part.atoms(Rounded)})
        value = value.xreplace({s: sympy.Integer(n) for s, n in sizes.items()})
        if not value.is_number:
            raise KeyError(part)
        return int(value)

    def rounded(part: Rounded) -> int:
        return type(part).round_off(evaluate_real(part.args[0], whole))

    try:
        return whole(expression)
    except KeyError:
        return None
