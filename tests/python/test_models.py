"""Real models, recorded with perturbed parameters, verify tap by tap and agree with eager at other shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from zoo.basics import BY_NAME, CASES, Case

import pycandle as pc
from pycandle import GoldenRecorder, perturb


def prepared(case: Case, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = case.make().eval()
    if not case.real_weights:
        perturb(model, seed=seed)
    return model


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def eager_outputs(model: torch.nn.Module, inputs: dict) -> list[np.ndarray]:
    torch.backends.mha.set_fastpath_enabled(False)
    if hasattr(model, "config") and hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    with torch.no_grad():
        result = model(**{name: tensor.clone() for name, tensor in inputs.items()})
    return [leaf.numpy() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def assert_close(name: str, got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape, name
    assert np.isfinite(got).all() and np.isfinite(expected).all(), name
    difference = got.astype(np.float64) - expected
    scale = np.sqrt(np.mean(expected.astype(np.float64) ** 2))
    error = np.sqrt(np.mean(difference**2))
    assert error <= 2e-5 * scale, f"{name}: relative RMS error {error / scale:.2e}"
    assert np.abs(difference).max() <= 1e-3 * scale, (
        f"{name}: largest error {np.abs(difference).max() / scale:.2e} of RMS"
    )


def assert_not_constant(name: str, value: np.ndarray) -> None:
    flat = value.reshape(-1)
    assert flat.size == 1 or np.ptp(flat) > 1e-4 * np.abs(flat).max(), (
        f"{name} is constant: the test would see nothing"
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_verifies_and_agrees_with_eager_at_other_shapes(
    case: Case, seed: int, tmp_path, pycandle
) -> None:
    model = prepared(case, seed)
    recorder = GoldenRecorder(tmp_path, dynamic=case.dynamic)
    recorder.record(model, **case.inputs(case.recorded, generator(seed)))
    recorder.save("model")

    result = pycandle.json("verify", tmp_path)
    assert result["status"] == "passed" and result["counts"]["wrong_here"] == 0
    assert len(result["layers"]) >= 2, "a layer by layer check needs layers"

    loaded = pc.load_model(tmp_path)
    for number, sizes in enumerate([case.recorded, *case.others]):
        inputs = case.inputs(sizes, generator(1000 * seed + number))
        expected = eager_outputs(model, inputs)
        outputs = loaded.forward(**{name: tensor.numpy() for name, tensor in inputs.items()})
        got = [outputs[info.name] for info in loaded.outputs]
        assert len(got) == len(expected)
        for info, ours, theirs in zip(loaded.outputs, got, expected, strict=True):
            if sizes is case.recorded:
                assert_not_constant(info.name, theirs)
            assert_close(f"{case.name} {info.name} at {sizes}", ours, theirs)

    trace = recorder.add_goldens("elsewhere", **case.inputs(case.others[1], generator(seed + 7)))
    elsewhere = pycandle.json("verify", tmp_path / "model_manifest.json", "--trace", trace)
    assert elsewhere["status"] == "passed"


@pytest.mark.full
def test_full_size_gpt2_verifies(tmp_path, pycandle) -> None:
    from zoo.basics import gpt2

    torch.manual_seed(0)
    model = gpt2(n_layer=12, n_head=12, n_embd=768, vocab_size=50257, n_positions=1024).eval()
    perturb(model, seed=0)
    recorder = GoldenRecorder(tmp_path)
    recorder.record(model, **BY_NAME["gpt2"].inputs({"batch": 1, "seq": 8}, generator(0)))
    recorder.save("gpt2")
    assert pycandle.json("verify", tmp_path)["status"] == "passed"
