"""What a run came to, for people."""

from __future__ import annotations

import datetime
import platform
from collections import Counter, defaultdict

import torch

from .running import Outcome

_TITLES = {"values": "sample inputs", "errors": "error inputs", "modules": "modules"}


def counting(outcomes: list[Outcome]) -> list[Outcome]:
    """Those of entries that touch the catalogue and of which a call ran, at whatever dtype."""
    touched = {o.entry for o in outcomes if o.touches}
    touched &= {o.entry for o in outcomes if o.calls}
    return [o for o in outcomes if o.entry in touched]


def rows(outcomes: list[Outcome]) -> list[tuple]:
    """(title, entries, entries that pass, run, passed, failed) for each part and dtype, then for each part."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in counting(outcomes):
        title = _TITLES[outcome.part]
        groups[f"{title}, all dtypes" if outcome.part == "values" else title].append(outcome)
        if outcome.part == "values":
            groups[f"{title}, {outcome.dtype}"].append(outcome)
    found = []
    for title, group in groups.items():
        failing = {o.entry for o in group if o.failed}
        names = {o.entry for o in group}
        calls, passed = sum(o.calls for o in group), sum(o.passed for o in group)
        found.append((title, len(names), len(names - failing), calls, passed, calls - passed))
    return found


def printed(outcomes: list[Outcome], listing: bool) -> str:
    lines = []
    if listing:
        for outcome in sorted(counting(outcomes), key=lambda o: (o.part, o.entry, o.dtype)):
            for failure in outcome.failures:
                lines.append(f"{outcome.part} {outcome.entry} {outcome.dtype}({failure['call']})")
                lines.append(f"    {failure['message']}")
            more = outcome.failed - len(outcome.failures)
            if more > 0:
                lines.append(f"    and {more} more")
    for title, names, good, calls, passed, failed in rows(outcomes):
        lines.append(
            f"{title + ':':28} {names:4} entries, {good:4} pass whole; "
            f"{calls:6} samples, {passed:6} passed, {failed:5} failed"
        )
    types_only = sorted({o.entry for o in counting(outcomes) if o.types_only})
    if types_only:
        lines.append(f"only dtype and shape compared (random or uninitialised): {', '.join(types_only)}")
    for entry, why in sorted(untraceable(outcomes).items()):
        lines.append(f"torch.export refuses {entry}: {why}")
    lines += [
        f"{entry} needs {dtypes}, which PTIR has not" for entry, dtypes in sorted(outside(outcomes).items())
    ]
    left = untouched(outcomes)
    lines.append(f"{len(left)} entries do not touch the catalogue")
    return "\n".join(lines)


def untraceable(outcomes: list[Outcome]) -> dict[str, str]:
    reasons: dict[str, Counter] = defaultdict(Counter)
    for outcome in outcomes:
        reasons[outcome.entry].update(outcome.untraceable)
    return {
        entry: f"{sum(counted.values())} samples, {counted.most_common(1)[0][0]}"
        for entry, counted in reasons.items()
        if counted
    }


def outside(outcomes: list[Outcome]) -> dict[str, str]:
    dtypes: dict[str, set] = defaultdict(set)
    for outcome in outcomes:
        dtypes[outcome.entry].update(outcome.outside)
    return {entry: ", ".join(sorted(found)) for entry, found in dtypes.items() if found}


def untouched(outcomes: list[Outcome]) -> list[str]:
    values = [o for o in outcomes if o.part == "values"]
    touched = {o.entry for o in values if o.touches}
    return sorted({o.entry for o in values} - touched)


def markdown(outcomes: list[Outcome], backend: str, limit: int | None, seconds: float) -> str:
    samples = "every sample" if limit is None else f"at most {limit} samples of an entry and dtype"
    lines = [
        "# torch's operator and module databases"
        + ("" if backend == "reference" else f" on the {backend} backend"),
        "",
        f"Made by `make op-db{'' if backend == 'reference' else f' OP_DB_BACKEND={backend}'}` on {datetime.date.today().isoformat()}, torch {torch.__version__.split('+')[0]}, "
        f"{platform.machine()}: {samples}, {seconds / 60:.0f} minutes. [testing-operators.md](testing-operators.md) says what is compared.",
        "",
        "| | entries | pass whole | samples | passed | failed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows(outcomes):
        lines.append("| " + " | ".join(str(cell) for cell in row) + " |")
    lines += ["", "## Failed", "", "| entry | samples | failed | first reason |", "|---|---:|---:|---|"]
    by_entry: dict[tuple, list[Outcome]] = defaultdict(list)
    for outcome in counting(outcomes):
        by_entry[(outcome.part, outcome.entry)].append(outcome)
    for (part, entry), group in sorted(by_entry.items()):
        failed = sum(o.failed for o in group)
        if failed:
            first = next(o.failures[0]["message"] for o in group if o.failures)
            shown = first.replace("|", "\\|").replace("\n", " ")[:140]
            name = entry if part == "values" else f"{entry} ({_TITLES[part]})"
            lines.append(f"| {name} | {sum(o.calls for o in group)} | {failed} | {shown} |")
    good = sorted({entry for _, entry in by_entry} - {o.entry for o in counting(outcomes) if o.failed})
    lines += ["", f"## Pass whole ({len(good)})", "", ", ".join(good) + "."]
    types_only = sorted({o.entry for o in counting(outcomes) if o.types_only})
    lines += ["", "## Random or uninitialised", "", "Only dtype and shape are compared:", ""]
    lines += [", ".join(types_only) + "." if types_only else "none."]
    lines += [
        "",
        "## torch.export refuses",
        "",
        "Listed and not counted; the other samples of these entries are.",
        "",
    ]
    lines += [f"- {entry}: {why}" for entry, why in sorted(untraceable(outcomes).items())]
    lines += ["", "## Dtypes that PTIR has not", ""]
    lines += [f"- {entry}: {dtypes}" for entry, dtypes in sorted(outside(outcomes).items())]
    left = untouched(outcomes)
    lines += ["", f"## Do not touch the catalogue ({len(left)})", "", ", ".join(left) + "."]
    return "\n".join(lines) + "\n"
