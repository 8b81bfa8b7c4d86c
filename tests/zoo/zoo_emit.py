"""make zoo-emit: models of the zoo as C++ source, one row each (emitted, compiled, tested, equal to the recording)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import emit
from .check import PROGRAM
from .runner import ROOT, Fingerprints
from .suite import quick_entries, quick_suite_parser, run_suite

STATE = ROOT / "build" / "zoo-emit"


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, emit.LIBRARY, Path(emit.__file__))
    page = emit.PAGE if not options.filter and not options.source else None
    return run_suite(options, quick_entries(options), lambda: _prepared(options), prints, page)


def _prepared(options: argparse.Namespace) -> emit.EmitCheck:
    check = emit.EmitCheck(options.state, with_clang=not options.only_gcc)
    check.prepare()
    return check


def _options() -> argparse.Namespace:
    parser = quick_suite_parser("zoo.zoo_emit", __doc__, STATE, within=30)
    parser.add_argument("--only-gcc", action="store_true", help="leave the second compiler out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
