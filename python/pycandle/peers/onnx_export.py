"""`pycandle.export_onnx`: the command `pycandle export` from Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import RecordingError, UsageError


@dataclass(frozen=True)
class ExportedFile:
    """What was written, and what ONNX Runtime made of it."""

    onnx: Path
    data: Path | None  # tensors that lie beside the file
    opset: int
    nodes: int
    parameters: int
    bytes: int
    runner: str  # "onnxruntime 1.31.1"; empty: not checked
    outputs: tuple[dict[str, Any], ...]  # name, sizes, error and verdict of each output that was compared


def export_onnx(
    model: Any,
    file: str | os.PathLike,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    opset: int | None = None,
    external: bool = False,
    check: bool = True,
) -> ExportedFile:
    """Writes a model as an ONNX file, and runs it in ONNX Runtime to see that it computes the same.

    model   a manifest, its folder or a bundle by path, or a PyTorch module, which is recorded with `inputs` first
    opset   the newest that the installed ONNX Runtime runs, unless given
    check   without it nothing is run; where `onnx` and `onnxruntime` are not installed, nothing can be

    A model that ONNX cannot say, and a file that computes something else, is a RecordingError."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, (str, os.PathLike)):
            if inputs is not None:
                raise UsageError("inputs are for a PyTorch module; this model is recorded already")
            recording = Path(model)
        else:
            recording = _recorded(model, inputs, Path(folder))
        command = [program(), "export", recording, "--onnx", file, "--json"]
        command += ["--opset", opset] if opset is not None else []
        command += ["--external"] * external
        command += ["--python", sys.executable] if check else ["--no-check"]
        run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if not run.stdout.startswith("{"):
        raise UsageError(run.stderr.removeprefix("error: ").strip())
    facts = json.loads(run.stdout)
    if error := facts.get("error"):
        details = [f"  {name:8}  {error[name]}" for name in ("expected", "found", "hint") if error.get(name)]
        text = "\n".join([error["message"], *details])
        raise (RecordingError if run.returncode == 1 else UsageError)(text)
    outputs = tuple(facts["check"]["outputs"])
    if run.returncode != 0:
        wrong = ", ".join(o["name"] for o in outputs if not o["passed"])
        raise RecordingError(f"{facts['check']['runner']} computes something else for {wrong}")
    sizes = {name: facts[name] for name in ("opset", "nodes", "parameters", "bytes")}
    data = Path(facts["data"]) if facts["data"] else None
    return ExportedFile(Path(file), data, **sizes, runner=facts["check"]["runner"], outputs=outputs)


def _recorded(module: Any, inputs: Sequence[Any] | Mapping[str, Any] | None, folder: Path) -> Path:
    from ..recording.recorder import GoldenRecorder

    if inputs is None:
        raise UsageError("a PyTorch module is recorded with example inputs: inputs=(x,) or inputs={'x': x}")
    args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
    recorder = GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(module, *args, **kwargs)
    return recorder.save("model").manifest


def program() -> str:
    """The executable `pycandle`, which this package's wheel brings."""
    folders = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    if found := shutil.which("pycandle", path=folders):
        return found
    raise UsageError(f"there is no program pycandle in {sysconfig.get_path('scripts')} or on PATH")
