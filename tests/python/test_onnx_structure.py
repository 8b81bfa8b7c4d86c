"""Modules of exported ONNX files: classes, Python lines and members come back from metadata and names."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx_files import model_of, node, value
from torch import nn

import pycandle as package
from pycandle import GoldenRecorder, load_model


class Block(nn.Module):
    """An activation that is called twice, and a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.act = nn.ReLU()

    def forward(self, x):
        hidden = self.act(self.up(self.norm(x)))
        return self.act(x + self.down(hidden))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def bert(layers: int = 2) -> tuple[nn.Module, dict]:
    import transformers

    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=200, num_hidden_layers=layers, **sizes)
    tokens = torch.randint(0, 200, (2, 7))
    return transformers.BertModel(config), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def resnet(depths: tuple[int, ...]) -> tuple[nn.Module, dict]:
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, list(depths)), {"x": torch.randn(2, 3, 64, 64)}


MODELS = {
    "mixer": lambda: (Mixer(), {"x": torch.randn(2, 3, 8, 8)}),
    "bert": bert,
    "resnet18": lambda: resnet((2, 2, 2, 2)),
    "resnet34": lambda: resnet((3, 4, 6, 3)),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The recording, and the files of torch's exporters, of a model by its name."""
    folder = tmp_path_factory.mktemp("structure")
    known: dict[str, tuple] = {}

    def get(name: str) -> tuple[Path, Path, dict]:
        if name not in known:
            torch.manual_seed(0)
            model, inputs = MODELS[name]()
            package.perturb(model.eval(), seed=1)
            recorder = GoldenRecorder(folder / name, progress=lambda text: None)
            recorder.record(model, **inputs)
            path = folder / f"{name}.onnx"
            both = {i: {0: "batch", 1: "seq"} if x.ndim == 2 else {0: "batch"} for i, x in inputs.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"dynamic_shapes": both, "external_data": False, "verbose": False}
                torch.onnx.export(model, (), path, kwargs=inputs, dynamo=True, **options)
            known[name] = (recorder.save(name).manifest, path, inputs)
        return known[name]

    return get


def emitted(pycandle, model: Path, out: Path) -> tuple[list[str], int]:
    """The classes of the emitted code, and its lines."""
    pycandle("codegen", "--manifest", model, "--out", out)
    text = out.read_text()
    return sorted(re.findall(r"^struct (\w+) :", text, re.MULTILINE)), len(text.splitlines())


@pytest.mark.parametrize(
    "name", ["mixer", "bert", "resnet18", pytest.param("resnet34", marks=pytest.mark.full)]
)
def test_an_exported_model_is_emitted_with_the_classes_of_its_recording(
    name, made, tmp_path, pycandle
) -> None:
    recording, file, _ = made(name)
    classes, lines = emitted(pycandle, recording, tmp_path / "recorded.hpp")
    found, count = emitted(pycandle, file, tmp_path / "exported.hpp")
    assert found == classes and count <= 1.3 * lines, (found, classes, count, lines)


@pytest.mark.parametrize("name", ["mixer", "bert"])
def test_a_recording_that_goes_out_and_in_keeps_its_classes(name, made, tmp_path, pycandle) -> None:
    recording, _, _ = made(name)
    classes, lines = emitted(pycandle, recording, tmp_path / "recorded.hpp")
    pycandle("export", recording, "--onnx", tmp_path / "ours.onnx", "--no-check")
    found, count = emitted(pycandle, tmp_path / "ours.onnx", tmp_path / "ours.hpp")
    assert found == classes and count <= 1.3 * lines, (found, classes, count, lines)


def test_a_converted_file_keeps_modules_python_lines_and_goldens(made, tmp_path, pycandle) -> None:
    _, file, inputs = made("mixer")
    pycandle("record", file, "--name", "m", "--out", tmp_path)
    manifest = json.loads((tmp_path / "m_manifest.json").read_text())
    calls = {(c["path"], c["call"]): c["class"] for c in manifest["module_calls"]}
    block = f"{__name__}.Block"
    assert calls["blocks.2", 0] == block and calls["blocks.2.act", 1] == "torch.nn.modules.activation.ReLU"
    assert calls["stem", 0] == "torch.nn.modules.container.Sequential" and ("blocks", 0) not in calls
    (here,) = [f for f in manifest["files_table"] if f["path"] == Path(__file__).name]
    assert "hidden = self.act(self.up(self.norm(x)))" in here["lines"].values()
    result = pycandle.json("verify", tmp_path)
    assert {layer["verdict"] for layer in result["layers"]} <= {
        "exact",
        "within rounding",
        "accumulated rounding",
    }
    assert any(layer["path"].startswith("blocks.1.up") for layer in result["layers"])
    assert emitted(pycandle, tmp_path, tmp_path / "a.hpp") == emitted(pycandle, file, tmp_path / "b.hpp")
    given = {name: x.numpy() for name, x in inputs.items()}
    theirs = onnxruntime.InferenceSession(file).run(None, given)[0]
    ours = next(iter(load_model(tmp_path / "m_manifest.json").forward(**given).values()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def named(path: str, op: str, inputs: str, outputs: str) -> onnx.NodeProto:
    made = node(op, inputs, outputs)
    made.name = path
    return made


def test_names_of_the_older_exporter_are_modules(tmp_path, pycandle) -> None:
    """Its weights have lost their names, a further call has a number, and parts of nn.Sequential repeat its name."""
    nodes, weights, x = [], {}, "x"
    for i in range(3):
        path, w = f"/layers/layers.{i}", f"onnx::MatMul_{i}"
        weights |= {w: np.full((4, 4), 0.1 * (i + 1), "f4"), f"layers.{i}.up.bias": np.ones(4, "f4")}
        nodes += [
            named(f"{path}/up/MatMul", "MatMul", f"{x} {w}", f"m{i}"),
            named(f"{path}/up/Add", "Add", f"m{i} layers.{i}.up.bias", f"u{i}"),
            named(f"{path}/act/Relu", "Relu", f"u{i}", f"r{i}"),
            named(f"{path}/Add", "Add", f"r{i} {x}", f"a{i}"),
            named(f"{path}/act_1/Relu", "Relu", f"a{i}", f"y{i}"),
        ]
        x = f"y{i}"
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [value("x", ["n", 4])], [value("y2", ["n", 4])], weights), path)
    pycandle("codegen", "--manifest", path, "--out", tmp_path / "model.hpp")
    text = (tmp_path / "model.hpp").read_text()
    assert "struct Layer" in text and "nn::Linear up;" in text and "(3 instances)" in text, text
    assert 'w / "up"' in text and "onnx_MatMul" not in text
    given = {"x": np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)}
    theirs = onnxruntime.InferenceSession(path).run(None, given)[0]
    np.testing.assert_allclose(load_model(path).forward(**given)["output.y2"], theirs, rtol=1e-6)


def test_hostile_names_and_metadata_say_nothing(tmp_path, pycandle) -> None:
    hostile = [
        "['', 'a', 'b'",
        "[" * 5000,
        "['', '" + "a" * 5000 + "', 'op']",
        "['', 'a\nb', 'op']",
        "['', '../../x', 'op', 'op']",
        "['', " + "'a', " * 200 + "'op']",
    ]
    nodes, x = [], "x"
    for i, text in enumerate(hostile):
        relu = named("/" * 300 + "Relu", "Relu", x, f"y{i}")
        for key in ("name_scopes", "class_hierarchy", "stack_trace"):
            relu.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=text)
        nodes.append(relu)
        x = f"y{i}"
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [value("x", [4])], [value(x, [4])]), path)
    pycandle("onnx-convert", "--onnx", path, "--out", tmp_path / "out", "--name", "m")
    calls = json.loads((tmp_path / "out" / "m_manifest.json").read_text())["module_calls"]
    assert [c["path"] for c in calls] == [""]
    pycandle("codegen", "--manifest", path, "--out", tmp_path / "m.hpp")


def test_embeddings_of_torch_stay_embeddings_and_gathers_count_from_the_end(made, tmp_path, pycandle) -> None:
    ops = pycandle.json("inspect", made("bert")[1])["ops"]
    assert ops["embedding"] == 3, ops
    _, file, inputs = made("bert")  # whose mask is a GatherND of positions
    given = {name: x.numpy() for name, x in inputs.items()}
    found = load_model(file).forward(**given)
    for name, theirs in zip(found, onnxruntime.InferenceSession(file).run(None, given), strict=True):
        np.testing.assert_allclose(found[name], theirs, rtol=1e-3, atol=1e-4)
    path = tmp_path / "gather.onnx"
    table = {"t": np.arange(12, dtype="f4").reshape(4, 3)}
    ids = value("ids", ["n"], onnx.TensorProto.INT64)
    onnx.save(model_of([node("Gather", "t ids", "y")], [ids], [value("y", ["n", 3])], table), path)
    ours = load_model(path).forward(ids=np.array([-1, 0, -4]))["output.y"]
    np.testing.assert_array_equal(ours, table["t"][[-1, 0, -4]])
