"""The table of docs/faults.md, from what was measured."""

from __future__ import annotations

import re
from pathlib import Path

from .twins.measuring import Finding
from .twins.suite import share, summary

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/faults.md"
BEGIN, END = "<!-- figures: written by make faults -->", "<!-- end of figures -->"


def found_by(findings: list[Finding], has) -> str:
    real = [f for f in findings if f.result != "no effect" and has(f)]
    return share([f for f in real if f.result == "found"], real)


def bits_of(finding: Finding) -> int:
    rounded = re.match(r"rounded to (\d+) bits", finding.wrong)
    return int(rounded[1]) if rounded else 0


def length_of(finding: Finding) -> int:
    sum_of = re.match(r"sum_(\d+)", finding.model)
    return int(sum_of[1]) if sum_of else 0


def must_be_found(finding: Finding) -> bool:
    """Weights of a long sum in f32, rounded to 14 bits or less, or to 16 bits up to 1,024 terms."""
    n, bits = length_of(finding), bits_of(finding)
    return bool(n and bits and not finding.is_half) and (bits <= 14 or n <= 1024)


def rows(findings: list[Finding], clean: list[dict], alarms: int, smollm2: str) -> list[tuple[str, str, str]]:
    """What, how it must be, how it is."""
    said = summary(findings)
    scaled = lambda f: bool(length_of(f)) and "times" in f.wrong and not f.is_half  # noqa: E731
    table = [
        ("found, f32", "99.5 %", said["found, f32"]),
        ("found, f16 and bf16", "90 %", said["found, f16 and bf16"]),
        ("of these with an outlier channel", "", found_by(findings, lambda f: "outlier" in f.variant)),
        ("weights of long sums rounded, f32", "all", found_by(findings, must_be_found)),
        ("a row × 1.0001, all × 1.00003, f32", "all", found_by(findings, scaled)),
        ("at the right layer", "", said["at the right layer"]),
        ("right cause, of faults in the list", "90 %", said["right cause, of faults in the list"]),
        ("wrong cause, of causes named", "0.5 % at most", said["wrong cause, of causes named"]),
    ]
    if clean:
        table.append(("false alarms, of clean runs", "0 of 2,000", f"{alarms} of {len(clean):,}"))
    if smollm2:
        table.append(("SmolLM2-135M in bf16", "95 % found, 90 % of those named", smollm2))
    return table


def markdown(table: list[tuple[str, str, str]]) -> str:
    lines = ["| what | must be | is |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {least} | {figure} |" for what, least, figure in table)])


def write(table: list[tuple[str, str, str]], measured: str, page: Path = PAGE) -> None:
    text = page.read_text()
    start, end = text.index(BEGIN), text.index(END)
    page.write_text(f"{text[:start]}{BEGIN}\n{measured}\n\n{markdown(table)}\n{text[end:]}")
