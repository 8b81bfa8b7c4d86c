"""Right models, verified over and over. No layer of any may be called wrong.

Each run is one recorded model with one of its inputs, on the reference or on the cpu with one instruction set. Results are
kept by the library's hash: a campaign that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .running import runner
from .twins.recordings import Pair

ENGINES = (("reference", ""), ("cpu", "portable"), ("cpu", "avx2"), ("cpu", "avx512"))


def isas_here() -> set[str]:
    flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split()
    return {
        "",
        "portable",
        *(["avx2"] if "avx2" in flags else []),
        *(["avx512"] if "avx512bw" in flags else []),
    }


def inputs_of(pair: Pair) -> list[list[str]]:
    """Groups of trace files, each verified at once."""
    others = sorted(pair.manifest.parent.glob("seed*_trace.safetensors"))
    return [[str(trace) for trace in pair.traces], *([str(trace)] for trace in others)]


def runs_of(program: Path, pair: Pair, backend: str, isa: str) -> list[dict]:
    os.environ["PYCANDLE_ISA"] = isa
    if not isa:
        del os.environ["PYCANDLE_ISA"]
    groups = inputs_of(pair)
    results = runner(
        program, pair.manifest, "run", backend, lines=[{"clean": True, "traces": g} for g in groups]
    )
    os.environ.pop("PYCANDLE_ISA", None)
    return [
        {
            "model": pair.twin.name, "variant": pair.variant.name, "backend": backend, "isa": isa,
            "traces": [Path(trace).name for trace in group], "counts": result.get("counts", {}),
            "is_vacuous": pair.twin.is_vacuous, "passed": result.get("passed", False),
            "wrong": [row["tap"] for row in result.get("wrong", [])], "error": result.get("error", ""),
            "reproduce": f"PYCANDLE_ISA={isa or 'avx2'} .venv/bin/pycandle verify {pair.manifest} --backend {backend} "
            + " ".join(f"--trace {trace}" for trace in group),
        }
        for group, result in zip(groups, results, strict=True)
    ]  # fmt: skip


def is_alarm(run: dict) -> bool:
    """Wrong, stopped, or without evidence where the input is one that people have: others are up to 100 times as large."""
    is_other_size = run["traces"][0].startswith("seed") and run["counts"].get("no_evidence", 0) > 0
    return bool(run["wrong"] or run["error"]) or not (run["passed"] or run["is_vacuous"] or is_other_size)


def campaign(program: Path, chosen: list[Pair], kept: Path) -> list[dict]:
    runs = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(run["model"], run["variant"], run["backend"], run["isa"]) for run in runs}
    for pair in chosen:
        for backend, isa in ENGINES:
            key = (pair.twin.name, pair.variant.name, backend, isa)
            if key in done or isa not in isas_here():
                continue
            new = runs_of(program, pair, backend, isa)
            with kept.open("a") as file:
                file.write("".join(json.dumps(run) + "\n" for run in new))
            runs += new
    return runs
