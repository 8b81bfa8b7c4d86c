"""Fractions that Python computes from sizes (`x * (1 / n)`, `x / math.sqrt(n)`) as 0-d tensors in f64.

A Python number has no dtype of its own: it takes that of the tensor it meets. So it is computed in double precision, as
Python does, and then cast. Where an operator takes such a number as an attribute alone, the recorder refuses it as before.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from ..inputs import DTYPE_NAMES
from ..places import place_of_text
from ..torch_compat import SYM_SQRT

_aten = torch.ops.aten
_ARITHMETIC = {
    operator.truediv: "aten.div.Tensor",
    operator.mul: "aten.mul.Tensor",
    operator.add: "aten.add.Tensor",
    operator.sub: "aten.sub.Tensor",
    operator.pow: "aten.pow.Tensor_Tensor",
    operator.neg: "aten.neg.default",
    SYM_SQRT: "aten.sqrt.default",
}
_WITH_ALPHA = ("aten.add.Tensor", "aten.sub.Tensor")
_COMPARISONS = {
    getattr(_aten, name).Scalar: f"aten.{name}.Tensor" for name in ("gt", "ge", "lt", "le", "eq", "ne")
}
# What takes a number → the operator that takes a tensor in its place, and what it calls the same arguments.
_TAKERS = {
    _aten.mul.Tensor: ("aten.mul.Tensor", ("self", "other")),
    _aten.div.Tensor: ("aten.div.Tensor", ("self", "other")),
    _aten.add.Tensor: ("aten.add.Tensor", ("self", "other")),
    _aten.sub.Tensor: ("aten.sub.Tensor", ("self", "other")),
    _aten.rsub.Scalar: ("aten.sub.Tensor", ("other", "self")),
    _aten.pow.Tensor_Scalar: ("aten.pow.Tensor_Tensor", ("self", "exponent")),
    _aten.where.ScalarOther: ("aten.where.self", ("condition", "self", "other")),
    _aten.where.ScalarSelf: ("aten.where.self", ("condition", "self", "other")),
    _aten.masked_fill.Scalar: ("aten.masked_fill.Tensor", ("self", "mask", "value")),
    **{scalar: (name, ("self", "other")) for scalar, name in _COMPARISONS.items()},
}
# What fills a tensor of the result's shape with a number.
_FILLED = (
    _aten.scalar_tensor.default,
    _aten.full.default,
    _aten.new_full.default,
    _aten.full_like.default,
    _aten.fill.Scalar,
)
_DTYPES = (torch.float32, torch.float64)  # narrower ones meet a Python number without rounding it


class FloatNumbers:
    """Writes operators that take such numbers into `nodes`, and the numbers before them."""

    def __init__(self, writer, nodes: list[dict]):
        self.writer = writer
        self.nodes = nodes
        self._made: dict[tuple[object, int | None], int] = {}

    def write(self, node: Node) -> bool:
        """Whether `node` takes such a number; it is written then."""
        if not any(_is_number(argument) for argument in node.args) or not self._fits(node):
            return False
        if node.target in _TAKERS:
            op, arguments = self._with_tensors(node)
        else:
            number = next(argument for argument in node.args if _is_number(argument))
            size = self.writer.encode(list(node.meta["val"].shape), None)
            op = "aten.expand.default"
            arguments = [["self", self._cast(number, node)], ["size", size], ["implicit", False]]
        place = place_of_text(node.meta.get("stack_trace"))
        self.nodes.append(self.writer.written(node, place, op, arguments))
        return True

    def _fits(self, node: Node) -> bool:
        known = (*_TAKERS, *_FILLED)
        if node.target not in known or any(_is_number(value) for value in node.kwargs.values()):
            return False
        return _dtype_met(node) in _DTYPES and all(
            _is_expressible(argument) for argument in node.args if _is_number(argument)
        )

    def _with_tensors(self, node: Node) -> tuple[str, list]:
        op, names = _TAKERS[node.target]
        values = [
            self._cast(argument, node) if _is_number(argument) else self.writer.encode(argument, None)
            for argument in node.args
        ]
        arguments = [[name, value] for name, value in zip(names, values, strict=True)]
        if names[0] == "other":
            arguments.reverse()
        return op, arguments + ([["alpha", 1]] if op in _WITH_ALPHA else [])

    def _cast(self, number: Node, taker: Node) -> dict:
        call = self.writer.program.call_of_node.get(taker)
        value = self._number(number, call)
        dtype = DTYPE_NAMES[_dtype_met(taker)]
        if dtype == "f64":
            return {"v": value}
        fields = [
            ["self", {"v": value}],
            ["dtype", {"dtype": dtype}],
            ["non_blocking", False],
            ["copy", False],
        ]
        return {"v": self._operator("aten.to.dtype", [*fields, ["memory_format", None]], dtype, number, call)}

    def _number(self, number: object, call: int | None) -> int:
        key = (number, call)
        if key not in self._made:
            self._made[key] = self._computed(number, call)
        return self._made[key]

    def _computed(self, number: object, call: int | None) -> int:
        if not _is_number(number):
            value = number.meta["val"] if isinstance(number, Node) else float(number)
            fields = [["s", self.writer.encode(value, None)], ["dtype", {"dtype": "f64"}]]
            fields += [["layout", None], ["device", None], ["pin_memory", None]]
            return self._operator("aten.scalar_tensor.default", fields, "f64", number, call)
        if number.target is torch.sym_float:
            return self._number(number.args[0], call)
        op = _ARITHMETIC[number.target]
        names = ("self", "exponent" if "pow" in op else "other")
        arguments = [[n, {"v": self._number(a, call)}] for n, a in zip(names, number.args, strict=False)]
        if op in _WITH_ALPHA:
            arguments.append(["alpha", 1])
        return self._operator(op, arguments, "f64", number, call)

    def _operator(self, op: str, arguments: list, dtype: str, number: object, call: int | None) -> int:
        place = place_of_text(number.meta.get("stack_trace")) if isinstance(number, Node) else None
        result = {"value": self.writer.new_value(), "dtype": dtype, "shape": []}
        self.nodes.append(self.writer.entry(op, arguments, [result], call, place))
        return result["value"]


def _is_number(argument: object) -> bool:
    return isinstance(argument, Node) and isinstance(argument.meta.get("val"), torch.SymFloat)


def _is_expressible(argument: object) -> bool:
    """Whether all that a number is computed from is a size or a constant, by operations that are known."""
    if not isinstance(argument, Node):
        return isinstance(argument, (int, float))
    if not _is_number(argument):
        return isinstance(argument.meta.get("val"), (torch.SymInt, int, float))
    known = argument.target is torch.sym_float or argument.target in _ARITHMETIC
    return known and not argument.kwargs and all(_is_expressible(a) for a in argument.args)


def _dtype_met(node: Node) -> torch.dtype:
    """The dtype that the number takes."""
    if node.target not in _COMPARISONS:
        return node.meta["val"].dtype
    compared = node.args[0].meta["val"].dtype
    return compared if compared.is_floating_point else torch.get_default_dtype()
