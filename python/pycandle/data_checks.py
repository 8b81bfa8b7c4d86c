"""Checks of values that can only raise or warn: `if (x < 0).any(): raise …`, `assert mask.any()`.

torch.export refuses every Python branch on values. A branch that only raises decides nothing for inputs that pass, so the
recorder takes the way on which nothing is raised. Any other branch is refused as before.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import os
import sys
from functools import cache
from types import FrameType

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .places import is_own_file, relative_path

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Between a model's code and the function that answers for a tensor.
_BETWEEN = tuple(
    os.path.join(_TORCH, part)
    for part in ("overrides.py", "_export", "export", "fx", "utils/_device.py", "_tensor.py")
)
_REPORTING = {"warn", "warning", "info", "debug", "print", "warn_once", "warning_once"}
_ASSERTING = {"_assert", "_check", "_check_value", "_check_index", "_check_type"}
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Break, ast.Continue)


def asking_frame(frame: FrameType | None) -> FrameType | None:
    """The frame whose code asks for the truth of a tensor."""
    while frame is not None and (
        is_own_file(frame.f_code.co_filename) or frame.f_code.co_filename.startswith(_BETWEEN)
    ):
        frame = frame.f_back
    return frame


def passing_answer(frame: FrameType | None) -> bool | None:
    """What a tensor's truth must be at `frame` for its check to pass; None when it decides anything else."""
    if frame is None or frame.f_lasti < 0:
        return None
    code, at = frame.f_code, frame.f_lasti // 2
    instruction = dis.opname[code.co_code[frame.f_lasti]]
    places = list(code.co_positions())
    # A jump has the place of its whole statement, and `not` that of the negation; before it stands what they look at.
    is_call = "JUMP" not in instruction and instruction != "UNARY_NOT"
    return _answers(code.co_filename).get(places[at if is_call else at - 1])


def shown(frame: FrameType) -> str:
    return f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}"


@cache
def _answers(file: str) -> dict[tuple, bool]:
    """For each expression of a check that decides it: what it must be for the check to pass, by its place in the file."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[tuple, bool] = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assert):
            _add(found, statement.test, True)
        elif isinstance(statement, ast.Call) and _name(statement.func) in _ASSERTING and statement.args:
            _add(found, statement.args[0], True)
        elif isinstance(statement, ast.If):
            if _only_raises(statement.body) or (not statement.orelse and _only_reports(statement.body)):
                _add(found, statement.test, False)
            elif statement.orelse and _only_raises(statement.orelse):
                _add(found, statement.test, True)
    return found


def _add(found: dict[tuple, bool], test: ast.expr, wanted: bool) -> None:
    found[(test.lineno, test.end_lineno, test.col_offset, test.end_col_offset)] = wanted
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        _add(found, test.operand, not wanted)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            _add(found, part, wanted)
    elif isinstance(test, ast.Call) and _name(test.func) in ("bool", "any", "all") and len(test.args) == 1:
        _add(found, test.args[0], wanted)


def _only_raises(block: list[ast.stmt]) -> bool:
    leaves = any(isinstance(node, _LEAVING) for statement in block for node in ast.walk(statement))
    return isinstance(block[-1], ast.Raise) and not leaves


def _only_reports(block: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and _name(statement.value.func) in _REPORTING
        for statement in block
    )


def _name(function: ast.expr) -> str | None:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


@contextlib.contextmanager
def checks_of_numbers_pass(left_out: set[str]):
    """The same for numbers read out of tensors: `if lengths.max().item() > 512: raise …`."""
    original = torch.SymBool.__bool__

    def answer(condition: torch.SymBool) -> bool:
        try:
            return original(condition)
        except GuardOnDataDependentSymNode:
            frame = asking_frame(sys._getframe(1))
            known = passing_answer(frame)
            if known is None:
                raise
        left_out.add(shown(frame))
        torch._check(condition if known else torch.sym_not(condition))
        return known

    torch.SymBool.__bool__ = answer
    try:
        yield
    finally:
        torch.SymBool.__bool__ = original
