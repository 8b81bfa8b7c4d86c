"""python -m op_db [--op NAME…] [--dtype f32…] [--all | --limit N]: see docs/testing-operators.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from .modules import modules
from .report import markdown, printed
from .running import Outcome
from .samples import DTYPES, dtypes_of, entries
from .workers import Task, run_tasks

PARTS = ("values", "errors", "modules")


def chosen_tasks(
    patterns: list[str], dtypes: list[str], parts: list[str], limit: int | None, turn: int, backend: str
) -> list[Task]:
    def wanted(name: str) -> bool:
        return not patterns or any(fnmatch(name, pattern) for pattern in patterns)

    tasks = []
    for name, op in entries().items():
        if not wanted(name):
            continue
        if "values" in parts:
            listed = [dtype for dtype in dtypes_of(op) if not dtypes or dtype in dtypes]
            tasks += [Task("values", name, dtype, limit, turn, backend) for dtype in listed]
        if "errors" in parts and op.error_inputs_func is not None and not dtypes:
            tasks.append(Task("errors", name, "", limit, turn, backend))
    if "modules" in parts and not dtypes:
        tasks += [Task("modules", name, "f32", limit, turn, backend) for name in modules() if wanted(name)]
    return tasks


def read_outcomes(path: Path) -> list[Outcome]:
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def main() -> int:
    options = argparse.ArgumentParser(prog="op_db", description=__doc__)
    options.add_argument("--op", nargs="+", default=[], help="entries by name; * matches anything")
    options.add_argument("--dtype", nargs="+", default=[], choices=list(DTYPES))
    options.add_argument("--part", nargs="+", default=list(PARTS), choices=PARTS)
    options.add_argument("--all", action="store_true", help="every sample")
    options.add_argument(
        "--limit", type=int, default=4, help="samples of an entry at one dtype, without --all"
    )
    options.add_argument("--turn", type=int, default=0, help="which samples, without --all")
    options.add_argument("--backend", default="reference")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--json", type=Path, help="a line for every outcome; what stands there already is not run again"
    )
    options.add_argument("--markdown", type=Path, help="writes a dated table there")
    options.add_argument("--quiet", action="store_true", help="no list of failures")
    given = options.parse_args()

    limit = None if given.all else given.limit
    tasks = chosen_tasks(given.op, given.dtype, given.part, limit, given.turn, given.backend)
    outcomes = read_outcomes(given.json) if given.json and given.json.exists() else []
    known = {(outcome.part, outcome.entry, outcome.dtype) for outcome in outcomes}
    tasks = [task for task in tasks if (task.part, task.entry, task.dtype) not in known]
    started, seen = time.monotonic(), 0

    def report(outcome: Outcome) -> None:
        nonlocal seen
        seen += 1
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps(outcome.as_dict()) + "\n")
        if seen % 100 == 0:
            print(f"{seen} of {len(tasks)}  {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    outcomes += run_tasks(tasks, given.jobs, report) if tasks else []
    if given.markdown:
        given.markdown.write_text(markdown(outcomes, given.backend, limit, time.monotonic() - started))
    print(printed(outcomes, listing=not given.quiet))
    return 1 if any(outcome.failed for outcome in outcomes if outcome.touches) else 0


if __name__ == "__main__":
    sys.exit(main())
