"""A result of `pycandle verify --out F`, read while it is written."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

# From what needs a person to what needs nobody, as `pycandle verify` names them, with the marks of web/src/document.ts.
WRONG = "wrong here"
_LOOKS = {
    WRONG: ("✗", "bold red"),
    "wrong upstream": ("↑", "yellow"),
    "no evidence": ("○", "yellow"),
    "reference unstable": ("?", "yellow"),
    "accumulated rounding": ("~", "green"),
    "within tolerance": ("✓", "green"),
    "within rounding": ("✓", "green"),
    "exact": ("✓", "green"),
}
VERDICTS = tuple(_LOOKS)


def mark(verdict: str) -> str:
    return _LOOKS.get(verdict, ("·", ""))[0]


def style(verdict: str) -> str:
    return _LOOKS.get(verdict, ("·", ""))[1]


# What is shown of a layer. The file is from outside: a field of another kind is left out.
_TEXTS = (
    "tap",
    "verdict",
    "op",
    "python",
    "source",
    "cpp",
    "cpp_source",
    "dtype",
    "input",
    "why",
    "decisions",
)
_NUMBERS = ("shape", "largest_difference", "ulps")
_OBJECTS = ("diagnosis", "cumulative", "errors", "picture")


def _known(layer: dict) -> dict:
    def fits(key: str, value: object) -> bool:
        if key in _TEXTS:
            return isinstance(value, str)
        if key in _NUMBERS:
            return isinstance(value, list) and all(isinstance(number, int) for number in value)
        return isinstance(value, dict) if key in _OBJECTS else True

    return {key: value for key, value in layer.items() if fits(key, value)}


@dataclass
class Layer:
    facts: dict

    @property
    def tap(self) -> str:
        return str(self.facts.get("tap", ""))

    @property
    def verdict(self) -> str:
        return str(self.facts.get("verdict", ""))

    @property
    def is_wrong(self) -> bool:
        return self.verdict == WRONG

    @property
    def modules(self) -> list[str]:
        """The modules from the root to the layer's own: "blocks.0.norm@0" is in blocks, 0, norm."""
        return [part for part in self.tap.partition("@")[0].split(".") if part]

    def number(self, key: str) -> float:
        value = self.facts.get(key)
        if isinstance(value, str):  # "inf" and "nan" are texts
            return float(value) if value in ("inf", "-inf", "nan") else 0.0
        return float(value) if isinstance(value, int | float) else 0.0

    @property
    def floors(self) -> float:
        """The error in rounding floors: up to 4 are allowed."""
        error, floor = self.number("error_rms"), self.number("floor_rms")
        return error / floor if floor > 0 else (float("inf") if error > 0 else 0.0)

    def matches(self, text: str) -> bool:
        where = (self.tap, self.facts.get("op"), self.facts.get("python"), self.verdict)
        return all(word in " ".join(map(str, where)).lower() for word in text.lower().split())


@dataclass
class Result:
    header: dict = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    skipped: list[dict] = field(default_factory=list)
    outputs: list[dict] = field(default_factory=list)
    complete: dict | None = None
    bad_lines: int = 0
    began: tuple[float, int] | None = None  # when it was first read, and how many layers it had

    @property
    def planned(self) -> int:
        planned = self.header.get("planned")
        return planned if isinstance(planned, int) else 0

    def seconds_left(self) -> float | None:
        """By the pace since the file was first read; None when that says nothing."""
        if self.complete or not self.began or not self.planned:
            return None
        since, before = self.began
        done = len(self.layers) - before
        elapsed = time.monotonic() - since
        if done <= 0 or elapsed < 1:
            return None
        return elapsed / done * max(self.planned - len(self.layers), 0)

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys(VERDICTS, 0)
        for layer in self.layers:
            found[layer.verdict] = found.get(layer.verdict, 0) + 1
        return {verdict: count for verdict, count in found.items() if count}

    def first_wrong(self) -> Layer | None:
        return next((layer for layer in self.layers if layer.is_wrong), None)

    def take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            self.bad_lines += 1
        elif "result" in entry:
            self.header = entry
        elif isinstance(entry.get("layer"), dict):
            self.layers.append(Layer(_known(entry["layer"])))
        elif isinstance(entry.get("skipped"), dict):
            self.skipped.append(entry["skipped"])
        elif isinstance(entry.get("output"), dict):
            self.outputs.append(entry["output"])
        elif isinstance(entry.get("complete"), dict):
            self.complete = entry["complete"]
        else:
            self.bad_lines += 1


class Follower:
    """Reads F.partial while it grows, and F once it is there. A file that became another one is read from its start."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.result = Result()
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._rest = b""

    @property
    def partial(self) -> Path:
        return self.path.with_name(self.path.name + ".partial")

    def poll(self) -> bool:
        """Reads what is new; whether anything is."""
        for path in (self.partial, self.path):  # a run that goes on is newer than a result that is there
            try:
                with path.open("rb") as file:
                    return self._read(file)
            except FileNotFoundError:
                continue
        return False

    def _read(self, file) -> bool:
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)  # renaming keeps it
        fresh = identity != self._identity or status.st_size < self._offset
        if fresh:
            self.result, self._identity, self._offset, self._rest = Result(), identity, 0, b""
        file.seek(self._offset)
        read = file.read()
        self._offset += len(read)
        *lines, self._rest = (self._rest + read).split(b"\n")
        for line in lines:
            self.result.take(line)
        if self.result.began is None and self.result.header:
            self.result.began = (time.monotonic(), len(self.result.layers))
        return fresh or bool(lines)
