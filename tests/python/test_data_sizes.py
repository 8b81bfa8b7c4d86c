"""Axes whose sizes data decides, and what is cut out of them."""

from __future__ import annotations

import pytest
import sympy
import torch

from pycandle import load_model
from pycandle.recording.sizes.dims import write_expression


class Cut(torch.nn.Module):
    def __init__(self, where: slice):
        super().__init__()
        self.where = where

    def forward(self, x):
        return x[x > 0][self.where] * 2


CUTS = [
    (slice(None, 3), "min(3, u0)"),
    (slice(2, None), "max(0, u0 - min(2, u0))"),
    (slice(1, 4), None),
    (slice(-2, None), None),
    (slice(None, -1), "max(0, u0 - 1)"),
    (slice(None, None, 2), "floordiv(u0 + 1, 2)"),
    (slice(1, 7, 3), None),
]


@pytest.mark.parametrize(
    ("where", "size"), CUTS, ids=lambda value: str(value) if isinstance(value, slice) else ""
)
def test_a_slice_of_such_an_axis_has_the_size_that_python_gives_it(where, size, record, tmp_path, pycandle):
    manifest, _ = record(Cut(where), torch.randn(12), options={"dynamic": False})
    (found,) = manifest["outputs"][0]["shape"]
    assert size in (None, found)
    pycandle("verify", tmp_path)
    for backend in ("reference", "cpu"):
        loaded = load_model(tmp_path, backend=backend)
        for above in range(9):
            x = torch.cat([torch.rand(above) + 0.1, -torch.ones(12 - above)])
            assert torch.equal(loaded(x)["output"], Cut(where)(x)), (backend, above)


def test_a_size_that_data_decides_may_be_zero():
    u, s = sympy.symbols("u s", integer=True)
    names = {u: "u0", s: "s0"}
    assert write_expression(sympy.Max(1, u), names) == "max(1, u0)"
    assert write_expression(sympy.Min(s, s * u), names) == "min(s0, s0*u0)"
    assert write_expression(sympy.Max(0, u), names) == "u0"
    assert write_expression(sympy.Max(1, s), names) == "s0"


class Thresholded(torch.nn.Module):
    """One element is 0, the exact product being a little above or below."""

    def forward(self, x):
        return x[torch.where((x * x.sum()).cumsum(0) > 0)[0]]


def test_what_data_chose_is_a_golden_and_judged_with_its_margin(record, tmp_path, pycandle):
    manifest, goldens = record(Thresholded(), torch.randn(12), options={"taps": "none", "dynamic": False})
    (chosen,) = [tap for tap in manifest["taps"] if tap["shape"] == [len(goldens["output:output"])]]
    assert goldens[chosen["key"]].dtype == torch.int64
    result = pycandle.json("verify", tmp_path)
    assert any("nonzero" in (layer.get("decisions") or "") for layer in result["layers"])
