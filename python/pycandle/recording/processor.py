"""torch on this processor: on Intel processors with AMX, torch 2.11 dies (SIGILL) in products of bf16 matrices.

oneDNN, which torch computes them with, can be told to leave AMX alone, but only before its first use.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .torch_versions import installed

if TYPE_CHECKING:
    import torch

VARIABLE, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"
ADVICE = f"set {VARIABLE}={WITHOUT_AMX} before Python starts"

PROBLEM = "torch's bf16 products crash on this processor"
_PROBE = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); torch.nn.functional.linear(a, a)"
_NAMES = (VARIABLE, "DNNL_MAX_CPU_ISA")  # the older name still counts


def _chosen() -> str | None:
    """How the environment keeps oneDNN from AMX: `NAME=VALUE`, or None where it does not."""
    for name in _NAMES:
        value = os.environ.get(name, "").upper()
        if value and value != "DEFAULT" and "AMX" not in value:
            return f"{name}={value}"
    return None


_variable_came_first = _chosen() is not None


@functools.cache
def torch_dies_in_bf16() -> bool:
    """Whether torch, as it comes, dies of a signal in a bf16 product. Asked in a child process, once for a machine."""
    flags = _processor_flags()
    if "amx_bf16" not in flags:
        return False
    key = hashlib.sha256(f"{installed()} {flags}".encode()).hexdigest()[:16]
    known = _known_answers()
    if known.get(key) in (True, False):
        return known[key]
    environment = {k: v for k, v in os.environ.items() if k not in _NAMES}
    ended = subprocess.run([sys.executable, "-c", _PROBE], env=environment, capture_output=True, check=False)
    _remember(known | {key: ended.returncode < 0})
    return ended.returncode < 0


def make_bf16_safe() -> bool:
    """Sets the variable where torch needs it; true when it did. Has full effect only before torch computes anything."""
    global _variable_came_first
    if _variable_came_first or not torch_dies_in_bf16():
        return False
    os.environ[VARIABLE] = WITHOUT_AMX
    _variable_came_first = "torch" not in sys.modules
    return True


def dtypes_of(model: torch.nn.Module, arguments: object) -> set[torch.dtype]:
    """Of parameters, buffers and inputs, and what autocast would make of them."""
    import torch

    from .torch_compat import pytree

    tensors = [*model.parameters(), *model.buffers(), *pytree.tree_leaves(arguments)]
    found = {t.dtype for t in tensors if hasattr(t, "dtype")}
    return found | ({torch.get_autocast_dtype("cpu")} if torch.is_autocast_enabled("cpu") else set())


@contextlib.contextmanager
def safe_for(dtypes: set[torch.dtype], notes: list[str] | None = None) -> Iterator[None]:
    """Runs a model with these dtypes so that torch does not die of bf16, and says so in `notes`.

    A process that has used oneDNN already cannot set the variable any more: torch then computes without oneDNN, also
    for other dtypes, since a model may go to bf16 on its way."""
    import torch

    from .torch_compat import without_onednn

    affected = torch_dies_in_bf16()
    late = affected and not _variable_came_first
    if affected and torch.bfloat16 in dtypes and notes is not None:
        how = f"without oneDNN; for its kernels {ADVICE}" if late else f"with {_chosen()}"
        notes.append(f"{PROBLEM}: run {how}")
    with without_onednn() if late else contextlib.nullcontext():
        yield


def _processor_flags() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return line.partition(":")[2].strip()
    return ""


def _cache_file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pycandle" / "torch-bf16.json"


def _known_answers() -> dict[str, bool]:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # absent, damaged, or a user without a home
        if isinstance(known := json.loads(_cache_file().read_text()), dict):
            return known
    return {}


def _remember(answers: dict[str, bool]) -> None:
    with contextlib.suppress(OSError, RuntimeError):  # it is only asked again
        file = _cache_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as temporary:
            json.dump(answers, temporary)
        os.replace(temporary.name, file)
