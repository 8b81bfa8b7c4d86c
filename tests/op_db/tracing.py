"""A call as recording would write it down: traced, functionalised, composite operators kept; then a manifest in memory.

`torch.export` and `run_decompositions({})` take a tenth of a second each time; nearly all of it is setting up what a
trace needs. Here that is set up once (`as_recorded`), and a trace takes some milliseconds. A test shows that both come to
the same graph. What cannot be traced so is exported as the recorder does it, and only what fails there too is untraceable.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.export import exported_program
from torch.export._trace import _compiling_state_context, _ignore_backend_decomps
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pycandle import _core
from pycandle.recording.files.manifest import MANIFEST_VERSION
from pycandle.recording.graph.graph_writer import GraphWriter, Sources, op_name
from pycandle.recording.graph.program import Program, build_program, clean_graph, is_size, producer
from pycandle.recording.inputs import gather_inputs
from pycandle.recording.sizes.dims import DimNames
from pycandle.recording.tracing.exporting import export_model
from pycandle.recording.tracing.rnn_ops import recurrent_layers_stay_whole

from .judging import OpenPositions
from .randomness import random_problem

_aten = torch.ops.aten
# What they hold is whatever the memory held.
_UNINITIALISED = {
    f"aten.{name}"
    for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
}
# Tagged as random, and so only when this argument says it.
_RANDOM_WHEN = {
    "aten.scaled_dot_product_attention": "dropout_p",
    "aten.rrelu": "training",
    "aten.native_dropout": "train",
}
# Operators that choose among equal elements as it suits them: the number of the result that says which.
_OPEN_POSITIONS = {
    "aten.sort.default": 1,
    "aten.sort.stable": 1,
    "aten.argsort.default": 0,
    "aten.argsort.stable": 0,
    "aten.topk.default": 1,
    "aten.kthvalue.default": 1,
    "aten.median.dim": 1,
    "aten.nanmedian.dim": 1,
    "aten.mode.default": 1,
}


class Untraceable(Exception):
    """torch.export itself refuses the call."""


_recorded_form = contextlib.ExitStack()


@contextlib.contextmanager
def as_recorded():
    """The state in which `run_decompositions({})` traces."""
    _enter_recorded_form()
    try:
        yield
    finally:
        _recorded_form.close()


def _enter_recorded_form() -> None:
    kept_whole, _ = exported_program._split_decomp_table_to_cia_and_python_decomp({})
    _recorded_form.enter_context(warnings.catch_warnings())
    _recorded_form.enter_context(torch.no_grad())
    _recorded_form.enter_context(exported_program._override_composite_implicit_decomp(kept_whole))
    _recorded_form.enter_context(recurrent_layers_stay_whole())
    warnings.simplefilter("ignore")


@contextlib.contextmanager
def outside_recorded_form():
    """For torch.export, which enters that form itself: leaving it twice loses the rules of composite operators."""
    _recorded_form.close()
    try:
        yield
    finally:
        _enter_recorded_form()


@dataclass
class Traced:
    """A call in the recorded form."""

    graph: torch.fx.GraphModule
    inputs: list[tuple[torch.fx.Node, torch.Tensor]]
    outputs: list[torch.fx.Node]

    @property
    def overloads(self) -> list[str]:
        nodes = [n for n in self.graph.graph.nodes if n.op == "call_function" and not is_size(n)]
        return list(dict.fromkeys(op_name(n.target) for n in nodes if producer(n)[0] is n))

    @property
    def open_positions(self) -> OpenPositions | None:
        """The result whose positions ties leave open, when the program is one such operator."""
        nodes = [n for n in self.graph.graph.nodes if n.op == "call_function" and producer(n)[0] is n]
        if len(nodes) != 1 or op_name(nodes[0].target) not in _OPEN_POSITIONS:
            return None
        sources = dict(self.inputs)
        arguments = [a.name for a in nodes[0].target._schema.arguments]
        given = {**dict(zip(arguments, nodes[0].args, strict=False)), **nodes[0].kwargs}
        if given.get("stable") or given["self"] not in sources:
            return None
        return OpenPositions(
            _OPEN_POSITIONS[op_name(nodes[0].target)], sources[given["self"]], given.get("dim", -1)
        )

    def random_problem(self, results: list[torch.Tensor]) -> str | None:
        """What is wrong with random results, when the program is one operator of which something is known."""
        nodes = [n for n in self.graph.graph.nodes if n.op == "call_function" and producer(n)[0] is n]
        if len(nodes) != 1 or not isinstance(nodes[0].target, torch._ops.OpOverload):
            return None
        schema = nodes[0].target._schema
        given = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        given |= dict(zip((a.name for a in schema.arguments), nodes[0].args, strict=False)) | nodes[0].kwargs
        sources = dict(self.inputs)
        given = {name: sources.get(v, v) if isinstance(v, torch.fx.Node) else v for name, v in given.items()}
        if any(isinstance(v, torch.fx.Node) for v in given.values()):
            return None
        return random_problem(schema.name.split("::")[1], given, results)

    @property
    def has_free_values(self) -> bool:
        """Whether results are random or uninitialised: only their types can be compared."""
        return self.is_uninitialised or any(_is_random(n) for n in self._calls())

    @property
    def is_uninitialised(self) -> bool:
        return any(
            op_name(n.target).rsplit(".", 1)[0] in _UNINITIALISED and _has_elements(n) for n in self._calls()
        )

    def _calls(self) -> list[torch.fx.Node]:
        return [n for n in self.graph.graph.nodes if n.op == "call_function"]


def _has_elements(node: torch.fx.Node) -> bool:
    return 0 not in node.meta["val"].shape


def _is_random(node: torch.fx.Node) -> bool:
    name = op_name(node.target).rsplit(".", 1)[0]
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    if name not in _RANDOM_WHEN:
        return True
    arguments = (
        dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False)) | node.kwargs
    )
    return bool(arguments.get(_RANDOM_WHEN[name]))


def trace(function: Callable, tensors: list[torch.Tensor]) -> Traced:
    """`function` takes the tensors and returns a list of tensors."""
    try:
        return _traced(function, tensors)
    except Exception:
        return _exported(function, tensors)


class _Call(torch.nn.Module):
    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, tensors):
        return self.function(*tensors)


def _exported(function: Callable, tensors: list[torch.Tensor]) -> Traced:
    """The recorder's own way."""
    model = _Call(function)
    try:
        inputs = gather_inputs(inspect.signature(model.forward), (list(tensors),), {})
        with outside_recorded_form():
            program = build_program(export_model(model, inputs, [], {}), {})
    except Exception as error:
        # RecordingError: an explanation, and what torch said
        raise Untraceable(str(error.__cause__ or error).strip().splitlines()[0]) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # places in this file say nothing
    given = [(node, t) for node, t in zip(program.user_inputs, tensors, strict=True) if node is not None]
    given += [(node, parameter.tensor) for parameter in program.parameters for node in parameter.nodes]
    return Traced(program.module, given, program.outputs)


def _traced(function: Callable, tensors: list[torch.Tensor]) -> Traced:
    mode = FakeTensorMode(shape_env=ShapeEnv(), export=True)
    functional = dispatch_functionalize(function, FunctionalTensorMode(pre_dispatch=False, export=True))
    fakes = [mode.from_tensor(t, static_shapes=True) for t in tensors]
    with mode, _ignore_backend_decomps(), _compiling_state_context(), enable_python_dispatcher():
        traced = make_fx(functional, decomposition_table={}, _disable_torch_fn_metadata_mode=True)(*fakes)
    graph = traced.graph
    clean_graph(graph)
    for node in graph.nodes:
        if node.op == "call_function" and node.target is _aten.lift_fresh_copy.default:
            node.target = _aten.clone.default  # as torch.export writes a literal
    inputs = list(zip((n for n in graph.nodes if n.op == "placeholder"), tensors, strict=True))
    inputs += _constants_as_inputs(traced)
    output = next(n for n in graph.nodes if n.op == "output")
    return Traced(traced, inputs, list(output.args[0]))


def _constants_as_inputs(traced: torch.fx.GraphModule) -> list[tuple[torch.fx.Node, torch.Tensor]]:
    found = []
    for node in list(traced.graph.nodes):
        value = getattr(traced, node.target, None) if node.op == "get_attr" else None
        if not isinstance(value, torch.Tensor):
            continue
        value = getattr(value, "constant", None) if getattr(value, "constant", None) is not None else value
        with traced.graph.inserting_before(node):
            placeholder = traced.graph.placeholder(node.name)
        placeholder.meta["val"] = value
        node.replace_all_uses_with(placeholder)
        traced.graph.erase_node(node)
        found.append((placeholder, value))
    return found


def manifest_of(traced: Traced) -> str:
    program = Program(traced.graph, [], [], traced.outputs, [], {}, [], None)
    dims = DimNames()
    writer = GraphWriter(program, dims, Sources(keep_lines=False))
    inputs = [
        {"name": str(i), "value": writer.define(node), **writer.type_of(node.meta["val"])}
        for i, (node, _) in enumerate(traced.inputs)
    ]
    nodes = writer.write_nodes()
    outputs = [
        {"name": str(i), "value": writer.value_of(node), **writer.type_of(node.meta["val"])}
        for i, node in enumerate(traced.outputs)
    ]
    fields = {
        "format": "pycandle.manifest",
        "version": MANIFEST_VERSION,
        "name": "call",
        "symbols": [
            {"name": dims.names[s], "min": 0, "max": None, "example": None, "bound_by": None}
            for s in dims.data_bound
        ],
        "inputs": inputs,
        "outputs": outputs,
        "nodes": nodes,
        "graphs": writer.graphs,
    }
    return json.dumps(fields, allow_nan=False)


def run(traced: Traced, backend: str = "reference") -> list[torch.Tensor]:
    """What the backend makes of it."""
    model = _core.load_manifest(manifest_of(traced), backend)
    return run_model(model, [tensor for _, tensor in traced.inputs])


def run_model(model: _core.Model, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    ready = {str(i): contiguous(t) for i, t in enumerate(tensors)}
    found = model.forward(ready)
    return [torch.from_dlpack(found[str(i)]) for i in range(len(found))]


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous()
