"""Models that change their buffers, run from Python and by the commands: states live on between calls."""

from __future__ import annotations

import os
import subprocess
import threading

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from test_codegen import LIBRARY, ROOT
from test_codegen_states import Cached, Counter, Delayed, Normed, Twice, recorded
from torch import nn

import pycandle


class Cell(nn.Module):
    """Assigns its buffer, and uses what it was before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.ones(1, 4))

    def forward(self, x):
        before = self.h
        self.h = 0.5 * before + x.mean(0, keepdim=True)
        return x + self.h * before


class Cells(nn.Module):
    """Parts whose buffers are assigned: in a list, in a dict, called twice."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(Cell() for _ in range(2))
        self.named = nn.ModuleDict({"twice": Cell()})

    def forward(self, x):
        for cell in self.cells:
            x = cell(x)
        return self.named["twice"](self.named["twice"](x))


X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
MODELS = {
    "counter": (Counter, lambda seed: {"x": X + seed}),
    "norm": (Normed, lambda seed: {"x": torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(seed))}),
    "cache": (Cached, lambda seed: {"x": X.reshape(1, 1, 8).expand(2, 2, 8) + seed, "position": torch.tensor([seed % 5, 5])}),
    "delayed": (Delayed, lambda seed: {"x": X + seed}),
    "assigned": (Cells, lambda seed: {"x": X + seed}),
    "twice": (Twice, lambda seed: {"x": X + seed}),
}  # fmt: skip


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name][0]()


def leaves(tree: object) -> list[torch.Tensor]:
    return torch.utils._pytree.tree_leaves(tree)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_calls_in_a_row_give_what_torch_gives(name, backend, tmp_path) -> None:
    model, inputs = made(name), MODELS[name][1]
    first = {n: b.clone() for n, b in model.named_buffers()}
    loaded = pycandle.load_model(recorded(model, tmp_path, inputs(0)), backend=backend)
    compiled = pycandle.compile(model, backend=backend, **inputs(0))
    assert all(torch.equal(b, first[n]) for n, b in model.named_buffers()), "the module is as it was"
    for call in range(3):
        with torch.no_grad():
            expected = model(**inputs(call))
        torch.testing.assert_close(compiled(**inputs(call)), expected)
        for ours, theirs in zip(loaded(**inputs(call)).values(), leaves(expected), strict=True):
            torch.testing.assert_close(ours, theirs)
        for state, buffer in model.named_buffers():
            torch.testing.assert_close(compiled.states[state], buffer)
            np.testing.assert_allclose(loaded.states[state], buffer.numpy(), rtol=1e-5, atol=1e-6)
    for running in (loaded, compiled):
        running.reset()
        for state, value in running.states.items():
            np.testing.assert_array_equal(np.asarray(value), first[state].numpy())


@pytest.fixture
def counter(tmp_path) -> pycandle.Model:
    return pycandle.load_model(recorded(Counter(), tmp_path / "counter", {"x": X}))


def test_states_are_a_mapping_that_can_be_read_and_set(counter) -> None:
    assert list(counter.states) == ["count", "last"] and len(counter.states) == 2
    assert counter.states["count"] == 3 and counter.states["count"].dtype == np.int64
    counter.states["count"] = 10
    counter.states["last"] = np.ones((2, 4), np.float32)
    counter(X)
    assert counter.states["count"] == 11
    np.testing.assert_array_equal(counter.states["last"], (X * 2).numpy())
    counter.states["last"] = X
    counter.states["last"] = [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert counter.states["last"].dtype == np.float32
    counter.states = {"count": torch.tensor(1), "last": X}
    counter.states = counter.states
    counter.states.update({"count": np.int64(5)})
    assert {name: value.tolist() for name, value in counter.states.items()} == {
        "count": 5,
        "last": X.tolist(),
    }
    assert "count" in counter.states and "other" not in counter.states
    assert "count: i64" in repr(counter.states)


def test_what_is_read_is_a_copy_that_says_so_when_it_is_written(counter) -> None:
    last = counter.states["last"]
    with pytest.raises(ValueError, match="read-only"):
        last[0] = 1
    counter(X)
    assert not last.any(), "as it was when it was read"


def test_wrong_states_are_refused_and_change_nothing(counter) -> None:
    for wrong, words in [
        ({"count": 9, "other": 1}, "no state other"),
        ({"count": 9, "last": np.ones((2, 5), np.float32)}, r"state last has another type[^$]*f32\[2, 4\]"),
        ({"count": 9, "last": np.ones((2, 4))}, "f64"),
        ({"last": X, "count": 1.5}, "state count has another type"),
        ({"last": X, "count": True + 0j}, "state count has another type"),
        ({"count": "many"}, "state count is not an array"),
    ]:
        with pytest.raises(pycandle.Error, match=words):
            counter.states.update(wrong)
        with pytest.raises(pycandle.Error):
            counter.states = wrong
    with pytest.raises(pycandle.Error, match="the state last is missing"):
        counter.states = {"count": 9}
    with pytest.raises(KeyError, match="other is no state: count, last"):
        counter.states["other"]
    assert counter.states["count"] == 3 and not counter.states["last"].any()


def test_states_are_saved_and_loaded(counter, tmp_path) -> None:
    counter(X)
    counter(X)
    file = tmp_path / "states.safetensors"
    counter.save_states(file)
    assert load_file(file)["count"] == 5 and [f.name for f in tmp_path.glob("*states*")] == [file.name]
    counter.reset()
    counter.load_states(str(file))
    assert counter.states["count"] == 5
    assert torch.equal(counter(X)["output"], X * 6)
    compiled = pycandle.compile(Counter(), X)
    compiled.load_states(file)
    assert torch.equal(compiled(X), X * 6)
    for name, tensors in {
        "missing": {"count": np.int64(1)},
        "dtype": {"count": np.int32(1), "last": X.numpy()},
        "shape": {"count": np.ones(1, np.int64), "last": X.numpy()},
        "more": {"count": np.int64(1), "last": X.numpy(), "other": X.numpy()},
    }.items():
        save_file({k: np.asarray(v) for k, v in tensors.items()}, tmp_path / name)
        with pytest.raises(pycandle.Error, match="state"):
            counter.load_states(tmp_path / name)
    with pytest.raises(pycandle.Error, match="nowhere"):
        counter.load_states(tmp_path / "nowhere")
    with pytest.raises(pycandle.Error):
        counter.save_states(tmp_path / "no" / "folder")
    assert counter.states["count"] == 6


def test_a_model_without_states_has_none(tmp_path) -> None:
    model = pycandle.compile(nn.Linear(4, 4).eval(), X).model
    assert dict(model.states) == {} and repr(model.states) == "<no states>"
    model.reset()
    model.states = {}
    with pytest.raises(pycandle.Error, match="no state count"):
        model.states["count"] = 1


def test_trace_is_a_call_and_a_failed_call_is_none(counter) -> None:
    assert torch.equal(counter.trace(X)["output"], X * 4)
    assert torch.equal(counter(X)["output"], X * 5)
    with pytest.raises(pycandle.Error):
        counter(X.double())
    assert counter.states["count"] == 5


def test_lockstep_starts_from_the_buffers_of_the_module(tmp_path) -> None:
    model = made("twice")
    manifest = recorded(model, tmp_path, {"x": X})
    for _ in range(3):
        layers = list(pycandle.lockstep(model, manifest, X))
        assert len(layers) >= 2 and all(layer.max_abs < 1e-5 for layer in layers)


@pytest.mark.parametrize("how", ["loaded", "compiled"])
def test_threads_take_turns_and_sessions_are_independent(how, counter) -> None:
    model = counter if how == "loaded" else pycandle.compile(Counter(), X)
    first = int(model.states["count"])
    threads, calls = 4, 60
    sessions = [model.session() for _ in range(threads)]
    seen: list[int] = []

    def run(session) -> None:
        for _ in range(calls):
            result = model(torch.ones(2, 4))
            seen.append(int((result["output"] if how == "loaded" else result)[0, 0]))
            session(X)
            _ = model.states.copy()

    workers = [threading.Thread(target=run, args=(session,)) for session in sessions]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(seen) == list(range(first + 1, first + 1 + threads * calls)), (
        "each call saw a count of its own"
    )
    assert int(model.states["count"]) == first + threads * calls
    assert [int(session.states["count"]) for session in sessions] == [first + calls] * threads
    sessions[0].reset()
    sessions[1].states["count"] = 7
    assert [int(s.states["count"]) for s in sessions] == [first, 7, first + calls, first + calls]
    assert int(model.session().states["count"]) == first, "a new session begins as recorded"


class Tracker(nn.Module):
    """Some calls change its buffers, others only read them, or leave them alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("peak", torch.full((4,), -1e9))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mode: str = "use") -> torch.Tensor:
        if mode == "plain":
            return self.linear(x)
        if mode == "learn":
            self.calls += 1
            self.mean.lerp_(x.mean(0), 0.5)
        if mode == "peak":
            self.peak.copy_(torch.maximum(self.peak, x.amax(0)))
        return self.linear(x - self.mean) * self.calls + self.peak


def test_all_programs_of_a_compiled_model_have_one_set_of_states() -> None:
    torch.manual_seed(0)
    model = Tracker()
    compiled = pycandle.compile(model, X)
    session = compiled.session()
    assert list(compiled.states) == []
    modes = ["use", "learn", "use", "plain", "learn", "peak", "use", "learn", "plain", "peak", "use"]
    for call, mode in enumerate(modes):
        torch.testing.assert_close(
            compiled(X + call, mode), model(X + call, mode).detach(), msg=f"{call} {mode}"
        )
    assert set(compiled.states) == {"mean", "calls", "peak"}
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(compiled.states[name], buffer)
    assert session.states["calls"] == 0
    torch.testing.assert_close(session(X, "learn"), Tracker.forward(fresh(model), X, "learn").detach())
    compiled.reset()
    torch.testing.assert_close(compiled(X), Tracker.forward(fresh(model), X).detach())


def fresh(model: Tracker) -> Tracker:
    other = Tracker()
    other.linear = model.linear
    return other


def test_states_of_programs_that_made_room_live_on() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
            self.total += step
            return x * self.total

    model = Steps()
    compiled = pycandle.compile(model, X, 0)
    with pytest.warns(UserWarning, match="more than 8 programs"):
        for step in [*range(10), 0, 1]:
            torch.testing.assert_close(compiled(X, step), model(X, step))


def test_a_module_that_is_used_in_between_does_not_disturb_the_compiled_one() -> None:
    model = Tracker()
    compiled = pycandle.compile(model, X, "learn")
    expected = [fresh(model)(X, "peak").detach()]
    model(X, "learn")
    model(X, "peak")
    torch.testing.assert_close(compiled(X, "peak"), expected[0])
    assert model.calls == 1 and compiled.states["calls"] == 0


INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32)
LIMITS = {dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype in INTEGERS}
# The first whole number that the dtype has not.
WHOLE = {torch.bfloat16: 2**8 + 1, torch.float16: 2**11 + 1, torch.float32: 2**24 + 1}


@pytest.mark.parametrize("dtype", [*LIMITS, *WHOLE, torch.int64, torch.bool, torch.complex64])
def test_states_of_every_dtype(dtype, tmp_path) -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(3, dtype=dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.kept.clone()
            self.kept.copy_(x)
            return before

    x = torch.tensor([1, 0, 1]).to(dtype)
    loaded = pycandle.load_model(recorded(Keeps(), tmp_path, {"x": x}))
    loaded(x)
    kept = loaded.states["kept"]
    assert isinstance(kept, torch.Tensor) == (dtype is torch.bfloat16)
    assert np.asarray(kept.float() if dtype is torch.bfloat16 else kept).tolist() == x.tolist()
    loaded.save_states(tmp_path / "s.safetensors")
    loaded.reset()
    loaded.load_states(tmp_path / "s.safetensors")
    assert torch.equal(loaded(x)["output"], x)
    if dtype in LIMITS:
        least, most = LIMITS[dtype]
        loaded.states["kept"] = [least, 7, most]
        assert np.asarray(loaded.states["kept"]).tolist() == [least, 7, most]
        for beyond in (least - 1, most + 1):
            with pytest.raises(pycandle.Error, match=f"state kept is [iu][0-9]+, which cannot hold {beyond}"):
                loaded.states["kept"] = [0, 0, beyond]
        assert np.asarray(loaded.states["kept"]).tolist() == [least, 7, most], "as it was"
    if dtype in WHOLE:
        with pytest.raises(pycandle.Error, match=f"which cannot hold {WHOLE[dtype]}"):
            loaded.states["kept"] = [0, 0, WHOLE[dtype]]
        with pytest.raises(pycandle.Error, match="which cannot hold 1e"):
            loaded.states["kept"] = [0.1, float("inf"), 1e300]
        loaded.states["kept"] = [0.1, float("inf"), WHOLE[dtype] - 1]
    loaded.states["kept"] = [0, 0, 1] if dtype not in (torch.bool,) else [False, False, True]
    assert torch.equal(loaded(x)["output"], torch.tensor([0, 0, 1]).to(dtype))


# ---- the commands


def test_forward_starts_from_the_recorded_states_and_says_what_it_changed(tmp_path, pycandle) -> None:
    manifest = recorded(Counter(), tmp_path, {"x": X})
    for _ in range(2):
        found = pycandle.json("forward", manifest, "--out", tmp_path / "out.safetensors", "--seed", 1)
        assert found["changed_states"] == ["count", "last"]
        first = load_file(tmp_path / "out.safetensors")["output"]
        pycandle("trace", manifest, "--out", tmp_path / "trace.safetensors", "--seed", 1)
        traced = load_file(tmp_path / "trace.safetensors")
        np.testing.assert_array_equal(traced["output:output"], first)
        np.testing.assert_allclose(first, traced["input:x"] * 4, rtol=1e-6)
    text = pycandle("forward", manifest).stdout
    assert "changed states: count, last" in text and "starts from the recorded ones" in text


class Filling(nn.Module):
    """A cache that is full after three calls: the fourth fails."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 4))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, self.at, x)
        self.at += 1
        return self.cache.sum(0)


def test_bench_runs_every_call_from_the_recorded_states(tmp_path, pycandle) -> None:
    manifest = recorded(Filling(), tmp_path, {"x": X[:1]})
    found = pycandle.json(
        "bench", manifest, "--backend", "cpu,reference", "--against", "torch", "--seconds", "0.02"
    )
    assert found["status"] == "fine", found
    assert all(row["runs"] > 3 and row["difference"] == 0 for row in found["rows"]), found


def test_timing_a_model_in_torch_starts_every_call_from_its_buffers() -> None:
    from pycandle.recording.timing import time_model

    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.zeros((), dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.at += 1
            return x[self.at - 1]

    model = Three()
    time_model(model, (X,), {})
    assert model.at == 0


def test_the_benchmark_of_emitted_code_resets_its_states(tmp_path, pycandle) -> None:
    manifest = recorded(Filling(), tmp_path, {"x": X[:1]})
    pycandle("codegen", "--manifest", manifest, "--out", tmp_path / "model.hpp")
    pycandle("gen-bench", "--manifest", manifest, "--out", tmp_path / "bench.cpp")
    compiler = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    libraries = [LIBRARY, "-lbenchmark", "-lpthread"]
    subprocess.run([*compiler, tmp_path / "bench.cpp", *libraries, "-o", tmp_path / "bench"], check=True)
    ran = subprocess.run(
        [tmp_path / "bench", "--benchmark_min_time=0.01"],
        cwd=tmp_path,
        env={**os.environ, "PYCANDLE_TORCH_MS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0 and "Filling/recorded" in ran.stdout, ran.stdout + ran.stderr
