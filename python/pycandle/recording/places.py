"""Where in the user's Python something happened: frames outside torch, this package and the standard library."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache

import torch

_TORCH_DIR = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_RECORDING_DIR = os.path.dirname(os.path.abspath(__file__))
_OWN_DIR = os.path.dirname(_RECORDING_DIR) + os.sep
_STDLIB_DIR = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
_SITE_DIRS = tuple(
    sorted({os.path.abspath(sysconfig.get_paths()[key]) + os.sep for key in ("purelib", "platlib")}, key=len)
)
_TORCH_NN_DIR = os.path.join(_TORCH_DIR, "nn", "modules") + os.sep
# The files of this package that call into the model; hooks lie in others, so they do not end the search.
_CALLS_THE_MODEL = tuple(
    os.path.join(_RECORDING_DIR, *path) for path in (("tracing", "exporting.py"), ("eager.py",))
)
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """A line of Python. `callers` are the user's frames around it, innermost first."""

    file: str
    line: int
    callers: tuple[tuple[str, int], ...] = ()

    @property
    def shown_file(self) -> str:
        return relative_path(self.file)

    @property
    def source(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.shown_file}:{self.line}: {self.source}"


@cache
def is_user_file(file: str) -> bool:
    """Whether a reader would call this file the model's own code."""
    if file.startswith("<"):
        return False
    file = os.path.abspath(file)
    if file.startswith(_SITE_DIRS):
        return not file.startswith((_TORCH_DIR, _OWN_DIR))
    return not file.startswith((_TORCH_DIR, _OWN_DIR, _STDLIB_DIR))


def is_torch_file(file: str) -> bool:
    return os.path.abspath(file).startswith(_TORCH_DIR)


def is_own_file(file: str) -> bool:
    return os.path.abspath(file).startswith(_OWN_DIR)


@cache
def relative_path(file: str) -> str:
    """The path below the package root, so that two machines write the same bytes."""
    file = os.path.abspath(file)
    for root in (*_SITE_DIRS, _STDLIB_DIR):
        if file.startswith(root):
            return file[len(root) :].replace(os.sep, "/")
    root = os.path.dirname(file)
    while os.path.exists(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    return os.path.relpath(file, root).replace(os.sep, "/")


def place_of_frames(frames: list[tuple[str, int]]) -> Place | None:
    """The innermost user frame of `frames` (outermost first); a torch.nn module's line where there is none."""
    user = [frame for frame in frames if is_user_file(frame[0])]
    if user:
        return Place(*user[-1], callers=tuple(reversed(user[:-1])))
    layers = [frame for frame in frames if os.path.abspath(frame[0]).startswith(_TORCH_NN_DIR)]
    return Place(*layers[-1]) if layers else None


def frames_of_text(stack_trace: str | None) -> list[tuple[str, int]]:
    return [(file, int(line)) for file, line, _ in _FRAME.findall(stack_trace or "")]


def place_of_text(stack_trace: str | None) -> Place | None:
    """The place that a node's `stack_trace` text speaks of."""
    return place_of_frames(frames_of_text(stack_trace))


def current_frames() -> list[tuple[str, int]]:
    """This thread's frames inside the recorded call, outermost first.

    Frames above the recorder's own (the user's script, the test runner) are not part of the model.
    """
    frames = []
    frame = sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _below_recorder(list(reversed(frames)))


def place_here() -> Place | None:
    return place_of_frames(current_frames())


def place_of_call() -> Place | None:
    """The user's line that calls the module whose hook this is; none when torch's own code does (nn.Sequential)."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in _CALLS_THE_MODEL:
        file = frame.f_code.co_filename
        if (
            is_user_file(file) and frame.f_code.co_name != "__call__"
        ):  # a class that wraps nn.Module.__call__ is not the caller
            return Place(file, frame.f_lineno)
        if os.path.abspath(file).startswith(_TORCH_NN_DIR) and os.path.basename(file) != "module.py":
            return None
        frame = frame.f_back
    return None


def place_of_exception(error: BaseException) -> Place | None:
    """The user's line that raised, looking through the causes of wrapped errors."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        user = [frame for frame in _below_recorder(frames) if is_user_file(frame[0])]
        if user:
            return Place(*user[-1], callers=tuple(reversed(user[:-1])))
        error = error.__cause__ or error.__context__
    return None


def _below_recorder(frames: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Drops the callers of the recorder: the user's script and the test runner are no part of the model."""
    last = max((i for i, (file, _) in enumerate(frames) if file in _CALLS_THE_MODEL), default=None)
    return frames if last is None else frames[last:]
