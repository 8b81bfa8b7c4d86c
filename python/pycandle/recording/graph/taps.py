"""Taps: the values whose goldens are kept, each with an identity `path@call/output-path`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch

from ..inputs import Inputs
from ..sizes.dims import evaluate, symbol_of
from ..torch_compat import OpOverload, name_of
from ..tracing.module_calls import Slot
from .graph_writer import GraphWriter, flat_results
from .program import Program, producer


@dataclass
class Tap:
    """A value with an identity. `node` and `index` say which result it is."""

    id: str
    node: torch.fx.Node
    index: int
    value: int
    key: str
    shape: list[int] = field(default_factory=list)


def module_tap(path: str, call: int, side: str, names: Iterable[str] = ()) -> str:
    """`h.3.mlp@0/output.1`: what a module's call gave (side `output`) or was given (`input`). src/ir/tap_id.h has every form."""
    return ".".join([f"{path}@{call}/{side}", *names])


def node_tap(value: int) -> str:
    return f"{_NODE}{value}"


def is_node_tap(identity: str) -> bool:
    return identity.startswith(_NODE)


_NODE = "node:"


def choose_taps(writer: GraphWriter, inputs: list[dict], outputs: list[dict], level: str) -> list[Tap]:
    """Every value that crosses a module boundary (`modules`), every result (`all`), or none.

    Results of random operators, and choices on which sizes depend, are always among them: a verifier has to take their
    values from here. So is what random ones are drawn by, which is the last that can be judged.
    """
    program = writer.program
    keys = {entry["value"]: f"input:{entry['name']}" for entry in inputs}
    keys |= {
        entry["value"]: f"output:{entry['name']}" for entry in reversed(outputs) if entry["value"] not in keys
    }
    held = {writer.value_of(node) for p in program.parameters for node in p.nodes}
    taps: list[Tap] = []
    tapped: set[int] = set()

    def add(identity: str, node: torch.fx.Node | None) -> None:
        value = writer.value_of(node)
        if value is not None and value not in held:
            tapped.add(value)
            taps.append(Tap(identity, *producer(node), value, keys.setdefault(value, identity)))

    if level != "none":
        for call in program.calls:
            for path, slot in _slots(call.output):
                add(module_tap(call.path, call.number, "output", path), call.outputs[slot])
        for call in program.calls:
            for name, tree in call.arguments:
                for path, slot in _slots(tree):
                    if writer.value_of(call.inputs[slot]) not in tapped:
                        add(module_tap(call.path, call.number, "input", [name, *path]), call.inputs[slot])
    drawn_by = {
        writer.value_of(used)
        for node in program.graph.nodes
        if node.op == "call_function" and str(node.target) in _DRAWN_BY_VALUES and is_random(node)
        for used in node.all_input_nodes
    }
    choices = _choices(program.graph)
    for node, index, value in _node_values(writer):
        always = is_random(node) or value in drawn_by or (node, index) in choices
        if value not in tapped and (level == "all" or always):
            identity = node_tap(value)
            taps.append(Tap(identity, node, index, value, keys.setdefault(value, identity)))
    return taps


def _slots(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(tree, Slot):
        yield path, tree.index
    elif isinstance(tree, list):
        for i, item in enumerate(tree):
            yield from _slots(item, (*path, str(i)))
    elif isinstance(tree, dict) and "dict" in tree:
        for key, item in tree["dict"].items():
            yield from _slots(item, (*path, key))


def _node_values(writer: GraphWriter) -> Iterator[tuple[torch.fx.Node, int, int]]:
    for node in writer.program.graph.nodes:
        if node.op == "call_function" and producer(node)[0] is node:
            for index in range(len(flat_results(node))):
                if (node, index) in writer.values:
                    yield node, index, writer.values[(node, index)]


_NOT_RANDOM_WITHOUT = {
    "dropout": lambda node: node.args[2] and node.args[1] > 0,
    "native_dropout": lambda node: bool(node.args[2]) and node.args[1] > 0,
    "scaled_dot_product_attention": lambda node: (
        (node.args[4:5] or (node.kwargs.get("dropout_p", 0.0),))[0] > 0
    ),
    "rrelu": lambda node: (node.args[3:4] or (False,))[0],
}


# Others read nothing of a tensor but its shape: its values may be those of uninitialised memory.
_DRAWN_BY_VALUES = {
    "aten.multinomial.default",
    "aten.bernoulli.default",
    "aten.normal.Tensor_float",
    "aten.normal.float_Tensor",
    "aten.normal.Tensor_Tensor",
    "aten.poisson.default",
    "aten.native_dropout.default",
    "aten.rrelu.default",
}


def is_random(node: torch.fx.Node) -> bool:
    """Whether a node's value depends on the random generator."""
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    decide = _NOT_RANDOM_WITHOUT.get(name_of(target))
    return decide(node) if decide else True


_aten = torch.ops.aten
_ORDERS = (_aten.topk.default, _aten.sort.stable, _aten.sort.default)


def _choices(graph: torch.fx.Graph) -> set[tuple[torch.fx.Node, int]]:
    """Which elements a model whose sizes depend on data goes on with (`nonzero`, `nms`), and in which order.

    Rounding may turn a close choice around, and everything after it is then about other elements.
    """
    binding = [n for n in graph.nodes if n.op == "call_function" and n.meta.get("unbacked_bindings")]
    chosen = [n for n in binding if n.target is not _aten.slice.Tensor]
    choices = {(n, i) for n in chosen for i, tensor in enumerate(flat_results(n)) if tensor is not None}
    orders = [n for n in graph.nodes if n.target in _ORDERS] if choices else []
    return choices | {(n, 1) for n in orders}


def tap_bytes(tap: Tap, sizes: dict) -> int:
    """How much the tap's golden takes, from the symbols' sizes; 0 where data decides."""
    tensor = _recorded(tap)
    return tensor.dtype.itemsize * math.prod(evaluate(size, sizes) or 0 for size in tensor.shape)


def tap_shape(tap: Tap, sizes: dict) -> list[int] | None:
    """The shape of the tap's golden, from the symbols' sizes; None where data decides."""
    shape = [evaluate(size, sizes) for size in _recorded(tap).shape]
    return None if None in shape else shape


def _recorded(tap: Tap) -> torch.Tensor:
    return flat_results(tap.node)[tap.index] if tap.node.op == "call_function" else tap.node.meta["val"]


def symbol_sizes(program: Program, inputs: Inputs) -> dict:
    """torch's symbols with their sizes in these inputs."""
    sizes = {}
    for leaf, node in enumerate(program.user_inputs):
        if node is not None:
            for size, number in zip(node.meta["val"].shape, inputs.leaves[leaf].shape, strict=True):
                expression = symbol_of(size)
                if not isinstance(expression, int) and expression.is_Symbol:
                    sizes[expression] = number
    return sizes
