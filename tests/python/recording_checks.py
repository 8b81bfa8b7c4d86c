"""What every recording must satisfy, whatever the model."""

import json
from importlib import resources
from pathlib import Path

import jsonschema
import torch
from safetensors import safe_open
from torch import nn

from pycandle.recording.inputs import DTYPES


def schema() -> dict:
    return json.loads((resources.files("pycandle") / "manifest.schema.json").read_text())


def load_checked(manifest_file: Path) -> tuple[dict, dict]:
    """The manifest and the goldens, after the checks that hold for all of them."""
    manifest = json.loads(manifest_file.read_text())
    jsonschema.validate(manifest, schema())
    values = defined_values(manifest)
    assert sorted(values) == list(range(len(values))), "value ids count up from 0"
    check_uses(manifest["nodes"], set(initial_values(manifest)))
    for subgraph in manifest["graphs"]:
        check_uses(subgraph["nodes"], {entry["value"] for entry in subgraph["inputs"]})
    goldens = read_tensors(manifest_file.parent / manifest["files"]["trace"])
    check_goldens(manifest, goldens, values)
    check_weights(manifest, manifest_file.parent)
    check_places(manifest)
    return manifest, goldens


def initial_values(manifest: dict) -> list[int]:
    held = [*manifest["parameters"], *manifest["states"]]
    return [e["value"] for e in (*manifest["inputs"], *held) if e["value"] is not None]


def defined_values(manifest: dict) -> dict[int, dict]:
    values = {e["value"]: e for e in (*manifest["inputs"], *manifest["parameters"], *manifest["states"])}
    values.pop(None, None)
    for node in manifest["nodes"]:
        for result in node["results"]:
            if result is not None:
                assert result["value"] not in values, "defined once"
                values[result["value"]] = result
    return values


def used_values(argument: object):
    if isinstance(argument, list):
        for item in argument:
            yield from used_values(item)
    elif isinstance(argument, dict):
        if "v" in argument:
            yield argument["v"]
        for item in argument.get("dict", {}).values():
            yield from used_values(item)


def check_uses(nodes: list[dict], known: set[int]) -> None:
    for node in nodes:
        for _, argument in node["args"]:
            for value in used_values(argument):
                assert value in known, f"{node['op']} uses {value} before it is defined"
        known |= {result["value"] for result in node["results"] if result}


def read_tensors(file: Path) -> dict[str, torch.Tensor]:
    with safe_open(file, "pt") as reader:
        return {key: reader.get_tensor(key) for key in reader.keys()}  # noqa: SIM118


def check_goldens(manifest: dict, goldens: dict, values: dict) -> None:
    if manifest["soundness"]["status"] == "shapes-only":
        assert not goldens
        return
    for kind in ("input", "output"):
        for entry in manifest[f"{kind}s"]:
            tensor = goldens[f"{kind}:{entry['name']}"]
            assert tensor.dtype == DTYPES[entry["dtype"]] and tensor.dim() == len(entry["shape"])
    for tap in manifest["taps"]:
        tensor = goldens[tap["key"]]
        assert list(tensor.shape) == tap["shape"]
        assert tensor.dtype == DTYPES[values[tap["value"]]["dtype"]]
        for size, dim in zip(tensor.shape, values[tap["value"]]["shape"], strict=True):
            assert isinstance(dim, str) or size == dim
    ids = [tap["id"] for tap in manifest["taps"]]
    assert len(ids) == len(set(ids)), "a tap's id is its own"


def check_weights(manifest: dict, folder: Path) -> None:
    entries = [e for e in (*manifest["parameters"], *manifest["states"]) if e["file"] is not None]
    for file in {e["file"] for e in entries}:
        tensors = read_tensors(folder / file)
        for entry in entries:
            if entry["file"] == file:
                tensor = tensors[entry["key"]]
                assert list(tensor.shape) == entry["shape"] and tensor.dtype == DTYPES[entry["dtype"]]


def check_places(manifest: dict) -> None:
    for node in manifest["nodes"]:
        assert node["call"] is None or node["call"] < len(manifest["module_calls"])
        if node["file"] is not None and "lines" in manifest["files_table"][node["file"]]:
            assert str(node["line"]) in manifest["files_table"][node["file"]]["lines"]
    for index, call in enumerate(manifest["module_calls"]):
        assert call["parent"] is None if index == 0 else call["parent"] < index


def ops(manifest) -> list[str]:
    return [node["op"] for node in manifest["nodes"]]


class Calls(nn.Module):
    """A model made of a function."""

    def __init__(self, function):
        super().__init__()
        self.forward = function
