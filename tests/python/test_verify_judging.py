"""pycandle verify finds what one number for a tensor, one layer alone or one unit roundoff of a half dtype would hide."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import GoldenRecorder


@pytest.fixture
def wrong(pycandle, tmp_path: Path):
    """The layers of the recording in tmp_path that are wrong here."""

    def rows(backend: str = "reference") -> list[dict]:
        layers = pycandle.json("verify", tmp_path, "--backend", backend, status=None)["layers"]
        return [layer for layer in layers if layer["verdict"] == "wrong here"]

    return rows


def record(model: nn.Module, folder: Path, *inputs: torch.Tensor) -> None:
    recorder = GoldenRecorder(output_dir=folder)
    recorder.record(model.eval(), *inputs)
    recorder.save("m")


def change_weights(folder: Path, change) -> None:
    path = folder / "m_weights.safetensors"
    weights = load_file(path)
    save_file({name: change(name, value).contiguous() for name, value in weights.items()}, path)


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def test_layers_that_err_together_in_one_direction_are_wrong_as_a_whole(tmp_path: Path, wrong) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Scale(1.0 + 0.01 * i) for i in range(48)))
    record(model, tmp_path, torch.randn(4, 16))
    assert not wrong()
    change_weights(tmp_path, lambda _, w: torch.nextafter(w, torch.tensor(2.0)))
    (row,) = wrong()
    assert row["tap"].startswith("whole run:")
    assert row["judged"] == "program"


class Residual(nn.Module):
    """An embedding with a channel that is a hundred times the others, as large language models have."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.up, self.down = nn.Embedding(50, 48), nn.Linear(48, 96), nn.Linear(96, 48)
        with torch.no_grad():
            self.table.weight[:, 7] = 100 + torch.randn(50)
            self.up.weight[:, 7] *= 0.01

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def test_in_bfloat16_an_outlier_channel_hides_no_change_of_a_weight(tmp_path: Path, wrong) -> None:
    torch.manual_seed(0)
    record(Residual().to(torch.bfloat16), tmp_path, torch.randint(0, 50, (2, 12)))
    assert not wrong()
    assert not wrong("cpu")
    kept = (tmp_path / "m_weights.safetensors").read_bytes()
    for name, factor in [("table.weight", 1.01), ("down.bias", 0.9), ("up.weight", 1.02)]:
        change_weights(tmp_path, lambda n, w, name=name, factor=factor: w * factor if n == name else w)
        assert wrong(), name
        (tmp_path / "m_weights.safetensors").write_bytes(kept)


def rounded_to(bits: int, x: torch.Tensor) -> torch.Tensor:
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.round(mantissa * 2.0**bits), exponent - bits)


@pytest.mark.parametrize(("channels", "bits"), [(1024, 16), (4096, 14)])
def test_a_convolution_of_single_pixels_is_judged_as_a_product(channels, bits, tmp_path: Path, wrong) -> None:
    torch.manual_seed(0)
    record(nn.Sequential(nn.Conv2d(channels, 24, 1)), tmp_path, torch.randn(1, channels, 5, 5))
    assert not wrong()
    assert not wrong("cpu")
    change_weights(tmp_path, lambda name, w: rounded_to(bits, w) if name.endswith("weight") else w)
    assert wrong()


class Attention(nn.Module):
    """Of three dims, without heads."""

    def __init__(self, is_masked: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.is_masked = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), is_masked

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        given = mask if self.is_masked else None
        return nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), given)


@pytest.mark.parametrize("is_added", [False, True])
def test_a_mask_of_three_dims_that_was_left_out_is_named(is_added: bool, tmp_path: Path, pycandle) -> None:
    generator = torch.Generator().manual_seed(1)
    x, mask = torch.randn(2, 6, 8, generator=generator), torch.rand(2, 6, 6, generator=generator) > 0.4
    mask |= torch.eye(6, dtype=torch.bool)
    given = torch.where(mask, 0.0, float("-inf")) if is_added else mask
    record(Attention(True), tmp_path / "right", x, given)
    record(Attention(False), tmp_path / "wrong", x, given)
    trace = tmp_path / "right/m_trace.safetensors"
    found = pycandle.json("verify", tmp_path / "wrong/m_manifest.json", "--trace", trace, status=1)
    (row,) = [layer for layer in found["layers"] if layer["verdict"] == "wrong here"]
    assert row["diagnosis"]["cause_kind"] == "missing mask"
    assert row["diagnosis"]["cause"] == "looks like no mask where the model uses a mask made from mask"


class RoundsOnTheWay(nn.Module):
    """torch rounds every number in these to the half dtype, not only the last."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm, self.layers = nn.GRUCell(6, 8), nn.LSTMCell(8, 5), nn.GRU(5, 4)

    def forward(self, x: torch.Tensor, image: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = self.gru(x, x.new_zeros(x.shape[0], 8))
        h, c = self.lstm(self.gru(x, h), (x[:, :5], x[:, 1:]))
        y, _ = self.layers(torch.stack([h, c, h]))
        sampled = nn.functional.grid_sample(image, grid, align_corners=False)
        cubic = nn.functional.grid_sample(image, grid, mode="bicubic", align_corners=True)
        return y, sampled, cubic, nn.functional.interpolate(image, size=(4, 12), mode="bicubic")


class Transposed(nn.Module):
    """torch rounds after each step what is not contiguous, and once what is."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        for values in (self.norm.running_var, self.norm.weight.data, self.norm.bias.data):
            values.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.transpose(1, 2)
        return self.norm(y), self.norm(x[:, 0]), self.norm(y.contiguous())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_norm_rounds_as_either_of_torchs_ways(tmp_path: Path, wrong, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    record(Transposed().to(dtype), tmp_path, torch.randn(6, 5, 16).to(dtype))
    assert not wrong()
    change_weights(tmp_path, lambda name, w: w * 0.99 if name == "norm.running_var" else w)
    assert wrong()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_recurrent_cells_and_grid_samples_round_where_torch_does(
    tmp_path: Path, pycandle, wrong, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(3, 6) * 0.05, torch.randn(2, 3, 9, 7), torch.randn(2, 5, 6, 2) * 0.1
    record(RoundsOnTheWay().to(dtype), tmp_path, *(x.to(dtype) for x in inputs))
    rows = pycandle.json("verify", tmp_path)["layers"]
    assert len(rows) > 10
    assert {row["op"] for row in rows if row["differing"] > math.prod(row["shape"]) / 64} == set()
    assert not wrong()
    assert not wrong("cpu")


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.fft.rfft(x)
        return y, torch.log(y.abs()), torch.fft.irfft(y * 0.5, x.shape[-1])


@pytest.mark.parametrize("length", [200, 997])
def test_the_mean_of_a_signal_leaves_its_rounding_in_elements_of_the_spectrum(
    tmp_path: Path, wrong, length: int
) -> None:
    torch.manual_seed(0)
    record(Spectrum(), tmp_path, torch.randn(4, length) + 30)
    assert not wrong()
    assert not wrong("cpu")


class Experts(nn.Module):
    """Of equal shares, torch.topk takes what its algorithm comes to; what follows depends on it."""

    def forward(self, x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        shares, at = x.topk(3, -1)
        return (values.gather(-1, at) * shares).sum(-1)


def test_topk_takes_those_of_equal_elements_that_torch_takes(tmp_path: Path, wrong) -> None:
    torch.manual_seed(0)
    for count in (8, 60, 400):
        record(Experts(), tmp_path, torch.randint(1, 5, (20, count)).float(), torch.randn(20, count))
        assert not wrong()
        assert not wrong("cpu")
