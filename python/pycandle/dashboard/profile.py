"""Where the time goes, from files of `pycandle forward M --profile --json`."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from .views import bar

ROWS = 12


def profile_table(files: list[Path], width: int) -> Group:
    """Time by kernel and by layer; several profiles one below the other."""
    parts: list = []
    for file in files:
        try:
            document = json.loads(file.read_text())
            profile = document.get("profile", document)
            parts.append(
                Text(
                    f"{file.name}: {profile['ms']:.2f} ms, {profile.get('threads', 1)} threads", style="bold"
                )
            )
            for kind in ("kernels", "layers"):
                parts += [Text(f"by {kind[:-1]}", style="dim"), _table(profile[kind], profile["ms"], width)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            parts.append(
                Text(f"{file}: no profile of pycandle forward --profile --json ({error})", style="red")
            )
    return Group(*parts)


def _table(rows: list[dict], whole: float, width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows[:ROWS]:
        share = row["ms"] / whole if whole else 0.0
        table.add_row(
            str(row["name"])[: max(width - 50, 20)],
            f"{row['ms']:.3f} ms",
            f"{100 * share:.1f} %",
            bar(share, 16),
        )
    return table
