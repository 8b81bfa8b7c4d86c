"""A decode step of a transformers model: its cache as flat tensors in and out, open in batch, tokens and past."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from zoo.check import check
from zoo.entry import Entry, Sizes

VOCABULARY, LAYERS, HEADS, WIDTH = 97, 2, 4, 8


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=HEADS * WIDTH, vocab_size=VOCABULARY, n_positions=64)
    )


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=HEADS * WIDTH,
            intermediate_size=48,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=64,
        )
    )


class Step(nn.Module):
    """New tokens and the past's keys and values → logits and the longer past."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, keys: list[torch.Tensor], values: list[torch.Tensor]) -> tuple:
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            cache.update(key, value, layer)
        output = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        grown = output.past_key_values.layers
        return output.logits, [layer.keys for layer in grown], [layer.values for layer in grown]


def inputs(s: Sizes, g: torch.Generator) -> dict:
    shape = (s["batch"], HEADS, s["past"], WIDTH)
    return {
        "input_ids": torch.randint(0, VOCABULARY, (s["batch"], s["seq"]), generator=g),
        "keys": [torch.randn(shape, generator=g) for _ in range(LAYERS)],
        "values": [torch.randn(shape, generator=g) for _ in range(LAYERS)],
    }


def open_axes() -> dict:
    past = {
        f"{name}.{layer}": {0: "batch", 2: "past"} for name in ("keys", "values") for layer in range(LAYERS)
    }
    return {"input_ids": {0: "batch", 1: "seq"}, **past}


@pytest.mark.parametrize("make", [gpt2, llama])
def test_a_decode_step_takes_and_gives_its_cache(make, tmp_path) -> None:
    entry = Entry(
        "basics",
        make.__name__,
        "decode step",
        lambda: Step(make()),
        inputs,
        {"batch": 2, "seq": 3, "past": 6},
        dynamic=open_axes(),
        further={"batch": (1, 3, 4), "seq": (1, 1, 4), "past": (5, 11, 2)},
    )
    facts = check(entry, tmp_path, lambda _: None)
    assert facts["status"] == "passed", facts["detail"]
    assert facts["open"] == ["batch", "past", "seq"]
