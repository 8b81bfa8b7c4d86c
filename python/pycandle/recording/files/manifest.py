"""Puts the manifest together: `docs/manifest.md` describes every field."""

from __future__ import annotations

import inspect
import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from ...version import VERSION
from ..checking.chain import Chosen
from ..graph.graph_writer import GraphWriter, Sources, finite_or_text
from ..graph.names import assigned_at
from ..graph.program import Parameter
from ..graph.taps import Tap, choose_taps
from ..inputs import DTYPE_NAMES, Inputs, describe_tree
from ..places import Place
from ..sizes.data_sizes import least_sizes
from ..torch_compat import parts_of
from ..tracing.module_calls import ModuleCall
from .tensor_files import replacing

MANIFEST_VERSION = "1.1.0"
_LARGEST_LIST = 64
# Attributes that say nothing of what a module computes; a checkpoint's path differs between machines.
_NOT_SAID = ("training", "call_super_init", "dump_patches", "name_or_path")


@dataclass
class Manifest:
    """The fields of a manifest and the taps that its trace file will hold."""

    fields: dict
    taps: list[Tap]
    writer: GraphWriter


def build_manifest(chosen: Chosen, inputs: Inputs, output_names: list[str], about: dict) -> Manifest:
    """Everything but the file names, which `save` knows. `about` holds model, soundness, notes, taps, source."""
    program = chosen.program
    sources = Sources(about["source"])
    writer = GraphWriter(program, chosen.dims, sources)
    described_inputs = _inputs(writer, inputs)
    parameters = [_parameter(writer, p) for p in program.parameters if p.updated is None]
    states = [_parameter(writer, p) for p in program.states()]
    nodes = writer.write_nodes()
    for entry, parameter in zip(states, program.states(), strict=True):
        _as_state(entry, writer.value_of(parameter.updated))
    calls = [_module_call(writer, call) for call in program.calls]
    outputs, output_tree = _outputs(writer, program, output_names)
    fixed = _fixed_dims(chosen, inputs, sources)
    taps = choose_taps(writer, described_inputs, outputs, about["taps"])
    fields = {
        "format": "pycandle.manifest",
        "version": MANIFEST_VERSION,
        "name": None,
        "producer": {
            "pycandle": VERSION,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
        },
        "model": about["model"],
        "soundness": about["soundness"],
        "notes": about["notes"],
        "files": None,
        "symbols": _symbols(chosen, inputs),
        "fixed_dims": fixed,
        "inputs": described_inputs,
        "outputs": outputs,
        "input_tree": _input_tree(inputs, described_inputs),
        "output_tree": output_tree,
        "states": states,
        "parameters": parameters,
        "nodes": nodes,
        "graphs": writer.graphs,
        "module_calls": calls,
        "taps": None,
        "files_table": sources.table(),
    }
    return Manifest(fields, taps, writer)


def write_manifest(path: Path, fields: dict) -> int:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode())
    return len(text.encode())


# ---- inputs and outputs ---------------------------------------------------------------------------------------


def _inputs(writer: GraphWriter, inputs: Inputs) -> list[dict]:
    described = []
    for leaf, name, tensor in inputs.tensors():
        node = writer.program.user_inputs[leaf]
        entry = {"name": name, "value": writer.define(node), **writer.type_of(node.meta["val"])}
        if found := value_range(tensor):
            entry["range"] = found
        entry["used"] = bool(node.users)
        described.append(entry)
    return described


def value_range(tensor: torch.Tensor) -> list[int] | None:
    """The least and the largest of integers, and of floats that stand for integers: labels, an adjacency, counts."""
    if tensor.is_meta or not tensor.numel() or tensor.dtype.is_complex or tensor.dtype is torch.bool:
        return None
    if tensor.dtype.is_floating_point and not _stands_for_integers(tensor):
        return None
    return [int(tensor.min()), int(tensor.max())]


def _stands_for_integers(tensor: torch.Tensor) -> bool:
    """Different whole numbers alone. A tensor of ones says nothing, and the largest floats of a dtype have no fractions."""
    small = tensor.abs() < 2 / torch.finfo(tensor.dtype).eps  # not for NaN
    return bool((small & (tensor == tensor.round())).all()) and bool((tensor != tensor.flatten()[0]).any())


def _input_tree(inputs: Inputs, described: list[dict]) -> dict:
    """The nesting of each top-level argument, by its name."""
    by_name = {entry["name"]: entry["value"] for entry in described}
    leaves = []
    for name, leaf in zip(inputs.names, inputs.leaves, strict=True):
        leaves.append({"kind": "tensor", "value": by_name[name]} if name in by_name else _literal(leaf))
    args, kwargs = parts_of(inputs.spec)
    children = [*parts_of(args), *parts_of(kwargs)]
    items, start = [], 0
    for name, spec in zip(inputs.top_names, children, strict=True):
        items.append(describe_tree(spec, leaves[start : start + spec.num_leaves], name))
        start += spec.num_leaves
    return {"kind": "dict", "class": "builtins.dict", "keys": list(inputs.top_names), "items": items}


def _literal(leaf: object) -> dict:
    if isinstance(leaf, float):
        leaf = finite_or_text(leaf)
    plain = leaf is None or isinstance(leaf, (bool, int, float, str))
    return {"kind": "literal", "value": leaf if plain else str(leaf)}


def _outputs(writer: GraphWriter, program, names: list[str]) -> tuple[list[dict], dict]:
    outputs, leaves = [], []
    for name, node in zip(names, program.outputs, strict=True):
        if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor):
            value = writer.value_of(node)
            outputs.append({"name": name, "value": value, **writer.type_of(node.meta["val"])})
            leaves.append({"kind": "tensor", "value": value})
        elif isinstance(node, torch.fx.Node):
            leaves.append({"kind": "literal", "value": writer.encode(node, None)})
        else:
            leaves.append(_literal(node))
    return outputs, describe_tree(program.out_spec, leaves, "output")


# ---- sizes ----------------------------------------------------------------------------------------------------


def _symbols(chosen: Chosen, inputs: Inputs) -> list[dict]:
    dims = chosen.dims
    least = least_sizes(chosen.program.graph)
    symbols = []
    for symbol, name in dims.names.items():
        if symbol in dims.data_bound:
            least_size = least.get(symbol, 0)
            symbols.append({"name": name, "min": least_size, "max": None, "example": None, "bound_by": None})
            continue
        entry = next(e for e in chosen.open if dims.resolve(e.symbol) == symbol)
        leaf, axis = entry.group.axes[0]
        symbols.append(
            {
                "name": name,
                "min": min(entry.minimum, entry.group.size),
                "max": entry.maximum,
                "example": entry.group.size,
                "bound_by": {"input": inputs.names[leaf], "axis": axis},
            }
        )
    return symbols


def _fixed_dims(chosen: Chosen, inputs: Inputs, sources: Sources) -> list[dict]:
    fixed = []
    for entry in chosen.fixed:
        file, line = sources.index(entry.place)
        for leaf, axis in entry.group.axes:
            fixed.append(
                {
                    "input": inputs.names[leaf],
                    "axis": axis,
                    "size": entry.group.size,
                    "reason": entry.reason,
                    "file": file,
                    "line": line,
                }
            )
    return fixed


# ---- parameters -----------------------------------------------------------------------------------------------


def _parameter(writer: GraphWriter, parameter: Parameter) -> dict:
    value = None
    if (
        parameter.updated is not None
        or any(node.users for node in parameter.nodes)
        or _is_output(writer, parameter)
    ):
        for node in parameter.nodes:
            value = writer.define(node, value=value)
    return {
        "name": parameter.name,
        "aliases": parameter.aliases,
        "kind": parameter.kind,
        "persistent": parameter.persistent,
        "value": value,
        "dtype": DTYPE_NAMES[parameter.tensor.dtype],
        "shape": list(parameter.tensor.shape),
        "file": None,
        "key": parameter.name,
    }


def _is_output(writer: GraphWriter, parameter: Parameter) -> bool:
    return any(node in writer.program.outputs for node in parameter.nodes)


def _as_state(entry: dict, updated: int | None) -> None:
    for name in ("aliases", "kind", "persistent"):
        del entry[name]
    entry["updated"] = updated


# ---- module calls ---------------------------------------------------------------------------------------------


def _module_call(writer: GraphWriter, call: ModuleCall) -> dict:
    class_file, class_line, forward_line = _where_defined(writer.sources, call.module)
    return {
        "path": call.path,
        "call": call.number,
        "class": call.class_name,
        "parent": call.parent,
        "class_file": class_file,
        "class_line": class_line,
        "forward_line": forward_line,
        "assigned_to": assigned_at(call.place),
        "attributes": _scalars(vars(call.module)) if call.module is not None else {},
        "config": _config_fields(call.module),
        "args": [[name, writer.fill_tree(tree, call.inputs)] for name, tree in call.arguments],
        "output": writer.fill_tree(call.output, call.outputs),
    }


def _where_defined(
    sources: Sources, module: torch.nn.Module | None
) -> tuple[int | None, int | None, int | None]:
    if module is None:
        return None, None, None
    file, line, forward_line = _class_lines(type(module))
    if file is None:
        return None, None, None
    index, _ = sources.index(Place(file, line))
    return index, line, forward_line


@cache
def _class_lines(kind: type) -> tuple[str | None, int | None, int | None]:
    """File and line of a class, and the line of its forward when it has one of its own."""
    try:
        file = inspect.getsourcefile(kind)
        line = inspect.getsourcelines(kind)[1]
        forward = inspect.unwrap(kind.forward)
        in_class = inspect.getsourcefile(forward) == file
        return file, line, inspect.getsourcelines(forward)[1] if in_class else None
    except (OSError, TypeError):
        return None, None, None


def _scalars(attributes: dict) -> dict:
    """Public attributes that JSON can say: numbers, strings, short lists of them."""
    found = {}
    for name, value in attributes.items():
        if name.startswith("_") or name in _NOT_SAID:
            continue
        if _is_plain(value):
            found[name] = value
        elif (
            isinstance(value, (list, tuple))
            and len(value) <= _LARGEST_LIST
            and all(_is_plain(v) for v in value)
        ):
            found[name] = list(value)
    return dict(sorted(found.items()))


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    return value is None or isinstance(value, (bool, int, str))


def _config_fields(module: torch.nn.Module | None) -> dict:
    config = getattr(module, "config", None)
    if config is None or isinstance(config, (torch.Tensor, torch.nn.Module)):
        return {}
    return _scalars(config if isinstance(config, dict) else getattr(config, "__dict__", {}))
