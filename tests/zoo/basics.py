"""The models that must verify, each with how to make it and inputs at any sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .entry import Entry, Sizes


@dataclass(frozen=True)
class Case:
    """`inputs(sizes, generator)` gives the keyword arguments of forward; `recorded` and `others` are sizes."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[Sizes, torch.Generator], dict]
    recorded: Sizes
    others: list[Sizes]
    dynamic: dict | None = None
    real_weights: bool = False  # perturbing would throw the real ones away


def image(size: int) -> Callable:
    return lambda s, g: {"x": torch.randn(s["batch"], 3, size, size, generator=g)}


def tokens(vocabulary: int, mask: bool = False) -> Callable:
    def make(s: Sizes, g: torch.Generator) -> dict:
        ids = torch.randint(0, vocabulary, (s["batch"], s["seq"]), generator=g)
        if not mask:
            return {"input_ids": ids}
        attention = torch.ones_like(ids)
        attention[-1, s["seq"] - s["seq"] // 3 :] = 0
        return {"input_ids": ids, "attention_mask": attention}

    return make


def gpt2(**overrides) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    tiny = {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 97, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**{**tiny, **overrides}))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=97,
            hidden_size=32,
            intermediate_size=56,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(
        BertConfig(
            vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
        )
    )


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
        )
    )


def t5_inputs(s: Sizes, g: torch.Generator) -> dict:
    return {
        "input_ids": torch.randint(0, 97, (s["batch"], s["seq"]), generator=g),
        "decoder_input_ids": torch.randint(0, 97, (s["batch"], s["target"]), generator=g),
    }


def minilm() -> nn.Module:
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from minilm import SentenceEncoder

    return SentenceEncoder()


def torchvision_model(name: str, **kwargs) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **kwargs)

    return make


class Recurrent(nn.Module):
    """An nn.LSTM, nn.GRU or nn.RNN followed by a projection, so that all of its outputs are used."""

    def __init__(self, kind: type[nn.RNNBase], **kwargs) -> None:
        super().__init__()
        self.rnn = kind(12, 16, **kwargs)
        width = self.rnn.proj_size or self.rnn.hidden_size
        self.head = nn.Linear(width * (2 if self.rnn.bidirectional else 1), 5)

    def forward(self, x: torch.Tensor) -> tuple:
        output, state = self.rnn(x)
        return self.head(output), state


def recurrent(name: str, kind: type[nn.RNNBase], **kwargs) -> Case:
    batch_axis, seq_axis = (0, 1) if kwargs.get("batch_first") else (1, 0)

    def inputs(s: Sizes, g: torch.Generator) -> dict:
        shape = [0, 0, 12]
        shape[batch_axis], shape[seq_axis] = s["batch"], s["seq"]
        return {"x": torch.randn(shape, generator=g)}

    return Case(
        name,
        lambda: Recurrent(kind, **kwargs),
        inputs,
        {"batch": 2, "seq": 5},
        [{"batch": 1, "seq": 7}, {"batch": 3, "seq": 1}, {"batch": 4, "seq": 11}, {"batch": 1, "seq": 1}],
        dynamic={"x": {batch_axis: "batch", seq_axis: "seq"}},
    )


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> tuple:
        return self.attention(x, x, x, key_padding_mask=padding)


def attention_inputs(s: Sizes, g: torch.Generator) -> dict:
    padding = torch.zeros(s["batch"], s["seq"], dtype=torch.bool)
    padding[-1, s["seq"] - s["seq"] // 3 :] = True
    return {"x": torch.randn(s["batch"], s["seq"], 24, generator=g), "padding": padding}


def transformer_inputs(s: Sizes, g: torch.Generator) -> dict:
    return {
        "src": torch.randn(s["batch"], s["seq"], 24, generator=g),
        "tgt": torch.randn(s["batch"], s["target"], 24, generator=g),
    }


BATCHES = [{"batch": 1}, {"batch": 3}, {"batch": 4}, {"batch": 5}]
SEQUENCES = [{"batch": 1, "seq": 8}, {"batch": 3, "seq": 1}, {"batch": 3, "seq": 13}, {"batch": 1, "seq": 17}]
PAIRS = [{**s, "target": t} for s, t in zip(SEQUENCES, (3, 6, 1, 9), strict=True)]
BATCH_SEQ = {0: "batch", 1: "seq"}

CASES = [
    Case("resnet34", torchvision_model("resnet34"), image(64), {"batch": 2}, BATCHES),
    Case(
        "mobilenet_v2",
        torchvision_model("mobilenet_v2"),
        image(64),
        {"batch": 1},
        [*BATCHES[1:], {"batch": 2}],
    ),
    Case("vit_b_16", torchvision_model("vit_b_16", image_size=32), image(32), {"batch": 2}, BATCHES),
    Case("gpt2", gpt2, tokens(97), {"batch": 1, "seq": 8}, [*SEQUENCES[1:], {"batch": 1, "seq": 5}]),
    Case("gpt2_masked", gpt2, tokens(97, mask=True), {"batch": 2, "seq": 9}, SEQUENCES),
    Case("llama", llama, tokens(97), {"batch": 2, "seq": 9}, SEQUENCES),
    Case("bert", bert, tokens(97, mask=True), {"batch": 2, "seq": 9}, SEQUENCES),
    Case("t5", t5, t5_inputs, {"batch": 2, "seq": 9, "target": 4}, PAIRS),
    Case("minilm", minilm, tokens(30000, mask=True), {"batch": 2, "seq": 9}, SEQUENCES, real_weights=True),
    recurrent("lstm", nn.LSTM),
    recurrent("lstm_bidirectional_2_layers", nn.LSTM, num_layers=2, bidirectional=True, batch_first=True),
    recurrent("lstm_projected", nn.LSTM, num_layers=2, proj_size=6, bidirectional=True),
    recurrent("gru_bidirectional_2_layers", nn.GRU, num_layers=2, bidirectional=True, batch_first=True),
    recurrent("gru_without_bias", nn.GRU, bias=False),
    recurrent("rnn_tanh_2_layers", nn.RNN, num_layers=2, batch_first=True),
    recurrent("rnn_relu_bidirectional", nn.RNN, nonlinearity="relu", bidirectional=True),
    Case(
        "multihead_attention",
        SelfAttention,
        attention_inputs,
        {"batch": 2, "seq": 6},
        SEQUENCES,
        dynamic={"x": BATCH_SEQ, "padding": BATCH_SEQ},
    ),
    Case(
        "transformer",
        lambda: nn.Transformer(24, 4, 2, 2, 48, batch_first=True),
        transformer_inputs,
        {"batch": 2, "seq": 6, "target": 4},
        PAIRS,
        dynamic={"src": BATCH_SEQ, "tgt": {0: "batch", 1: "target"}},
    ),
]
BY_NAME = {case.name: case for case in CASES}


def entries() -> list[Entry]:
    return [entry(case) for case in CASES]


def entry(case: Case) -> Entry:
    sizes, real = case.recorded, case.real_weights
    return Entry("basics", case.name, "basic", case.make, case.inputs, sizes, case.dynamic, real_weights=real)
