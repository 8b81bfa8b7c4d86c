"""Checks of values that can only raise or warn: `if (x < 0).any(): raise …`, `assert mask.any()`.

torch.export refuses every Python branch on values. A branch that only raises decides nothing for inputs that pass, so the
recorder takes the way on which nothing is raised. Any other branch is refused as before, and so is a check whose exception
the model catches itself: `try: … except ValueError`, `with suppress(…)`.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import os
import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType

import torch

from ..places import is_own_file, relative_path
from ..torch_compat.symbolic import GuardOnDataDependentSymNode

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
# Between a model's code and the function that answers for a tensor.
_BETWEEN = tuple(
    os.path.join(_TORCH, part)
    for part in ("__init__.py", "overrides.py", "_export", "export", "fx", "utils/_device.py", "_tensor.py")
)
_EXPORTING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exporting.py")
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
    answer, raises = _answers(code.co_filename).get(places[at if is_call else at - 1], (None, False))
    return None if raises and is_caught(frame.f_back) else answer


def is_caught(frame: FrameType | None) -> bool:
    """Whether the model goes on after an exception that leaves a call in `frame`."""
    while frame is not None and frame.f_code.co_filename != _EXPORTING:
        file = frame.f_code.co_filename
        if not is_own_file(file) and not file.startswith(_TORCH) and frame.f_lineno in _caught_lines(file):
            return True
        frame = frame.f_back
    return False


def is_of_torch(frame: FrameType | None) -> bool:
    return frame is None or frame.f_code.co_filename.startswith(_TORCH)


def shown(frame: FrameType) -> str:
    return f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}"


@cache
def _answers(file: str) -> dict[tuple, tuple[bool, bool]]:
    """For each expression of a check that decides it: what it must be for the check to pass, by its place in the file;
    and whether the check raises otherwise."""
    tree = _parsed(file)
    found: dict[tuple, tuple[bool, bool]] = {}
    asserting = _torch_checks(tree)
    for statement, is_caught_here in _with_catching(tree, False):
        if isinstance(statement, ast.If) and not statement.orelse and _only_reports(statement.body):
            _add(found, statement.test, False, raises=False)
        elif is_caught_here:
            continue
        elif isinstance(statement, ast.Assert):
            _add(found, statement.test, True)
        elif isinstance(statement, ast.Call) and ast.unparse(statement.func) in asserting and statement.args:
            found[_place(statement)] = True, True  # torch._assert itself takes tensors
            _add(found, statement.args[0], True)
        elif isinstance(statement, ast.If) and _only_raises(statement.body):
            _add(found, statement.test, False)
        elif isinstance(statement, ast.If) and statement.orelse and _only_raises(statement.orelse):
            _add(found, statement.test, True)
    return found


@cache
def _caught_lines(file: str) -> set[int]:
    """Lines of the file at which an exception does not leave the function."""
    lines: set[int] = set()
    for node, is_caught_here in _with_catching(_parsed(file), False):
        if is_caught_here and isinstance(node, ast.expr):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def _parsed(file: str) -> ast.Module:
    try:
        with open(file, "rb") as source:
            return ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _torch_checks(tree: ast.Module) -> set[str]:
    """How the file spells torch's own functions that raise; a model may have a `_check` of its own, which does anything."""
    spelled = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.asname or "torch" for alias in node.names if alias.name.split(".")[0] == "torch"]
            spelled |= {f"{name}.{check}" for name in names for check in _ASSERTING}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            spelled |= {alias.asname or alias.name for alias in node.names if alias.name in _ASSERTING}
    return spelled


def _with_catching(node: ast.AST, is_caught_here: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether the function around it goes on after an exception there."""
    yield node, is_caught_here
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        is_caught_here = False  # it runs elsewhere
    catching = _catching_parts(node)
    for part, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _with_catching(child, is_caught_here or part in catching)


def _catching_parts(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        return ("body",) if any(_name(call.func) == "suppress" for call in calls) else ()
    if not isinstance(node, (ast.Try, ast.TryStar)):
        return ()
    if any(isinstance(inner, _LEAVING) for statement in node.finalbody for inner in ast.walk(statement)):
        return "body", "handlers", "orelse"  # `finally: return` drops what was raised
    return ("body",) if not all(_only_raises(handler.body) for handler in node.handlers) else ()


def _place(node: ast.expr) -> tuple:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _add(found: dict[tuple, tuple[bool, bool]], test: ast.expr, wanted: bool, raises: bool = True) -> None:
    found[_place(test)] = wanted, raises
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        _add(found, test.operand, not wanted, raises)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            _add(found, part, wanted, raises)
    elif isinstance(test, ast.Call) and _name(test.func) in ("bool", "any", "all") and len(test.args) == 1:
        _add(found, test.args[0], wanted, raises)


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
def checks_of_numbers_pass(left_out: set[str], refused: list[Exception]):
    """The same for numbers read out of tensors: `if lengths.max().item() > 512: raise …`."""
    original = torch.SymBool.__bool__

    def answer(condition: torch.SymBool) -> bool:
        try:
            return original(condition)
        except GuardOnDataDependentSymNode as error:
            frame = asking_frame(sys._getframe(1))
            known = passing_answer(frame)
            if known is None:
                if not is_of_torch(frame):
                    refused.append(error)
                raise
        left_out.add(shown(frame))
        torch._check(condition if known else torch.sym_not(condition))
        return known

    torch.SymBool.__bool__ = answer
    try:
        yield
    finally:
        torch.SymBool.__bool__ = original
