"""ONNX files: what they become, beside ONNX Runtime, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from onnx_files import INT64, lay_out, model_of, node, small, value

import pycandle as package
from pycandle import load_model

BACKENDS = ["reference", "cpu"]


def saved(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    onnx.save(model, folder / name)
    return folder / name


def outputs_of(path: Path, inputs: dict, backend: str = "reference") -> dict[str, np.ndarray]:
    outputs = load_model(path, backend=backend).forward(**inputs)
    return {name.removeprefix("output."): np.asarray(array) for name, array in outputs.items()}


def onnxruntime_outputs(path: Path, inputs: dict) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))


def assert_equal_outputs(ours: dict, theirs: dict, tolerance: float = 5e-6) -> None:
    assert ours.keys() == theirs.keys()
    for name, wanted in theirs.items():
        found = ours[name]
        assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
        scale = np.abs(wanted).max(initial=1e-30)
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=tolerance, err_msg=name)


# ---- models that torch exported


class Net(torch.nn.Module):
    """Convolutions, norms, attention, and shapes that depend on the input's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.BatchNorm2d(8)
        self.layer = torch.nn.TransformerEncoderLayer(
            8, 2, 16, activation="gelu", batch_first=True, norm_first=True
        )
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        h = self.layer(h.flatten(2).transpose(1, 2))
        return self.head(torch.cat([h.mean(1), h[:, -1]], 0).reshape(-1, 2, 8).sum(1))


def exported(name: str):
    torch.manual_seed(0)
    images, tokens = torch.randn(2, 3, 32, 32), torch.randint(0, 200, (2, 7))
    if name == "net":
        return Net(), {"x": images}, {"x": {0: "batch"}}
    import torchvision
    import transformers

    if name in ("resnet18", "mobilenet_v2", "mobilenet_v3_small"):
        return getattr(torchvision.models, name)(), {"x": images}, {"x": {0: "batch"}}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    both = {0: "batch", 1: "seq"}
    if name == "bert":
        model = transformers.BertModel(transformers.BertConfig(vocab_size=200, **sizes))
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return model, inputs, dict.fromkeys(inputs, both)
    if name == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=200, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False
        )
        return transformers.GPT2LMHeadModel(config), {"input_ids": tokens}, {"input_ids": both}
    config = transformers.ViTConfig(image_size=32, patch_size=8, **sizes)
    return transformers.ViTModel(config), {"pixel_values": images}, {"pixel_values": {0: "batch"}}


def export(name: str, folder: Path, **options) -> tuple[Path, dict]:
    model, inputs, dynamic = exported(name)
    package.perturb(model.eval(), seed=1)
    path = folder / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = list(inputs)
        if options.get("dynamo", True):
            options |= {"dynamic_shapes": tuple(dynamic.values()), "external_data": False, "verbose": False}
        else:
            options |= {"dynamic_axes": dynamic, "opset_version": 17}
        torch.onnx.export(
            model, tuple(inputs.values()), path, input_names=names, **{"dynamo": True, **options}
        )
    return path, {name: tensor.numpy() for name, tensor in inputs.items()}


@pytest.fixture(scope="module")
def net(tmp_path_factory) -> tuple[Path, dict]:
    return export("net", tmp_path_factory.mktemp("net"))


def other_sizes(inputs: dict) -> list[dict]:
    def larger(array: np.ndarray) -> np.ndarray:
        array = np.concatenate([array, array[:1]])
        return np.ascontiguousarray(array[:, :5]) if array.ndim == 2 else array  # fewer tokens

    return [inputs, {n: a[:1] for n, a in inputs.items()}, {n: larger(a) for n, a in inputs.items()}]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exported_model_computes_what_onnx_runtime_computes(net, backend) -> None:
    path, inputs = net
    for given in other_sizes(inputs):
        assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


@pytest.mark.full
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "bert", "gpt2", "vit"])
def test_what_both_exporters_write_computes_what_onnx_runtime_computes(name, dynamo, tmp_path) -> None:
    try:
        path, inputs = export(name, tmp_path, dynamo=dynamo)
    except (TypeError, RuntimeError) as error:
        assert not dynamo and name in ("bert", "gpt2"), error  # the old exporter cannot write these two
        return
    for backend in BACKENDS:
        for given in other_sizes(inputs):
            assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


def test_layers_are_recognised_as_in_a_recording(net, pycandle) -> None:
    ops = pycandle.json("inspect", net[0])["ops"]
    assert ops["conv2d"] == 1 and ops["layer_norm"] == 2 and ops["linear"] >= 4 and "dim" not in ops, ops


# ---- conversion


def test_a_converted_file_is_the_same_model_without_the_file(net, tmp_path, pycandle) -> None:
    path, inputs = net
    made = pycandle.json("onnx-convert", "--onnx", path, "--name", "mine", "--out", tmp_path)
    manifest = tmp_path / "mine_manifest.json"
    assert Path(made["manifest"]) == manifest and made["parameters"] > 10
    schema = json.loads((Path(package.__file__).parent / "manifest.schema.json").read_text())
    jsonschema.validate(json.loads(manifest.read_text()), schema)
    for backend in BACKENDS:
        ours, direct = outputs_of(manifest, inputs, backend), outputs_of(path, inputs, backend)
        for name in direct:
            np.testing.assert_array_equal(ours[name], direct[name])
    pycandle("doctor", tmp_path)  # checksums
    used = [p for p in json.loads(manifest.read_text())["parameters"] if p["value"] is not None]
    initializers = {t.name for t in onnx.load(path).graph.initializer}
    assert all(
        initializers & {p["name"], *p["aliases"]} for p in used
    )  # one without a name has that of its module
    assert {"conv.weight", "head.bias", "layer.linear1.weight"} <= {p["name"] for p in used}


def test_a_file_that_is_not_supported_leaves_nothing_behind(tmp_path, pycandle) -> None:
    bad = saved(
        model_of([node("StringNormalizer", "x", "y")], [value("x", [2])], [value("y", [2])]), tmp_path
    )
    run = pycandle("onnx-convert", "--onnx", bad, "--out", tmp_path / "out", status=1)
    assert "StringNormalizer is not supported" in run.stderr
    assert not (tmp_path / "out").exists()


def test_commands_take_an_onnx_file_in_place_of_a_manifest(net, tmp_path, pycandle) -> None:
    path, _ = net
    pycandle("forward", path, "--set", "s0=3", "--out", tmp_path / "out.safetensors")
    pycandle("codegen", "--manifest", path, "--out", tmp_path / "net.hpp")
    assert "nn::Conv2d" in (tmp_path / "net.hpp").read_text()
    assert "no goldens" in pycandle("verify", path, status=2).stderr


def test_a_file_alone_is_verified_against_onnx_runtime(net, tmp_path, pycandle) -> None:
    path, _ = net
    for backend, size in (("reference", "s0=3"), ("cpu", "s0=1")):
        result = pycandle.json(
            "verify", path, "--against", "onnxruntime", "--set", size, "--backend", backend, "--seed", "3"
        )
        assert result["against"] == "ONNX Runtime" and len(result["layers"]) > 10
    manifest = tmp_path / "x_manifest.json"
    manifest.write_text("{}")
    assert "export" in pycandle("verify", manifest, "--against", "onnxruntime", status=2).stderr
    assert "onnxruntime" in pycandle("verify", path, "--seed", "3", status=2).stderr


def test_values_and_inputs_without_axes_are_goldens(tmp_path, pycandle) -> None:
    """np.ascontiguousarray gives them an axis."""
    nodes = [node("Mul", "x by", "h"), node("ReduceSum", "h", "s", keepdims=0), node("Add", "s by", "y")]
    path = saved(model_of(nodes, [value("x", ["n"]), value("by", [])], [value("y", [])]), tmp_path)
    result = pycandle.json("verify", path, "--against", "onnxruntime", "--set", "s0=4")
    assert len(result["layers"]) == 3 and result["status"] == "passed"


# ---- single files


def test_initializers_are_parameters_with_their_names(tmp_path, pycandle) -> None:
    path = saved(small(), tmp_path)
    assert pycandle.json("inspect", path)["parameter_elements"] == 15
    given = {"x": np.random.default_rng(1).standard_normal((5, 4)).astype("f4")}
    assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


def test_external_data_in_the_folder_is_read(tmp_path) -> None:
    (tmp_path / "weights").mkdir()
    path = tmp_path / "model.onnx"
    onnx.save(small(), path, save_as_external_data=True, location="weights/data.bin", size_threshold=0)
    given = {"x": np.ones((2, 4), "f4")}
    assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


def test_shapes_that_are_computed_follow_the_inputs(tmp_path) -> None:
    """x: [n, m, 4] to [m, n * 4], by way of Shape, Gather, Mul and Concat."""
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes zero", "n", axis=0),
        node("Gather", "sizes one", "m", axis=0),
        node("Mul", "n four", "n4"),
        node("Concat", "m n4", "shape", axis=0),
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("Reshape", "t shape", "y"),
    ]
    numbers = {"zero": np.array([0]), "one": np.array([1]), "four": np.array([4])}
    path = saved(model_of(nodes, [value("x", ["n", "m", 4])], [value("y", ["m", "k"])], numbers), tmp_path)
    for n, m in [(1, 1), (2, 3), (5, 1)]:
        given = {"x": np.random.default_rng(n).standard_normal((n, m, 4)).astype("f4")}
        assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


def test_axes_of_one_input_that_share_a_name_are_open_each(tmp_path) -> None:
    """Published files say `batch` of batch and sequence; the same axis of another input goes along."""
    infos = [value(name, ["batch", "batch", 4]) for name in "xz"]
    path = saved(model_of([node("Add", "x z", "y")], infos, [value("y", ["batch", "k", 4])]), tmp_path)
    for shape in [(2, 5, 4), (3, 3, 4)]:
        given = {
            name: np.random.default_rng(i).standard_normal(shape).astype("f4") for i, name in enumerate("xz")
        }
        for backend in BACKENDS:
            assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


def test_a_branch_that_sizes_decide_is_taken(tmp_path) -> None:
    yes = helper.make_graph([node("Relu", "x", "a")], "yes", [], [value("a", [2, 3])])
    no = helper.make_graph([node("Neg", "x", "b")], "no", [], [value("b", [2, 3])])
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes one", "m", axis=0),
        node("Equal", "m three", "is_three"),
        node("If", "is_three", "y", then_branch=yes, else_branch=no),
    ]
    numbers = {"one": np.array(1), "three": np.array(3)}
    path = saved(model_of(nodes, [value("x", [2, 3])], [value("y", [2, 3])], numbers), tmp_path)
    given = {"x": np.array([[-1.0, 2, -3], [4, -5, 6]], "f4")}
    np.testing.assert_array_equal(outputs_of(path, given)["y"], np.maximum(given["x"], 0))


def test_a_branch_that_data_decides_stays_a_branch(tmp_path) -> None:
    yes = helper.make_graph([node("Mul", "x two", "a")], "yes", [], [value("a", ["n", 3])])
    no = helper.make_graph([node("Sub", "x w", "b")], "no", [], [value("b", ["n", 3])])
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum zero", "is_large"),
        node("If", "is_large", "y", then_branch=yes, else_branch=no),
    ]
    numbers = {"two": np.array(2, "f4"), "zero": np.array(0, "f4"), "w": np.ones(3, "f4")}
    path = saved(model_of(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])], numbers), tmp_path)
    for sign in (1, -1):
        given = {"x": sign * np.ones((2, 3), "f4")}
        for backend in BACKENDS:
            assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


def loop_of(nodes, outputs, count, tmp_path) -> Path:
    """x goes around `count` times; nodes read i, c, v and the model's own w."""
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", [], INT64), value("c", [], onnx.TensorProto.BOOL), value("v", ["n"])],
        [value("more", [], onnx.TensorProto.BOOL), value("next", ["n"]), *outputs],
    )
    inputs = [value("x", ["n"]), value("count", [], INT64)]
    given = {"w": np.array([0.5], "f4"), "limit": np.array(100, "f4")}
    if isinstance(count, int):
        inputs.pop()
        given["count"] = np.array(count)
    loop = helper.make_node("Loop", ["count", "", "x"], ["y", *[f"all_{o.name}" for o in outputs]], body=body)
    outs = [value("y", ["n"]), *[value(f"all_{o.name}", ["k", "n"]) for o in outputs]]
    return saved(model_of([loop], inputs, outs, given), tmp_path)


def test_a_loop_gives_what_each_step_gave(tmp_path) -> None:
    nodes = [node("Identity", "c", "more"), node("Mul", "v w", "next"), node("Add", "next v", "step")]
    path = loop_of(nodes, [value("step", ["n"])], 4, tmp_path)
    given = {"x": np.arange(3, dtype="f4")}
    for backend in BACKENDS:
        assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


def test_a_loop_ends_when_data_says_so(tmp_path) -> None:
    nodes = [
        node("Add", "v v", "next"),
        node("ReduceSum", "next", "sum", keepdims=0),
        node("Less", "sum limit", "more"),
    ]
    path = loop_of(nodes, [], None, tmp_path)
    for count in (2, 50):
        given = {"x": np.ones(3, "f4"), "count": np.array(count)}
        for backend in BACKENDS:
            assert_equal_outputs(outputs_of(path, given, backend), onnxruntime_outputs(path, given))


def test_functions_of_the_file_are_its_nodes(tmp_path) -> None:
    """Twice with other attributes, and one with its default; constants inside belong to the function."""
    body = [
        helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.ones(3, "f4"))),
        helper.make_node("LeakyRelu", ["v"], ["r"]),
        helper.make_node("Add", ["r", "one"], ["out"]),
    ]
    attribute = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    body[1].attribute.append(attribute)
    function = helper.make_function("mine", "Leaky", ["v"], ["out"], body, [helper.make_opsetid("", 20)], [])
    function.attribute_proto.append(helper.make_attribute("slope", 0.25))
    nodes = [
        helper.make_node("Leaky", ["x"], ["h"], domain="mine", slope=0.5),
        helper.make_node("Leaky", ["h"], ["y"], domain="mine"),
    ]
    model = model_of(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(function)
    path = saved(model, tmp_path)
    given = {"x": np.array([[-8.0, 2, -3], [4, -5, 6]], "f4")}
    assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


def test_functions_that_call_themselves_are_refused(tmp_path) -> None:
    body = [helper.make_node("Again", ["v"], ["out"], domain="mine")]
    model = model_of(
        [helper.make_node("Again", ["x"], ["y"], domain="mine")], [value("x", [2])], [value("y", [2])]
    )
    model.functions.append(helper.make_function("mine", "Again", ["v"], ["out"], body, [], []))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    with pytest.raises(package.Error, match="nested too deep, or call themselves"):
        load_model(saved(model, tmp_path))


def test_sequences_become_their_elements(tmp_path) -> None:
    nodes = [
        node("SplitToSequence", "x", "parts", axis=1, keepdims=0),
        node("SequenceInsert", "parts w", "more"),
        node("ConcatFromSequence", "more", "y", axis=0, new_axis=1),
    ]
    path = saved(
        model_of(nodes, [value("x", [2, 3])], [value("y", [4, 2])], {"w": np.array([7, 8], "f4")}), tmp_path
    )
    given = {"x": np.arange(6, dtype="f4").reshape(2, 3)}
    assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


def test_narrow_elements_are_stored_and_converted(tmp_path) -> None:
    """Weights of 4 bits, two to a byte, as DequantizeLinear reads them."""
    import ml_dtypes

    codes = np.array([[-8, 7, 3], [0, -1, 5]], ml_dtypes.int4)
    nodes = [node("DequantizeLinear", "w scale", "f"), node("MatMul", "x f", "y")]
    model = model_of(
        nodes, [value("x", ["n", 2])], [value("y", ["n", 3])], {"scale": np.array(0.5, "f4")}, 21
    )
    model.graph.initializer.append(numpy_helper.from_array(codes, "w"))
    given = {"x": np.array([[1, 2], [3, 4]], "f4")}
    found = outputs_of(saved(model, tmp_path), given)["y"]
    np.testing.assert_array_equal(found, given["x"] @ (codes.astype("f4") / 2))


def test_verify_judges_a_file_by_onnx_runtime(net, tmp_path, pycandle) -> None:
    path, _ = net
    made = pycandle.json("record", path, "--set", "s0=2", "--name", "net", "--out", tmp_path)["recordings"][0]
    assert made["taps"] >= 10
    pycandle("verify", made["manifest"])
    # A wrong weight is found where it is.
    from safetensors.numpy import load_file, save_file

    weights = tmp_path / "net_weights.safetensors"
    tensors = load_file(weights)
    tensors["head.bias"] = tensors["head.bias"] + 1
    save_file(tensors, weights)
    run = pycandle("verify", made["manifest"], status=1)
    assert "WRONG" in (run.stdout + run.stderr).upper()


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("StringConcat", "x x", "y")], "StringConcat is not supported"),
        ([helper.make_node("Gelu", ["x"], ["y"], domain="com.example")], "com.example.Gelu is not supported"),
        ([node("Relu", "x", "y", slope=0.5)], "attribute 'slope' of Relu is not supported"),
        ([node("Gelu", "x", "y", approximate="other")], "other"),
        ([node("LRN", "x", "y", size=0)], "a positive size"),
        ([node("Cast", "x", "y", to=8)], "to=8"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_said(nodes, words, tmp_path) -> None:
    path = saved(model_of(nodes, [value("x", [1, 1, 4, 4])], [value("y", None)]), tmp_path)
    with pytest.raises(package.Error, match=re.escape(words)):
        load_model(path)


def test_a_shape_that_depends_on_data_is_refused_by_name(tmp_path) -> None:
    inputs = [value("x", [6]), value("s", [2], INT64)]
    path = saved(model_of([node("Reshape", "x s", "y")], inputs, [value("y", None)]), tmp_path)
    with pytest.raises(
        package.Error, match="Reshape is not supported where its input 'shape' depends on data"
    ):
        load_model(path)


def test_an_operator_is_read_in_the_form_of_the_files_opset(tmp_path) -> None:
    """Softmax took all axes from one on as a single one before opset 13."""
    given = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")}
    for opset in (11, 13):
        graph = [node("Softmax", "x", "y", axis=1)]
        path = saved(model_of(graph, [value("x", [2, 3, 4])], [value("y", [2, 3, 4])], opset=opset), tmp_path)
        assert_equal_outputs(outputs_of(path, given), onnxruntime_outputs(path, given))


# ---- mappings beside ONNX's own schemas and tests


def forms(pycandle) -> list[tuple[str, int, list[str], list[str]]]:
    """(operator, first opset, inputs, attributes) of every mapping."""
    found = []
    for op in pycandle.json("ops"):
        for overload in op["onnx"]:
            name, signature = overload.rstrip(")").split("(", 1)
            inputs, _, attributes = signature.partition(";")
            operator, since = name.removeprefix("onnx.").rsplit(".", 1)
            names = [
                re.split(r"[=!]", part.strip())[0]
                for part in re.sub(r"\[.*?\]", "", attributes).split(",")
                if part.strip()
            ]
            found.append((operator, int(since), [i.strip() for i in inputs.split(",") if i.strip()], names))
    return found


# Operators of ONNX Runtime: the package has no schemas of them.
WITHOUT_SCHEMA = ("com.microsoft.", "pycandle.", "SimplifiedLayerNormalization")


def test_every_mapping_has_the_inputs_and_attributes_of_its_schema(pycandle) -> None:
    all_forms = forms(pycandle)
    assert len(all_forms) > 300
    for operator, since, inputs, attributes in all_forms:
        if operator.startswith(WITHOUT_SCHEMA):
            continue
        domain, _, name = operator.rpartition(".")
        if not domain and since > onnx.defs.onnx_opset_version():
            continue  # of a later release
        schema = onnx.defs.get_schema(name, max_inclusive_version=since, domain=domain)
        assert schema.since_version <= since, operator
        last = max((s for o, s, *_ in all_forms if o == operator), default=0)
        newest = onnx.defs.get_schema(name, domain=domain) if since == last else schema
        for each in (schema, newest):
            missing = set(each.attributes) - {"consumed_inputs"} - set(attributes)
            assert not missing, (operator, since, each.since_version, missing)
        unknown = set(attributes) - (set(schema.attributes) | set(newest.attributes))
        assert not unknown, (operator, since, unknown)
        assert len(inputs) >= len(newest.inputs), (operator, since)


# ---- hostile files

READER = """
import json, sys
from pathlib import Path
import pycandle

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

before = peak()
answers = {}
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    try:
        pycandle.load_model(path).forward(x=__import__("numpy").ones((2, 4), "f4"))
        answers[path.name] = ["read", ""]
    except pycandle.Error as error:
        answers[path.name] = [error.code, error.message]
print(json.dumps({"answers": answers, "kilobytes": peak() - before}))
"""


def test_each_hostile_file_is_one_clear_error_in_little_memory(tmp_path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    names = lay_out(folder)
    ran = subprocess.run(
        [sys.executable, "-c", READER, folder], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-2000:]}"
    answer = json.loads(ran.stdout)
    assert len(answer["answers"]) == len(names) >= 60
    for file, (code, message) in answer["answers"].items():
        assert code in ("bad_input", "gap"), f"{names[file]}: {code} {message}"
        assert len(message) > 10 and "\n" not in message, f"{names[file]}: {message!r}"
    assert answer["kilobytes"] < 300_000


def test_data_of_another_type_than_float_is_read(tmp_path) -> None:
    """Typed fields instead of raw bytes, and halves as their bits."""
    for dtype in ("f2", "f8", "i4", "i1", "u1", "?"):
        array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        proto = helper.make_tensor(
            "w", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.flatten().tolist()
        )
        assert not proto.raw_data
        model = model_of(
            [node("Identity", "w", "y")], [value("x", [1])], [value("y", [2, 3], proto.data_type)]
        )
        model.graph.initializer.append(proto)
        path = saved(model, tmp_path)
        np.testing.assert_array_equal(outputs_of(path, {"x": np.ones(1, "f4")})["y"], array)
        assert numpy_helper.to_array(proto).dtype == array.dtype
