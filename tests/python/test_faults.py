"""A part of `make faults`: two small models, each with a few faults of every kind that fits, and two as source."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.__main__ import Suite, summary
from faults.models import FAULTED, recorded

RUNNER = Path(__file__).parents[2] / "build/release/tests/fault_runner"


@pytest.mark.parametrize("name", ["convolutions", "pieces"])
def test_faults_are_found_with_layer_op_and_cause_and_nothing_clean_alarms(name: str, tmp_path) -> None:
    assert RUNNER.exists(), f"{RUNNER} is not built: make build-tests"
    (subject,) = [subject for subject in FAULTED if subject.name == name]
    manifest = recorded(subject, tmp_path)
    suite = Suite(RUNNER, per_kind=1, outside=3)
    faults, clean = suite.faults(manifest), suite.clean(manifest, ["reference"], seeds=3)
    assert len(clean) == 3
    check(faults, clean, least=12)


@pytest.mark.parametrize("name", ["convolutions", "meter"])
def test_faults_in_the_text_of_emitted_source_are_found_when_it_is_compiled(name: str, tmp_path) -> None:
    (subject,) = [subject for subject in FAULTED if subject.name == name]
    faults, clean = Suite(RUNNER, per_kind=1, outside=2).source_faults(recorded(subject, tmp_path), tmp_path)
    check(faults, clean, least=8)


def check(faults: list[dict], clean: list[dict], least: int) -> None:
    real = [fault for fault in faults if fault["result"] != "no effect"]
    listed = [fault for fault in real if fault["kind"]]
    said = summary(faults, clean)
    assert len(listed) >= least and clean, said
    assert all(fault["result"] == "found" and fault["layer"] for fault in real), said
    assert sum(fault["named_op"] for fault in real) >= 0.9 * len(real), said
    assert sum(fault["cause"] for fault in listed) >= 0.8 * len(listed), said
    assert not any(fault["invented"] for fault in real) and not any(run["wrong"] for run in clean), said
