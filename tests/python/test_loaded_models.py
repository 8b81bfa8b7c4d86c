"""What Python offers of a loaded model beside running it: backends, dumps, images, overrides."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import pycandle as pc


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    torch.manual_seed(0)
    model, folder = Image().eval(), tmp_path_factory.mktemp("image")
    recorder = pc.GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(model, torch.randn(2, 3, 8, 8))
    recorder.save("image")
    return model, folder


def test_an_image_goes_in_with_or_without_its_batch(image) -> None:
    model, folder = image
    ours = pc.load_model(folder)
    assert isinstance(ours, pc.LoadedModel) and pc.LoadedModel is pc.Model
    x = torch.randn(3, 8, 8)
    with torch.no_grad():
        expected = model(x[None]).numpy()
    np.testing.assert_allclose(ours.forward_vision(x.numpy()), expected, rtol=1e-4, atol=1e-6)
    assert torch.is_tensor(ours.forward_vision(x[None]))
    assert ours.kind.endswith("Image") and ours.capabilities == ["forward", "trace"]
    with pytest.raises(pc.Error, match="no tokenizer"):
        ours.embed("text")
    with pytest.raises(pc.Error, match="decode step"):
        ours.new_cache()


def test_the_usual_backend_can_be_chosen(image, monkeypatch) -> None:
    _, folder = image
    assert pc.get_backend() == "cpu" and "reference" in pc.list_backends()
    pc.set_backend("reference")
    try:
        assert pc.load_model(folder).backend == "reference"
    finally:
        pc.set_backend(None)
    monkeypatch.setenv("PYCANDLE_BACKEND", "reference")
    assert pc.load_model(folder).backend == "reference"
    assert pc.load_model(folder, "cpu").backend == "cpu"
    with pytest.raises(ValueError, match="no backend"):
        pc.set_backend("gpu")


def test_programs_are_dumped_where_it_was_said(image, tmp_path) -> None:
    _, folder = image
    pc.set_dump_dir(tmp_path / "dumps")
    try:
        pc.load_model(folder)
    finally:
        pc.set_dump_dir(None)
    assert list((tmp_path / "dumps").glob("*.ptir"))


def test_overrides_are_an_argument(image) -> None:
    _, folder = image
    x = np.ones((1, 3, 8, 8), np.float32)
    naive = pc.load_model(folder, overrides={"linear": "naive"})
    np.testing.assert_allclose(naive(x)["output"], pc.load_model(folder)(x)["output"], rtol=1e-5, atol=1e-6)
    with pytest.raises(pc.Error, match="linear"):
        pc.load_model(folder, overrides={"linear": "magic"})(x)


def test_inputs_are_read_where_they_lie(image) -> None:
    """A read-only, an unaligned and a transposed array give what a plain one gives, and none is changed."""
    _, folder = image
    model = pc.load_model(folder)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = model(x)["output"]
    frozen = x.copy()
    frozen.flags.writeable = False
    raw = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    transposed = np.ascontiguousarray(x.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    for other in (frozen, unaligned, transposed, torch.from_numpy(x)):
        np.testing.assert_array_equal(np.asarray(model(other)["output"]), expected)
    out = model(x)["output"]
    x[...] = 0  # what was given back is nobody else's
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_eager_runs_node_by_node(image, pycandle, monkeypatch, backend: str) -> None:
    _, folder = image
    x = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype(np.float32)
    expected, taps = pc.load_model(folder, backend)(x)["output"], pc.load_model(folder, "reference").trace(x)
    monkeypatch.setenv("PYCANDLE_EAGER", "1")
    eager = pc.load_model(folder, backend)
    np.testing.assert_allclose(eager(x)["output"], expected, rtol=1e-5, atol=1e-6)
    shown = eager.trace(x)
    assert set(shown) == set(taps)
    for tap, value in taps.items():
        np.testing.assert_allclose(shown[tap], value, rtol=1e-4, atol=1e-5, err_msg=tap)
    pycandle("forward", folder)
