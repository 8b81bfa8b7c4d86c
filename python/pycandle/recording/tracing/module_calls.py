"""Which module calls happened, on which values.

While torch traces, a hook at the start and the end of each module's forward puts a marker operator into the
graph: `pycandle::mark(tensors, number)`. Functionalisation treats it like any other reader of those tensors, so
after it the markers hold exactly the values that crossed the module's boundary, in-place writes included. The
markers also bracket the nodes of the call. They are read and removed before anything is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from dataclasses import dataclass, field
from functools import partial

import sympy
import torch

from ..places import Place, place_of_call
from ..sizes.dims import symbol_of
from ..torch_compat import inside_vmap
from .packed import PaddedSequences

_library = torch.library.Library("pycandle", "FRAGMENT")
_library.define("mark(Tensor[] values, int number) -> ()")
_library.impl("mark", lambda values, number: None, "CompositeExplicitAutograd")
torch.library.register_fake("pycandle::mark", lambda values, number: None, lib=_library)
MARK = torch.ops.pycandle.mark.default
torch.fx.node.has_side_effect(MARK)  # or it would be removed as unused


@dataclass(frozen=True)
class Slot:
    """A tensor in an argument tree: the n-th tensor of the marker; later, the node that computes it."""

    index: int


@dataclass(frozen=True)
class SizeSlot:
    """A symbolic size in an argument tree."""

    expression: sympy.Expr


@dataclass
class ModuleCall:
    """One call of one module. `inputs` and `outputs` become graph nodes once the markers have been read."""

    path: str
    number: int
    module: torch.nn.Module | None
    class_name: str
    parent: int | None
    place: Place | None = None  # of the call, in the module around it
    arguments: list[tuple[str, object]] = field(default_factory=list)
    output: object = None
    inputs: list[torch.fx.Node | None] = field(default_factory=list)
    outputs: list[torch.fx.Node | None] = field(default_factory=list)


class CallWatcher:
    """Listens to the module calls of one trace."""

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.calls: list[ModuleCall] = []
        self._open: list[int] = []
        self._counts: dict[str, int] = {}

    @contextlib.contextmanager
    def watching(self):
        handles = []
        for path, module in self.model.named_modules():
            entering, leaving = partial(self._enter, path, module), partial(self._leave, path)
            handles.append(module.register_forward_pre_hook(entering, prepend=True, with_kwargs=True))
            handles.append(module.register_forward_hook(leaving, with_kwargs=True))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, path, module, _traced, args, kwargs):
        # Inside vmap a marker has no meaning: the values there are slices of the real ones.
        if torch.compiler.is_dynamo_compiling() or inside_vmap():
            return
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        parent = self._open[-1] if self._open else None
        call = ModuleCall(path, number, module, class_name(type(module)), parent, place_of_call())
        tensors: list[torch.Tensor] = []
        call.arguments = [(n, encode_tree(v, tensors)) for n, v in _named_arguments(module, args, kwargs)]
        self._open.append(len(self.calls))
        self.calls.append(call)
        torch.ops.pycandle.mark(tensors, 2 * self._open[-1])

    def _leave(self, path, _traced, args, kwargs, output):
        if torch.compiler.is_dynamo_compiling() or inside_vmap():
            return
        # A call that raised and was caught by the model never left: it ends with its caller.
        while self._open and self.calls[self._open[-1]].path != path:
            self._open.pop()
        if not self._open:
            return
        index = self._open.pop()
        tensors: list[torch.Tensor] = []
        self.calls[index].output = encode_tree(output, tensors)
        torch.ops.pycandle.mark(tensors, 2 * index + 1)


def class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _named_arguments(module, args, kwargs) -> list[tuple[str, object]]:
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return [*((str(i), a) for i, a in enumerate(args)), *kwargs.items()]
    named = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named += [(f"{name}.{i}", item) for i, item in enumerate(value)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named += value.items()
        else:
            named.append((name, value))
    return named


def encode_tree(value: object, tensors: list[torch.Tensor], depth: int = 0) -> object:
    """A tree of JSON-like values in which each tensor is a Slot; `tensors` collects them."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return Slot(len(tensors) - 1)
    if isinstance(value, torch.SymInt):
        size = symbol_of(value)
        return size if isinstance(size, int) else SizeSlot(size)
    if value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.device)):
        return value
    if depth > 20:
        return {"object": class_name(type(value))}
    if isinstance(value, dict):
        return {"dict": {str(key): encode_tree(item, tensors, depth + 1) for key, item in value.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return encode_tree(fields, tensors, depth)
    if isinstance(value, PaddedSequences):
        value = [value.padded, value.lengths]
    if isinstance(value, tuple) and hasattr(
        value, "_asdict"
    ):  # a named tuple: outputs have its fields' names, too
        return encode_tree(value._asdict(), tensors, depth)
    if isinstance(value, (list, tuple)):
        return [encode_tree(item, tensors, depth + 1) for item in value]
    return {"object": class_name(type(value))}


def read_markers(graph: torch.fx.Graph, calls: list[ModuleCall]) -> dict[torch.fx.Node, int]:
    """Fills in the values of each call, removes the markers, and says which call each node belongs to."""
    call_of_node: dict[torch.fx.Node, int] = {}
    inside: list[int] = []
    for node in list(graph.nodes):
        if node.target is not MARK:
            if node.op == "call_function" and inside:
                call_of_node[node] = inside[-1]
            continue
        values, number = node.args
        index, leaving = divmod(number, 2)
        if leaving:
            calls[index].outputs = list(values)
            if index in inside:
                del inside[inside.index(index) :]
        else:
            calls[index].inputs = list(values)
            inside.append(index)
        graph.erase_node(node)
    return call_of_node
