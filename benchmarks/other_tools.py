"""Ten faults through the tools that people use to find them: torch.onnx.verification, Polygraphy, onnx-diagnostic, and
pycandle verify. The same fault goes into the exported ONNX graph for the others and into the recording for ours.

    uv pip install -r requirements/other-tools.txt   # beside torch and pycandle
    python benchmarks/other_tools.py --program build/release/bin/pycandle

Each tool is asked as its documentation says: every intermediate value compared. `found`: something is over the tolerance
(1e-4). `layer` and `op`: the first value over it is what the changed node gives. `cause`: it says what was computed
instead; a person who reads the numbers may still see it."""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

TOLERANCE = 1e-4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act = nn.LayerNorm(16), nn.GELU()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        weights = torch.softmax(self.q(y) @ self.k(y).transpose(1, 2) * 0.25, -1)
        x = x + weights @ self.v(y)
        z = self.down(self.act(self.up(x)))
        return (x + z) - torch.tanh(x)


def first(nodes: list, op: str, index: int = 0):
    return [node for node in nodes if node.op_type == op][index]


def weight_of(graph, node, slot: int = 1):
    """The initializer that the node, or the transpose before it, takes."""
    return next(i for i in graph.initializer if i.name == node.input[slot])


def changed(change: Callable) -> Callable:
    import onnx

    def apply(graph, node) -> None:
        tensor = weight_of(graph, node)
        array = change(onnx.numpy_helper.to_array(tensor).copy())
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))

    return apply


def set_attribute(node, name: str, value) -> None:
    import onnx

    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def linears(graph) -> list:
    """The matrix products with a weight, in the order of the model: q, k, v, up, down."""
    names = {i.name for i in graph.initializer}
    return [n for n in graph.node if n.op_type in ("MatMul", "Gemm") and n.input[1] in names]


def bias_add(graph, product):
    return next(n for n in graph.node if n.op_type == "Add" and product.output[0] in n.input)


def with_bias(graph, product) -> tuple:
    """A linear layer is one node or two."""
    return (product,) if product.op_type == "Gemm" else (product, bias_add(graph, product))


def drop_bias(graph) -> object:
    product = linears(graph)[3]
    if product.op_type == "Gemm":
        del product.input[2]
        return product
    add = bias_add(graph, product)
    name = next(n for n in add.input if n != product.output[0])
    tensor = next(i for i in graph.initializer if i.name == name)
    import onnx

    tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(24, np.float32), name))
    return add


def corrupt(array: np.ndarray) -> np.ndarray:
    array.flat[37] += 0.1
    return array


def on_linear(index: int, change: Callable) -> Callable:
    def edit(graph) -> object:
        node = linears(graph)[index]
        changed(change)(graph, node)
        return with_bias(graph, node)

    return edit


def other_weight(graph) -> object:
    q, k = linears(graph)[:2]
    q.input[1] = k.input[1]
    return with_bias(graph, q)


def with_node(op: str, index: int, change: Callable) -> Callable:
    def edit(graph) -> object:
        node = first(list(graph.node), op, index)
        change(graph, node)
        return node

    return edit


def another_scale(graph, node) -> None:
    import onnx

    name = next(n for n in node.input if any(i.name == n for i in graph.initializer))
    tensor = next(i for i in graph.initializer if i.name == name)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(0.3, np.float32), name))


def without_residual(graph) -> object:
    sums = [n for n in graph.node if n.op_type == "Add" and not any(
        i.name in n.input for i in graph.initializer)]  # fmt: skip
    node = sums[0]
    keep = next(n for n in node.input if n != graph.input[0].name)
    node.op_type = "Identity"
    del node.input[:]
    node.input.append(keep)
    return node


def swapped(graph, node) -> None:
    a, b = node.input
    node.input[0], node.input[1] = b, a


# name → (edit of the ONNX graph → the changed node, edit of our recording: op, which, argument, value, or weights)
FAULTS: dict[str, tuple[Callable, Callable]] = {
    "epsilon 1e-2": (
        with_node("LayerNormalization", 0, lambda g, n: set_attribute(n, "epsilon", 1e-2)),
        lambda r: r.argument("aten.layer_norm.default", 0, "eps", {"float": 1e-2}),
    ),
    "tanh GELU": (
        with_node("Gelu", 0, lambda g, n: set_attribute(n, "approximate", "tanh")),
        lambda r: r.argument("aten.gelu.default", 0, "approximate", "tanh"),
    ),
    "transposed weight": (on_linear(2, lambda a: a.T), lambda r: r.weight("v.weight", lambda w: w.T)),
    "missing bias": (drop_bias, lambda r: r.argument("aten.linear.default", 3, "bias", None)),
    "softmax over another dim": (
        with_node("Softmax", 0, lambda g, n: set_attribute(n, "axis", 1)),
        lambda r: r.argument("aten.softmax.int", 0, "dim", 1),
    ),
    "missing residual": (without_residual, lambda r: r.only_other("aten.add.Tensor", 0)),
    "another scale": (
        with_node("Mul", 0, another_scale),
        lambda r: r.argument("aten.mul.Tensor", 0, "other", {"float": 0.3}),
    ),
    "wrong weight": (other_weight, lambda r: r.tied("q.weight", "k.weight")),
    "operands swapped": (with_node("Sub", 0, swapped), lambda r: r.swapped("aten.sub.Tensor", 0)),
    "one corrupted element": (on_linear(4, corrupt), lambda r: r.weight("down.weight", corrupt)),
}


# ---- the tools: each gives (found, is the changed node's value the first, op, cause)


def over(difference: float | None) -> bool:
    return difference is not None and not difference <= TOLERANCE


def torch_verification(program, good, bad, values, inputs) -> tuple:
    import onnx_ir
    from torch.onnx import verification

    edited = copy.copy(program)
    edited.model = onnx_ir.serde.deserialize_model(bad)
    rows = verification.verify_onnx_program(edited, inputs, compare_intermediates=True)
    wrong = [row.name for row in rows if over(row.max_abs_diff)]
    return bool(wrong), *2 * (bool(wrong) and wrong[0] in values,), False


def polygraphy(program, good, bad, values, inputs) -> tuple:
    from polygraphy import constants
    from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator, CompareFunc

    def runner(model) -> OnnxrtRunner:
        return OnnxrtRunner(
            SessionFromOnnx(BytesFromOnnx(ModifyOutputs(copy.deepcopy(model), outputs=constants.MARK_ALL)))
        )

    feed = [{good.graph.input[0].name: inputs[0].numpy()}]
    results = Comparator.run([runner(good), runner(bad)], data_loader=feed)
    compare = CompareFunc.simple(atol=TOLERANCE, rtol=TOLERANCE)
    (result,) = Comparator.compare_accuracy(results, compare_func=compare)
    ((first_iteration,),) = result.values()
    wrong = [name for name, fits in first_iteration.items() if not fits]
    return bool(wrong), *2 * (bool(wrong) and wrong[0] in values,), False


def onnx_diagnostic(program, good, bad, values, inputs) -> tuple:
    from onnx_diagnostic.reference import OnnxruntimeEvaluator
    from onnx_diagnostic.torch_onnx.sbs import run_aligned

    rows = list(run_aligned(program.exported_program, bad, OnnxruntimeEvaluator, inputs, use_tensor=True))
    wrong = [row for row in rows if over(row.err_abs)]
    return bool(wrong), *2 * (bool(wrong) and wrong[0].onnx_name in values,), False


class Recording:
    """A copy of the recording with one thing changed."""

    def __init__(self, manifest: Path, folder: Path) -> None:
        shutil.copytree(manifest.parent, folder)
        self.manifest = folder / manifest.name
        self.document = json.loads(self.manifest.read_text())

    def node(self, op: str, index: int) -> dict:
        return [node for node in self.document["nodes"] if node["op"] == op][index]

    def argument(self, op: str, index: int, name: str, value: object) -> None:
        args = self.node(op, index)["args"]
        found = [pair for pair in args if pair[0] == name]
        if found:
            found[0][1] = value
        else:
            args.append([name, value])

    def swapped(self, op: str, index: int) -> None:
        (a, b) = self.node(op, index)["args"][:2]
        a[1], b[1] = b[1], a[1]

    def only_other(self, op: str, index: int) -> None:
        """The second operand alone, as the Identity in the ONNX graph."""
        node = self.node(op, index)
        node["args"] = [["self", node["args"][1][1]], ["memory_format", None]]
        node["op"] = "aten.clone.default"

    def tied(self, used: str, other: str) -> None:
        by_name = {p["name"]: p for p in self.document["parameters"]}
        by_name[used]["key"] = by_name[other]["key"]

    def weight(self, name: str, change: Callable) -> None:
        from safetensors.numpy import load_file, save_file

        file = next(self.manifest.parent.glob("*_weights.safetensors"))
        tensors = load_file(file)
        tensors[name] = np.ascontiguousarray(change(tensors[name].copy()))
        save_file(tensors, file)


def ours(manifest: Path, edit: Callable, folder: Path, program: str) -> tuple:
    recording = Recording(manifest, folder)
    edit(recording)
    recording.manifest.write_text(json.dumps(recording.document))
    said = subprocess.run(
        [program, "verify", recording.manifest, "--json"], capture_output=True, text=True, check=False
    )
    if said.returncode > 1:
        raise RuntimeError(said.stdout + said.stderr)
    wrong = [row for row in json.loads(said.stdout)["layers"] if row["verdict"] == "wrong here"]
    diagnosis = wrong[0]["diagnosis"] if wrong else {}
    print(f"    {[row['tap'] for row in wrong]} {diagnosis.get('op')}: {diagnosis.get('cause')}")
    return (
        bool(wrong),
        bool(wrong),
        bool(wrong) and "," not in diagnosis["op"],
        bool(diagnosis.get("cause_kind")),
    )


def asked(check: Callable, *arguments) -> tuple | str:
    try:
        return check(*arguments)
    except Exception as error:  # a tool that fails on the graph: the table says so
        print(f"    {check.__name__}: {type(error).__name__}: {str(error)[:300]}")
        return "fails"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="pycandle")
    parser.add_argument("--tools", default="", help="only those whose names have this in them")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    from pycandle import GoldenRecorder, perturb

    torch.manual_seed(0)
    model = Model().eval()
    perturb(model, seed=1)
    inputs = (torch.randn(2, 6, 16),)
    program = torch.onnx.export(model, inputs, dynamo=True, optimize=True, verbose=False, opset_version=20)
    good = program.model_proto
    tools = {
        "torch.onnx.verification": torch_verification,
        "Polygraphy": polygraphy,
        "onnx-diagnostic": onnx_diagnostic,
    }
    with tempfile.TemporaryDirectory() as folder:
        recorder = GoldenRecorder(Path(folder) / "recording")
        recorder.record(model, *inputs)
        recorder.save("model")
        manifest = Path(folder) / "recording" / "model_manifest.json"
        for name, (in_onnx, in_recording) in FAULTS.items():
            bad = copy.deepcopy(good)
            nodes = in_onnx(bad.graph)
            values = {v for node in (nodes if isinstance(nodes, tuple) else (nodes,)) for v in node.output}
            row = {
                tool: asked(check, program, good, bad, values, inputs)
                for tool, check in tools.items()
                if options.tools in tool
            }
            row["pycandle"] = asked(ours, manifest, in_recording, Path(folder) / name, options.program)
            words = ("found", "layer", "op", "cause")
            cells = [
                said
                if isinstance(said, str)
                else ", ".join(w for w, yes in zip(words, said, strict=True) if yes) or "-"
                for said in row.values()
            ]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
