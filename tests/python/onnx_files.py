"""ONNX files for tests: small graphs, and hostile ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: list, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    """node("Add", "x w", "y")"""
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"/layer/{op}.{outputs}", **attributes)


def graph(nodes, inputs, outputs, initializers=None) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
    return helper.make_graph(nodes, "main", inputs, outputs, tensors)


def model_of(nodes, inputs, outputs, initializers=None, opset: int = 20) -> onnx.ModelProto:
    made = helper.make_model(
        graph(nodes, inputs, outputs, initializers), opset_imports=[helper.make_opsetid("", opset)]
    )
    made.ir_version = 10  # ONNX Runtime is behind the newest
    return made


def small() -> onnx.ModelProto:
    """y = relu(x w + b), on x: f32[n, 4]."""
    rng = np.random.default_rng(0)
    return model_of(
        [node("Gemm", "x w b", "h"), node("Relu", "h", "y")],
        [value("x", ["n", 4])],
        [value("y", ["n", 3])],
        {"w": rng.standard_normal((4, 3)).astype("f4"), "b": rng.standard_normal(3).astype("f4")},
    )


def _changed(change) -> bytes:
    model = small()
    change(model)
    return model.SerializeToString()


def _tensor(**fields) -> bytes:
    """The small model with other fields of the tensor w."""

    def change(model: onnx.ModelProto) -> None:
        w = model.graph.initializer[0]
        for name, content in fields.items():
            if name == "dims":
                w.ClearField("dims")
                w.dims.extend(content)
            elif name == "external":
                w.ClearField("raw_data")
                w.data_location = TensorProto.EXTERNAL
                for key, text in content.items():
                    entry = w.external_data.add()
                    entry.key, entry.value = key, text
            elif name == "clear":
                w.ClearField(content)
            elif name == "floats":
                w.ClearField("raw_data")
                w.float_data.extend(content)
            else:
                setattr(w, name, content)

    return _changed(change)


def _graph(nodes, inputs=None, outputs=None, initializers=None, opset: int = 20) -> bytes:
    inputs = [value("x", [2, 3])] if inputs is None else inputs
    outputs = [value("y", None)] if outputs is None else outputs
    return model_of(nodes, inputs, outputs, initializers, opset).SerializeToString()


def _nested(depth: int) -> bytes:
    inner = graph([node("Relu", "x", "y")], [], [value("y", None)])
    for _ in range(depth):
        branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
        inner = graph([branch], [], [value("y", None)])
        inner.node[0].attribute[1].g.ClearField("node")  # one branch is enough
    return helper.make_model(inner).SerializeToString()


def _length_delimited(field: int, claimed: int, content: bytes = b"") -> bytes:
    out = bytearray([field << 3 | 2])
    while claimed > 127:
        out.append(claimed & 127 | 128)
        claimed >>= 7
    out.append(claimed)
    return bytes(out) + content


def _ints(*numbers: int) -> dict[str, np.ndarray]:
    return {"s": np.array(numbers, "i8")}


def _broken_messages() -> Iterator[tuple[str, bytes]]:
    """Not the protobuf messages that they claim to be."""
    whole = small().SerializeToString()
    yield "empty", b""
    yield "text", b"This is a text and no model, of a length that may be one."
    yield "zeros", bytes(512)
    yield "a pickle", b"\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03."
    for part in range(1, 10):
        yield f"truncated at {part}0 %", whole[: len(whole) * part // 10]
    yield "a graph of 2 GB", _length_delimited(7, 2**31 - 1, b"\x0a\x00")
    yield "a length beyond 32 bits", _length_delimited(7, 2**40, b"\x0a\x00")
    yield "a varint without an end", b"\x08" + b"\xff" * 20
    yield "a group", b"\x0b\x0c"
    yield "a number where the graph should be", b"\x38\x01"
    yield "no graph", _changed(lambda m: m.ClearField("graph"))
    yield "two graphs", whole + _length_delimited(7, 0)
    yield "no operator sets", _changed(lambda m: m.ClearField("opset_import"))
    yield "an operator set twice", _changed(lambda m: m.opset_import.add())


def _broken_graphs() -> Iterator[tuple[str, bytes]]:
    """Values and nodes that do not fit together."""
    yield "no outputs", _changed(lambda m: m.graph.ClearField("output"))
    yield "an output that nothing gives", _changed(lambda m: setattr(m.graph.output[0], "name", "z"))
    yield (
        "a wrong output type",
        _changed(lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", INT64)),
    )
    yield "an initializer twice", _changed(lambda m: m.graph.initializer.append(m.graph.initializer[0]))
    yield "a value given twice", _changed(lambda m: m.graph.node.append(m.graph.node[0]))
    yield "a node without an operator", _changed(lambda m: m.graph.node[0].ClearField("op_type"))
    yield "nodes in the wrong order", _changed(lambda m: m.graph.node.reverse())
    yield "a cycle", _graph([node("Add", "x y", "h"), node("Relu", "h", "y")])
    yield "a missing input", _graph([node("Add", "x nowhere", "y")])
    yield "too few inputs", _graph([node("Add", "x", "y")])
    yield "too many inputs", _graph([node("Relu", "x x", "y")])


def _broken_tensors() -> Iterator[tuple[str, bytes]]:
    """Sizes and bytes that are not what they claim to be, and data elsewhere."""
    yield "a negative dim", _tensor(dims=[-4, 3])
    yield "dims that overflow", _tensor(dims=[2**62, 8])
    yield "a claim of a terabyte", _tensor(dims=[2**38])
    yield "65 dims", _tensor(dims=[1] * 65)
    yield "too few bytes", _tensor(raw_data=b"\0" * 44)
    yield "too many bytes", _tensor(raw_data=b"\0" * 52)
    yield "too few floats", _tensor(floats=[1.0] * 11)
    yield "no data at all", _tensor(clear="raw_data")
    yield "an unknown element type", _tensor(data_type=99)
    yield "a negative element type", _tensor(data_type=-5)
    yield "data outside the folder", _tensor(external={"location": "../secret"})
    yield "data at an absolute path", _tensor(external={"location": "/etc/passwd"})
    yield "data behind a link", _tensor(external={"location": "link"})
    yield "data in a file that is not there", _tensor(external={"location": "nowhere.bin"})
    yield "data in a folder", _tensor(external={"location": "."})
    yield "data after the end", _tensor(external={"location": "data.bin", "offset": "1000"})
    yield "data beyond the end", _tensor(external={"location": "data.bin", "length": "1000"})
    yield "an offset that is no number", _tensor(external={"location": "data.bin", "offset": "-1"})
    yield "data nowhere", _tensor(external={"length": "48"})


def _broken_calls() -> Iterator[tuple[str, bytes]]:
    """Operators on what they do not take."""
    yield "a negative input size", _graph([node("Relu", "x", "y")], [value("x", [-2, 3])])
    yield "graphs in graphs", _nested(20)
    yield (
        "an attribute twice",
        _changed(lambda m: m.graph.node[0].attribute.extend([helper.make_attribute("alpha", 1.0)] * 2)),
    )
    yield (
        "shapes that do not broadcast",
        _graph([node("Add", "x w", "y")], initializers={"w": np.ones((2, 2), "f4")}),
    )
    yield "two dtypes", _graph([node("Add", "x w", "y")], initializers={"w": np.ones((2, 3), "f8")})
    yield "a reshape to another size", _graph([node("Reshape", "x s", "y")], initializers=_ints(5, 5))
    yield "two sizes of -1", _graph([node("Reshape", "x s", "y")], initializers=_ints(-1, -1))
    yield "a huge shape", _graph([node("Expand", "x s", "y")], initializers=_ints(2**40, 2**40, 2, 3))
    yield "a negative shape", _graph([node("ConstantOfShape", "s", "y")], initializers=_ints(-4))
    yield "an axis outside", _graph([node("Softmax", "x", "y", axis=7)])
    yield "axes twice", _graph([node("Unsqueeze", "x s", "y")], initializers=_ints(0, 0))
    yield "a step of 0", _graph([node("Slice", "x s s s s", "y")], initializers=_ints(0))
    yield (
        "an index outside",
        _graph([node("Gather", "x s", "h"), node("Expand", "h h", "y")], initializers=_ints(9)),
    )
    yield "a kernel of 0", _graph([node("MaxPool", "x", "y", kernel_shape=[0])], [value("x", [1, 2, 3])])
    yield (
        "negative pads",
        _graph([node("MaxPool", "x", "y", kernel_shape=[2], pads=[-1, -1])], [value("x", [1, 2, 3])]),
    )
    yield (
        "a kernel of another rank",
        _graph([node("Conv", "x w", "y")], initializers={"w": np.ones((1, 1, 2), "f4")}),
    )
    yield "a split into other sizes", _graph([node("Split", "x s", "y z", axis=1)], initializers=_ints(2, 2))
    yield "a permutation that is none", _graph([node("Transpose", "x", "y", perm=[0, 0])])
    yield "an If without branches", _graph([node("If", "s", "y")], initializers={"s": np.array(True)})


def hostile() -> Iterator[tuple[str, bytes]]:
    """What each is, and its bytes; each must be one clear error."""
    for group in (_broken_messages, _broken_graphs, _broken_tensors, _broken_calls, _control_and_trees):
        yield from group()


def _functions(count: int, calls: int) -> bytes:
    """f0 calls f1 `calls` times, that f2, and so on; the last calls the first when there is one alone."""
    model = model_of(
        [helper.make_node("f0", ["x"], ["y"], domain="mine")], [value("x", [2])], [value("y", [2])]
    )
    for number in range(count):
        names = ["v", *[f"h{i}" for i in range(calls - 1)], "out"]
        inner = f"f{(number + 1) % count}"
        nodes = [helper.make_node(inner, [a], [b], domain="mine") for a, b in pairwise(names)]
        model.functions.append(helper.make_function("mine", f"f{number}", ["v"], ["out"], nodes, [], []))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    return model.SerializeToString()


def _growing_loop(trips: int) -> bytes:
    body = helper.make_graph(
        [node("Identity", "c", "more"), node("Concat", "v v", "next", axis=0)],
        "body",
        [value("i", [], INT64), value("c", [], TensorProto.BOOL), value("v", None)],
        [value("more", [], TensorProto.BOOL), value("next", None)],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    return _graph([loop], initializers={"count": np.array(trips)})


def _tree(**changed) -> bytes:
    lists = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    tree = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **{**lists, **changed}
    )
    model = model_of([tree], [value("x", ["n", 4])], [value("y", ["n", 1])])
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return model.SerializeToString()


def _control_and_trees() -> Iterator[tuple[str, bytes]]:
    yield "a Loop without a body", _graph([node("Loop", "x x", "y")])
    yield "a Scan without a body", _graph([node("Scan", "x", "y", num_scan_inputs=1)])
    yield "a function that calls itself", _functions(1, 1)
    yield "functions in a circle", _functions(3, 2)
    yield "a loop that doubles a tensor 2^40 times", _growing_loop(2**40)
    yield "a loop that doubles a tensor 4,000 times", _growing_loop(4000)
    yield (
        "a sequence read outside",
        _graph(
            [node("SequenceConstruct", "x x", "q"), node("SequenceAt", "q s", "y")],
            initializers={"s": np.array(7)},
        ),
    )
    yield (
        "a sequence where a tensor is read",
        _graph([node("SequenceConstruct", "x x", "q"), node("Relu", "q", "y")]),
    )
    yield "a tree whose child is its parent", _tree(nodes_truenodeids=[0, 0, 0])
    yield "a tree whose child is nowhere", _tree(nodes_truenodeids=[9, 0, 0])
    yield "a tree that reads a feature outside", _tree(nodes_featureids=[2**40, 0, 0])
    yield "a tree that reads feature -1", _tree(nodes_featureids=[-1, 0, 0])
    yield "a leaf for a target outside", _tree(target_ids=[0, 5])
    yield "lists of trees that differ in length", _tree(nodes_values=[0.5])
    yield "2^40 targets", _tree(n_targets=2**40)


def lay_out(folder: Path) -> dict[str, str]:
    """Writes them all, and what they refer to; names by file."""
    (folder / "data.bin").write_bytes(bytes(48))
    (folder.parent / "secret").write_bytes(bytes(48))
    os.symlink(folder.parent / "secret", folder / "link")
    names = {}
    for number, (name, data) in enumerate(hostile()):
        (folder / f"{number:03}.onnx").write_bytes(data)
        names[f"{number:03}.onnx"] = name
    return names
