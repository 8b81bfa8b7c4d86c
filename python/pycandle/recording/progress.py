"""Says what is being done when it takes long."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable

_PATIENCE = 2.0


class Progress:
    """Steps shorter than two seconds are silent; a longer one is named while it runs."""

    def __init__(self, say: Callable[[str], None] | None = None):
        self._say = say or (lambda text: print(text, file=sys.stderr, flush=True))

    def say(self, text: str) -> None:
        self._say(text)

    @contextlib.contextmanager
    def step(self, text: str):
        started = time.monotonic()
        timer = threading.Timer(_PATIENCE, self._say, [f"{text} …"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            elapsed = time.monotonic() - started
            if elapsed > _PATIENCE:
                self._say(f"{text}: {elapsed:.1f} s")


SILENT = Progress(lambda text: None)
