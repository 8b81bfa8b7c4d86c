"""The programs of a compiled model: one for each form of call."""

from __future__ import annotations

import contextlib
import inspect
import json
import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import _core
from ..errors import UsageError
from ..recording.eager import Eager
from ..recording.files.manifest import write_manifest
from ..recording.files.tensor_files import write_tensors
from ..recording.graph.program import INPUT_NOTE
from ..recording.inputs import Inputs, gather_inputs
from ..recording.preparation import CACHE_NOTE, materialise_lazy_modules, prepared
from ..recording.processor import PROBLEM, dtypes_of, safe_for
from ..recording.recorder import GoldenRecorder
from ..recording.settings import overriding
from ..recording.sizes.size_text import size_of
from ..recording.torch_compat import pytree
from ..running.backends import dump_dir, dumps_final, get_backend
from .call_form import CallForm, form_of
from .module_snapshot import ModuleSnapshot

MOST_PROGRAMS = 8
_STATES_FILE = "states.safetensors"
_recording = threading.RLock()  # recording changes torch while it lasts


@dataclass(frozen=True)
class Options:
    """Those of `compile`."""

    backend: str | None = None
    threads: int | None = None
    weights: str = "f32"
    overrides: Mapping[str, str] | None = None
    dynamic: object = None
    strict: bool = False


@dataclass(frozen=True)
class ProgramResult:
    """What the model returned when it was recorded, and which of its leaves a run fills in."""

    spec: pytree.TreeSpec
    leaves: list
    sizes: dict[int, str]  # leaves that are sizes: their text
    outputs: dict[int, str]  # leaves that are tensors, or bools of data (torch.equal): their names


@dataclass
class CallProgram:
    """A program with the form of the calls that it serves."""

    form: CallForm
    manifest: Path
    result: ProgramResult
    bound_by: dict[str, tuple[str, int]]  # size → (input, axis)
    core: _core.Model

    def nested(self, outputs: dict[str, Any], given: dict[str, torch.Tensor]) -> Any:
        """The outputs as the model returns them."""
        leaves = list(self.result.leaves)
        sizes = {name: given[tensor].shape[axis] for name, (tensor, axis) in self.bound_by.items()}
        for place, text in self.result.sizes.items():
            leaves[place] = size_of(text, sizes)
        for place, name in self.result.outputs.items():
            leaves[place] = bool(outputs[name]) if isinstance(leaves[place], bool) else outputs[name]
        return pytree.tree_unflatten(leaves, self.result.spec)


class CallPrograms:
    """Finds the program for a call, or records it. All programs have the same states.

    Whatever is recorded later is recorded as the module was when it was compiled.
    """

    def __init__(self, model: torch.nn.Module, signature: inspect.Signature, options: Options) -> None:
        self.signature = signature
        self.options = options
        self._module: torch.nn.Module | None = model  # for further programs
        self._as_compiled: ModuleSnapshot | None = None
        self._kept: list[CallProgram] = []  # the last used one last
        self._lock = threading.Lock()
        self._recorded = 0
        self._states: dict[str, torch.Tensor] = {}  # of all programs, as recorded
        self._folder = Path(tempfile.mkdtemp(prefix="pycandle-"))
        self.close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def last(self) -> CallProgram:
        with self._lock:
            return self._kept[-1]

    def program_for(self, args: tuple, kwargs: dict) -> CallProgram:
        form = form_of(self.signature, args, kwargs)
        if found := self._find(form):
            return found
        if self.options.strict and self._kept:
            raise UsageError(
                f"{form.difference(self._kept[0].form)}: with strict=True a compiled model takes only calls like the one "
                "that it was compiled with. Compile the model once more for this one, or leave strict out"
            )
        with _recording, _plain_torch():
            if found := self._find(form):  # another thread was quicker
                return found
            inputs = gather_inputs(self.signature, args, kwargs).copied()
            program = self._record(form, inputs)
            if self.options.strict:  # it is the only one
                self._module = self._as_compiled = None
            with self._lock:
                self._kept.append(program)
            self._make_room(form)
        return program

    def _find(self, form: CallForm) -> CallProgram | None:
        with self._lock:
            for place, program in enumerate(self._kept):
                if program.form == form:
                    self._kept.append(self._kept.pop(place))
                    return program
        return None

    def _make_room(self, form: CallForm) -> None:
        with self._lock:
            dropped = self._kept.pop(0) if len(self._kept) > MOST_PROGRAMS else None
        if dropped is None:
            return
        for file in self._folder.glob(f"{dropped.manifest.name.removesuffix('manifest.json')}*"):
            if file != self._weights():
                file.unlink()
        if self._recorded == MOST_PROGRAMS + 1:
            warnings.warn(
                f"calls of this compiled model needed more than {MOST_PROGRAMS} programs, and only so many are kept: "
                f"{form.difference(dropped.form)}. An argument that changes often should be a tensor",
                stacklevel=4,
            )

    # -- recording --

    def _weights(self) -> Path:
        """Those of the first program; the others refer to them."""
        return self._folder / "p0_weights.safetensors"

    def _record(self, form: CallForm, inputs: Inputs) -> CallProgram:
        with safe_for(dtypes_of(self._module, (inputs.args, inputs.kwargs))):
            return self._record_safely(form, inputs)

    def _record_safely(self, form: CallForm, inputs: Inputs) -> CallProgram:
        name = f"p{self._recorded}"
        if self._as_compiled is None:
            materialise_lazy_modules(self._module, inputs.args, inputs.kwargs, 0)
            self._as_compiled = ModuleSnapshot(self._module)
        recorder = GoldenRecorder(
            self._folder,
            taps="none",
            dynamic=self._dynamic(inputs),
            source=False,
            weights="ref" if self._weights().exists() else "save",
            weights_files=[self._weights()],
        )
        with overriding(None), self._as_compiled.in_force(self._module):
            recorder.record(self._module, *inputs.args, **inputs.kwargs)
            manifest = recorder.save(name).manifest
            fields = json.loads(manifest.read_text())
            result = self._result(fields, inputs)
        self._refuse_changed_weights(fields)
        for note in fields["notes"]:
            if note.startswith((INPUT_NOTE, PROBLEM)) or (
                note == CACHE_NOTE and inputs.kwargs.get("use_cache")
            ):
                warnings.warn(f"pycandle.compile: {note}", stacklevel=4)
        self._share_states(recorder)
        bound_by = {
            symbol["name"]: (symbol["bound_by"]["input"], symbol["bound_by"]["axis"])
            for symbol in fields["symbols"]
            if symbol["bound_by"]
        }
        program = CallProgram(form, manifest, result, bound_by, self._loaded(manifest))
        self._recorded += 1
        return program

    def _dynamic(self, inputs: Inputs) -> object:
        """Axes of inputs that the first call had and this one has not stay out."""
        dynamic = self.options.dynamic
        if not self._kept or not isinstance(dynamic, dict):
            return dynamic
        names = {name for _, name, _ in inputs.tensors()}
        return {name: axes for name, axes in dynamic.items() if name in names}

    def _result(self, fields: dict, inputs: Inputs) -> ProgramResult:
        with prepared(self._module, inputs.args, inputs.kwargs, 0, []) as (args, kwargs):
            call = gather_inputs(self.signature, args, kwargs)
            (done,) = Eager(self._module, 0).run_calls([call])
        leaves = done.outputs
        described = list(_leaves_of(fields["output_tree"]))
        filled = [place for place, entry in enumerate(described) if entry["kind"] != "literal"]
        names = [output["name"] for output in fields["outputs"]]
        sizes = {}
        for place, entry in enumerate(described):
            value = entry["value"]
            if entry["kind"] == "literal" and isinstance(value, dict) and "dim" in value:
                sizes[place] = value["dim"]
        kept = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return ProgramResult(done.spec, kept, sizes, dict(zip(filled, names, strict=True)))

    def _refuse_changed_weights(self, fields: dict) -> None:
        if self._recorded == 0:
            return
        for entry in fields["parameters"]:
            if entry["kind"] == "parameter" and entry["file"] != self._weights().name:
                raise UsageError(
                    f"the parameter {entry['name']} has changed since the model was compiled, so a call that needs another "
                    "program would use other weights than the calls before: compile the model again"
                )

    # -- states --

    def _share_states(self, recorder: GoldenRecorder) -> None:
        """A buffer that one program changes is a state of all: the others read what that one left."""
        new = {
            p.name: p.tensor.detach().clone() for p in recorder.program.states() if p.name not in self._states
        }
        if not new:
            return
        self._states |= new
        write_tensors(self._folder / _STATES_FILE, list(self._states.items()))
        with self._lock:
            kept = list(self._kept)
        for program in kept:
            program.core = self._loaded(program.manifest)

    def _loaded(self, manifest: Path) -> _core.Model:
        if self._states:
            fields = json.loads(manifest.read_text())
            for name in self._states:
                _make_state(fields, name)
            write_manifest(manifest, fields)
        options = self.options
        return _core.load_model(
            str(manifest),
            options.backend or get_backend(),
            options.threads or 0,
            weights=options.weights,
            overrides=dict(options.overrides or {}),
            dump_dir=dump_dir(),
            dump_final=dumps_final(),
        )


def _make_state(fields: dict, name: str) -> None:
    """Buffers of the module that a program reads, or does not use, are among its parameters."""
    entry = next((entry for entry in fields["states"] if entry["name"] == name), None)
    if entry is None:
        entry = next(entry for entry in fields["parameters"] if entry["name"] == name)
        fields["parameters"].remove(entry)
        entry = {key: entry[key] for key in ("name", "value", "dtype", "shape")}
        if entry["value"] is None:
            entry["value"] = _values(fields)
        fields["states"].append(entry)
    entry["file"], entry["key"] = _STATES_FILE, name


def _values(fields: dict) -> int:
    """How many values the program defines: their ids count up from 0."""
    defined = [entry["value"] for table in ("inputs", "parameters", "states") for entry in fields[table]]
    results = [result for node in fields["nodes"] for result in node["results"]]
    return sum(value is not None for value in [*defined, *results])


def _leaves_of(tree: dict) -> list[dict]:
    if "items" not in tree:
        return [tree]
    return [leaf for item in tree["items"] for leaf in _leaves_of(item)]


@contextlib.contextmanager
def _plain_torch():
    """A caller may have switched torch to modes in which it cannot export."""
    with torch.inference_mode(False), torch.no_grad():
        yield
