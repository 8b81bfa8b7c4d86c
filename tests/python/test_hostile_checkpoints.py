"""Damaged and hostile checkpoints: one clear error each, nothing executed, little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hostile_files import MARKER, all_files

# In a process of its own: its memory is measured, and what a file executes would be seen.
READER = """
import json, sys
from pathlib import Path
import pycandle
from pycandle import _core

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

before = peak()
answers = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        checkpoint = _core.Checkpoint(path)
        for name, *_ in checkpoint.tensors:
            checkpoint.read(name)
        answers[path.name] = ["read", ""]
    except _core.Error as error:
        answers[path.name] = [error.code, error.message]
print(json.dumps({"answers": answers, "kilobytes": peak() - before}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    marker = folder.parent / "executed"
    os.environ[MARKER] = str(marker)
    names = {}
    for number, (name, data) in enumerate(all_files()):
        (folder / f"{number:03}.pt").write_bytes(data)
        names[f"{number:03}.pt"] = name
    marker.unlink(missing_ok=True)
    ran = subprocess.run(
        [sys.executable, "-c", READER, folder], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    answer = json.loads(ran.stdout)
    assert not marker.exists(), "a file was executed"
    return {names[file]: said for file, said in answer["answers"].items()}, answer["kilobytes"]


def test_each_file_is_one_clear_error(answers):
    said, _ = answers
    assert len(said) >= 60
    for name, (code, message) in said.items():
        assert code == "bad_input", f"{name}: {code} {message}"
        assert len(message) > 10 and "\n" not in message, f"{name}: {message!r}"


def test_memory_stays_small(answers):
    _, kilobytes = answers
    assert kilobytes < 600_000, kilobytes


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("zip: os.system", "posix.system"),
        ("legacy: os.system", "posix.system"),
        ("zip: numpy array", "_reconstruct"),
        ("zip: a module", "torch.nn.modules.linear.Linear"),
        ("a zip bomb", "far more than is stored"),
        ("a header of a gigabyte", "header is too large"),
        ("members that overlap", "overlap"),
        ("storage too short", "outside its storage"),
        ("a list in itself", "hold themselves"),
        ("objects", "Python objects"),
        ("a version of tomorrow", "version of GGUF"),
        ("hdf5: a group in itself", "in themselves"),
        ("hdf5: data of another file", "another file"),
        ("hdf5: external data", "another file"),
        ("hdf5: a bomb", "far more than is stored"),
    ],
)
def test_the_error_names_what_is_wrong(answers, name, words):
    said, _ = answers
    assert words in said[name][1]
