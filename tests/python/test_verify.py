"""pycandle verify: what its files and verdicts say. Files are read here with json alone, not with what wrote them."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import GoldenRecorder, perturb

VERDICTS = {
    "exact",
    "within rounding",
    "within tolerance",
    "accumulated rounding",
    "reference unstable",
    "no evidence",
    "wrong upstream",
    "wrong here",
}


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.act, self.down = (
            nn.LayerNorm(16),
            nn.Linear(16, 24),
            nn.GELU(),
            nn.Linear(24, 16),
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + self.down(self.act(self.up(self.norm(x))))
        return y, y.argmax(-1)


def record(folder: Path) -> Path:
    torch.manual_seed(0)
    model = Small().eval()
    perturb(model, seed=1)
    recorder = GoldenRecorder(folder)
    recorder.record(model, torch.randn(3, 16))
    recorder.save("small")
    for size in (1, 5):
        recorder.add_goldens(f"batch{size}", torch.randn(size, 16))
    return folder / "small_manifest.json"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Path:
    return record(tmp_path_factory.mktemp("small"))


def changed(manifest: Path, folder: Path, op: str, argument: str, value: object) -> Path:
    """The recording with one argument of one op another."""
    document = json.loads(manifest.read_text())
    (node,) = [node for node in document["nodes"] if node["op"] == op]
    (found,) = [given for given in node["args"] if given[0] == argument]
    found[1] = value
    folder.mkdir()
    for file in manifest.parent.glob("*.safetensors"):
        (folder / file.name).symlink_to(file)
    (folder / manifest.name).write_text(json.dumps(document))
    return folder / manifest.name


def lines_of(path: Path) -> list[dict]:
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_result_file_has_a_line_for_each_layer_and_says_that_it_is_complete(manifest, tmp_path, pycandle):
    out = tmp_path / "result.jsonl"
    shown = pycandle.json("verify", manifest, "--out", out)
    first, *rest, last = lines_of(out)
    assert first["result"] == "pycandle.result" and first["version"] == "1.3.0" and first["name"] == "small"
    assert set(first["hashes"]) == {"manifest", "weights", "goldens", "library"}
    assert all(re.fullmatch("[0-9a-f]{32}", value) for value in first["hashes"].values())
    layers = [line["layer"] for line in rest if "layer" in line]
    assert [layer["tap"] for layer in layers] == [layer["tap"] for layer in shown["layers"]]
    assert {layer["verdict"] for layer in layers} <= VERDICTS
    complete = last["complete"]
    assert complete["layers"] == len(layers) and sum(complete["counts"].values()) == len(layers)
    assert complete["status"] == "passed"
    assert not list(tmp_path.glob("*.tmp"))


def test_every_layer_has_its_metrics_and_places_as_coordinates(manifest, tmp_path, pycandle):
    pycandle("verify", manifest, "--out", tmp_path / "r.jsonl")
    layers = [line["layer"] for line in lines_of(tmp_path / "r.jsonl") if "layer" in line]
    for layer in layers:
        elements = torch.Size(layer["shape"]).numel()
        assert 0 <= layer["cumulative"]["rms"] < 1e-3 and layer["cosine"] > 0.999
        if layer["dtype"] == "f32":
            assert sum(layer["ulps"]) == elements and len(layer["ulps"]) == 13
        if layer["differing"]:
            assert len(layer["first_difference"]) == len(layer["shape"])
            assert all(0 <= i < n for i, n in zip(layer["first_difference"], layer["shape"], strict=True))
        else:
            assert layer["first_difference"] is None


def test_argmax_is_reported_as_decisions_with_a_margin(manifest, pycandle):
    (row,) = [row for row in pycandle.json("verify", manifest)["layers"] if row["dtype"] == "i64"]
    assert "3 choices of argmax, all as PyTorch's; the closest is by" in row["decisions"]


def test_hashes_follow_what_was_verified(manifest, tmp_path, pycandle):
    other = changed(manifest, tmp_path / "other", "aten.gelu.default", "approximate", "tanh")
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.hpp").write_text("// emitted\n")
    pycandle("verify", manifest, "--out", tmp_path / "a.jsonl", "--source", source)
    pycandle("verify", other, "--out", tmp_path / "b.jsonl", status=1)
    a, b = (lines_of(tmp_path / name)[0]["hashes"] for name in ("a.jsonl", "b.jsonl"))
    assert a["manifest"] != b["manifest"] and a["weights"] == b["weights"] and a["library"] == b["library"]
    assert "source" in a and "source" not in b


def test_a_baseline_shows_what_became_worse_and_better(manifest, tmp_path, pycandle):
    other = changed(manifest, tmp_path / "other", "aten.layer_norm.default", "eps", {"float": 1e-2})
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    pycandle("verify", manifest, "--out", good)
    pycandle("verify", other, "--out", bad, status=1)
    same = pycandle.json("verify", manifest, "--baseline", good)["baseline"]
    assert same == {"regressed": False, "notes": [], "changes": []}
    worse = pycandle.json("verify", other, "--baseline", good, status=1)["baseline"]
    assert worse["regressed"] and "the manifest changed" in worse["notes"]
    assert worse["changes"][0]["change"] == "worse" and worse["changes"][0]["tap"].startswith("norm@0")
    better = pycandle.json("verify", manifest, "--baseline", bad)["baseline"]
    assert not better["regressed"] and {c["change"] for c in better["changes"]} == {"better"}
    assert "better norm@0" in pycandle("verify", manifest, "--baseline", bad).stdout


def test_a_result_that_is_cut_or_changed_is_no_baseline(manifest, tmp_path, pycandle):
    out = tmp_path / "r.jsonl"
    pycandle("verify", manifest, "--out", out)
    text = out.read_text()
    (tmp_path / "cut.jsonl").write_text("".join(text.splitlines(keepends=True)[:-1]))
    assert (
        "not complete" in pycandle("verify", manifest, "--baseline", tmp_path / "cut.jsonl", status=2).stderr
    )
    (tmp_path / "edited.jsonl").write_text(text.replace("within rounding", "exact", 1))
    message = pycandle("verify", manifest, "--baseline", tmp_path / "edited.jsonl", status=2).stderr
    assert "changed after it was written" in message


def test_a_run_that_is_killed_leaves_no_result(manifest, tmp_path, pycandle):
    out = tmp_path / "killed.jsonl"
    for delay in (0.0, 0.01, 0.03):
        process = subprocess.Popen(
            [pycandle.path, "verify", manifest, "--out", out], stdout=subprocess.DEVNULL
        )
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if out.exists():  # it was quicker
            assert "complete" in lines_of(out)[-1]
            out.unlink()


def test_tolerances_decide_when_they_are_given(manifest, tmp_path, pycandle):
    other = changed(manifest, tmp_path / "other", "aten.gelu.default", "approximate", "tanh")
    loose = pycandle.json("verify", other, "--atol", "1e-2")
    assert loose["status"] == "passed" and loose["counts"]["within_tolerance"] >= 1
    strict = pycandle.json("verify", manifest, "--rtol", "1e-12", status=1)
    wrong = [row for row in strict["layers"] if row["verdict"] == "wrong here"]
    assert wrong and all(row["judged"] == "tolerance" for row in wrong)


def test_a_wrong_layer_gets_its_op_and_cause(manifest, tmp_path, pycandle):
    other = changed(manifest, tmp_path / "other", "aten.gelu.default", "approximate", "tanh")
    result = pycandle.json("verify", other, status=1)
    (row,) = [row for row in result["layers"] if row["verdict"] == "wrong here"]
    assert row["diagnosis"]["op"] == "gelu" and row["diagnosis"]["cause_kind"] == "gelu form"
    assert row["diagnosis"]["cause"] == "looks like the tanh GELU where the model uses the erf GELU"
    said = pycandle("verify", other, status=1).stdout
    assert f"cause {row['diagnosis']['cause']}" in said and row["python"] in said
    assert f"next  pycandle verify {other} --repro" in said and "1 wrong" in said


def test_a_wrong_layer_has_a_folder_that_runs_in_torch_and_is_replayed(manifest, tmp_path, pycandle):
    other = changed(manifest, tmp_path / "other", "aten.gelu.default", "approximate", "tanh")
    (folder,) = pycandle.json("verify", other, "--repro", tmp_path / "repro", status=1)["repro"]
    assert {"repro.safetensors", "op.ptir", "debug_layer.py", "README.md", "difference.png"} == {
        path.name for path in Path(folder).iterdir()
    }
    tensors = load_file(Path(folder, "repro.safetensors"))
    (given,) = [tensor for name, tensor in tensors.items() if name.startswith("input:")]
    torch.testing.assert_close(tensors["expected"], torch.nn.functional.gelu(given))
    torch.testing.assert_close(tensors["got"], torch.nn.functional.gelu(given, approximate="tanh"))
    assert len(Path(folder, "README.md").read_text().splitlines()) == 3
    ran = subprocess.run(
        [sys.executable, Path(folder, "debug_layer.py")], capture_output=True, text=True, check=True
    )
    assert "torch now, got" in ran.stdout and "differences (the last axis across)" in ran.stdout
    helpers = runpy.run_path(str(Path(folder, "debug_layer.py")))
    x = torch.randn(3, 5, 6)  # channels and positions, without a batch
    mirrored = helpers["padded"](x, [0, 1, 2], [0, 2, 1], mode="reflect")
    assert torch.equal(mirrored, torch.nn.functional.pad(x, (2, 1, 1, 2), "reflect"))
    again = pycandle.json("replay", folder, status=1)
    assert again["status"] == "wrong" and again["op"] == "gelu"
    said = pycandle("replay", folder, status=1).stdout
    assert "still wrong" in said and "differences up to" in said and "|\n" in said
    pycandle("replay", folder, "--png", tmp_path / "now.png", status=1)
    for picture in (tmp_path / "now.png", Path(folder, "difference.png")):
        assert Image.open(picture).convert("RGB").size[0] > 1


def test_lockstep_gives_torchs_and_our_values_layer_by_layer(manifest):
    from pycandle import lockstep

    torch.manual_seed(0)
    model = Small().eval()
    perturb(model, seed=1)
    layers = list(lockstep(model, manifest))
    assert [layer.tap for layer in layers][:3] == ["norm@0/output", "up@0/output", "act@0/output"]
    assert all(layer.max_abs < 1e-5 and layer.torch.shape == layer.ours.shape for layer in layers)
    model.up.bias.data[3] += 1
    worst = next(layer for layer in lockstep(model, manifest, torch.randn(2, 16)) if layer.max_abs > 0.1)
    assert worst.tap == "up@0/output"


def test_several_inputs_are_verified_in_one_result(manifest, tmp_path, pycandle):
    out = tmp_path / "r.jsonl"
    result = pycandle.json("verify", manifest, "--inputs", manifest.parent, "--out", out)
    shapes = {(row["input"], row["shape"][0]) for row in result["layers"]}
    assert shapes == {("small", 3), ("batch1", 1), ("batch5", 5)} and result["status"] == "passed"
    assert {line["layer"]["input"] for line in lines_of(out) if "layer" in line} == {
        "small",
        "batch1",
        "batch5",
    }
    again = pycandle.json("verify", manifest, "--inputs", manifest.parent, "--baseline", out)
    assert again["baseline"]["changes"] == []
    assert "no goldens" in pycandle("verify", manifest, "--inputs", tmp_path / "none", status=2).stderr


def test_a_backend_is_verified_against_another_one_without_goldens(manifest, tmp_path, pycandle):
    document = json.loads(manifest.read_text())
    del document["files"]["trace"]
    (tmp_path / "small_weights.safetensors").symlink_to(manifest.parent / "small_weights.safetensors")
    (tmp_path / manifest.name).write_text(json.dumps(document))
    assert "no goldens" in pycandle("verify", tmp_path / manifest.name, status=2).stderr
    result = pycandle.json("verify", tmp_path / manifest.name, "--backend", "cpu", "--against", "reference")
    assert (result["status"], result["backend"], result["against"]) == ("passed", "cpu", "reference")
    assert {"norm@0/output", "up@0/output", "act@0/output", "down@0/output"} <= {
        row["tap"] for row in result["layers"]
    }
    said = pycandle("verify", manifest, "--against", "cpu", "--disable-pass", "recognise").stdout
    assert "reference against cpu" in said and "PyTorch" not in said


@pytest.fixture
def wide(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """A recording whose floors take long enough to be kept, and the folder that keeps them."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(4))).eval()
    recorder = GoldenRecorder(tmp_path / "wide")
    recorder.record(model, torch.randn(1, 64, 112, 112))
    recorder.save("wide")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "wide" / "wide_manifest.json", tmp_path / "cache" / "pycandle" / "floors"


def test_the_floor_of_a_model_that_takes_long_is_kept_and_judges_the_same(wide, pycandle):
    manifest, folder = wide
    before = set(manifest.parent.iterdir())
    first = pycandle.json("verify", manifest, "--backend", "cpu")
    (kept,) = folder.iterdir()
    assert set(manifest.parent.iterdir()) == before, "nothing beside the goldens decides verdicts"
    written = kept.stat().st_ino
    again = pycandle.json("verify", manifest, "--backend", "cpu")
    assert kept.stat().st_ino == written
    for a, b in zip(first["layers"], again["layers"], strict=True):
        assert a["verdict"] == b["verdict"] and b["floor_rms"] == pytest.approx(a["floor_rms"], rel=1e-5)
        assert b["error_rms"] == pytest.approx(a["error_rms"], rel=1e-5)
    # Goldens that are other ones have another floor.
    tensors = load_file(manifest.with_name("wide_trace.safetensors"))
    (key,) = [key for key in tensors if key.startswith("2@0")]
    save_file(tensors | {key: tensors[key] * 1.001}, manifest.with_name("wide_trace.safetensors"))
    rows = pycandle.json("verify", manifest, "--backend", "cpu", status=1)["layers"]
    assert next(row["tap"] for row in rows if row["verdict"] == "wrong here") == "2@0/output"


def cut(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:-100])


def without_any_rounding(kept: Path) -> None:
    with safe_open(kept, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(kept)
    none = {name: torch.zeros_like(t) for name, t in tensors.items() if name.endswith("/floor")}
    save_file(tensors | none, kept, metadata)


@pytest.mark.parametrize("damage", [cut, without_any_rounding])
def test_a_kept_floor_that_was_damaged_or_forged_is_computed_again(damage, wide, pycandle):
    manifest, folder = wide
    good = pycandle.json("verify", manifest, "--backend", "cpu")
    (kept,) = folder.iterdir()
    damage(kept)
    again = pycandle.json("verify", manifest, "--backend", "cpu")
    for a, b in zip(good["layers"], again["layers"], strict=True):
        assert a["verdict"] == b["verdict"] and b["floor_rms"] == pytest.approx(a["floor_rms"], rel=1e-5)
