"""codegen proves what it prints before it writes: the verdict is that of the compiled code, for code as it is emitted and with
faults put in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from faults.models import FAULTED, recorded
from faults.source import BUILD, FLAGS, body_of, emitted, precompiled
from faults.source_edits import edits_of
from test_codegen import recorded as saved
from test_codegen import recorded_case
from torch import nn
from zoo.basics import BY_NAME, CASES
from zoo.check import PROGRAM

RUNNER = BUILD / "tests" / "proof_runner"
BROKEN = BUILD / "tests" / "broken_codegen"
BEGIN = """#include <pycandle/pycandle.h>

#include <cstdio>

template <class Model>
void judge(const char* name, const std::string& manifest) try {
  using namespace pycandle;
  const Model model(Weights::open(manifest));
  const RoundTrip trip = round_trip(compile(model, signature_of(manifest)), manifest);
  std::printf("%s %s\\n", name, trip.equal ? "equal" : trip.difference.c_str());
} catch (const std::exception&) {
  std::printf("%s throws\\n", name);
}
"""


def slips(text: str) -> list[str]:
    """The header with mistakes that a printer could make: weights, order, statements, counts, numbers."""
    places = [
        *re.finditer(r'w / "(\w[\w.]*)"', text),  # another module's weights
        *re.finditer(r"\b\w+\((\w+, \w+)\)", text),  # arguments the other way round
        *re.finditer(r"\n    (?:const Tensor )?(\w+) = (?=[^\n]*\b\1\b)", text),  # x = f(x)
        *re.finditer(r"[(\s](\d+)[,)]", text),  # a count or a number
    ]
    names = re.findall(r'w / "([\w.]+)"', text)
    edited = []
    for place in places:
        start, end = place.span(1)
        old = place[1]
        if place[0].startswith("w /"):
            new = names[(names.index(old) + 1) % len(names)]
        elif ", " in old:
            new = ", ".join(reversed(old.split(", ")))
        elif old.isdigit():
            new = str(int(old) + 1)
        else:
            statement = text[place.start() : text.index(";", place.end()) + 1]
            edited.append(text.replace(statement, "", 1))
            continue
        if new != old:
            edited.append(text[:start] + new + text[end:])
    return edited


def variants(text: str, most: int) -> list[str]:
    """As emitted, and with mistakes: always the same ones, from all over the text."""
    faults = [e.applied(text) for e in edits_of(text) if "@LIKE" not in e.text]
    found = [
        *faults[:: max(1, 2 * len(faults) // most)],
        *slips(text)[:: max(1, 2 * len(slips(text)) // most)],
    ]
    return [text, *found]


def compiled_verdicts(headers: list[str], model: str, name_space: str, manifest: Path, folder: Path) -> list:
    """Of each header: is it the recorded program? None when it does not compile."""
    unit = BEGIN + "".join(body_of(text, name_space, f"v{i}") for i, text in enumerate(headers))
    fits = built(unit, [f"v{i}::{model}" for i in range(len(headers))], folder)
    if fits is None:  # one by one: which are no C++?
        alone = [built(BEGIN + body_of(t, name_space, "v0"), [], folder) is not None for t in headers]
        good = [text for text, is_good in zip(headers, alone, strict=True) if is_good]
        rest = iter(compiled_verdicts(good, model, name_space, manifest, folder))
        return [next(rest) if is_good else None for is_good in alone]
    said = subprocess.run([folder / "judge", manifest], capture_output=True, text=True, check=True).stdout
    # A difference may go on over several lines.
    verdicts = re.findall(r"^v\d+::\w+ (.*)$", said, re.MULTILINE)
    return [verdict == "equal" for verdict in verdicts]


def built(unit: str, models: list[str], folder: Path) -> Path | None:
    calls = "".join(f'  judge<{m}>("{m}", argv[1]);\n' for m in models)
    source = folder / "judge.cpp"
    source.write_text(f"{unit}int main(int, char** argv) {{\n{calls}}}\n")
    library = [BUILD / "libpycandle.so", f"-Wl,-rpath,{BUILD}"] if models else ["-fsyntax-only"]
    headers = precompiled(folder / "headers")
    command = ["g++-12", *FLAGS, "-include", headers, source, "-o", folder / "judge", *library]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    return folder / "judge" if done.returncode == 0 else None


def agree(manifest: Path, folder: Path, most: int) -> int:
    """Holds the proof beside the compiled code; the number of mistakes that both refuse."""
    text, model, name_space = emitted(PROGRAM, manifest, folder)
    headers = variants(text, most)
    paths = [folder / f"{i}.hpp" for i in range(len(headers))]
    for path, header in zip(paths, headers, strict=True):
        path.write_text(header)
    said = subprocess.run([RUNNER, manifest, *paths], capture_output=True, text=True, check=True).stdout
    proven = [line == "equal" for line in said.splitlines()]
    compiled = compiled_verdicts(headers, model, name_space, manifest, folder)
    assert proven[0] and compiled[0], said.splitlines()[0]
    for path, mine, theirs, why in zip(paths, proven, compiled, said.splitlines(), strict=True):
        assert mine == bool(theirs), f"{path}: the proof says {why}, compiled it is {theirs}"
    return proven.count(False)


def manifest_of(name: str, folder: Path) -> Path:
    if name in BY_NAME:
        return recorded_case(BY_NAME[name], folder)
    (subject,) = [subject for subject in FAULTED if subject.name == name]
    return recorded(subject, folder)


def of_rank(name: str, axes: int) -> type[nn.Module]:
    return getattr(nn, f"{name}{axes}d")


def layers() -> list[tuple[str, nn.Module]]:
    """Each of torch's modules that codegen says by its name, with every option that is not the usual one."""
    conv = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False}
    pool = {"stride": 2, "padding": 1, "ceil_mode": True}
    recurrent = {"num_layers": 2, "bias": False, "batch_first": True, "bidirectional": True}
    found = [
        ("ids", nn.Embedding(7, 4)),
        ("row", nn.Linear(6, 5, bias=False)),
        ("row", nn.LayerNorm(6, eps=1e-3, bias=False)),
        ("row", nn.LayerNorm(6, elementwise_affine=False)),
        ("row", nn.RMSNorm(6, eps=1e-3, elementwise_affine=False)),
        ("x1", nn.GroupNorm(2, 4, eps=1e-3, affine=False)),
        ("x1", nn.PReLU(4)),
        ("x1", nn.AvgPool1d(3, count_include_pad=False, **pool)),
        ("x2", nn.AvgPool2d(3, count_include_pad=False, divisor_override=5, **pool)),
        ("x3", nn.AvgPool3d(3, count_include_pad=False, divisor_override=5, **pool)),
        ("x1", nn.LSTM(12, 3, **recurrent)),
        ("x1", nn.GRU(12, 3, **recurrent)),
        ("x1", nn.RNN(12, 3, nonlinearity="relu", **recurrent)),
        ("x1", nn.MultiheadAttention(12, 3, bias=False, batch_first=True)),
        *[("row", nn.GELU(approximate="tanh")), ("row", nn.Hardtanh(-2.0, 3.0))],
        *[("row", nn.LeakyReLU(0.2)), ("row", nn.ELU(0.7))],
        *[("row", nn.Softmax(dim=0)), ("row", nn.LogSoftmax(dim=0))],
    ]
    for name in (
        "ReLU",
        "ReLU6",
        "SiLU",
        "Mish",
        "Sigmoid",
        "Tanh",
        "Hardswish",
        "Hardsigmoid",
        "LogSigmoid",
    ):
        found.append(("row", getattr(nn, name)()))
    for axes in (1, 2, 3):
        found += [
            (f"x{axes}", of_rank("Conv", axes)(4, 6, 3, **conv)),
            (f"x{axes}", of_rank("Conv", axes)(4, 6, 3, padding="same")),
            (f"x{axes}", of_rank("ConvTranspose", axes)(4, 6, 3, output_padding=1, **conv)),
            (f"x{axes}", of_rank("BatchNorm", axes)(4, eps=1e-3, affine=False)),
            (f"x{axes}", of_rank("MaxPool", axes)(3, dilation=2, **pool)),
            (f"x{axes}", of_rank("AdaptiveAvgPool", axes)(2)),
        ]
    return found


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reads = [name for name, _ in layers()]
        for i, (_, layer) in enumerate(layers()):
            self.add_module(f"layer{i}", layer)

    def forward(self, ids, row, x1, x2, x3):
        given = {"ids": ids, "row": row, "x1": x1, "x2": x2, "x3": x3}
        found = []
        for i, name in enumerate(self.reads):
            layer, x = getattr(self, f"layer{i}"), given[name]
            is_attention = isinstance(layer, nn.MultiheadAttention)
            y = layer(x, x, x, need_weights=False) if is_attention else layer(x)
            found.append(y[0] if isinstance(y, tuple) else y)
        return tuple(found)


def test_every_layer_is_proven_with_every_option(tmp_path, pycandle) -> None:
    inputs = {"ids": torch.arange(6).reshape(2, 3), "row": torch.randn(2, 6), "x1": torch.randn(2, 4, 12)}
    inputs |= {"x2": torch.randn(2, 4, 12, 12), "x3": torch.randn(2, 4, 12, 12, 12)}
    manifest = saved(Layers(), tmp_path, inputs, {})
    pycandle("codegen", "--manifest", manifest, "--out", tmp_path / "model.hpp")
    named = set(re.findall(r"nn::(\w+) layer", (tmp_path / "model.hpp").read_text()))
    torchs = {type(layer).__name__ for _, layer in layers()}
    assert torchs - {"ReLU6"} <= named, "ReLU6 is torch's Hardtanh from 0 to 6"


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_the_command_writes_nothing_when_its_code_is_not_the_program(tmp_path) -> None:
    """BROKEN is the real program, but its recovered lists read the weights of their first element."""
    manifest = saved(Blocks(), tmp_path / "recording", {"x": torch.randn(2, 6)}, {})
    before = set(tmp_path.rglob("*"))
    command = ["codegen", "--manifest", manifest, "--out"]
    for out in ("out/model.hpp", "project"):
        for option in ((), ("--allow-gaps",), ("--merge",), ("--diff",), ("--check",)):
            done = subprocess.run([BROKEN, *command, tmp_path / out, *option], capture_output=True, text=True)
            assert done.returncode == 1, done.stdout + done.stderr
            assert "would not be the recorded program, so nothing is written" in done.stderr
            assert "parameter blocks.1.0.weight" in done.stderr
            assert done.stdout == ""
            assert set(tmp_path.rglob("*")) == before
        subprocess.run([PROGRAM, *command, tmp_path / out], check=True, capture_output=True)
        assert (tmp_path / out).exists(), "the program itself writes it"
        before = set(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["gpt2", "meter"])
def test_the_proof_and_the_compiled_code_agree(name: str, tmp_path) -> None:
    assert RUNNER.exists(), f"{RUNNER} is not built: make build-tests"
    assert agree(manifest_of(name, tmp_path / "recording"), tmp_path / "emitted", most=24) >= 10


@pytest.mark.full
@pytest.mark.parametrize("name", [*(case.name for case in CASES), *(subject.name for subject in FAULTED)])
def test_the_proof_and_the_compiled_code_agree_over_the_zoo(name: str, tmp_path) -> None:
    agree(manifest_of(name, tmp_path / "recording"), tmp_path / "emitted", most=60)
