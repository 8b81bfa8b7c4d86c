"""Attention of com.microsoft, as graph optimisers and ONNX Runtime's model builder write it, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_files import INT64

from pycandle import load_model

HEADS, SHARED, SIZE = 4, 2, 16
WIDTH = HEADS * SIZE


def of(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def tables(count: int = 16) -> dict[str, np.ndarray]:
    angles = np.outer(np.arange(count), 1 / 100 ** (np.arange(SIZE // 2) / (SIZE // 2)))
    return {"cos_cache": np.cos(angles).astype("f4"), "sin_cache": np.sin(angles).astype("f4")}


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, "i4")


def mha(batch: int = 2, length: int = 5, keys: int = 5, **more) -> dict:
    given = {
        "query": of(batch, length, WIDTH),
        "key": of(batch, keys, WIDTH + 0),
        "value": of(batch, keys, WIDTH),
    }
    return {"op": "MultiHeadAttention", "inputs": {**given, **more}, "num_heads": HEADS}


def gqa(batch: int, length: int, past: int | None, lengths: np.ndarray, total: int, **more) -> dict:
    given = {
        "query": of(batch, length, WIDTH),
        "key": of(batch, length, SHARED * SIZE),
        "value": of(batch, length, SHARED * SIZE) * 2,
        "seqlens_k": lengths,
        "total_sequence_length": np.array(total, "i4"),
    }
    if past is not None:
        given |= {"past_key": of(batch, SHARED, past, SIZE), "past_value": of(batch, SHARED, past, SIZE) + 1}
    return {
        "op": "GroupQueryAttention",
        "inputs": given | more,
        "num_heads": HEADS,
        "kv_num_heads": SHARED,
        "outputs": 3,
    }


def packed(length: int) -> dict:
    made = gqa(2, length, 0, ints(length - 1, length - 1), length)
    parts = [made["inputs"].pop(name) for name in ("query", "key", "value")]
    made["inputs"]["query"] = np.concatenate(parts, 2)
    return made


def attention(**more) -> dict:
    given = {"input": of(2, 5, 12), "weights": of(12, 3 * WIDTH) / 4, "bias": of(3 * WIDTH)}
    return {"op": "Attention", "inputs": {**given, **more}, "num_heads": HEADS}


NAMES = {
    "MultiHeadAttention": "query key value bias key_padding_mask attention_bias past_key past_value",
    "Attention": "input weights bias mask_index past attention_bias",
    "GroupQueryAttention": "query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache "
    "position_ids attention_bias",
}
CASES = {
    "multi-head": mha(),
    "cross attention": mha(keys=7),
    "bias": mha(bias=of(3 * WIDTH)),
    "causal": mha() | {"unidirectional": 1},
    "scale": mha() | {"scale": 0.2},
    "padding": mha(key_padding_mask=np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4")),
    "mask filter": mha(key_padding_mask=np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], "i4"))
    | {"mask_filter_value": -3.0},
    "added bias": mha(attention_bias=of(2, HEADS, 5, 5)),
    "past": mha(length=1, keys=1, past_key=of(2, HEADS, 4, SIZE), past_value=of(2, HEADS, 4, SIZE))
    | {"outputs": 3},
    "attention": attention(),
    "attention, causal": attention() | {"unidirectional": 1},
    "attention, padding": attention(mask_index=np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "i4")),
    "attention, lengths": attention(mask_index=ints(3, 5)),
    "attention, past": attention(past=of(2, 2, HEADS, 3, SIZE)) | {"unidirectional": 1, "outputs": 2},
    "prompt": gqa(2, 5, 0, ints(4, 4), 5),
    "prompt without a cache": gqa(2, 5, None, ints(4, 4), 5),
    "prompt, rotated": gqa(2, 5, 0, ints(4, 4), 5, **tables()) | {"do_rotary": 1},
    "token": gqa(2, 1, 6, ints(6, 6), 7, **tables()) | {"do_rotary": 1},
    "token, interleaved": gqa(2, 1, 6, ints(6, 6), 7, **tables()) | {"do_rotary": 1, "rotary_interleaved": 1},
    "window": gqa(1, 8, 0, ints(7), 8) | {"local_window_size": 3},
    "softcap": gqa(1, 5, 0, ints(4), 5) | {"softcap": 2.0},
    "packed, grouped": packed(5),
}


def saved(case: dict, path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    op, inputs = case["op"], case["inputs"]
    names = [name if name in inputs else "" for name in NAMES[op].split()]
    while not names[-1]:
        names.pop()
    outputs = ["y", "present_key", "present_value"][: case.get("outputs", 1)]
    attributes = {k: v for k, v in case.items() if k not in ("op", "inputs", "outputs")}
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
    kinds = {"f4": TensorProto.FLOAT, "i4": TensorProto.INT32, "i8": INT64}
    infos = [
        helper.make_tensor_value_info(n, kinds[a.dtype.str[1:]], a.shape)
        for n, a in inputs.items()
        if n in names
    ]
    graph = helper.make_graph([node], "attention", infos, [onnx.ValueInfoProto(name=o) for o in outputs])
    for output in graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    onnx.save(model, path)
    return path, inputs


@pytest.mark.parametrize("name", CASES)
def test_attention_computes_what_onnx_runtime_computes(name, tmp_path) -> None:
    path, inputs = saved(CASES[name], tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path)
    theirs = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))
    for backend in ("reference", "cpu"):
        ours = load_model(path, backend=backend).forward(**inputs)
        for output, wanted in theirs.items():
            found = np.asarray(ours[f"output.{output}"])
            assert found.shape == wanted.shape, output
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5, err_msg=output)


def test_packed_queries_keys_and_values_are_those_that_stand_apart(tmp_path) -> None:
    """ONNX Runtime has kernels for these on other devices alone."""

    def y_of(inputs: dict, name: str) -> np.ndarray:
        case = {"op": "MultiHeadAttention", "inputs": inputs, "num_heads": HEADS}
        return load_model(saved(case, tmp_path / f"{name}.onnx")[0]).forward(**inputs)["output.y"]

    apart = mha()["inputs"]
    q, k, v = (x.reshape(2, 5, HEADS, SIZE) for x in apart.values())
    wanted = y_of(apart, "apart")
    all_packed = y_of({"query": np.stack([q, k, v], 3)}, "queries")
    keys_packed = y_of({"query": apart["query"], "key": np.stack([k, v], 3)}, "keys")
    np.testing.assert_array_equal(all_packed, wanted)
    np.testing.assert_array_equal(keys_packed, wanted)


def test_sequences_of_other_lengths_stand_where_their_rows_end(tmp_path) -> None:
    """Rows behind a sequence's end are nobody's: the two that count are compared."""
    case = gqa(2, 1, 6, ints(3, 6), 7, **tables()) | {"do_rotary": 1}
    path, inputs = saved(case, tmp_path / "model.onnx")
    wanted, keys, _ = onnxruntime.InferenceSession(path).run(None, inputs)
    ours = load_model(path).forward(**inputs)
    np.testing.assert_allclose(ours["output.y"], wanted, rtol=1e-4, atol=2e-5)
    for b, end in enumerate((4, 7)):
        found = ours["output.present_key"][b, :, :end]
        np.testing.assert_allclose(found, keys[b, :, :end], rtol=1e-4, atol=2e-5)


def test_what_is_not_read_is_refused_by_name(tmp_path) -> None:
    case = gqa(1, 5, 0, ints(4), 5) | {"smooth_softmax": 1}
    path, _ = saved(case, tmp_path / "model.onnx")
    with pytest.raises(Exception, match="a softmax without a sink"):
        load_model(path)
