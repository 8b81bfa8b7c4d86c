"""`verify --against onnxruntime` where the two disagree: the layer is found, and what is wrong with it is named.

The fault is planted in the file that ONNX Runtime gets, so PyCandle reads one model and ONNX Runtime runs another: what a wrong
mapping, a wrong kernel and a wrong runtime look like.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_files import model_of, node, value

# In the Python that `verify` starts: sessions are made of a changed model. A fault is the name of a node, and an attribute or input.
PLANTED = """
import importlib.abc, json, os, sys

class Planting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        import onnx, onnxruntime
        real = onnxruntime.InferenceSession

        def planted(model, *rest, **options):
            proto = onnx.load_from_string(model)
            name, changes = json.loads(os.environ["FAULT"])
            (at,) = [n for n in proto.graph.node if n.name == name]
            for attribute, number in changes.items():
                if attribute.isdigit():
                    at.input[int(attribute)] = number
                    continue
                for given in [a for a in at.attribute if a.name == attribute]:
                    at.attribute.remove(given)
                at.attribute.append(onnx.helper.make_attribute(attribute, number))
            return real(proto.SerializeToString(), *rest, **options)

        onnxruntime.InferenceSession = planted
        return onnxruntime.__spec__

sys.meta_path.insert(0, Planting())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Convolution, norm, attention by hand and a feed-forward part, on x: f32[n, 3, 6, 6]."""
    draw = np.random.default_rng(0)

    def of(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) / np.sqrt(shape[0])).astype("f4")

    def named(path: str, op: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
        made = node(op, inputs, outputs, **attributes)
        made.name = path
        return made

    nodes = [
        named("/stem/Conv", "Conv", "x conv.w conv.b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        named("/stem/LeakyRelu", "LeakyRelu", "c", "r", alpha=0.2),
        named("/Reshape", "Reshape", "r flat", "f"),
        named("/Transpose", "Transpose", "f", "t", perm=[0, 2, 1]),
        named("/norm/LayerNormalization", "LayerNormalization", "t norm.w norm.b", "n", epsilon=1e-5),
        named("/attn/Q", "MatMul", "n q.w", "q"),
        named("/attn/K", "MatMul", "n k.w", "k"),
        named("/attn/V", "MatMul", "n v.w", "v"),
        named("/attn/T", "Transpose", "k", "kt", perm=[0, 2, 1]),
        named("/attn/Scores", "MatMul", "q kt", "s"),
        named("/attn/Softmax", "Softmax", "s", "p", axis=-1),
        named("/attn/Mix", "MatMul", "p v", "a"),
        named("/Add", "Add", "t a", "h"),
        named("/mlp/Up", "MatMul", "h up.w", "u"),
        named("/mlp/Gelu", "Gelu", "u", "g", approximate="none"),
        named("/mlp/Down", "MatMul", "g down.w", "y"),
    ]
    weights = {"conv.w": of(8, 3, 3, 3), "conv.b": of(8), "norm.w": 1 + of(8), "norm.b": of(8)}
    weights |= {f"{name}.w": of(8, 8) for name in ("q", "k", "v")} | {"up.w": of(8, 16), "down.w": of(16, 8)}
    weights["flat"] = np.array([0, 8, 36])
    path = tmp_path_factory.mktemp("faults") / "model.onnx"
    onnx.save(model_of(nodes, [value("x", ["n", 3, 6, 6])], [value("y", ["n", 36, 8])], weights), path)
    return path


@pytest.fixture(scope="module")
def planted_python(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    (folder / "sitecustomize.py").write_text(PLANTED)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return script


# The node, what ONNX Runtime gets instead, the value that differs first (attention is one value), and what is said of it.
FAULTS = {
    "epsilon": ("/norm/LayerNormalization", {"epsilon": 1e-1}, "n", "layer_norm", "eps"),
    "slope": ("/stem/LeakyRelu", {"alpha": 0.01}, "r", "leaky_relu", "0.01"),
    "gelu": ("/mlp/Gelu", {"approximate": "tanh"}, "g", "gelu", "tanh"),
    "axis": ("/attn/Softmax", {"axis": 1}, "a", "scaled_dot_product_attention", ""),
    "padding": ("/stem/Conv", {"pads": [0, 1, 2, 1]}, "c", "conv2d", ""),
    "operand": (
        "/attn/Scores",
        {"0": "v"},
        "a",
        "scaled_dot_product_attention",
        "node:q where the model uses node:v",
    ),
    "weight": ("/attn/V", {"1": "k.w"}, "v", "linear", "looks like v.w where the model uses k.w"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_named(fault, model, planted_python, monkeypatch, pycandle) -> None:
    name, changes, tensor, op, cause = FAULTS[fault]
    monkeypatch.setenv("FAULT", json.dumps([name, changes]))
    options = ("--against", "onnxruntime", "--set", "s0=2", "--python", planted_python)
    result = pycandle.json("verify", model, *options, status=1)
    (wrong,) = [layer for layer in result["layers"] if layer["verdict"] == "wrong here"]
    print(wrong)
    assert wrong["tap"] == f"node:{tensor}" and wrong["op"] == op
    assert cause in (wrong.get("diagnosis") or {}).get("cause", "")


def test_without_a_fault_both_agree(model, planted_python, monkeypatch, pycandle) -> None:
    """The changed session itself does no harm."""
    monkeypatch.setenv("FAULT", json.dumps(["/norm/LayerNormalization", {"epsilon": 1e-5}]))
    options = ("--against", "onnxruntime", "--set", "s0=2", "--python", planted_python)
    result = pycandle.json("verify", model, *options)
    assert len(result["layers"]) == 13 and result["against"] == "ONNX Runtime"
