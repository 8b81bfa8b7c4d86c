"""Every sample of the catalogue, run by the reference backend and compared with torch.

A sample is a Python expression in the op's definition (`.sample("F.gelu(t(3, 4))")`). It may use torch, F, and
    t(*shape, dtype=, low=, high=)   random floats: standard normal, or uniform between low and high
    i(*shape, low=0, high=9, dtype=) random integers, high included
    m(*shape)                        random bools
which become the inputs of a program whose outputs are the expression's tensors. Many samples share one program: it
is recorded without the recorder's proofs, imported and run once for each dtype that t() gives.
"""

from __future__ import annotations

import functools
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
import torchvision  # noqa: F401  (registers torch.ops.torchvision)
import transformers.integrations.moe  # noqa: F401  (registers torch.ops.transformers)
from conftest import PYCANDLE

import pycandle.recording.tracing.filter_ops
import pycandle.recording.tracing.rnn_ops  # noqa: F401  (these register torch.ops.pycandle)
from pycandle.recording.checking.chain import Chosen
from pycandle.recording.files.manifest import build_manifest, write_manifest
from pycandle.recording.files.tensor_files import write_tensors
from pycandle.recording.graph.program import build_program
from pycandle.recording.inputs import flatten_outputs, gather_inputs
from pycandle.recording.sizes.dims import DimNames
from pycandle.recording.tracing.exporting import export_model

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
# Multiples of the unit roundoff times the largest magnitude, beside what torch itself is off by. f16 and bf16 are
# coarse, so they only show where torch rounds; f32 and f64 show what an op computes.
TOLERANCE = {torch.float64: 64, torch.float32: 16, torch.bfloat16: 4, torch.float16: 4}
TOGETHER = 60  # samples in one program


@dataclass(frozen=True)
class Sample:
    op: str
    expression: str
    overloads: frozenset[str]

    @property
    def seed(self) -> int:
        return zlib.crc32(self.expression.encode())


@dataclass
class Case:
    """A sample with its inputs for one dtype, and what torch makes of them."""

    sample: Sample
    tensors: list[torch.Tensor]
    expected: list[torch.Tensor]
    exact: list[torch.Tensor] | None  # the same in f64, where that runs
    failures: list[str] = field(default_factory=list)


class Maker:
    """t, i and m that draw new tensors, and keep them."""

    def __init__(self, seed: int, dtype: torch.dtype):
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.made: list[torch.Tensor] = []

    def t(self, *shape, dtype=None, low=None, high=None):
        wanted = dtype or self.dtype
        wide = torch.complex128 if wanted.is_complex else torch.float64
        if low is None and high is None:
            drawn = torch.randn(shape, generator=self.generator, dtype=wide)
        else:
            low, high = (0 if low is None else low), (1 if high is None else high)
            drawn = torch.rand(shape, generator=self.generator, dtype=wide) * (high - low) + low
        return self._keep(drawn.to(wanted))

    def i(self, *shape, low=0, high=9, dtype=torch.int64):
        return self._keep(torch.randint(low, high + 1, shape, generator=self.generator).to(dtype))

    def m(self, *shape):
        return self._keep(torch.rand(shape, generator=self.generator) < 0.6)

    def _keep(self, tensor):
        self.made.append(tensor)
        return tensor


class Giver:
    """t, i and m that hand out given tensors in turn."""

    def __init__(self, tensors):
        self._next = iter(tensors)

    def t(self, *_, **__):
        return next(self._next)

    i = m = t


def evaluate(expression: str, source, **names) -> object:
    return eval(expression, {"torch": torch, "F": F, "t": source.t, "i": source.i, "m": source.m, **names})


def tensors_in(result: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def make_case(sample: Sample, dtype: torch.dtype) -> Case | None:
    """None where torch has no kernel for the dtype."""
    maker = Maker(sample.seed, dtype)
    try:
        with torch.no_grad():
            expected = tensors_in(evaluate(sample.expression, maker))
    except Exception as error:
        if dtype is not torch.float32:
            return None
        return Case(sample, [], [], None, [f"torch itself: {type(error).__name__}: {error}"])
    return Case(sample, maker.made, expected, exact_values(sample, maker.made))


def exact_values(sample: Sample, tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    def wide(t: torch.Tensor) -> torch.Tensor:
        return t.to(torch.complex128) if t.is_complex() else t.double() if t.is_floating_point() else t

    try:
        with torch.no_grad():
            return tensors_in(evaluate(sample.expression, Giver([wide(t) for t in tensors])))
    except (RuntimeError, NotImplementedError):
        return None


class Together(torch.nn.Module):
    """The samples of several cases side by side, on one list of tensors."""

    def __init__(self, cases: list[Case]):
        super().__init__()
        self.cases = cases

    def forward(self, tensors):
        outputs, at = [], 0
        for case in self.cases:
            own = tensors[at : at + len(case.tensors)]
            at += len(case.tensors)
            outputs.append(tensors_in(evaluate(case.sample.expression, Giver(own))))
        return outputs


def record(cases: list[Case], folder: Path) -> dict:
    """Writes the program of the cases and its inputs; gives the manifest."""
    inputs = gather_inputs(_signature(), ([t for case in cases for t in case.tensors],), {})
    exported = export_model(Together(cases).eval(), inputs, [], {})
    chosen = Chosen(build_program(exported, {}), DimNames(), [], [])
    _, names, _ = flatten_outputs([case.expected for case in cases])
    about = {
        "model": {"class": "Together", "seed": 0, "perturbed": False},
        "soundness": {"status": "verified", "checks": []},
        "notes": [],
        "taps": "none",
        "source": False,
    }
    fields = build_manifest(chosen, inputs, names, about).fields
    constants = [(p.name, p.tensor) for p in chosen.program.parameters]
    write_tensors(folder / "samples_weights.safetensors", constants)
    write_tensors(folder / "samples_trace.safetensors", [])
    for entry in fields["parameters"]:
        entry["file"] = "samples_weights.safetensors"
    fields |= {
        "name": "samples",
        "files": {"trace": "samples_trace.safetensors", "weights": "samples_weights.safetensors"},
    }
    fields["taps"] = []
    write_manifest(folder / "samples_manifest.json", fields)
    write_tensors(folder / "inputs.safetensors", [(name, tensor) for _, name, tensor in inputs.tensors()])
    return fields


@functools.cache
def _signature():
    import inspect

    return inspect.Signature([inspect.Parameter("tensors", inspect.Parameter.POSITIONAL_OR_KEYWORD)])


def run(cases: list[Case], folder: Path) -> dict[str, torch.Tensor] | str:
    """The outputs by name, or the error."""
    command = [
        PYCANDLE,
        "forward",
        folder / "samples_manifest.json",
        "--backend",
        "reference",
        "--inputs",
        folder / "inputs.safetensors",
    ]
    finished = subprocess.run(
        [*map(str, command), "--out", str(folder / "outputs.safetensors")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if finished.returncode != 0:
        return finished.stderr.strip() or f"exit {finished.returncode}"
    return read_tensors(folder / "outputs.safetensors")


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """As safetensors, with complex numbers."""
    dtypes = {
        "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
        "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
        "C64": torch.complex64, "C128": torch.complex128,
    }  # fmt: skip
    data = bytearray(path.read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        flat = (
            torch.frombuffer(raw, dtype=dtypes[entry["dtype"]])
            if raw
            else torch.empty(0, dtype=dtypes[entry["dtype"]])
        )
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def judge(case: Case, got: list[torch.Tensor]) -> None:
    for index, (expected, ours) in enumerate(zip(case.expected, got, strict=True)):
        if expected.dtype is torch.complex128 and ours.dtype is torch.float64:
            ours = torch.view_as_complex(ours.contiguous())
        exact = (
            case.exact[index] if case.exact is not None and len(case.exact) == len(case.expected) else None
        )
        problem = difference(expected, ours, exact)
        if problem:
            case.failures.append(f"output {index}: {problem}")


def difference(expected: torch.Tensor, ours: torch.Tensor, exact: torch.Tensor | None) -> str | None:
    if expected.dtype != ours.dtype or expected.shape != ours.shape:
        return f"{ours.dtype} {list(ours.shape)} instead of {expected.dtype} {list(expected.shape)}"
    if not expected.dtype.is_floating_point and not expected.is_complex():
        wrong = int((expected != ours).sum())
        return (
            f"{wrong} of {expected.numel()} differ: {ours.flatten()[:8]} instead of {expected.flatten()[:8]}"
            if wrong
            else None
        )
    if expected.is_complex():
        parts = [
            torch.view_as_real(x.resolve_conj()) if x is not None and x.is_complex() else None
            for x in (expected, ours, exact)
        ]
        return difference(*parts)
    tolerance = TOLERANCE[expected.dtype] * torch.finfo(expected.dtype).eps / 2
    a, b = expected.double(), ours.double()
    if not torch.equal(a.isnan(), b.isnan()):
        return f"NaN in {int(b.isnan().sum())} places instead of {int(a.isnan().sum())}: {b.flatten()[:8]} instead of {a.flatten()[:8]}"
    infinite = a.isinf() | b.isinf()
    if not torch.equal(a[infinite], b[infinite]):
        return f"infinities differ: {b.flatten()[:8]} instead of {a.flatten()[:8]}"
    finite = ~(infinite | a.isnan())
    if not finite.any():
        return None
    allowed = tolerance * float(a[finite].abs().max())
    if exact is not None and exact.shape == expected.shape and exact.dtype is torch.float64:
        off = (a - exact)[finite & exact.isfinite()].abs()
        allowed += 2 * float(off.max()) if off.numel() else 0
    worst = float((a - b)[finite].abs().max())
    if worst <= allowed:
        return None
    at = int(((a - b).abs() * finite).nan_to_num().argmax())
    return f"off by {worst:.3g}, {allowed:.3g} allowed: {b.flatten()[at]} instead of {a.flatten()[at]}"


def check_together(cases: list[Case], folder: Path) -> None:
    """Runs the cases as one program; when that fails, halves find the ones to blame."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fields = record(cases, folder)
        outputs = run(cases, folder)
    except Exception as error:
        outputs = f"recording: {error}"
    if isinstance(outputs, str):
        if len(cases) == 1:
            cases[0].failures.append(outputs)
            return
        middle = len(cases) // 2
        check_together(cases[:middle], folder / "a")
        check_together(cases[middle:], folder / "b")
        return
    met = ops_met(fields, folder, cases)
    ordered = [outputs[entry["name"]] for entry in fields["outputs"]]
    for case in cases:
        judge(case, ordered[: len(case.expected)])
        if case.sample.op not in met:
            case.failures.append(f"is recorded and imported without {case.sample.op}")
        ordered = ordered[len(case.expected) :]


def ops_met(fields: dict, folder: Path, cases: list[Case]) -> set[str]:
    """Ops of the cases of which an overload was recorded, or which the importer made of another op's overload."""
    recorded = {node["op"] for node in fields["nodes"]}
    met = {case.sample.op for case in cases if recorded & case.sample.overloads}
    if all(case.sample.op in met for case in cases):
        return met
    command = [str(PYCANDLE), "inspect", str(folder / "samples_manifest.json"), "--ptir"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return met | set(re.findall(r"^%.* = (\w+)\(", text, re.MULTILINE))


@functools.cache
def catalogue() -> list[dict]:
    found = subprocess.run([str(PYCANDLE), "ops", "--json"], capture_output=True, text=True, check=True)
    return json.loads(found.stdout)


def samples_of(family: str) -> list[Sample]:
    ops = [op for op in catalogue() if op["family"] == family]
    return [Sample(op["name"], text, frozenset(op["aten"])) for op in ops for text in op["samples"]]


def pytest_generate_tests(metafunc) -> None:
    if "family" in metafunc.fixturenames:
        assert Path(PYCANDLE).exists(), f"{PYCANDLE} is not built: make build"
        metafunc.parametrize(
            "family", list(dict.fromkeys(op["family"] for op in catalogue() if op["samples"]))
        )


def failures_of(samples: list[Sample], dtype: torch.dtype, folder: Path) -> list[str]:
    cases = [case for sample in samples if (case := make_case(sample, dtype)) is not None]
    sound = [case for case in cases if not case.failures]
    for first in range(0, len(sound), TOGETHER):
        check_together(sound[first : first + TOGETHER], folder / str(first))
    return [
        f"{case.sample.op}: {case.sample.expression}\n    {text}" for case in cases for text in case.failures
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_agree_with_torch(family: str, dtype: str, tmp_path: Path) -> None:
    failures = failures_of(samples_of(family), DTYPES[dtype], tmp_path)
    assert not failures, f"{len(failures)} samples of {family} are wrong\n" + "\n".join(failures)


def test_every_functional_that_torch_knows_has_a_sample() -> None:
    without = [
        op["name"] for op in catalogue() if op["kind"] == "functional" and op["aten"] and not op["samples"]
    ]
    assert not without, f"no sample: {', '.join(without)}"


def test_a_wrong_result_is_noticed() -> None:
    right = torch.tensor([1.0, 2.0, 3.0])
    assert difference(right, right * (1 + 1e-7), right.double()) is None
    assert difference(right, right * (1 + 1e-5), right.double())
    assert difference(right, torch.tensor([1.0, 2.0, float("nan")]), None)
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3]), None)
    assert difference(right, right.double(), None)


if __name__ == "__main__":  # test_catalogue.py FAMILY [f32]: without pytest, and only what is asked for
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        for family in sys.argv[1].split(","):
            for name in sys.argv[2].split(",") if len(sys.argv) > 2 else DTYPES:
                chosen = [s for s in samples_of(family) if os.environ.get("ONLY", "") in s.expression]
                found = failures_of(chosen, DTYPES[name], Path(scratch) / family / name)
                print(f"{family} {name}: {len(found)} of {len(chosen)} samples are wrong")
                print("\n".join(found))
