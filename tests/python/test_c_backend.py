"""The C backend: programs run as compiled C, and libraries in C that people ship."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(20, 37), nn.Linear(37, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x))).softmax(-1)


class Residual(nn.Module):
    """Strides, batch norms, a residual, pools."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.conv = nn.Conv2d(16, 16, 3, padding=1)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm_1(self.stem(x))))
        x = torch.relu(x + self.norm_2(self.conv(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Depthwise(nn.Module):
    """Each channel with its own filter, then points; groups and dilation."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.point = (
            nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8),
            nn.Conv2d(8, 20, 1),
        )
        self.grouped = nn.Conv2d(20, 12, 3, padding=2, dilation=2, groups=4)
        self.up = nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.relu6(self.point(nn.functional.hardswish(self.deep(x))))
        return self.up(nn.functional.silu(self.grouped(x)))


class Gpt(nn.Module):
    """Embeddings, causal attention, norms, a tied head."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(41, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 70), nn.Linear(70, width)
        self.heads = heads

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(self.norm_1(x)).chunk(3, -1)
        )
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(nn.functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))
        return x @ self.embed.weight.T


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 20, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(40, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(self.lstm(x)[0].transpose(0, 1))[0]


class Counter(nn.Module):
    """A state that a call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.mul_(0.5).add_(x.sum(0))
        return x * self.total


MODELS = {
    "mlp": lambda: (Mlp(), torch.randn(3, 20)),
    "residual": lambda: (Residual(), torch.randn(2, 3, 33, 30)),
    "depthwise": lambda: (Depthwise(), torch.randn(1, 8, 19, 22)),
    "gpt": lambda: (Gpt(), torch.randint(0, 41, (2, 19))),
    "tagger": lambda: (Tagger(), torch.randn(3, 7, 12)),
    "counter": lambda: (Counter(), torch.randn(3, 4)),
}


def recorded(name: str, folder: Path, model: nn.Module, example: torch.Tensor) -> Path:
    from pycandle import GoldenRecorder

    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    recorder = GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(model.eval(), example)
    return recorder.save(name).manifest


@pytest.fixture(scope="module", params=MODELS)
def manifest(request, tmp_path_factory):
    torch.manual_seed(0)
    return recorded(request.param, tmp_path_factory.mktemp(request.param), *MODELS[request.param]())


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    torch.manual_seed(1)
    return recorded("mlp", tmp_path_factory.mktemp("mlp"), Mlp(), torch.randn(3, 20))


def test_every_tap_verifies(pycandle, manifest):
    result = pycandle.json("verify", manifest, "--backend", "c")
    assert result["status"] == "passed"
    assert max(output["max_abs"] for output in result["outputs"]) < 1e-3


def test_other_sizes_give_what_the_reference_gives(pycandle, tmp_path, mlp):
    from safetensors.numpy import load_file

    for backend in ("c", "reference"):
        pycandle("forward", mlp, "--set", "s0=11", "--backend", backend, "--out", tmp_path / backend)
    ours, theirs = load_file(tmp_path / "c"), load_file(tmp_path / "reference")
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.shape[0] == 11
        assert abs(value - theirs[name]).max() < 1e-6


def test_without_a_compiler_one_error_says_so(pycandle, mlp, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = pycandle("verify", mlp, "--backend", "c", status=2).stderr
    assert "needs a C compiler" in said and "no-such-compiler" in said
    assert pycandle.json("verify", mlp, "--backend", "cpu")["status"] == "passed"


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()


def test_what_it_cannot_write_is_refused_by_name_and_place(pycandle, tmp_path):
    manifest = recorded("spectrum", tmp_path, Spectrum(), torch.randn(2, 8))
    said = pycandle("forward", manifest, "--backend", "c", status=1).stderr
    assert "cannot be written in C" in said and "test_c_backend.py" in said


def compiled(folder: Path, name: str, *flags: str) -> Path:
    sources = [f"{name}.c", f"{name}_test.c"]
    command = [os.environ.get("CC", "cc"), *WARNINGS, "-O1", f"-D{name.upper()}_TAPS", *flags, *sources]
    subprocess.run([*command, "-lm", "-o", "check"], cwd=folder, check=True)
    return folder / "check"


def check(program: Path) -> str:
    ran = subprocess.run([program], cwd=program.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "fine  output" in ran.stdout
    return ran.stdout


def test_a_library_in_c_gives_every_layer(pycandle, manifest, tmp_path):
    pycandle("codegen", "--manifest", manifest, "--target", "c", "--out", tmp_path / "model.c")
    sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    assert check(compiled(tmp_path, "model", *sanitized)).count("fine") >= 1
    header = (tmp_path / "model.h").read_text()
    assert "int model_run(const " in header and "MODEL_ARENA_BYTES" in header


def test_its_test_sees_a_wrong_weight(pycandle, mlp, tmp_path):
    pycandle("codegen", "--manifest", mlp, "--target", "c", "--out", tmp_path / "model.c")
    weights = bytearray((tmp_path / "model.weights").read_bytes())
    weights[64 + 7] ^= 0x40
    (tmp_path / "model.weights").write_bytes(weights)
    ran = subprocess.run(
        [compiled(tmp_path, "model")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and "WRONG" in ran.stdout


def test_weights_of_another_model_are_refused(pycandle, mlp, tmp_path):
    pycandle("codegen", "--manifest", mlp, "--target", "c", "--out", tmp_path / "model.c")
    weights = tmp_path / "model.weights"
    weights.write_bytes(b"X" + weights.read_bytes()[1:])
    assert subprocess.run([compiled(tmp_path, "model")], cwd=tmp_path, check=False).returncode == 2


def test_without_libm_and_with_weights_inside(pycandle, tmp_path):
    torch.manual_seed(2)
    manifest = recorded("residual", tmp_path / "r", *MODELS["residual"]())
    pycandle(
        "codegen", "--manifest", manifest, "--target", "c", "--freestanding", "--embed-weights", "--out",
        tmp_path / "tiny.c",
    )  # fmt: skip
    text = (tmp_path / "tiny.c").read_text()
    assert "math.h" not in text and not (tmp_path / "tiny.weights").exists()
    check(compiled(tmp_path, "tiny"))


def test_a_report_sums_to_the_whole(pycandle, tmp_path, mlp):
    found = pycandle.json(
        "codegen", "--manifest", mlp, "--target", "c", "--report", "--set", "s0=1", "--out", tmp_path / "m.c"
    )
    layers = {row["layer"]: row for row in found["layers"]}
    assert layers["up"]["multiply_adds"] == 20 * 37 and layers["down"]["multiply_adds"] == 37 * 5
    assert max(row["ram"] for row in found["layers"]) <= found["arena_bytes"]
    assert not (tmp_path / "m_test.c").exists()  # other sizes than the recorded ones


@pytest.mark.full
def test_clang_compiles_it_without_warnings(pycandle, manifest, tmp_path, monkeypatch):
    pycandle("codegen", "--manifest", manifest, "--target", "c", "--out", tmp_path / "model.c")
    monkeypatch.setenv("CC", "clang-16")
    check(compiled(tmp_path, "model"))
