"""`python -m pycandle.recording.cli`: scripts, factories, options, exit codes, determinism."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recording_checks import load_checked, read_tensors
from safetensors.torch import save_file

from pycandle import perturb
from pycandle.recording import cli as record_cli

MODELS = """
import torch
from torch import nn

class Small(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.norm = nn.LayerNorm(width)
        self.tags = {"b", "a", "c", "zeta", "y"}  # a set: its order depends on the hash seed

    def forward(self, ids, mask=None):
        x = self.norm(self.embed(ids))
        for tag in self.tags:
            x = x + len(tag)
        return x if mask is None else x * mask[..., None]

class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x

def not_a_model():
    return 3
"""

SCRIPT = """
import torch
from spy import GoldenRecorder
from small_models import Small

torch.manual_seed(0)
model = Small()
model.eval()
recorder = GoldenRecorder(output_dir="../traces")
recorder.record(model, torch.randint(0, 20, (1, 6)))
recorder.save("my_model")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project: a module with models and a recording script, as the current folder."""
    (tmp_path / "small_models.py").write_text(MODELS)
    scripts = tmp_path / ".pycandle" / "scripts"
    scripts.mkdir(parents=True)
    (scripts / "recorder.py").write_text(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{SCRIPT}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("small_models", None)
    sys.modules.pop("spy", None)


def run(*arguments) -> int:
    return record_cli.main([str(argument) for argument in arguments])


def small(*more) -> tuple:
    return ("--model", "small_models:Small", "--input", "ids=i64[2,6]<20", "--out", "out", *more)


# ---- factories ------------------------------------------------------------------------------------------------


def test_a_factory_with_inputs_is_recorded(folder, capsys):
    assert run(*small("--kwargs", '{"width": 8}', "--name", "tiny")) == 0
    manifest, goldens = load_checked(folder / "out" / "tiny_manifest.json")
    assert manifest["outputs"][0]["shape"] == ["s0", "s1", 8]
    assert goldens["input:ids"].min() >= 0 and goldens["input:ids"].max() < 20
    printed = capsys.readouterr().out
    assert "tiny ·" in printed and "axis 1 of ids" in printed and "tiny_weights.safetensors" in printed


def test_json_result(folder, capsys):
    assert run(*small("--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "ok"
    (recording,) = result["recordings"]
    assert recording["name"] == "Small" and recording["soundness"] == "verified"
    assert Path(recording["manifest"]).exists()


def test_the_seed_decides_weights_and_inputs(folder, capsys):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(*small("--name", name, "--seed", seed, "--quiet")) == 0
    assert capsys.readouterr().out == ""
    a, b, c = (read_tensors(folder / "out" / f"{name}_trace.safetensors") for name in "abc")
    assert torch.equal(a["output:output"], b["output:output"])
    assert not torch.equal(a["output:output"], c["output:output"])


def test_inputs_from_a_file_and_open_axes(folder):
    save_file({"ids": torch.tensor([[1, 2, 3]]), "mask": torch.ones(1, 3)}, "inputs.safetensors")
    arguments = ("--model", "small_models:Small", "--inputs", "inputs.safetensors", "--out", "out")
    assert run(*arguments, "--dynamic", "ids=0:batch,1:seq", "--dynamic", "mask=0:batch,1:seq") == 0
    manifest, goldens = load_checked(folder / "out" / "Small_manifest.json")
    assert [entry["shape"] for entry in manifest["inputs"]] == [["s0", "s1"], ["s0", "s1"]]
    assert goldens["input:ids"].tolist() == [[1, 2, 3]]


def test_perturb_moves_every_parameter(folder):
    assert run(*small("--perturb", "--dynamic", "none", "--taps", "none", "--no-source")) == 0
    manifest, _ = load_checked(folder / "out" / "Small_manifest.json")
    assert manifest["model"]["perturbed"] is True and manifest["symbols"] == []
    weights = read_tensors(folder / "out" / "Small_weights.safetensors")
    assert (weights["norm.weight"] != 1).all() and (weights["norm.bias"] != 0).all()


def test_perturb_keeps_variances_positive_and_ties():
    norm = torch.nn.BatchNorm1d(500)
    before = norm.num_batches_tracked.clone()
    perturb(norm, seed=3, amount=2.0)
    assert (norm.running_var > 0).all() and (norm.running_var != 1).any() and (norm.running_mean != 0).all()
    assert torch.equal(norm.num_batches_tracked, before)


def test_a_meta_model_from_the_command_line(folder):
    assert run(*small("--meta")) == 0
    manifest, _ = load_checked(folder / "out" / "Small_manifest.json")
    assert manifest["soundness"]["status"] == "shapes-only"


# ---- scripts --------------------------------------------------------------------------------------------------


def test_bare_record_runs_the_projects_script(folder):
    assert run() == 0
    assert (folder / ".pycandle" / "traces" / "my_model_manifest.json").exists(), (
        "relative to the script's folder"
    )


def test_out_and_name_win_over_the_script(folder):
    assert run("--script", ".pycandle/scripts/recorder.py", "--name", "other", "--out", "there") == 0
    assert sorted(p.name for p in (folder / "there").iterdir()) == [
        "other_manifest.json", "other_trace.safetensors", "other_weights.safetensors"
    ]  # fmt: skip
    assert not (folder / ".pycandle" / "traces").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print('nothing')", "never called save"),
        ("raise ValueError('mine')", "mine"),
        ("import no_such_package", "no_such_package"),
        ("import sys; sys.exit(4)", "ended with 4"),
    ],
)
def test_a_script_that_records_nothing_is_an_error(folder, capsys, text, message):
    Path("script.py").write_text(text)
    assert run("--script", "script.py") == 2
    assert message in capsys.readouterr().err


# ---- exit codes -----------------------------------------------------------------------------------------------


def test_a_refused_model_exits_1_and_writes_nothing(folder, capsys):
    arguments = ("--model", "small_models:Branch", "--input", "x=f32[2,3]", "--out", "out")
    assert run(*arguments) == 1
    line = MODELS.splitlines().index("        return x if x.sum() > 0 else -x") + 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and f"small_models.py:{line}: return x if x.sum() > 0 else -x" in error
    assert run(*arguments, "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["file"], result["line"]) == ("refused", "small_models.py", line)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "small_models"),
        ("--model", "no_such_module:Small", "--input", "x=f32[2]"),
        ("--model", "small_models:Nothing", "--input", "x=f32[2]"),
        ("--model", "small_models:not_a_model", "--input", "x=f32[2]"),
        ("--model", "small_models:Small"),
        ("--model", "small_models:Small", "--kwargs", "{", "--input", "ids=i64[2,3]"),
        ("--model", "small_models:Small", "--kwargs", '{"depth": 3}', "--input", "ids=i64[2,3]"),
        ("--model", "small_models:Small", "--input", "ids=i65[2,3]"),
        ("--model", "small_models:Small", "--input", "ids:i64"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]:9..1"),
        ("--model", "small_models:Small", "--input", "wrong=i64[2,3]"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]<9", "--dynamic", "ids"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]<9", "--dynamic", "other=0"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]<9", "--golden-budget", "lots"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]:90..99"),
        ("--model", "small_models:Small", "--inputs", "missing.safetensors"),
        ("--model", "small_models:Small", "--input", "ids=i64[2,3]<9", "--weights", "ref"),
        ("--model", "small_models:Small", "--script", "x.py"),
        ("--script", "missing.py"),
    ],
)
def test_bad_input_exits_2_with_one_message(folder, capsys, arguments):
    assert run(*arguments, "--out", "out") == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 1 and "Traceback" not in error
    assert not Path("out").exists() or not list(Path("out").iterdir())


def test_an_unwritable_folder_exits_2(folder, capsys):
    Path("out").write_text("a file")
    assert run(*small()) == 2
    assert "out" in capsys.readouterr().err


# ---- processes ------------------------------------------------------------------------------------------------


def start(folder: Path, *arguments, hash_seed: str = "random") -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(record_cli.__file__).parent.parent), str(folder)])
    command = [sys.executable, "-m", "pycandle.recording.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_two_processes_write_the_same_bytes(folder):
    for run_number in ("1", "2"):
        finished = start(
            folder, "--model", "small_models:Small", "--input", "ids=i64[2,6]<20", "--out", f"out{run_number}"
        )
        assert finished.returncode == 0, finished.stderr
    for kind in ("manifest.json", "trace.safetensors", "weights.safetensors"):
        first, second = ((folder / f"out{n}" / f"Small_{kind}").read_bytes() for n in "12")
        assert first == second, kind
    text = (folder / "out1" / "Small_manifest.json").read_text()
    assert str(folder) not in text and sys.prefix not in text, "no path of this machine"


def test_help_shows_an_example(folder):
    finished = start(folder, "--help")
    assert finished.returncode == 0 and "pycandle record --model" in finished.stdout


# ---- timing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["spy", "pycandle"])
def test_a_script_is_timed_and_writes_nothing(folder, capsys, home):
    script = folder / ".pycandle" / "scripts" / "recorder.py"
    script.write_text(script.read_text().replace("from spy import", f"from {home} import"))
    assert run("--time", "--json") == 0
    (timing,) = json.loads(capsys.readouterr().out)["timings"]
    assert 0 < timing["best_ms"] <= timing["median_ms"]
    assert not (folder / ".pycandle" / "traces").exists()
    assert run("--quiet") == 0, "afterwards the same script records"
    assert (folder / ".pycandle" / "traces" / "my_model_manifest.json").exists()


def test_a_factory_is_timed_and_a_script_without_a_recorder_is_refused(folder, capsys):
    assert run(*small("--time", "--json")) == 0
    assert len(json.loads(capsys.readouterr().out)["timings"]) == 1 and not (folder / "out").exists()
    (folder / "empty.py").write_text("pass\n")
    assert run("--time", "--script", "empty.py") == 2
    assert "never called record" in capsys.readouterr().err
