"""examples/ci.sh, the recipe of docs/ci.md: what a job ends with, and what it leaves for the reviewer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from report_models import data_of

RECIPE = Path(__file__).resolve().parents[2] / "examples" / "ci.sh"
FILES = {"result.jsonl", "report.html", "summary.md", "badge.svg"}


@pytest.fixture
def run(pycandle, tmp_path):
    def job(recording: Path, baseline: Path, out: Path) -> subprocess.CompletedProcess:
        environment = {
            **os.environ,
            "PATH": f"{pycandle.path.parent}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
        }
        return subprocess.run(
            ["bash", RECIPE, recording, baseline, out], env=environment, capture_output=True, text=True
        )

    return job


def test_a_change_that_breaks_nothing_passes_and_its_result_is_the_next_baseline(good, run, tmp_path) -> None:
    first = run(good, tmp_path / "none.jsonl", tmp_path / "first")
    assert first.returncode == 0, first.stderr
    second = run(good, tmp_path / "first" / "result.jsonl", tmp_path / "second")
    assert second.returncode == 0, second.stderr
    assert {path.name for path in (tmp_path / "second").iterdir()} == FILES
    assert "As the baseline" in (tmp_path / "second" / "summary.md").read_text()


def test_a_change_that_breaks_a_layer_fails_and_says_where(good, broken, run, tmp_path) -> None:
    run(good, tmp_path / "none.jsonl", tmp_path / "base")
    job = run(broken, tmp_path / "base" / "result.jsonl", tmp_path / "out")
    assert job.returncode == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "blocks.1.act@0/output" in summary and "GELU" in summary and "| worse |" in summary
    assert (tmp_path / "step.md").read_text().endswith(summary)
    assert data_of((tmp_path / "out" / "report.html").read_text())["summary"]["status"] == "wrong"
    assert "1 wrong" in (tmp_path / "out" / "badge.svg").read_text()


def test_bad_input_is_no_verdict(good, run, tmp_path) -> None:
    assert run(tmp_path / "none", tmp_path / "none.jsonl", tmp_path / "out").returncode == 2
    (tmp_path / "cut.jsonl").write_text("{}")
    assert run(good, tmp_path / "cut.jsonl", tmp_path / "out").returncode == 2
