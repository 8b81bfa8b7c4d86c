"""Modules that went through torch.jit: their Python originals are recorded, or the refusal says what to record."""

import pytest
import torch
from agreement import agrees
from test_codegen import compiled_and_run, recorded
from torch import Tensor, nn

from pycandle import GoldenRecorder, compile
from pycandle.errors import RecordingError
from pycandle.recording.tracing.scripted import python_originals

torch.set_num_threads(1)


class Inner(nn.Module):
    """Constants, attributes, a buffer, absent parts, methods, containers and shared weights."""

    scale: float

    def __init__(self, size):
        super().__init__()
        self.first = nn.Linear(size, size, bias=False)
        self.scale, self.size, self.names, self.absent = 2.5, size, ["a", "b"], None
        self.act = nn.Sequential(nn.ReLU(), nn.BatchNorm1d(size))
        self.register_buffer("shift", torch.ones(size))
        self.layers = nn.ModuleList([nn.Linear(size, size) for _ in range(2)])
        self.layers[1].weight = self.layers[0].weight

    def helper(self, x: Tensor, times: int = 2) -> Tensor:
        return x * times

    def forward(self, x: Tensor, more: bool = True) -> Tensor:
        y = self.helper(self.act(self.first(x))) * self.scale + self.shift
        for layer in self.layers:
            y = layer(y)
        if more and len(self.names) == 2:
            y = y + self.size
        return y


@torch.jit.script
def doubled(x: Tensor) -> Tensor:
    return torch.tanh(x) * 2


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.jit.script(Inner(4).eval())
        self.again = self.inner
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(doubled(self.again(self.inner(x), False)))


def test_a_scripted_part_is_recorded_by_its_original(tmp_path, pycandle):
    torch.manual_seed(0)
    model = Outer()
    recorder = agrees(tmp_path, pycandle, model, torch.randn(3, 4), others=[(torch.randn(7, 4),)])
    assert isinstance(model.inner, torch.jit.ScriptModule), "the user's model is as it was"
    classes = {call["class"] for call in recorder.manifest["module_calls"]}
    assert (
        any(name.endswith("Inner") for name in classes)
        and "torch.nn.modules.batchnorm.BatchNorm1d" in classes
    )


def test_a_model_that_is_scripted_as_a_whole_is_recorded(tmp_path, pycandle):
    model = torch.jit.script(Inner(4).eval())
    agrees(tmp_path, pycandle, model, torch.randn(3, 4), others=[(torch.randn(7, 4),)])


def test_every_part_keeps_its_own_mode():
    part = Inner(4).train()
    part.act.eval()
    part.act[1].training = True
    scripted = torch.jit.script(part)
    modes = {name: module.training for name, module in scripted.named_modules()}
    assert set(modes.values()) == {True, False}
    for model in (scripted, Holds(scripted)):
        with python_originals(model) as original:
            inner = original if model is scripted else original.part
            assert {name: module.training for name, module in inner.named_modules()} == modes


def test_a_scripted_part_is_emitted_as_its_class(tmp_path, pycandle):
    manifest = recorded(Outer(), tmp_path, {"x": torch.randn(3, 4)})
    compiled_and_run(manifest, tmp_path, pycandle)
    assert "struct Inner : nn::Module<Inner>" in (tmp_path / "model.hpp").read_text()


class Holds(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x)


def loaded(folder):
    torch.jit.save(torch.jit.script(nn.Linear(4, 4)), folder / "part.pt")
    return torch.jit.load(folder / "part.pt")


def traced(folder):
    return torch.jit.trace(nn.Linear(4, 4), torch.randn(2, 4))


@pytest.mark.parametrize("made, word", [(loaded, "loaded from a file"), (traced, "traced")])
def test_a_part_without_its_python_code_is_refused_with_the_way_around(made, word, tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    with pytest.raises(RecordingError, match=f"part is a TorchScript module that was {word}") as refusal:
        recorder.record(Holds(made(tmp_path)).eval(), torch.randn(2, 4))
    assert "load_state_dict" in refusal.value.hint


@pytest.mark.parametrize("made, word", [(loaded, "loaded from a file"), (traced, "traced")])
@pytest.mark.parametrize("taken_by", [lambda *given: GoldenRecorder().record(*given), compile])
def test_a_whole_model_without_its_python_code_is_refused_too(made, word, taken_by, tmp_path):
    with pytest.raises(RecordingError, match=f"the model is a TorchScript module that was {word}") as refusal:
        taken_by(made(tmp_path).eval(), torch.randn(2, 4))
    assert "load_state_dict" in refusal.value.hint
