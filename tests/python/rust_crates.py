"""What the tests of the Rust target share: cargo, with one folder for all that is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRATE = ROOT / "rust" / "pycandle"
BUILT = ROOT / "build" / "rust"  # what is compiled of candle is shared by all crates


def cargo(crate: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    if shutil.which("cargo") is None:
        pytest.fail("cargo is not there: scripts/setup.sh rust installs it")
    first, *rest = arguments
    command = ["cargo", first, "--manifest-path", str(crate / "Cargo.toml"), *rest]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(BUILT), "CARGO_PROFILE_DEV_DEBUG": "0", **environment},
        check=False,
    )


def passes(run: subprocess.CompletedProcess) -> None:
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
