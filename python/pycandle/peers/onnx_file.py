"""An ONNX file in ONNX Runtime, for `pycandle export`: is it well-formed, and what does it compute?"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

NEWEST_TRIED, OLDEST_TRIED = 26, 20


def session_of(model: str | bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def with_f32_ends(path: Path) -> str | bytes:
    """NumPy has no bf16: such inputs and outputs are f32 here, which holds all their values."""
    model = onnx.load(path)
    narrow, wide = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    ends = [e for e in (*model.graph.input, *model.graph.output) if e.type.tensor_type.elem_type == narrow]
    if not ends:
        return str(path)
    for value in ends:
        inner, is_input = value.name, value in model.graph.input
        value.name, value.type.tensor_type.elem_type = f"{inner}_as_f32", wide
        names, to = ([value.name], [inner]) if is_input else ([inner], [value.name])
        cast = onnx.helper.make_node("Cast", names, to, to=narrow if is_input else wide)
        model.graph.node.insert(0 if is_input else len(model.graph.node), cast)
    return model.SerializeToString()


def newest_opset() -> int:
    """The newest version of the operators that the installed ONNX Runtime takes; 0 when it takes none."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "probe", [x], [y])
    for opset in range(min(NEWEST_TRIED, onnx.defs.onnx_opset_version()), OLDEST_TRIED - 1, -1):
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        model.ir_version = onnx.helper.find_min_ir_version_for(model.opset_import)
        try:
            session_of(model.SerializeToString())
        except Exception:  # its exceptions have no common base
            continue
        return opset
    return 0


def run(model: Path, inputs: Path, outputs: Path) -> dict[str, str]:
    """Writes the outputs as 0000, 0001, … and says what ran."""
    try:
        onnx.checker.check_model(str(model), full_check=True)
        session = session_of(with_f32_ends(model))
        given = load_file(inputs)
        feeds = {entry.name: given[entry.name.removesuffix("_as_f32")] for entry in session.get_inputs()}
        found = session.run(None, feeds)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    save_file({f"{i:04}": np.array(array, order="C") for i, array in enumerate(found)}, outputs)
    return {"runner": f"onnxruntime {onnxruntime.__version__}"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--newest-opset", action="store_true")
    for name in ("--model", "--inputs", "--outputs"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    if arguments.newest_opset:
        print(newest_opset(), file=answers)
    else:
        print(json.dumps(run(arguments.model, arguments.inputs, arguments.outputs)), file=answers)
    answers.flush()
    sys.stdout = sys.stderr


if __name__ == "__main__":
    main()
