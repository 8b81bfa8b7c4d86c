"""torch.export as PyCandle uses it: non-strict, functionalised, composite operators kept, provenance complete."""

from __future__ import annotations

import contextlib
import inspect
import keyword
import linecache
import logging
import traceback
import warnings
from dataclasses import dataclass, field

import torch
from torch.export import Dim, ExportedProgram

from ...errors import RecordingError
from ..inputs import Inputs
from ..places import frames_of_text, is_user_file, place_of_exception, place_of_text
from ..sizes.float_sizes import FloatSizes
from ..torch_compat import (
    decomposed,
    export_prints_nothing,
    frames_chosen_by,
    grad_mode_ignored,
    is_plain_container,
    no_memory_of_shapes,
    pytree,
    recurrent_model_accepted,
    targets_written_by,
)
from .assigned_buffers import assigned_buffers_are_written
from .baked_values import baked_values
from .filter_ops import recursive_filters_stay_whole
from .module_calls import CallWatcher, ModuleCall
from .open_loops import loops_stay_open
from .packed import packed_by_lengths
from .patches import Patch, patched
from .quantizers import quantizers_as_they_are
from .rnn_ops import recurrent_layers_stay_whole
from .scripted import python_originals
from .specialisations import Frozen, Specialised, specialisations_into
from .stable_sorts import make_sorts_stable
from .stand_ins import stand_ins


@dataclass
class Exported:
    """An exported program with the module calls seen while it was traced."""

    program: ExportedProgram
    calls: list[ModuleCall] = field(default_factory=list)
    specialised: list[Specialised] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frozen: list[Frozen] = field(default_factory=list)
    floats: FloatSizes = field(default_factory=FloatSizes)


def export_model(
    model: torch.nn.Module, inputs: Inputs, dynamic: list[tuple[int, int]], decompositions: dict
) -> Exported:
    """Exports `model` with the given (leaf, axis) pairs left open."""
    specialised: list[Specialised] = []
    frozen: list[Frozen] = []
    notes: list[str] = []
    patches: list[Patch] = []
    floats = FloatSizes()
    fresh = inputs.copied()
    try:
        with contextlib.ExitStack() as changes:
            traced = changes.enter_context(python_originals(model))
            for change in _while_exporting(traced, patches, floats, notes):
                changes.enter_context(change)
            with (
                CallWatcher(traced).watching() as watcher,
                specialisations_into(specialised, frozen),
                stand_ins(notes),
                baked_values(traced, fresh) as seen,
                _named_signature(traced, seen) as signature,
            ):
                shapes = _dynamic_shapes(seen, dynamic, signature)
                program = torch.export.export(
                    traced, seen.args, seen.kwargs, strict=False, dynamic_shapes=shapes
                )
            _keep_traces_of_inner_graphs(program)
            program = decomposed(program, dict(decompositions))
            make_sorts_stable(program.graph_module)
    except RecordingError:
        raise
    except Exception as error:
        raise export_failure(error) from None  # a hundred lines of torch's own; `__context__` has them
    notes += [patch.note for patch in patches]
    return Exported(program, watcher.calls, specialised, notes, frozen, floats)


def _while_exporting(
    model: torch.nn.Module, patches: list[Patch], floats: FloatSizes, notes: list[str]
) -> list:
    """What is otherwise while torch traces and decomposes, in the order in which it begins."""
    return [
        quantizers_as_they_are(model),
        _quiet(),
        torch.no_grad(),
        recurrent_layers_stay_whole(),
        recurrent_model_accepted(model),
        packed_by_lengths(),
        loops_stay_open(model, notes),
        recursive_filters_stay_whole(),
        patched(patches),
        _full_provenance(),
        grad_mode_ignored(),
        keywords_as_names(),
        no_memory_of_shapes(),
        floats.watching(),
        assigned_buffers_are_written(model),
    ]


def functionalise(program: ExportedProgram, decompositions: dict) -> Exported:
    """The same form for a program that somebody else exported."""
    floats = FloatSizes()
    try:
        with (
            _quiet(),
            torch.no_grad(),
            grad_mode_ignored(),
            keywords_as_names(),
            floats.watching(),
        ):
            program = decomposed(program, dict(decompositions))
            make_sorts_stable(program.graph_module)
            return Exported(program, floats=floats)
    except Exception as error:
        raise export_failure(error) from None  # a hundred lines of torch's own; `__context__` has them


def _dynamic_shapes(inputs: Inputs, dynamic: list[tuple[int, int]], signature: inspect.Signature):
    if not dynamic:
        return None
    open_axes: dict[int, dict[int, object]] = {}
    for leaf, axis in dynamic:
        open_axes.setdefault(leaf, {})[axis] = Dim.AUTO
    flat = [open_axes.get(i) if isinstance(t, torch.Tensor) else None for i, t in enumerate(inputs.leaves)]
    args, kwargs = pytree.tree_unflatten([_Axes(f) for f in flat], inputs.spec)
    bound = signature.bind(*args, **kwargs)  # as torch groups them: *args under its one name
    return {name: _unwrapped(value) for name, value in bound.arguments.items()}


def _unwrapped(tree: object) -> object:
    """The axes, nested as torch.export asks for them: a dataclass (or what else is registered) as the list of its parts."""

    def visit(node: object) -> object:
        if isinstance(node, _Axes):
            return node.axes
        parts = pytree.SUPPORTED_NODES[type(node)].flatten_fn(node)[0]
        return type(parts)(_unwrapped(part) for part in parts)

    return pytree.tree_map(visit, tree, is_leaf=lambda t: not is_plain_container(t))


@contextlib.contextmanager
def _named_signature(model: torch.nn.Module, inputs: Inputs):
    """torch cannot open axes of what lands in `**kwargs`, so forward gets those names as arguments of its own."""
    signature = inputs.signature
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    extra = [name for name in inputs.kwargs if name not in {p.name for p in parameters}]
    if not extra:
        yield signature
        return
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in extra]
    original, own = model.forward, "forward" in model.__dict__

    def forward(*args, **kwargs):
        return original(*args, **kwargs)

    forward.__signature__ = inspect.Signature([*parameters, *named])
    model.forward = forward
    try:
        yield forward.__signature__
    finally:
        if own:
            model.forward = original
        else:
            del model.forward


class _Axes:
    """Keeps a dict of axes from being taken for a container."""

    def __init__(self, axes):
        self.axes = axes


@contextlib.contextmanager
def _quiet():
    """torch logs, warns and prints about things that the recorder handles or reports itself."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), export_prints_nothing():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def keywords_as_names():
    """torch writes `self.class.weight` into the code that it generates for nn.ModuleDict({"class": …})."""

    def format_target(base: str, target: str) -> str:
        for part in target.split("."):
            plain = part.isidentifier() and not keyword.iskeyword(part)
            base = f"{base}.{part}" if plain else f"getattr({base}, {part!r})"
        return base

    return targets_written_by(format_target)


@contextlib.contextmanager
def _full_provenance():
    """torch keeps only frames called `forward`; helpers are where most of a model's lines are."""
    _inner_traces.clear()
    with frames_chosen_by(_frames_that_matter):
        yield


_inner_traces: dict[str, str] = {}


def _frames_that_matter(summary: traceback.StackSummary) -> traceback.StackSummary:
    frames = list(summary)
    start = max((i for i, f in enumerate(frames) if f.filename == __file__), default=-1)
    below = frames[start + 1 :]
    if (kept := _frames_of_generated_code(below)) is not None:
        return kept
    chosen = [f for f in below if is_user_file(f.filename) or "/torch/nn/modules/" in f.filename]
    return traceback.StackSummary.from_list(_without_module_call(chosen))


def _without_module_call(frames: list) -> list:
    return [f for f in frames if not f.filename.endswith("torch/nn/modules/module.py")]


def _frames_of_generated_code(frames: list) -> traceback.StackSummary | None:
    """Autocast regions are run again from generated code, whose lines name the original nodes."""
    for frame in reversed(frames):
        if frame.filename.startswith("<eval_with_key>") and frame.line:
            trace = _inner_traces.get(frame.line.split("=")[0].strip())
            if trace:
                places = _parse(trace)
                return traceback.StackSummary.from_list(places)
    return None


def _parse(trace: str) -> list:
    return [
        (file, line, "forward", linecache.getline(file, line).strip()) for file, line in frames_of_text(trace)
    ]


def _keep_traces_of_inner_graphs(program: ExportedProgram) -> None:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule) and module is not program.graph_module:
            for node in module.graph.nodes:
                if trace := node.meta.get("stack_trace"):
                    _inner_traces.setdefault(node.name, trace)


# ---- one clear error when torch cannot export --------------------------------------------------------------

_HINTS = (
    (
        ("name 'nan' is not defined",),
        "an argument is NaN, which torch.export cannot take",
        "give it as a tensor, or keep it in an attribute of the module",
    ),
    (
        ("torch._C.Generator",),
        "numbers are drawn from a torch.Generator, which torch.export cannot take",
        "draw without generator=, so that torch's own seed decides",
    ),
    (
        ("torch.classes.quantized",),
        "the model holds weights that torch.ao.quantization.quantize_dynamic packed",
        "record the model before it is quantized; --weights int8 of bundle, verify and bench rounds them then",
    ),
    (
        ("_nested_tensor_", "NestedTensor"),
        "the model makes nested tensors, which torch.export cannot take",
        "pad the rows to one length, and pass a mask or the lengths beside them",
    ),
    (
        ("DynamicOutputShape",),
        "the sizes that this operator gives depend on data, and torch.export has no rule for them",
        "compute it with other operators (torch.linalg.pinv(a) @ b in place of lstsq), or leave it out of the model",
    ),
    (
        ("GuardOnDataDependentSymNode", "data-dependent", "DataDependentOutput"),
        "Python code depends on the values of a tensor",
        "use torch.where, masking or torch.cond instead of if / int() / .item() / .tolist() on tensor values",
    ),
    (
        ("Constraints violated", "CONSTRAINT_VIOLATION", "specializ"),
        "a size that should stay open is fixed by the model",
        "name the open axes with dynamic=, or dynamic=False",
    ),
    (
        ("were assigned during export", "attributes"),
        "the model keeps a tensor in an attribute while it runs",
        "register it as a buffer (register_buffer) and write into it, or return it",
    ),
    (
        ("Unsupported input type", "Unsupported output type", "pytree", "is not supported as input"),
        "an input or output is of a type that torch.export cannot look into",
        "pass and return tensors in tuples, lists, dicts or dataclasses, and values that do not change",
    ),
    (
        ("Expected FakeTensor, got",),
        "a function transform meets a tensor from outside it",
        "instead of torch.func.grad, vjp or jacrev use torch.autograd.grad inside `with torch.enable_grad()`",
    ),
    (
        (".numpy()", "numpy", "Cannot access data pointer", "FakeTensor"),
        "tensor values leave torch while the model runs",
        "keep the computation in torch operators",
    ),
)


def export_failure(error: Exception) -> RecordingError:
    """What went wrong, where in the user's Python, and what to do about it."""
    text = f"{type(error).__name__}: {error}"
    what, hint = "torch.export cannot trace the model", None
    for words, explanation, advice in _HINTS:
        if any(word in text for word in words):
            what, hint = explanation, advice
            break
    first_line = next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )
    place = place_of_exception(error) or place_of_text(str(error))
    return RecordingError(f"{what} ({type(error).__name__}: {first_line[:300]})", place, hint)
