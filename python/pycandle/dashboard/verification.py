"""The verification that the dashboard starts itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .results import Layer


class Verification:
    """`pycandle verify M --out F --repro DIR` as a child; it ends with this object."""

    def __init__(self, program: str, model: str, result: Path, options: list[str]) -> None:
        self._program, self._model = program, model
        self._folder = tempfile.TemporaryDirectory(prefix="pycandle-dashboard-")
        self.repros = Path(self._folder.name) / "repro"
        self._errors = (Path(self._folder.name) / "errors.txt").open("w+")
        command = [program, "verify", model, "--out", str(result), "--repro", str(self.repros), *options]
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors
        )

    def wait(self) -> None:
        self._child.wait()

    def problem(self) -> str:
        """What it said when it broke off; empty while it runs and when it came to a verdict."""
        if self._child.poll() in (None, 0, 1):
            return ""
        self._errors.seek(0)
        return self._errors.read().strip() or f"pycandle verify ended with status {self._child.returncode}"

    def repro_of(self, layer: Layer) -> Path | None:
        name = re.sub(r"[^A-Za-z0-9.@_-]", "-", layer.tap)  # as pycandle verify --repro names it
        folder = self.repros / (f"root{name}" if name[:1] in ("", "@", ".") else name)
        return folder if folder.is_dir() else None

    def keep_repro(self, layer: Layer) -> Path | None:
        """A copy that stays when this ends."""
        folder = self.repro_of(layer)
        if folder is None:
            return None
        kept = Path("pycandle_repro") / folder.name
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        return kept

    def report(self, result: Path, page: Path) -> str:
        """Writes the page; what went wrong, or nothing."""
        made = subprocess.run(
            [self._program, "report", self._model, "--result", str(result), "-o", str(page)],
            capture_output=True,
            text=True,
        )
        return "" if made.returncode == 0 else made.stderr.strip() or "pycandle report failed"

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.terminate()
        self._child.wait()
        self._errors.close()
        self._folder.cleanup()
