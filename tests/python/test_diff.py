"""`pycandle diff`: two recordings, two results, two profiles."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from report_models import edited, recorded, with_tanh_gelu
from safetensors.torch import load_file, save_file


@pytest.fixture
def before(good) -> Path:
    return good


def copy_with(before: Path, folder: Path, pattern: str, change) -> Path:
    """A copy of the recording with other tensors in one of its files."""
    shutil.copytree(before.parent, folder)
    (file,) = folder.glob(pattern)
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return folder


def test_a_recording_and_itself_are_the_same(before, pycandle) -> None:
    found = pycandle.json("diff", before, before)
    assert found["same"] and found["modules"] == [] and found["weights"]["changed"] == []
    assert found["weights"]["equal"] == 20 and found["values"]["equal"] > 10
    assert "the same" in pycandle("diff", before, before).stdout


def test_another_op_is_named_with_its_module_and_both_forms(before, pycandle, tmp_path) -> None:
    after = edited(before, tmp_path / "after", with_tanh_gelu)
    found = pycandle.json("diff", before, after, status=1)
    (module,) = found["modules"]
    assert module["path"] == "blocks.1.act@0" and module["change"] == "changed"
    assert 'approximate="none"' in module["first"][0] and 'approximate="tanh"' in module["second"][0]
    assert "gelu" in found["structure"]
    said = pycandle("diff", before, after, status=1).stdout
    assert "- gelu(" in said and "+ gelu(" in said and "1 module differs" in said
    assert said.startswith(f"{before} and {after}: they differ"), "two of one name"


def test_another_depth_shows_the_modules_that_only_one_has(before, pycandle, tmp_path) -> None:
    found = pycandle.json("diff", before, recorded(tmp_path / "deep", depth=4), status=1)
    only = [module["path"] for module in found["modules"] if module["change"] == "only in the second"]
    assert "blocks.3@0" in only and "blocks.3.act@0" in only
    assert {t["name"] for t in found["weights"]["changed"] if t["what"] == "only in the second"} >= {
        "blocks.3.up.weight"
    }


def test_other_weights_and_values_are_measured(before, pycandle, tmp_path) -> None:
    def train(tensors: dict) -> None:
        tensors["head.bias"] += 0.5

    trained = copy_with(before, tmp_path / "trained", "*_weights.safetensors", train)
    found = pycandle.json("diff", before, trained, status=1)
    (weight,) = found["weights"]["changed"]
    assert (
        weight["name"] == "head.bias" and weight["largest"] == pytest.approx(0.5) and weight["differing"] == 8
    )
    assert found["modules"] == [] and found["structure"] == "" and found["values"]["changed"] == []

    (trace,) = before.parent.glob("*_trace.safetensors")
    (key,) = [key for key in load_file(trace) if "blocks.1.up@0/output" in key]

    def disturb(tensors: dict) -> None:
        tensors[key] *= 1.5

    other = copy_with(before, tmp_path / "other", "*_trace.safetensors", disturb)
    (value,) = pycandle.json("diff", before, other, status=1)["values"]["changed"]
    assert value["name"] == "blocks.1.up@0/output" and value["relative"] == pytest.approx(0.5, rel=1e-3)


def test_speed_is_measured_in_turns_when_asked(before, pycandle) -> None:
    found = pycandle.json("diff", before, before, "--speed")["speed"]
    assert found["first_ms"] > 0 and 0.1 < found["second_ms"] / found["first_ms"] < 10
    assert "times the first" in pycandle("diff", before, before, "--speed").stdout


def test_results_and_profiles_are_compared_and_kinds_are_not_mixed(before, pycandle, tmp_path) -> None:
    after = edited(before, tmp_path / "after", with_tanh_gelu)
    pycandle("verify", before, "--out", tmp_path / "a.jsonl")
    pycandle("verify", after, "--out", tmp_path / "b.jsonl", status=1)
    found = pycandle.json("diff", tmp_path / "a.jsonl", tmp_path / "b.jsonl", status=1)
    worse = [change["tap"] for change in found["changes"] if change["change"] == "worse"]
    assert "blocks.1.act@0/output" in worse
    assert pycandle.json("diff", tmp_path / "a.jsonl", tmp_path / "a.jsonl")["same"]
    (tmp_path / "p.json").write_text(pycandle("forward", before, "--profile", "--json").stdout)
    profiles = pycandle.json("diff", tmp_path / "p.json", tmp_path / "p.json")
    assert profiles["first_ms"] == profiles["second_ms"] and profiles["kernels"]
    assert "by layer" in pycandle("diff", tmp_path / "p.json", tmp_path / "p.json").stdout
    mixed = pycandle("diff", before, tmp_path / "a.jsonl", status=2).stderr
    assert "not of one kind" in mixed and "a recording and a result" in mixed
    assert "there is no file" in pycandle("diff", before, tmp_path / "none", status=2).stderr


def test_a_profile_that_is_none_is_one_error(pycandle, tmp_path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"profile": {"ms": "soon"}}))
    assert "profile" in pycandle("diff", tmp_path / "p.json", tmp_path / "p.json", status=2).stderr


def test_bundles_are_compared_with_each_other_and_with_recordings(before, pycandle, tmp_path) -> None:
    after = edited(before, tmp_path / "after", with_tanh_gelu)
    bundles = {}
    for name, model, options in (
        ("a", before, ["--single-file"]),
        ("b", after, []),
        ("c", before, ["--weights", "int8"]),
    ):
        bundles[name] = tmp_path / f"{name}.pycandle"
        pycandle("bundle", model, "--out", bundles[name], *options)
    assert pycandle.json("diff", before, bundles["a"])["same"]
    found = pycandle.json("diff", bundles["a"], bundles["b"], status=1)
    assert [module["path"] for module in found["modules"]] == ["blocks.1.act@0"]
    assert found["weights"] == {"equal": 20, "changed": []}
    rounded = pycandle.json("diff", bundles["a"], bundles["c"], status=1)
    assert {"what": "weights", "first": "f32", "second": "int8"} in rounded["facts"]
    assert not rounded["modules"] and 0 < rounded["weights"]["changed"][0]["relative"] < 0.02
