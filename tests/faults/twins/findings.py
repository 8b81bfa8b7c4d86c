"""Verifies each wrong twin against the goldens of the right one, by two routes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ..running import runner
from .effect import Effect
from .recordings import Pair
from .twin import Wrong


@dataclass(frozen=True)
class Finding:
    """What the verifier said of one wrong model, and whether that is right."""

    model: str
    variant: str
    wrong: str
    route: str  # "manifest": the wrong recording with the right goldens; "program": --program on the right recording
    change: float  # of the layer, in PyTorch
    torchs_own: float  # change of that layer under another order of summation
    result: str  # found, missed, error, no effect
    reproduce: str
    expected: str = ""  # kinds of cause
    is_listed: bool = True  # one of them must be named
    parameter: str = ""  # that was changed in the file
    kind: str = ""
    cause: str = ""
    op: str = ""
    path: str = ""  # of the first wrong layer
    error: str = ""
    has_layer: bool = False  # it is a module that gives something else from PyTorch's values

    @property
    def is_half(self) -> bool:
        return not self.variant.startswith("float32")

    @property
    def has_cause(self) -> bool:
        if self.kind and self.parameter and self.parameter in self.cause:
            return True
        return bool(self.kind) and self.kind in self.expected.split(" or ")

    @property
    def is_wrong_cause(self) -> bool:
        return bool(self.kind) and not self.has_cause

    @property
    def is_fine(self) -> bool:
        if self.result == "no effect":
            return True
        return self.result == "found" and (self.has_cause or not (self.is_listed or self.kind))

    def shown(self) -> dict:
        return {key: value for key, value in asdict(self).items() if value != ""}


def result_of(effect: Effect, is_vacuous: bool, result: dict) -> str:
    if not effect.is_real and not is_vacuous:
        return "no effect"
    if "error" in result:
        return "error"
    # Where the recorded values prove nothing, to say so is to find the fault.
    said = is_vacuous and result["counts"].get("no_evidence", 0) > 0
    return "found" if result["wrong"] or said or not result["passed"] else "missed"


def is_layer(path: str, moved: tuple[str, ...]) -> bool:
    """What goes into a module is its parent's work."""
    return path in moved or path.rpartition(".")[0] in moved


def finding_of(pair: Pair, wrong: Wrong, route: str, reproduce: str, result: dict) -> Finding:
    effect = pair.effect_of(wrong)
    row = (result.get("wrong") or [{}])[0]
    said = row.get("diagnosis", {})
    path = said.get("path") or row.get("path", "")
    return Finding(
        model=pair.name,
        variant=pair.variant.name,
        wrong=wrong.name,
        route=route,
        change=float(f"{effect.change:.3g}"),
        torchs_own=float(f"{effect.noise:.3g}"),
        result=result_of(effect, pair.twin.is_vacuous, result),
        reproduce=reproduce,
        expected=wrong.kinds,
        is_listed=wrong.is_listed,
        parameter=wrong.weights[1] if wrong.weights else "",
        kind=said.get("cause_kind", ""),
        cause=said.get("cause", ""),
        op=said.get("op", ""),
        path=path,
        error=result.get("error", ""),
        has_layer=bool(row) and (effect.is_refused or is_layer(path.split("@")[0], effect.paths)),
    )


class TwinVerifier:
    def __init__(self, program: Path) -> None:
        self.program = program

    def by_manifest(self, pair: Pair, wrong: Wrong) -> Finding:
        manifest, traces = pair.wrong_manifest(wrong), [str(trace) for trace in pair.traces]
        reproduce = f"pycandle verify '{manifest}' " + " ".join(f"--trace {trace}" for trace in traces)
        try:
            (result,) = runner(self.program, manifest, "run", lines=[{"clean": True, "traces": traces}])
        except (subprocess.CalledProcessError, ValueError) as error:
            result = {"error": str(error)}
        return finding_of(pair, wrong, "manifest", reproduce, result)

    def by_program(self, pair: Pair) -> list[Finding]:
        """Turned knobs alone: a program has no weights of its own."""
        wrongs = [wrong for wrong in pair.wrongs() if not wrong.weights and not wrong.is_buffer]
        texts = [self.text_of(pair, wrong) for wrong in wrongs]
        lines = [{"clean": True, "program": str(text)} for text in texts]
        results = runner(self.program, pair.manifest, "run", lines=lines)
        return [
            finding_of(pair, wrong, "program", f"pycandle verify {pair.manifest} --program '{text}'", result)
            for wrong, text, result in zip(wrongs, texts, results, strict=True)
        ]

    def text_of(self, pair: Pair, wrong: Wrong) -> Path:
        text, manifest = pair.folder_of(wrong) / "wrong.ptir", pair.wrong_manifest(wrong)
        said = subprocess.run([self.program, manifest, "text"], capture_output=True, text=True, check=True)
        text.write_text(said.stdout)
        return text

    def findings(self, pair: Pair) -> list[Finding]:
        found = [self.by_manifest(pair, wrong) for wrong in pair.wrongs()]
        if pair.variant.dtype is torch.float32 and not pair.variant.outlier:
            found += self.by_program(pair)
        return found


def apart_from_the_users_cache(folder: Path) -> None:
    """Floors of thousands of small runs are of no use to anybody."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
