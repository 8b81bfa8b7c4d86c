"""The rows of make people as tables: docs/people.md for people, docs/people.json for programs."""

from __future__ import annotations

import datetime
import json
import platform
from collections import Counter
from pathlib import Path

from zoo.report import cell, readable_count, summary, without_paths

from .check import STAGES

_HEADS = ("model", "result", *STAGES, "open axes", "nodes", "parameters", "Python lines", "C++ lines", "cpu s", "commit", "note")


def markdown(rows: list[dict], not_run: list[str]) -> str:
    commits = Counter(row["commit"] for row in rows)
    lines = [
        "# Models as people write them",
        "",
        f"Made by `make people` on {datetime.date.today().isoformat()}, Python {platform.python_version()}, "
        f"{platform.machine()}. How to run it and what a row means: [testing-models.md](testing-models.md#models-as-people-write-them).",
        "Rows by commit: " + ", ".join(f"{name} ({count})" for name, count in commits.most_common()) + ".",
        "",
        "| theme | models | passed | failed |",
        "|---|---:|---:|---:|",
    ]
    for theme, count in summary(rows).items():
        lines.append(f"| {theme} | {count.total()} | {count['passed']} | {count['failed']} |")
    if not_run:
        lines += ["", f"Not run yet ({len(not_run)}): {', '.join(not_run)}."]
    failed = [row for row in rows if row["status"] == "failed"]
    lines += ["", "## Failed", ""]
    lines += ["| model | at | reason | in full |", "|---|---|---|---|"] if failed else ["None."]
    lines += [f"| {r['key']} | {r.get('stage') or ''} | {r['reason']} | {cell(r['detail'])} |" for r in failed]
    lines += ["", "## All", "", f"| {' | '.join(_HEADS)} |", "|" + "---|" * len(_HEADS)]
    lines += [f"| {' | '.join(map(str, _cells(row)))} |" for row in sorted(rows, key=lambda r: r["key"])]
    return "\n".join(lines) + "\n"


def _cells(row: dict) -> list:
    passed = row.get("stages", {})
    marks = [{"passed": "✓", "failed": "✗"}.get(passed.get(stage, ""), "") for stage in STAGES]
    result = row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
    numbers = [row.get(name, "") for name in ("python_lines", "emitted_lines")]
    parameters, axes = readable_count(row.get("parameters")), ", ".join(row.get("open", []))
    facts = [axes, row.get("nodes", ""), parameters, *numbers, f"{row['cpu_seconds']:.0f}", row["commit"], row["note"]]
    return [row["key"], result, *marks, *facts]


def write(rows: list[dict], not_run: list[str], folder: Path) -> None:
    (folder / "people.md").write_text(markdown(rows, not_run))
    kept = [{**row, "detail": cell(row["detail"])} if "detail" in row else row for row in rows]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sorted(kept, key=lambda r: r["key"]))
    (folder / "people.json").write_text(without_paths(f"[\n{lines}\n]\n"))
