"""How emitted code reads beside its Python, in numbers: python -m zoo.reading MODEL.hpp MANIFEST prints them.

Reads the emitted text, the manifest and the Python source, never what the emitter says about itself. The Python source of a class is
its text, that of its bases in the files of the model's classes, and the functions of those files that it names.

classes   emitted classes over the Python classes that were called, torch.nn's left out of both
numbers   literals other than 0, 1 and -1 that neither that source nor the model's configuration has, per 100 lines
names     of variables, members and parameters that do not occur in that source, per 100 lines
lines     code lines over those of Python: `__init__` and the functions that forward reaches, without comments and docstrings
longest   the longest line
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import json
import re
import statistics
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_STRUCT = re.compile(r"^(?://(?P<comment>[^\n]*)\n)?struct (?P<name>\w+) : nn::Module<.*?^};$", re.M | re.S)
_PYTHON_CLASS = re.compile(r" (\w+), (\S+\.py):(\d+)")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*(?:[eE][+-]?\d+)?)(?![\w.])")
_DECLARED = re.compile(
    r"\b(?:const\s+)?(?:Tensor|State|Dim|Ints|Numbers|int64_t|double|bool|auto|std::optional<\w+>|nn::\w+(?:<[^;(){}]*?>)?|[A-Z]\w*)"
    r"(?:\s+|\s*&\s*)(?P<names>[a-z_A-Z]\w*(?:,\s*[a-z_]\w*)*)\s*(?=[;=,){:]|\s=)"
)
_BINDING = re.compile(r"auto \[(?P<names>[^\]]*)\]")
_OWN_WORDS = {
    "w",
    "c",
    "checker",
    "Output",
    "each",
    "f",
    "F",
}  # what every emitted constructor and Output has
_ALWAYS_FINE = {0.0, 1.0}


@dataclass
class Struct:
    """An emitted class; `python` is (name, file, line) of the one in its comment."""

    name: str
    text: str
    python: tuple[str, str, int] | None


@dataclass
class Reading:
    classes: float | None
    numbers: float | None
    names: float | None
    lines: float | None
    longest: int
    foreign_numbers: list[str] = field(default_factory=list)
    foreign_names: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def facts(self) -> dict:
        return {
            "read_classes": self.classes,
            "read_numbers": self.numbers,
            "read_names": self.names,
            "read_lines": self.lines,
            "read_longest": self.longest,
        }


def read(header: str, manifest: dict) -> Reading:
    calls = manifest["module_calls"]
    structs = list(_structs(header))
    modules = {name.rpartition(".")[0] for name in _called_classes(calls)}
    sources = {s.name: PythonSource(kind, modules) for s in structs if (kind := _kind(s, calls)) is not None}
    config = _config_numbers(calls)
    numbers, names, lines = [], [], 0
    python_lines: set[tuple[str, int]] = set()
    for struct in structs:
        source = sources.get(struct.name)
        if source is None:
            continue
        lines += sum(1 for _ in code_lines(struct.text))
        numbers += [f"{struct.name}: {n}" for n in _numbers(struct.text) if not source.has_number(n, config)]
        names += [f"{struct.name}: {n}" for n in sorted(_names(struct.text)) if not source.has_name(n)]
        python_lines |= source.lines()
    called = _called_classes(calls)
    emitted = [s for s in structs if not (s.python is None or s.python[1].startswith("torch/"))]
    missing = [name for name in called if not _is_emitted(name, emitted, calls, header)]
    as_front_end = len(called) - len(missing) - len({s.python[0] for s in emitted if s.python})
    return Reading(
        classes=round((len(emitted) + max(as_front_end, 0)) / len(called), 2) if called else None,
        numbers=round(100 * len(numbers) / lines, 1) if lines else None,
        names=round(100 * len(names) / lines, 1) if lines else None,
        lines=round(lines / len(python_lines), 2) if python_lines else None,
        longest=max(map(len, header.splitlines())),
        foreign_numbers=numbers,
        foreign_names=names,
        missing=missing,
    )


# ---- the emitted text -------------------------------------------------------------------------------------------


def _structs(header: str) -> Iterator[Struct]:
    for match in _STRUCT.finditer(header):
        place = _PYTHON_CLASS.match(match["comment"] or "")
        python = (place[1], place[2], int(place[3])) if place else None
        yield Struct(match["name"], match.group(), python)


def code_lines(text: str) -> Iterator[str]:
    return (line for line in _COMMENT.sub("", text).splitlines() if line.strip())


def _numbers(text: str) -> Iterator[str]:
    plain = re.sub(r"\b(?:chunk|split|unpack|get)<\d+>", "", _COMMENT.sub("", _STRINGS.sub('""', text)))
    return (n for n in _NUMBER.findall(plain) if float(n) not in _ALWAYS_FINE)


def _names(text: str) -> set[str]:
    plain = _COMMENT.sub("", _STRINGS.sub('""', text))
    plain = re.sub(
        r"\bstruct Output \{.*?^  \};$", "", plain, flags=re.M | re.S
    )  # its fields are Python's keys
    found: set[str] = set()
    for match in [*_DECLARED.finditer(plain), *_BINDING.finditer(plain)]:
        found |= {name.strip() for name in match["names"].split(",")}
    return {n for n in found if n not in _OWN_WORDS and n != "forward"}


# ---- the Python source ------------------------------------------------------------------------------------------


class PythonSource:
    """The source of one Python class. `modules`: those that the model's classes come from."""

    def __init__(self, kind: type, modules: set[str]):
        self.kind = kind
        bases = [k for k in kind.__mro__ if k.__module__ in modules] or [kind]
        self._methods: dict[str, ast.AST] = {}
        trees = [tree for k in bases if (tree := tree_of(k)) is not None]
        for tree in trees:
            for node in tree.body[0].body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._methods.setdefault(node.name, node)
        self._files = [importlib.import_module(name) for name in dict.fromkeys(k.__module__ for k in bases)]
        every = [*trees, *self._functions_named(trees)]
        self.words = {word for tree in every for word in _words(tree)}
        self.literals = {number for tree in every for number in _literals(tree)}

    def has_number(self, text: str, config: set[float]) -> bool:
        return float(text) in self.literals or float(text) in config

    def has_name(self, name: str) -> bool:
        return name in self.words or name.rstrip("_") in self.words or f"_{name}" in self.words

    def lines(self) -> set[tuple[str, int]]:
        """Code lines of `__init__` and of what forward reaches, by file and number."""
        reached: dict[str, ast.AST] = {}
        waiting = {"__init__", "forward"}
        while waiting:
            name = waiting.pop()
            if name not in self._methods or name in reached:
                continue
            reached[name] = self._methods[name]
            waiting |= {n.attr for n in ast.walk(reached[name]) if isinstance(n, ast.Attribute)}
        nodes = [*reached.values(), *self._functions_named(reached.values())]
        return {line for node in nodes for line in _lines_of_code(node)}

    def _functions_named(self, trees: Iterable[ast.AST]) -> list[ast.AST]:
        """The functions of these files that are named there, and those that these name."""
        found: dict[str, ast.AST] = {}
        seen: set[str] = set()
        waiting = {name for tree in trees for name in _words(tree)}
        while waiting:
            name = waiting.pop()
            seen.add(name)
            function = next((f for m in self._files if inspect.isfunction(f := vars(m).get(name))), None)
            if function is None or function.__module__ not in {m.__name__ for m in self._files}:
                continue
            tree = tree_of(inspect.unwrap(function))
            if tree is not None and isinstance(
                tree.body[0], (ast.FunctionDef, ast.AsyncFunctionDef)
            ):  # no lambda
                found[name] = tree
                waiting |= set(_words(tree)) - seen
        return list(found.values())


@functools.cache
def tree_of(thing: object) -> ast.AST | None:
    """Its source as a tree that knows its file, and its lines there."""
    try:
        lines, first = inspect.getsourcelines(thing)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    ast.increment_lineno(tree, max(first, 1) - 1)
    for node in ast.walk(tree):
        node.file = inspect.getsourcefile(thing)
    return tree


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr
            dotted = ast.unparse(node)
            if re.fullmatch(r"[\w.]+", dotted):
                parts = dotted.removeprefix("self.").split(".")
                yield "_".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value  # register_buffer("inv_freq", …), add_module("norm", …)


def _literals(tree: ast.AST) -> Iterator[float]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            yield float(node.value)


def _lines_of_code(tree: ast.AST) -> set[tuple[str, int]]:
    """Lines that have code on them: no comments, docstrings, decorators or blank lines."""
    node = tree.body[0] if isinstance(tree, ast.Module) else tree
    lines: set[int] = set()
    for inner in node.body:
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant):
            continue  # a docstring
        for n in ast.walk(inner):
            if hasattr(n, "lineno"):
                lines |= {n.lineno, n.end_lineno}
    lines |= set(range(node.lineno, node.body[0].lineno))  # the head
    return {(node.file, line) for line in lines}


# ---- which class is which ---------------------------------------------------------------------------------------


def _class_of(qualified: str) -> type | None:
    """The class by the name that the manifest has: "package.module.Outer.Inner"."""
    parts = qualified.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:split]))
            for part in parts[split:]:
                found = getattr(found, part)
            return found if isinstance(found, type) else None
        except (ImportError, AttributeError):
            continue
    return None


def _kind(struct: Struct, calls: list[dict]) -> type | None:
    if struct.python is None or struct.python[1].startswith("torch/"):
        return None
    for call in calls:
        if call["class"].split(".")[-1] == struct.python[0] and call["class_line"] == struct.python[2]:
            return _class_of(call["class"])
    return None


def _called_classes(calls: list[dict]) -> list[str]:
    names = dict.fromkeys(call["class"] for call in calls)
    return [name for name in names if not name.startswith("torch.")]


def _is_emitted(name: str, emitted: list[Struct], calls: list[dict], header: str) -> bool:
    """By a class of its own, or as a member of the front end's nn: nn::RMSNorm input_layernorm."""
    if any(s.python and s.python[0] == name.split(".")[-1] for s in emitted):
        return True
    members = {
        n.strip()
        for names in re.findall(r"^\s+nn::\w+(?:<[^;]*>)? ([\w, \n]+);$", header, re.M)
        for n in names.split(",")
    }
    paths = {call["path"].split(".")[-1] for call in calls if call["class"] == name}
    return bool(paths & members)


def _config_numbers(calls: list[dict]) -> set[float]:
    found: set[float] = set()
    for call in calls:
        for value in (call.get("config") or {}).values():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, (int, float)):
                    found.add(float(number))
    return found


# ---- several models ---------------------------------------------------------------------------------------------


def summed(rows: list[dict], name: str, worst: float = 0.95) -> str:
    """Median, and what 95 of 100 models are at most."""
    values = sorted(row[name] for row in rows if row.get(name) is not None)
    if not values:
        return ""
    return f"{statistics.median(values):g} / {values[min(int(worst * len(values)), len(values) - 1)]:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("header", type=Path)
    parser.add_argument("manifest", type=Path)
    options = parser.parse_args()
    found = read(options.header.read_text(), json.loads(options.manifest.read_text()))
    for name, value in vars(found).items():
        print(f"{name:16} {', '.join(value) if isinstance(value, list) else value}")


if __name__ == "__main__":
    main()
