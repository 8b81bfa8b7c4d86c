"""Functions that torch.export cannot take apart: ours beside torch's, and recorded, run and verified; fake quantization."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from agreement import agrees
from test_codegen import compiled_and_run, recorded
from test_refused import Calls
from torch import nn

from pycandle.recording.tracing import decompositions

torch.set_num_threads(1)
NAN = float("nan")


def equal(ours, theirs, tolerance=0.0) -> bool:
    pairs = zip(*(t if isinstance(t, (tuple, list)) else (t,) for t in (ours, theirs)), strict=True)
    return all(
        (a.shape, a.dtype) == (b.shape, b.dtype)
        and torch.allclose(a, b, tolerance, tolerance, equal_nan=True)
        for a, b in pairs
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_are_torchs_to_the_bit(name, dtype):
    torch.manual_seed(0)
    theirs, ours = getattr(torch, name), getattr(decompositions, name)
    some = [0.37, 0, 1.0, torch.tensor(0.5, dtype=dtype), torch.tensor([0.1, 0.9, 1.0], dtype=dtype)]
    modes = ("linear", "lower", "higher", "midpoint", "nearest")
    count = 0
    for shape, share in itertools.product(
        [(7,), (3, 5), (2, 3, 4), (1,), (), (0, 3), (4, 0)], [0.0, 0.3, 1.1]
    ):
        x = torch.randn(shape, dtype=dtype)
        x = x.masked_fill(torch.rand(shape) < share, NAN)
        dims = (None, *range(-x.dim(), x.dim()))
        for dim, keep, mode, q in itertools.product(dims, (False, True), modes, some):
            try:
                expected = theirs(x, q, dim, keep, interpolation=mode)
            except (RuntimeError, IndexError):
                continue  # torch takes no empty axis
            assert equal(ours(x, q, dim, keep, interpolation=mode), expected), (
                shape,
                share,
                dim,
                keep,
                mode,
                q,
            )
            count += 1
    assert count > 1000


def cases():
    torch.manual_seed(0)
    for shape, dtype in itertools.product(
        [(3, 5), (7,), (1, 4), (4, 1), ()], [torch.float32, torch.float64, torch.int64]
    ):
        x = (torch.randn(shape) * 5).to(dtype)
        n = x.shape[-1] if shape else 1
        often, weights = torch.randint(1, 4, (n,)), torch.rand(n)
        for correction in (0, 1, n, n + 1):
            yield "cov", (x,), {"correction": correction}
            if n > 1 and dtype is torch.float32 and correction < 2:
                yield "cov", (x,), {"correction": correction, "fweights": often}
                yield "cov", (x,), {"correction": correction, "aweights": weights}
                yield "cov", (x,), {"correction": correction, "fweights": often, "aweights": weights}
        yield "corrcoef", (x,), {}
    for n, r, again in itertools.product((0, 1, 2, 5), (0, 1, 2, 3), (False, True)):
        yield "combinations", (torch.randn(n), r, again), {}
    for dtype, n, count, up in itertools.product(
        [torch.float32, torch.int32], (0, 1, 4), (None, 0, 1, 6), (False, True)
    ):
        yield "vander", ((torch.randn(n) * 3).to(dtype), count, up), {}
    for p, n in itertools.product((2.0, 1.0, 0.0, float("inf"), 3.0), (0, 1, 2, 5)):
        yield "pdist", (torch.randn(n, 3), p), {}
    for x in (
        torch.randn(100),
        torch.randint(0, 5, (50,)).float(),
        torch.zeros(3),
        torch.randn(3, 4).double(),
    ):
        for options in (
            {},
            {"range": (-1.0, 2.0)},
            {"range": (1.0, 1.0)},
            {"density": True},
            {"weight": x.abs()},
        ):
            for bins in (1, 4, 10):
                yield "histogram", (x, bins), options
        yield "histogram", (x, torch.tensor([-1.0, 0.0, 0.3, 2.0], dtype=x.dtype)), {}
    for x, order in itertools.product(
        (torch.randn(5), torch.randn(4, 6), torch.randint(0, 9, (4, 5))), (1, 2)
    ):
        yield "gradient", (x,), {"edge_order": order}
        for axis in range(x.dim()):
            yield "gradient", (x,), {"edge_order": order, "dim": axis, "spacing": 2.0}
            places = (torch.rand(x.shape[axis]).cumsum(0),)
            yield "gradient", (x,), {"edge_order": order, "dim": axis - x.dim(), "spacing": places}


def test_the_others_are_torchs_to_rounding():
    count = 0
    for name, args, options in cases():
        expected = getattr(torch, name)(*args, **options)
        found = getattr(decompositions, name)(*args, **options)
        assert equal(found, expected, 2e-5), (name, args, options, found, expected)
        count += 1
    assert count > 250


def test_sequences_are_padded_as_torch_does():
    parts = [torch.randn(n, 2) for n in (3, 1, 5, 0)]
    for first, side in itertools.product((False, True), ("left", "right")):
        expected = torch.nn.utils.rnn.pad_sequence(parts, first, -1.0, side)
        assert torch.equal(decompositions.pad_sequence(parts, first, -1.0, side), expected)


RECORDED = {
    "quantiles": lambda x: (
        torch.quantile(x, 0.3),
        x.quantile(torch.tensor([0.1, 0.5]), dim=1, keepdim=True),
        *(
            torch.quantile(x, 0.37, dim=0, interpolation=m)
            for m in ("lower", "higher", "midpoint", "nearest")
        ),
        x.masked_fill(x > 1, NAN).nanquantile(0.6, dim=1),
        x.masked_fill(x > 1, NAN).quantile(0.6, dim=1),
    ),
    "covariances": lambda x: (torch.cov(x), x.T.cov(correction=0), torch.corrcoef(x), x[0].corrcoef()),
    "histograms": lambda x: (*torch.histogram(x, 5, range=(-2.0, 2.0)), *x.histogram(4)),
    "polynomials": lambda x: (
        torch.vander(x[0], 3),
        torch.linalg.vander(x, N=4),
        torch.combinations(x[0], 2),
    ),
    "slopes": lambda x: torch.gradient(x, dim=1, spacing=0.5, edge_order=2),
    "matrices": lambda x: torch.linalg.cond(x.T @ x + torch.eye(5)),
    "sequences": lambda x: torch.nn.utils.rnn.pad_sequence(
        [x, x[:, 1:3].T.repeat(1, 2)[:, :1].expand(2, 5)], True, 7.0
    ),
    "distances": lambda x: F.pdist(x.T),
    "the imaginary part of a conjugate": lambda x: torch.fft.fft(x).conj().imag,
}


@pytest.mark.parametrize("kind", RECORDED)
@pytest.mark.parametrize("seed", [0, 1])
def test_models_with_them_run_at_other_sizes(kind, seed, tmp_path, pycandle):
    torch.manual_seed(seed)
    others = [(torch.randn(7, 5),), (torch.randn(4, 5) * 3,)]
    recorder = agrees(
        tmp_path, pycandle, Calls(RECORDED[kind]), torch.randn(3, 5), others=others, tolerance=1e-4
    )
    assert not recorder.manifest["fixed_dims"]


# ---- fake quantization ----------------------------------------------------------------------------------------

_SCALE = torch.tensor([0.05, 0.1, 0.237, 1.7, 0.003])
_ZERO = torch.tensor([0, -3, 2, 5, -8], dtype=torch.int32)
_ops = torch.ops.aten
QUANTIZED = {
    "per tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7),
    "per tensor, scale in a tensor": lambda x: torch.fake_quantize_per_tensor_affine(
        x, _SCALE[2], _ZERO[2], 0, 255
    ),
    "per channel": lambda x: torch.fake_quantize_per_channel_affine(x, _SCALE, _ZERO, 1, -8, 7),
    "per channel, zero points between": lambda x: torch.fake_quantize_per_channel_affine(
        x, _SCALE, _ZERO + 0.3, -1 % x.dim(), 0, 255
    ),
    "learned": lambda x: torch._fake_quantize_learnable_per_tensor_affine(
        x, _SCALE[:1], _ZERO[1:2] + 0.7, -8, 7, 1.0
    ),
    "learned per channel": lambda x: torch._fake_quantize_learnable_per_channel_affine(
        x, _SCALE, _ZERO + 0.4, 1, -8, 7, 1.0
    ),
    "with a mask": lambda x: _ops.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, -8, 7),
    "per channel with a mask": lambda x: _ops.fake_quantize_per_channel_affine_cachemask(
        x, _SCALE, _ZERO, 1, -8, 7
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", QUANTIZED)
def test_fake_quantization_is_torchs_to_the_bit(kind, dtype, tmp_path, pycandle):
    torch.manual_seed(0)
    x = (torch.randn(40, 5) * 3).to(dtype)
    x[0, :3] = torch.tensor([NAN, -float("inf"), 0.15])
    others = [((torch.randn(3, 5) * 0.5).to(dtype),), (torch.zeros(1, 5, dtype=dtype),)]
    agrees(tmp_path, pycandle, Calls(QUANTIZED[kind]), x, others=others, tolerance=0)


class QuantizedLinear(nn.Module):
    """A layer as quantization-aware training leaves it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))
        self.register_buffer("scale", torch.rand(4) * 0.1 + 0.01)
        self.register_buffer("zero_point", torch.zeros(4, dtype=torch.int32))

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(
            self.weight, self.scale, self.zero_point, 0, -128, 127
        )
        return torch.fake_quantize_per_tensor_affine(F.linear(x, weight), 0.05, 128, 0, 255)


def test_fake_quantization_is_emitted(tmp_path, pycandle):
    manifest = recorded(QuantizedLinear(), tmp_path, {"x": torch.randn(3, 5)})
    compiled_and_run(manifest, tmp_path, pycandle)
    assert (tmp_path / "model.hpp").read_text().count("fake_quantize(") == 2


def test_functions_of_ours_are_emitted(tmp_path, pycandle):
    def call(x):
        return torch.quantile(x, 0.3, dim=1), torch.corrcoef(x), torch.equal(x, x * 1.0)

    compiled_and_run(recorded(Calls(call), tmp_path, {"x": torch.randn(3, 5)}), tmp_path, pycandle)
