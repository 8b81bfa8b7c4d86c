"""Models that change their buffers, as source code: a state of the class that has the buffer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch
from test_codegen import LIBRARY, ROOT
from torch import nn

from pycandle import GoldenRecorder


class Counter(nn.Module):
    """A buffer that is read after it changed, and one that is set without being read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("last", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.last.copy_(x * 2)
        return x * self.count


class RunningNorm(nn.Module):
    """Batch norm that goes on learning its statistics in use."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.weight = nn.Parameter(torch.rand(4))
        self.bias = nn.Parameter(torch.rand(4))
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_var", torch.ones(4))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.num_batches_tracked.add_(1)
        statistics = self.running_mean, self.running_var
        return nn.functional.batch_norm(
            x, *statistics, self.weight, self.bias, training=True, momentum=self.momentum
        )


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = RunningNorm(0.1)
        self.again = RunningNorm(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.again(self.norm(self.conv(x))))


class Attention(nn.Module):
    """Keys and values of all calls so far."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(2, 6, 8))
        self.register_buffer("values", torch.zeros(2, 6, 8))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        self.keys[:, 1:3] = key
        self.values.index_copy_(1, position, value)
        return x + nn.functional.scaled_dot_product_attention(query, self.keys, self.values)


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(3))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, position)
        return x


class Delayed(nn.Module):
    """Gives what it was given last: the old value is needed after the new one is known."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("before", torch.ones(2, 4))
        self.register_buffer("sum", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = self.before.clone()
        self.sum += old.sum(0)
        self.before.copy_(x + 1)
        return old * x, self.before - old


class Cell(nn.Module):
    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x + 0.5 * hidden)


class Owner(nn.Module):
    """A child makes what the buffer of its parent becomes."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()
        self.register_buffer("hidden", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden.copy_(self.cell(x, self.hidden))
        return self.hidden * 2


class Tally(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0)
        return x + self.total


class Twice(nn.Module):
    """One module called twice in a forward, and a sequence of modules that change."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()
        self.several = nn.Sequential(nn.Linear(4, 4), Tally(), nn.ReLU(), Tally())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.several(self.tally(torch.tanh(self.tally(x))))


def recorded(model: nn.Module, folder: Path, inputs: dict) -> Path:
    torch.manual_seed(0)
    recorder = GoldenRecorder(folder, dynamic={})
    recorder.record(model, **inputs)
    recorder.save("model")
    return folder / "model_manifest.json"


def outcome_of(model: nn.Module, folder: Path, pycandle, inputs: dict, edit: tuple[str, str] = ("", "")):
    """The generated test, compiled and run, after an edit of the header (what is there, what is put in its place)."""
    manifest = recorded(model, folder, inputs)
    made = pycandle.json("codegen", "--manifest", manifest, "--out", folder / "model.hpp")
    pycandle("gen-test", "--manifest", manifest, "--model", made["model"], "--out", folder / "test_model.cpp")
    text = (folder / "model.hpp").read_text()
    assert edit[0] in text, text
    (folder / "model.hpp").write_text(text.replace(*edit) if edit[0] else text)
    compiler = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    libraries = [LIBRARY, "-lgtest_main", "-lgtest", "-lpthread"]
    command = [*compiler, folder / "test_model.cpp", *libraries, "-o", folder / "test_model"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    return subprocess.run([folder / "test_model"], cwd=folder, capture_output=True, text=True)


def emitted(model: nn.Module, folder: Path, pycandle, inputs: dict) -> str:
    """The header, with its generated test passed: layers, outputs, recorded and other calls in a row, round trip."""
    ran = outcome_of(model, folder, pycandle, inputs)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "KeepsItsStatesBetweenCalls" in ran.stdout and "ChangesItsStatesAsRecorded" in ran.stdout
    return (folder / "model.hpp").read_text()


def test_the_test_of_a_state_that_was_edited_fails_and_its_command_names_the_state(
    tmp_path, pycandle
) -> None:
    edit = ("count = count + 1;", "count = count + 2;")
    ran = outcome_of(Counter(), tmp_path, pycandle, {"x": torch.randn(2, 4)}, edit)
    assert ran.returncode == 1 and "state count is off by" in ran.stdout
    (command, *_) = {line for line in ran.stdout.splitlines() if line.startswith("Next: pycandle verify ")}
    said = pycandle(*command.split()[2:], status=1, cwd=tmp_path).stdout
    assert "wrong here: state count (add)" in said and "test_codegen_states.py:" in said
    assert "wrong here: second call: state count (add)" in said


def test_a_counter_is_a_state_that_forward_assigns(tmp_path, pycandle) -> None:
    text = emitted(Counter(), tmp_path, pycandle, {"x": torch.randn(2, 4)})
    assert "State count, last;" in text and 'count(w.state("count"))' in text
    assert "count = count + 1;" in text and "last = x * 2.0;" in text and "return x * count;" in text


def test_batch_norm_that_trains_keeps_its_statistics(tmp_path, pycandle) -> None:
    text = emitted(Normed(), tmp_path, pycandle, {"x": torch.randn(2, 3, 6, 6)})
    assert text.count("struct RunningNorm : nn::Module<RunningNorm>") == 1
    assert "State num_batches_tracked, running_mean, running_var" in text


def test_a_cache_of_keys_is_a_state_of_every_layer(tmp_path, pycandle) -> None:
    inputs = {"x": torch.randn(2, 2, 8), "position": torch.tensor([3, 4])}
    text = emitted(Cached(), tmp_path, pycandle, inputs)
    assert "State keys, values;" in text and "for (const Attention& layer : layers)" in text


def test_an_old_value_that_is_needed_later_is_kept(tmp_path, pycandle) -> None:
    emitted(Delayed(), tmp_path, pycandle, {"x": torch.randn(2, 4)})


def test_a_parent_sets_its_state_to_what_a_child_made(tmp_path, pycandle) -> None:
    text = emitted(Owner(), tmp_path, pycandle, {"x": torch.randn(2, 4)})
    assert "hidden = cell(x, hidden);" in text and "return hidden * 2.0;" in text


def test_a_module_that_is_called_twice_hands_its_state_on(tmp_path, pycandle) -> None:
    text = emitted(Twice(), tmp_path, pycandle, {"x": torch.randn(2, 4)})
    assert "nn::Sequential<nn::Linear, Tally, nn::ReLU, Tally> several;" in text
