"""`pycandle export`: recordings as ONNX files, well-formed, and ONNX Runtime computes with them what torch computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
import transformers.integrations.moe  # noqa: F401, registers the product of experts
from safetensors.numpy import load_file
from torch import nn

import pycandle as package
from pycandle import GoldenRecorder, RecordingError, UsageError


class Block(nn.Module):
    """Attention, causal and not, norms and a gated layer."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.RMSNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, causal: bool):
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh" if causal else "none"))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.h = nn.ModuleList(Block() for _ in range(2))

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x, True)
        return x @ self.wte.weight.T  # tied


class Masked(nn.Module):
    """As BERT has it: padding is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(50, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids, mask):
        x = self.layer(self.embed(ids), src_key_padding_mask=mask == 0)
        tokens = torch.cat([x, x.flip(1)]).flatten(0, 1)  # of 2 * batch * sequence
        return {"last": x, "pooled": torch.tanh(x[:, 0]), "tokens": tokens.softmax(0)}


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8)
        self.depthwise, self.group = nn.Conv2d(8, 8, 3, padding="same", groups=8), nn.GroupNorm(2, 8)
        self.up, self.head = nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.hardswish(self.norm(self.stem(x))), 3, 2, 1)
        x = x + F.silu(self.group(self.depthwise(x)))
        y = F.interpolate(self.up(x), scale_factor=1.5, mode="bilinear")
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1)), F.avg_pool2d(y, 2)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.rnn, self.cell = nn.GRU(8, 5), nn.RNN(5, 4, nonlinearity="relu"), nn.GRUCell(4, 4)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, _ = self.rnn(self.gru(y)[0])
        return self.cell(z[:, -1]), h, c


class Branches(nn.Module):
    """An If and a Scan: a condition on the data, a cell over an open axis."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 4)
        outputs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outputs.append(h)
        y = torch.stack(outputs, 1)
        return torch.cond(y.sum() > 0, lambda v: v * 2, lambda v: v - 1, (y,))


class Counting(nn.Module):
    """A buffer that a call changes, and what is no float."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen += x.sum(0)
        self.calls += 1
        ranks = x.argsort(dim=-1, stable=True)
        picked = x.gather(1, ranks.flip(1))
        return self.seen * self.calls, picked, (x > 0).any(1), ranks % 3 - 5 // (ranks + 2)


class Spectra(nn.Module):
    """Complex numbers on the way, of one size and of an open one, and as an output."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.imag = nn.Parameter(torch.randn(9)), nn.Parameter(torch.randn(9))

    def forward(self, x):
        spectrum = torch.fft.rfft(x) * torch.complex(self.real, self.imag)
        turned = torch.polar(spectrum.abs(), spectrum.angle() * 0.5)
        whole = torch.fft.ifft(torch.fft.fft2(x))
        powers = torch.stft(x, 8, window=torch.hann_window(8), return_complex=True).abs().square()
        return torch.fft.irfft(turned.conj(), 16), (whole / (1 + x)).imag, powers, spectrum


class Experts(nn.Module):
    """Rows that belong to experts, some of which have none."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, 6, 5) / 2)

    def forward(self, x, expert):
        order = expert.argsort(stable=True)
        ends = (expert[None, :] <= torch.arange(4)[:, None]).sum(1).to(torch.int32)
        y = torch.ops.transformers.grouped_mm_fallback(x[order], self.up, ends)
        return torch.zeros_like(y).index_copy(0, order, y)


MODELS = {
    "spectra": (Spectra, lambda g: (torch.randn(3, 16, generator=g),)),
    "experts": (
        Experts,
        lambda g: (torch.randn(7, 6, generator=g), torch.tensor([2, 0, 2, 3, 0, 0, 2])),
    ),
    "language": (Language, lambda g: (torch.randint(0, 50, (2, 7), generator=g),)),
    "masked": (
        Masked,
        lambda g: (torch.randint(0, 50, (2, 6), generator=g), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])),
    ),
    "images": (Images, lambda g: (torch.randn(2, 3, 32, 32, generator=g),)),
    "recurrent": (Recurrent, lambda g: (torch.randn(3, 5, 6, generator=g),)),
    "branches": (Branches, lambda g: (torch.randn(2, 5, 4, generator=g),)),
    "counting": (Counting, lambda g: (torch.randn(3, 4, generator=g),)),
}


def recorded(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make().eval().to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator).to(dtype)
    given = [x.to(dtype) if x.is_floating_point() else x for x in inputs(generator)]
    dynamic = {"x": {0: "batch", 1: "steps"}} if name == "branches" else None
    recorder = GoldenRecorder(folder, progress=lambda text: None, dynamic=dynamic)
    recorder.record(model, *given)
    return recorder.save(name).manifest


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = recorded(name, folder)
        return made[name]

    return get


def kinds(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("name", MODELS)
def test_onnx_runtime_computes_what_torch_computed(name, recordings, tmp_path, pycandle) -> None:
    manifest, path = recordings(name), tmp_path / "model.onnx"
    made = pycandle.json("export", manifest, "--onnx", path)
    onnx.checker.check_model(path, full_check=True)
    assert made["check"]["runner"] == f"onnxruntime {onnxruntime.__version__}" and made["check"]["passed"]
    assert all(o["within_rounding"] for o in made["check"]["outputs"]), made["check"]

    goldens, facts = (
        load_file(manifest.with_name(f"{name}_trace.safetensors")),
        json.loads(manifest.read_text()),
    )
    session = onnxruntime.InferenceSession(path)
    states = {s["name"]: np.zeros(s["shape"], "i8" if s["dtype"] == "i64" else "f4") for s in facts["states"]}
    given = {i["name"]: goldens["input:" + i["name"]] for i in facts["inputs"]} | states
    assert [i.name for i in session.get_inputs()] == list(given)
    found = session.run(None, given)
    for output, array in zip(facts["outputs"], found, strict=False):
        golden = goldens["output:" + output["name"]]
        if np.iscomplexobj(golden):
            golden = golden[..., None].view(golden.real.dtype)
        assert array.dtype == golden.dtype and array.shape == golden.shape
        np.testing.assert_allclose(array, golden, rtol=0, atol=2e-6 * max(1, np.abs(golden).max()))


def test_layers_are_written_as_onnx_has_them(recordings, tmp_path, pycandle) -> None:
    def exported(name: str, *options) -> set[str]:
        pycandle("export", recordings(name), "--onnx", tmp_path / "m.onnx", "--no-check", *options)
        return kinds(tmp_path / "m.onnx")

    language = exported("language")
    assert {"Attention", "LayerNormalization", "RMSNormalization", "Gelu", "MatMul", "Gather"} <= language
    assert {"Attention", "RMSNormalization"}.isdisjoint(exported("language", "--opset", "20"))
    images = {
        "Conv",
        "BatchNormalization",
        "MaxPool",
        "GroupNormalization",
        "ConvTranspose",
        "GlobalAveragePool",
    }
    assert images <= exported("images")
    assert {"LSTM", "GRU", "RNN"} <= exported("recurrent")
    assert {"If", "Scan"} <= exported("branches")


def test_names_and_sizes_are_those_of_the_recording(recordings, tmp_path, pycandle) -> None:
    path = tmp_path / "m.onnx"
    pycandle("export", recordings("masked"), "--onnx", path, "--no-check")
    graph = onnx.load(path).graph
    assert [i.name for i in graph.input] == ["ids", "mask"] and [o.name for o in graph.output] == [
        "last",
        "pooled",
        "tokens",
    ]
    assert [d.dim_param for d in graph.input[0].type.tensor_type.shape.dim] == ["s0", "s1"]
    assert {"embed.weight", "layer.linear1.weight"} <= {t.name for t in graph.initializer}
    assert any(n.name.startswith("/layer/linear1/") for n in graph.node)


def test_an_exported_file_is_the_model_again(recordings, tmp_path, pycandle) -> None:
    """The way in undoes the way out: the same layers, and goldens that agree."""
    path = tmp_path / "m.onnx"
    pycandle("export", recordings("language"), "--onnx", path, "--no-check")
    ops = pycandle.json("inspect", path)["ops"]
    before = pycandle.json("inspect", recordings("language"))["ops"]
    for op in ("linear", "layer_norm", "rms_norm", "gelu", "scaled_dot_product_attention", "embedding"):
        assert ops.get(op) == before[op], (op, ops)


def test_every_opset_is_valid(recordings, tmp_path, pycandle) -> None:
    for opset in ("20", "22", "24"):
        made = pycandle.json(
            "export", recordings("language"), "--onnx", tmp_path / "m.onnx", "--opset", opset
        )
        assert made["opset"] == int(opset) and made["check"]["passed"], made
    refused = pycandle(
        "export", recordings("language"), "--onnx", tmp_path / "x.onnx", "--opset", "7", status=2
    )
    assert "20" in refused.stderr and not (tmp_path / "x.onnx").exists()


def test_weights_can_stand_beside_the_file(recordings, tmp_path, pycandle) -> None:
    made = pycandle.json("export", recordings("language"), "--onnx", tmp_path / "m.onnx", "--external")
    assert made["check"]["passed"] and Path(made["data"]).name == "m.onnx.data"
    tensors = {t.name: t for t in onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer}
    assert tensors["wte.weight"].data_location == onnx.TensorProto.EXTERNAL


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floats(dtype, tmp_path, pycandle) -> None:
    manifest = recorded("language", tmp_path, dtype)
    made = pycandle.json("export", manifest, "--onnx", tmp_path / "m.onnx")
    assert made["check"]["runner"] or "bf16" in made["check"]["why_not"]
    assert made["check"]["passed"], made["check"]


def test_a_wrong_file_is_noticed(recordings, tmp_path, pycandle) -> None:
    """The check compares: other weights than those exported give another verdict."""
    manifest = recordings("masked")
    other = {"layer.linear1.bias": np.ones(32, "f4")}
    weights = load_file(manifest.with_name("masked_weights.safetensors")) | other
    from safetensors.numpy import save_file

    save_file(weights, tmp_path / "other.safetensors")
    path = tmp_path / "m.onnx"
    fine = pycandle.json("export", manifest, "--onnx", path, "--checkpoint", tmp_path / "other.safetensors")
    assert fine["check"]["passed"]
    first = onnxruntime.InferenceSession(path)
    pycandle("export", manifest, "--onnx", path, "--no-check")
    second = onnxruntime.InferenceSession(path)
    given = {"ids": np.arange(12).reshape(2, 6), "mask": np.ones((2, 6), "i8")}
    assert np.abs(first.run(None, given)[0] - second.run(None, given)[0]).max() > 1e-3


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).abs() + torch.linalg.svdvals(x)


def test_what_onnx_cannot_say_is_one_error(tmp_path, pycandle) -> None:
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Spectrum(), torch.randn(4, 4))
    manifest = recorder.save("spectrum").manifest
    refused = pycandle("export", manifest, "--onnx", tmp_path / "m.onnx", status=1)
    assert "svd" in refused.stderr and "test_onnx_export.py" in refused.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_without_onnxruntime_the_file_is_written_and_it_says_so(
    recordings, tmp_path, pycandle, monkeypatch
) -> None:
    empty = tmp_path / "python3"
    empty.write_text("#!/bin/sh\nexit 1\n")
    empty.chmod(0o755)
    run = pycandle("export", recordings("language"), "--onnx", tmp_path / "m.onnx", "--python", empty)
    assert "not checked" in run.stdout and (tmp_path / "m.onnx").exists()


def test_python_exports_modules_and_recordings(recordings, tmp_path) -> None:
    made = package.export_onnx(recordings("masked"), tmp_path / "masked.onnx", opset=22)
    assert made.opset == 22 and made.runner == f"onnxruntime {onnxruntime.__version__}" and made.data is None
    assert {o["name"] for o in made.outputs} == {"output.last", "output.pooled", "output.tokens"} and all(
        o["passed"] for o in made.outputs
    )
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    made = package.export_onnx(layer.eval(), tmp_path / "layer.onnx", (x,), external=True, check=False)
    assert made.parameters == 2 and made.runner == "" and made.outputs == ()
    found = onnxruntime.InferenceSession(made.onnx).run(None, {"input": x.numpy()})[0]
    np.testing.assert_allclose(found, layer(x).detach(), rtol=1e-5, atol=1e-6)
    with pytest.raises(RecordingError, match="svd"):
        package.export_onnx(Spectrum(), tmp_path / "s.onnx", {"x": torch.randn(4, 4)})
    with pytest.raises(UsageError, match="inputs="):
        package.export_onnx(layer, tmp_path / "l.onnx")
    with pytest.raises(UsageError, match="nowhere"):
        package.export_onnx(tmp_path / "nowhere", tmp_path / "l.onnx")
