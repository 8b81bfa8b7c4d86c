"""make people: one row per model (recorded, compared with PyTorch on both backends, verified, emitted, built, tested)."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from zoo import emit
from zoo.check import PROGRAM
from zoo.report import Page, fact, open_axes, parameters
from zoo.runner import ROOT, Fingerprints
from zoo.sources import matches
from zoo.suite import run_suite, suite_parser

from . import THEMES, check
from .entry import Written

PAGE = Page(
    name="people",
    title="Models as people write them",
    made_by="make people",
    section="models-as-people-write-them",
    stages=check.STAGES,
    columns={
        "open axes": open_axes,
        "nodes": fact("nodes"),
        "parameters": parameters,
        **emit.SOURCE_COLUMNS,
        "cpu s": lambda row: f"{row['cpu_seconds']:.0f}",
        "commit": fact("commit"),
        "note": fact("note"),
    },
    source="theme",
)


def entries() -> list[Written]:
    found = [e for theme in THEMES for e in importlib.import_module(f".{theme}", __package__).MODELS]
    names = [entry.name for entry in found]
    assert len(names) == len(set(names)), "an entry's name is its own"
    return found


def main() -> int:
    options = _options()
    chosen = [e for e in entries() if matches(e, options.filter)]
    if not options.emit:
        options.state /= "without-source"
    own = [Path(check.__file__), Path(check.__file__).with_name("entry.py")]
    file_of = lambda e: Path(__file__).with_name(f"{e.source}.py")  # noqa: E731
    prints = Fingerprints(PROGRAM, emit.LIBRARY, Path(emit.__file__), *own, file_of=file_of)
    page = PAGE if options.emit and not options.filter else None
    return run_suite(options, chosen, lambda: _prepared(options), prints, page)


def _prepared(options: argparse.Namespace) -> check.PeopleCheck:
    source = emit.EmitCheck(options.state, with_clang=False) if options.emit else None
    if source:
        source.prepare()
    return check.PeopleCheck(source)


def _options() -> argparse.Namespace:
    parser = suite_parser("people", __doc__, ROOT / "build" / "people")
    parser.add_argument("--no-source", dest="emit", action="store_false", help="stop before the source code")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
