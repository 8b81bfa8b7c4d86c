"""GoldenRecorder: records a PyTorch model as a manifest, golden values and weights."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from ..errors import RecordingError, UsageError
from .checking.chain import Chosen, check_at, check_second_call, choose_program, is_meta
from .checking.checks import (
    check_repeatable,
    random_notes,
    refuse_active_dropout,
    refuse_hidden_updates,
    refuse_lost_states,
    refuse_memory_views,
    refuse_randomness_in_training,
    refuse_train_mode,
)
from .checking.evidence import Watch, other_inputs
from .eager import Eager
from .exported_elsewhere import record_exported_program
from .files.folders import check_writable, writing_into
from .files.gaps import Gap, gaps_of
from .files.goldens import Goldens, bytes_of, flat_tensors, write_goldens
from .files.manifest import Manifest, build_manifest, write_manifest
from .files.meta_buffers import buffers_on_meta, fill_buffers
from .files.tensor_files import raw_bytes
from .files.weights import place_weights
from .graph.interpreter import run_call
from .graph.program import Program
from .inputs import Inputs, gather_inputs, names_of_outputs
from .perturbation import is_perturbed
from .places import place_of_exception
from .preparation import prepared, unwrapped
from .processor import dtypes_of, make_bf16_safe, safe_for
from .progress import Progress
from .settings import active
from .sizes.dynamic import find_groups
from .torch_versions import untested
from .tracing.module_calls import class_name
from .tracing.scripted import forward_signature

_TAPS = ("modules", "all", "none")
_WEIGHTS = ("save", "ref", "none")
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$")


@dataclass
class Recording:
    """A sound program, the inputs it was recorded with, and what runs it in eager mode."""

    eager: Eager
    chosen: Chosen
    inputs: Inputs
    manifest: Manifest
    signature: inspect.Signature
    meta: bool
    output_digest: str | None
    second_inputs: Inputs | None  # of a second call in a row, when the model has states

    def safely(self):
        return safe_for(dtypes_of(self.eager.model, self.inputs.leaves))


@dataclass(frozen=True)
class Files:
    """What `save` wrote."""

    manifest: Path
    trace: Path
    weights: Path | None
    sizes: dict[str, int]
    notes: list[str]
    second_trace: Path | None = None  # of a second call in a row, when the model has states
    perturbed_traces: tuple[
        Path, ...
    ] = ()  # of other inputs, for layers that prove nothing at the recorded ones
    gaps: list[Gap] = field(default_factory=list)  # operators that nothing supports

    def moved_to(self, folder: Path) -> Files:
        moved = {name: folder / path.name for name, path in vars(self).items() if isinstance(path, Path)}
        perturbed = tuple(folder / path.name for path in self.perturbed_traces)
        return replace(self, **moved, perturbed_traces=perturbed)

    def __iter__(self):
        paths = (self.manifest, self.trace, self.second_trace, *self.perturbed_traces, self.weights)
        return iter(path for path in paths if path is not None)


class GoldenRecorder:
    """Records one model at a time.

        recorder = GoldenRecorder(output_dir="traces")
        recorder.record(model, x, mask=mask)
        recorder.save("my_model")

    taps            "modules": every value that crosses a module boundary; "all": every result; "none"
    golden_budget   most bytes of taps; outputs are always kept, and what is left out is noted
    dynamic         axes that stay open: None or True (batch, and sequence of tokens), False, "batch",
                    "all" (what the model leaves open), or {"input_ids": {0: "batch", 1: "seq"}}
    weights         "save", "ref" (name the safetensors files in `weights_files` they came from) or "none"
    source          whether source lines go into the manifest
    decompositions  {operator: function}: custom operators written in terms of others
    """

    def __init__(
        self,
        output_dir: str | Path = "pycandle_trace",
        taps: str = "modules",
        golden_budget: int | None = None,
        dynamic: object = None,
        weights: str = "save",
        weights_files: list[str | Path] | None = None,
        source: bool = True,
        seed: int = 0,
        progress: Progress | Callable[[str], None] | None = None,
        decompositions: dict | None = None,
    ):
        make_bf16_safe()
        if advice := untested(torch.__version__):
            warnings.warn(advice, stacklevel=2)
        overrides = active()
        chosen = overrides.options if overrides else {}
        taps, weights = chosen.get("taps", taps), chosen.get("weights", weights)
        if taps not in _TAPS:
            raise UsageError(f"taps={taps!r} is none of {', '.join(_TAPS)}")
        if weights not in _WEIGHTS:
            raise UsageError(f"weights={weights!r} is none of {', '.join(_WEIGHTS)}")
        self.output_dir = overrides.output_dir(Path(output_dir)) if overrides else Path(output_dir)
        self.taps = taps
        self.golden_budget = chosen.get("golden_budget", golden_budget)
        self.dynamic = chosen.get("dynamic", dynamic)
        self.weights = weights
        self.weights_files = [Path(file) for file in chosen.get("weights_files", weights_files) or []]
        self.source = chosen.get("source", source)
        self.seed = chosen.get("seed", seed)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise UsageError(f"seed={self.seed!r} is no whole number from 0 to {2**63 - 1}")
        progress = chosen.get("progress", progress)
        self.decompositions = dict(decompositions or {})
        self.progress = progress if isinstance(progress, Progress) else Progress(progress)
        self._recording: Recording | None = None

    # -- recording --

    def record(self, model: object, *args, **kwargs) -> Chosen:
        """Exports the model and proves that the exported program is the model; raises RecordingError if not."""
        self._recording = None
        check_writable(self.output_dir)
        if isinstance(model, (str, Path)):
            model = _load_pt2(Path(model))
        if isinstance(model, torch.export.ExportedProgram):
            with safe_for(dtypes_of(model, (args, kwargs, model.example_inputs))):
                self._recording = record_exported_program(self, model, args, kwargs)
            return self._recording.chosen
        if not isinstance(model, torch.nn.Module):
            raise UsageError(
                f"record takes an nn.Module, an ExportedProgram or a .pt2 file, not {type(model).__name__}"
            )
        notes: list[str] = []
        model = unwrapped(model, notes)
        refuse_options(forward_signature(model), kwargs, notes)
        safely = safe_for(dtypes_of(model, (args, kwargs)), notes)
        ready = prepared(model, args, kwargs, self.seed, notes)
        with safely, ready as (call_args, call_kwargs), buffers_on_meta(model) as real:
            self._recording = self._record_module(model, call_args, call_kwargs, notes, real)
        return self._recording.chosen

    def _record_module(
        self,
        model: torch.nn.Module,
        args: tuple,
        kwargs: dict,
        notes: list[str],
        real: dict[str, torch.Tensor],
    ) -> Recording:
        """real: of a meta model, the values of buffers that have some."""
        signature = inspect.signature(model.forward)
        inputs = gather_inputs(signature, args, kwargs)
        groups = find_groups(inputs, self.dynamic)
        meta = is_meta(inputs, model)
        refuse_train_mode(model, inputs, self.seed)
        eager = Eager(model, self.seed)
        with self.progress.step("running the model"):
            expected = _meta_run(eager, inputs) if meta else _first_run(eager, inputs)
            if not meta:
                check_repeatable(eager, inputs, expected, notes)
        exactly_these = isinstance(self.dynamic, dict)
        chosen = choose_program(
            eager, inputs, groups, expected, self.decompositions, self.progress, exactly_these
        )
        output_names = names_of_outputs(chosen.program.out_spec)
        refuse_active_dropout(chosen.program)
        refuse_memory_views(chosen.program)
        refuse_hidden_updates(chosen.program)
        refuse_randomness_in_training(model, chosen.program)
        if meta:
            notes += fill_buffers(model, chosen.program, real)
        notes += chosen.notes + chosen.program.notes + random_notes(chosen.program) + _literal_notes(inputs)
        return self.finish_recording(eager, chosen, inputs, output_names, signature, notes, meta)

    def finish_recording(self, eager, chosen, inputs, output_names, signature, notes, meta) -> Recording:
        if not meta:
            refuse_lost_states(eager, chosen.program, inputs)
        has_states = bool(chosen.program.states()) and not meta
        second = check_second_call(eager, chosen, inputs, notes) if has_states else None
        about = {
            "model": {
                "class": class_name(type(eager.model)),
                "seed": self.seed,
                "perturbed": is_perturbed(eager.model),
            },
            "soundness": {
                "status": "shapes-only" if meta else "verified",
                "checks": [vars(check) for check in chosen.checks],
            },
            "notes": notes,
            "taps": self.taps,
            "source": self.source,
        }
        manifest = build_manifest(chosen, inputs, output_names, about)
        digest = None if meta else self._digest(chosen, inputs)
        return Recording(eager, chosen, inputs.copied(), manifest, signature, meta, digest, second)

    def _digest(self, chosen: Chosen, inputs: Inputs) -> str:
        return _digest(*run_call(chosen.program, inputs.copied().leaves, self.seed))

    # -- files --

    def save(self, name: str) -> Files:
        """Writes `{name}_manifest.json`, `{name}_trace.safetensors` and `{name}_weights.safetensors`."""
        overrides = active()
        recording = self._needs_recording("save")
        name = overrides.file_name(name) if overrides else name
        _check_name(name)
        # Complete or not at all: an older recording of that name stays whole when this one fails.
        with recording.safely(), writing_into(self.output_dir), _workshop(self.output_dir) as workshop:
            made = self._write_files(recording, name, Path(workshop))
            for path in reversed(list(made)):  # the manifest last: it names the others
                os.replace(path, self.output_dir / path.name)
            for path in self.output_dir.glob(f"{name}_perturbed*_trace.safetensors"):
                if path.name not in made.sizes:  # of an older recording
                    path.unlink()
        files = made.moved_to(self.output_dir)
        files = replace(files, gaps=gaps_of(files.manifest))
        if overrides:
            overrides.saved.append((name, files, self))
        else:
            for gap in files.gaps:
                self.progress.say(f"not supported: {gap}")
        return files

    def _write_files(self, recording: Recording, name: str, folder: Path) -> Files:
        fields = dict(recording.manifest.fields)
        fields["notes"] = list(fields["notes"])
        sizes: dict[str, int] = {}
        trace = folder / f"{name}_trace.safetensors"
        with self.progress.step("writing goldens"):
            first = self._write_trace(recording, recording.inputs, trace, fields["notes"])
            if recording.output_digest not in (None, _digest(first.outputs, first.states)):
                raise RecordingError("the model was changed between record and save", None, "record it again")
            sizes[trace.name] = first.size
            fields["taps"] = [
                {"id": t.id, "value": t.value, "key": t.key, "shape": t.shape} for t in first.taps
            ]
            second = None
            if recording.second_inputs is not None:
                second = folder / f"{name}_second.safetensors"
                made = self._write_trace(recording, recording.second_inputs, second, [], first.states)
                sizes[second.name] = made.size
                first.vacuous &= made.vacuous
            perturbed = self._write_perturbed(recording, first, folder / name, fields["notes"], sizes)
        weights: Path | None = folder / f"{name}_weights.safetensors"
        with self.progress.step("writing weights"):
            size = place_weights(self, recording, fields, weights)
        if size is None:
            weights = None
        else:
            sizes[weights.name] = size
        fields["name"] = name
        fields["files"] = {"trace": trace.name, "weights": weights.name if weights else None}
        if second is not None:
            fields["files"]["second_trace"] = second.name
        if perturbed:
            fields["files"]["perturbed_traces"] = [path.name for path in perturbed]
        if self.weights == "ref":  # the reader lets parameters lie outside the folder only when told so
            fields["weights"] = "ref"
        manifest = folder / f"{name}_manifest.json"
        sizes[manifest.name] = write_manifest(manifest, fields)
        return Files(manifest, trace, weights, sizes, fields["notes"], second, perturbed)

    def _write_perturbed(
        self, recording: Recording, first: Goldens, stem: Path, notes: list[str], sizes: dict[str, int]
    ) -> tuple[Path, ...]:
        """Goldens of other inputs until every layer proves something, or no input helps. Weights are never changed."""
        missing, paths = set(first.vacuous), []
        if not missing:
            return ()
        manifest, budget = recording.manifest, None
        if self.golden_budget is not None:
            budget = self.golden_budget - bytes_of(first.taps, recording.chosen, recording.inputs)
        for inputs in other_inputs(recording.inputs, self.seed + 1):
            if not missing:
                break
            watch = self._watched(recording, inputs, missing, notes)
            gained = missing - watch.vacuous if watch else set()
            if not gained:
                continue
            if budget is not None:
                manifest = replace(manifest, taps=[t for t in manifest.taps if (t.node, t.index) in gained])
            path = stem.with_name(f"{stem.name}_perturbed{len(paths) + 1}_trace.safetensors")
            made = self._write_trace(replace(recording, manifest=manifest), inputs, path, [], budget=budget)
            if budget is not None:
                budget -= bytes_of(made.taps, recording.chosen, inputs)
            paths.append(path)
            sizes[path.name] = made.size
            missing -= gained
        if paths:
            notes.append(
                f"the recorded inputs prove nothing of {len(first.vacuous) - len(missing)} values (all zero, constant, "
                f"saturated): {len(paths)} perturbed inputs were recorded as well"
            )
        return tuple(paths)

    def _watched(self, recording: Recording, inputs: Inputs, missing: set, notes: list[str]) -> Watch | None:
        """What these inputs prove of values that prove nothing so far; None where the model does not take them."""
        watch = Watch(recording.chosen.program, missing)
        quietly = prepared(recording.eager.model, inputs.args, inputs.kwargs, self.seed, [])
        try:
            with quietly:
                run_call(
                    recording.chosen.program,
                    inputs.copied().leaves,
                    self.seed,
                    lambda node, value: watch.see(node, flat_tensors(value)),
                )
                if missing - watch.vacuous:
                    check_at(recording.eager, recording.chosen, inputs)
        except RecordingError as error:
            notes.append(f"at perturbed inputs the program is not the model: {str(error).splitlines()[0]}")
            return None
        except Exception:  # an index out of range, a number that must be positive
            return None
        return watch

    def _write_trace(
        self,
        recording: Recording,
        inputs: Inputs,
        path: Path,
        notes: list[str],
        states: dict | None = None,
        budget: int | None = None,
    ) -> Goldens:
        return write_goldens(
            path,
            recording.chosen,
            recording.manifest,
            inputs,
            self.seed,
            self.golden_budget if budget is None else budget,
            notes,
            recording.meta,
            states,
        )

    def add_goldens(self, name: str, *args, **kwargs) -> Path:
        """Writes `{name}_trace.safetensors`: the same taps of the same recording at other inputs."""
        recording = self._needs_recording("add_goldens")
        _check_name(name)
        quietly = prepared(recording.eager.model, args, kwargs, self.seed, [])
        with recording.safely(), quietly as (call_args, call_kwargs):
            inputs = gather_inputs(recording.signature, call_args, call_kwargs)
            _check_fits(recording, inputs)
            if not recording.meta:
                check_at(recording.eager, recording.chosen, inputs)
        path = self.output_dir / f"{name}_trace.safetensors"
        with recording.safely(), writing_into(self.output_dir):
            self._write_trace(recording, inputs, path, [])
        return path

    def refresh(self) -> None:
        """Takes over parameters and buffers that were changed in place since `record`, and proves the program anew."""
        recording = self._needs_recording("refresh")
        model = recording.eager.model
        if recording.meta:
            raise UsageError("a model without values has nothing to refresh")
        eager = Eager(model, self.seed)
        quietly = prepared(model, recording.inputs.args, recording.inputs.kwargs, self.seed, [])
        with recording.safely(), quietly:
            check_at(eager, recording.chosen, recording.inputs)
            digest = self._digest(recording.chosen, recording.inputs)
        recording.eager = eager
        recording.output_digest = digest

    @property
    def program(self) -> Program:
        return self._needs_recording("program").chosen.program

    @property
    def manifest(self) -> dict:
        """The manifest's fields as they will be saved (file names and taps are known at `save`)."""
        return self._needs_recording("manifest").manifest.fields

    def _needs_recording(self, what: str) -> Recording:
        if self._recording is None:
            raise UsageError(f"{what} comes after record")
        return self._recording


def refuse_options(signature: inspect.Signature, kwargs: dict, notes: list[str]) -> None:
    """Options of the recorder that were given to `record`, which passes what it gets on to the model."""
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for name in inspect.signature(GoldenRecorder).parameters:
        if name not in kwargs or name in signature.parameters:
            continue
        if not takes_any:
            raise UsageError(
                f"{name} is an option of the recorder: GoldenRecorder({name}=…).record(model, …); "
                f"record passes its arguments on to forward{signature}"
            )
        notes.append(f"{name} was passed on to the model; for the recorder it is GoldenRecorder({name}=…)")


def _first_run(eager: Eager, inputs: Inputs) -> list:
    try:
        return eager.run(inputs)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        place = place_of_exception(error)
        where = f"\n  at    {place}" if place else ""
        raise UsageError(
            f"the model itself fails on these inputs ({type(error).__name__}: {lines[0][:300]}){where}"
        ) from error


def _meta_run(eager: Eager, inputs: Inputs) -> list | None:
    """A model without values may run in eager mode, or look at a value and fail: then only export can say."""
    try:
        return eager.run(inputs)
    except Exception:
        return None


def _literal_notes(inputs: Inputs) -> list[str]:
    notes = []
    for name, leaf in zip(inputs.names, inputs.leaves, strict=True):
        if not isinstance(leaf, torch.Tensor) and leaf is not None:
            notes.append(f"{name} = {leaf!r} is baked in: only tensors are inputs of the program")
    return notes


def _digest(outputs: list, states: dict) -> str:
    digest = hashlib.sha256()
    for output in (*outputs, *states.values()):
        if isinstance(output, torch.Tensor):
            digest.update(raw_bytes(output))
    return digest.hexdigest()


def _workshop(folder: Path) -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix=".recording-", dir=folder)


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        raise UsageError(f"{name!r} is no name for files: letters, digits, _ . -")


def _check_fits(recording: Recording, inputs: Inputs) -> None:
    if inputs.names != recording.inputs.names:
        raise UsageError(f"inputs {', '.join(inputs.names)} instead of {', '.join(recording.inputs.names)}")
    open_axes = {axis for entry in recording.chosen.open for axis in entry.group.axes}
    for leaf, name, tensor in recording.inputs.tensors():
        other = inputs.leaves[leaf]
        if other.dtype != tensor.dtype or other.dim() != tensor.dim():
            raise UsageError(
                f"{name} is {other.dtype} with {other.dim()} axes instead of {tensor.dtype} with {tensor.dim()}"
            )
        for axis, (size, recorded) in enumerate(zip(other.shape, tensor.shape, strict=True)):
            if size != recorded and (leaf, axis) not in open_axes:
                raise UsageError(f"axis {axis} of {name} is fixed at {recorded}; found {size}")


def _load_pt2(path: Path) -> torch.export.ExportedProgram:
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    try:
        return torch.export.load(path)
    except Exception as error:
        raise UsageError(f"{path} is not an exported program: {error}") from error
