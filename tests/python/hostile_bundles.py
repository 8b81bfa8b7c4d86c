"""Bundles that are damaged or made to do harm: each is a function that changes the files of a good one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pycandle import _core

HEAD, TABLE = "bundle.json", "weights.json"
SECTIONS = ("program.ptir", "setup.ptir", "step.ptir", "weights.json", "tokenizer.json", "tokenizer.bin")


def hash_of(data: bytes) -> str:
    return _core.content_hash(np.frombuffer(data, np.uint8))


def seal(folder: Path) -> None:
    """Hashes and sizes that are right for what the files hold now: what somebody writes who means harm."""
    head = json.loads((folder / HEAD).read_text())
    for name, section in head["contents"]["sections"].items():
        data = (folder / name).read_bytes()
        section["bytes"] = len(data)
        if "hash" in section:
            section["hash"] = hash_of(data)
    write_head(folder, head)


def write_head(folder: Path, head: dict) -> None:
    compact = json.dumps(head["contents"], separators=(",", ":"), ensure_ascii=False).encode()
    head["hash"] = hash_of(compact)
    (folder / HEAD).write_text(json.dumps(head, ensure_ascii=False))


def contents(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        head = json.loads((folder / HEAD).read_text())
        change(head["contents"])
        write_head(folder, head)

    return apply


def table(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        weights = json.loads((folder / TABLE).read_text())
        change(weights)
        (folder / TABLE).write_text(json.dumps(weights))
        seal(folder)

    return apply


def text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        before = (folder / name).read_text()
        assert old in before, f"{name} has no {old!r}"
        (folder / name).write_text(before.replace(old, new, 1))
        seal(folder)

    return apply


def data(name: str, change: Callable[[bytes], bytes], sealed: bool = True) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))
        if sealed:
            seal(folder)

    return apply


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def flipped(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]


def first(weights: dict) -> dict:
    return next(iter(weights.values()))


def last_two_overlap(weights: dict) -> None:
    a, b = list(weights.values())[-2:]
    b["offset"] = a["offset"]


def deep(folder: Path) -> None:
    (folder / HEAD).write_text("[" * 100_000)


def head_text(new: str) -> Callable[[Path], None]:
    return lambda folder: (folder / HEAD).write_text(new) and None


def head(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        document = json.loads((folder / HEAD).read_text())
        change(document)
        (folder / HEAD).write_text(json.dumps(document))

    return apply


def token_count(raw: bytes) -> bytes:
    """The number of settings bytes says more than there are."""
    return raw[:8] + struct.pack("<Q", 1 << 62) + raw[16:]


def ones_in_the_middle(raw: bytes) -> bytes:
    middle = len(raw) // 2
    return raw[:middle] + b"\xff" * 1024 + raw[middle + 1024 :]


HOSTILE: dict[str, Callable[[Path], None]] = {
    # a bit flipped on the way
    **{f"a bit of {name}": data(name, flipped, sealed=False) for name in SECTIONS},
    "a bit of the head": data(HEAD, flipped, sealed=False),
    # files that are gone, cut off, or too many
    **{f"no {name}": without(name) for name in (*SECTIONS, "weights.bin")},
    "weights cut off": data("weights.bin", lambda raw: raw[: len(raw) // 2], sealed=False),
    "weights cut off and sealed": data("weights.bin", lambda raw: raw[: len(raw) // 2]),
    "a program of somebody else": data("program.ptir", lambda raw: b"program other {}\n"),
    "an empty program": data("program.ptir", lambda raw: b""),
    "a generation config that nobody named": lambda folder: (
        (folder / "generation_config.json").write_text("{}") and None
    ),
    # the head
    "an empty head": head_text(""),
    "a head that is no JSON": head_text("{"),
    "a head that is a list": head_text("[]"),
    "a deep head": deep,
    "another format": head(lambda h: h.update(format="other")),
    "a later version": head(lambda h: h.update(version="2.0.0")),
    "a head without contents": head(lambda h: h.pop("contents")),
    "sections that lead out of the folder": contents(
        lambda c: c["sections"].update({"../x": {"bytes": 0, "hash": ""}})
    ),
    "no section for the program": contents(lambda c: c["sections"].pop("program.ptir")),
    "a negative size": contents(lambda c: c["sections"]["program.ptir"].update(bytes=-1)),
    "an unknown format of weights": contents(lambda c: c.update(weights="int3")),
    "capabilities that are numbers": contents(lambda c: c.update(capabilities=[1])),
    "no facts of the recording": contents(lambda c: c.pop("recording")),
    # the table of weights, with right hashes
    "a tensor beyond the file": table(lambda t: first(t).update(offset=1 << 40)),
    "a tensor that is not aligned": table(lambda t: first(t).update(offset=first(t)["offset"] + 4)),
    "an offset below zero": table(lambda t: first(t).update(offset=-64)),
    "tensors that overlap": table(last_two_overlap),
    "a shape that is too large": table(lambda t: first(t).update(shape=[1 << 40, 1 << 40])),
    "a shape below zero": table(lambda t: first(t).update(shape=[-1, 4])),
    "another size than the shape": table(lambda t: first(t).update(bytes=4)),
    "an unknown dtype": table(lambda t: first(t).update(dtype="f33")),
    "an unknown format": table(lambda t: first(t).update(format="zip")),
    "an axis that is none": table(lambda t: first(t).update(axis=7)),
    "a parameter that is missing": table(lambda t: t.pop(next(iter(t)))),
    "a table that is a list": data(TABLE, lambda raw: b"[]"),
    # the decode step, with right hashes
    "another number of states": contents(lambda c: c["decode"]["states"].pop()),
    "states in another order": contents(lambda c: c["decode"]["states"].reverse()),
    "a state along another axis": contents(
        lambda c: next(s for s in c["decode"]["states"] if s["kind"] == "rows").update(axis=1)
    ),
    "a state of an unknown kind": contents(lambda c: c["decode"]["states"][0].update(kind="all")),
    "a batch that no input has": contents(lambda c: c["decode"].update(batch="nobody")),
    "no positions at all": contents(lambda c: c["decode"].update(longest=0)),
    "a step that is no program": data("step.ptir", lambda raw: raw[: len(raw) // 2]),
    # the tokenizer, with right hashes
    "a tokenizer cut off": data("tokenizer.bin", lambda raw: raw[: len(raw) // 2]),
    "a tokenizer with a huge count": data("tokenizer.bin", token_count),
    "a tokenizer of noise": data("tokenizer.bin", lambda raw: b"PCTOKEN1" + bytes(range(256)) * 8),
    "a tokenizer with ones in its tables": data("tokenizer.bin", ones_in_the_middle),
}


def hostile_files(good: bytes) -> dict[str, bytes]:
    """The same as one file."""
    end = struct.unpack("<QQQQ8s", good[-40:])
    return {
        "the first bytes alone": good[:64],
        "no end": good[:-8],
        "half of it": good[: len(good) // 2],
        "no magic at the end": good[:-1] + b"X",
        "a table beyond the file": good[:-40] + struct.pack("<QQQQ", 1 << 60, *end[1:4]) + good[-8:],
        "a table that is too long": good[:-40] + struct.pack("<QQQQ", end[0], 1 << 60, *end[2:4]) + good[-8:],
        "a table with another hash": good[:-24] + bytes([good[-24] ^ 1]) + good[-23:],
        "a bit of the table": good[: end[0] + 5] + bytes([good[end[0] + 5] ^ 1]) + good[end[0] + 6 :],
        "more behind the end": good + b"\0",
    }
