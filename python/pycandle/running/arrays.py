"""Arrays on their way in and out of the C++ side: NumPy, torch, and anything else with DLPack."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

# Elements that NumPy alone does not have, by our names: arrays of `ml_dtypes` where that is installed, their bits otherwise.
NARROW = {
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu",
    "f4e2m1": "float4_e2m1fn",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
}
NO_DTYPES: Mapping[str, str] = MappingProxyType({})


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def contiguous(arrays: dict[str, Any]) -> dict[str, Any]:
    ready = {}
    for name, value in arrays.items():
        if is_torch(value):
            ready[name] = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        elif hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            ready[name] = value
        else:
            array = np.asarray(value)
            if array.dtype.name == "bfloat16":
                import torch

                bits = np.ascontiguousarray(array).view(np.int16)
                ready[name] = torch.from_numpy(bits).view(torch.bfloat16)
                continue
            if array.dtype.name in NARROW.values():
                array = np.ascontiguousarray(array).view(np.uint8)
            ready[name] = array if array.flags.c_contiguous else array.copy(order="C")
    return ready


def to_torch(results: dict[str, Any]) -> dict[str, Any]:
    torch = sys.modules["torch"]
    return {name: torch.from_dlpack(value) for name, value in results.items()}


def to_numpy(results: dict[str, Any], dtypes: Mapping[str, str] = NO_DTYPES) -> dict[str, Any]:
    """With `dtypes`, by name, elements that NumPy has not are those of `ml_dtypes`, where that is installed."""
    return {name: _to_numpy(name, value, dtypes.get(name)) for name, value in results.items()}


def _to_numpy(name: str, value: Any, dtype: str | None) -> np.ndarray:
    element = _narrow(dtype)
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        if element and (torch := sys.modules.get("torch")):
            return torch.from_dlpack(value).view(torch.int16).numpy().view(element)
        raise TypeError(
            f"{name} has a dtype that NumPy has not (bf16): pass torch tensors to get torch tensors back"
        ) from error
    return array.view(element) if element else array


def _narrow(dtype: str | None) -> type | None:
    if dtype not in NARROW:
        return None
    try:
        import ml_dtypes
    except ImportError:
        return None
    return getattr(ml_dtypes, NARROW[dtype])


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}

    def visit(name: str, value: Any) -> None:
        if _is_dataclass(value):
            value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        elif isinstance(value, tuple) and hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit(f"{name}.{key}", item)
        elif isinstance(value, (list, tuple)) and any(_is_nested(item) for item in value):
            for index, item in enumerate(value):
                visit(f"{name}.{index}", item)
        elif value is not None:
            flat[name] = value

    for name, value in tree.items():
        visit(name, value)
    return flat


def _is_nested(value: Any) -> bool:
    return (
        isinstance(value, (Mapping, list, tuple, np.ndarray))
        or hasattr(value, "__dlpack__")
        or _is_dataclass(value)
    )


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def like(
    inputs: dict[str, Any], results: dict[str, Any], dtypes: Mapping[str, str] = NO_DTYPES
) -> dict[str, Any]:
    """torch tensors when any input was one, NumPy arrays otherwise. dtypes: of results, by name."""
    if any(is_torch(value) for value in inputs.values()):
        return to_torch(results)
    return to_numpy(results, dtypes)
