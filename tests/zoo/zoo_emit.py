"""make zoo-emit: models of the zoo as C++ source, one row each (emitted, compiled, tested, equal to the recording)."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import emit
from .check import PROGRAM
from .entry import Entry
from .runner import ROOT, Fingerprints
from .sources import SOURCES, entries, matches
from .suite import run_suite, suite_parser

STATE = ROOT / "build" / "zoo-emit"


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, emit.LIBRARY, Path(emit.__file__))
    page = emit.PAGE if not options.filter and not options.source else None
    return run_suite(options, _chosen(options), lambda: _prepared(options), prints, page)


def _prepared(options: argparse.Namespace) -> emit.EmitCheck:
    check = emit.EmitCheck(options.state, with_clang=not options.only_gcc)
    check.prepare()
    return check


def _chosen(options: argparse.Namespace) -> list[Entry]:
    """What verifies, by the zoo's own table, and did so in the given time; the quickest first."""
    rows = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    quick = {
        k: r["seconds"] for k, r in rows.items() if r["status"] == "passed" and r["seconds"] <= options.within
    }
    found = [e for e in entries(options.source or SOURCES) if e.key in quick and matches(e, options.filter)]
    return sorted(found, key=lambda entry: quick[entry.key])


def _options() -> argparse.Namespace:
    parser = suite_parser("zoo.zoo_emit", __doc__, STATE)
    add = parser.add_argument
    add("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    add("--within", type=float, default=30, help="what took the zoo at most this many seconds (%(default)s)")
    add("--only-gcc", action="store_true", help="leave the second compiler out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
