"""A few of the models in tests/people, others at each commit, and that the suite is what it says."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from zoo.runner import Limits, run_all
from zoo.sampling import run_chosen, sample

from people import THEMES
from people.__main__ import PAGE, entries
from people.check import PeopleCheck
from people.entry import AXES, entry


@pytest.mark.parametrize(("most", "seconds", "flags"), [(4, 16, ["--no-source"]), (1, 8, [])])
def test_the_sample_of_this_commit_passes(tmp_path, most, seconds, flags) -> None:
    chosen = sample("people.json", most, seconds, cost="cpu_seconds")
    assert chosen, "docs/people.json has no quick model that passed"
    run_chosen("people", chosen, tmp_path, *flags)


def test_the_suite_has_what_it_promises() -> None:
    found = entries()
    assert len(found) >= 100
    assert {e.source for e in found} == set(THEMES)
    described = inspect.getdoc(sys.modules["people"]) or ""
    for file in Path(__file__).parent.glob("*.py"):
        assert file.stem in (*THEMES, "__init__", "__main__", "test_people") or file.name in described


# ---- the check can fail ---------------------------------------------------------------------------------------


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0


class Deaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.arange(6.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w + 0 * x.sum()


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3, 6).sum(0)


def row_of(made, monkeypatch=None) -> dict:
    rows: list[dict] = []
    run_all([made], 1, Limits(), rows.append, PeopleCheck(None))
    (row,) = rows
    return row


@pytest.mark.parametrize(("model", "reason"), [(Deaf, "constant"), (Square, "fixed")])
def test_a_row_says_why_a_model_did_not_pass(model, reason) -> None:
    row = row_of(entry("m", model, "x=f32[batch,6]", dynamic=AXES, batch=6))
    assert (row["status"], row["reason"]) == ("failed", reason), row["detail"]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_wrong_result_on_either_backend_is_a_failure(monkeypatch, backend) -> None:
    import pycandle as pc

    forward = pc.Model.forward

    def wrong(self, *args, **kwargs):
        factor = 1 + 3e-6 if self.backend == backend else 1
        return {name: value * factor for name, value in forward(self, *args, **kwargs).items()}

    monkeypatch.setattr(pc.Model, "forward", wrong)
    row = row_of(entry("m", Scaled, "x=f32[batch,6]", batch=2))
    assert (row["reason"], row["stage"]) == ("disagrees", backend), row


def test_sizes_have_names_in_the_text_of_inputs() -> None:
    made = entry("m", Scaled, "x=f32[batch,6] ids=i64[batch,seq]<5", dynamic=AXES, batch=2, seq=(3, 1, 2, 4))
    assert made.dynamic == {"x": {0: "batch"}, "ids": {0: "batch", 1: "seq"}}
    found = made.inputs(made.further_sizes({"batch", "seq"}, {})[2], torch.Generator().manual_seed(0))
    assert found["x"].shape == (4, 6) and found["ids"].shape == (4, 4) and found["ids"].max() < 5


def test_the_table_lists_what_failed_with_its_reason() -> None:
    row = {"key": "calls/m", "source": "calls", "status": "failed", "reason": "wrong", "detail": "a|b", "stage": "cpu",
           "stages": {"record": "passed", "cpu": "failed"}, "cpu_seconds": 1.0, "commit": "c", "note": ""}  # fmt: skip
    text = PAGE.markdown([row], ["calls/late"])
    assert "| calls/m | cpu | wrong | a\\|b |" in text and "Not run yet (1): calls/late." in text
