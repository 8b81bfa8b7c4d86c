"""The language models that are timed: random weights from a fixed seed, as torch, as a recording, as files of llama.cpp and candle."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
_GGUF_TYPES = {"bf16": 32, "q8_0": 7, "q4_0": 2}  # llama_ftype


@dataclass(frozen=True)
class Shape:
    title: str
    architecture: str  # as llama.cpp calls it
    config: dict = field(default_factory=dict)
    runners: tuple[str, ...] = ()  # those that are timed unless others are asked for

    @property
    def vocabulary(self) -> int:
        return self.config.get("vocab_size", 50257)


_ALL = (
    *("torch f32", "candle f32", "llama.cpp f32", "llama.cpp bf16", "llama.cpp q8_0", "llama.cpp q4_0"),
    *("pycandle f32", "pycandle bf16", "pycandle int8", "pycandle int4"),
)
SHAPES = {
    "gpt2-124m": Shape("GPT-2 124M", "gpt2", runners=_ALL),
    "llama-1b": Shape(
        "Llama 1.2B",
        "llama",
        {
            "vocab_size": 128256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": True,
        },
        ("llama.cpp bf16", "llama.cpp q4_0", "pycandle bf16", "pycandle int4"),
    ),
    "gpt2-long": Shape("GPT-2 124M", "gpt2", {"n_positions": 4160}, ("pycandle f32",)),
    "gpt2-tiny": Shape(
        "a tiny GPT-2",
        "gpt2",
        {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 211, "n_positions": 128, "bos_token_id": 0, "eos_token_id": 0},
        ("torch f32", "pycandle f32", "pycandle int4"),
    ),
    "llama-tiny": Shape(
        "a tiny Llama",
        "llama",
        {
            "vocab_size": 211,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "tie_word_embeddings": True,
        },
        ("torch f32", "pycandle f32", "pycandle bf16"),
    ),
}  # fmt: skip


def torch_model(shape: Shape):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config, model = {"gpt2": (GPT2Config, GPT2LMHeadModel), "llama": (LlamaConfig, LlamaForCausalLM)}[
        shape.architecture
    ]
    return model(config(**shape.config, use_cache=False)).eval()


def tokens_of(shape: Shape, length: int) -> list[int]:
    return np.random.default_rng(0).integers(0, shape.vocabulary, length).tolist()


def read_per_token(shape: Shape, folder: Path) -> int:
    """Weights that a step reads: all of them but the learned positions. A tied embedding is the head."""
    from safetensors import safe_open

    count = 0
    with safe_open(folder / "model_weights.safetensors", "np") as file:
        for name in file.keys():  # noqa: SIM118
            if not name.endswith("wpe.weight"):
                count += int(np.prod(file.get_slice(name).get_shape()))
    return count


# ---- files


def recorded(folder: Path, shape: Shape) -> Path:
    """The recording that PyCandle decodes with; made once, as all files."""
    if not (folder / "model_manifest.json").exists():
        import torch

        from pycandle import GoldenRecorder

        recorder = GoldenRecorder(output_dir=folder, progress=lambda text: None)
        recorder.record(torch_model(shape), torch.randint(0, shape.vocabulary, (2, 9)))
        recorder.save("model")
    return folder


def _once(file: Path, make: Callable[[Path], None]) -> Path:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".unfinished")
        make(unfinished)
        unfinished.rename(file)
    return file


def gguf(folder: Path, shape: Shape, kind: str) -> Path:
    """llama.cpp's own file in one of its formats, every matrix in that format ("pure"): as PyCandle keeps them."""
    if kind == "f32":
        return _once(folder / "f32.gguf", lambda to: _write_gguf(to, shape))
    source = gguf(folder, shape, "f32")
    return _once(folder / f"{kind}.gguf", lambda to: _quantise(source, to, _GGUF_TYPES[kind]))


def _quantise(source: Path, to: Path, kind: int) -> None:
    import llama_cpp as lib

    settings = lib.llama_model_quantize_default_params()
    settings.ftype, settings.pure, settings.nthread = kind, True, 2
    if lib.llama_model_quantize(str(source).encode(), str(to).encode(), ctypes.byref(settings)) != 0:
        raise RuntimeError(f"llama.cpp could not write {to.name}")


def _write_gguf(to: Path, shape: Shape) -> None:
    from peers import llama

    tensors = {name: tensor.numpy() for name, tensor in torch_model(shape).state_dict().items()}
    {"gpt2": llama.write_gpt2, "llama": llama.write_llama}[shape.architecture](tensors, shape.config, to)


def candle_weights(folder: Path, shape: Shape) -> Path:
    """GPT-2 as candle's GPTBigCode without shared keys has it: weights [out, in], the three parts of a head side by side."""

    def write(to: Path) -> None:
        from safetensors.torch import save_file

        model = torch_model(shape)
        heads, width = model.config.n_head, model.config.n_embd
        tensors = {}
        for name, tensor in model.state_dict().items():
            if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
                tensor = tensor.T
            if ".c_attn." in name:
                parts = tensor.reshape(3, heads, width // heads, *tensor.shape[1:])
                tensor = parts.transpose(0, 1).reshape(tensor.shape)
            if name != "lm_head.weight":
                tensors[name] = tensor.contiguous()
        save_file(tensors, to)

    return _once(folder / "candle.safetensors", write)
