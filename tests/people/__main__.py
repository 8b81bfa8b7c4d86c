"""make people: one row per model (recorded, compared with PyTorch on both backends, verified, emitted, built, tested)."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

import torch
from zoo import emit
from zoo.check import PROGRAM
from zoo.runner import ROOT, Fingerprints, Limits, Results, remaining, run_and_keep
from zoo.sources import matches

from . import THEMES, check, report
from .entry import Written

STATE = ROOT / "build" / "people"


def entries() -> list[Written]:
    found = [e for theme in THEMES for e in importlib.import_module(f".{theme}", __package__).MODELS]
    names = [entry.name for entry in found]
    assert len(names) == len(set(names)), "an entry's name is its own"
    return found


def main() -> int:
    options = _options()
    torch.set_num_threads(1)  # models run side by side
    chosen = [e for e in entries() if matches(e, options.filter)]
    if options.list:
        print("\n".join(entry.key for entry in chosen))
        return 0
    state = options.state if options.source else options.state / "without-source"
    results = Results(state)
    own = [Path(__file__).with_name(name) for name in ("check.py", "entry.py")]
    prints = Fingerprints(PROGRAM, emit.LIBRARY, Path(emit.__file__), *own, file_of=lambda e: Path(__file__).with_name(f"{e.source}.py"))
    if not options.report:
        source = emit.EmitCheck(state, with_clang=False) if options.source else None
        if source:
            source.prepare()
        todo = chosen if options.again else remaining(chosen, results, prints, options.keep)
        limits = Limits(options.seconds, options.gigabytes)
        run_and_keep(todo, check.PeopleCheck(source), results, prints, options.jobs, limits)
    rows = [results.rows[entry.key] for entry in chosen if entry.key in results.rows]
    not_run = [entry.key for entry in chosen if entry.key not in results.rows]
    if options.source and not options.filter:
        report.write(rows, not_run, ROOT / "docs")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    count = Counter(row["status"] for row in rows)
    print(f"{count['passed']} passed, {count['failed']} failed, {len(not_run)} not run yet")
    for row in rows:
        if row["status"] == "failed":
            print(f"  {row['key']}: {row['reason']}: {' '.join(row['detail'].split())[:300]}")
    return 0 if count["passed"] == len(chosen) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="people", description=__doc__)
    parser.add_argument("--filter", action="append", help="a part of theme/name, a pattern, or =all-of-it")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=300, help="limit for each model (%(default)s)")
    parser.add_argument("--gigabytes", type=float, default=10, help="limit for each model (%(default)s)")
    parser.add_argument("--again", action="store_true", help="also what has passed with these very sources")
    parser.add_argument("--keep", action="store_true", help="let rows that passed with older sources stand")
    parser.add_argument("--no-source", dest="source", action="store_false", help="stop before the source code")
    parser.add_argument("--report", action="store_true", help="run nothing, write docs/people.md and .json")
    parser.add_argument("--state", type=Path, default=STATE, help="where rows are kept between runs")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
