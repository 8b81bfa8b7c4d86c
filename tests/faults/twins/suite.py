"""All twins, measured in processes of their own."""

from __future__ import annotations

import json
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from ..running import version_of
from . import language, odd, signal, sweeps, vacuous, vision
from .findings import Finding, TwinVerifier
from .recordings import Pair, pairs

TWINS = [*odd.TWINS, *vacuous.TWINS, *sweeps.TWINS, *signal.TWINS, *vision.TWINS, *language.TWINS]


def chosen_pairs(folder: Path, models: str) -> list[Pair]:
    return [p for p in pairs(folder, TWINS) if any(name in p.name for name in models.split(","))]


def measured(program: Path, folder: Path, name: str) -> list[Finding]:
    """Of one model and dtype; kept by the verifier's hash, so that a run that was stopped goes on where it was."""
    warnings.filterwarnings("ignore")
    (pair,) = [p for p in pairs(folder, TWINS) if p.name == name]
    kept = pair.folder / f"findings_{version_of(program)}.jsonl"
    if not kept.exists():
        found = TwinVerifier(program).findings(pair)
        for old in pair.folder.glob("findings_*.jsonl"):
            old.unlink()
        kept.write_text("".join(json.dumps(asdict(f)) + "\n" for f in found))
    return [Finding(**json.loads(line)) for line in kept.read_text().splitlines()]


def all_measured(program: Path, folder: Path, models: str, jobs: int) -> list[Finding]:
    names = [pair.name for pair in chosen_pairs(folder, models)]
    # Recording is not for threads.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        groups = pool.map(measured, [program] * len(names), [folder] * len(names), names)
        findings = []
        for group in groups:
            findings += group
    return findings


def share(part: list, whole: list) -> str:
    return f"{len(part)} of {len(whole)} ({100 * len(part) / len(whole):.1f} %)" if whole else "0 of 0"


def summary(findings: list[Finding]) -> dict[str, str]:
    real = [f for f in findings if f.result != "no effect"]
    f32, half = [f for f in real if not f.is_half], [f for f in real if f.is_half]
    found = [f for f in real if f.result == "found"]
    listed, named = [f for f in real if f.is_listed], [f for f in real if f.kind]
    return {
        "found, f32": share([f for f in f32 if f.result == "found"], f32),
        "found, f16 and bf16": share([f for f in half if f.result == "found"], half),
        "at the right layer": share([f for f in found if f.has_layer or not f.path], found),
        "right cause, of faults in the list": share([f for f in listed if f.has_cause], listed),
        "wrong cause, of causes named": share([f for f in named if f.is_wrong_cause], named),
        "move no layer further than torch's own sums do": str(len(findings) - len(real)),
    }
