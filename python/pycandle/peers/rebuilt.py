"""A recorded model as a torch module again: the same calls on the same weights, at the sizes of given inputs."""

from __future__ import annotations

import json
import operator
from pathlib import Path

import torch
from safetensors import safe_open

from ..recording.inputs import DTYPES
from ..recording.sizes.size_text import size_of
from ..recording.torch_compat import OpOverload, schema_of
from . import PeerError

# Recording keeps recurrent layers whole by operators of its own; these are torch's.
_OURS = {f"pycandle.{name}.": f"aten.{name}.input" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}


class RebuiltGraph:
    """The recorded calls as a torch graph. A weight is a `get_attr` node right before each call that uses it."""

    def __init__(self, path: Path, inputs: dict[str, torch.Tensor]):
        self.folder = path if path.is_dir() else path.parent
        self.manifest = json.loads(_manifest_file(path).read_text())
        self.inputs = [inputs[entry["name"]] for entry in self.manifest["inputs"]]
        self.sizes = {
            symbol["name"]: inputs[symbol["bound_by"]["input"]].shape[symbol["bound_by"]["axis"]]
            for symbol in self.manifest["symbols"]
            if symbol["bound_by"]
        }
        self.graph = torch.fx.Graph()
        self.values: dict[int, torch.fx.Node] = {}
        held = [*self.manifest["parameters"], *self.manifest["states"]]
        self.weights = {f"weight_{i}": entry for i, entry in enumerate(held) if entry["value"] is not None}
        self._weight_names = {entry["value"]: name for name, entry in self.weights.items()}
        for index, entry in enumerate(self.manifest["inputs"]):
            self.values[entry["value"]] = self.graph.placeholder(f"input_{index}")
        for node in self.manifest["nodes"]:
            self._call(node)
        self.graph.output([self.value(entry["value"]) for entry in self.manifest["outputs"]])

    def value(self, number: int) -> torch.fx.Node:
        name = self._weight_names.get(number)
        return self.values[number] if name is None else self.graph.get_attr(name)

    def _call(self, node: dict) -> None:
        overload = _overload(node["op"])
        named = {name: self._argument(value) for name, value in node["args"]}
        only_named = {a.name for a in schema_of(overload).arguments if a.kwarg_only}
        call = self.graph.call_function(
            overload,
            tuple(value for name, value in named.items() if name not in only_named),
            {name: value for name, value in named.items() if name in only_named},
        )
        returns = schema_of(overload).returns
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            self.values[node["results"][0]["value"]] = call
            return
        if len(returns) > 1 and any(str(r.type) != "Tensor" for r in returns):
            raise PeerError(
                f"{node['op']} returns lists beside tensors, which torch is not asked to run here"
            )
        for index, result in enumerate(node["results"]):
            if result is not None:
                self.values[result["value"]] = self.graph.call_function(operator.getitem, (call, index))

    def _argument(self, value: object) -> object:
        if isinstance(value, list):
            return [self._argument(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "graph":
            raise PeerError("the model has control flow (cond, while_loop, scan), which peers are not given")
        return {
            "v": lambda: self.value(content),
            "dim": lambda: self._size(content),
            "float": lambda: float(content),
            "complex": lambda: complex(*map(float, content)),
            "dtype": lambda: DTYPES[content],
            "device": lambda: torch.device("cpu" if content == "meta" else content),  # weights came later
            "layout": lambda: getattr(torch, content),
            "memory_format": lambda: getattr(torch, f"{content}_format", None) or getattr(torch, content),
        }[kind]()

    def _size(self, text: str) -> int:
        try:
            return size_of(text, self.sizes)
        except KeyError as unknown:
            raise PeerError(
                f"the size {unknown.args[0]} depends on data, so peers cannot be given the model"
            ) from None


class Rebuilt(RebuiltGraph):
    """`module(*inputs)` gives the outputs as a list, both in the manifest's order."""

    def __init__(self, path: Path, inputs: dict[str, torch.Tensor]):
        super().__init__(path, inputs)
        holder = torch.nn.Module()
        for name, entry in self.weights.items():
            holder.register_buffer(name, self._weight(entry))
        self.module = torch.fx.GraphModule(holder, self.graph).eval()

    def _weight(self, entry: dict) -> torch.Tensor:
        require_values(entry)
        with safe_open(self.folder / entry["file"], "pt") as file:
            tensor = file.get_tensor(entry["key"])
        return torch.view_as_complex(tensor) if entry["dtype"] == "c128" else tensor


def require_values(entry: dict) -> None:
    if entry["file"] is None:
        raise PeerError(
            f"the recording holds no values of {entry['name']}",
            "record it with --weights save, or give it weights: pycandle weights extract",
        )


def _manifest_file(path: Path) -> Path:
    return next(iter(sorted(path.glob("*_manifest.json")))) if path.is_dir() else path


def _overload(name: str) -> OpOverload:
    name = _OURS.get(name, _OURS.get(name.removesuffix("default"), name))
    namespace, operation, overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operation, None)
    found = getattr(packet, overload or "default", None) if packet is not None else None
    if found is None:
        raise PeerError(f"this torch has no operator {name}", "custom operators are not given to peers")
    return found
