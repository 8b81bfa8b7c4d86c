"""Emitted C++ as text: its structs, what their constructors make, and the calls in forward()."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    text: str
    start: int  # in the header
    end: int


def closing(text: str, at: int) -> int:
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "({["
        depth -= text[i] in ")}]"
        if depth == 0:
            return i + 1
    raise ValueError("a bracket that nothing closes")


def parts(header: str, start: int, end: int, separator: str = ",") -> list[Piece]:
    """What stands between separators outside of brackets; a line may end where the separator has a space."""
    found, depth, begin = [], 0, start
    separates = re.compile(re.escape(separator.rstrip()) + (r"\s" if separator[-1] == " " else ""))
    for i in range(start, end + 1):
        if i == end or (depth == 0 and separates.match(header, i)):
            piece = header[begin:i]
            left = len(piece) - len(piece.lstrip())
            found.append(Piece(piece.strip(), begin + left, begin + left + len(piece.strip())))
            begin = i + len(separator)
        if i < end:
            depth += header[i] in "({["
            depth -= header[i] in ")}]"
    return [piece for piece in found if piece.text]


def options_of(args: list[Piece]) -> dict[str, str]:
    text = next((arg.text for arg in args if arg.text.startswith("{.")), "{}")
    return dict(field.text[1:].split(" = ", 1) for field in parts(text, 1, len(text) - 1))


def option_of(args: list[Piece], name: str) -> str | None:
    return options_of(args).get(name)


def with_option(args: list[Piece], fields: list[str], name: str, value: str | None, last: bool) -> str:
    """The arguments with one option set, or without it. `last`: options come last, else before the last argument."""
    texts = [arg.text for arg in args if not arg.text.startswith("{.")]
    options = options_of(args) | {name: value}
    made = ", ".join(f".{f} = {options[f]}" for f in fields if options.get(f) is not None)
    if made:
        texts.insert(len(texts) if last else len(texts) - 1, f"{{{made}}}")
    return ", ".join(texts)


def path_text(weights: str) -> str | None:
    """ "downsample.0" of `w / "downsample.0"`; nothing when numbers are computed there."""
    if not re.fullmatch(r'w( / "[\w.]+")+', weights):
        return None
    return ".".join(re.findall(r'"([\w.]+)"', weights))


class Header:
    def __init__(self, text: str) -> None:
        self.text = text
        self.structs = {
            m[1]: (m.start(), text.index("\n};", m.end()))
            for m in re.finditer(r"^struct (\w+) : nn::Module<\w+> \{", text, re.M)
        }

    def members(self, struct: str) -> dict[str, tuple[str, str]]:
        """name → (class, path) of the struct's own modules."""
        start, end = self.structs[struct]
        classes = {}
        for line in re.finditer(r"^  nn::(\w+) ([\w, ]+);", self.text[start:end], re.M):
            classes |= dict.fromkeys(line[2].split(", "), line[1])
        paths = {}
        for name, _, args in self.constructions(struct):
            path = path_text(args[-1].text)
            if name in classes and path is not None:
                paths[name] = (classes[name], path)
        return paths

    def constructions(self, struct: str) -> Iterator[tuple[str, Piece, list[Piece]]]:
        """(member or nn:: class, the whole argument list, its arguments) of what the constructor makes."""
        start, end = self.structs[struct]
        ctor = self.text.find(": Module(w", start, end)
        stop = self.text.find("{}\n", ctor, end)
        for m in re.finditer(r"((?:nn::)?\w+)\(", self.text[ctor:stop]):
            opening = ctor + m.end() - 1
            close = closing(self.text, opening)
            args = parts(self.text, opening + 1, close - 1)
            if args and 'w / "' in args[-1].text:
                yield m[1], Piece("", opening + 1, close - 1), args

    def forward(self, struct: str) -> tuple[int, int]:
        start, end = self.structs[struct]
        at = self.text.find(" forward(", start, end)
        if at < 0:
            return end, end
        return self.text.index("{\n", closing(self.text, at + len(" forward"))), end

    def calls(self, struct: str, pattern: str) -> Iterator[tuple[re.Match, int, list[Piece]]]:
        """(name, where it begins, arguments) of calls in forward()."""
        start, end = self.forward(struct)
        for m in re.finditer(rf"(?<![\w.:]){pattern}\(", self.text[start:end]):
            opening = start + m.end() - 1
            yield m, start + m.start(), parts(self.text, opening + 1, closing(self.text, opening) - 1)


def flat(text: str) -> str:
    """Without what stands in brackets."""
    while True:
        shorter = re.sub(r"[({\[][^()\[\]{}]*[)}\]]", "", text)
        if shorter == text:
            return text
        text = shorter
