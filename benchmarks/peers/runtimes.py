"""The exact versions of the runtimes, and how much disk each takes where it is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from .runners import PEERS, PYCANDLE, ROOT, candle_program, version_of

_PACKAGES = {
    "torch": ("torch", "torch"),
    "torch-compile": ("torch", "torch"),
    "onnxruntime": ("onnxruntime", "onnxruntime"),
    "openvino": ("openvino", "openvino"),
    "llama.cpp": ("llama-cpp-python", "llama_cpp"),
}


def runtimes(absent: dict[str, str]) -> dict[str, dict]:
    library = ROOT / "build/release/lib/libpycandle.so"
    found = {"pycandle": _entry(_own_version(), [PYCANDLE], "one program")}
    if library.exists():
        found["pycandle"]["remark"] += f"; the shared library {_megabytes([library])} MB, not stripped"
    for peer in PEERS:
        if peer in absent:
            found[peer] = {"version": "", "megabytes": "", "remark": f"not installed: {absent[peer]}"}
        elif peer == "candle":
            found[peer] = _entry(_candle_version(), [candle_program()], "the runner, with everything")
        else:
            package, module = _PACKAGES[peer]
            folder = Path(importlib.util.find_spec(module).origin).parent
            found[peer] = _entry(
                version_of(package), [folder], "the Python package, without what it depends on"
            )
    return found


def _entry(version: str, places: list[Path], remark: str) -> dict:
    return {"version": version, "megabytes": _megabytes(places), "remark": remark}


def _megabytes(places: list[Path]) -> int:
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    return round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6)


def _own_version() -> str:
    import pycandle

    return pycandle.__version__


def _candle_version() -> str:
    lines = (ROOT / "benchmarks/candle/Cargo.toml").read_text().splitlines()
    return next(line.split('"')[1].lstrip("=") for line in lines if line.startswith("candle-core"))
