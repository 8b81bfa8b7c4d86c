"""What one model must satisfy: it records, agrees with PyTorch at other inputs and sizes on both backends, verifies there, and
as source code it compiles and passes its tests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from zoo.check import Failed, Stages, Subject, judged, prepared_model, seeded, verify
from zoo.emit import SOURCE_STAGES, EmitCheck
from zoo.entry import SIZE_OF_LABEL
from zoo.recordings import python_lines

import pycandle as pc
from pycandle import GoldenRecorder
from pycandle.recording.eager import quiet_inference
from pycandle.recording.inputs import flatten_outputs

from .entry import Written

BACKENDS = ("reference", "cpu")
STAGES = (
    "record", *(f"{what}{backend}" for what in ("", "verify ") for backend in BACKENDS), *SOURCE_STAGES,
)  # fmt: skip


class PeopleCheck:
    """Called for each model, in a process of its own. Without `source` it stops before the source code."""

    def __init__(self, source: EmitCheck | None):
        self.source = source

    def __call__(self, entry: Written, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, folder, stages, facts))

    def _check(self, entry: Written, folder: Path, stages: Stages, facts: dict) -> None:
        model = stages.run("make", lambda: prepared_model(entry, 0))
        facts["parameters"] = sum(p.numel() for p in model.parameters())
        facts["python_lines"] = python_lines(model)
        recorder = GoldenRecorder(folder / "recording", dynamic=entry.dynamic)
        stages.run("record", lambda: _record(entry, model, recorder, facts))
        calls = [entry.call(model, sizes, seeded(10 + n)) for n, sizes in enumerate(facts["further"])]
        recorded = entry.call(model, entry.sizes, seeded(0))
        for backend in BACKENDS:
            loaded = stages.run(backend, lambda b=backend: pc.load_model(recorder.output_dir, backend=b))
            subject = Subject(entry, model, loaded, recorder)
            stages.run(backend, lambda s=subject: _agrees(s, recorded, calls))
        args, kwargs = calls[1]
        trace = stages.run("verify reference", lambda: recorder.add_goldens("further", *args, **kwargs))
        for backend in BACKENDS:
            for goldens in ((), ("--trace", str(trace))):
                words = ("--backend", backend, *goldens)
                stages.run(f"verify {backend}", lambda s=subject, w=words: verify(s.manifest, *w))
        if self.source:
            self.source.check_source(subject.manifest, folder, stages, facts)


def _record(entry: Written, model: torch.nn.Module, recorder: GoldenRecorder, facts: dict) -> None:
    args, kwargs = entry.call(model, entry.sizes, seeded(0))
    chosen = recorder.record(model, *args, **kwargs)
    recorder.save("model")
    facts["nodes"] = len(recorder.manifest["nodes"])
    facts["open"] = sorted({opened.group.label for opened in chosen.open})
    reasons = {f.group.label: f.reason for f in chosen.fixed if f.group.label not in entry.fixed}
    if reasons:
        raise Failed("fixed", "; ".join(f"{label}: {reason}" for label, reason in reasons.items()))
    wanted = {name for axes in entry.dynamic.values() for name in axes.values()} if isinstance(entry.dynamic, dict) else set()
    if missing := wanted - set(facts["open"]) - set(entry.fixed):
        raise Failed("fixed", f"not open: {', '.join(sorted(missing))}")
    opened = {SIZE_OF_LABEL.get(label, label) for label in facts["open"]}
    if wrong := opened - set(entry.sizes):
        raise Failed("entry", f"the open axes {', '.join(sorted(wrong))} have no size in the entry")
    minimums = {opened.group.label: opened.minimum for opened in chosen.open}
    facts["further"] = entry.further_sizes(set(facts["open"]), minimums)


def _agrees(subject: Subject, recorded: tuple, calls: list[tuple]) -> None:
    args, kwargs = recorded
    first = subject.agrees(kwargs, args, must_vary=True)
    others = [subject.agrees(kwargs, args) for args, kwargs in calls]
    for name, value in first.items():
        if name not in subject.entry.constant and all(_same(value, found[name]) for found in others):
            raise Failed("constant", f"{name} does not depend on the inputs")

    if len(subject.loaded.states):
        _states_live_on(subject, calls)


def _states_live_on(subject: Subject, calls: list[tuple]) -> None:
    """Calls in a row give the outputs and leave the states that they do in PyTorch."""
    model = copy.deepcopy(subject.model)
    subject.loaded.reset()
    for args, kwargs in calls:
        with quiet_inference(0):
            expected, names, _ = flatten_outputs(model(*args, **kwargs))
        found = subject.loaded(*args, **kwargs)
        buffers = dict(model.named_buffers())
        pairs = [(name, found[name], value) for name, value in zip(names, expected, strict=True)]
        for name, ours, theirs in [*pairs, *((n, s, buffers[n]) for n, s in subject.loaded.states.items())]:
            try:
                torch.testing.assert_close(torch.as_tensor(ours), theirs)
            except AssertionError as error:
                raise Failed("states", f"{name} after calls in a row: {error}") from None


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)
