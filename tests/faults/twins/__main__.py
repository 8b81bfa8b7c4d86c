"""PYTHONPATH=tests python -m faults.twins: wrong models, verified against the goldens of right ones, and right ones over and
over. --smollm2 adds changes of single parameters of a real language model."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from .. import figures, smollm2
from ..clean import campaign, is_alarm
from ..running import version_of
from .findings import apart_from_the_users_cache
from .suite import all_measured, chosen_pairs

ROOT = Path(__file__).parents[3]


def measured_when() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return f"{datetime.now(UTC):%-d %B %Y} at {commit.stdout.strip()}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/tests/fault_runner")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/faults/twins")
    parser.add_argument(
        "--models", default="", help="only those whose names have one of these in them: rope,sum_"
    )
    parser.add_argument("--part", default="both", choices=["both", "wrong", "clean", "neither"])
    parser.add_argument("--smollm2", action="store_true", help="also SmolLM2-135M: downloads 98 MB")
    parser.add_argument(
        "--write", action="store_true", help="tests/faults/results.json and the table of docs/faults.md"
    )
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    apart_from_the_users_cache(options.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    findings, clean, real_model = [], [], ""
    if options.part in ("both", "wrong"):
        findings = all_measured(options.program, options.folder, options.models, options.jobs)
    if options.part in ("both", "clean"):
        kept = options.folder / f"clean_{version_of(options.program)}.jsonl"
        clean = campaign(options.program, chosen_pairs(options.folder, options.models), kept)
    if options.smollm2:
        real_model = smollm2.summary(
            *smollm2.measured(options.program, options.folder.parent / "smollm2", 60)
        )
    alarms = [run for run in clean if is_alarm(run)]
    for finding in findings:
        if not finding.is_fine:
            print(json.dumps(finding.shown()))
    for run in alarms:
        print(json.dumps(run))
    parts = figures.parts(findings, clean, alarms, real_model)
    for what, _, figure in (row for part in parts for row in part.rows):
        print(f"{what}: {figure}")
    if options.write:
        figures.write(parts, measured_when())
    missed = any(f.result in ("missed", "error") or f.is_wrong_cause for f in findings)
    return int(bool(alarms) or missed)


if __name__ == "__main__":
    sys.exit(main())
