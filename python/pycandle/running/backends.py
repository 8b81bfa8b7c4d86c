"""Which backend models run on when nobody names one, and where programs are dumped."""

from __future__ import annotations

import os

from .. import _core

_chosen: str | None = None
_dump_dir = ""
_dump_final = False


def list_backends() -> list[str]:
    """The backends of this build, and those of the libraries in the folders of PYCANDLE_BACKEND_PATH."""
    return _core.backends()


def is_library(name: str) -> bool:
    """Whether a backend is named by the path of its library, which is looked at when a model is loaded."""
    return "/" in name or name.endswith(".so")


def get_backend() -> str:
    """The backend of models that are loaded without one: `set_backend`, PYCANDLE_BACKEND, or cpu."""
    return _chosen or os.environ.get("PYCANDLE_BACKEND") or "cpu"


def set_backend(name: str | None) -> None:
    """Models that are loaded from now on run on this backend; None: PYCANDLE_BACKEND, or cpu."""
    global _chosen
    if name is not None and not is_library(name) and name not in list_backends():
        raise ValueError(f"there is no backend {name!r}: {', '.join(list_backends())}")
    _chosen = name


def is_chosen() -> bool:
    return _chosen is not None or bool(os.environ.get("PYCANDLE_BACKEND"))


def set_dump_dir(path: str | os.PathLike | None, mode: str = "all") -> None:
    """Models that are loaded from now on write their program into this folder; None: no more.

    mode: "all" writes it after each pass, "final" what each pipeline ends with."""
    global _dump_dir, _dump_final
    if mode not in ("all", "final"):
        raise ValueError(f"mode must be 'all' or 'final', not {mode!r}")
    _dump_final = mode == "final"
    _dump_dir = os.path.abspath(path) if path else ""


def dump_dir() -> str:
    return _dump_dir


def dumps_final() -> bool:
    return _dump_final
