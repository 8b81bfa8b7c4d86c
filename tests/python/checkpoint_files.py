"""Checkpoints of every format, each with the tensors that its own library reads from it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from safetensors.torch import load_file, save_file

OURS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.bool,
]  # fmt: skip
COMPLEX = [torch.complex64, torch.complex128]
# What reading gives for element types that programs do not compute with.
WIDENED = {
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
}


@dataclass(frozen=True)
class Case:
    """A file to write, and what it holds: `write(path)` gives the tensors by name."""

    name: str
    suffix: str
    write: Callable[[Path], dict[str, torch.Tensor]]


def values(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(*shape, generator=generator) < 0.5
    if dtype.is_complex:
        return torch.randn(*shape, dtype=dtype, generator=generator)
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        top = {torch.uint16: 2**16, torch.uint32: 2**32, torch.uint64: 2**62}[dtype]
        return torch.randint(0, top, shape, generator=generator).to(dtype)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.randint(
            max(info.min, -(2**62)), min(info.max, 2**62), shape, generator=generator, dtype=dtype
        )
    if dtype.itemsize == 1:  # every bit pattern of float8, NaN too
        return torch.arange(256, dtype=torch.uint8).view(dtype)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def widened(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.detach().to(WIDENED.get(t.dtype, t.dtype)) for name, t in tensors.items()}


def of_dtype(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        "a.weight": values(dtype, 3, 5, seed=1),
        "b": values(dtype, 2, 3, 4, seed=2),
        "empty": torch.empty(0, 4, dtype=dtype),
        "scalar": values(dtype, 4, seed=3)[2].clone() if dtype.itemsize > 1 else values(torch.float32, 4)[0],
    }


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---- safetensors


def safetensors_cases() -> Iterator[Case]:
    def saved(tensors):
        def write(path: Path) -> dict[str, torch.Tensor]:
            save_file(tensors, path)
            return widened(load_file(path))

        return write

    for dtype in [*OURS, torch.complex64, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]:  # fmt: skip
        yield Case(f"safetensors {short(dtype)}", ".safetensors", saved(of_dtype(dtype)))
    yield Case("safetensors that begins like a pickle", ".safetensors", write_like_a_pickle)
    yield Case("safetensors without tensors", ".safetensors", saved({}))
    yield Case("safetensors in shards", "", write_shards)
    yield Case("safetensors in a folder", "", write_folder)


def write_like_a_pickle(path: Path) -> dict[str, torch.Tensor]:
    """A header of 0x280 bytes: the file begins with 80 02, as pickles do."""
    tensors = {"w": torch.arange(3.0)}
    fill = 0x280 - len(json.dumps({"__metadata__": {"fill": ""}, "w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, separators=(",", ":")))  # fmt: skip
    save_file(tensors, path, {"fill": "x" * fill})
    assert path.read_bytes()[:2] == b"\x80\x02"
    return tensors


def write_shards(path: Path) -> dict[str, torch.Tensor]:
    path.mkdir()
    parts = [{f"layers.{i}.weight": values(torch.float32, 4, i + 1, seed=i)} for i in range(3)]
    names = [f"model-0000{i + 1}-of-00003.safetensors" for i in range(3)]
    for part, name in zip(parts, names, strict=True):
        save_file(part, path / name)
    index = {"metadata": {}, "weight_map": {k: n for p, n in zip(parts, names, strict=True) for k in p}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return {k: v for part in parts for k, v in part.items()}


def write_folder(path: Path) -> dict[str, torch.Tensor]:
    path.mkdir()
    (path / "config.json").write_text("{}")
    tensors = of_dtype(torch.float32)
    save_file(tensors, path / "model.safetensors")
    torch.save({"other": torch.zeros(1)}, path / "pytorch_model.bin")  # the other form of the same weights
    return tensors


# ---- torch


def torch_contents() -> dict[str, object]:
    """What people save with torch.save."""
    base = torch.arange(24.0)
    shared = torch.randn(6, 4, generator=torch.Generator().manual_seed(5))
    ordered = OrderedDict([("b.weight", torch.ones(2)), ("a.weight", torch.zeros(3))])
    ordered._metadata = OrderedDict([("", {"version": 1})])
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    training = {
        "state_dict": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "loss": 0.25,
        "names": ["a", None, True],
    }
    return {
        "views": {
            "whole": base,
            "part": base[4:10],
            "step": base[::3],
            "matrix": base.view(4, 6)[1:, 2:],
            "turned": base.view(4, 6).t(),
            "cube": base.view(2, 3, 4).permute(2, 0, 1),
        },
        # torch keeps these as lazy views: the storage, and a bit that says conjugate or negate
        "lazy views": {
            "conjugate": values(torch.complex64, 3, 4).conj(),
            "turned": values(torch.complex128, 3, 4).t().conj(),
            "negative": values(torch.complex64, 5).conj().imag,
        },
        "shared": {"embed.weight": shared, "head.weight": shared, "rows": shared[2:4]},
        "expanded": {"x": torch.randn(3, 1, generator=torch.Generator().manual_seed(1)).expand(3, 4)},
        "ordered dict": ordered,
        "parameters": {
            "weight": torch.nn.Parameter(torch.randn(2, 3)),
            "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        },
        "state dict": module.state_dict(),
        "training": training,
        "nested": {
            "encoder": {"weight": torch.ones(2)},
            "decoder": {"layers": [torch.zeros(1), torch.ones(1)]},
        },
        "list": [torch.ones(2), (torch.zeros(3), {"x": torch.ones(1)})],
        "numbers for keys": {0: torch.ones(1), 1: torch.zeros(2), "size": torch.Size([1, 2])},
        "numbers alone": {
            "big": 2**80,
            "small": -5,
            "long": 2**40,
            "real": 1e300,
            "text": "ü",
            "w": torch.ones(1),
        },
    }


def flattened(value, path=()) -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {".".join(map(str, path)): value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) and not isinstance(value, torch.Size) else ()  # fmt: skip
    out = {}
    for key, item in items:
        out |= flattened(item, (*path, key))
    return out


def torch_cases() -> Iterator[Case]:
    def saved(value, **options):
        def write(path: Path) -> dict[str, torch.Tensor]:
            torch.save(value, path, **options)
            loaded = torch.load(
                path, weights_only="pickle_protocol" not in options
            )  # torch knows only 2 there
            if isinstance(loaded, dict) and "optimizer" in loaded:
                loaded = loaded["state_dict"]
            return widened(flattened(loaded))

        return write

    for dtype in [*OURS, *COMPLEX, *WIDENED]:
        yield Case(f"torch {short(dtype)}", ".pt", saved(of_dtype(dtype)))
    for dtype in [*OURS, *COMPLEX]:
        yield Case(
            f"legacy {short(dtype)}", ".pth", saved(of_dtype(dtype), _use_new_zipfile_serialization=False)
        )
    for name, value in torch_contents().items():
        yield Case(f"torch {name}", ".bin", saved(value))
        yield Case(f"legacy {name}", ".pth", saved(value, _use_new_zipfile_serialization=False))
    for protocol in (3, 4, 5):
        yield Case(
            f"torch protocol {protocol}", ".pt", saved(of_dtype(torch.float32), pickle_protocol=protocol)
        )
    yield Case("torchscript", ".pt", write_script)


def write_script(path: Path) -> dict[str, torch.Tensor]:
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.BatchNorm1d(4)))
    torch.jit.script(module.eval()).save(path)
    return {k: v.detach() for k, v in module.state_dict().items()}


# ---- NumPy


def numpy_cases() -> Iterator[Case]:
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "?", "c8", "c16"]

    def saved(arrays, save=np.savez):
        def write(path: Path) -> dict[str, torch.Tensor]:
            save(path, **arrays)
            with np.load(path) as loaded:
                return {k: as_torch(loaded[k]) for k in loaded.files}

        return write

    for kind in kinds:
        arrays = {
            "a": (np.arange(12) % 7 - 3).astype(kind).reshape(3, 4),
            "scalar": np.array(3).astype(kind),
            "none": np.empty((0, 2), kind),
        }
        yield Case(f"npz {kind.replace('?', 'bool')}", ".npz", saved(arrays))
    odd = {
        "big_endian": np.arange(6, dtype=">f4").reshape(2, 3),
        "big_integers": np.arange(6, dtype=">i8"),
        "fortran": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        "folder/name": np.ones(3),
    }
    yield Case("npz odd layouts", ".npz", saved(odd))
    noise = np.random.default_rng(0).integers(0, 9, (40, 50)).astype("f4")
    packed = {"noise": noise, "zeros": np.zeros((300, 300)), "fortran": np.asfortranarray(noise)}
    yield Case("npz compressed", ".npz", saved(packed, np.savez_compressed))


def as_torch(array: np.ndarray) -> torch.Tensor:
    native = np.array(array.astype(array.dtype.newbyteorder("=")), order="C")
    wider = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}.get(native.dtype.name)
    return torch.from_numpy(native.astype(wider) if wider else native)


# ---- HDF5


def hdf5_cases() -> Iterator[Case]:
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "?", "c8", "c16", ">f4", ">i8"]

    def saved(fill, **options):
        def write(path: Path) -> dict[str, torch.Tensor]:
            with h5py.File(path, "w", **options) as file:
                fill(file)
            tensors = {}
            with h5py.File(path) as file:
                file.visititems(lambda name, item: tensors.update(numbers_of(name, item)))
            return tensors

        return write

    def numbers_of(name: str, item) -> dict[str, torch.Tensor]:
        if not isinstance(item, h5py.Dataset) or item.dtype.kind not in "fiubc":
            return {}
        return {name: as_torch(item[()])}

    def layers(file, **options):
        noise = np.random.default_rng(0).integers(0, 9, (40, 50)).astype("f4")
        for layer in ("dense", "dense_1"):
            file.create_dataset(f"{layer}/{layer}/kernel:0", data=noise, **options)
            file.create_dataset(f"{layer}/{layer}/bias:0", data=noise[0])
        file.attrs["layer_names"] = ["dense", "dense_1"]
        file["names"] = np.array([b"a", b"bc"])  # not a tensor

    for kind in kinds:
        arrays = {
            "g/a": (np.arange(12) % 7 - 3).astype(kind).reshape(3, 4),
            "scalar": np.array(3).astype(kind),
            "none": np.empty((0, 2), kind),
        }
        name = kind.replace("?", "bool").replace(">", "big-endian ")
        yield Case(f"hdf5 {name}", ".h5", saved(lambda file, arrays=arrays: [file.__setitem__(*a) for a in arrays.items()]))  # fmt: skip
    yield Case("hdf5 layers", ".h5", saved(layers))
    yield Case("hdf5 newest form", ".h5", saved(layers, libver="latest"))
    yield Case("hdf5 compressed", ".h5", saved(lambda f: layers(f, compression="gzip", shuffle=True, fletcher32=True)))  # fmt: skip
    yield Case("hdf5 chunks", ".hdf5", saved(lambda f: layers(f, chunks=(7, 11))))
    yield Case("hdf5 never written", ".h5", saved(lambda f: f.create_dataset("zeros", (3, 4), "f4")))


# ---- GGUF


def gguf_cases() -> Iterator[Case]:
    import gguf
    from gguf.constants import GGML_QUANT_SIZES
    from gguf.quants import _type_traits

    def saved(kind):
        def write(path: Path) -> dict[str, torch.Tensor]:
            block, size = GGML_QUANT_SIZES[kind]
            rows = np.random.default_rng(int(kind)).integers(0, 256, (6, 4 * size), dtype=np.uint8)
            writer = gguf.GGUFWriter(path, "llama")
            writer.add_block_count(2)
            writer.add_array("list", ["a", "b"])
            writer.add_tensor("blk.0.weight", rows, raw_shape=rows.shape, raw_dtype=kind)
            writer.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
            writer.add_tensor("half", np.arange(4, dtype=np.float16))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            with np.errstate(all="ignore"):
                expected = gguf.dequantize(rows, kind).reshape(6, 4 * block)
            return {
                "blk.0.weight": torch.from_numpy(expected.astype(np.float32)),
                "plain": torch.arange(6.0).view(2, 3),
                "half": torch.arange(4.0).half(),
            }

        return write

    for kind in _type_traits:
        if kind.name not in ("F32", "F16", "BF16"):
            yield Case(f"gguf {kind.name.lower()}", ".gguf", saved(kind))


def all_cases() -> list[Case]:
    return [*safetensors_cases(), *torch_cases(), *numpy_cases(), *hdf5_cases(), *gguf_cases()]
