"""Goldens of a recorded model that does not fit into memory: torch runs it call by call, each weight read when used.

`pycandle verify --stream` starts this.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ..recording.processor import make_bf16_safe

make_bf16_safe()

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from ..recording.eager import quiet_inference  # noqa: E402
from ..recording.files.tensor_files import TensorFile  # noqa: E402
from ..recording.inputs import DTYPES  # noqa: E402
from . import PeerError  # noqa: E402
from .rebuilt import RebuiltGraph, require_values  # noqa: E402


class WeightFiles:
    """Tensors of safetensors files, each read into memory of its own: a mapped file would stay in the process."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._headers: dict[str, tuple[int, dict]] = {}

    def read(self, entry: dict) -> torch.Tensor:
        require_values(entry)
        begin, header = self._header(entry["file"])
        first, last = header[entry["key"]]["data_offsets"]
        data = torch.empty(last - first, dtype=torch.uint8)
        with (self.folder / entry["file"]).open("rb", buffering=0) as file:
            file.seek(begin + first)
            _fill(file, memoryview(data.numpy()), entry["file"])
        return data.view(DTYPES[entry["dtype"]]).view(entry["shape"])

    def _header(self, name: str) -> tuple[int, dict]:
        if name not in self._headers:
            with (self.folder / name).open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                self._headers[name] = (8 + length, json.loads(file.read(length)))
        return self._headers[name]


def _fill(file, data: memoryview, name: str) -> None:
    while data:
        count = file.readinto(data)
        if not count:
            raise PeerError(f"{name} ends before its tensors do", "extract the weights again")
        data = data[count:]


def values_of(graph: RebuiltGraph) -> Iterator[tuple[torch.fx.Node, torch.Tensor]]:
    """Each value as torch computes it; none is kept longer than the program needs it."""
    weights = WeightFiles(graph.folder)
    arguments = iter(graph.inputs)
    last_uses = _last_uses(graph)
    environment: dict[torch.fx.Node, object] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            environment[node] = next(arguments)
        elif node.op == "get_attr":
            environment[node] = weights.read(graph.weights[node.target])
        elif node.op == "call_function":
            args = torch.fx.node.map_arg(node.args, environment.__getitem__)
            kwargs = torch.fx.node.map_arg(node.kwargs, environment.__getitem__)
            environment[node] = node.target(*args, **kwargs)
            del args, kwargs
        else:
            return
        yield node, environment[node]
        for spent in last_uses[node]:
            del environment[spent]


def _last_uses(graph: RebuiltGraph) -> dict[torch.fx.Node, list[torch.fx.Node]]:
    spent: dict[torch.fx.Node, list[torch.fx.Node]] = defaultdict(list)
    seen: set[torch.fx.Node] = set()
    for node in reversed(graph.graph.nodes):
        for used in (node, *node.all_input_nodes):
            if used not in seen:
                seen.add(used)
                spent[node].append(used)
    return spent


def write_goldens(manifest: Path, inputs: dict[str, torch.Tensor], out: Path, seed: int) -> int:
    """Writes a trace file of one call, as recording does; returns how many values it holds."""
    graph = RebuiltGraph(manifest, inputs)
    keys: dict[torch.fx.Node, list[str]] = defaultdict(list)
    for entry, node in zip(graph.manifest["outputs"], _outputs(graph), strict=True):
        keys[node].append(f"output:{entry['name']}")
    for state in graph.manifest["states"]:
        keys[graph.value(state["updated"])].append(f"updated:{state['name']}")
    for tap in graph.manifest["taps"]:
        if tap["value"] in graph.values:
            keys[graph.values[tap["value"]]].append(tap["key"])
    states = {entry["value"]: entry["name"] for entry in graph.manifest["states"]}
    file = TensorFile(out)
    with contextlib.closing(file), quiet_inference(seed):
        for name, tensor in inputs.items():
            file.add(f"input:{name}", tensor)
        weights = WeightFiles(graph.folder)
        for entry in graph.weights.values():
            if entry["value"] in states:
                file.add(f"state:{states[entry['value']]}", weights.read(entry))
        for node, value in values_of(graph):
            for key in keys[node]:
                if key not in file.names:
                    file.add(key, value)
        file.finish()
        return len(file.names)


def _outputs(graph: RebuiltGraph) -> list[torch.fx.Node]:
    (result,) = next(iter(reversed(graph.graph.nodes))).args
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pycandle.peers.streamed", description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True, help="a safetensors file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        write_goldens(options.manifest, load_file(options.inputs), options.out, options.seed)
    except PeerError as error:
        sys.stderr.write(f"error: {error}\n" + (f"  hint  {error.hint}\n" if error.hint else ""))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
