"""make zoo: one row per model (recorded, imported, run, verified, compared with PyTorch at further shapes).

With --backend: those that pass on the reference, verified on another backend with each number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch

from . import on_backend, report
from .check import PROGRAM, check
from .entry import Entry
from .runner import ROOT, STATE, Fingerprints, Limits, Results, remaining, run_and_keep
from .sources import SOURCES, entries, matches


def main() -> int:
    options = _options()
    torch.set_num_threads(1)  # models run side by side
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    chosen = [e for e in entries(options.source or SOURCES) if matches(e, options.filter)]
    if options.list:
        print("\n".join(entry.key for entry in chosen))
        return 0
    if options.backend:
        return _on_backend(options, chosen)
    results, fingerprints = Results(options.state or STATE), Fingerprints(PROGRAM)
    whole = not options.filter and not options.source
    if not options.report:
        todo = chosen if options.again else remaining(chosen, results, fingerprints, options.keep)
        limits = Limits(options.seconds, options.gigabytes)
        run_and_keep(todo[: options.limit], check, results, fingerprints, options.jobs, limits)
    rows = [results.rows[entry.key] for entry in chosen if entry.key in results.rows]
    if options.report or (whole and options.limit is None):
        report.write(rows, [e.key for e in chosen if e.key not in results.rows], ROOT / "docs")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    counts = report.summary(rows)
    for source, count in counts.items():
        print(f"{source}: {dict(count)}, {100 * report.rate(count):.1f} % of what torch exports")
    for row in rows:
        if row["status"] == "failed":
            print(f"  {row['key']}: {row['reason']}: {' '.join(row['detail'].split())[:160]}")
    missing = len(chosen) - len(rows)
    if missing:
        print(f"{missing} not run yet")
    return 0 if not missing and (not rows or report.rate(counts["all"]) >= options.require) else 1


def _on_backend(options: argparse.Namespace, chosen: list[Entry]) -> int:
    """What passes on the reference must pass there; the quickest first."""
    known = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    chosen = [e for e in chosen if known.get(e.key, {}).get("status") == "passed"]
    chosen.sort(key=lambda entry: known[entry.key]["seconds"])
    state = options.state or STATE.with_name(f"zoo-{options.backend}")
    results, prints = Results(state), Fingerprints(PROGRAM, Path(on_backend.__file__))
    if not options.report:
        recordings = options.recordings or state / "recordings"
        run = on_backend.BackendCheck(options.backend, options.threads, recordings)
        todo = chosen if options.again else remaining(chosen, results, prints, options.keep)
        limits = Limits(options.seconds, options.gigabytes)
        run_and_keep(todo[: options.limit], run, results, prints, options.jobs, limits)
    rows = [results.rows[entry.key] for entry in chosen if entry.key in results.rows]
    not_run = [entry.key for entry in chosen if entry.key not in results.rows]
    if options.report or not (options.filter or options.source or options.limit):
        on_backend.write(options.backend, options.threads, rows, not_run)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    bad = [row for row in rows if row["status"] != "passed"]
    for row in bad:
        print(f"  {row['key']}: {row['reason']}: {' '.join(row['detail'].split())[:300]}")
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed, {len(not_run)} not run yet")
    return 1 if bad or not_run else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zoo", description=__doc__)
    parser.add_argument(
        "--filter",
        action="append",
        help="only models whose source/name matches: a part, a pattern with * and ?, or =all-of-it",
    )
    parser.add_argument("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (%(default)s)")
    parser.add_argument("--limit", type=int, help="at most this many models in this run")
    parser.add_argument(
        "--seconds", type=float, default=Limits.seconds, help="limit for each model (%(default)s)"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=Limits.gigabytes, help="limit for each model (%(default)s)"
    )
    parser.add_argument("--again", action="store_true", help="also what has passed with these very sources")
    parser.add_argument("--keep", action="store_true", help="let rows that passed with older sources stand")
    parser.add_argument(
        "--report", action="store_true", help="run nothing, write docs/zoo.md and docs/zoo.json"
    )
    parser.add_argument(
        "--require", type=float, default=report.REQUIRED, help="share that must pass (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--state", type=Path, help="where rows are kept between runs")
    parser.add_argument(
        "--backend", help="verify what passed on the reference on this one: docs/zoo-BACKEND.md"
    )
    parser.add_argument(
        "--threads", type=_numbers, default=[1, 2], help="with --backend: numbers of threads, such as 1,2"
    )
    parser.add_argument("--recordings", type=Path, help="with --backend: where recordings are kept")
    parser.add_argument("--list", action="store_true", help="list the models and stop")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
