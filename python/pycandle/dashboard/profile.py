"""Where the time goes, from files of `pycandle forward M --profile --json`."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from .views import bar, milliseconds

ROWS = 12


def profile_table(files: list[Path], width: int) -> Group:
    """Time by kernel and by layer, a column for each profile, in the order of the first."""
    parts: list = []
    profiles: list[tuple[str, dict]] = []
    for file in files:
        try:
            profile = _checked(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            parts.append(
                Text(f"{file}: no profile of pycandle forward --profile --json ({error})", style="red")
            )
            continue
        profiles.append((file.name, profile))
        parts.append(Text(_headline(file.name, profile), style="bold"))
    for kind in ("kernels", "ops", "layers") if profiles else ():
        parts += [Text(f"\nby {kind[:-1]}", style="dim"), _table(kind, profiles, width)]
    return Group(*parts)


def _checked(document: dict) -> dict:
    profile = document.get("profile", document)
    for kind in ("kernels", "ops", "layers"):
        profile[kind] = [
            {"name": str(row["name"]), "ms": float(row["ms"]), "gflops": float(row.get("gflops", 0))}
            for row in profile[kind]
        ]
    profile["ms"] = float(profile["ms"])
    return profile


def _headline(name: str, profile: dict) -> str:
    memory = sum(float(profile.get(key) or 0) for key in ("weight_bytes", "arena_bytes")) / 1e6
    return f"{name}: {milliseconds(profile['ms'])}, {profile.get('threads', 1)} threads, {memory:.1f} MB"


def _table(kind: str, profiles: list[tuple[str, dict]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=len(profiles) > 1, header_style="dim")
    table.add_column(
        "", no_wrap=True, overflow="ellipsis", max_width=max(width - 40 - 12 * len(profiles), 16)
    )
    for name, _ in profiles:
        table.add_column(Text(name[:12]), justify="right", no_wrap=True)
    for _ in ("share", "bar", "rate"):
        table.add_column("", no_wrap=True, justify="left")
    first = profiles[0][1]
    others = [{row["name"]: row["ms"] for row in profile[kind]} for _, profile in profiles[1:]]
    for row in first[kind][:ROWS]:
        share = row["ms"] / first["ms"] if first["ms"] else 0.0
        beside = [milliseconds(other[row["name"]]) if row["name"] in other else "" for other in others]
        rate = f"{row['gflops']:.0f} GFLOP/s" if row["gflops"] else ""
        table.add_row(
            Text(row["name"]), milliseconds(row["ms"]), *beside, f"{100 * share:.1f} %", bar(share, 12), rate
        )
    return table
