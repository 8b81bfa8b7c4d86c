"""Loops over an axis that stays open are recorded as scans, where torch.export would unroll them and fix the axis."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from causal_models import CELLS, VOCABULARY
from zoo import transformers_models as models
from zoo.recordings import record as record_entry

from pycandle import GoldenRecorder
from pycandle.errors import RecordingError
from pycandle.recording.tracing import loop_code, open_loops


class Weighted(nn.Module):
    """Starts at the second row, reads what is no tensor of the loop, and gives the last values of its names."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x, start):
        gate, total = torch.sigmoid(x), start
        for t in range(1, x.size(1)):
            now = self.mix(total) * gate[:, t, :] + x[..., t, :]
            if self.training:
                now = now * 0.5
            total = 0.5 * total + now
        return total, now


class Written(nn.Module):
    """Rows of a wider dtype are written into every second half of a tensor that others see, too."""

    def forward(self, x, into):
        into = into.clone()
        state = torch.zeros(x.shape[0], 4)
        joined = []
        for t in range(x.shape[1]):
            state = state * 0.5 + x[:, t]
            into[:, t] = state.double()
            joined += [state[:, None]]
        return into, torch.cat(joined, 1), joined[-1]


class Twice(nn.Module):
    """One loop after another, the first within a branch."""

    def forward(self, x):
        state = x.new_zeros(x.shape[0], 4)
        first = []
        if x.dim() == 3:
            for t in range(x.shape[1]):
                state = torch.tanh(state + x[:, t])
                first.append(state)
        rows = torch.stack(first, 1)
        second = []
        for i in range(rows.shape[1]):
            state = state + rows[:, i]
            second.append(state)
        return torch.stack(second, dim=-1)


MODELS = {
    "weighted": (Weighted, {"x": {0: "batch", 1: "seq"}, "start": {0: "batch"}}, lambda b, t: (torch.randn(b, t, 4), torch.randn(b, 4))),
    "written": (Written, {"x": {0: "batch", 1: "seq"}, "into": {0: "batch", 1: "seq"}}, lambda b, t: (torch.randn(b, t, 4), torch.randn(b, t, 4))),
    "twice": (Twice, {"x": {0: "batch", 1: "seq"}}, lambda b, t: (torch.randn(b, t, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_loop_is_the_model_at_every_length(name: str, tmp_path, pycandle) -> None:
    make, dynamic, inputs = MODELS[name]
    recorder = GoldenRecorder(tmp_path, dynamic=dynamic)
    chosen = recorder.record(make().eval(), *inputs(2, 5))
    recorder.save("model")
    assert not chosen.fixed and {opened.group.label for opened in chosen.open} == {"batch", "seq"}
    assert any("recorded as a scan" in note for note in recorder.manifest["notes"])
    assert any(node["op"].startswith("higher_order.scan") for node in recorder.manifest["nodes"])
    recorder.add_goldens("long", *inputs(3, 11))
    for backend in ("reference", "cpu"):
        pycandle("verify", tmp_path, "--backend", backend)
        pycandle("verify", tmp_path, "--backend", backend, "--trace", tmp_path / "long_trace.safetensors")


@pytest.mark.parametrize(
    "name",
    [*CELLS, pytest.param("mamba", marks=pytest.mark.full), pytest.param("rwkv", marks=pytest.mark.full)],
)
def test_a_language_model_with_a_loop_over_its_tokens_decodes(name: str, tmp_path, pycandle) -> None:
    if name in CELLS:
        recorder = GoldenRecorder(tmp_path)
        recorder.record(CELLS[name]().eval(), torch.randint(0, VOCABULARY, (2, 9)))
        recorder.save("model")
    else:
        record_entry(next(entry for entry in models.STATE_SPACES if entry.name == name), tmp_path)
    for backend in ("reference", "cpu"):
        assert pycandle.json("verify", tmp_path, "--decode", "--backend", backend)["passed"]
    pycandle("codegen", "--stateful", "--manifest", tmp_path, "--out", tmp_path / "decode.hpp")


class Grows(nn.Module):
    """The state changes its shape in the first round: no step of a scan."""

    def forward(self, x):
        state, rows = torch.zeros(1, 4), []
        for t in range(x.shape[1]):
            state = state + x[:, t]
            rows.append(state)
        return torch.stack(rows, 1)


class GivesTheList(nn.Module):
    def forward(self, x):
        rows = []
        for t in range(x.shape[1]):
            rows.append(x[:, t] * 2)
        return sum(rows)


@pytest.mark.parametrize("model", [Grows, GivesTheList])
def test_a_loop_that_is_no_scan_is_unrolled_and_fixes_the_axis(model, tmp_path) -> None:
    recorder = GoldenRecorder(tmp_path, dynamic={"x": {0: "batch", 1: "seq"}})
    chosen = recorder.record(model().eval(), torch.randn(2, 5, 4))
    assert [entry.group.label for entry in chosen.fixed] == ["seq"]
    assert not any(node["op"].startswith("higher_order.scan") for node in recorder.manifest["nodes"])


def body(text: str) -> str:
    """A function with a loop, as it is rewritten; empty when it stays as it is."""
    tree = ast.parse(
        "def f(x, y, n, out, state, rows):\n" + "".join(f"    {line}\n" for line in text.splitlines())
    )
    rewriter = loop_code._Rewriter()
    rewriter.visit(tree)
    return ast.unparse(tree) if rewriter.count else ""


@pytest.mark.parametrize(
    "text",
    [
        "for t in range(n):\n    state = state + x[:, t]\nreturn state",
        "for t in range(2, n):\n    state = x[..., t, None] - state\nreturn state",
        "for t in range(n):\n    if n > 3:\n        state = state * x[t]\nreturn state",
        "for t in range(n):\n    for i in range(2):\n        rows[i] = rows[i] + x[t]\nreturn rows",
        "rows = []\nfor t in range(n):\n    rows += [x[:, t] * 2]\nreturn stack(rows)",
        "for t in range(n):\n    state = sum([state * w for w in y]) + x[t]\nreturn state",
        "for t in range(n):\n    out[:, :, t] = (x[t] / 2).to(out.dtype)\nreturn out",
    ],
)
def test_loops_that_hand_values_on_are_rewritten(text: str) -> None:
    assert loop_code.LOOP in body(text)


@pytest.mark.parametrize(
    "text",
    [
        "for t in range(n):\n    state = state + t",
        "for t in range(n):\n    state = state + x[t - 1]",
        "for t in range(n):\n    state = state + x[t]\nreturn t",
        "for t in range(n):\n    state = state + x[t, t]",
        "for t in range(n):\n    state = state + x[y, t]",
        "for t in range(n):\n    state = state + state[t]",
        "for t in range(n):\n    print(x[t])",
        "for t in range(n):\n    out[:, t] = out[:, 0] + x[t]",
        "for t in range(n):\n    out[:2, t] = x[t]",
        "for t in range(n):\n    rows.append(x[t])\n    rows.append(y[t])",
        "for t in range(n):\n    rows.append(rows[-1] + x[t])",
        "for t in range(n):\n    if n > 3:\n        rows.append(x[t])",
        "for t in range(n):\n    state.h = x[t]",
        "for t in range(n):\n    if n > 3:\n        break",
        "for t in range(n):\n    state = state + x[t]\n    return state",
        "for t in range(n):\n    while n:\n        state = x[t]",
        "for t in range(n):\n    state = x[t]\nelse:\n    state = 0",
        "for t in range(0, n, 2):\n    state = state + x[t]",
        "for t in y:\n    state = state + x[t]",
        "for t in range(n):\n    state = f(lambda: x[t])",
    ],
)
def test_other_loops_stay_as_they_are(text: str) -> None:
    assert body(text) == ""


def test_a_value_that_is_read_behind_the_loop_is_handed_on() -> None:
    read = body("for t in range(n):\n    now = x[t]\n    state = state + now\nreturn state, now")
    assert "(state,), (now,)" in read
    written_again = body(
        "for t in range(n):\n    now = x[t]\n    state = state + now\nnow = 3\nreturn state, now"
    )
    assert "(state,), ()" in written_again


def test_rows_of_an_open_loop_are_only_stacked_or_joined() -> None:
    rows = open_loops.Rows(torch.arange(24.0).reshape(2, 3, 4))
    assert open_loops.stack(rows, dim=1).shape == (3, 2, 4) and open_loops.stack(rows, -1).shape == (3, 4, 2)
    assert torch.equal(open_loops.cat(rows, 1), torch.cat(list(rows.stacked), 1))
    assert torch.equal(rows[-1], rows.stacked[-1])
    for use in (
        lambda: rows[0],
        lambda: len(rows),
        lambda: list(rows),
        lambda: rows.append(1),
        lambda: sum(rows),
    ):
        with pytest.raises(RecordingError, match="in another way"):
            use()


def test_every_layer_of_a_deep_model_has_its_loop(tmp_path) -> None:
    recorder = GoldenRecorder(tmp_path, dynamic={"input": {0: "batch", 2: "seq"}})

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Twice() for _ in range(10))

        def forward(self, input):
            for layer in self.layers:
                input = layer(input.transpose(1, 2)) * 0.1
            return input

    chosen = recorder.record(Turned().eval(), torch.randn(2, 4, 5))
    assert not chosen.fixed
    scans = [node for node in recorder.manifest["nodes"] if node["op"].startswith("higher_order.scan")]
    assert len(scans) == 20


def test_the_functions_of_a_model_have_their_own_code_again(tmp_path) -> None:
    before = Twice.forward.__code__
    GoldenRecorder(tmp_path, dynamic=False).record(Twice().eval(), torch.randn(2, 5, 4))
    assert Twice.forward.__code__ is before
