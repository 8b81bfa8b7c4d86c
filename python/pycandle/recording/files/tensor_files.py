"""Safetensors files, written tensor by tensor, that appear under their names only when complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import tempfile
from pathlib import Path

import torch

from ... import _core

_SAFETENSORS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
_ALIGNMENTS = (8, 4, 2, 1)


@contextlib.contextmanager
def replacing(path: Path):
    """A file that appears under its name only when it is complete."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class TensorFile:
    """Writes a safetensors file tensor by tensor, in any order, holding none of them.

    The format allows no gaps, so tensors are spooled by alignment: wide elements first keeps every one aligned.
    """

    def __init__(self, path: Path):
        self.path = path
        self._spools = {size: tempfile.TemporaryFile(dir=path.parent) for size in _ALIGNMENTS}  # noqa: SIM115
        self._entries: dict[int, list[tuple[str, str, list[int], int]]] = {size: [] for size in _ALIGNMENTS}
        self.names: set[str] = set()

    def add(self, name: str, tensor: torch.Tensor) -> None:
        if name in self.names:
            raise ValueError(f"two tensors named {name}")
        self.names.add(name)
        tensor = _storable(tensor)
        data = raw_bytes(tensor)
        spool = tensor.element_size()
        self._spools[spool].write(data)
        self._entries[spool].append(_entry(name, tensor))

    def finish(self) -> int:
        """Puts the file in place and returns its size."""
        with replacing(self.path) as file:
            file.write(_header([entry for size in _ALIGNMENTS for entry in self._entries[size]]))
            for size in _ALIGNMENTS:
                self._spools[size].seek(0)
                shutil.copyfileobj(self._spools[size], file, 1 << 20)
            length = file.tell()
        self.close()
        return length

    def close(self) -> None:
        for spool in self._spools.values():
            spool.close()


def write_tensors(path: Path, tensors: list[tuple[str, torch.Tensor]]) -> int:
    """Writes tensors that exist already straight into their file; returns its size."""
    ordered = sorted(tensors, key=lambda named: -_storable(named[1]).element_size())
    with replacing(path) as file:
        file.write(_header([_entry(name, _storable(tensor)) for name, tensor in ordered]))
        for _, tensor in ordered:
            file.write(raw_bytes(_storable(tensor)))
        return file.tell()


def checksum(tensor: torch.Tensor) -> str:
    """Of the bytes that are stored, as the manifest keeps it: 32 hex digits."""
    return _core.content_hash(raw_bytes(_storable(tensor)))


def _storable(tensor: torch.Tensor) -> torch.Tensor:
    """The format has no complex128: it is stored as pairs of f64, one axis more."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.dtype is torch.complex128 else tensor


def _entry(name: str, tensor: torch.Tensor) -> tuple[str, str, list[int], int]:
    return name, _SAFETENSORS[tensor.dtype], list(tensor.shape), tensor.numel() * tensor.element_size()


def _header(entries: list[tuple[str, str, list[int], int]]) -> bytes:
    header: dict[str, dict] = {}
    offset = 0
    for name, dtype, shape, length in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + length]}
        offset += length
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The tensor's bytes without a copy where it is contiguous."""
    return memoryview(as_bytes(tensor).numpy())


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same as a tensor: there NaN is itself, and -0.0 is not 0.0."""
    tensor = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    # One element is contiguous whatever its stride, and only a stride of 1 can be viewed as bytes.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
