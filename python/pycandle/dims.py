"""Symbolic sizes as dim texts: `2*s0 + 1`, `floordiv(s0 - 3, 2)`, `mod(s0, 8)`, `min(...)`, `max(...)`."""

from __future__ import annotations

from fractions import Fraction

import sympy
import torch
from torch.utils._sympy import functions as torch_functions

Dim = int | str


class InexpressibleDim(Exception):
    """A size that the manifest's grammar cannot say."""

    def __init__(self, expression: object):
        self.expression = expression
        super().__init__(f"the size {expression} cannot be written as a dim")


def symbol_of(size: object) -> sympy.Expr | int:
    """The sympy expression of a size; a plain int when torch has fixed it, even inside a SymInt."""
    if isinstance(size, torch.SymInt):
        fixed = size.node.maybe_as_int()
        return size.node.expr if fixed is None else fixed
    return int(size)


class DimNames:
    """Writes sizes as dim texts. Symbols are named by first use: s0, s1, … from inputs, u0, … from data."""

    def __init__(self) -> None:
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
            resolved = self.resolve(expression)
            # Named before ordering, so that the order of terms does not hang on torch's own symbol names.
            for symbol in sorted(resolved.free_symbols, key=str):
                self._name(symbol)
            self._texts[expression] = write_expression(resolved, self.names)
        return self._texts[expression]


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
    """Rewrites detours through floats (`CeilToInt(IntTrueDiv(s0, 2))`) into integer division."""
    if not expression.args:
        return expression
    kind = type(expression).__name__
    if kind in ("FloorToInt", "TruncToInt", "CeilToInt", "floor", "ceiling"):
        inside = _as_fraction(expression.args[0])
        above, below = sympy.fraction(sympy.together(inside))
        if not below.is_Integer:
            raise InexpressibleDim(expression)
        if kind in ("CeilToInt", "ceiling"):
            above = above + below - 1
        return above if below == 1 else torch_functions.FloorDiv(sympy.expand(above), below)
    arguments = [_as_integers(a) for a in expression.args]
    if kind in ("CleanDiv", "FloorDiv", "IntTrueDiv"):
        return _divide(*arguments)
    if kind in ("PythonMod", "Mod"):
        return torch_functions.Mod(*arguments)
    if kind == "ModularIndexing":
        value, divisor, modulus = arguments
        return torch_functions.Mod(_divide(value, divisor), modulus)
    if kind == "Identity":
        return arguments[0]
    if kind in ("Min", "Max"):
        arguments = _undominated(arguments, kind == "Max")
        if len(arguments) == 1:
            return arguments[0]
    return expression.func(*arguments)


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
    exact = sympy.cancel(above / below) if not above.has(torch_functions.FloorDiv) else None
    if exact is not None and exact.is_polynomial() and sympy.Poly(exact).domain in (sympy.ZZ,):
        return exact
    return torch_functions.FloorDiv(above, below)


def _as_fraction(expression: sympy.Expr) -> sympy.Expr:
    """The exact rational function that a float expression over sizes stands for."""
    kind = type(expression).__name__
    if kind == "ToFloat":
        return _as_integers(expression.args[0])
    if kind in ("IntTrueDiv", "FloatTrueDiv"):
        above, below = (_as_fraction(a) for a in expression.args)
        return above / below
    if expression.is_Float:
        return sympy.Rational(Fraction(float(expression)))
    if expression.is_Number or expression.is_Symbol:
        return expression
    if expression.is_Add or expression.is_Mul:
        return expression.func(*[_as_fraction(a) for a in expression.args])
    return _as_integers(expression)


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
    if factor.is_Add:
        return f"({_text(factor)})"
    raise InexpressibleDim(factor)


def evaluate(size: object, sizes: dict[sympy.Symbol, int]) -> int | None:
    """The value of a size when the symbols have these sizes; None where data decides."""
    expression = symbol_of(size)
    if isinstance(expression, int):
        return expression
    value = expression.xreplace({s: sympy.Integer(n) for s, n in sizes.items()})
    return int(value) if value.is_number else None
