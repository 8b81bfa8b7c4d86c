"""The weights of a recording: saved by canonical name, or found in the safetensors files they came from."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import safe_open

from ...errors import UsageError
from ..graph.program import Parameter
from .tensor_files import as_bytes, checksum, write_tensors


def place_weights(recorder, recording, fields: dict, path: Path) -> int | None:
    """Writes the weights file and fills in `file` and `key` of every parameter; the size of the file, if any."""
    parameters = {p.name: p for p in recording.chosen.program.parameters}
    entries = [dict(entry) for entry in fields["parameters"]]
    states = [dict(entry) for entry in fields["states"]]
    fields["parameters"], fields["states"] = entries, states
    found = _find_in_files(recorder, recording, fields["notes"]) if recorder.weights == "ref" else {}
    saved = []
    for entry in (*entries, *states):
        parameter = parameters[entry["name"]]
        if recorder.weights == "none" and not _is_own(parameter):
            continue
        if not parameter.tensor.is_meta:
            entry["checksum"] = checksum(parameter.tensor)
        if parameter.name in found:
            file, key = found[parameter.name]
            entry["file"], entry["key"] = os.path.relpath(file, recorder.output_dir), key
        elif not parameter.tensor.is_meta:
            entry["file"] = path.name
            saved.append((parameter.name, parameter.tensor))
    if not saved and (recording.meta or recorder.weights == "none"):
        return None
    return write_tensors(path, saved)


def _is_own(parameter: Parameter) -> bool:
    """No state dict holds it, so no checkpoint can give it back."""
    return parameter.kind == "constant" or not parameter.persistent


def _find_in_files(recorder, recording, notes: list[str]) -> dict[str, tuple[Path, str]]:
    """Where each parameter lies, byte for byte; what is not found is saved as usual, with a note."""
    files = recorder.weights_files or _checkpoint_of(recording.eager.model)
    if not files:
        raise UsageError(
            'weights="ref" needs weights_files: the safetensors files that the model was loaded from'
        )
    found: dict[str, tuple[Path, str]] = {}
    missing = []
    keys = _keys(files)
    for parameter in recording.chosen.program.parameters:
        place = _matching(parameter, keys)
        if place:
            found[parameter.name] = place
        elif parameter.kind == "parameter":
            missing.append(parameter.name)
    if missing:
        notes.append(
            f"weights: {len(missing)} parameters are not in the given files and were saved ({missing[0]}, …)"
        )
    return found


def _checkpoint_of(model: torch.nn.Module) -> list[Path]:
    folder = Path(getattr(model, "name_or_path", "") or ".no-checkpoint")
    return sorted(folder.glob("*.safetensors")) if folder.is_dir() else []


def _keys(files: list[Path]) -> dict[str, Path]:
    keys: dict[str, Path] = {}
    for file in files:
        try:
            with safe_open(file, "pt") as reader:
                keys.update(dict.fromkeys(reader.keys(), file))
        except Exception as error:
            raise UsageError(f"cannot read the weights file {file}: {error}") from error
    return keys


def _matching(parameter: Parameter, keys: dict[str, Path]) -> tuple[Path, str] | None:
    for name in (parameter.name, *parameter.aliases):
        # Checkpoints of a base model lack the prefix of the model that wraps it.
        for key in (name, name.split(".", 1)[-1]):
            if key in keys and _equal_in_file(parameter.tensor, keys[key], key):
                return keys[key], key
    return None


def _equal_in_file(tensor: torch.Tensor, file: Path, key: str) -> bool:
    with safe_open(file, "pt") as reader:
        if reader.get_slice(key).get_shape() != list(tensor.shape):
            return False
        if tensor.is_meta:
            return True
        stored = reader.get_tensor(key)
    return stored.dtype == tensor.dtype and torch.equal(as_bytes(stored), as_bytes(tensor))
