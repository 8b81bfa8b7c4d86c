"""The rows as tables: docs/zoo.md for people, docs/zoo.json for programs."""

from __future__ import annotations

import datetime
import json
import platform
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("record", "import", "run", "verify", "elsewhere", "shapes")
REQUIRED = 0.95


def summary(rows: list[dict]) -> dict[str, Counter]:
    """Counts of each status by source, and of all."""
    counts: dict[str, Counter] = {}
    for row in rows:
        for name in (row["source"], "all"):
            counts.setdefault(name, Counter())[row["status"]] += 1
    if "all" in counts:
        counts["all"] = counts.pop("all")  # last
    return counts


def rate(count: Counter) -> float:
    """The share of what torch.export exports that passed."""
    exported = count["passed"] + count["failed"]
    return count["passed"] / exported if exported else 1.0


def markdown(rows: list[dict], not_run: Sequence[str] = ()) -> str:
    commits = Counter(row["commit"] for row in rows)
    lines = [
        "# The zoo",
        "",
        f"Made by `make zoo` on {datetime.date.today().isoformat()}, Python {platform.python_version()}, "
        f"{platform.machine()}. How to run it and what a row means: [testing-models.md](testing-models.md#the-zoo).",
        "Rows by commit: " + ", ".join(f"{name} ({count})" for name, count in commits.most_common()) + ".",
        "",
        "| source | models | not exported by torch | exported | passed | failed | passed of exported |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for source, count in summary(rows).items():
        exported = count["passed"] + count["failed"]
        cells = (source, count.total(), count["not exported"], exported, count["passed"], count["failed"])
        lines.append(f"| {' | '.join(map(str, cells))} | {100 * rate(count):.1f} % |")
    if not_run:
        lines += ["", f"Not run yet ({len(not_run)}): {', '.join(not_run)}."]
    lines += _reasons("Failed", [row for row in rows if row["status"] == "failed"])
    lines += _reasons(
        "Not exported by torch.export alone", [r for r in rows if r["status"] == "not exported"]
    )
    lines += _table(rows)
    return "\n".join(lines) + "\n"


def _reasons(title: str, rows: list[dict]) -> list[str]:
    lines = ["", f"## {title}", ""]
    if not rows:
        return [*lines, "None."]
    lines += ["| model | at | reason | in full |", "|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['key']} | {row.get('stage') or ''} | {row['reason']} | {cell(row['detail'])} |")
    return lines


def _table(rows: list[dict]) -> list[str]:
    heads = (
        "model",
        "kind",
        "result",
        *STAGES,
        "open axes",
        "nodes",
        "parameters",
        "s",
        "peak MB",
        "commit",
        "note",
    )
    lines = ["", "## All", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        passed = row.get("stages", {})
        marks = [{"passed": "✓", "failed": "✗"}.get(passed.get(stage, ""), "") for stage in STAGES]
        cells = [
            row["key"], row["kind"], row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}",
            *marks, ", ".join(row.get("open", [])), row.get("nodes", ""), readable_count(row.get("parameters")),
            f"{row['seconds']:.0f}", row["peak_mb"], row["commit"], row["note"],
        ]  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def readable_count(number: int | None) -> str:
    if number is None:
        return ""
    return f"{number / 1e6:.1f} M" if number >= 1e5 else f"{number / 1e3:.1f} k"


def cell(text: str) -> str:
    flat = " ".join(without_paths(text).split()).replace("|", "\\|")
    return flat if len(flat) <= 400 else flat[:397] + "…"


_PATHS = re.compile(r"""[^\s"'(\\]*/(?:site-packages|python3\.\d+|pycandle-zoo-\w+)/""")


def without_paths(text: str) -> str:
    """Paths inside packages only: where the packages lie on this machine says nothing."""
    return _PATHS.sub("", text).replace(f"{ROOT}/", "")


def write(rows: list[dict], not_run: Sequence[str], folder: Path) -> None:
    (folder / "zoo.md").write_text(markdown(rows, not_run))
    kept = [{**row, "detail": cell(row["detail"])} if "detail" in row else row for row in rows]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in kept)
    (folder / "zoo.json").write_text(without_paths(f"[\n{lines}\n]\n"))
