"""What the Python tests share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recording_checks import load_checked
from report_models import edited, recorded, with_tanh_gelu

from pycandle import GoldenRecorder

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """What is measured by tests, beside other tests, is not remembered for the user. The compiler's cache stays where it is."""
    if ccache := shutil.which("ccache"):
        known = subprocess.run(
            [ccache, "--get-config", "cache_dir"], capture_output=True, text=True, check=True
        )
        os.environ.setdefault("CCACHE_DIR", known.stdout.strip())
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


PYCANDLE = Path(os.environ.get("PYCANDLE_PROGRAM", Path(sys.executable).with_name("pycandle")))


class Program:
    """The C++ program, driven the way a user does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(
        self, *arguments, status: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess:
        finished = subprocess.run(
            [self.path, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=900,
            check=False,
        )
        if status is not None and finished.returncode != status:
            raise AssertionError(
                f"pycandle {' '.join(map(str, arguments))}: exit {finished.returncode}, expected {status}\n"
                f"{finished.stdout[-4000:]}\n{finished.stderr[-4000:]}"
            )
        return finished

    def json(self, *arguments, status: int | None = 0) -> dict:
        return json.loads(self(*arguments, "--json", status=status).stdout)


@pytest.fixture(scope="session")
def pycandle() -> Program:
    assert PYCANDLE.exists(), f"{PYCANDLE} is not built: make build"
    return Program(PYCANDLE)


@pytest.fixture
def record(tmp_path):
    """Records a model, checks the files, and gives (manifest, goldens)."""

    def run(model, *args, options=None, **kwargs):
        recorder = GoldenRecorder(tmp_path, progress=lambda text: None, **(options or {}))
        recorder.record(model.eval(), *args, **kwargs)
        run.recorder = recorder
        return load_checked(recorder.save("m").manifest)

    return run


# ---- a small recording, right and broken, for what shows results


@pytest.fixture(scope="session")
def good(tmp_path_factory) -> Path:
    return recorded(tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="session")
def broken(good, tmp_path_factory) -> Path:
    return edited(good, tmp_path_factory.mktemp("broken") / "m", with_tanh_gelu)


@pytest.fixture(scope="session")
def wrong(broken, tmp_path_factory, pycandle) -> Path:
    """The result file of the broken one."""
    path = tmp_path_factory.mktemp("wrong") / "result.jsonl"
    pycandle("verify", broken, "--out", path, status=1)
    return path
