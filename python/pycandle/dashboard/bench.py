"""How fast the model is, from files of `pycandle bench M --json`."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from .views import bar, milliseconds

COLUMNS = ("runner", "threads", "median", "", "spread", "load", "first output", "memory")


def bench_table(files: list[Path], width: int) -> Group:
    """A row for each runner, the quickest with the shortest bar."""
    parts: list = []
    for file in files:
        try:
            rows = json.loads(file.read_text())["rows"]
            parts += [Text(f"{file.name}: {rows[0]['model']}", style="bold"), _table(rows, width)]
            parts += [
                Text(f"{row['runner']}: {row[key]}", style="red" if key == "failed" else "dim")
                for row in rows
                for key in ("failed", "note")
                if row.get(key)
            ]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            parts.append(Text(f"{file}: no result of pycandle bench --json ({error})", style="red"))
    return Group(*parts)


def _table(rows: list[dict], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in COLUMNS:
        table.add_column(name, no_wrap=True, justify="left" if name in ("runner", "") else "right")
    ran = [row for row in rows if "median_ms" in row]
    slowest = max((row["median_ms"] for row in ran), default=0) or 1
    for row in ran:
        table.add_row(
            Text(str(row["runner"])),
            Text(str(row["threads"])),
            milliseconds(row["median_ms"]),
            bar(row["median_ms"] / slowest, max(min(width - 70, 24), 4)),
            f"{100 * row['spread']:.0f} %",
            f"{row['load_ms']:.0f} ms",
            f"{row['first_ms']:.0f} ms",
            f"{row['peak_mb']:.0f} MB",
        )
    return table
