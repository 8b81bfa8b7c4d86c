"""The cpu backend on recorded models: every tap verifies with one and two threads, and its times can be looked at."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn


class Transformer(nn.Module):
    """Attention, norms, an MLP with its residual, a batch of tokens."""

    def __init__(self, width: int = 48, heads: int = 3) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = (nn.Linear(width, 80), nn.Linear(width, 80), nn.Linear(80, width))
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
        y = self.norm_2(x)
        x = x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
        return (x @ self.embed.weight.T)[:, -1]


class Convolutions(nn.Module):
    """Strides, groups, batch norms, a residual, pools."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.grouped = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4)
        self.point = nn.Conv2d(16, 16, 1)
        self.group_norm = nn.GroupNorm(4, 16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        x = x + torch.relu(self.point(nn.functional.hardswish(self.deep(x))))
        x = self.group_norm(self.grouped(x))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(40, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(self.lstm(x)[0].transpose(0, 1))[0]


MODELS = {
    "transformer": lambda: (Transformer(), torch.randint(0, 31, (2, 9))),
    "convolutions": lambda: (Convolutions(), torch.randn(2, 3, 33, 30)),
    "recurrent": lambda: (Recurrent(), torch.randn(3, 7, 12)),
}


@pytest.fixture(scope="module", params=MODELS)
def manifest(request, tmp_path_factory):
    from pycandle import GoldenRecorder

    torch.manual_seed(0)
    model, example = MODELS[request.param]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    recorder = GoldenRecorder(tmp_path_factory.mktemp(request.param), progress=lambda text: None)
    recorder.record(model.eval(), example)
    return recorder.save(request.param).manifest


@pytest.mark.parametrize("threads", [1, 2])
def test_every_tap_verifies(pycandle, manifest, threads):
    result = pycandle.json("verify", manifest, "--backend", "cpu", "--threads", threads)
    assert result["status"] == "passed"
    assert max(output["max_abs"] for output in result["outputs"]) < 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["transformer", "convolutions"])
def test_halves_run_on_kernels_and_verify(pycandle, name, dtype, tmp_path):
    """Each op is computed in f32 and rounded once: no product of halves is left to the evaluator."""
    from pycandle import GoldenRecorder

    torch.manual_seed(1)
    model, example = MODELS[name]()
    example = example.to(dtype) if example.is_floating_point() else example
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(model.to(dtype).eval(), example)
    manifest = recorder.save(name).manifest
    assert pycandle.json("verify", manifest, "--backend", "cpu")["status"] == "passed"
    profile = pycandle.json("forward", manifest, "--backend", "cpu", "--profile")["profile"]
    kernels = {row["name"] for row in profile["kernels"]}
    assert "chain" in kernels and kernels & {"narrow_gemm", "blocked_convolution"}
    evaluated = sum(row["steps"] for row in profile["kernels"] if row["name"] == "evaluator")
    assert evaluated <= 3, profile["ops"]


def test_bench_gives_a_row_for_each_runner_and_number_of_threads(pycandle, manifest):
    found = pycandle.json(
        "bench", manifest, "--backend", "cpu,reference", "--threads", "1,2", "--seconds", 0.05, "--rounds", 2
    )
    assert [(row["runner"], row["threads"]) for row in found["rows"]] == [
        ("cpu", 1),
        ("reference", 1),
        ("cpu", 2),
        ("reference", 2),
    ]
    assert [row["ratio"] for row in found["rows"] if row["runner"] == "cpu"] == [1, 1]
    for row in found["rows"]:
        assert 0 < row["best_ms"] <= row["median_ms"]
        assert row["starts"] == 3 and 0 < row["load_ms"] <= row["first_ms"]


def test_a_profile_accounts_for_the_run_by_kernel_op_and_layer(pycandle, manifest, tmp_path):
    trace = tmp_path / "trace.json"
    found = pycandle.json("forward", manifest, "--backend", "cpu", "--profile", "--profile-out", trace)[
        "profile"
    ]
    assert 0.95 <= found["accounted"] < 1.001
    assert found["peaks"]["gflops"] > 1 and found["peaks"]["read_gbs"] > 0.1
    first, *later = [plan["why"] for plan in found["plans"]]
    assert first == "the first call"
    has_linears = "linear" in {row["name"] for row in found["ops"]}
    assert later == ["its weights are packed from the second call on"] * has_linears
    assert {"recognise", "decompose"} <= {row["name"] for row in found["passes"]}
    assert found["weight_bytes"] > 0 and found["arena_bytes"] > 0
    for kind in ("kernels", "ops", "layers"):
        assert sum(row["ms"] for row in found[kind]) == pytest.approx(found["ms"] * found["accounted"])
    assert "gemm" in {row["name"] for row in found["kernels"]}
    events = json.loads(trace.read_text())["traceEvents"]
    assert len(events) == sum(row["steps"] for row in found["kernels"])


class Wide(nn.Module):
    """100 MB of weights, few activations: two of them transposed, one read by rows as well."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, 1024)
        self.up, self.down = nn.Linear(1024, 8192), nn.Linear(8192, 1024)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + self.down(torch.relu(self.up(x)))
        return x @ self.embed.weight.T


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    from pycandle import GoldenRecorder

    recorder = GoldenRecorder(tmp_path_factory.mktemp("wide"), progress=lambda text: None)
    recorder.record(Wide().eval(), torch.randint(0, 8192, (1, 64)))
    return recorder.save("wide").manifest


def test_memory_is_what_the_plan_keeps_and_nearly_all_time_is_accounted_for(pycandle, wide):
    arguments = ["forward", wide, "--backend", "cpu", "--threads", 2, "--profile"]
    pycandle(*arguments)  # measures the machine's peaks, which takes memory
    profiles = (
        pycandle.json(*arguments)["profile"] for _ in range(5)
    )  # another process may run between two steps
    profile = next((p for p in profiles if p["accounted"] >= 0.95), None)
    assert profile, "steps are missing from the profile"
    kept = profile["weight_bytes"] + profile["arena_bytes"]
    assert 100e6 < kept < 150e6, "each weight once as it is packed, and the table of rows as it was"
    assert 0.5 * kept < profile["peak_bytes"] <= 1.2 * kept + 40e6  # rows that nobody reads stay in the file


def test_an_override_changes_how_a_functional_runs_and_not_what_it_gives(pycandle, manifest):
    profile = pycandle.json(
        "forward", manifest, "--backend", "cpu", "--profile", "--override", "linear=naive"
    )["profile"]
    assert "linear" not in {row["name"] for row in profile["ops"]}
    result = pycandle.json("verify", manifest, "--backend", "cpu", "--override", "linear=naive")
    assert result["status"] == "passed"


def test_tuning_measures_once_and_its_choices_are_in_what_comes_out(
    pycandle, manifest, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "tuned: " in pycandle("forward", manifest, "--tune", "--threads", 1).stdout
    first = pycandle.json("forward", manifest, "--tune", "--threads", 1)["overrides"]
    choices = {name: {"default", "naive"} | ({"exact"} if name == "conv2d" else set()) for name in first}
    assert first and all(choice in choices[name] for name, choice in first.items())
    kept = json.loads((tmp_path / "cache" / "pycandle" / "tune.json").read_text())
    assert len(kept) == len(first)
    for key, found in kept.items():
        assert "with 1 threads" in key and set(found["ms"]) in choices.values()
    # What is remembered is taken: nothing is measured anew, and a choice that was turned around is followed.
    turned = {key: {"choice": "naive"} for key in kept}
    (tmp_path / "cache" / "pycandle" / "tune.json").write_text(json.dumps(turned))
    again = pycandle.json("bench", manifest, "--tune", "--threads", 1, "--seconds", 0.01, "--rounds", 1)[
        "overrides"
    ]
    assert again == dict.fromkeys(first, "naive")
    forced = pycandle.json(
        "forward", manifest, "--tune", "--threads", 1, "--override", f"{min(first)}=default"
    )["overrides"]
    assert forced == {**again, min(first): "default"}
    out = tmp_path / "result.jsonl"
    pycandle("verify", manifest, "--backend", "cpu", "--tune", "--threads", 1, "--out", out)
    header = json.loads(out.read_text().splitlines()[0])
    assert header["overrides"] == again and header["threads"] == 1


@pytest.mark.parametrize("choice", ["linear", "linear=quick", "add=naive", "nothing=naive"])
def test_an_override_that_does_not_exist_is_a_usage_error(pycandle, manifest, choice):
    assert pycandle("forward", manifest, "--backend", "cpu", "--override", choice, status=2).stderr


@pytest.mark.parametrize("command", ["forward", "verify", "trace"])
def test_a_choice_that_the_backend_has_not_is_refused(pycandle, manifest, tmp_path, command):
    words = ("--out", tmp_path / "out") if command == "trace" else ()
    for choice in [("--override", "linear=naive")] + ([] if command == "trace" else [("--tune",)]):
        shown = pycandle(command, manifest, "--backend", "reference", *choice, *words, status=2).stderr
        assert f"{choice[0]} has no effect on the reference backend" in shown and "--backend cpu" in shown


def test_the_reference_has_a_step_for_each_primitive(pycandle, manifest):
    profile = pycandle.json("forward", manifest, "--backend", "reference", "--profile")["profile"]
    assert [row["name"] for row in profile["kernels"] if row["name"] != "call"] == ["evaluator"]
    assert profile["accounted"] > 0.9 and {"dot_general", "add"} <= {row["name"] for row in profile["ops"]}


class Padded(nn.Module):
    """Attention without heads: the first of three axes is the batch, and each sequence hides its own keys."""

    def forward(self, x: torch.Tensor, is_there: torch.Tensor) -> torch.Tensor:
        mask = torch.where(is_there[:, None, :], 0.0, float("-inf"))
        return nn.functional.scaled_dot_product_attention(x, x, x, mask)


def test_attention_of_three_axes_masks_the_keys_of_each_sequence(pycandle, tmp_path):
    from pycandle import GoldenRecorder

    is_there = torch.tensor([[True] * 5, [True, False, True, False, False]])
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Padded().eval(), torch.randn(2, 5, 4), is_there)
    assert pycandle.json("verify", recorder.save("padded").manifest, "--backend", "cpu")["status"] == "passed"


class Places(nn.Module):
    def __init__(self, right: bool) -> None:
        super().__init__()
        self.right = right

    def forward(self, boundaries: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.searchsorted(boundaries, values, right=self.right)
        return rows, torch.bucketize(values, boundaries[0], right=self.right)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.bfloat16])
def test_places_among_sorted_numbers(dtype, right, backend):
    """NaN belongs behind all; equal boundaries, infinities, a single boundary."""
    import pycandle

    torch.manual_seed(2)
    boundaries = torch.randint(-9, 9, (3, 40)).sort(-1).values.to(dtype)
    values = torch.randint(-12, 12, (3, 70)).to(dtype)
    if dtype.is_floating_point:
        values[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    model = Places(right)
    for rows in (boundaries, boundaries[:, :1].contiguous()):
        compiled = pycandle.compile(model, rows, values, backend=backend)
        for found, expected in zip(compiled(rows, values), model(rows, values), strict=True):
            assert torch.equal(torch.as_tensor(found), expected)


class Spectrum(nn.Module):
    """Forward and back along an axis, with what is done to spectra in between."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.filter = nn.Parameter(torch.randn(2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        spectrum = torch.fft.fft(x, dim=self.axis)
        turned = spectrum * torch.view_as_complex(self.filter)
        back = torch.fft.ifft(turned * torch.complex(x, x + 1), dim=self.axis)
        return spectrum.abs(), turned.real, turned.imag, torch.view_as_real(back)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 2, 12, 49, 61, 64, 90, 106])
def test_fourier_transforms_run_on_kernels(axis, length, tmp_path, pycandle):
    """Lengths with factors of every kind."""
    from pycandle import GoldenRecorder

    torch.manual_seed(length)
    shape = [3, 5, 7]
    shape[axis] = length
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Spectrum(axis), torch.randn(shape))
    manifest = recorder.save("spectrum").manifest
    assert pycandle.json("verify", manifest, "--backend", "cpu", "--threads", 2)["status"] == "passed"
    profile = pycandle.json("forward", manifest, "--backend", "cpu", "--profile")["profile"]
    evaluated = {row["name"] for row in profile["kernels"]} & {"evaluator"}
    assert not evaluated, profile["ops"]
