"""The emitted Config is live: another number in it gives the program of the Python model that is built with that number."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from pycandle import GoldenRecorder

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"
BEGIN = """#include <pycandle/pycandle.h>

#include <cstdio>

template <class Model, class Config>
void judge(const char* name, const char* manifest, const Config& config) try {
  using namespace pycandle;
  const Model model(Weights::open(manifest), {}, config);
  const RoundTrip trip = round_trip(compile(model, signature_of(manifest)), manifest);
  std::printf("%s: %s\\n", name, trip.equal ? "equal" : trip.difference.c_str());
} catch (const std::exception& error) {
  std::printf("%s: %s\\n", name, error.what());
}
"""
IDS = {"input_ids": torch.zeros(2, 5, dtype=torch.int64)}
PAIR = {**IDS, "decoder_input_ids": torch.zeros(2, 4, dtype=torch.int64)}


@dataclass(frozen=True)
class Live:
    """`others`: for each field two other values that are legal, and what else a value needs."""

    make: Callable[..., nn.Module]
    inputs: dict
    others: dict[str, tuple[int, int]]


def of_transformers(model: str, config: str, **fields) -> Callable[..., nn.Module]:
    def make(**others) -> nn.Module:
        import transformers

        torch.manual_seed(0)
        chosen = getattr(transformers, config)(**{**fields, **others}, use_cache=False)
        return getattr(transformers, model)(chosen).eval()

    return make


LLAMA = {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
HALVES = {
    f"{half}_{name}": value
    for half in ("encoder", "decoder")
    for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
}
BART = {
    "vocab_size": 97, "d_model": 32, **HALVES, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
WHISPER = {
    **{k: v for k, v in BART.items() if k != "max_position_embeddings"}, "num_mel_bins": 8, "max_source_positions": 16,
    "max_target_positions": 32, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip
OF_HALVES = {
    "encoder_layers": (1, 3),
    "decoder_layers": (1, 3),
    "encoder_attention_heads": (2, 8),
    "decoder_attention_heads": (2, 8),
    "encoder_ffn_dim": (40, 64),
    "decoder_ffn_dim": (40, 64),
    "d_model": (16, 64),
    "vocab_size": (53, 120),
}
MODELS = {
    "gpt2": Live(
        of_transformers("GPT2LMHeadModel", "GPT2Config", n_layer=2, n_head=4, n_embd=32, vocab_size=97, n_positions=64),
        IDS,
        {"n_layer": (1, 3), "n_head": (2, 8), "n_embd": (16, 64), "vocab_size": (53, 120), "n_positions": (48, 96)},
    ),
    "llama": Live(
        of_transformers("LlamaForCausalLM", "LlamaConfig", **LLAMA),
        IDS,
        {"num_hidden_layers": (1, 3), "intermediate_size": (40, 64), "vocab_size": (53, 120)},
    ),
    "bart": Live(of_transformers("BartForConditionalGeneration", "BartConfig", **BART), PAIR, OF_HALVES),
    "whisper": Live(
        of_transformers("WhisperForConditionalGeneration", "WhisperConfig", **WHISPER),
        {"input_features": torch.zeros(2, 8, 32), "decoder_input_ids": PAIR["decoder_input_ids"]},
        OF_HALVES,
    ),
}  # fmt: skip


def recorded(live: Live, folder: Path, **others) -> Path:
    recorder = GoldenRecorder(folder)
    recorder.record(live.make(**others), **live.inputs)
    recorder.save("model")
    return folder / "model_manifest.json"


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_another_number_in_the_config_is_the_model_built_with_it(name: str, tmp_path, pycandle) -> None:
    live = MODELS[name]
    made = pycandle.json(
        "codegen", "--manifest", recorded(live, tmp_path / "base"), "--out", tmp_path / "model.hpp"
    )
    text = (tmp_path / "model.hpp").read_text()
    fields = re.search(r"struct Config \{(.*?)\};", text, re.S).group(1)
    assert set(live.others) <= set(re.findall(r"int64_t (\w+) =", fields))
    space, calls, expected = made["namespace"], "", []
    for field, values in live.others.items():
        for value in values:
            manifest = recorded(live, tmp_path / f"{field}_{value}", **{field: value})
            expected.append(f"{field}={value}: equal")
            calls += (
                f"  {{\n    {space}::Config c;\n    c.{field} = {value};\n"
                f'    judge<{space}::{made["model"]}>("{field}={value}", "{manifest}", c);\n  }}\n'
            )
    source = tmp_path / "live.cpp"
    source.write_text(f"{BEGIN}{text.replace('#pragma once', '')}int main() {{\n{calls}}}\n")
    command = [
        "g++",
        "-std=c++20",
        "-O0",
        f"-I{ROOT / 'include'}",
        source,
        LIBRARY,
        "-lpthread",
        "-o",
        tmp_path / "live",
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    said = subprocess.run([tmp_path / "live"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == expected
