"""Agreement that proves nothing is said, and the recorder adds inputs that prove something. docs/evidence.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from pycandle import GoldenRecorder
from pycandle.recording.checking import evidence


class Layers(nn.Module):
    """fc, then `between`, then out: `between` is what hides."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor], features: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.out, self.between = nn.Linear(8, 8), nn.Linear(8, features), between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.between(self.fc(x)))


def drowned(h: torch.Tensor) -> torch.Tensor:
    return (F.gelu(h) + 1e8) - 1e8


def absorbed(h: torch.Tensor) -> torch.Tensor:
    return (F.gelu(h) * 64 + 1e8) - 1e8


def record(folder: Path, model: nn.Module, *inputs: torch.Tensor, **options) -> Path:
    recorder = GoldenRecorder(folder, dynamic=False, **options)
    recorder.record(model.eval(), *inputs)
    return recorder.save("model").manifest


def without_other_inputs(manifest: Path) -> Path:
    """As an older recording: the recorded inputs alone."""
    document = json.loads(manifest.read_text())
    del document["files"]["perturbed_traces"]
    manifest.write_text(json.dumps(document))
    return manifest


def rows(found: dict) -> dict[str, dict]:
    return {row["tap"]: row for row in found["layers"] if "input" not in row}


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


HIDDEN = {
    "all zero": (lambda h: F.relu(h - 100), normal(2, 8), "all of its 16 elements are 0"),
    "all NaN": (lambda h: (h - 100).log(), normal(2, 8), "all of its 16 elements are NaN"),
    "constant": (lambda h: (h - 100).clamp(min=0.5), normal(2, 8), "all of its 16 elements are 0.5"),
    "saturated": (lambda h: (h * 1e6).sigmoid(), normal(2, 8), "0 or 1, though its inputs have more numbers"),
    "rounding": (absorbed, normal(2, 8), "rounding alone moves this value by"),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("kind", HIDDEN)
def test_a_value_that_a_wrong_layer_would_give_as_well_has_a_verdict_of_its_own(
    kind, backend, tmp_path, pycandle
):
    between, x, why = HIDDEN[kind]
    manifest = record(tmp_path, Layers(between), x)
    if "perturbed_traces" in json.loads(manifest.read_text())["files"]:
        without_other_inputs(manifest)
    found = pycandle.json("verify", manifest, "--backend", backend, status=None)
    row = rows(found)["out@0/input.input"]
    assert row["verdict"] == "no evidence" and why in row["why"]
    assert rows(found)["fc@0/output"]["verdict"] in ("exact", "within rounding")
    assert found["counts"]["no_evidence"] >= 1 and found["counts"]["wrong_here"] == 0


def test_relu_for_gelu_before_a_sum_that_absorbs_both_is_no_longer_exact(tmp_path, pycandle):
    right = record(tmp_path / "right", Layers(drowned), normal(2, 8))
    wrong = record(tmp_path / "wrong", Layers(lambda h: (F.relu(h) + 1e8) - 1e8), normal(2, 8))
    trace = right.with_name("model_trace.safetensors")
    said = pycandle("verify", wrong, "--trace", trace, status=1).stdout
    assert "0 wrong" in said and "no evidence" in said
    assert "not verified: no output has evidence" in said
    assert "recorder.add_goldens" in said, "what to do"
    assert pycandle.json("verify", wrong, "--trace", trace, status=1)["status"] == "no evidence"


def test_an_output_with_evidence_is_enough_to_verify(tmp_path, pycandle):
    class Two(Layers):
        def forward(self, x):
            h = self.fc(x)
            return F.relu(h - 100), self.out(h)

    found = pycandle.json("verify", record(tmp_path, Two(F.relu), normal(2, 8)))
    assert found["status"] == "passed" and found["counts"]["no_evidence"] == 1


def test_the_result_file_and_a_baseline_know_the_verdict(tmp_path, pycandle):
    manifest, file = record(tmp_path, Layers(HIDDEN["all zero"][0]), normal(2, 8)), tmp_path / "result.jsonl"
    pycandle("verify", manifest, "--out", file, status=1)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[-1]["complete"]["status"] == "no evidence"
    verdicts = {line["layer"]["tap"]: line["layer"]["verdict"] for line in lines if "layer" in line}
    assert verdicts["out@0/input.input"] == "no evidence"
    assert "as the baseline" in pycandle("verify", manifest, "--baseline", file, status=1).stdout


@pytest.mark.parametrize(
    ("between", "x"),
    [
        (lambda h: F.relu(h - 3), normal(2, 8) / 16),
        (lambda h: (h * 100).sigmoid(), normal(2, 8) * 64),
        (lambda h: h.softmax(-1), normal(2, 8) * 1e4),
        (lambda h: h, torch.zeros(2, 8)),
        (lambda h: h, torch.full((2, 8), 3.0)),
    ],
    ids=["a dead ReLU", "a saturated sigmoid", "a saturated softmax", "zeros", "constant"],
)
def test_the_recorder_adds_inputs_until_every_layer_has_evidence(between, x, tmp_path, pycandle):
    model = Layers(between, features=1)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    manifest = record(tmp_path, model, x)
    names = json.loads(manifest.read_text())["files"].get("perturbed_traces", [])
    found = pycandle.json("verify", manifest)
    assert found["status"] == "passed" and found["counts"]["no_evidence"] == 0
    assert names == [] or {row.get("input") for row in found["layers"]} >= {None, "perturbed inputs 1"}
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    stored = load_file(tmp_path / "model_trace.safetensors")["input:x"]
    assert torch.equal(stored, x), "the recorded inputs stay as they were"


def test_a_fault_that_the_recorded_inputs_hide_is_found_at_the_added_ones(tmp_path, pycandle):
    right = record(tmp_path / "right", Layers(lambda h: F.relu(h - 3)), normal(2, 8) / 16)
    wrong = record(tmp_path / "wrong", Layers(lambda h: F.relu(h - 3.5)), normal(2, 8) / 16)
    for trace in right.parent.glob("*_trace.safetensors"):
        (wrong.parent / trace.name).write_bytes(trace.read_bytes())
    hidden = pycandle("verify", wrong, "--trace", wrong.with_name("model_trace.safetensors"), status=1).stdout
    assert "no evidence" in hidden
    found = pycandle.json("verify", wrong, status=1)
    assert found["status"] == "wrong"
    assert {row["input"] for row in found["layers"] if row["verdict"] == "wrong here"} == {
        "perturbed inputs 1"
    }


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.inner = nn.Embedding(16, 8), Scores()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.inner(self.embed(ids), (1.0 - mask[:, None, :].float()) * torch.finfo(torch.float32).min)


class Scores(nn.Module):
    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (x @ x.transpose(-1, -2) + bias).softmax(-1) @ x


def test_a_mask_that_hides_nothing_is_recorded_with_one_that_does(tmp_path, pycandle):
    ids = torch.randint(0, 16, (2, 6), generator=torch.Generator().manual_seed(0))
    manifest = record(tmp_path, Masked(), ids, torch.ones(2, 6, dtype=torch.long))
    added = load_file(tmp_path / "model_perturbed1_trace.safetensors")
    assert added["input:mask"].tolist() == [[1, 1, 1, 1, 0, 0]] * 2
    assert set(added["input:ids"].flatten().tolist()) <= set(ids.flatten().tolist()), "within their range"
    assert pycandle.json("verify", manifest)["counts"]["no_evidence"] == 0


class Healthy(nn.Module):
    """What is constant by its nature: a table, zeros of a shape, integers, bools, one number, dropout."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.drop, self.show = nn.Linear(8, 8), nn.Dropout(0.5), nn.Identity()
        self.register_buffer("table", torch.ones(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = self.drop(F.relu(self.fc(x)))
        table = self.show(self.table * 2) + self.show(torch.zeros_like(x[0]))
        return h + table, (h < -1), h.argmax(-1) * 0, h.mean()


def test_a_healthy_model_is_recorded_once_and_has_evidence_of_every_layer(tmp_path, pycandle):
    manifest = record(tmp_path, Healthy(), normal(2, 8), taps="all")
    assert "perturbed_traces" not in json.loads(manifest.read_text())["files"]
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "model_trace.safetensors",
        "model_weights.safetensors",
    ]
    assert pycandle.json("verify", manifest)["counts"]["no_evidence"] == 0


def test_other_inputs_stay_within_the_budget_of_goldens(tmp_path, pycandle):
    x = normal(2, 8) / 16
    manifest = record(tmp_path, Layers(lambda h: F.relu(h - 3)), x, golden_budget=2 * 8 * 4)
    kept = load_file(tmp_path / "model_trace.safetensors")
    taps = [name for name in kept if not name.startswith(("input:", "output:"))]
    assert len(taps) == 1
    for path in tmp_path.glob("*perturbed*"):
        more = load_file(path)
        assert not [name for name in more if not name.startswith(("input:", "output:"))]
    assert pycandle.json("verify", manifest)["counts"]["wrong_here"] == 0


def test_saving_again_leaves_no_other_inputs_of_an_older_recording(tmp_path):
    record(tmp_path, Layers(lambda h: h), torch.zeros(2, 8))
    assert list(tmp_path.glob("*perturbed*"))
    record(tmp_path, Layers(lambda h: h), normal(2, 8))
    assert not list(tmp_path.glob("*perturbed*"))


@pytest.mark.parametrize(
    ("tensor", "is_limited", "expected"),
    [
        (torch.zeros(3), False, True),
        (torch.tensor(0.0), False, True),
        (torch.tensor(0.5), False, False),
        (torch.full((2,), 0.5), False, True),
        (torch.full((4,), torch.nan), False, True),
        (torch.tensor([torch.nan, 1.0, 2.0]), False, False),
        (torch.tensor([0.0, 1.0, 1.0]), True, True),
        (torch.tensor([0.0, 1.0, 1.0]), False, False),
        (torch.tensor([0.0, 0.3, 0.3]), True, False),
        (torch.zeros(3, dtype=torch.long), False, False),
        (torch.zeros(3, dtype=torch.bool), False, False),
        (torch.zeros(0), False, True),
        (torch.zeros(2, dtype=torch.complex64), False, True),
        (torch.tensor([1 + 2j, 3j]), False, False),
    ],
)
def test_the_recorder_knows_a_value_that_proves_nothing(tensor, is_limited, expected):
    assert evidence.proves_nothing(tensor, is_limited) is expected
