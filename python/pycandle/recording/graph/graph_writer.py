"""The program's graph as manifest nodes: typed values, every argument of each overload, sizes as dim texts."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field

import sympy
import torch
from torch.fx import Node

from ...errors import RecordingError
from ..inputs import DTYPE_NAMES
from ..places import Place, place_of_text
from ..sizes.data_sizes import tie_slices
from ..sizes.dims import DimNames, InexpressibleDim, symbol_of
from ..torch_compat import HigherOrderOperator, OpOverload, name_of, overload_of, schema_of
from ..torch_compat.symbolic import expression_of, fixed_value
from ..tracing.module_calls import SizeSlot, Slot
from .data_numbers import DataNumbers
from .float_numbers import FloatNumbers
from .names import assigned_to
from .program import Program, is_size, producer

_READS_A_NUMBER = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)
_FLAG_NAMES = {
    torch.memory_format: "memory_format",
    torch.layout: "layout",
}


@dataclass
class Sources:
    """The table of source files; `lines` holds the lines that something refers to."""

    keep_lines: bool
    files: dict[str, dict[int, str]] = field(default_factory=dict)

    def index(self, place: Place | None) -> tuple[int | None, int | None]:
        if place is None:
            return None, None
        lines = self.files.setdefault(place.shown_file, {})
        lines[place.line] = place.source
        return list(self.files).index(place.shown_file), place.line

    def table(self) -> list[dict]:
        if not self.keep_lines:
            return [{"path": path} for path in self.files]
        return [
            {"path": path, "lines": {str(n): lines[n] for n in sorted(lines)}}
            for path, lines in self.files.items()
        ]


class GraphWriter:
    """Numbers the values of one program and writes its nodes."""

    def __init__(self, program: Program, dims: DimNames, sources: Sources):
        self.program = program
        self.dims = dims
        self.sources = sources
        self.graphs: list[dict] = []
        self.values: dict[tuple[Node, int], int] = {}
        self._count = 0

    # -- values --

    def define(self, node: Node, index: int = 0, value: int | None = None) -> int:
        """A new value id for a result of a node, or one more node for an id that exists (tied tensors)."""
        if value is None:
            value = self.new_value()
        self.values[(node, index)] = value
        return value

    def new_value(self) -> int:
        self._count += 1
        return self._count - 1

    def value_of(self, node: Node | None) -> int | None:
        return None if node is None else self.values.get(producer(node))

    def type_of(self, tensor: torch.Tensor, place: Place | None = None) -> dict:
        if tensor.dtype not in DTYPE_NAMES:
            raise RecordingError(f"the dtype {tensor.dtype} cannot be recorded", place)
        return {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": [self._dim(size, place) for size in tensor.shape],
        }

    def _dim(self, size: object, place: Place | None):
        try:
            return self.dims.write(size)
        except InexpressibleDim as error:
            raise RecordingError(str(error), place, "fix the axes it depends on with dynamic=") from error

    # -- nodes --

    def write_nodes(self) -> list[dict]:
        nodes: list[dict] = []
        numbers, floats = DataNumbers(self, nodes), FloatNumbers(self, nodes)
        for node in self.program.graph.nodes:
            if numbers.write(node) or floats.write(node):
                continue
            written = self._write_node(node)
            if written is not None:
                nodes.append(written)
        return nodes

    def _write_node(self, node: Node) -> dict | None:
        if node.op != "call_function" or is_size(node) or producer(node)[0] is not node:
            self._refuse_numbers_from_data(node)
            return None
        place = place_of_text(node.meta.get("stack_trace"))
        return self.written(node, place, op_name(node.target), self._arguments(node, place))

    def written(self, node: Node, place: Place | None, op: str, arguments: list[list]) -> dict:
        """The entry of `node` as this operator on these arguments."""
        results = self._results(node, place)
        return self.entry(op, arguments, results, self.program.call_of_node.get(node), place)

    def entry(self, op: str, arguments: list, results: list, call: int | None, place: Place | None) -> dict:
        file, line = self.sources.index(place)
        return {
            "op": op,
            "args": arguments,
            "results": results,
            "call": call,
            "file": file,
            "line": line,
            "assigned_to": assigned_to(place),
        }

    def _refuse_numbers_from_data(self, node: Node) -> None:
        if node.op == "call_function" and node.target in _READS_A_NUMBER:
            raise RecordingError(
                "a number is read out of a tensor (.item(), int(tensor) or float(tensor))",
                place_of_text(node.meta.get("stack_trace")),
                "keep it a tensor: the value would be baked in, or decide a size",
            )

    def _results(self, node: Node, place: Place | None) -> list[dict | None]:
        results = []
        for index, tensor in enumerate(flat_results(node)):
            if tensor is None:
                results.append(None)
            else:
                results.append({"value": self.define(node, index), **self.type_of(tensor, place)})
        return results

    def _arguments(self, node: Node, place: Place | None) -> list[list]:
        if isinstance(node.target, OpOverload):
            return self._schema_arguments(node, place)
        names = _parameters_of(node.target)
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        return [
            [name, self.encode(_tensors_only(node, value, place), place)] for name, value in given.items()
        ]

    def _schema_arguments(self, node: Node, place: Place | None) -> list[list]:
        arguments = []
        for position, argument in enumerate(schema_of(node.target).arguments):
            if position < len(node.args) and not argument.kwarg_only:
                value = node.args[position]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                raise RecordingError(f"{op_name(node.target)} lacks its argument {argument.name}", place)
            encoded = self.encode(_as_declared(value, argument.type), place)
            if argument.name == "groups" and isinstance(encoded, dict):
                raise RecordingError(
                    f"a convolution's number of groups depends on a size ({encoded['dim']})", place
                )
            arguments.append([argument.name, encoded])
        return arguments

    def encode(self, value: object, place: Place | None) -> object:
        """One argument as JSON. Nothing is turned into a string."""
        if isinstance(value, Node):
            return self._encode_node(value, place)
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            return self._encode_symbolic_number(value, place)
        if isinstance(value, (torch.SymInt, sympy.Basic)):
            return self._encode_size(value, place)
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return {"float": finite_or_text(value)}
        if isinstance(value, complex):
            return {"complex": [finite_or_text(value.real), finite_or_text(value.imag)]}
        if isinstance(value, (list, tuple)):
            return [self.encode(item, place) for item in value]
        return self._encode_flag(value, place)

    def _encode_flag(self, value: object, place: Place | None) -> dict:
        if isinstance(value, torch.dtype):
            if value not in DTYPE_NAMES:
                raise RecordingError(f"the dtype {value} cannot be recorded", place)
            return {"dtype": DTYPE_NAMES[value]}
        if isinstance(value, torch.device):
            return {"device": value.type}
        for kind, name in _FLAG_NAMES.items():
            if isinstance(value, kind):
                return {name: str(value).removeprefix("torch.").removesuffix("_format")}
        raise RecordingError(f"an argument of type {type(value).__name__} cannot be recorded", place)

    def _encode_node(self, node: Node, place: Place | None) -> object:
        if node.op == "get_attr":
            return {"graph": self._write_subgraph(node)}
        value = node.meta.get("val")
        if is_size(node) and (node, 0) not in self.values:
            return self.encode(value, place)
        source = (node, 0) if is_size(node) else producer(node)
        if source in self.values:
            return {"v": self.values[source]}
        count = len(flat_results(source[0]))
        return [{"v": self.values[(source[0], i)]} for i in range(count)]

    def _encode_size(self, value: object, place: Place | None) -> object:
        dim = self._dim(value, place)
        return dim if isinstance(dim, int) else {"dim": dim}

    def _encode_symbolic_number(self, value: object, place: Place | None) -> object:
        constant = fixed_value(value)
        if constant is None:
            raise RecordingError(
                f"a number computed from sizes or data ({expression_of(value)}) is an argument",
                place,
                "compute it with tensors, or fix the axes it depends on with dynamic=",
            )
        return self.encode(constant, place)

    # -- control flow --

    def _write_subgraph(self, node: Node) -> int:
        index = len(self.graphs)
        self.graphs.append({})
        module = self.program.module.get_submodule(node.target)
        inner = _SubgraphWriter(self, module)
        self.graphs[index] = inner.write()
        return index

    # -- module calls --

    def fill_tree(self, tree: object, nodes: list[Node | None]) -> object:
        """A tree from a module call with its tensors as values."""
        if isinstance(tree, Slot):
            value = self.value_of(nodes[tree.index]) if tree.index < len(nodes) else None
            return None if value is None else {"v": value}
        if isinstance(tree, SizeSlot):
            return self._encode_size(tree.expression, None)
        if isinstance(tree, dict):
            if "object" in tree:
                return tree
            return {"dict": {key: self.fill_tree(item, nodes) for key, item in tree["dict"].items()}}
        if isinstance(tree, list):
            return [self.fill_tree(item, nodes) for item in tree]
        return self.encode(tree, None)


class _SubgraphWriter(GraphWriter):
    """A branch or loop body: its own numbering, the outer one's dims, sources and graph list."""

    def __init__(self, outer: GraphWriter, module: torch.fx.GraphModule):
        inner = Program(module, [], [], [], [], {}, [], None)
        super().__init__(inner, outer.dims, outer.sources)
        self.graphs = outer.graphs

    def write(self) -> dict:
        inputs = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
                inputs.append({"value": self.define(node), **self.type_of(node.meta["val"])})
        nodes = self.write_nodes()
        output = next(node for node in self.program.graph.nodes if node.op == "output")
        results = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        return {"inputs": inputs, "nodes": nodes, "outputs": [self.value_of(node) for node in results]}


def finite_or_text(value: float) -> float | str:
    """JSON has no infinity and no NaN: "inf", "-inf", "nan"."""
    return value if math.isfinite(value) else str(value)


def flat_results(node: Node) -> list[torch.Tensor | None]:
    """The tensors that a node returns, flattened; None where it returns none."""
    value = node.meta.get("val")
    if value is None and node.users:
        value = _results_by_users(node)
    flat: list[torch.Tensor | None] = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        flat += item if isinstance(item, (list, tuple)) else [item]
    return [] if flat == [None] else [item if isinstance(item, torch.Tensor) else None for item in flat]


def _results_by_users(node: Node) -> list:
    """Control-flow operators may lack their own type; the `getitem`s that read them have it."""
    found = {user.args[1]: user.meta.get("val") for user in node.users if producer(user)[0] is node}
    return [found.get(i) for i in range(max(found) + 1)] if found else []


def op_name(target: object) -> str:
    if isinstance(target, OpOverload):
        return f"{target.namespace}.{name_of(target)}.{overload_of(target)}"
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target.name()}"
    return f"{getattr(target, '__module__', 'python')}.{getattr(target, '__name__', target)}"


def _parameters_of(target: object) -> list[str]:
    """Argument names of a control-flow operator."""
    function = target.__call__ if isinstance(target, HigherOrderOperator) else target
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _tensors_only(node: Node, value: object, place: Place | None) -> object:
    """The tensors among a control-flow operator's operands: its subgraphs know sizes by their dim texts.

    A number that a loop carries is another matter: it changes, so it is data.
    """
    if not isinstance(value, (list, tuple)):
        return value
    tensors = [item for item in value if isinstance(item, Node) and not is_size(item)]
    if len(tensors) < len(value) and "cond" not in op_name(node.target):
        raise RecordingError(
            f"{op_name(node.target)} carries a Python number",
            place,
            "carry a tensor, such as torch.tensor(0)",
        )
    return tensors


def _as_declared(value: object, declared: torch.Type) -> object:
    """An int given for a float argument is a float."""
    kind = str(declared)
    if type(value) is int and kind in ("float", "Optional[float]"):
        return float(value)
    if isinstance(value, (list, tuple)) and kind in ("List[float]", "Optional[List[float]]"):
        return [float(item) if type(item) is int else item for item in value]
    return value


def bound_symbols(program: Program, dims: DimNames) -> None:
    """Names the symbols in the order in which the inputs show them, and those of slices after what they are cut from."""
    tie_slices(program.graph, dims)
    for node in program.user_inputs:
        if node is not None:
            for size in node.meta["val"].shape:
                expression = symbol_of(size)
                if not isinstance(expression, int):
                    for symbol in sorted(dims.resolve(expression).free_symbols, key=str):
                        dims.name_input_symbol(symbol)
