"""Which symbolic sizes torch turns into numbers while it traces, and on which line of the user's Python."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass

import sympy

from ..places import Place, is_torch_file, place_here
from ..torch_compat.symbolic import FILES_THAT_ASK_FOR_NUMBERS, ShapeEnv, conversions_told, replacements_told


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
    def note_replacement(target: object) -> None:
        if isinstance(target, (int, sympy.Integer)):
            found.append(Specialised(int(target), place_here()))

    def note_conversion(expression: sympy.Expr, shapes: ShapeEnv) -> None:
        if not _asked_by_torch():
            frozen.append(Frozen(expression, shapes, place_here()))

    with replacements_told(note_replacement), conversions_told(note_conversion):
        yield


def _asked_by_torch() -> bool:
    """torch asks for numbers on its way to a guard; only what Python code asks for is taken out of the graph."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename in (__file__, *FILES_THAT_ASK_FOR_NUMBERS):
        frame = frame.f_back
    return frame is None or is_torch_file(frame.f_code.co_filename)
