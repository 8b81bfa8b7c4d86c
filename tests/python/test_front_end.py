"""The C++ front end from outside: installed, found by CMake and pkg-config, and its examples beside PyTorch."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import generating_models
import gguf
import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "release"
HEADERS = sorted((ROOT / "include" / "pycandle").glob("*.h"))


def run(*command: str | Path, **options) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", place, "--component", "library")
    return place


@pytest.fixture(scope="module")
def shared_library(prefix) -> Path:
    (library,) = [
        path for path in prefix.rglob("libpycandle.so.*") if not path.is_symlink() and path.is_file()
    ]
    return library


def test_the_stripped_shared_library_is_small(shared_library, tmp_path) -> None:
    run("strip", "-o", tmp_path / "stripped.so", shared_library)
    assert 1e6 < (tmp_path / "stripped.so").stat().st_size < 10e6


def test_the_shared_library_shows_its_own_names_alone(shared_library) -> None:
    """A program may use another version of fmt: it must not find ours."""
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", shared_library).splitlines()]
    shown = run("c++filt", "-p", *names).splitlines()
    foreign = [n for n in shown if not re.search(r"^((\w+ (name )?for )?pycandle::|pycandle_\w+$)", n)]
    assert len(shown) > 100 and not foreign, foreign[:5]


@pytest.fixture(scope="module")
def examples(prefix, tmp_path_factory) -> Path:
    build = tmp_path_factory.mktemp("examples")
    run(
        "cmake",
        "-S",
        ROOT / "examples",
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Debug",
    )
    run("cmake", "--build", build)
    return build


def build(prefix: Path, source: Path, program: Path, *flags: str) -> None:
    """As someone would without CMake."""
    archive = next(prefix.glob("lib*/**/libpycandle.a"))
    warnings = ("-Wall", "-Wextra", "-Werror")
    run(
        "g++",
        "-std=c++20",
        *warnings,
        *flags,
        "-I",
        prefix / "include",
        source,
        "-o",
        program,
        archive,
        "-pthread",
    )


def outputs(program: Path, weights: dict, inputs: dict, folder: Path) -> dict:
    save_file(
        {name: t.detach().clone().contiguous() for name, t in weights.items()}, folder / "weights.safetensors"
    )
    save_file({name: t.clone().contiguous() for name, t in inputs.items()}, folder / "inputs.safetensors")
    run(program, *(folder / f"{name}.safetensors" for name in ("weights", "inputs", "outputs")))
    return load_file(folder / "outputs.safetensors")


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return F.softmax(self.net(x), dim=-1)


@pytest.mark.parametrize("batch", [1, 5])
def test_the_mlp_computes_what_torch_does(examples, tmp_path, batch: int) -> None:
    torch.manual_seed(batch)
    model, x = Mlp().eval(), torch.randn(batch, 16)
    found = outputs(examples / "mlp", model.state_dict(), {"x": x}, tmp_path)
    torch.testing.assert_close(found["output"], model(x).detach())


def write_checkpoint(kind: str, state: dict[str, torch.Tensor], folder: Path) -> Path:
    arrays = {name: t.numpy() for name, t in state.items()}
    path = folder / f"model.{kind}"
    if kind == "folder":
        path.mkdir()
        torch.save(state, path / "pytorch_model.bin")
    elif kind in ("bin", "pth"):
        torch.save(
            {"model": state, "epoch": 3}, path, _use_new_zipfile_serialization=kind == "bin"
        )  # a training checkpoint
    elif kind == "npz":
        np.savez_compressed(path, **arrays)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    else:
        writer = gguf.GGUFWriter(path, "mlp")
        for name, array in arrays.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    return path


@pytest.mark.parametrize("kind", ["bin", "pth", "folder", "npz", "h5", "gguf"])
def test_weights_of_every_format_are_opened(examples, tmp_path, kind: str) -> None:
    torch.manual_seed(7)
    model, x = Mlp().eval(), torch.randn(3, 16)
    save_file({"x": x}, tmp_path / "inputs.safetensors")
    weights = write_checkpoint(kind, model.state_dict(), tmp_path)
    run(examples / "mlp", weights, tmp_path / "inputs.safetensors", tmp_path / "outputs.safetensors")
    torch.testing.assert_close(load_file(tmp_path / "outputs.safetensors")["output"], model(x).detach())


def test_the_resnet_block_computes_what_torch_does(examples, tmp_path) -> None:
    from torchvision.models.resnet import BasicBlock

    torch.manual_seed(0)
    downsample = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16))
    model = BasicBlock(8, 16, stride=2, downsample=downsample)
    for _ in range(2):  # statistics that are not 0 and 1
        model(torch.randn(4, 8, 10, 10) * 2 + 1)
    model.eval()
    x = torch.randn(3, 8, 14, 9)
    weights = {name: t for name, t in model.state_dict().items() if "num_batches" not in name}
    found = outputs(examples / "resnet_block", weights, {"x": x}, tmp_path)
    torch.testing.assert_close(found["output"], model(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def gpt():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    model = GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():  # biases that are not 0
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model


def test_the_gpt_computes_what_torch_does(examples, gpt, tmp_path) -> None:
    weights = {name: t for name, t in gpt.state_dict().items() if name != "lm_head.weight"}
    ids = torch.randint(0, 100, (2, 11))
    found = outputs(examples / "gpt_block", weights, {"input_ids": ids}, tmp_path)
    torch.testing.assert_close(found["output.logits"], gpt(ids).logits.detach(), rtol=1e-3, atol=1e-4)


def test_the_gpt_is_the_program_that_was_recorded_and_its_layers_check(prefix, gpt, tmp_path) -> None:
    from pycandle import GoldenRecorder

    recorder = GoldenRecorder(output_dir=str(tmp_path))
    recorder.record(gpt, torch.randint(0, 100, (2, 7)))
    recorder.save("gpt")
    build(prefix, ROOT / "tests" / "front_end" / "round_trip.cpp", tmp_path / "round_trip")
    verdict, *layers = run(tmp_path / "round_trip", tmp_path, "gpt").splitlines()
    assert verdict == "equal"
    assert len(layers) > 20 and all(line.startswith("passed") for line in layers), layers


def test_eager_mode_gives_the_same_but_for_rounding(examples, tmp_path) -> None:
    """It runs on the reference. Compiled for that, the bits are the same: Eagerly.AModelGivesTheSameAsCompiled."""
    model, x = Mlp().eval(), torch.randn(3, 16)
    lazily = outputs(examples / "mlp", model.state_dict(), {"x": x}, tmp_path)["output"]
    os.environ["PYCANDLE_EAGER"] = "1"
    try:
        eagerly = outputs(examples / "mlp", model.state_dict(), {"x": x}, tmp_path)["output"]
    finally:
        del os.environ["PYCANDLE_EAGER"]
    torch.testing.assert_close(lazily, eagerly, rtol=1e-6, atol=1e-7)


def test_a_missing_weight_is_one_clear_error(examples, tmp_path) -> None:
    weights = Mlp().state_dict()
    del weights["net.2.bias"]
    save_file(weights, tmp_path / "weights.safetensors")
    done = subprocess.run(
        [examples / "mlp", tmp_path / "weights.safetensors", "x", "y"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "there is no parameter net.2.bias" in done.stderr


def test_the_shared_library_serves_through_pkg_config(prefix, tmp_path) -> None:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(next(prefix.glob("lib*/**/pkgconfig")))}
    flags = run("pkg-config", "--cflags", "--libs", "pycandle", env=environment).split()
    library = run("pkg-config", "--variable=libdir", "pycandle", env=environment).strip()
    run(
        "g++",
        "-std=c++20",
        ROOT / "examples" / "mlp.cpp",
        "-o",
        tmp_path / "mlp",
        *flags,
        f"-Wl,-rpath,{library}",
    )
    assert "libpycandle.so" in run("ldd", tmp_path / "mlp")
    model, x = Mlp().eval(), torch.randn(2, 16)
    found = outputs(tmp_path / "mlp", model.state_dict(), {"x": x}, tmp_path)
    torch.testing.assert_close(found["output"], model(x).detach())
    bad = {**model.state_dict(), "net.0.weight": torch.zeros(3, 3)}
    save_file(bad, tmp_path / "bad.safetensors")
    done = subprocess.run(
        [tmp_path / "mlp", tmp_path / "bad.safetensors", "x", "y"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "[32, 16]" in done.stderr and "[3, 3]" in done.stderr


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_a_public_header_stands_alone_and_is_light(header: Path) -> None:
    for included in re.findall(r"#include\s+([<\"][^>\"]+[>\"])", header.read_text()):
        ours = included.startswith('"pycandle/')
        standard = re.fullmatch(r"<[a-z_]+>" if header.name != "c.h" else r"<std\w+\.h>", included)
        assert ours or standard, f"{header.name} includes {included}"
    compiler = shutil.which("g++")
    run(
        compiler,
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-I",
        ROOT / "include",
        "-x",
        "c++",
        "-include",
        header,
        "/dev/null",
    )


class Snake(nn.Module):
    def __init__(self, channels: int, beta: bool = False) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(channels) + 0.5)
        self.beta = nn.Parameter(torch.rand(channels)) if beta else None

    def forward(self, x):
        alpha = self.alpha[None, :, None]
        if self.beta is None:
            return x + torch.sin(alpha * x) ** 2 / (alpha + 1e-9)
        return x + torch.sin(alpha.exp() * x) ** 2 / (self.beta.exp()[None, :, None] + 1e-9)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def causal(size: int) -> torch.Tensor:
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def attended(module: nn.MultiheadAttention):
    """A multihead attention without the weights that it returns beside its output."""

    class Attended(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs, **masks):
            return self.inner(*inputs, need_weights=False, **masks)[0]

    return Attended()


# The torch twins of tests/front_end/modules.cpp: the module, and its inputs.
def layer_twins() -> dict[str, tuple]:
    image, signal, ids = normal(2, 4, 6, 8), normal(2, 4, 9), torch.arange(6) % 4
    return {
        "linear": (nn.Linear(6, 4), normal(3, 2, 6)),
        "linear_without_bias": (nn.Linear(6, 4, bias=False), normal(3, 6)),
        "bilinear": (nn.Bilinear(3, 4, 5), normal(2, 3), normal(2, 4)),
        "embedding": (nn.Embedding(10, 4), ids),
        "layer_norm": (nn.LayerNorm((3, 4), eps=1e-3), normal(2, 3, 4)),
        "layer_norm_plain": (nn.LayerNorm(4, elementwise_affine=False), normal(2, 4)),
        "rms_norm": (nn.RMSNorm(4, eps=1e-3), normal(2, 4)),
        "rms_norm_default": (nn.RMSNorm(4), normal(2, 4)),
        "group_norm": (nn.GroupNorm(2, 4), image),
        "batch_norm1d": (nn.BatchNorm1d(4), signal),
        "batch_norm2d": (nn.BatchNorm2d(4, eps=1e-2), image),
        "batch_norm3d": (nn.BatchNorm3d(4, affine=False), normal(2, 4, 3, 3, 3)),
        "instance_norm2d": (nn.InstanceNorm2d(4, affine=True), image),
        "instance_norm1d": (nn.InstanceNorm1d(4), signal),
    }


def window_twins() -> dict[str, tuple]:
    image, signal, volume = normal(2, 4, 6, 8), normal(2, 4, 9), normal(2, 2, 4, 5, 6)
    return {
        "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), signal),
        "conv2d": (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), bias=False), image),
        "conv2d_same": (nn.Conv2d(4, 6, 3, padding="same"), image),
        "conv3d": (nn.Conv3d(2, 3, 2), volume),
        "conv_transpose1d": (nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1), signal),
        "conv_transpose2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), image),
        "conv_transpose3d": (nn.ConvTranspose3d(2, 3, 2), volume),
        "max_pool1d": (nn.MaxPool1d(3), signal),
        "max_pool2d": (nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), image),
        "max_pool3d": (nn.MaxPool3d(2), volume),
        "avg_pool1d": (nn.AvgPool1d(3, padding=1), signal),
        "avg_pool2d": (nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), image),
        "avg_pool3d": (nn.AvgPool3d(2), volume),
        "adaptive_avg_pool1d": (nn.AdaptiveAvgPool1d(3), signal),
        "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d((3, 2)), image),
        "adaptive_avg_pool2d_kept": (nn.AdaptiveAvgPool2d((None, 2)), image),
        "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d((3, 2)), image),
        "constant_pad2d": (nn.ConstantPad2d((1, 2, 3, 0), 0.5), image),
        "zero_pad1d": (nn.ZeroPad1d(2), signal),
        "reflection_pad2d": (nn.ReflectionPad2d((1, 2, 0, 1)), image),
        "replication_pad1d": (nn.ReplicationPad1d(2), signal),
        "circular_pad1d": (nn.CircularPad1d(2), signal),
        "upsample": (nn.Upsample(scale_factor=2), image),
        "upsample_bilinear": (nn.Upsample(size=(7, 9), mode="bilinear", align_corners=True), image),
        "upsample_fraction": (nn.Upsample(scale_factor=1.5, mode="bilinear"), image),
    }


def sequence_twins() -> dict[str, tuple]:
    masked = torch.zeros(2, 5, dtype=torch.bool)
    masked[1, 3:] = True
    return {
        "multihead_attention": (attended(nn.MultiheadAttention(8, 2)), normal(3, 2, 8), normal(5, 2, 8)),
        "multihead_attention_masked": (
            attended(nn.MultiheadAttention(8, 2, batch_first=True)),
            normal(2, 5, 8),
            causal(5),
            masked,
        ),
        "multihead_attention_own_widths": (
            attended(nn.MultiheadAttention(8, 2, bias=False, batch_first=True, kdim=5, vdim=6)),
            normal(2, 3, 8),
            normal(2, 4, 5),
            normal(2, 4, 6),
        ),
        "lstm": (nn.LSTM(3, 5, num_layers=2, batch_first=True, bidirectional=True), normal(2, 4, 3)),
        "lstm_with_states": (nn.LSTM(3, 5), normal(4, 2, 3), normal(1, 2, 5), normal(1, 2, 5)),
        "lstm_without_batch": (nn.LSTM(3, 5), normal(4, 3)),
        "gru": (nn.GRU(3, 5, num_layers=2, bias=False), normal(4, 2, 3)),
        "rnn": (nn.RNN(3, 5, nonlinearity="relu"), normal(4, 2, 3)),
        "lstm_cell": (nn.LSTMCell(3, 5), normal(2, 3), normal(2, 5), normal(2, 5)),
        "gru_cell": (nn.GRUCell(3, 5), normal(2, 3), normal(2, 5)),
        "rnn_cell": (nn.RNNCell(3, 5), normal(2, 3), normal(2, 5)),
    }


def function_twins() -> dict[str, tuple]:
    image, signal = normal(2, 4, 6, 8), normal(2, 4, 9)
    return {
        "relu": (nn.ReLU(), signal),
        "relu6": (nn.ReLU6(), signal * 5),
        "silu": (nn.SiLU(), signal),
        "mish": (nn.Mish(), signal),
        "sigmoid": (nn.Sigmoid(), signal),
        "tanh": (nn.Tanh(), signal),
        "hardswish": (nn.Hardswish(), signal * 3),
        "hardsigmoid": (nn.Hardsigmoid(), signal * 3),
        "log_sigmoid": (nn.LogSigmoid(), signal),
        "softsign": (nn.Softsign(), signal),
        "tanhshrink": (nn.Tanhshrink(), signal),
        "selu": (nn.SELU(), signal),
        "identity": (nn.Identity(), signal),
        "gelu": (nn.GELU(), signal),
        "gelu_tanh": (nn.GELU(approximate="tanh"), signal),
        "softplus": (nn.Softplus(beta=2.0, threshold=3.0), signal),
        "hardtanh": (nn.Hardtanh(-0.5, 0.7), signal),
        "leaky_relu": (nn.LeakyReLU(0.2), signal),
        "elu": (nn.ELU(0.7), signal),
        "celu": (nn.CELU(0.7), signal),
        "glu": (nn.GLU(1), signal),
        "softmax": (nn.Softmax(1), signal),
        "log_softmax": (nn.LogSoftmax(-1), signal),
        "prelu": (nn.PReLU(4), signal),
        "snake": (Snake(4), signal),
        "snake_beta": (Snake(4, beta=True), signal),
        "dropout": (nn.Dropout(0.3), signal),
        "flatten": (nn.Flatten(), image),
        "unflatten": (nn.Unflatten(1, (2, 2)), image),
        "pixel_shuffle": (nn.PixelShuffle(2), image),
        "pixel_unshuffle": (nn.PixelUnshuffle(2), image),
        "channel_shuffle": (nn.ChannelShuffle(2), image),
    }


def twins() -> dict[str, tuple]:
    return layer_twins() | window_twins() | sequence_twins() | function_twins()


def expected_of(name: str, module: nn.Module, inputs: tuple) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        if name == "multihead_attention":
            result = module(inputs[0], inputs[1], inputs[1])
        elif name == "multihead_attention_masked":
            result = module(*[inputs[0]] * 3, attn_mask=inputs[1], key_padding_mask=inputs[2])
        elif name in ("lstm_with_states", "lstm_cell"):
            result = module(inputs[0], (inputs[1], inputs[2]))
        else:
            result = module(*inputs)
    found: dict[str, torch.Tensor] = {}

    def flatten(value, path: str) -> None:
        if isinstance(value, torch.Tensor):
            found[path] = value
        else:
            for i, item in enumerate(value):
                flatten(item, f"{path}.{i}")

    flatten(result, f"output.{name}/output")
    return found


@pytest.fixture(scope="module")
def layers(prefix, tmp_path_factory) -> tuple[dict, dict]:
    """What every layer gives here, and in torch."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("layers")
    weights, inputs, expected = {}, {}, {}
    for name, (module, *given) in twins().items():
        module.eval()
        for key, tensor in module.state_dict().items():
            if tensor.is_floating_point():  # nothing is 0 or 1 by itself
                tensor.copy_(
                    torch.rand_like(tensor) + 0.3 if "var" in key else tensor + torch.randn_like(tensor) * 0.2
                )
            if "num_batches" not in key:
                weights[f"{name}.{key.removeprefix('inner.')}"] = tensor
        inputs |= {f"{name}/{i}": x for i, x in enumerate(given)}
        expected |= expected_of(name, module, tuple(given))
    program = folder / "modules"
    build(prefix, ROOT / "tests" / "front_end" / "modules.cpp", program)
    return outputs(program, weights, inputs, folder), expected


@pytest.mark.parametrize("name", twins())
def test_a_layer_computes_what_torch_does(layers, name: str) -> None:
    found, expected = layers
    keys = [key for key in expected if key.startswith(f"output.{name}/")]
    assert keys and all(key in found for key in keys)
    for key in keys:
        torch.testing.assert_close(found[key], expected[key], rtol=1e-4, atol=1e-5)


def test_every_layer_has_a_twin(layers) -> None:
    cases = re.findall(r"CASE\((\w+)|Case\{\"(\w+)\"", (ROOT / "tests/front_end/modules.cpp").read_text())
    assert {a or b for a, b in cases} - {"name"} == set(twins())


def test_the_example_of_the_documentation_runs(prefix, tmp_path) -> None:
    page = (ROOT / "docs" / "front-end.md").read_text()
    (tmp_path / "mlp.cpp").write_text(re.search(r"```cpp\n(.*?)```", page, re.DOTALL)[1])
    build(prefix, tmp_path / "mlp.cpp", tmp_path / "mlp")
    text = run(tmp_path / "mlp")
    assert text.startswith("f32[2, 1] [") and "linear(" in text and 'output "output"' in text


def test_capturing_costs_as_much_a_node_in_a_deep_model_as_in_a_shallow_one(prefix, tmp_path) -> None:
    """A quadratic capture would cost 8 times as much a node."""
    build(prefix, ROOT / "benchmarks" / "capture_cost.cpp", tmp_path / "cost", "-O2")

    def cost(layers: int) -> float:
        return float(re.search(r"([\d.]+) us each", run(tmp_path / "cost", str(layers)))[1])

    assert min(cost(96) for _ in range(3)) < 3 * min(cost(12) for _ in range(3))


def test_the_program_says_where_the_cmake_package_is(pycandle) -> None:
    folder = Path(pycandle("--cmake-dir").stdout.strip())
    assert (folder / "pycandleConfig.cmake").exists()


def test_a_program_writes_the_text_that_python_writes(examples, tmp_path) -> None:
    import pycandle

    generating_models.record(generating_models.make("llama"), tmp_path)
    tokenizer = generating_models.train_tokenizer(tmp_path / "tokenizer.json")
    expected = pycandle.load_model(tmp_path, tokenizer=tokenizer).generate("the house", max_tokens=20).text
    assert run(examples / "generate", tmp_path, tokenizer, "the house") == expected + "\n"
