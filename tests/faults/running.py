"""The C++ side: tests/faults/fault_runner.cpp."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path


def version_of(program: Path) -> str:
    """Results are kept by it: a run that was stopped goes on where it was, another verifier starts anew."""
    return hashlib.blake2b(program.read_bytes(), digest_size=6).hexdigest()


def runner(program: Path, manifest: Path, *arguments: str, lines: list[dict] = ()) -> list[dict]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    finished = subprocess.run(
        [program, manifest, *arguments], input=text, capture_output=True, text=True, check=True, timeout=3000
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]
