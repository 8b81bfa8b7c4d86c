"""A few models for `make test`, other ones at each commit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    """The hash of the commit that is tested: samples change with it, and a run can be repeated. Sources without git have one sample."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return head.stdout.strip() or "0" * 40


def sample(table: str, most: int, seconds: float, without: str = "", cost: str = "seconds") -> list[str]:
    """Keys of models that passed when the table was made, quick ones (`cost` is their column), of all sources but `without`."""
    rows = [r for r in json.loads((ROOT / "docs" / table).read_text()) if r["status"] == "passed"]
    random.Random(os.environ.get("PYCANDLE_ZOO_SEED", f"{commit()}{most}")).shuffle(rows)
    chosen, spent = [], 0.0
    for row in rows:
        if row["source"] != without and spent + row[cost] <= seconds:
            chosen.append(row["key"])
            spent += row[cost]
    return chosen[:most]


def run_chosen(module: str, chosen: list[str], state: Path, *flags: str) -> None:
    """Runs these models as `make` does and fails with what was printed."""
    filters = [word for key in chosen for word in ("--filter", f"={key}")]
    command = [sys.executable, "-m", module, "--jobs", "1", "--state", str(state), *flags, *filters]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{chosen}\n{run.stdout}\n{run.stderr[-3000:]}"
