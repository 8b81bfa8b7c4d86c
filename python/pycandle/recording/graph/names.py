"""The variable that a node's value was assigned to, found in the user's source with `ast`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache

from ..places import Place


@cache
def _statements(file: str) -> dict[int, ast.stmt]:
    """The smallest statement on each line; of if / for / while / with only the header counts."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    lines: dict[int, ast.stmt] = {}
    for node in ast.walk(tree):  # outer statements first, so inner ones overwrite them
        if isinstance(node, ast.stmt):
            for line in range(node.lineno, _last_line(node) + 1):
                lines[line] = node
    return lines


def _last_line(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def assigned_to(place: Place | None) -> str | None:
    """The name on the left of the statement at `place`, climbing to the caller past `return`."""
    if place is None:
        return None
    for file, line in ((place.file, place.line), *place.callers):
        statement = _statements(file).get(line)
        if not isinstance(statement, ast.Return):
            return _target(statement)
    return None


def assigned_at(place: Place | None) -> str | None:
    """The name on the left of the statement at `place` itself."""
    return _target(_statements(place.file).get(place.line)) if place else None


def _target(statement: ast.stmt | None) -> str | None:
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        target = statement.target
    else:
        return None
    if isinstance(target, (ast.Tuple, ast.List)):
        return ", ".join(name for part in target.elts if (name := _simple_name(part))) or None
    return _simple_name(target)


def _simple_name(target: ast.expr) -> str | None:
    if isinstance(target, ast.Starred):
        target = target.value
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    if isinstance(target, ast.Subscript):
        return _simple_name(target.value)
    return None


@cache
def _branches(file: str) -> list[tuple[int, int, int]]:
    """(line of the `if`, first line of its body, last line) of each branch of a file."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.For)):
            for body in (node.body, node.orelse):
                if body:
                    found.append((node.lineno, body[0].lineno, body[-1].end_lineno or body[-1].lineno))
    return found


def deciding_line(file: str, line: int, other: int | None) -> int | None:
    """The line of the innermost `if` or loop that runs `line` but not `other`: where two runs parted."""
    enclosing = [
        (last - first, head)
        for head, first, last in _branches(file)
        if first <= line <= last and not (other is not None and first <= other <= last)
    ]
    return min(enclosing)[1] if enclosing else None


def attribute_assignment(owner: type, name: str) -> Place | None:
    """Where a class assigns `self.name` outside its constructor."""
    for kind in owner.__mro__:
        try:
            file = inspect.getsourcefile(kind)
            source, first = inspect.getsourcelines(kind)
        except (OSError, TypeError):
            continue
        for function in ast.walk(ast.parse(textwrap.dedent("".join(source)))):
            if isinstance(function, ast.FunctionDef) and function.name != "__init__":
                for statement in ast.walk(function):
                    if _assigns_attribute(statement, name):
                        return Place(file, first + statement.lineno - 1)
    return None


def _assigns_attribute(statement: ast.AST, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        targets = [statement.value.func]  # self.history.append(x)
    else:
        return False
    return any(
        isinstance(part, ast.Attribute) and part.attr == name
        for target in targets
        for part in ast.walk(target)
    )
