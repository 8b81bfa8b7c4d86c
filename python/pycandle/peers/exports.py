"""The files that peers load, made once from a torch module: ONNX, and OpenVINO's own format."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import torch


def export(module: torch.nn.Module, inputs: list[torch.Tensor], names: list[str], file: Path) -> None:
    """Writes `file` in the format of its suffix; it appears when it is complete, after what lies beside it."""
    write = {".onnx": _onnx, ".xml": _openvino}[file.suffix]
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            write(module, tuple(inputs), names, Path(folder) / file.name)
        for made in sorted(Path(folder).iterdir(), key=lambda path: path.name == file.name):
            made.replace(file.parent / made.name)


def _onnx(module: torch.nn.Module, inputs: tuple, names: list[str], file: Path) -> None:
    """The exporter by tracing knows recurrent layers, the newer one every other operator: whichever succeeds."""
    given = {"input_names": names, "opset_version": 17}
    try:
        torch.onnx.export(module, inputs, str(file), dynamo=False, **given)
    except torch.onnx.errors.OnnxExporterError:
        given["opset_version"] = 18  # the least it writes
        torch.onnx.export(module, inputs, str(file), dynamo=True, external_data=False, verbose=False, **given)


def _openvino(module: torch.nn.Module, inputs: tuple, names: list[str], file: Path) -> None:
    import openvino

    shapes = [list(tensor.shape) for tensor in inputs]
    model = openvino.convert_model(module, example_input=inputs, input=shapes)
    for port, name in zip(model.inputs, names, strict=True):
        port.tensor.set_names({name})
    openvino.save_model(model, file, compress_to_fp16=False)
