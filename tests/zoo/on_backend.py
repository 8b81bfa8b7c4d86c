"""What one model must satisfy on a backend other than the reference: every tap verifies, at the recorded inputs and at
another shape, with each number of threads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .check import Stages, judged, verify
from .entry import Entry
from .recordings import Recordings
from .report import Page, fact, parameters, seconds_of

KEPT_BYTES = 64 << 20  # larger recordings are not kept: all of them would fill a disk


class BackendCheck:
    """Called for each model, in a process of its own."""

    def __init__(self, backend: str, threads: list[int], recordings: Path):
        self.backend = backend
        self.threads = threads
        self.recordings = Recordings(recordings)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, stages, facts))

    def _check(self, entry: Entry, stages: Stages, facts: dict) -> None:
        recording = self.recordings.place(entry)
        try:
            facts |= stages.run("record", lambda: self.recordings.facts(entry))
            traces = self.recordings.traces(entry)
            facts["shapes"] = len(traces)
            goldens = [word for trace in traces for word in ("--trace", str(trace))]
            for threads in self.threads:
                extra = ("--backend", self.backend, "--threads", str(threads), *goldens)
                stages.run(stage_of(threads), lambda e=extra: verify(recording / "model_manifest.json", *e))
        finally:
            if sum(file.stat().st_size for file in recording.glob("*")) > KEPT_BYTES:
                shutil.rmtree(recording)


def stage_of(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def page(backend: str, threads: list[int]) -> Page:
    stages = [stage_of(n) for n in threads]
    numbers = ",".join(map(str, threads))
    return Page(
        name=f"zoo-{backend}",
        title=f"The zoo on the {backend} backend",
        made_by=f'make zoo ZOO_FLAGS="--backend {backend} --threads {numbers}"',
        section="the-zoo-on-another-backend",
        stages=stages,
        columns={
            "kind": fact("kind"),
            "shapes": fact("shapes"),
            "nodes": fact("nodes"),
            "parameters": parameters,
            **{f"s, {stage}": seconds_of(stage) for stage in stages},
            "commit": fact("commit"),
        },
    )
