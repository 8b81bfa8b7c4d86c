"""Recording where nothing can be written: found before the work starts, one line, and nothing left behind."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from pycandle import GoldenRecorder, UsageError

MODEL = """
import sys
import torch

def make():
    sys.stderr.write("the model was built\\n")
    return torch.nn.Linear(64, 64)
"""

SCRIPT = """
import resource
import torch
from pycandle import GoldenRecorder
recorder = GoldenRecorder("new/out")
recorder.record(torch.nn.Linear(64, 64).eval(), torch.randn(2, 64))
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
recorder.save("m")
"""


@pytest.mark.parametrize("out", ["/proc/pycandle/out", "a_file/out", "a_file"])
def test_a_folder_that_cannot_be_written_is_found_before_the_model_is_built(out, tmp_path, pycandle) -> None:
    (tmp_path / "slow_model.py").write_text(MODEL)
    (tmp_path / "a_file").write_text("")
    done = pycandle(
        "record",
        "--model",
        "slow_model:make",
        "--input",
        "input=f32[2,64]",
        "--out",
        out,
        cwd=tmp_path,
        status=2,
    )
    assert f"cannot write into {out}" in done.stderr and "the model was built" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("limit", [0, 1000, 10_000])
def test_a_disk_that_fills_up_is_one_error_and_leaves_nothing(limit, tmp_path, pycandle) -> None:
    """A limit on the size of files stands for the full disk: goldens, weights and manifest fail in turn."""
    (tmp_path / "script.py").write_text(SCRIPT.format(limit=limit))
    done = pycandle("record", "--script", "script.py", "--json", cwd=tmp_path, status=2)
    assert json.loads(done.stdout)["error"].startswith("cannot write into"), done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["script.py"]


def test_an_older_recording_survives_a_full_disk(tmp_path, monkeypatch) -> None:
    recorder = GoldenRecorder(tmp_path / "out", progress=lambda text: None)
    recorder.record(torch.nn.Linear(4, 4).eval(), torch.randn(2, 4))
    recorder.save("m")
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["pycandle.recording.recorder"], "write_manifest", full)
    with pytest.raises(UsageError, match=r"(?s)cannot write into .*No space left.*hint  make room"):
        recorder.save("m")
    assert before == {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UsageError, match="cannot write into"):
        GoldenRecorder("/proc/pycandle").record(torch.nn.Linear(4, 4).eval(), torch.randn(2, 4))
