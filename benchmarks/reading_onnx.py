"""How long an ONNX file of 537 MB takes to read, beside ONNX Runtime's session of it: `pycandle inspect`, the whole process, at
most 0.2 of the time that the session alone takes. In the page cache both times, one thread.

    .venv/bin/python benchmarks/reading_onnx.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

PROGRAM = Path(sys.executable).with_name("pycandle")
LIMIT = 0.2


def stack(path: Path, width: int, layers: int = 8) -> None:
    """Products and activations, of width * width * layers weights."""
    generator = np.random.default_rng(0)
    nodes, tensors, x = [], [], "x"
    for i in range(layers):
        weight = generator.standard_normal((width, width), dtype=np.float32)
        tensors.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"h{i}"]))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"y{i}"]))
        x = f"y{i}"
    ends = [helper.make_tensor_value_info(name, 1, ["n", width]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    onnx.save(model, path)


def measured(path: Path, rounds: int = 4) -> tuple[float, float]:
    """The shortest times in seconds, ours and ONNX Runtime's, measured in turns."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    ours, theirs = [], []
    for _ in range(rounds):
        start = time.monotonic()
        run = subprocess.run([PROGRAM, "inspect", path, "--json"], check=True, capture_output=True)
        ours.append(time.monotonic() - start)
        assert json.loads(run.stdout)["ops"]["relu"] > 0
        start = time.monotonic()
        session = onnxruntime.InferenceSession(path, options)
        theirs.append(time.monotonic() - start)
        del session
    return min(ours), min(theirs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=4096, help="of the matrices (%(default)s: 537 MB)")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stack.onnx"
        stack(path, arguments.width)
        size = path.stat().st_size / 1e6
        ours, theirs = measured(path, arguments.rounds)
    ratio = ours / theirs
    print(
        f"{size:.0f} MB: read in {ours:.3f} s, session of ONNX Runtime in {theirs:.3f} s: {ratio:.2f} of its time"
    )
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
