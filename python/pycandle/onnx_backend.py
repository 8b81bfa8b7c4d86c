"""PyCandle as a backend of the `onnx` package: `onnx.backend.test` and everything else that takes a backend class.

    import onnx.backend.test
    import pycandle.onnx_backend

    tests = onnx.backend.test.BackendTest(pycandle.onnx_backend.PyCandleBackend, __name__)

A program has sizes and sequences of a known length, and optional values that are there or not. Where a file leaves these
to its inputs, the model is read again for the inputs of a call: `Prepared.run` says in `fixed` which ones it fixed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._core import Error
from .running.model import Model, load_model

SMALL = 4096  # elements: what may be a shape, or an axis


class PyCandleBackend(Backend):
    """Runs ONNX models on the reference, or on the backend that `prepare(..., backend="cpu")` names."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        super().prepare(model, device)
        return Prepared(model, kwargs.get("backend", "reference"))

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        super().run_node(node, inputs, device, outputs_info, **kwargs)
        arrays = dict(zip([name for name in node.input if name], inputs, strict=True))
        infos = [_info_of(name, array) for name, array in arrays.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        for output, (dtype, shape) in zip(outputs, outputs_info or [], strict=False):
            output.CopyFrom(
                helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(dtype), shape)
            )
        graph = helper.make_graph([node], "node", infos, outputs)
        opsets = [
            helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        ]
        return Prepared(helper.make_model(graph, opset_imports=opsets), "reference").run(
            list(arrays.values())
        )

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


prepare = PyCandleBackend.prepare
run_node = PyCandleBackend.run_node
run_model = PyCandleBackend.run_model
supports_device = PyCandleBackend.supports_device


class Prepared(BackendRep):
    """A model that is ready to run, or that needs inputs to be read."""

    def __init__(self, model: onnx.ModelProto, backend: str) -> None:
        self._proto, self._backend = model, backend
        stored = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [i for i in model.graph.input if i.name not in stored]
        self.fixed: list[str] = []
        self._model: Model | None = None
        self.reason: Error | None = None
        try:
            self._model = self._load(model)
        except Error as error:
            if error.code == "internal" or error.message.endswith("has operators that are not supported"):
                raise
            self.reason = error

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Arrays in the order of the inputs, or by name; a list for a sequence, None for an optional value that is empty."""
        if isinstance(inputs, dict):
            given = dict(inputs)
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            given = {info.name: value for info, value in zip(self._inputs, values, strict=False)}
        if self._model is not None:
            return self._outputs(self._model, given)
        reason = self.reason
        for chosen in (self._may_fix_shapes, self._has_few_elements):
            rewritten, rest, self.fixed = _fixed(self._proto, self._inputs, given, chosen)
            try:
                return self._outputs(self._load(rewritten), rest)
            except Error as error:
                reason = error
                if error.code == "internal":
                    raise
        raise reason

    @staticmethod
    def _may_fix_shapes(array: np.ndarray) -> bool:
        return array.size <= SMALL and (array.dtype.kind in "iub" or (array.size <= 16 and array.ndim <= 1))

    @staticmethod
    def _has_few_elements(array: np.ndarray) -> bool:
        return array.size <= SMALL

    def _load(self, model: onnx.ModelProto) -> Model:
        self._folder = tempfile.TemporaryDirectory()  # parameters are read from the file when they are needed
        path = Path(self._folder.name) / "model.onnx"
        onnx.save(model, path)
        return load_model(path, backend=self._backend)

    def _outputs(self, model: Model, given: dict[str, Any]) -> tuple[Any, ...]:
        wanted = {i.name for i in model.inputs}
        found = model.forward(**{n: v for n, v in _plain(given).items() if n in wanted})
        names = [output.name for output in self._proto.graph.output]
        return namedtupledict("Outputs", names)(*(_gathered(f"output.{name}", found) for name in names))


def _info_of(name: str, array: Any) -> onnx.ValueInfoProto:
    array = np.asarray(array)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Arrays as our programs take them."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, (list, tuple)):
            flat |= {f"{name}.{i}": each for i, each in enumerate(value)}
        elif value is not None:
            flat[name] = np.asarray(value)
    return flat


def _gathered(name: str, found: dict[str, Any]) -> Any:
    """The output, a list of what a sequence holds, or None."""
    if name in found:
        return found[name]
    items: list[Any] = []
    while any(key == f"{name}.{len(items)}" or key.startswith(f"{name}.{len(items)}.") for key in found):
        items.append(_gathered(f"{name}.{len(items)}", found))
    return items or None


def _fixed(model: onnx.ModelProto, inputs: Sequence[onnx.ValueInfoProto], given: dict[str, Any], chosen):
    """The model for these inputs: sequences become their elements, and `chosen` arrays are part of it."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    stored = [i for i in graph.input if i.name not in {info.name for info in inputs}]
    nodes: list[onnx.NodeProto] = []
    kept: list[onnx.ValueInfoProto] = []
    tensors: list[onnx.TensorProto] = []
    rest: dict[str, Any] = {}
    fixed: list[str] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            parts = [f"{name}.{i}" for i in range(len(value))]
            for part, each in zip(parts, value, strict=True):
                add(part, each)
            nodes.append(helper.make_node("SequenceConstruct", parts, [name]))
            fixed.append(name)
        elif value is None:
            nodes.append(helper.make_node("Optional", [], [name]))
            fixed.append(name)
        elif chosen(array := np.asarray(value)):
            tensors.append(numpy_helper.from_array(array, name))
            fixed.append(name)
        else:
            kept.append(_info_of(name, array))
            rest[name] = array

    for info in inputs:
        add(info.name, given.get(info.name))
    before = list(graph.node)
    del graph.node[:], graph.input[:]
    graph.input.extend(stored + kept)
    graph.node.extend(nodes + before)
    graph.initializer.extend(tensors)
    return made, rest, fixed


__all__ = ["Prepared", "PyCandleBackend", "prepare", "run_model", "run_node", "supports_device"]
