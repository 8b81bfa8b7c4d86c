"""PyCandle: record PyTorch models, run them without Python, and prove that both compute the same.

running      load and run recorded models; needs NumPy alone
recording    record models; needs torch
compiling    both in one process: `compile`, `lockstep`; needs torch
text         tokenizers and chat templates; needs nothing else
weights      checkpoints of all formats: read, map, extract; needs NumPy alone
peers        other runtimes on a recorded model, for `pycandle bench --against`
"""

from __future__ import annotations

import importlib
import importlib.util

from .version import VERSION as __version__

# Imported on first use: recording needs torch, running a recorded model does not.
_HOMES = {
    "GoldenRecorder": "recording.recorder",
    "RecordingError": "errors",
    "UsageError": "errors",
    "perturb": "recording.perturbation",
    "parameters_on_meta": "recording.files.meta_buffers",
    "Error": "_core",
    "Model": "running.model",
    "LoadedModel": "running.model",
    "load_model": "running.model",
    "GeneratedText": "running.generation",
    "list_backends": "running.backends",
    "get_backend": "running.backends",
    "set_backend": "running.backends",
    "set_dump_dir": "running.backends",
    "Decoder": "running.decoder",
    "Cache": "running.decoder",
    "load_decoder": "running.decoder",
    "Tokenizer": "text",
    "ChatTemplate": "text",
    "compile": "compiling.compiled_model",
    "lockstep": "compiling.side_by_side",
    "export_onnx": "peers.onnx_export",
}
_NEED_TORCH = ("recording.", "compiling.")
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'pycandle' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """The public names that work here, for completion and `help(pycandle)`."""
    has_torch = importlib.util.find_spec("torch") is not None
    return [
        "__version__",
        *(n for n, home in _HOMES.items() if has_torch or not home.startswith(_NEED_TORCH)),
    ]
