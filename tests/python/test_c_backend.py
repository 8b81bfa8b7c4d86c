"""The C backend: programs run as compiled C, and libraries in C that people ship."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
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


def test_python_finds_it_as_a_library_beside_the_extension(tmp_path):
    import pycandle

    torch.manual_seed(3)
    model, x = Mlp(), torch.randn(6, 20)
    manifest = recorded("mlp", tmp_path, model, x[:2])
    assert "c" in pycandle.list_backends()
    (ours,) = pycandle.load_model(manifest.parent, backend="c")(x.numpy()).values()
    torch.testing.assert_close(torch.tensor(ours), model(x).detach(), rtol=1e-5, atol=1e-6)


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


class Centred(nn.Module):
    """Its samples know of each other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


def test_a_run_is_told_how_many_samples_there_are(pycandle, tmp_path):
    import ctypes

    torch.manual_seed(4)
    model, x = Residual(), torch.randn(5, 3, 33, 30)
    manifest = recorded("batch", tmp_path, model, x[:2])
    pycandle(
        "codegen",
        "--manifest",
        manifest,
        "--target",
        "c",
        "--batch",
        "s0",
        "--embed-weights",
        "--out",
        tmp_path / "net.c",
    )
    assert "int net_run(ptrdiff_t s0, const float *x, float *output);" in (tmp_path / "net.h").read_text()
    check(compiled(tmp_path, "net", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    subprocess.run(
        ["cc", *WARNINGS, "-O2", "-shared", "-fPIC", "net.c", "-lm", "-o", "net.so"], cwd=tmp_path, check=True
    )
    library = ctypes.CDLL(str(tmp_path / "net.so"))
    output = torch.zeros(5, 5)
    pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, output))
    assert library.net_init(None) == 0 and library.net_run(ctypes.c_ssize_t(5), *pointers) == 0
    torch.testing.assert_close(output, model(x).detach(), rtol=1e-4, atol=1e-5)

    manifest = recorded("centred", tmp_path / "centred", Centred(), torch.randn(4, 3))
    said = pycandle(
        "codegen",
        "--manifest",
        manifest,
        "--target",
        "c",
        "--batch",
        "s0",
        "--out",
        tmp_path / "c.c",
        status=1,
    )
    assert "samples that do not know of each other" in said.stderr and "alone differs" in said.stderr


class Rounded(nn.Module):
    """A table that is the head too, linear layers wider and narrower than a panel, one with a column of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 80)
        self.up, self.down = nn.Linear(80, 300), nn.Linear(300, 80, bias=False)
        with torch.no_grad():
            self.down.weight[3] = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + self.down(torch.relu(self.up(x)))
        return nn.functional.linear(x, self.embed.weight)


@pytest.mark.parametrize("length", [1, 40])
def test_weights_of_eight_bits_are_a_quarter_and_every_layer_is_what_they_give(pycandle, tmp_path, length):
    torch.manual_seed(length)
    manifest = recorded("rounded", tmp_path, Rounded(), torch.randint(0, 50, (2, length)))
    facts = {}
    for weights in ("f32", "int8"):
        folder = tmp_path / weights
        facts[weights] = pycandle.json(
            "codegen",
            "--manifest",
            manifest,
            "--target",
            "c",
            "--weights",
            weights,
            "--out",
            folder / "model.c",
        )
        check(compiled(folder, "model", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert facts["int8"]["weight_bytes"] < 0.27 * facts["f32"]["weight_bytes"]
    assert pycandle.json("verify", manifest, "--backend", "c", "--weights", "int8")["status"] == "passed"


def test_a_report_sums_to_the_whole(pycandle, tmp_path, mlp):
    found = pycandle.json(
        "codegen", "--manifest", mlp, "--target", "c", "--report", "--set", "s0=1", "--out", tmp_path / "m.c"
    )
    layers = {row["layer"]: row for row in found["layers"]}
    assert layers["up"]["multiply_adds"] == 20 * 37 and layers["down"]["multiply_adds"] == 37 * 5
    assert max(row["ram"] for row in found["layers"]) <= found["arena_bytes"]
    assert not (tmp_path / "m_test.c").exists()  # other sizes than the recorded ones


@pytest.mark.full
def test_gccs_analyzer_finds_nothing(pycandle, manifest, tmp_path):
    pycandle("codegen", "--manifest", manifest, "--target", "c", "--out", tmp_path / "model.c")
    command = ["gcc", *WARNINGS, "-O2", "-fanalyzer", "-c", "model.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.full
def test_clang_compiles_it_without_warnings(pycandle, manifest, tmp_path, monkeypatch):
    pycandle("codegen", "--manifest", manifest, "--target", "c", "--out", tmp_path / "model.c")
    monkeypatch.setenv("CC", "clang-16")
    check(compiled(tmp_path, "model"))


# ---- as others build it: this folder and an installed package


def run(*command, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


PROGRAM = """
#include <pycandle/pycandle.h>
#include <cstdio>

int main(int, char** arguments) {
  using namespace pycandle;
  const LoadedModel model = load_model(arguments[1], {.backend = arguments[2]});
  const Array x = store(DType::f32, {1, 20}, std::vector<double>(20, 1.0));
  for (const auto& [name, value] : model.forward({{"x", x}})) std::printf("%.6f\\n", double(value.as<float>()[0]));
}
"""


@pytest.mark.full
def test_it_needs_what_the_kit_installs_and_no_more(mlp, tmp_path):
    prefix, folder = tmp_path / "prefix", tmp_path / "empty"
    run(
        "cmake",
        "--install",
        ROOT / "build/release",
        "--prefix",
        prefix,
        "--component",
        "library",
        cwd=tmp_path,
    )
    shutil.copytree(ROOT / "src/backends/c", folder / "backends/c")
    (package,) = prefix.rglob("cmake/pycandle")
    run("cmake", "-S", "backends/c", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-Dpycandle_DIR={package}",
        cwd=folder)  # fmt: skip
    run("cmake", "--build", "build", cwd=folder)

    # A program finds the one that is installed by its name, and this one by its path; the values are the same.
    (folder / "main.cpp").write_text(PROGRAM)
    libraries = package.parents[1]
    run("c++", "-std=c++20", f"-I{prefix}/include", "main.cpp", f"-L{libraries}", "-lpycandle", f"-Wl,-rpath,{libraries}", "-o",
        "main", cwd=folder)  # fmt: skip
    shown = {
        name: run(folder / "main", mlp, name, cwd=folder)
        for name in ("c", folder / "build/libpycandle_c.so", "cpu")
    }
    values = {name: [float(line) for line in text.split()] for name, text in shown.items()}
    assert len(values["c"]) == 1 and values["c"] == values[folder / "build/libpycandle_c.so"]
    assert abs(values["c"][0] - values["cpu"][0]) < 1e-5
