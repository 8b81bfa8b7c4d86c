"""The C ABI from plain C: a program that a C compiler builds, over the shared library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import generating_models
import numpy as np
import pytest
import torch
from torch import nn

from pycandle import GoldenRecorder, perturb

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
HEADER = ROOT / "include" / "pycandle" / "c.h"


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.count


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.value, self.policy = nn.Linear(16, 1), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = torch.tanh(self.body(x))
        return {"value": self.value(hidden), "policy": self.policy(hidden)}


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("c") / "c_abi"
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-pthread"]
    source = ROOT / "tests" / "front_end" / "c_abi.c"
    links = [f"-L{BUILD}", "-lpycandle", f"-Wl,-rpath,{BUILD}", "-lm"]
    subprocess.run(["cc", *strict, f"-I{ROOT / 'include'}", source, "-o", made, *links], check=True)
    return made


def run(program: Path, *arguments: str | Path, given: bytes = b"") -> bytes:
    done = subprocess.run([program, *arguments], input=given, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def two_heads(tmp_path_factory) -> tuple[nn.Module, Path]:
    model = perturb(TwoHeads().eval(), seed=3)
    recorder = GoldenRecorder(tmp_path_factory.mktemp("heads"), dynamic={"x": {0: "batch"}})
    recorder.record(model, torch.randn(3, 8))
    recorder.save("heads")
    return model, recorder.output_dir / "heads_manifest.json"


def test_a_model_says_what_it_takes_and_gives(program, two_heads):
    lines = run(program, "facts", two_heads[1]).decode().splitlines()
    assert lines[0] == "model heads cpu 1 0"
    assert re.fullmatch(r"input x 1 \w+ 8", lines[1])
    assert [line.split()[1] for line in lines[2:]] == ["output.value", "output.policy"]
    assert lines[3].endswith(" 4")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [1, 5])
def test_a_c_program_gives_what_torch_gives(program, two_heads, rows, backend):
    model, manifest = two_heads
    x = torch.randn(rows, 8)
    got = np.frombuffer(
        run(program, "forward", manifest, backend, given=x.numpy().tobytes()), dtype=np.float32
    )
    with torch.no_grad():
        expected = model(x)
    assert np.allclose(got[:rows], expected["value"].numpy().ravel(), atol=1e-5)
    assert np.allclose(got[rows:], expected["policy"].numpy().ravel(), atol=1e-5)


def test_errors_are_values_and_leave_results_alone(program, two_heads):
    run(program, "errors", two_heads[1])


def test_sessions_have_states_of_their_own(program, tmp_path):
    recorder = GoldenRecorder(tmp_path)
    recorder.record(Counter().eval(), torch.ones(1))
    recorder.save("counter")
    run(program, "sessions", tmp_path / "counter_manifest.json")


def test_two_threads_decode_token_by_token(program, tmp_path):
    run(program, "steps", generating_models.record(generating_models.make("gpt2"), tmp_path))


def test_the_program_of_the_documentation_runs(program, tmp_path):
    page = (ROOT / "docs" / "c.md").read_text()
    source, recording = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("c", "python"))
    (tmp_path / "record.py").write_text(recording)
    subprocess.run([sys.executable, "record.py"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "program.c").write_text(source)
    links = [f"-L{BUILD}", "-lpycandle", f"-Wl,-rpath,{BUILD}"]
    subprocess.run(
        ["cc", "-Wall", "-Werror", f"-I{ROOT / 'include'}", "program.c", *links], cwd=tmp_path, check=True
    )
    shown = subprocess.run(["./a.out"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("2 x 4, ")


def test_every_function_of_the_header_is_exported():
    declared = set(re.findall(r"\b(pycandle_\w+)\(", HEADER.read_text())) - {"pycandle_tensor"}
    library = BUILD / "libpycandle.so"
    names = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    exported = set(re.findall(r" T (pycandle_\w+)", names.stdout))
    assert declared == exported and len(declared) > 25
