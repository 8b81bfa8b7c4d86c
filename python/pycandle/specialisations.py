"""Which symbolic sizes torch turns into numbers while it traces, and on which line of the user's Python."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .places import Place, place_here


@dataclass
class Specialised:
    """A symbolic size that torch replaced by a number, and the line that made it do so."""

    size: int
    place: Place | None


@contextlib.contextmanager
def specialisations_into(found: list[Specialised]):
    original = ShapeEnv._set_replacement

    def set_replacement(self, symbol, target, message):
        if isinstance(target, (int, sympy.Integer)):
            found.append(Specialised(int(target), place_here()))
        return original(self, symbol, target, message)

    ShapeEnv._set_replacement = set_replacement
    try:
        yield
    finally:
        ShapeEnv._set_replacement = original
