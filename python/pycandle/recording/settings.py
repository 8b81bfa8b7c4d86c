"""What `pycandle record` decides over a script's own GoldenRecorder: folder, name and options."""

from __future__ import annotations

import contextlib
import os
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import UsageError


@dataclass
class Overrides:
    """The command line's choices. `options` are constructor arguments of GoldenRecorder."""

    out: Path | None = None
    name: str | None = None
    base: Path | None = None
    options: dict = field(default_factory=dict)
    saved: list = field(default_factory=list)

    def output_dir(self, wanted: Path) -> Path:
        """`--out` wins; a script's relative folder is taken from the script's own."""
        if self.out is not None:
            return self.out
        return (
            wanted
            if self.base is None or wanted.is_absolute()
            else Path(os.path.normpath(self.base / wanted))
        )

    def file_name(self, wanted: str) -> str:
        if self.name is not None and self.saved:
            raise UsageError(f"--name {self.name} is for one recording; the script saves a second ({wanted})")
        return self.name or wanted


_ACTIVE: ContextVar[Overrides | None] = ContextVar("pycandle_overrides", default=None)


def active() -> Overrides | None:
    return _ACTIVE.get()


@contextlib.contextmanager
def overriding(overrides: Overrides):
    token = _ACTIVE.set(overrides)
    try:
        yield overrides
    finally:
        _ACTIVE.reset(token)
