"""Models that draw random numbers: what is judged, what is not, and that both are said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pycandle import GoldenRecorder

BACKENDS = ("reference", "cpu")


class Model(nn.Module):
    def __init__(self, call) -> None:
        super().__init__()
        self.call, self.lin = call, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self, x)


def record(folder: Path, call) -> tuple[Path, list[str]]:
    torch.manual_seed(0)
    recorder = GoldenRecorder(folder, dynamic={})
    recorder.record(Model(call).eval(), torch.randn(2, 4))
    recorder.save("model")
    return folder / "model_manifest.json", recorder.manifest["notes"]


ONLY_DRAWN = {
    "multinomial": lambda m, x: torch.multinomial(torch.ones(3, 5), 2),
    "rand": lambda m, x: torch.rand(2, 4),
    "randn_like": lambda m, x: torch.randn_like(x),
    "randint": lambda m, x: torch.randint(0, 9, (3,)),
    "randperm": lambda m, x: torch.randperm(5),
    "normal": lambda m, x: torch.normal(x, 1.0),
    "rrelu": lambda m, x: F.rrelu(x, training=True),
    "exponential": lambda m, x: torch.empty_like(x).exponential_(),
    "uniform": lambda m, x: torch.empty_like(x).uniform_(),
    "random": lambda m, x: torch.empty_like(x).random_(5),
    "random from": lambda m, x: torch.empty_like(x).random_(2, 5),
}


@pytest.mark.parametrize("name", ONLY_DRAWN)
def test_a_model_that_only_draws_has_nothing_to_judge_and_says_so(name: str, tmp_path, pycandle) -> None:
    manifest, notes = record(tmp_path, ONLY_DRAWN[name])
    assert any(note.startswith("random: ") and "test_verify_random.py" in note for note in notes)
    for backend in BACKENDS:
        result = pycandle.json("verify", manifest, "--backend", backend)
        judged = [row for row in result["layers"] if row["op"] != "constant"]
        assert result["status"] == "passed" and not judged, result
        assert any("drawn at random at" in tap["why"] for tap in result["skipped"])
        assert result["outputs"] == []  # two draws differ, which says nothing
    if not result["layers"]:
        assert "nothing was judged: every value of the recording is drawn at random" in (
            pycandle("verify", manifest).stdout
        )


AFTER_A_DRAW = {
    "dropout": lambda m, x: F.dropout(m.lin(x)),
    "dropout of the input": lambda m, x: F.dropout(x),
    "dropout between": lambda m, x: m.lin(F.dropout(m.lin(x))),
    "alpha_dropout": lambda m, x: F.alpha_dropout(m.lin(x), training=True),
    "dropout1d": lambda m, x: F.dropout1d(m.lin(x), 0.1),  # half of so few channels may be none
    "feature_alpha_dropout": lambda m, x: F.feature_alpha_dropout(m.lin(x), training=True),
    "gumbel_softmax": lambda m, x: F.gumbel_softmax(m.lin(x)),
    "hard gumbel_softmax": lambda m, x: F.gumbel_softmax(m.lin(x), hard=True),
    "noise": lambda m, x: m.lin(x) + torch.randn_like(x),
}


@pytest.mark.parametrize("name", AFTER_A_DRAW)
def test_what_follows_a_draw_is_judged_from_the_drawn_values(name: str, tmp_path, pycandle) -> None:
    manifest, notes = record(tmp_path, AFTER_A_DRAW[name])
    assert any(note.startswith("random: ") for note in notes)
    for backend in BACKENDS:
        result = pycandle.json("verify", manifest, "--backend", backend)
        assert result["status"] == "passed" and {row["tap"] for row in result["layers"]} & {
            "@0/output",
            "lin@1/output",
        }
        assert {row["verdict"] for row in result["layers"]} <= {"exact", "within rounding"}
        assert all(row["cumulative"]["max_abs"] < 1e-5 for row in result["layers"] if row["cumulative"])
        assert [output["max_abs"] < 1e-5 for output in result["outputs"]] == [True]


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: torch.multinomial(torch.softmax(m.lin(x), -1), 2),
        lambda m, x: torch.bernoulli(torch.sigmoid(m.lin(x))),
        lambda m, x: torch.normal(m.lin(x).tanh(), x.exp()),
    ],
)
def test_what_numbers_are_drawn_by_is_judged(call, tmp_path, pycandle) -> None:
    manifest, _ = record(tmp_path, call)
    rows = pycandle.json("verify", manifest)["layers"]
    assert {row["op"] for row in rows} & {"softmax", "sigmoid", "tanh", "exp"}, rows


def test_a_model_that_returns_its_input_has_nothing_to_judge(tmp_path, pycandle) -> None:
    manifest, _ = record(tmp_path, lambda m, x: x)
    said = pycandle("verify", manifest).stdout
    assert "nothing was judged: every output is an input or a parameter as it is" in said
