"""Integers that a model reads out of tensors (`.item()`, `.tolist()`) and cuts other tensors by.

Such a number is data: the manifest keeps it as the 0-d tensor that it was read from, and arithmetic on it as operators on
0-d tensors. `x[:n]`, `x.split(sizes.tolist())` and `x.tensor_split(places)` take them. Anywhere else (a shape, a Python `if`) a
number cannot be data, and the recorder refuses it as before.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.item.default)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# What takes such numbers, and as which arguments.
_TAKERS = {
    _aten.slice.Tensor: (2, 3),
    _aten.split_with_sizes.default: (1,),
}
_ARITHMETIC = {
    operator.add: ("aten.add.Tensor", "i64"),
    operator.sub: ("aten.sub.Tensor", "i64"),
    operator.mul: ("aten.mul.Tensor", "i64"),
    operator.lt: ("aten.lt.Tensor", "bool"),
    operator.le: ("aten.le.Tensor", "bool"),
    operator.gt: ("aten.gt.Tensor", "bool"),
    operator.ge: ("aten.ge.Tensor", "bool"),
    operator.eq: ("aten.eq.Tensor", "bool"),
    operator.and_: ("aten.bitwise_and.Tensor", "bool"),
    operator.or_: ("aten.bitwise_or.Tensor", "bool"),
    torch.sym_ite: ("aten.where.self", "i64"),
}
_ARGUMENTS = {"aten.where.self": ("condition", "self", "other")}
_WITH_ALPHA = ("aten.add.Tensor", "aten.sub.Tensor")


class DataNumbers:
    """Writes numbers that are data into `nodes` as 0-d tensors, where all that uses them can take them so."""

    def __init__(self, writer, nodes: list[dict]):
        self.writer = writer
        self.nodes = nodes
        graph = writer.program.graph if writer.program is not None else None
        self.numbers = _expressible(graph) if graph is not None else set()

    def write(self, node: Node) -> bool:
        """Whether `node` is such a number; it is written then."""
        if node not in self.numbers:
            return False
        if node.target in _READS:
            source = node.args[0]
            number = self._operator(
                "aten.view.default", [["self", self._tensor(source)], ["size", []]], _dtype(source)
            )
            if _dtype(source) != "i64":
                number = self._cast(number)
            self.writer.define(node, 0, number)
        else:
            self.writer.define(node, 0, self._arithmetic(node))
        return True

    def _arithmetic(self, node: Node) -> int:
        name, dtype = _ARITHMETIC[node.target]
        operands = [self._operand(argument) for argument in node.args]
        names = _ARGUMENTS.get(name, ("self", "other"))
        arguments = [[n, v] for n, v in zip(names, operands, strict=True)]
        if name in _WITH_ALPHA:
            arguments.append(["alpha", 1])
        return self._operator(name, arguments, dtype)

    def _operand(self, argument: object) -> dict:
        if isinstance(argument, Node) and (argument, 0) in self.writer.values:
            return {"v": self.writer.values[(argument, 0)]}
        value = argument.meta["val"] if isinstance(argument, Node) else argument
        fields = [
            ["s", self.writer.encode(value, None)],
            ["dtype", {"dtype": "bool" if isinstance(value, bool) else "i64"}],
        ]
        fields += [["layout", None], ["device", None], ["pin_memory", None]]
        return {"v": self._operator("aten.scalar_tensor.default", fields, fields[1][1]["dtype"])}

    def _cast(self, number: int) -> int:
        fields = [
            ["self", {"v": number}],
            ["dtype", {"dtype": "i64"}],
            ["non_blocking", False],
            ["copy", False],
        ]
        return self._operator("aten.to.dtype", [*fields, ["memory_format", None]], "i64")

    def _tensor(self, node: Node) -> object:
        return self.writer.encode(node, None)

    def _operator(self, name: str, arguments: list, dtype: str) -> int:
        value = self.writer.new_value()
        result = {"value": value, "dtype": dtype, "shape": []}
        self.nodes.append(self.writer.entry(name, arguments, [result], None, None))
        return value


def _dtype(node: Node) -> str:
    return {torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8"}[
        node.meta["val"].dtype
    ]


def _expressible(graph: torch.fx.Graph) -> set[Node]:
    """The integers read from tensors, and what is computed from them, that nothing uses in a place that needs a number."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target in _READS:
            source = node.args[0].meta.get("val")
            if isinstance(source, torch.Tensor) and source.dtype in _INTEGERS and source.numel() == 1:
                found.add(node)
        elif node.target in _ARITHMETIC and any(argument in found for argument in node.args):
            found.add(node)
    while unfit := [n for n in found if not all(_takes(user, n, found) for user in n.users)]:
        found.difference_update(unfit)
    # What is computed from a number that did not stay cannot stay either.
    while unfit := [n for n in found if n.target not in _READS and not _is_computed(n, found)]:
        found.difference_update(unfit)
    return found


def _is_computed(node: Node, found: set[Node]) -> bool:
    return all(argument in found or not _reads_data(argument) for argument in node.all_input_nodes)


def _reads_data(node: Node) -> bool:
    pending, seen = [node], set()
    while pending:
        here = pending.pop()
        if here in seen:
            continue
        seen.add(here)
        if here.target in _READS:
            return True
        if not isinstance(here.meta.get("val"), torch.Tensor):
            pending += here.all_input_nodes
    return False


def _takes(user: Node, number: Node, found: set[Node]) -> bool:
    if user in found:
        return True
    if user.target not in _TAKERS:
        return False
    places = [i for i, argument in enumerate(user.args) if _mentions(argument, number)]
    return (
        bool(places) and all(i in _TAKERS[user.target] for i in places) and number not in user.kwargs.values()
    )


def _mentions(argument: object, node: Node) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(item is node for item in argument)
    return argument is node
