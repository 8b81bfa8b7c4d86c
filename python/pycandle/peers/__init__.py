"""Other runtimes on a recorded model, for `pycandle bench --against`: docs/benchmarks.md has the protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    module: str  # beside this file: its `load` makes the peer ready to run
    needs: tuple[str, ...]  # packages, by the names that pip knows
    export: str | None = None  # the file that is made for it


PEERS = {
    "torch": Peer("torch_eager", ("torch", "safetensors")),
    "torch-compile": Peer("torch_compile", ("torch", "safetensors")),
    "onnxruntime": Peer("onnx_runtime", ("onnxruntime", "onnx", "onnxscript", "torch"), "model.onnx"),
    "openvino": Peer("open_vino", ("openvino", "torch"), "model.xml"),
}


class PeerError(Exception):
    """A peer that cannot run this model: why, and what to do."""

    def __init__(self, what: str, hint: str = ""):
        self.hint = hint
        super().__init__(what)
