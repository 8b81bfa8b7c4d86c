"""The rows of make zoo-emit as tables: docs/zoo-emit.md for people, docs/zoo-emit.json for programs."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path

from .emit import STAGES
from .report import cell, readable_count, summary, without_paths

_HEADS = (
    "model", "result", *STAGES, "nodes", "parameters", "Python lines", "C++ lines", "classes", "g++ s", "clang s", "test s", "clang test s",
    "commit",
)  # fmt: skip


def markdown(rows: list[dict]) -> str:
    commits = Counter(row["commit"] for row in rows)
    lines = [
        "# The zoo as source code",
        "",
        f"Made by `make zoo-emit` on {datetime.date.today().isoformat()}. How to run it and what a row means: "
        "[testing-models.md](testing-models.md#the-zoo-as-source-code).",
        "Rows by commit: " + ", ".join(f"{name} ({count})" for name, count in commits.most_common()) + ".",
        "",
        "| source | models | passed | failed | Python lines | C++ lines |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for source, count in summary(rows).items():
        of_source = [r for r in rows if r["status"] == "passed" and source in (r["source"], "all")]
        sums = (sum(r[name] for r in of_source) for name in ("python_lines", "emitted_lines"))
        cells = (source, count.total(), count["passed"], count["failed"], *sums)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    failed = [row for row in rows if row["status"] == "failed"]
    lines += ["", "## Failed", ""]
    if failed:
        lines += ["| model | at | reason | in full |", "|---|---|---|---|"]
        lines += [
            f"| {r['key']} | {r.get('stage') or ''} | {r['reason']} | {cell(r['detail'])} |" for r in failed
        ]
    else:
        lines.append("None.")
    lines += ["", "## All", "", f"| {' | '.join(_HEADS)} |", "|" + "---|" * len(_HEADS)]
    lines += [f"| {' | '.join(map(str, _cells(row)))} |" for row in sorted(rows, key=lambda r: r["key"])]
    return "\n".join(lines) + "\n"


def _cells(row: dict) -> list:
    passed, spent = row.get("stages", {}), row.get("seconds_of", {})
    marks = [{"passed": "✓", "failed": "✗"}.get(passed.get(stage, ""), "") for stage in STAGES]
    seconds = [row.get("build_seconds", ""), row.get("clang_build_seconds", "")]
    seconds += [spent.get("test", ""), spent.get("clang test", "")]
    result = row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
    numbers = [row.get(name, "") for name in ("python_lines", "emitted_lines", "classes")]
    parameters = readable_count(row.get("parameters"))
    return [row["key"], result, *marks, row.get("nodes", ""), parameters, *numbers, *seconds, row["commit"]]


def write(rows: list[dict], folder: Path) -> None:
    (folder / "zoo-emit.md").write_text(markdown(rows))
    kept = [{**row, "detail": cell(row["detail"])} if "detail" in row else row for row in rows]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sorted(kept, key=lambda r: r["key"]))
    (folder / "zoo-emit.json").write_text(without_paths(f"[\n{lines}\n]\n"))
