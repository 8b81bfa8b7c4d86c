"""The tests that the `onnx` package brings, through its own runner; scripts/onnx_tests.py writes the table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from pycandle import onnx_backend

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("onnx_tests", ROOT / "scripts" / "onnx_tests.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_tests"] = module  # the processes that it starts look for it
    spec.loader.exec_module(module)
    return module


# One of each mechanism: shapes by inputs, subgraphs, sequences, optional values, narrow dtypes, quantisation, trees.
SAMPLE = (
    "attention_4d_gqa_causal|lstm_with_peepholes|gru_seq_length|loop13_seq|loop11|scan9_sum|scan_sum|if_opt|if_seq|"
    "sequence_map_add_1|sequence_insert_at_front|optional_get_element_tensor|cast_FLOAT_to_FLOAT8E4M3FN|"
    "cast_UINT4_to_FLOAT|castlike_FLOAT_to_FLOAT8E5M2FNUZ|dequantizelinear_blocked|quantizelinear_axis|qlinearconv|"
    "ai_onnx_ml_tree_ensemble_set|resize_downsample_sizes_cubic|nonmaxsuppression_two|unique_not_sorted|reshape_allowzero|"
    "col2im_pads|maxpool_with_argmax_2d_precomputed_strides|nllloss_NCd1d2_with_weight|dft_onesided|tfidfvectorizer_tf_only"
)


@pytest.mark.parametrize("kinds", [SAMPLE])
def test_a_sample_of_onnxs_own_tests_passes(script, kinds) -> None:
    found = {key[1]: script.outcome(case) for key, case in script.tests_of("pycandle", kinds).items()}
    assert len(found) > 40
    assert not {name: text[-800:] for name, text in found.items() if text}


@pytest.mark.full
def test_99_of_100_of_onnxs_own_tests_pass(script) -> None:
    ours = script.run("pycandle", "", 2)
    counted = {key: text for key, text in ours.items() if script.apart(*key) is None}
    failing = {key[1]: script.reason_of(text) for key, text in counted.items() if text}
    assert len(counted) > 1800
    assert len(failing) <= 0.01 * len(counted), failing


def test_a_shape_that_an_input_says_is_read_for_each_call() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    infos = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [24]),
        helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [2]),
    ]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [output]), opset_imports=[helper.make_opsetid("", 20)]
    )
    prepared = onnx_backend.prepare(model)
    x = np.arange(24, dtype="f4")
    for shape in ([4, 6], [3, -1]):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))
    assert prepared.fixed == ["shape"]


def test_one_node_runs_alone() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (c,) = onnx_backend.run_node(node, [np.ones(3, "f4"), np.arange(3, dtype="f4")])
    np.testing.assert_array_equal(c, [1, 2, 3])
