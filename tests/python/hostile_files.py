"""Checkpoint files that are damaged or made to do harm."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import torch
from safetensors.torch import save

MARKER = "PYCANDLE_HOSTILE_MARKER"


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments) -> None:
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


# ---- torch


def torch_file(value, **options) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def torch_zip(pickled: bytes, storages: dict[str, bytes] | None = None, **other: bytes) -> bytes:
    members = {"archive/data.pkl": pickled, "archive/version": b"3\n"}
    members |= {f"archive/data/{key}": data for key, data in (storages or {}).items()}
    return zip_of(members | other)


def rebuild(
    storage: bytes, offset=0, size=(2,), stride=(1,), key=b"0", count=2, kind=b"FloatStorage"
) -> bytes:
    """A dict with one tensor `w`, in pickle's own words."""

    def number(n: int) -> bytes:
        return b"\x8a\x08" + struct.pack("<q", n)

    def numbers(values) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    def text(value: bytes) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value

    persistent = (
        b"("
        + text(b"storage")
        + b"ctorch\n"
        + kind
        + b"\n"
        + text(key)
        + text(b"cpu")
        + number(count)
        + b"tQ"
    )
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + persistent + number(offset) + numbers(size) + numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtR"  # fmt: skip
    return torch_zip(b"\x80\x02}" + text(b"w") + tensor + b"s.", {"0": storage})


def torch_files() -> Iterator[tuple[str, bytes]]:
    marker = os.environ.get(MARKER, "/tmp/pycandle-hostile-marker")
    for name, value in {
        "os.system": Calls(os.system, f"touch {marker}"),
        "exec": Calls(exec, f"open({marker!r}, 'w')"),
        "eval": Calls(eval, f"open({marker!r}, 'w')"),
        "open": Calls(open, marker, "w"),
        "getattr": Calls(getattr, "text", "upper"),
        "a set of bytes": Calls(bytearray, b"x"),
        "numpy scalar": np.float64(1.0),
        "numpy array": np.ones(3),
        "a module": torch.nn.Linear(2, 2),
        "a path": Path("/etc/passwd"),
        "a complex number": 1j,
        "a sparse tensor": torch.eye(3).to_sparse(),
    }.items():
        yield f"zip: {name}", torch_file({"w": torch.ones(1), "x": value})
        if name in ("os.system", "a module"):
            yield f"legacy: {name}", torch_file({"x": value}, _use_new_zipfile_serialization=False)
    yield "a plain pickle", pickle.dumps({"w": Calls(os.system, f"touch {marker}")})
    quantised = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    yield "a quantised tensor", torch_file({"w": quantised})
    two = struct.pack("<2f", 1, 2)
    yield "storage too short", rebuild(two, size=(3,))
    yield "offset outside", rebuild(two, offset=1)
    yield "offset huge", rebuild(two, offset=2**62)
    yield "offset negative", rebuild(two, offset=-1)
    yield "negative size", rebuild(two, size=(-1,))
    yield "negative stride", rebuild(two, stride=(-1,))
    yield "huge stride", rebuild(two, stride=(2**62,))
    yield "sizes that overflow", rebuild(two, size=(2**40, 2**40), stride=(0, 0))
    yield "a view far larger than its storage", rebuild(two, size=(2**40,), stride=(0,))
    yield "strides for another rank", rebuild(two, stride=(1, 1))
    yield "storage that is not there", rebuild(two, key=b"7")
    yield "storage name that leaves the archive", rebuild(two, key=b"../../etc/passwd")
    yield "an unknown storage", rebuild(two, kind=b"PickledStorage")
    yield "many axes", rebuild(two, size=(1,) * 80, stride=(1,) * 80)
    yield "a list in itself", torch_zip(b"\x80\x02]q\x00h\x00a.")
    yield "a dict in itself", torch_zip(b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.")
    yield "deep lists", torch_zip(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".")
    laughs = b"\x80\x02]q\x00" + b"".join(
        b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
    )
    yield "lists of lists of lists", torch_zip(laughs + b".")
    yield "a billion marks", torch_zip(b"\x80\x02" + b"(" * 1_000_000)
    yield "a memo number that is huge", torch_zip(b"\x80\x02Nr\xff\xff\xff\xff0j\xfe\xff\xff\xff.")
    yield "an empty stack", torch_zip(b"\x80\x020.")
    yield "no end", torch_zip(b"\x80\x02}")
    yield "an unknown instruction", torch_zip(b"\x80\x02\xff.")
    yield "a text longer than the file", torch_zip(b"\x80\x02X\xff\xff\xff\x7fabc.")
    yield "a long of negative length", torch_zip(b"\x80\x02\x8b\xff\xff\xff\xff.")
    yield "extension codes", torch_zip(b"\x80\x02\x82\x01.")
    yield "an empty pickle", torch_zip(b"")
    yield "a big-endian file", torch_zip(b"\x80\x02}.", **{"archive/byteorder": b"big"})
    yield "a name that is there twice", torch_file({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)})
    whole = torch_file({"w": torch.ones(50)})
    for part in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield f"zip cut at {part}", whole[: int(len(whole) * part)]
    old = torch_file({"w": torch.ones(50)}, _use_new_zipfile_serialization=False)
    for part in (0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield f"legacy cut at {part}", old[: int(len(old) * part)]
    yield "legacy with a negative size", old.replace(struct.pack("<q", 50), struct.pack("<q", -50))
    yield "legacy with a huge size", old.replace(struct.pack("<q", 50), struct.pack("<q", 2**62))


# ---- zip archives


def zip_files() -> Iterator[tuple[str, bytes]]:
    array = io.BytesIO()
    np.save(array, np.ones(4))
    npy = array.getvalue()
    whole = zip_of({"a.npy": npy, "b.npy": npy})
    directory = whole.rindex(b"PK\x05\x06")
    central = whole.index(b"PK\x01\x02")
    yield "a directory outside", whole[: directory + 16] + b"\xff\xff\xff\x7f" + whole[directory + 20 :]
    yield "a count that is too large", whole[: directory + 10] + b"\xff\xff" + whole[directory + 12 :]
    yield "a member outside", whole[: central + 42] + b"\xff\xff\xff\x7f" + whole[central + 46 :]
    second = whole.index(b"PK\x01\x02", central + 4)
    yield (
        "two members in one place",
        whole[: second + 42] + whole[central + 42 : central + 46] + whole[second + 46 :],
    )
    inner = zip_of({"b.npy": npy})
    nested = zip_of({"a.npy": npy + inner[: inner.index(b"PK\x01\x02")], "b.npy": npy})
    entry = nested.rindex(b"PK\x01\x02")
    place = struct.pack("<I", nested.index(b"PK\x03\x04", 4))
    yield "members that overlap", nested[: entry + 42] + place + nested[entry + 46 :]
    yield "a member twice", whole.replace(b"b.npy", b"a.npy")
    yield "a local header of another name", whole.replace(b"a.npy", b"c.npy", 1)
    yield "an encrypted member", whole[: central + 8] + b"\x01" + whole[central + 9 :]
    yield "an unknown compression", whole[: central + 10] + b"\x63" + whole[central + 11 :]
    yield "a size that disagrees", whole[: central + 24] + b"\xff\xff\xff\x00" + whole[central + 28 :]
    yield "neither torch's nor NumPy's", zip_of({"readme.txt": b"hello"})
    bomb = npy_header((2**27,), "<f8") + b"\0" * (1 << 20)
    packed = zip_of({"bomb.npy": bomb}, zipfile.ZIP_DEFLATED)
    at = packed.index(b"PK\x01\x02")
    yield "a zip bomb", packed[: at + 24] + struct.pack("<I", 2**30 + 128) + packed[at + 28 :]
    deflated = zip_of({"a.npy": npy * 50}, zipfile.ZIP_DEFLATED)
    for i in (60, 90):
        yield f"damaged data at {i}", deflated[:i] + bytes([deflated[i] ^ 0xFF]) + deflated[i + 1 :]
    yield "a bomb in data.pkl", zip_of({"archive/data.pkl": b"N" * (200 << 20)}, zipfile.ZIP_DEFLATED)


# ---- NumPy


def npy_header(shape, descr: str, fortran="False") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def numpy_files() -> Iterator[tuple[str, bytes]]:
    yield "objects", npy_header((1,), "|O") + pickle.dumps([Calls(os.system, "true")])
    yield "records", npy_header((1,), "|V8") + b"\0" * 8
    yield "data that is missing", npy_header((100,), "<f8")
    yield "a negative shape", npy_header((-1,), "<f8") + b"\0" * 8
    yield "a shape that overflows", npy_header((2**62, 2**62), "<f8") + b"\0" * 8
    yield "a fortran shape that overflows", npy_header((2**62, 2**62), "<f8", "True") + b"\0" * 8
    yield "a shape of words", npy_header("('a',)", "<f8") + b"\0" * 8
    yield "no shape", b"\x93NUMPY\x01\x00\x02\x00{}"
    yield "a header longer than the file", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}"
    yield "a later version", b"\x93NUMPY\x09\x00\x02\x00{}"
    yield "half a magic number", b"\x93NUM"


# ---- safetensors


def safetensors_files() -> Iterator[tuple[str, bytes]]:
    def file(header: dict | bytes, data: bytes = b"\0" * 16, length: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def one(**fields) -> dict:
        return {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} | fields}

    yield "a header of a gigabyte", file(one(), length=2**30)
    yield "a header longer than the file", file(one(), length=10_000)
    yield "offsets outside", file(one(data_offsets=[0, 32], shape=[8]))
    yield "offsets that go back", file(one(data_offsets=[16, 0]))
    yield "negative offsets", file(one(data_offsets=[-16, 0]))
    yield "a shape that does not fit", file(one(shape=[5]))
    yield "a shape that overflows", file(one(shape=[2**62, 2**62]))
    yield "a negative size in a shape", file(one(shape=[-4]))
    yield "tensors that overlap", file(one() | {"v": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}})
    yield "a hole", file(one(shape=[2], data_offsets=[8, 16]))
    yield "a tensor twice", file(b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}')  # fmt: skip
    yield "an unknown type", file(one(dtype="F3"))
    yield "half bytes", file(one(dtype="F4", shape=[32]))
    yield "deep JSON", file(b"[" * 100_000)
    yield "no JSON", file(b"\xff\xfe")
    whole = save({"w": torch.ones(10), "v": torch.ones(3)})
    for size in (0, 4, 7, 8, 20, len(whole) - 1):
        yield f"safetensors cut at {size}", whole[:size]


# ---- GGUF


def gguf_files() -> Iterator[tuple[str, bytes]]:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    def tensor(name="w", sizes=(4,), kind=0, offset=0) -> bytes:
        return text(name) + struct.pack("<I", len(sizes)) + b"".join(struct.pack("<Q", s) for s in sizes) + struct.pack("<IQ", kind, offset)  # fmt: skip

    def file(tensors=(), fields=(), data=b"\0" * 64, version=3, counts=None) -> bytes:
        n_tensors, n_fields = counts or (len(tensors), len(fields))
        head = (
            b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_fields) + b"".join(fields) + b"".join(tensors)
        )
        return head + b"\0" * (-len(head) % 32) + data

    def field(key="k", kind=4, value=b"\x01\0\0\0") -> bytes:
        return text(key) + struct.pack("<I", kind) + value

    yield "a version of tomorrow", file(version=99)
    yield "a big-endian GGUF", file(version=3 << 24)
    yield "more tensors than bytes", file(counts=(2**60, 0))
    yield "more fields than bytes", file(counts=(0, 2**60))
    yield "a tensor outside", file([tensor(sizes=(400,))])
    yield "an offset outside", file([tensor(offset=2**63)])
    yield "sizes that overflow in GGUF", file([tensor(sizes=(2**40, 2**40))])
    yield "a size beyond 2^63", file([tensor(sizes=(2**63 + 1,))])
    yield "too many axes", file([tensor(sizes=(1,) * 20)])
    yield "a type that nobody has", file([tensor(kind=77)])
    yield "blocks that do not fill a row", file([tensor(sizes=(33,), kind=2)])
    yield "the same name twice", file([tensor(), tensor(offset=32)])
    yield "tensors on top of each other", file([tensor(), tensor("v", offset=8)])
    yield "a field twice", file([], [field(), field()])
    yield "a field of an unknown type", file([], [field(kind=99)])
    yield "a list longer than the file", file([], [field(kind=9, value=struct.pack("<IQ", 0, 2**60))])
    yield "lists in lists", file([], [field(kind=9, value=struct.pack("<IQ", 9, 1) * 50)])
    yield "a text longer than the file in GGUF", file([], [field(kind=8, value=struct.pack("<Q", 2**60))])
    yield "an alignment of zero", file([tensor()], [field("general.alignment", 4, struct.pack("<I", 0))])
    whole = file([tensor()], [field()])
    for size in (4, 10, 20, 30, 45, 60, 90, len(whole) - 60):
        yield f"gguf cut at {size}", whole[:size]


# ---- HDF5


def hdf5_file(fill) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        fill(file)
    return out.getvalue()


def hdf5_files() -> Iterator[tuple[str, bytes]]:
    def plain(file):
        file["a/weight"] = np.arange(4000, dtype="f4")
        file["b/weight"] = np.arange(6, dtype="f4")

    def in_itself(file):
        file["a"] = file["/"]

    def elsewhere(file):
        layout = h5py.VirtualLayout((4,), "f4")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
        file.create_virtual_dataset("x", layout)

    whole = hdf5_file(plain)
    for size in (8, 40, 96, 200, 600, 1000, 2100, len(whole) // 2, len(whole) - 1):
        yield f"hdf5: only {size} bytes", whole[:size]
    yield "hdf5: zeros after the magic number", whole[:8] + bytes(len(whole) - 8)
    yield "hdf5: a group in itself", hdf5_file(in_itself)
    yield "hdf5: data of another file", hdf5_file(elsewhere)
    outside = hdf5_file(lambda f: f.create_dataset("x", (1,), "f4", external=[("/etc/passwd", 0, 4)]))
    yield "hdf5: external data", outside
    bomb = hdf5_file(lambda f: f.create_dataset("x", (1 << 33,), "f4", chunks=(1 << 20,), compression="gzip"))
    yield "hdf5: a bomb", bomb


def all_files() -> list[tuple[str, bytes]]:
    return [*torch_files(), *zip_files(), *numpy_files(), *safetensors_files(), *gguf_files(), *hdf5_files()]
