"""The folder that a recording goes into: tried before the work starts, and left as it was when writing fails."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...errors import UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_writable(folder: Path) -> None:
    """Makes and removes a file there, or in the nearest folder above it that exists."""
    try:
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise cannot_write(folder, error) from error


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Makes the folder. What goes wrong with files inside is one UsageError, and folders made for it go again."""
    made: list[Path] = []
    try:
        for missing in [*reversed(folder.parents), folder]:
            if not missing.exists():
                missing.mkdir(exist_ok=True)  # another recording may make it at this moment
                made.append(missing)
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file")
        yield
    except BaseException as error:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            raise cannot_write(folder, error) from error
        raise


def cannot_write(folder: Path, error: OSError) -> UsageError:
    hint = ""
    if error.errno in _FULL:
        hint = "\n  hint  make room, choose another folder, or keep fewer goldens (golden_budget, taps)"
    return UsageError(f"cannot write into {folder}: {error.strerror or error}{hint}")
