"""Operators that nothing supports are said when a recording ends, not first when it is run."""

import json

import torch
from torch import nn

from pycandle import GoldenRecorder

SCRIPT = """
import torch
from torch import nn
from pycandle import GoldenRecorder

class Odd(nn.Module):
    def forward(self, x):
        return torch.geqrf(x)[0] + torch.geqrf(x + 1)[0]

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.odd = Odd()
    def forward(self, x):
        return self.odd(x) * 2

recorder = GoldenRecorder("traces")
recorder.record(Model().eval(), torch.randn(3, 3))
recorder.save("odd")
"""


class Odd(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.geqrf(x)[0] + torch.geqrf(x + 1)[0]


def test_python_says_it_and_gives_it_back(tmp_path) -> None:
    said: list[str] = []
    recorder = GoldenRecorder(tmp_path, progress=said.append)
    recorder.record(Odd().eval(), torch.randn(3, 3))
    (gap,) = recorder.save("odd").gaps
    assert gap.op == "aten.geqrf.default"
    assert gap.count == 2
    assert "test_recorder_gaps.py" in gap.places[0] and "torch.geqrf(x)[0]" in gap.places[0]
    (line,) = [text for text in said if text.startswith("not supported")]
    assert "aten.geqrf.default is not supported, 2 times; in " in line
    assert "docs/recording.md" in line
    assert (tmp_path / "odd_manifest.json").exists(), "it is recorded all the same"


class Neighbours(nn.Module):
    """As graph networks are often written."""

    def forward(self, edges: torch.Tensor, weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(torch.sparse_coo_tensor(edges, weights, (3, 3)), x)


def test_sparse_tensors_come_with_the_dense_way(tmp_path) -> None:
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(
        Neighbours().eval(), torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.randn(3), torch.randn(3, 4)
    )
    gaps = recorder.save("neighbours").gaps
    assert gaps and all("to_dense" in gap.suggestion for gap in gaps), gaps


def test_the_command_says_it_with_module_and_line(tmp_path, pycandle) -> None:
    (tmp_path / "odd.py").write_text(SCRIPT)
    done = pycandle("record", "--script", tmp_path / "odd.py")
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("  gap ")]
    assert "aten.geqrf.default is not supported, 2 times; in odd@0, odd.py:8" in line
    facts = pycandle.json("record", "--script", tmp_path / "odd.py")
    (gap,) = facts["recordings"][0]["gaps"]
    assert (gap["op"], gap["count"]) == ("aten.geqrf.default", 2)


def test_a_model_without_gaps_says_nothing(tmp_path) -> None:
    said: list[str] = []
    recorder = GoldenRecorder(tmp_path, progress=said.append)
    recorder.record(nn.Linear(3, 3).eval(), torch.randn(2, 3))
    assert recorder.save("fine").gaps == []
    assert not [text for text in said if "supported" in text]


def test_a_recording_that_does_not_load_is_said_too(tmp_path, monkeypatch) -> None:
    def damaged(path, fields):
        fields["outputs"][0]["value"] = 999
        return path.write_text(json.dumps(fields))

    monkeypatch.setattr("pycandle.recording.recorder.write_manifest", damaged)
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(nn.Linear(3, 3).eval(), torch.randn(2, 3))
    (gap,) = recorder.save("damaged").gaps
    assert gap.reason.startswith("the recording does not load: ")
