"""Models whose recording would be wrong: each is refused, or reported, with the line that is the reason.

The line is marked `# HERE` in the model's source.
"""

import math
import random
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pycandle import GoldenRecorder
from pycandle.errors import RecordingError

torch.set_num_threads(1)


@pytest.fixture
def recorder(tmp_path):
    return GoldenRecorder(tmp_path, progress=lambda text: None)


def is_here(place) -> bool:
    return place is not None and place.source.endswith("# HERE")


def refuse(recorder, model, *args, **kwargs) -> RecordingError:
    with pytest.raises(RecordingError) as refusal:
        recorder.record(model, *args, **kwargs)
    error = refusal.value
    assert is_here(error.place), f"another line is named:\n{error}"
    assert "# HERE" in str(error)
    return error


def fixed_axis(recorder, model, *args, **kwargs):
    """The model is recorded with an axis fixed, and the line that fixes it is reported."""
    chosen = recorder.record(model, *args, **kwargs)
    assert chosen.fixed, "no axis was reported as fixed"
    assert is_here(chosen.fixed[0].place), f"another line is named: {chosen.fixed[0]}"
    entry = recorder.manifest["fixed_dims"][0]
    assert entry["line"] == chosen.fixed[0].place.line
    return entry


# ---- refused: Python looks at values --------------------------------------------------------------------------


class BranchOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # HERE
            return x + 1
        return x - 1


class NumberFromData(nn.Module):
    def forward(self, x):
        scale = x.max().item()  # HERE
        return x * scale


class ListFromData(nn.Module):
    def forward(self, x):
        values = x[0].tolist()  # HERE
        return x + torch.tensor(values)


class NumpyInside(nn.Module):
    def forward(self, x):
        table = x.detach().numpy()  # HERE
        return x + torch.from_numpy(np.sort(table, axis=-1))


class LoopUntilConverged(nn.Module):
    def forward(self, x):
        while x.abs().max() > 1:  # HERE
            x = x / 2
        return x


class SizeFromData(nn.Module):
    def forward(self, x):
        n = int(x.argmax())  # HERE
        return x[:, : n + 1]


@pytest.mark.parametrize(
    "model", [BranchOnData, NumberFromData, ListFromData, NumpyInside, LoopUntilConverged, SizeFromData]
)
def test_python_that_looks_at_values_is_refused(recorder, model):
    error = refuse(recorder, model().eval(), torch.randn(2, 4))
    assert error.hint


class MovesStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x):
        return F.instance_norm(x, self.mean, self.var, use_input_stats=True)  # HERE


def test_running_statistics_that_instance_norm_moves_are_refused(recorder):
    assert "running statistics" in str(refuse(recorder, MovesStatistics().eval(), torch.randn(2, 3, 5)))


class HooksItselfOnce(nn.Module):
    """Collects what its layers give with hooks that the first call installs, as transformers does."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        if not getattr(self, "hooked", False):
            for layer in self.layers:
                layer.register_forward_hook(lambda _module, _args, output: self.collected.append(output))
            self.hooked = True
        self.collected = []
        for layer in self.layers:
            x = layer(x)
        collected, self.collected = self.collected, []
        return tuple(collected)


def test_hooks_that_the_first_call_installs_are_there_once(recorder):
    model = HooksItselfOnce().eval()
    recorder.record(model, torch.randn(2, 4))
    assert len(recorder.manifest["outputs"]) == 2
    assert len(model(torch.randn(2, 4))) == 2


# ---- refused: something else than the inputs decides ----------------------------------------------------------


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls  # HERE


_calls = {"count": 0}


class GlobalState(nn.Module):
    def forward(self, x):
        _calls["count"] += 1
        y = x + 1
        return y * _calls["count"]  # HERE


class PythonRandom(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        return y * random.random()  # HERE


class NumpyRandom(nn.Module):
    def forward(self, x):
        noise = torch.full_like(x, float(np.random.rand()))  # HERE
        return x + noise


class Clock(nn.Module):
    def forward(self, x):
        return x + time.perf_counter() % 1  # HERE


class AlternatingBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = False

    def forward(self, x):
        self.flag = not self.flag
        if self.flag:  # HERE
            return x.exp()
        return x.sin()


class RemembersFirstInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = None

    def forward(self, x):
        if self.mean is None:
            self.mean = x.mean(0, keepdim=True)  # HERE
        return x - self.mean


class KeepsHistory(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        total = sum(self.history, torch.zeros(()))  # HERE
        self.history.append(x.sum())
        return x + total


@pytest.mark.parametrize(
    "model",
    [
        Counter,
        GlobalState,
        PythonRandom,
        NumpyRandom,
        Clock,
        AlternatingBranch,
        RemembersFirstInput,
        KeepsHistory,
    ],
)
def test_hidden_state_is_refused(recorder, model):
    refuse(recorder, model().eval(), torch.randn(2, 4))


# ---- refused: train mode --------------------------------------------------------------------------------------


class DropoutLeftOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.linear(x)
        return self.drop(x)  # HERE


class BatchNormLeftOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)  # HERE


class LstmDropoutLeftOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4, num_layers=2, dropout=0.3)

    def forward(self, x):
        y, _ = self.lstm(x.unsqueeze(0))  # HERE
        return y


@pytest.mark.parametrize("model", [DropoutLeftOn, BatchNormLeftOn, LstmDropoutLeftOn])
def test_modules_left_in_train_mode_are_refused(recorder, model):
    error = refuse(recorder, model(), torch.randn(3, 4))
    assert "train mode" in error.what and "eval()" in error.hint
    assert error.module in ("drop", "norm", "lstm")


def test_train_mode_without_effect_is_recorded(recorder):
    recorder.record(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4))


class OwnDropout(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5, self.training)  # HERE


def test_functional_dropout_in_train_mode_is_refused(recorder):
    error = refuse(recorder, OwnDropout(), torch.randn(2, 4))
    assert "train mode" in error.what


class AttentionDropout(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)  # HERE


def test_dropout_inside_attention_is_refused(recorder):
    refuse(recorder, AttentionDropout().eval(), torch.randn(2, 3, 4, 8))


# ---- reported: random operators -------------------------------------------------------------------------------


class FunctionalDropout(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5)  # HERE


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)  # HERE


@pytest.mark.parametrize("model", [FunctionalDropout, Noise])
def test_random_operators_are_reported_and_tapped(recorder, model):
    recorder.record(model().eval(), torch.randn(2, 4))
    files = recorder.save("noise")
    assert any(note.startswith("random: ") and "# HERE" in note for note in files.notes)
    assert any(tap.id.startswith("node:") or "output" in tap.key for tap in recorder._recording.manifest.taps)


# ---- reported: sizes that the model fixes ---------------------------------------------------------------------


class ShapeThroughInt(nn.Module):
    def forward(self, x):
        n = int(x.shape[0])  # HERE
        return x.reshape(n * 2, -1)


class LoopOverBatch(nn.Module):
    def forward(self, x):
        rows = [torch.relu(row) for row in x]  # HERE
        return torch.stack(rows)


class TableOfRecordedSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(5, 4))

    def forward(self, x):
        return x + self.bias  # HERE


class FloatOfSize(nn.Module):
    def forward(self, x):
        return x * (1 / math.log(x.shape[0]))  # HERE


@pytest.mark.parametrize("model", [ShapeThroughInt, LoopOverBatch, TableOfRecordedSize, FloatOfSize])
def test_sizes_that_the_model_fixes_are_reported(recorder, model):
    entry = fixed_axis(recorder, model().eval(), torch.randn(5, 4))
    assert (entry["input"], entry["axis"], entry["size"]) == ("x", 0, 5)
    assert recorder.manifest["symbols"] == []


class OneIsSpecial(nn.Module):
    def forward(self, x):
        if x.shape[0] == 1:  # HERE
            return torch.relu(x)
        return 2 * x


class OneIsSpecialInLine(nn.Module):
    def forward(self, x):
        return torch.relu(x) if x.shape[0] == 1 else 2 * x  # HERE


@pytest.mark.parametrize("model", [OneIsSpecial, OneIsSpecialInLine])
def test_a_branch_on_size_one_starts_the_range_at_two(recorder, model):
    recorder.record(model(), torch.randn(3, 4))
    manifest = recorder.manifest
    assert manifest["symbols"][0]["min"] == 2
    assert any("# HERE" in note for note in manifest["notes"])


@pytest.mark.parametrize("model", [OneIsSpecial, OneIsSpecialInLine])
def test_a_branch_on_size_one_fixes_a_recording_at_one(recorder, model):
    entry = fixed_axis(recorder, model(), torch.randn(1, 4))
    assert entry["size"] == 1


def test_lower_bound_one_is_stored_when_it_holds(recorder):
    recorder.record(nn.Linear(4, 4), torch.randn(3, 4))
    assert recorder.manifest["symbols"][0]["min"] == 1


# ---- rounding is no difference --------------------------------------------------------------------------------


class OtherOrder(nn.Module):
    """Rounds in another order while it is traced: equal up to rounding, not to the bit."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            return x.sum(-1) * 3.3
        return (x * 3.3).sum(-1)


class OtherOrderOfFactories(OtherOrder):
    """The same behind tensors whose dtype is the default one."""

    def forward(self, x):
        n = x.shape[-1]
        return super().forward(x @ torch.eye(n) + torch.arange(n) / (7 * n))


class OtherFormula(nn.Module):
    def forward(self, x):
        y = torch.tanh(x)
        if torch.compiler.is_exporting():  # HERE
            return y * 1.001
        return y * 1.0


@pytest.mark.parametrize("model", [OtherOrder, OtherOrderOfFactories])
def test_a_difference_within_rounding_is_accepted_and_said(recorder, model):
    recorder.record(model(), torch.randn(2, 1000, generator=torch.Generator().manual_seed(0)))
    results = {check["result"] for check in recorder.manifest["soundness"]["checks"]}
    assert "within rounding" in results and results <= {"within rounding", "bit-equal"}


def test_a_difference_beyond_rounding_is_refused(recorder):
    error = refuse(recorder, OtherFormula(), torch.randn(2, 4))
    assert "not the model" in error.what


class LateBuffer(nn.Module):
    """A buffer without a value until the first call."""

    def __init__(self, remembers: bool, once: bool = False):
        super().__init__()
        self.remembers, self.once = remembers, once
        self.register_buffer("kept", None)

    def forward(self, x):
        if self.once and self.kept is not None:
            raise ValueError("called twice")
        if self.kept is None:
            self.kept = torch.ones(3)
        if self.remembers:
            self.kept = self.kept * 0.5 + x.sum(0)
        return x + self.kept


def test_a_buffer_that_the_first_call_makes_is_refused_when_later_calls_read_it(recorder):
    with pytest.raises(RecordingError, match="the buffer kept has no value before the first call") as refusal:
        recorder.record(LateBuffer(True).eval(), torch.randn(2, 3))
    assert "register it with its shape" in str(refusal.value)
    with pytest.raises(RecordingError, match="the buffer kept has no value before the first call"):
        recorder.record(LateBuffer(False, once=True).eval(), torch.randn(2, 3))
    recorder.record(LateBuffer(False).eval(), torch.randn(2, 3))  # computed once and kept
    assert recorder.manifest["states"] == []
