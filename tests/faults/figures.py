"""What was measured, as a file (results.json), and the table of docs/faults.md that is made from it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .twins.findings import Finding
from .twins.suite import share, summary

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/faults.md"
RESULTS = Path(__file__).with_name("results.json")
BEGIN, END = "<!-- figures: written by make faults -->", "<!-- end of figures -->"


def found_by(findings: list[Finding], has) -> str:
    real = [f for f in findings if f.result != "no effect" and has(f)]
    return share([f for f in real if f.result == "found"], real)


def bits_of(finding: Finding) -> int:
    rounded = re.match(r"rounded to (\d+) bits", finding.wrong)
    return int(rounded[1]) if rounded else 0


def length_of(finding: Finding) -> int:
    sum_of = re.match(r"(?:sum|window)_(\d+)", finding.model)
    return int(sum_of[1]) if sum_of else 0


def must_be_found(finding: Finding) -> bool:
    """Weights of a long sum in f32, rounded to 14 bits or less, or to 16 bits up to 1,024 terms."""
    n, bits = length_of(finding), bits_of(finding)
    return bool(n and bits and not finding.is_half) and (bits <= 14 or n <= 1024)


Row = tuple[str, str, str]  # what, how it must be, how it is


def rows_of_twins(findings: list[Finding]) -> list[Row]:
    said = summary(findings)
    scaled = lambda f: bool(length_of(f)) and "times" in f.wrong and not f.is_half  # noqa: E731
    return [
        ("found, f32", "99.5 %", said["found, f32"]),
        ("found, f16 and bf16", "90 %", said["found, f16 and bf16"]),
        ("of these with an outlier channel", "", found_by(findings, lambda f: "outlier" in f.variant)),
        ("weights of long sums rounded, f32", "all", found_by(findings, must_be_found)),
        ("a row × 1.0001, all × 1.00003, f32", "all", found_by(findings, scaled)),
        ("at the right layer", "", said["at the right layer"]),
        ("right cause, of faults in the list", "90 %", said["right cause, of faults in the list"]),
        ("wrong cause, of causes named", "0.5 % at most", said["wrong cause, of causes named"]),
    ]


@dataclass(frozen=True)
class Part:
    """Of the suite; each may be measured by itself."""

    name: str
    rows: list[Row]
    notes: list[dict]  # what was not as it should be


def parts(findings: list[Finding], clean: list[dict], alarms: list[dict], smollm2: str) -> list[Part]:
    measured = []
    if findings:
        notes = [note_of(f) for f in findings if not f.is_fine]
        measured.append(Part("twins", rows_of_twins(findings), notes))
    if clean:
        row = ("false alarms, of clean runs", "0 of 2,000", f"{len(alarms)} of {len(clean):,}")
        measured.append(Part("clean runs", [row], alarms))
    if smollm2:
        row = ("SmolLM2-135M in bf16", "95 % found, 90 % of those named", smollm2)
        measured.append(Part("SmolLM2", [row], []))
    return measured


def note_of(finding: Finding) -> dict:
    shown = ("model", "wrong", "route", "result", "op", "kind", "cause")
    return {key: value for key, value in finding.shown().items() if key in shown}


def markdown(results: dict) -> str:
    """`results`: of each part when it was measured, its rows and its notes."""
    by_time: dict[str, list[str]] = {}
    for name, part in results.items():
        by_time.setdefault(part["measured"], []).append(name)
    said = [f"{', '.join(names)}: {time}." for time, names in by_time.items()]
    table = [row for part in results.values() for row in part["rows"]]
    lines = ["| what | must be | is |", "|---|---|---|"]
    lines += [f"| {what} | {least} | {figure} |" for what, least, figure in table]
    return "Measured: " + " ".join(said) + "\n\n" + "\n".join(lines)


def with_table(page: str, results: dict) -> str:
    start, end = page.index(BEGIN), page.index(END)
    return f"{page[:start]}{BEGIN}\n{markdown(results)}\n{page[end:]}"


def write(measured: list[Part], when: str, file: Path = RESULTS, page: Path = PAGE) -> None:
    """What was not measured now stays as it was."""
    results = json.loads(file.read_text()) if file.exists() else {}
    for part in measured:
        results[part.name] = {"measured": when, "rows": part.rows, "notes": part.notes}
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    page.write_text(with_table(page.read_text(), results))
