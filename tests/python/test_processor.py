"""torch's bf16 products die of SIGILL on processors with AMX: found out in a child process, and avoided."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from pycandle import GoldenRecorder
from pycandle.recording import processor

DIES = f"import os, signal; os.kill(os.getpid(), {signal.SIGILL.value})"
BF16 = {torch.bfloat16}


@pytest.fixture
def amx(monkeypatch, tmp_path):
    """A processor with AMX on which torch dies, whatever this one is."""

    def pretend(probe: str = DIES, came_first: bool = False) -> None:
        monkeypatch.setattr(processor, "_processor_flags", lambda: "avx512f amx_tile amx_bf16")
        monkeypatch.setattr(processor, "_PROBE", probe)
        monkeypatch.setattr(processor, "_variable_came_first", came_first)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv(processor.VARIABLE, raising=False)
        processor.torch_dies_in_bf16.cache_clear()

    yield pretend
    processor.torch_dies_in_bf16.cache_clear()


def test_the_variable_is_set_where_the_probe_dies(amx) -> None:
    amx()
    assert processor.make_bf16_safe() and os.environ[processor.VARIABLE] == "AVX512_CORE_BF16"


def test_nothing_is_set_where_the_probe_lives_or_without_amx(amx, monkeypatch) -> None:
    amx(probe="pass")
    assert not processor.make_bf16_safe() and processor.VARIABLE not in os.environ
    amx()
    monkeypatch.setattr(processor, "_processor_flags", lambda: "avx2")
    assert not processor.make_bf16_safe() and processor.VARIABLE not in os.environ


def test_the_probe_runs_once_for_a_machine_and_a_damaged_answer_is_asked_for_again(amx, tmp_path) -> None:
    amx()
    assert processor.torch_dies_in_bf16()
    amx(probe="pass")
    assert processor.torch_dies_in_bf16(), "the answer is remembered"
    (tmp_path / "pycandle/torch-bf16.json").write_text("[not json")
    amx(probe="pass")
    assert not processor.torch_dies_in_bf16()


def test_the_users_own_choice_stands(amx, monkeypatch) -> None:
    amx(came_first=True)
    monkeypatch.setenv(processor.VARIABLE, "AVX512_CORE_FP16")
    assert not processor.make_bf16_safe() and os.environ[processor.VARIABLE] == "AVX512_CORE_FP16"
    notes: list[str] = []
    with processor.safe_for(BF16, notes):
        assert torch._C._get_mkldnn_enabled()
    assert "run with ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16" in notes[0]


@pytest.mark.parametrize(
    ("name", "value", "safe"),
    [
        (processor.VARIABLE, "AVX512_CORE_BF16", True),
        ("DNNL_MAX_CPU_ISA", "avx2", True),
        (processor.VARIABLE, "AVX512_CORE_AMX", False),
        (processor.VARIABLE, "default", False),
        (processor.VARIABLE, "", False),
    ],
)
def test_a_variable_that_lets_amx_in_does_not_count(name, value, safe, monkeypatch) -> None:
    for known in (processor.VARIABLE, "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, value)
    assert processor._chosen() == (f"{name}={value.upper()}" if safe else None)


def test_answers_for_several_versions_of_torch_are_kept_and_a_user_without_home_is_no_error(
    amx, tmp_path, monkeypatch
) -> None:
    amx()
    assert processor.torch_dies_in_bf16()
    amx(probe="pass")
    monkeypatch.setattr(processor, "installed", lambda: "99")
    assert not processor.torch_dies_in_bf16()
    assert sorted(json.loads((tmp_path / "pycandle/torch-bf16.json").read_text()).values()) == [False, True]
    amx()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(processor.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert processor.torch_dies_in_bf16()


def test_where_the_variable_comes_too_late_bf16_models_run_without_onednn(amx) -> None:
    amx()
    notes: list[str] = []
    with processor.safe_for({torch.float32}, notes):
        assert not torch._C._get_mkldnn_enabled(), "a model may go to bf16 on its way"
    assert not notes
    with processor.safe_for(BF16, notes):
        assert not torch._C._get_mkldnn_enabled()
    assert torch._C._get_mkldnn_enabled() and "without oneDNN" in notes[0]


def test_autocast_counts_as_its_dtype() -> None:
    model = torch.nn.Linear(4, 4)
    assert processor.dtypes_of(model, ()) == {torch.float32}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert processor.dtypes_of(model, ()) == {torch.float32, torch.bfloat16}


def test_a_bf16_recording_says_how_it_was_made(amx, tmp_path) -> None:
    amx()
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    model = torch.nn.Linear(64, 64).bfloat16().eval()
    recorder.record(model, torch.randn(3, 64).bfloat16())
    assert any("bf16 products crash" in note for note in recorder.save("m").notes)
    recorder.record(torch.nn.Linear(4, 4).eval(), torch.randn(3, 4))
    assert not any("bf16" in note for note in recorder.save("f").notes)


SCRIPT = """
import torch
{before}
import pycandle
from pycandle import GoldenRecorder, lockstep
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).bfloat16().eval()
recorder = GoldenRecorder("out")
recorder.record(model, torch.randn(3, 64).bfloat16())
recorder.save("m")
layers = list(lockstep(model, "out"))
assert len(layers) == 4, layers
compiled = pycandle.compile(model, torch.randn(3, 64).bfloat16())
assert compiled(torch.randn(3, 64).bfloat16()).shape == (3, 64)
"""


@pytest.mark.parametrize("before", ["", "torch.nn.functional.linear(torch.ones(64, 64), torch.ones(64, 64))"])
def test_a_script_records_bf16_on_this_machine_whatever_it_did_before(before, tmp_path, pycandle) -> None:
    """On a machine with AMX this dies without the fix; the variable is not in the environment here."""
    (tmp_path / "script.py").write_text(SCRIPT.format(before=before))
    environment = {k: v for k, v in os.environ.items() if k != processor.VARIABLE}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert pycandle("verify", tmp_path / "out").returncode == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGILL, "AMX"), (signal.SIGKILL, "memory ran out"), (signal.SIGSEGV, "PYTHONFAULTHANDLER")],
)
def test_a_python_that_dies_of_a_signal_is_one_clear_error(number, words, tmp_path, pycandle) -> None:
    script = tmp_path / "dies.py"
    script.write_text(f"import os; os.kill(os.getpid(), {number.value})\n")
    said = pycandle("record", "--script", script, status=2).stderr
    assert f"died of {number.name}" in said and words in said


def test_a_signal_is_said_in_json_too(tmp_path, pycandle) -> None:
    script = tmp_path / "dies.py"
    script.write_text(f"import os; os.kill(os.getpid(), {signal.SIGILL.value})\n")
    facts = json.loads(pycandle("record", "--script", script, "--json", status=2).stdout)
    assert "SIGILL" in facts["error"]["message"] and "AMX" in facts["error"]["hint"]


def test_doctor_says_whether_bf16_works(pycandle) -> None:
    found = {f["what"]: f for f in pycandle.json("doctor")["findings"]}["bf16 in torch"]
    crashes = processor.torch_dies_in_bf16()
    assert ("crash" in found["found"]) == crashes and bool(found["hint"]) == crashes
