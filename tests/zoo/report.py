"""Rows as pages: docs/NAME.md sums them up, docs/tables/NAME.md has one row for each model, docs/NAME.json is for programs."""

from __future__ import annotations

import datetime
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Column = Callable[[dict], object]  # of a row
Count = Callable[[Counter, list[dict]], object]  # of the statuses of a source, and its rows


def status_count(status: str) -> Count:
    return lambda count, rows: count[status]


COUNTS: Mapping[str, Count] = {
    "models": lambda count, rows: count.total(),
    "passed": status_count("passed"),
    "failed": status_count("failed"),
}


@dataclass(frozen=True)
class Page:
    """What the table of a suite shows; `columns` stand behind a mark for each stage."""

    name: str
    title: str
    made_by: str
    section: str  # of testing-models.md: what a row means
    stages: Sequence[str]
    columns: Mapping[str, Column]
    counts: Mapping[str, Count] = field(default_factory=lambda: COUNTS)
    reasons: Mapping[str, str] = field(default_factory=lambda: {"failed": "Failed"})  # status: title
    source: str = "source"  # what a source of models is called

    def markdown(self, rows: list[dict], not_run: Sequence[str] = ()) -> str:
        commits = Counter(row["commit"] for row in rows)
        lines = [
            f"# {self.title}",
            "",
            f"Made by `{self.made_by}` on {datetime.date.today().isoformat()}, Python {platform.python_version()}, "
            f"{platform.machine()}. How to run it and what a row means: [testing-models.md](testing-models.md#{self.section}).",
            "Rows by commit: "
            + ", ".join(f"{name} ({count})" for name, count in commits.most_common())
            + ".",
            "",
        ]
        lines += _table((self.source, *self.counts), map(self._summed, *_by_source(rows)), "---:|")
        if not_run:
            lines += ["", f"Not run yet ({len(not_run)}): {', '.join(not_run)}."]
        for status, title in self.reasons.items():
            found = [_reason(row) for row in rows if row["status"] == status]
            lines += ["", f"## {title}", ""]
            lines += _table(("model", "at", "reason", "in full"), found) if found else ["None."]
        lines += ["", f"[One row for each model](tables/{self.name}.md)."]
        return "\n".join(lines) + "\n"

    def table(self, rows: list[dict]) -> str:
        lines = [
            f"# {self.title}: one row for each model",
            "",
            f"[{self.name}.md](../{self.name}.md) sums them up.",
            "",
        ]
        lines += _table(("model", "result", *self.stages, *self.columns), map(self._cells, _sorted(rows)))
        return "\n".join(lines) + "\n"

    def write(self, rows: list[dict], not_run: Sequence[str] = (), folder: Path = ROOT / "docs") -> None:
        (folder / f"{self.name}.md").write_text(self.markdown(rows, not_run))
        (folder / "tables").mkdir(exist_ok=True)
        (folder / "tables" / f"{self.name}.md").write_text(self.table(rows))
        kept = [{**row, "detail": cell(row["detail"])} if "detail" in row else row for row in _sorted(rows)]
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in kept)
        (folder / f"{self.name}.json").write_text(without_paths(f"[\n{lines}\n]\n"))

    def _summed(self, source: str, rows: list[dict]) -> list:
        statuses = Counter(row["status"] for row in rows)
        return [source, *(count(statuses, rows) for count in self.counts.values())]

    def _cells(self, row: dict) -> list:
        reached = row.get("stages", {})
        marks = [{"passed": "✓", "failed": "✗"}.get(reached.get(stage, ""), "") for stage in self.stages]
        result = row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
        return [row["key"], result, *marks, *(column(row) for column in self.columns.values())]


def _sorted(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: row["key"])


def _by_source(rows: list[dict]) -> tuple[list[str], list[list[dict]]]:
    """The sources and the rows of each; all come last."""
    sources = list(dict.fromkeys(row["source"] for row in rows))
    return [*sources, "all"], [*([r for r in rows if r["source"] == s] for s in sources), rows]


def _table(heads: Sequence[str], rows: Iterable[Sequence], align: str = "---|") -> list[str]:
    return [_line(heads), "|---|" + align * (len(heads) - 1), *map(_line, rows)]


def _line(cells: Sequence) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _reason(row: dict) -> tuple:
    return row["key"], row.get("stage") or "", row["reason"], cell(row["detail"])


# ---- columns --------------------------------------------------------------------------------------------------


def fact(name: str) -> Column:
    return lambda row: row.get(name, "")


def seconds_of(stage: str) -> Column:
    return lambda row: row.get("seconds_of", {}).get(stage, "")


def open_axes(row: dict) -> str:
    return ", ".join(row.get("open", []))


def parameters(row: dict) -> str:
    number = row.get("parameters")
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
