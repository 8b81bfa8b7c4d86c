"""What one model must satisfy: it records, imports, runs, verifies, and agrees with PyTorch at further shapes."""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import pycandle as pc
from pycandle import GoldenRecorder, perturb
from pycandle.recording.eager import Eager, quiet_inference
from pycandle.recording.graph.interpreter import ROUNDOFF, run_program
from pycandle.recording.inputs import Inputs, gather_inputs
from pycandle.recording.preparation import prepared

from .entry import Entry

SEEDS = (0, 1)
RMS_FACTOR, MAX_FACTOR = 4.0, 16.0
NUMBERS = 64  # a floor is measured on so many: an output of fewer takes several jittered runs
PROGRAM = Path(os.environ.get("PYCANDLE_PROGRAM", Path(sys.executable).with_name("pycandle")))


class Failed(Exception):
    """`word` is the reason for the table; the message is all of it."""

    def __init__(self, word: str, detail: str):
        self.word = word
        super().__init__(detail)


class Refused(Failed):
    """By an error that says what is missing: that is in the table as well."""


def check(entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
    """The facts of a row. `at_stage` is told what is about to happen, for when this process does not survive it."""

    def why(stage: str | None, error: Exception) -> dict:
        if stage == "record" and (refusal := _refused_by_torch(entry, at_stage)):
            return {"status": "not exported", "reason": "export", "detail": refusal}
        return {"reason": _word_of(stage, error)}

    return judged(at_stage, lambda stages, facts: _check_both_seeds(entry, folder, stages, facts), why)


def judged(
    at_stage: Callable[[str], None],
    check: Callable[[Stages, dict], None],
    why: Callable[[str | None, Exception], dict] = lambda stage, error: {},
) -> dict:
    """The row of a check that runs in stages: passed, or which stage failed and how (`why` says it of an exception)."""
    facts: dict = {"stages": {}, "seconds_of": {}}
    stages = Stages(facts, at_stage)
    try:
        check(stages, facts)
        return {**facts, "status": "passed"}
    except Refused as refusal:
        return {
            **facts,
            "status": "refused",
            "reason": refusal.word,
            "detail": str(refusal),
            "stage": stages.now,
        }
    except Failed as failure:
        found = {"status": "failed", "reason": failure.word, "detail": str(failure)}
    except Exception as error:
        found = {"status": "failed", "reason": stages.now or "start", "detail": text_of(error)}
        found |= why(stages.now, error)
    if stages.now:
        facts["stages"][stages.now] = "failed"
    return {**facts, **found, "stage": stages.now}


class Stages:
    """Times each stage and remembers which one is running."""

    def __init__(self, facts: dict, at_stage: Callable[[str], None]):
        self.facts = facts
        self.at_stage = at_stage
        self.now: str | None = None

    def run(self, name: str, action: Callable[[], object]) -> object:
        self.now = name
        self.at_stage(name)
        started = time.monotonic()
        result = action()
        spent = self.facts["seconds_of"]
        spent[name] = round(spent.get(name, 0.0) + time.monotonic() - started, 2)
        self.facts["stages"][name] = "passed"
        return result


def _check_both_seeds(entry: Entry, folder: Path, stages: Stages, facts: dict) -> None:
    """Recorded with the values of the first seed; those of the second then go through the same program."""
    model = stages.run("make", lambda: prepared_model(entry, SEEDS[0]))
    facts["parameters"] = sum(p.numel() for p in model.parameters())
    recorder = GoldenRecorder(folder, dynamic=entry.dynamic)
    chosen = None
    for seed in SEEDS:
        recorded = inputs_of(entry, model, entry.sizes, seeded(seed))
        if chosen is None:
            chosen = stages.run("record", lambda i=recorded: recorder.record(model, **i))
            facts["nodes"] = len(recorder.manifest["nodes"])
            facts["open"] = sorted({opened.group.label for opened in chosen.open})
            facts["fixed"] = {f.group.label: f.reason for f in chosen.fixed}
            minimums = {opened.group.label: opened.minimum for opened in chosen.open}
            facts["further"] = entry.further_sizes(set(facts["open"]), minimums)
        else:
            stages.run("make", lambda s=seed: _take_values(model, prepared_model(entry, s)))
            stages.run("record", recorder.refresh)
        stages.run("record", lambda: recorder.save("model"))
        loaded = stages.run("import", lambda: pc.load_model(folder, backend="reference"))
        _check_values(Subject(entry, model, loaded, recorder), recorded, seed, facts["further"], stages)


def _take_values(model: torch.nn.Module, other: torch.nn.Module) -> None:
    """Puts the other's parameters and buffers into the model."""
    with torch.no_grad():
        for own, given in ((model.parameters(), other.parameters()), (model.buffers(), other.buffers())):
            for mine, theirs in zip(own, given, strict=True):
                mine.copy_(theirs)


def _check_values(subject: Subject, recorded: dict, seed: int, further: list[dict], stages: Stages) -> None:
    """With one set of values: the recorded inputs, then three further shapes."""
    stages.run("run", lambda: subject.agrees(recorded, must_vary=True))
    stages.run("verify", lambda: verify(subject.manifest))
    for number, sizes in enumerate(further):
        generator = seeded(100 * seed + 10 + number)
        if subject.random:  # what is drawn must be drawn once: goldens carry it over
            stages.run("shapes", lambda s=sizes, g=generator: subject.verifies(s, g))
        else:
            stages.run("shapes", lambda s=sizes, g=generator: subject.agrees(subject.inputs(s, g)))
    stages.run("elsewhere", lambda: subject.verifies(further[1], seeded(100 * seed + 50)))


def inputs_of(entry: Entry, model: torch.nn.Module, sizes: dict, generator: torch.Generator) -> dict:
    """The entry's inputs under forward's own names: where a model calls them otherwise, they go by position."""
    inputs = entry.inputs(sizes, generator)
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if takes_any or all(name in parameters for name in inputs):
        return inputs
    return dict(zip(parameters, inputs.values(), strict=False))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def prepared_model(entry: Entry, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = entry.make().eval()
    if not entry.real_weights:
        lazy = any(isinstance(p, torch.nn.UninitializedParameter) for p in model.parameters())
        if lazy:
            with quiet_inference(seed):
                model(*entry.inputs(entry.sizes, seeded(seed)).values())
        perturb(model, seed=seed)
    return model


def verify(manifest: Path, *extra: str) -> None:
    finished = subprocess.run(
        [PROGRAM, "verify", manifest, "--json", *extra], capture_output=True, text=True, check=False
    )
    if finished.returncode not in (0, 1):
        raise Failed(
            "verify", f"exit {finished.returncode}: {finished.stderr[-2000:] or finished.stdout[-2000:]}"
        )
    result = json.loads(finished.stdout)
    if error := result.get("error"):
        kind = Refused if error["code"] == "gap" else Failed
        raise kind(error.get("op", error["message"]), f"{error['message']}: {error.get('found', '')}")
    wrong = [layer for layer in result["layers"] if layer["verdict"] == "wrong here"]
    if result["status"] != "passed" or wrong:
        shown = "; ".join(f"{w['tap']} ({w['op']}): {w['why']}" for w in wrong[:3])
        raise Failed("wrong", f"{len(wrong)} of {len(result['layers'])} taps wrong: {shown}")
    if not result["layers"]:
        raise Failed("untapped", "nothing was judged")


class Subject:
    """A model in PyTorch beside the same model loaded from its recording."""

    def __init__(self, entry: Entry, model: torch.nn.Module, loaded: pc.Model, recorder: GoldenRecorder):
        self.entry = entry
        self.model = model
        self.loaded = loaded
        self.recorder = recorder
        self.random = any(note.startswith("random:") for note in recorder.manifest["notes"])
        self.manifest = recorder.output_dir / "model_manifest.json"

    def inputs(self, sizes: dict, generator: torch.Generator) -> dict:
        return inputs_of(self.entry, self.model, sizes, generator)

    def agrees(self, call: dict, args: tuple = (), must_vary: bool = False) -> dict[str, torch.Tensor]:
        """Our outputs are PyTorch's: no further from the program in double precision than rounding explains."""
        with prepared(self.model, args, call, 0, []) as (args, kwargs):
            inputs = gather_inputs(inspect.signature(self.model.forward), args, kwargs)
            eager = [t for t in Eager(self.model, 0).run(inputs) if isinstance(t, torch.Tensor)]
        names = [info.name for info in self.loaded.outputs]
        wanted = {info.name for info in self.loaded.inputs}
        given = {name: tensor for _, name, tensor in inputs.tensors() if name in wanted}
        self.loaded.reset()
        outputs = self.loaded.forward(**given)
        if len(names) != len(eager):
            raise Failed("outputs", f"{len(names)} outputs instead of {len(eager)}")
        if must_vary:
            self._not_constant(names, eager)
        if self.random:
            return outputs
        judge = _Judge(self.recorder.program, inputs)
        for index, (name, theirs) in enumerate(zip(names, eager, strict=True)):
            if trouble := judge.trouble(index, outputs[name], theirs):
                raise Failed("disagrees", f"{name} at {inputs.shapes()}: {trouble}")
        return outputs

    def _not_constant(self, names: list[str], eager: list[torch.Tensor]) -> None:
        varied = 0
        for name, value in zip(names, eager, strict=True):
            if not (value.is_floating_point() or value.is_complex()) or value.numel() < 2:
                varied += 1
                continue
            flat = (torch.view_as_real(value) if value.is_complex() else value).reshape(-1).double()
            flat = flat[torch.isfinite(flat)]
            if flat.numel() > 1 and (flat.max() - flat.min()) > 1e-4 * flat.abs().max():
                varied += 1
            elif name not in self.entry.constant:
                raise Failed("constant", f"{name} is constant: a comparison would see nothing")
        if not varied:
            raise Failed("constant", "no output varies")

    def verifies(self, sizes: dict, generator: torch.Generator) -> None:
        """Tap by tap at other inputs; adding goldens also compares the recorded program with the model there."""
        trace = self.recorder.add_goldens("further", **self.inputs(sizes, generator))
        verify(self.manifest, "--trace", str(trace))


class _Judge:
    """Rounding floors from the recorded program, run in torch in double precision and, if need be, jittered."""

    def __init__(self, program, inputs: Inputs):
        self.program = program
        self.inputs = inputs
        self._draws: list[list[torch.Tensor]] = []

    def trouble(self, index: int, ours: torch.Tensor, theirs: torch.Tensor) -> str | None:
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{ours.dtype} {list(ours.shape)} instead of {theirs.dtype} {list(theirs.shape)}"
        if torch.equal(ours, theirs):
            return None
        if not (theirs.is_floating_point() or theirs.is_complex()):
            return f"differs in {(ours != theirs).sum().item()} of {theirs.numel()} places"
        unit = ROUNDOFF[_real(theirs).dtype]
        ours, theirs, exact = (_real(t).double() for t in (ours, theirs, self.exact[index]))
        finite = torch.isfinite(theirs)
        if not torch.equal(torch.nan_to_num(ours[~finite]), torch.nan_to_num(theirs[~finite])):
            return "NaN or infinity elsewhere than in PyTorch"
        ours, theirs, exact = (t[finite] for t in (ours, theirs, exact))
        if not torch.isfinite(ours).all():
            return "NaN or infinity where PyTorch has a number"
        if _beyond_rounding(ours, theirs, exact, exact, unit) is None:
            return None
        # PyTorch may have come close by chance: what rounding does to the program is a floor, too.
        # One draw says little about a few numbers: it may come close by chance, too.
        draws = self.moved(math.ceil(NUMBERS / max(1, exact.numel())))
        moved = torch.stack([_real(draw[index]).double()[finite] for draw in draws])
        return _beyond_rounding(ours, theirs, exact, moved, unit)

    @functools.cached_property
    def exact(self) -> list[torch.Tensor]:
        return self._wide_run(None)

    def moved(self, count: int) -> list[list[torch.Tensor]]:
        for seed in range(len(self._draws), count):
            self._draws.append(self._wide_run(torch.Generator().manual_seed(seed)))
        return self._draws[:count]

    def _wide_run(self, jitter: torch.Generator | None) -> list[torch.Tensor]:
        found = run_program(self.program, self.inputs.copied().leaves, 0, wide=True, jitter=jitter)
        return [t for t in found if isinstance(t, torch.Tensor)]


def _beyond_rounding(ours, theirs, exact, moved, unit: float) -> str | None:
    scale = _rms(exact)
    floor = max(_rms(theirs - exact), _rms(moved - exact), unit * scale)
    highest = max(_top(theirs - exact), _top(moved - exact), unit * _top(exact))
    error, largest = _rms(ours - exact), _top(ours - exact)
    if floor > 1e-2 * scale:
        # A decision fell the other way in double precision; then the two runs in single precision must agree.
        error, floor = _rms(ours - theirs), 1e-4 * _rms(theirs)
        largest, highest = _top(ours - theirs), 1e-3 * _rms(theirs)
    if error <= RMS_FACTOR * floor and largest <= MAX_FACTOR * highest:
        return None
    return f"error {error:.3g} (largest {largest:.3g}) against a floor of {floor:.3g} ({highest:.3g}), scale {scale:.3g}"


def _real(t: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def _rms(t: torch.Tensor) -> float:
    return t.square().mean().sqrt().item() if t.numel() else 0.0


def _top(t: torch.Tensor) -> float:
    return t.abs().max().item() if t.numel() else 0.0


# ---- why it failed --------------------------------------------------------------------------------------------

_WORDS = (  # text in the message → the reason in a word
    ("is not supported", "operator"),
    ("not the model", "unsound"),
    ("another output when the same input", "unrepeatable"),
    ("keeps a value computed from an earlier input", "memory"),
    ("the model itself fails", "input"),
    ("cannot trace", "export"),
    ("Python code depends on the values", "export"),
    ("is random", "random"),
)


def _word_of(stage: str | None, error: Exception) -> str:
    text = str(error)
    return next((word for sign, word in _WORDS if sign in text), stage or type(error).__name__)


def text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _refused_by_torch(entry: Entry, at_stage: Callable[[str], None]) -> str | None:
    """What torch.export alone says to the same example; None when it exports."""
    at_stage("torch.export alone")
    model = prepared_model(entry, 0)
    inputs = inputs_of(entry, model, entry.sizes, seeded(0))
    with prepared(model, (), inputs, 0, []) as (_, kwargs), torch.no_grad():
        try:
            torch.export.export(model, (), kwargs)
        except Exception as error:
            return text_of(error)
    return None
