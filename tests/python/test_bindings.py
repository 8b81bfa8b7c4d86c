"""The Python package, as a Python user meets it."""

from __future__ import annotations

import pickle
import pydoc
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import pycandle
from pycandle import GoldenRecorder


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, extra: list, flag: torch.Tensor) -> dict:
        y = self.linear(x) + extra[0]["key"]
        return {"y": y, "pair": (y.sum(-1), torch.where(flag, x, -x))}


def arguments(batch: int = 2, seed: int = 0) -> dict:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, 4, generator=g)
    return {"x": x, "extra": [{"key": torch.randn(batch, 4, generator=g)}], "flag": x > 0}


@pytest.fixture(scope="module")
def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return Nested().eval()


@pytest.fixture(scope="module")
def model(tmp_path_factory, module) -> pycandle.Model:
    folder = tmp_path_factory.mktemp("nested")
    recorder = GoldenRecorder(folder)
    recorder.record(module, **arguments())
    recorder.save("nested")
    return pycandle.load_model(folder)


def test_inputs_and_outputs_are_described(model) -> None:
    assert {i.name: (i.dtype, i.shape) for i in model.inputs} == {
        "x": ("f32", ("s0", 4)),
        "extra.0.key": ("f32", ("s0", 4)),
        "flag": ("bool", ("s0", 4)),
    }
    assert [o.name for o in model.outputs] == ["output.y", "output.pair.0", "output.pair.1"]
    assert "nested" in repr(model) and model.backend == "cpu"


def test_torch_in_torch_out(model, module) -> None:
    given = arguments(5, seed=1)
    got = model.forward(**given)
    expected = module(**given)
    assert isinstance(got["output.y"], torch.Tensor)
    torch.testing.assert_close(got["output.y"], expected["y"])
    torch.testing.assert_close(got["output.pair.0"], expected["pair"][0])
    assert torch.equal(got["output.pair.1"], expected["pair"][1])


def test_inputs_in_order_are_those_by_name(model) -> None:
    given = arguments(3, seed=4)
    expected = model(**given)
    x, *others = (given[name] for name in ("x", "extra", "flag"))
    for found in (model(x, *others), model(x, extra=others[0], flag=others[1]), model.trace(x, *others)):
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value)
    with pytest.raises(TypeError, match="4 inputs are given, and nested has 3: x, extra, flag"):
        model(x, *others, x)
    with pytest.raises(TypeError, match=r"extra\.0\.key is given by place and by name"):
        model(x, others[0], flag=others[1], **{"extra.0.key": x})


def test_inputs_of_a_star_are_given_in_order(tmp_path) -> None:
    class Star(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return tensors[0] - 2 * tensors[1]

    given = torch.randn(3), torch.randn(3)
    recorder = GoldenRecorder(tmp_path)
    recorder.record(Star(), *given)
    recorder.save("star")
    torch.testing.assert_close(pycandle.load_model(tmp_path)(*given)["output"], Star()(*given))


def test_a_model_runs_with_the_threads_that_were_asked_for(tmp_path) -> None:
    module, x = torch.nn.Linear(64, 64).eval(), torch.randn(64, 64)
    recorder = GoldenRecorder(tmp_path)
    recorder.record(module, x)
    recorder.save("linear")
    script = """
import os, sys, numpy, pycandle
model = pycandle.load_model(sys.argv[1], threads=int(sys.argv[2]))
before = len(os.listdir("/proc/self/task"))
model(numpy.ones((512, 64), numpy.float32))
print(len(os.listdir("/proc/self/task")) - before)
"""
    for threads in (1, 2):
        ran = subprocess.run(
            [sys.executable, "-c", script, tmp_path, str(threads)], capture_output=True, text=True, check=True
        )
        assert int(ran.stdout) == threads - 1
    torch.testing.assert_close(pycandle.compile(module, x, threads=1)(x), module(x))
    with pytest.raises(ValueError, match="from 1 to 1024, not 0"):
        pycandle.load_model(tmp_path, threads=0)


def test_numpy_in_numpy_out_by_path_and_from_any_strides(model, module) -> None:
    given = arguments(3, seed=2)
    expected = module(**given)
    got = model.forward(
        **{
            "x": np.asfortranarray(given["x"].numpy()),
            "extra.0.key": given["extra"][0]["key"].numpy()[:, ::-1][:, ::-1],
            "flag": given["flag"].numpy(),
        }
    )
    assert isinstance(got["output.y"], np.ndarray) and got["output.y"].flags.writeable
    np.testing.assert_allclose(got["output.y"], expected["y"].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_trace_gives_every_tap(model, module) -> None:
    given = arguments()
    values = model.trace(**given)
    torch.testing.assert_close(values["linear@0/output"], module.linear(given["x"]))
    assert set(model.taps) <= set(values) and "output.y" in values


def test_trace_shows_every_value_unless_a_backend_that_does_not_is_named(tmp_path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 2)).eval()
    recorder = GoldenRecorder(tmp_path)
    x = torch.randn(3, 4)
    recorder.record(module, x)
    recorder.save("fused")
    shown = pycandle.load_model(tmp_path).trace(input=x)
    torch.testing.assert_close(shown["0@0/output"], module[0](x))
    fused = pycandle.load_model(tmp_path, backend="cpu").trace(input=x)
    assert "0@0/output" not in fused, "the product did the activation itself"
    assert "1@0/output" in fused


def test_outputs_and_taps_come_in_the_order_of_the_model(model) -> None:
    outputs = [o.name for o in model.outputs]
    assert outputs != sorted(outputs), "else nothing would be shown here"
    assert list(model.forward(**arguments())) == outputs
    assert list(model.trace(**arguments())) == model.taps + outputs


def test_a_loaded_model_stays_itself_when_folders_and_files_change(tmp_path, monkeypatch) -> None:
    x = torch.randn(3, 4)
    for name in ("one", "two"):
        recorder = GoldenRecorder(tmp_path / name)
        module = torch.nn.Linear(4, 4).eval()
        recorder.record(module, x)
        recorder.save("linear")
        if name == "one":
            expected = module(x)
    monkeypatch.chdir(tmp_path)
    one, lazy = pycandle.load_model("one"), pycandle.load_model("one")
    monkeypatch.chdir("/")
    torch.testing.assert_close(one.forward(input=x)["output"], expected)
    for file in (tmp_path / "two").iterdir():
        file.replace(tmp_path / "one" / file.name)
    for loaded in (one, lazy):
        torch.testing.assert_close(loaded.forward(input=x)["output"], expected)
        torch.testing.assert_close(loaded.trace(input=x)["output"], expected)


def test_errors_carry_their_facts(model, tmp_path) -> None:
    given = arguments()
    with pytest.raises(pycandle.Error) as caught:
        model.forward(x=given["x"].double(), extra=given["extra"], flag=given["flag"])
    assert caught.value.code == "bad_input" and "f64" in caught.value.found and "x" in str(caught.value)
    with pytest.raises(pycandle.Error, match="nowhere"):
        pycandle.load_model(tmp_path / "nowhere")
    with pytest.raises(pycandle.Error, match="reference"):
        pycandle.load_model(tmp_path, backend="abacus")


def test_the_gil_is_released_while_a_model_runs(tmp_path) -> None:
    class Slow(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(8):
                x = torch.tanh(x @ x)
            return x

    recorder = GoldenRecorder(tmp_path, dynamic=False, taps="none")
    recorder.record(Slow().eval(), torch.randn(400, 400))
    recorder.save("slow")
    slow = pycandle.load_model(tmp_path, backend="reference")
    done = threading.Event()
    ticks = 0

    def run() -> None:
        try:
            slow.forward(x=np.ones((400, 400), np.float32))
        finally:
            done.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks >= 3 and not thread.is_alive()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_float_types_go_in_and_out(dtype, tmp_path) -> None:
    torch.manual_seed(1)
    module = (
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).to(dtype).eval()
    )
    recorder = GoldenRecorder(tmp_path)
    x = torch.randn(3, 8, dtype=dtype)
    recorder.record(module, x)
    recorder.save("half")
    (got,) = pycandle.load_model(tmp_path).forward(input=x).values()
    assert got.dtype == dtype
    torch.testing.assert_close(got, module(x))
    if dtype == torch.bfloat16:
        with pytest.raises(pycandle.Error):
            pycandle.load_model(tmp_path).forward(input=x.float().numpy())


def test_compile_gives_a_callable_with_the_same_structure(module) -> None:
    compiled = pycandle.compile(module, **arguments())
    given = arguments(7, seed=4)
    got, expected = compiled(**given), module(**given)
    assert got.keys() == expected.keys() and isinstance(got["pair"], tuple)
    torch.testing.assert_close(got["pair"][0], expected["pair"][0])


def test_compile_keeps_transformers_outputs() -> None:
    from zoo.basics import BY_NAME

    torch.manual_seed(0)
    gpt2 = BY_NAME["gpt2"].make().eval()
    ids = torch.randint(0, 97, (2, 6))
    compiled = pycandle.compile(gpt2, ids)
    with torch.no_grad():
        expected = gpt2(ids[:1, :4], use_cache=False)
    got = compiled(ids[:1, :4])
    assert type(got) is type(expected)
    torch.testing.assert_close(got.logits, expected.logits, rtol=1e-4, atol=1e-5)


def test_type_stubs_ship_with_the_package() -> None:
    from pathlib import Path

    folder = Path(pycandle.__file__).parent
    assert (folder / "py.typed").exists() and "def load_model" in (folder / "_core.pyi").read_text()


class Hypotenuses(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple:
        return x.hypot(y), y.hypot(x)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_hypotenuses_of_special_values_are_those_of_torch(dtype, backend, tmp_path) -> None:
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([-inf, inf, -0.0, 0.0, nan, nan, -4.0, 4.0], dtype=dtype)
    y = torch.tensor([nan, -1.0, 0.0, -0.0, inf, 1.0, -inf, 3.0], dtype=dtype)
    recorder = GoldenRecorder(tmp_path, dynamic=False)
    recorder.record(Hypotenuses().eval(), torch.rand(8, dtype=dtype) + 1, torch.rand(8, dtype=dtype))
    recorder.save("hypotenuses")
    got = pycandle.load_model(tmp_path, backend=backend).forward(x=x, y=y).values()
    for ours, theirs in zip(got, Hypotenuses()(x, y), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        assert ours[~theirs.isnan()].signbit().equal(theirs[~theirs.isnan()].signbit())


def test_the_public_names_are_shown_by_dir_and_help() -> None:
    assert set(pycandle.__all__) <= set(dir(pycandle))
    text = pydoc.plain(pydoc.render_doc(pycandle))
    for name in ("GoldenRecorder", "load_model", "compile", "lockstep", "RecordingError"):
        assert name in text


def test_a_loaded_model_is_pickled_by_path(tmp_path, module, monkeypatch) -> None:
    recorder = GoldenRecorder(tmp_path / "out")
    recorder.record(module, **arguments())
    recorder.save("m")
    monkeypatch.chdir(tmp_path)
    model = pycandle.load_model("out", threads=1)
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(model))
    assert len(pickle.dumps(model)) < 2000, "the files are named, not copied"
    for name, value in model(**arguments()).items():
        assert torch.equal(value, again(**arguments())[name])
    assert again.backend == model.backend == "cpu"


def test_a_pickled_model_brings_its_states(tmp_path) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.count += 1
            return x * self.count

    recorder = GoldenRecorder(tmp_path)
    recorder.record(Counter().eval(), torch.ones(2))
    recorder.save("m")
    model = pycandle.load_model(tmp_path)
    model(np.ones(2, np.float32))
    model(np.ones(2, np.float32))
    again = pickle.loads(pickle.dumps(model))
    assert again(np.ones(2, np.float32))["output"][0] == 3 and model.states["count"] == 2


def test_a_compiled_model_says_that_it_cannot_be_pickled(module) -> None:
    compiled = pycandle.compile(module, **arguments())
    with pytest.raises(TypeError, match="load_model"):
        pickle.dumps(compiled.model)


def test_small_memory_gives_the_same_values_to_rounding(tmp_path, module) -> None:
    recorder = GoldenRecorder(tmp_path)
    recorder.record(module, **arguments())
    recorder.save("m")
    small = pycandle.load_model(tmp_path, memory="small", check_weights=True)
    for _ in range(3):
        for name, value in pycandle.load_model(tmp_path)(**arguments(3)).items():
            torch.testing.assert_close(small(**arguments(3))[name], value)
    with pytest.raises(ValueError, match="'fast' or 'small'"):
        pycandle.load_model(tmp_path, memory="tiny")
