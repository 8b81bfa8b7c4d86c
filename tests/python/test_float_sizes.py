"""Sizes that are computed with floats: as torch and Python round them, or refused with the line."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_codegen import compiled_and_run, recorded
from torch import nn

import pycandle as candle
from pycandle import GoldenRecorder
from pycandle.recording.sizes.dims import evaluate_expression

TURNING = (5, 7, 10, 16, 20, 29, 30, 31, 40, 50, 63, 64, 65, 100, 1200, 1300)


class Resampled(nn.Module):
    def __init__(self, scale, mode="nearest", **options) -> None:
        super().__init__()
        self.options = {"scale_factor": scale, "mode": mode, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **self.options)


class Upsampled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=1.1, mode="trilinear")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x)


class Computed(nn.Module):
    """A tensor whose size the function computes from that of x."""

    def __init__(self, size) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum() + torch.arange(self.size(x.shape[0]))


def record(model: nn.Module, x: torch.Tensor, folder, axis: int):
    recorder = GoldenRecorder(folder, dynamic={"x": {axis: "size"}}, taps="none")
    recorder.record(model.eval(), x)
    return recorder, recorder.save("model").manifest


def agrees(model: nn.Module, manifest, x: torch.Tensor, axis: int) -> None:
    for backend in ("cpu", "reference"):
        ours = candle.load_model(manifest, backend=backend)
        for size in TURNING:
            other = torch.randn(*x.shape[:axis], size, *x.shape[axis + 1 :])
            found, wanted = ours(other)["output"], model(other)
            assert found.shape == wanted.shape, (backend, size)
            if torch.allclose(found, wanted, atol=1e-4, rtol=1e-4):
                continue
            # Releases of torch round positions in different ways: then ours must be as near to the exact values.
            exact = model(other.double())
            ours_is_off, torch_is_off = ((t - exact).abs().max() for t in (found, wanted))
            assert ours_is_off <= 1.1 * torch_is_off, (backend, size)


@pytest.mark.parametrize(
    ("model", "shape", "size"),
    [
        (Resampled(1.7), (1, 2, 12), "floor(1.7*s0)"),
        (Resampled(0.3, "linear"), (1, 2, 12), "floor(0.3*s0)"),
        (
            Resampled((1 / 3, 1.0), "bicubic", recompute_scale_factor=True),
            (1, 2, 12, 3),
            "floor(0.3333333333333333*s0)",
        ),
        (Resampled((0.7, 1.3), "bilinear"), (1, 2, 12, 3), "floor(0.7*s0)"),
        (Resampled((1.1, 1.0), "bilinear", antialias=True), (1, 2, 12, 3), "floor(1.1*s0)"),
        (Upsampled(), (1, 2, 12, 2, 3), "floor(1.1*s0)"),
        (Resampled(2.1), (1, 2, 12), "floor(2.1*s0)"),
        (Resampled(1.5, "nearest-exact"), (1, 2, 12), "floordiv(3*s0, 2)"),
    ],
)
def test_a_scale_factor_gives_torchs_size_at_every_size(tmp_path, model, shape, size) -> None:
    x = torch.randn(shape)
    recorder, manifest = record(model, x, tmp_path, 2)
    assert recorder.manifest["outputs"][0]["shape"][2] == size
    agrees(model, manifest, x, 2)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (lambda n: round(n * 0.1), "round(0.1*s0)"),
        (lambda n: math.ceil(n / 1.7), "ceil(s0/1.7)"),
        (lambda n: math.ceil(n / 1.5), "floordiv(2*s0 + 2, 3)"),
        (lambda n: torch.sym_int(n * 0.1 * 3.0), "floor(3.0*(0.1*s0))"),
        (lambda n: math.floor((n - 3) / 2.2) + 1, "floor((s0 - 3)/2.2) + 1"),
        (lambda n: math.ceil((n - 4) / 3 + 1), "floordiv(s0 + 1, 3)"),
        (lambda n: math.floor(n * 1.5), "floordiv(3*s0, 2)"),
        (lambda n: math.floor(n // 1.5), "floordiv(2*s0, 3)"),
        (lambda n: math.floor(n * 0.7 + 0.5), "floor(0.5 + (0.7*s0))"),
    ],
)
def test_float_arithmetic_on_a_size_keeps_pythons_roundings(tmp_path, size, text) -> None:
    x = torch.randn(12)
    model = Computed(size)
    recorder, manifest = record(model, x, tmp_path, 0)
    assert recorder.manifest["outputs"][0]["shape"] == [text]
    agrees(model, manifest, x, 0)


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (lambda n: int(n * 0.05), "int(), float() or range() makes a plain number of a size"),
        (lambda n: len(range(n // 7)), "int(), float() or range() makes a plain number of a size"),
        (lambda n: torch.sym_int(n // 0.1), "divided by a fraction with //"),
        (lambda n: int(math.sqrt(n)), "int(), float() or range() makes a plain number of a size"),
        (lambda n: torch.sym_int(math.sqrt(n)), "of the functions of sizes, only those that round are known"),
        (
            lambda n: torch.sym_int(n * 0.1 * 3.0) + torch.sym_int(n * 0.30000000000000004),
            "does not say in which order Python rounded",
        ),
    ],
)
def test_what_cannot_be_kept_is_fixed_with_the_line(tmp_path, size, reason) -> None:
    recorder, manifest = record(Computed(size), torch.randn(12), tmp_path, 0)
    (fixed,) = recorder.manifest["fixed_dims"]
    assert reason in fixed["reason"]
    assert fixed["size"] == 12
    source = recorder.manifest["files_table"][fixed["file"]]
    assert source["path"].endswith("test_float_sizes.py")
    assert "n" in source["lines"][str(fixed["line"])]
    with pytest.raises(candle.Error, match="wrong size"):
        candle.load_model(manifest)(torch.randn(40))


def test_sizes_where_rounding_decides_are_compared_and_only_for_models_that_have_them(tmp_path) -> None:
    recorder, _ = record(Resampled(1.7), torch.randn(1, 2, 12), tmp_path, 2)
    compared = {check["what"] for check in recorder.manifest["soundness"]["checks"]}
    assert {"size of size 10", "size of size 20", "size of size 30"} <= compared
    recorder, _ = record(Resampled(2), torch.randn(1, 2, 12), tmp_path, 2)
    assert len(recorder.manifest["soundness"]["checks"]) == 4


def test_a_wrong_reading_of_a_size_is_found_where_rounding_decides(tmp_path, monkeypatch) -> None:
    def inexact(expression, sizes):
        found = evaluate_expression(expression, sizes)
        return found - 1 if sizes and 10 in sizes.values() and found == 17 else found

    monkeypatch.setattr("pycandle.recording.sizes.dims.evaluate_expression", inexact)
    recorder, _ = record(Resampled(1.7), torch.randn(1, 2, 12), tmp_path, 2)
    (fixed,) = recorder.manifest["fixed_dims"]
    assert "instead of [1, 2, 16]" in fixed["reason"]


def test_an_exported_program_keeps_its_float_sizes(tmp_path) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, scale_factor=1.7)[..., : math.ceil(x.shape[2] / 1.3)]

    x = torch.randn(1, 2, 12)
    exported = torch.export.export(Scaled(), (x,), dynamic_shapes={"x": {2: torch.export.Dim.AUTO}})
    recorder = GoldenRecorder(tmp_path)
    recorder.record(exported, x)
    agrees(Scaled(), recorder.save("model").manifest, x, 2)


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=1.7)
        self.again = Resampled(0.9, "linear")
        self.down = nn.Conv1d(2, 2, 3, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(self.again(self.up(x)))
        return F.interpolate(y, scale_factor=0.7, mode="linear")[..., : math.ceil(x.shape[2] / 3.3)]


def test_emitted_code_says_them_as_python_does(tmp_path, pycandle) -> None:
    manifest = recorded(Pyramid(), tmp_path, {"x": torch.randn(1, 2, 30)}, {"x": {2: "size"}})
    assert compiled_and_run(manifest, tmp_path, pycandle) >= 2
    text = (tmp_path / "model.hpp").read_text()
    assert "floor(1.7 * x.dim(2))" in text
    assert "ceil(x.dim(2) / 3.3)" in text
    assert "floor(0.9 * x.dim(2))" in text, "a layer says sizes in terms of what it is given"


@pytest.mark.parametrize(("mode", "scale"), [("linear", 1.1), ("linear", 0.4), ("bicubic", 1.1)])
def test_aligned_corners_of_a_single_position(mode, scale, tmp_path) -> None:
    """torch divides by one position less than there are, and by nothing where there is one: sizes 1 and, at 0.4, 3 and 4."""
    model = Resampled(scale, mode, align_corners=True)
    shape = (2, 3, 10) if mode == "linear" else (2, 3, 5, 10)
    _, manifest = record(model, torch.randn(shape), tmp_path, axis=len(shape) - 1)
    for backend in ("cpu", "reference"):
        ours = candle.load_model(manifest, backend=backend)
        for size in (1, 2, 3, 4, 10, 20) if scale > 1 else (3, 4, 5, 10):
            x = torch.randn(*shape[:-1], size)
            torch.testing.assert_close(ours(x)["output"], model(x), atol=1e-5, rtol=1e-4)
