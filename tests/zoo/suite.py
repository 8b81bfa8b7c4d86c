"""What `make zoo`, `make zoo-emit` and `make people` do alike: options, running what is left, saying what came out."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from .entry import Entry
from .report import Page
from .runner import ROOT, Check, Fingerprints, Limits, Results, remaining, run_and_keep
from .sources import SOURCES, entries, matches


def suite_parser(program: str, description: str, state: Path | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=description)
    add = parser.add_argument
    add("--filter", action="append", help="a part of source/name, a pattern, or =all-of-it; repeatable")
    add("--jobs", type=int, default=2, help="models at a time (%(default)s)")
    add("--limit", type=int, help="at most this many models in this run")
    add("--seconds", type=float, default=Limits.seconds, help="limit for each model (%(default)s)")
    add("--gigabytes", type=float, default=Limits.gigabytes, help="limit for each model (%(default)s)")
    add("--again", action="store_true", help="also what has passed with these very sources")
    add("--keep", action="store_true", help="let rows that passed with older sources stand")
    add("--report", action="store_true", help="run nothing, write the page and its .json from what is there")
    add("--state", type=Path, default=state, help="where rows are kept between runs")
    add("--json", type=Path, help="write the rows to this file")
    add("--list", action="store_true", help="list the models and stop")
    return parser


def quick_suite_parser(program: str, description: str, state: Path, within: float) -> argparse.ArgumentParser:
    """Of a suite that takes what verifies: `quick_entries` chooses."""
    parser = suite_parser(program, description, state)
    add = parser.add_argument
    add("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    help_text = "what took the zoo at most this many seconds (%(default)s)"
    add("--within", type=float, default=within, help=help_text)
    return parser


def quick_entries(options: argparse.Namespace) -> list[Entry]:
    """What verifies, by the zoo's own table, and did so in the given time; the quickest first."""
    rows = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    quick = {
        k: r["seconds"] for k, r in rows.items() if r["status"] == "passed" and r["seconds"] <= options.within
    }
    found = [e for e in entries(options.source or SOURCES) if e.key in quick and matches(e, options.filter)]
    return sorted(found, key=lambda entry: quick[entry.key])


def rate(count: Counter) -> float:
    """The share of what torch.export exports that passed."""
    exported = count["passed"] + count["failed"]
    return count["passed"] / exported if exported else 1.0


def run_suite(
    options: argparse.Namespace,
    chosen: list[Entry],
    check: Callable[[], Check],
    prints: Fingerprints,
    page: Page | None,
    required: float = 1.0,
) -> int:
    """Runs what is left, writes the page (None: these are not all models) and returns the exit status."""
    if options.list:
        print("\n".join(entry.key for entry in chosen))
        return 0
    torch.set_num_threads(1)  # models run side by side
    results = Results(options.state)
    if not options.report:
        todo = chosen if options.again else remaining(chosen, results, prints, options.keep)
        limits = Limits(options.seconds, options.gigabytes)
        run_and_keep(todo[: options.limit], check(), results, prints, options.jobs, limits)
    rows = [results.rows[entry.key] for entry in chosen if entry.key in results.rows]
    not_run = [entry.key for entry in chosen if entry.key not in results.rows]
    if page and options.limit is None:
        page.write(rows, not_run)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    count = Counter(passed=0, failed=0)
    count.update(row["status"] for row in rows)
    for row in rows:
        if row["status"] == "failed":
            print(f"  {row['key']}: {row['reason']}: {' '.join(row['detail'].split())[:300]}")
    print(", ".join(f"{n} {status}" for status, n in count.items()) + f", {len(not_run)} not run yet")
    return 0 if not not_run and rate(count) >= required else 1
