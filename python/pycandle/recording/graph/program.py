"""The recorded program: the exported graph cleaned up, its inputs, parameters, states and outputs named."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from ...errors import RecordingError
from ..places import place_of_text
from ..torch_compat import memory_of
from ..tracing import fake_results  # noqa: F401  (types of results that torch.export would record wrong)
from ..tracing.exporting import Exported
from ..tracing.module_calls import ModuleCall, read_markers

INPUT_NOTE = "the model writes into its input"
_aten = torch.ops.aten
# Checks without results: the importer checks types itself.
_CHECKS = {
    _aten._assert_tensor_metadata.default,
    _aten._assert_scalar.default,
    _aten._assert_async.default,
    _aten._assert_async.msg,
    _aten.sym_constrain_range.default,
    _aten.sym_constrain_range_for_size.default,
    torch._check,
}


@dataclass
class Parameter:
    """A tensor that the program holds. `nodes` are its placeholders: a tied tensor has several."""

    name: str
    kind: str
    persistent: bool
    tensor: torch.Tensor
    aliases: list[str] = field(default_factory=list)
    nodes: list[torch.fx.Node] = field(default_factory=list)
    updated: torch.fx.Node | None = None


@dataclass
class Program:
    """A functional graph whose placeholders are known by what they stand for."""

    module: torch.fx.GraphModule
    user_inputs: list[torch.fx.Node | None]  # per leaf of the call
    parameters: list[Parameter]
    outputs: list[object]  # nodes, or constants that the model returned
    calls: list[ModuleCall]
    call_of_node: dict[torch.fx.Node, int]
    notes: list[str]
    out_spec: object

    @property
    def graph(self) -> torch.fx.Graph:
        return self.module.graph

    def states(self) -> list[Parameter]:
        return [p for p in self.parameters if p.updated is not None]


def producer(node: torch.fx.Node) -> tuple[torch.fx.Node, int]:
    """The node and the number of its result that `node` is: `getitem` only names a result of another node."""
    if node.op == "call_function" and node.target is operator.getitem and not is_size(node):
        source, index = node.args
        inner, offset = producer(source) if _is_getitem(source) else (source, 0)
        return inner, _flat_index(source, index) + offset
    return node, 0


def _is_getitem(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def _flat_index(source: torch.fx.Node, index: int) -> int:
    """Results are numbered flat: an operator may return (Tensor, Tensor[])."""
    value = source.meta.get("val")
    if not isinstance(value, (list, tuple)):
        return index
    index = index if index >= 0 else len(value) + index
    return sum(len(v) if isinstance(v, (list, tuple)) else 1 for v in value[:index])


def is_size(node: torch.fx.Node) -> bool:
    """Whether a node computes a Python number: those vanish from the manifest."""
    value = node.meta.get("val")
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def build_program(exported: Exported, names: dict[str, list[str]]) -> Program:
    """`names` are all names of each parameter and buffer by its first name."""
    ep = exported.program
    graph_module = ep.graph_module
    graph = graph_module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    output_node = next(node for node in graph.nodes if node.op == "output")
    call_of_node = read_markers(graph, exported.calls)
    clean_graph(graph)
    _forget_dead_values(graph, exported.calls)

    notes = list(exported.notes)
    canonical = {alias: first for first, all_names in names.items() for alias in all_names}
    user_inputs: list[torch.fx.Node | None] = []
    by_name: dict[str, Parameter] = {}
    for node, spec in zip(placeholders, ep.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            user_inputs.append(None if isinstance(spec.arg, ConstantArgument) else node)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            if _is_dense(node, spec.target):
                _add_parameter(by_name, node, spec, ep, canonical, names)
        else:
            raise RecordingError(
                f"the model holds an object that cannot be recorded: {spec.target} ({spec.kind.name})"
            )
    outputs = _read_outputs(ep, output_node, by_name, canonical, notes)
    call_of_node = {node: call for node, call in call_of_node.items() if node.graph is graph}
    return Program(
        graph_module,
        user_inputs,
        list(by_name.values()),
        outputs,
        exported.calls,
        call_of_node,
        notes,
        ep.call_spec.out_spec,
    )


def clean_graph(graph: torch.fx.Graph) -> None:
    """Removes checks, and all that no output needs."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _CHECKS:
            graph.erase_node(node)
    graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))


def _forget_dead_values(graph: torch.fx.Graph, calls: list[ModuleCall]) -> None:
    alive = set(graph.nodes)
    for call in calls:
        call.inputs = [node if node in alive else None for node in call.inputs]
        call.outputs = [node if node in alive else None for node in call.outputs]


def _is_dense(node: torch.fx.Node, name: str) -> bool:
    """False for a sparse tensor that nothing uses, which is left out of the program."""
    layout = node.meta["val"].layout
    if layout is torch.strided:
        return True
    if node.users:
        user = next(iter(node.users))
        raise RecordingError(
            f"{name} is a tensor of the layout {layout}: only dense ones can be recorded",
            place_of_text(user.meta.get("stack_trace")),
            f"make it dense before recording: {name}.to_dense()",
        )
    node.graph.erase_node(node)
    return False


def _add_parameter(by_name, node, spec, ep, canonical, names) -> None:
    name = canonical.get(spec.target, spec.target)
    if name not in by_name:
        if spec.target in ep.state_dict:
            tensor, persistent = ep.state_dict[spec.target], True
        else:
            tensor, persistent = ep.constants[spec.target], False
        kind = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}.get(spec.kind, "constant")
        aliases = [alias for alias in names.get(name, []) if alias != name]
        by_name[name] = Parameter(name, kind, persistent, tensor, aliases)
    by_name[name].nodes.append(node)


def _read_outputs(ep, output_node, by_name, canonical, notes) -> list[object]:
    outputs = []
    for value, spec in zip(output_node.args[0], ep.graph_signature.output_specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append(value)
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            by_name[canonical.get(spec.target, spec.target)].updated = value
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            notes.append(f"{INPUT_NOTE} {spec.target}; the program leaves inputs as they are")
        else:
            place = place_of_text(value.meta.get("stack_trace")) if isinstance(value, torch.fx.Node) else None
            raise RecordingError(f"the model writes into its parameter {spec.target}", place)
    return outputs


def names_of_tensors(model: torch.nn.Module) -> dict[str, list[str]]:
    """Every name of each parameter and buffer, by the first one: tied tensors have several."""
    first: dict[tuple, str] = {}
    names: dict[str, list[str]] = {}
    for kind in (model.named_parameters, model.named_buffers):
        for name, tensor in kind(remove_duplicate=False):
            names.setdefault(first.setdefault(_identity(tensor), name), []).append(name)
    return names


def _identity(tensor: torch.Tensor) -> tuple:
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    storage = memory_of(tensor)
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype
