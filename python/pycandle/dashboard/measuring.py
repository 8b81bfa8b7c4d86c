"""Commands that the dashboard runs to measure the model."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

COMMANDS = {
    "profile": ["forward", "{model}", "--backend", "cpu", "--profile", "--json"],
    "bench": ["bench", "{model}", "--seconds", "1", "--json"],
}


class Measurement:
    """A command as a child; what it prints becomes a file."""

    def __init__(self, program: str, arguments: list[str], file: Path) -> None:
        self.file, self.text = file, shlex.join(["pycandle", *arguments])
        self._errors = file.with_suffix(".errors").open("w+")
        with file.open("wb") as out:
            self._child = subprocess.Popen(
                [program, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=self._errors
            )

    @property
    def is_done(self) -> bool:
        return self._child.poll() is not None

    def problem(self) -> str:
        """Why there is nothing to show; empty while it runs and when it gave its answer."""
        if self._child.poll() in (None, 0, 1):
            return ""
        self._errors.seek(0)
        return self._errors.read().strip() or f"{self.text} ended with status {self._child.returncode}"

    def close(self) -> None:
        if not self.is_done:
            self._child.terminate()
        self._child.wait()
        self._errors.close()


class Measurer:
    """Measures a recording when it is asked to; what runs ends with this object."""

    def __init__(self, program: str, model: str) -> None:
        self._program, self._model = program, model
        self._folder = tempfile.TemporaryDirectory(prefix="pycandle-measured-")
        self._started: dict[str, Measurement] = {}

    def measurement(self, kind: str) -> Measurement:
        """The one that runs or was made already, or a new one."""
        if kind not in self._started:
            arguments = [word.format(model=self._model) for word in COMMANDS[kind]]
            file = Path(self._folder.name) / f"{kind}.json"
            self._started[kind] = Measurement(self._program, arguments, file)
        return self._started[kind]

    def forget(self, kind: str) -> None:
        if kind in self._started:
            self._started.pop(kind).close()

    def close(self) -> None:
        for kind in list(self._started):
            self.forget(kind)
        self._folder.cleanup()
