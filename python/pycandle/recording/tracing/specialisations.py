"""Which symbolic sizes torch turns into numbers while it traces, and on which line of the user's Python."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

import sympy
from torch.fx.experimental import sym_node
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..places import Place, is_torch_file, place_here


@dataclass
class Specialised:
    """A symbolic size that torch replaced by a number, and the line that made it do so."""

    size: int
    place: Place | None


@dataclass
class Frozen:
    """A number that Python took out of an expression over sizes: `int(n * 0.3)`, `range(n // 2)`."""

    expression: sympy.Expr
    shapes: ShapeEnv
    place: Place | None

    def symbols(self) -> set[sympy.Symbol]:
        return self.shapes.replace(self.expression).free_symbols


@contextlib.contextmanager
def specialisations_into(found: list[Specialised], frozen: list[Frozen]):
    replace, conversions = ShapeEnv._set_replacement, {}

    def set_replacement(self, symbol, target, message):
        if isinstance(target, (int, sympy.Integer)):
            found.append(Specialised(int(target), place_here()))
        return replace(self, symbol, target, message)

    def noting(original):
        def guard(self, file, line):
            expression = self.expr
            if isinstance(expression, sympy.Basic) and expression.free_symbols and not _asked_by_torch():
                frozen.append(Frozen(expression, self.shape_env, place_here()))
            return original(self, file, line)

        return guard

    ShapeEnv._set_replacement = set_replacement
    for name in ("guard_int", "guard_float"):
        conversions[name] = getattr(SymNode, name)
        setattr(SymNode, name, noting(conversions[name]))
    try:
        yield
    finally:
        ShapeEnv._set_replacement = replace
        for name, original in conversions.items():
            setattr(SymNode, name, original)


def _asked_by_torch() -> bool:
    """torch asks for numbers on its way to a guard; only what Python code asks for is taken out of the graph."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename in (__file__, sym_node.__file__, sys.modules["torch"].__file__):
        frame = frame.f_back
    return frame is None or is_torch_file(frame.f_code.co_filename)
