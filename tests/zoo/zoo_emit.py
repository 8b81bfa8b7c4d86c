"""make zoo-emit: models of the zoo as C++ source, one row each (emitted, compiled, tested, equal to the recording)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

import torch

from . import emit, emit_report
from .check import PROGRAM
from .entry import Entry
from .runner import ROOT, Fingerprints, Limits, Results, remaining, run_and_keep
from .sources import SOURCES, entries, matches

STATE = ROOT / "build" / "zoo-emit"


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    chosen = _chosen(options)
    if options.list:
        print("\n".join(entry.key for entry in chosen))
        return 0
    results = Results(options.state)
    prints = Fingerprints(PROGRAM, emit.LIBRARY, Path(emit.__file__))
    if not options.report:
        check = emit.EmitCheck(options.state, with_clang=not options.only_gcc)
        check.prepare()
        todo = chosen if options.again else remaining(chosen, results, prints, options.keep)
        limits = Limits(options.seconds, options.gigabytes)
        run_and_keep(todo[: options.limit], check, results, prints, options.jobs, limits)
    rows = [results.rows[entry.key] for entry in chosen if entry.key in results.rows]
    if options.report or (not options.filter and not options.source and options.limit is None):
        emit_report.write(rows, ROOT / "docs")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    count = Counter(row["status"] for row in rows)
    print(f"{count['passed']} passed, {count['failed']} failed, {len(chosen) - len(rows)} not run yet")
    for row in rows:
        if row["status"] == "failed":
            print(f"  {row['key']}: {row['reason']}: {' '.join(row['detail'].split())[:200]}")
    return 0 if count["passed"] == len(chosen) else 1


def _chosen(options: argparse.Namespace) -> list[Entry]:
    """What verifies, by the zoo's own table, and did so in the given time; the quickest first."""
    rows = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    quick = {
        k: r["seconds"] for k, r in rows.items() if r["status"] == "passed" and r["seconds"] <= options.within
    }
    found = [e for e in entries(options.source or SOURCES) if e.key in quick and matches(e, options.filter)]
    return sorted(found, key=lambda entry: quick[entry.key])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zoo.zoo_emit", description=__doc__)
    parser.add_argument("--filter", action="append", help="a part of source/name, a pattern, or =all-of-it")
    parser.add_argument("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    parser.add_argument(
        "--within",
        type=float,
        default=30,
        help="models the zoo took at most this many seconds for (%(default)s)",
    )
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (%(default)s)")
    parser.add_argument("--limit", type=int, help="at most this many models in this run")
    parser.add_argument("--seconds", type=float, default=300, help="limit for each model (%(default)s)")
    parser.add_argument("--gigabytes", type=float, default=10, help="limit for each model (%(default)s)")
    parser.add_argument("--again", action="store_true", help="also what has passed with these very sources")
    parser.add_argument("--keep", action="store_true", help="let rows that passed with older sources stand")
    parser.add_argument("--report", action="store_true", help="run nothing, write docs/zoo-emit.md and .json")
    parser.add_argument("--state", type=Path, default=STATE, help="where rows and recordings are kept")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--only-gcc", action="store_true", help="leave the second compiler out")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
