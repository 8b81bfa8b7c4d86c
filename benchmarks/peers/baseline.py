"""Ratios of an earlier run, committed, and what moved since: times differ between machines, ratios much less."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).parents[1] / "baseline.json"
MOVED, WORSE = 1.10, 1.25  # said; failing the run


def ratios(rows: list[dict]) -> dict[str, float]:
    """PyCandle's time by each peer's, lower is better: {"minilm/1/openvino": 0.93}."""
    ours = {
        (r["model"], r["threads"]): r["median_ms"]
        for r in rows
        if r["runner"] == "pycandle" and "failed" not in r
    }
    return {
        f"{r['model']}/{r['threads']}/{r['runner']}": round(
            ours[r["model"], r["threads"]] / r["median_ms"], 3
        )
        for r in rows
        if r["runner"] != "pycandle" and "failed" not in r and (r["model"], r["threads"]) in ours
    }


def write(rows: list[dict], file: Path = FILE) -> None:
    file.write_text(json.dumps(ratios(rows), indent=1, sort_keys=True) + "\n")


def compared(rows: list[dict], file: Path = FILE) -> tuple[list[str], bool]:
    """Lines for a person, and whether nothing got worse by more than the factor that fails.

    A peer that had a bad moment moves one ratio; PyCandle that got slower moves those to all peers.
    """
    before = json.loads(file.read_text())
    lines, models = [], {}
    for name, now in ratios(rows).items():
        if name not in before:
            lines.append(f"{name:<36} {now:.2f}  new")
            continue
        change = now / before[name]
        word = "slower" if change > MOVED else "faster" if change < 1 / MOVED else ""
        lines.append(f"{name:<36} {before[name]:.2f} → {now:.2f}  {word}".rstrip())
        model, threads, _ = name.split("/")
        models.setdefault((model, threads), []).append(change)
    fine = True
    for (model, threads), changes in models.items():
        if min(changes) > WORSE:
            lines.append(
                f"{model}, {threads} threads: at least {min(changes):.2f} × slower against every peer"
            )
            fine = False
    return lines, fine
