"""The zoo itself, and at every commit a few of its models."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from pycandle import GoldenRecorder
from pycandle.recording.inputs import gather_inputs
from zoo import check, runner, sources, timm_models
from zoo.__main__ import PAGE
from zoo.check import _beyond_rounding
from zoo.entry import Entry, floats
from zoo.report import without_paths
from zoo.runner import Fingerprints, Limits, Results, remaining, run_all
from zoo.sampling import run_chosen, sample
from zoo.suite import rate

ROOT = Path(__file__).parents[2]
SAMPLE_SECONDS = 30  # of the rows' own time; they were measured beside another


@pytest.mark.parametrize(
    ("module", "table", "most", "flags"),
    [("zoo", "zoo.json", 5, ["--require", "1"]), ("zoo.zoo_emit", "zoo-emit.json", 2, ["--only-gcc"])],
)
def test_the_sample_of_this_commit_passes(tmp_path, module, table, most, flags) -> None:
    chosen = sample(table, most, SAMPLE_SECONDS, without="basics")
    assert chosen, f"docs/{table} has no quick model that passed"
    run_chosen(module, chosen, tmp_path, *flags)


SMALL = ("basics/gpt2", "basics/lstm", "timm/test_convnext", "torchaudio/MelSpectrogram")


def test_small_models_verify_on_the_cpu_backend_with_one_and_two_threads(tmp_path) -> None:
    rows = tmp_path / "rows.json"
    run_chosen("zoo", SMALL, tmp_path, "--backend", "cpu", "--threads", "1,2", "--json", str(rows))
    for row in json.loads(rows.read_text()):
        assert row["stages"] == {"record": "passed", "1 thread": "passed", "2 threads": "passed"}
    assert len(json.loads(rows.read_text())) == len(SMALL)


def test_the_zoo_has_what_it_promises() -> None:
    found = sources.entries()
    names = {source: {e.name for e in found if e.source == source} for source in sources.SOURCES}
    builders = {n for n in torchvision.models.list_models() if not n.startswith("quantized_")}
    assert names["torchvision"] == builders
    files = {timm.models._registry._model_to_module[name] for name in timm.list_models()}
    assert set(timm_models.MODELS) == files, "one model of each module file"
    kinds = {e.kind for e in found if e.source == "transformers"}
    assert {"decoder", "encoder", "encoder-decoder", "vision", "audio", "experts", "state space"} <= kinds
    assert len(names["transformers"]) >= 60 and len(names["torchaudio"]) >= 49


# ---- the check can fail ---------------------------------------------------------------------------------------


class Branching(nn.Module):
    """What torch.export bakes in and then gets wrong."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if float(x.sum()) > 0 else x * 3


class Constant(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0 + 1


class Sleeping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import time

        time.sleep(60)
        return x


class Dying(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGKILL)


def entry_of(model: type[nn.Module]) -> Entry:
    return Entry("basics", model.__name__, "test", model, floats(x=("batch", 6)), {"batch": 2})


def row_of(entry: Entry, limits: Limits | None = None) -> dict:
    rows: list[dict] = []
    run_all([entry], 1, limits or Limits(), rows.append, check.check)
    (row,) = rows
    return row


@pytest.mark.parametrize(
    "model, status, reason",
    [(Constant, "failed", "constant"), (Branching, "not exported", "export"), (Dying, "failed", "crash")],
)
def test_a_row_says_why_a_model_did_not_pass(model, status, reason) -> None:
    row = row_of(entry_of(model))
    assert (row["status"], row["reason"]) == (status, reason), row["detail"]


def test_a_model_that_takes_too_long_is_ended() -> None:
    row = row_of(entry_of(Sleeping), Limits(seconds=3))
    assert (row["status"], row["reason"]) == ("failed", "time") and row["seconds"] < 60


def test_a_wrong_result_is_a_failure(monkeypatch) -> None:
    forward = check.pc.Model.forward
    monkeypatch.setattr(
        check.pc.Model,
        "forward",
        lambda self, **k: {n: v * (1 + 3e-6) for n, v in forward(self, **k).items()},
    )
    row = row_of(
        Entry("basics", "linear", "test", lambda: nn.Linear(6, 4), floats(input=("batch", 6)), {"batch": 2})
    )
    assert (row["status"], row["reason"]) == ("failed", "disagrees")


def test_a_large_floor_does_not_hide_a_large_error() -> None:
    g = torch.Generator().manual_seed(0)
    exact = torch.randn(100, generator=g, dtype=torch.float64)
    theirs = -exact  # a decision that fell the other way in double precision
    assert _beyond_rounding(theirs + 1e-8, theirs, exact, exact, 2.0**-24) is None
    assert _beyond_rounding(theirs * 1.01, theirs, exact, exact, 2.0**-24) is not None


class Divergence(nn.Module):
    def forward(self, x, t):
        return F.kl_div(x, t, reduction="batchmean")


class DivergenceWrittenOut(nn.Module):
    def forward(self, x, t):
        return (torch.xlogy(t, t) - t * x).sum() / x.shape[0]


def test_rounding_inside_a_composite_operator_is_in_its_floor(tmp_path) -> None:
    """Torch computes kl_div by several operators, so its floor is that of the formula."""
    g = torch.Generator().manual_seed(0)
    t = torch.randn(5, 64, generator=g).softmax(-1)
    x = t.log() + 0.01 * torch.randn(5, 64, generator=g)  # the terms cancel: their rounding is what is left
    floors = []
    for model in (Divergence(), DivergenceWrittenOut()):
        recorder = GoldenRecorder(tmp_path / type(model).__name__)
        recorder.record(model, x, t)
        judge = check._Judge(recorder.program, gather_inputs(inspect.signature(model.forward), (x, t), {}))
        floors.append(check._rms(torch.stack([draw[0] for draw in judge.moved(200)]) - judge.exact[0]))
    assert floors[0] == pytest.approx(floors[1], rel=0.25)


# ---- running again --------------------------------------------------------------------------------------------


def test_only_failures_and_rows_of_other_sources_are_run_again(tmp_path) -> None:
    program = tmp_path / "program"
    program.write_text("one")
    entries = [entry_of(model) for model in (Constant, Branching, Sleeping, Dying)]
    results, prints = Results(tmp_path), Fingerprints(program)
    for entry, status in zip(entries, ("passed", "failed", "not exported"), strict=False):
        results.add({"key": entry.key, "status": status, "fingerprint": prints.of(entry)})
    kept = Results(tmp_path)
    assert [e.name for e in remaining(entries, kept, prints, keep=False)] == ["Branching", "Dying"]
    program.write_text("two")
    changed = Fingerprints(program)
    assert len(remaining(entries, kept, changed, keep=False)) == 4
    assert [e.name for e in remaining(entries, kept, changed, keep=True)] == ["Branching", "Dying"]


def test_what_torch_does_not_export_counts_apart() -> None:
    rows = [
        {"key": f"timm/{n}", "source": "timm", "kind": "", "note": "", "status": status, "reason": "r", "detail": "a|b",
         "seconds": 1.0, "peak_mb": 1, "commit": "c"}
        for n, status in enumerate(["passed", "passed", "passed", "failed", "not exported"])
    ]  # fmt: skip
    assert rate(Counter(row["status"] for row in rows)) == 0.75
    text = PAGE.markdown(rows, ["timm/late"])
    assert "Not run yet (1): timm/late." in text
    assert "| timm | 5 | 1 | 3 | 1 | 75.0 % |" in text and "a\\|b" in text


def test_the_table_names_no_place_of_this_machine() -> None:
    text = f'File "{ROOT}/.venv/lib/python3.11/site-packages/timm/models/vit.py", line 3; {ROOT}/tests/zoo/check.py'
    assert without_paths(text) == 'File "timm/models/vit.py", line 3; tests/zoo/check.py'
    assert without_paths("at /somewhere/lib/python3.11/copy.py:128") == "at copy.py:128"


def test_every_file_of_the_zoo_is_in_its_map() -> None:
    described = inspect.getdoc(sys.modules["zoo"]) or ""
    for name in (
        "entry.py",
        "check.py",
        "runner.py",
        "report.py",
        "recordings.py",
        "on_backend.py",
        "zoo_emit.py",
        "emit.py",
        "reading.py",
        "suite.py",
        "sampling.py",
    ):
        assert name in described
    assert runner.STATE.parent.name == "build"
