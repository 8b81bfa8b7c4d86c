"""Writes the tests that `pycandle test-backend` runs: one-op programs and small models with PyTorch's values.

    python -m tests.backend.make_pack            # tests/backend/pack/cases.jsonl and tensors.bin

Every op of the catalogue is there through its samples (`pycandle ops --json`), over dtypes, on tensors without elements or axes,
transposed, in steps, repeated, and on NaN, infinities and -0.0; torch's operator database adds integers, bools and complex
numbers. What the reference backend does not pass is left out and listed. Nothing here depends on the clock: the same sources and
the same torch give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()

import torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "python"), str(ROOT / "tests")]

from op_db import samples as op_db  # noqa: E402
from op_db.running import quiet_torch, rotated  # noqa: E402
from op_db.tracing import Untraceable, as_recorded, contiguous, manifest_of, trace  # noqa: E402
from test_catalogue import Giver, Maker, Sample, catalogue, evaluate, tensors_in  # noqa: E402

from pycandle import _core  # noqa: E402
from pycandle.recording.inputs import DTYPE_NAMES  # noqa: E402

PYCANDLE = ROOT / "build" / "release" / "bin" / "pycandle"
FLOATS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
MOST_ELEMENTS = 600  # of all tensors of a case
EDGES = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -2.5, 3.0]


@dataclass
class Call:
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    states: list[torch.Tensor] = field(default_factory=list)


@dataclass
class Case:
    op: str
    name: str
    program: str
    calls: list[Call]
    random: bool = False
    parameters: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    states: list[tuple[str, torch.Tensor]] = field(default_factory=list)

    def tensors(self) -> list[torch.Tensor]:
        named = [tensor for _, tensor in (*self.parameters, *self.states)]
        return named + [t for call in self.calls for t in (*call.inputs, *call.outputs, *call.states)]

    def line(self) -> str:
        def types(tensors: list[torch.Tensor]) -> list:
            return [[DTYPE_NAMES[t.dtype], list(t.shape)] for t in tensors]

        def named(pairs: list[tuple[str, torch.Tensor]]) -> list:
            return [[name, DTYPE_NAMES[t.dtype], list(t.shape)] for name, t in pairs]

        fields: dict = {"op": self.op, "name": self.name, "program": self.program}
        fields |= {"random": True} if self.random else {}
        fields |= {"parameters": named(self.parameters)} if self.parameters else {}
        fields |= {"states": named(self.states)} if self.states else {}
        fields["calls"] = [
            {"inputs": types(c.inputs), "outputs": types(c.outputs)}
            | ({"states": types(c.states)} if self.states else {})
            for c in self.calls
        ]
        return json.dumps(fields, separators=(",", ":"))


# ---- one-op programs


class Without(Exception):
    """There is no such case, or it would be too large."""


def one_op(op: str, name: str, function: Callable, tensors: list[torch.Tensor]) -> Case:
    """`function` takes the tensors and gives a list of tensors."""
    try:
        expected = function([t.clone() for t in tensors])
        traced = trace(lambda *given: function(list(given)), tensors)
    except Untraceable as error:
        raise Without(str(error)) from error
    except Exception as error:
        raise Without(f"torch: {error}") from error
    if len(traced.outputs) != len(expected) or not expected:
        raise Without("results that are no tensors of the program")
    if any(t.layout is not torch.strided for t in (*expected, *(tensor for _, tensor in traced.inputs))):
        raise Without("sparse")
    given = [contiguous(tensor) for _, tensor in traced.inputs]
    outputs = [contiguous(t) for t in expected]
    if any(t.dtype not in DTYPE_NAMES for t in given + outputs):
        raise Without("a dtype that PTIR has not")
    if sum(t.numel() for t in given + outputs) > MOST_ELEMENTS:
        raise Without("too large")
    try:
        program = _core.load_manifest(manifest_of(traced), "reference").ptir
    except Exception as error:
        raise Without(f"import: {error}") from error
    if traced.is_uninitialised:
        raise Without("uninitialised")
    return Case(op, name, program, [Call(given, outputs)], random=traced.has_free_values)


class Varied(Maker):
    """t() that gives a tensor, and how the program makes the sample's tensor of it."""

    def __init__(self, seed: int, dtype: torch.dtype, form: str):
        super().__init__(seed, dtype)
        self.form = form
        self.undo: list[Callable] = []

    def t(self, *shape, dtype=None, low=None, high=None):
        if self.form == "scalar":
            shape = ()
        if self.form == "empty":
            shape = (0, *shape[1:])
        drawn = super().t(*shape, dtype=dtype, low=low, high=high)
        self.made.pop()
        self.undo.pop()
        if self.form == "edges" and drawn.is_floating_point():
            values = torch.tensor(EDGES, dtype=torch.float64).repeat(drawn.numel() // len(EDGES) + 1)
            drawn = values[: drawn.numel()].reshape(drawn.shape).to(drawn.dtype)
            drawn = drawn.flatten().roll(3 * len(self.made)).reshape(drawn.shape)
        return self._keep(drawn)

    def _keep(self, tensor):
        stored, undo = self._stored(tensor)
        self.made.append(stored)
        self.undo.append(undo)
        return tensor

    def _stored(self, tensor):
        if self.form == "transposed" and tensor.dim() >= 2:
            return tensor.mT.contiguous(), lambda x: x.mT
        if self.form == "in steps" and tensor.dim() >= 1:
            wide = torch.stack([tensor, -tensor if tensor.dtype is not torch.bool else ~tensor], -1)
            return wide.flatten(-2)[..., :-1].contiguous(), lambda x: x[..., ::2]
        if self.form == "repeated" and tensor.dim() >= 1:
            size = tensor.shape[0]
            tensor[1:] = tensor[:1]  # the sample's own tensor is the repeated one
            return tensor[:1].clone(), lambda x: x.expand(size, *x.shape[1:])
        return tensor.clone(), lambda x: x


FORMS = ["plain", "scalar", "empty", "edges", "transposed", "in steps", "repeated"]


def sample_case(sample: Sample, dtype: str, form: str) -> Case:
    maker = Varied(zlib.crc32(sample.expression.encode()), FLOATS[dtype], form)
    try:
        with torch.no_grad():
            evaluate(sample.expression, maker)
    except Exception as error:
        raise Without(f"torch: {error}") from error
    if form != "plain" and not maker.made:
        raise Without("no tensor")
    undo = maker.undo

    def function(tensors):
        given = [back(t) for back, t in zip(undo, tensors, strict=True)]
        with torch.no_grad():
            return tensors_in(evaluate(sample.expression, Giver(given)))

    name = f"{sample.expression} {dtype}" + ("" if form == "plain" else f", {form}")
    return one_op(sample.op, name, function, maker.made)


def samples_by_op() -> dict[str, list[Sample]]:
    return {
        op["name"]: [Sample(op["name"], text, frozenset(op["aten"])) for text in op["samples"]]
        for op in catalogue()
    }


def wanted_samples(samples: list[Sample]) -> Iterator[tuple[Sample, str, str]]:
    """All samples in f32, the first in every dtype and form."""
    for number, sample in enumerate(samples):
        yield sample, "f32", "plain"
        if number == 0:
            for form in FORMS[1:]:
                yield sample, "f32", form
        if number < 2:
            yield sample, "f16" if number == 0 else "bf16", "plain"
            if number == 0:
                yield sample, "f64", "plain"


def cases_of_samples(wanted: list[tuple[Sample, str, str]], left: Counter) -> list[Case]:
    cases = []
    for sample, dtype, form in wanted:
        try:
            cases.append(sample_case(sample, dtype, form))
        except Without as error:
            left[str(error).splitlines()[0][:60]] += 1
    return cases


def cases_of_entry(entry: str, left: Counter) -> list[Case]:
    """A few of torch's own samples, for dtypes and shapes that the catalogue's have not."""
    cases = []
    for dtype in op_db.dtypes_of(op_db.entries()[entry]):
        if dtype in ("f64", "f16", "bf16"):
            continue
        small = [
            c for c in op_db.calls_of(entry, dtype) if sum(t.numel() for t in c.tensors) <= MOST_ELEMENTS // 2
        ]
        found = 0
        for call in rotated(small, 4, zlib.crc32(entry.encode())):
            try:
                case = one_op("", f"{entry} {dtype}: {call}"[:160], call.tensors_on, call.tensors)
            except Without as error:
                left[str(error).splitlines()[0][:60]] += 1
                continue
            case.op = op_in(case.program)
            cases.append(case)
            found += 1
            if found == (2 if dtype == "f32" else 1):
                break
    return cases


def in_a_process(make: Callable, *arguments, left: Counter) -> list[Case]:
    """Some operators of torch end the process on tensors without elements."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        lost: Counter = Counter()
        with os.fdopen(write, "wb") as file:
            pickle.dump((make(*arguments, lost), lost), file)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        sent = file.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        if isinstance(arguments[0], list) and len(arguments[0]) > 1:
            return [c for one in arguments[0] for c in in_a_process(make, [one], left=left)]
        left["torch ends the process"] += 1
        return []
    cases, lost = pickle.loads(sent)
    left.update(lost)
    return cases


def op_in(program: str) -> str:
    """The op that a program is about: the last that is not one of layout."""
    layout = {"reshape", "transpose", "broadcast", "cast", "slice", "constant", "dim"}
    ops = [line.split(" = ")[1].split("(")[0] for line in program.splitlines() if line.startswith("%")]
    return next((op for op in reversed(ops) if op not in layout), ops[-1] if ops else "identity")


# ---- all of it


def all_cases() -> list[Case]:
    from backend import models

    left: Counter = Counter()
    cases: list[Case] = []
    samples = samples_by_op()
    with as_recorded():
        for of_op in samples.values():
            cases += in_a_process(cases_of_samples, list(wanted_samples(of_op)), left=left)
        for entry in op_db.entries():
            cases += in_a_process(cases_of_entry, entry, left=left)
    cases += models.cases()
    print(f"{len(cases)} cases; there is none for {sum(left.values())} others:")
    for why, count in left.most_common(8):
        print(f"  {count:5}  {why}")
    return without_twins(cases)


def without_twins(cases: list[Case]) -> list[Case]:
    seen, kept = set(), []
    for case in cases:
        key = (case.program, tuple(t.shape for t in case.tensors()), case.name.partition(", ")[2])
        if key not in seen:
            seen.add(key)
            kept.append(case)
    return kept


def write(folder: Path, cases: list[Case]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.jsonl").write_text("".join(case.line() + "\n" for case in cases))
    with (folder / "tensors.bin").open("wb") as file:
        for case in cases:
            for tensor in case.tensors():
                dense = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
                file.write(dense.flatten().view(torch.uint8).numpy().tobytes())


def passed_by_reference(folder: Path, cases: list[Case]) -> list[Case]:
    command = [str(PYCANDLE), "test-backend", "reference", "--pack", str(folder), "--json"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    kept = []
    for case, tested in zip(cases, result["tests"], strict=True):
        if tested["outcome"] == "passed":
            kept.append(case)
        else:
            print(f"left out: {case.op}: {case.name}: {tested['why'].splitlines()[0][:150]}")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "backend" / "pack")
    folder = parser.parse_args().out
    quiet_torch()
    cases = all_cases()
    write(folder, cases)
    kept = passed_by_reference(folder, cases)
    write(folder, kept)
    size = sum((folder / name).stat().st_size for name in ("cases.jsonl", "tensors.bin"))
    print(f"{len(kept)} cases of {len({c.op for c in kept})} ops, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
