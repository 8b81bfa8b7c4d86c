"""Attention in program form: no mask arithmetic is left, heads and projections are one node each, and it computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_models import assert_close, eager_outputs
from torch import nn

import pycandle as pc
from pycandle import GoldenRecorder, perturb

TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
GROUPED = {**TINY, "num_key_value_heads": 2}
GPT2 = {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 97, "n_positions": 64}
FALCON = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "alibi": True,
}

SLIDING = {**GROUPED, "sliding_window": 4}
BLOOM = {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}
MPT = {"vocab_size": 97, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}

MASK_ARITHMETIC = {
    "le",
    "lt",
    "ge",
    "gt",
    "eq",
    "ne",
    "bitwise_and",
    "bitwise_or",
    "select",
    "gather_nd",
    "diff",
    "tril",
}


def tiny(name: str, config: dict, attention: str = "sdpa") -> nn.Module:
    import transformers

    base = name.replace("ForCausalLM", "").replace("LMHeadModel", "").replace("Model", "")
    made = getattr(transformers, base + "Config")(**config)
    torch.manual_seed(0)
    model = getattr(transformers, name)._from_config(made, attn_implementation=attention).eval()
    perturb(model, seed=0)
    return model


def tokens(batch: int, length: int, padded: str | None, seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 97, (batch, length), generator=generator)
    if padded is None:
        return {"input_ids": ids}
    mask = torch.ones_like(ids)
    if padded == "left":  # the first queries of the last row attend to nothing but padding
        mask[-1, : length // 3] = 0
    else:
        mask[-1, length - length // 3 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


class Form:
    """The program as text: nodes with their op, text and the module they stand in."""

    def __init__(self, ptir: str) -> None:
        paths = dict(re.findall(r'^call (#\d+) "([^"]*)"', ptir, re.MULTILINE))
        self.nodes = []
        for line in ptir.splitlines():
            if match := re.match(r"%[^=]*= (\w+)\(", line):
                call = re.search(r"loc\((#\d+)", line)
                self.nodes.append((match.group(1), line, paths.get(call.group(1), "") if call else ""))

    def ops(self) -> set[str]:
        return {op for op, _, _ in self.nodes}

    def within(self, path: str) -> list[str]:
        return [op for op, _, where in self.nodes if where == path or where.startswith(path + ".")]

    def attentions(self) -> list[str]:
        return [line for op, line, _ in self.nodes if op == "scaled_dot_product_attention"]


def recorded_form(model: nn.Module, inputs: dict, tmp_path, pycandle) -> Form:
    recorder = GoldenRecorder(tmp_path)
    recorder.record(model, **inputs)
    recorder.save("model")
    result = pycandle.json("verify", tmp_path)
    assert result["status"] == "passed"
    return Form(pycandle("inspect", tmp_path, "--ptir", "--places").stdout)


def agrees_elsewhere(model: nn.Module, padded: str | None, tmp_path) -> None:
    loaded = pc.load_model(tmp_path)
    for number, (batch, length) in enumerate([(2, 7), (1, 1), (1, 9), (3, 12)]):
        for side in ["left", "right"] if padded else [None]:
            inputs = tokens(batch, length, side, 100 + number)
            outputs = loaded.forward(**{name: tensor.numpy() for name, tensor in inputs.items()})
            theirs = eager_outputs(model, inputs)
            for info, expected in zip(loaded.outputs, theirs, strict=True):
                assert_close(
                    f"{info.name} at {batch} x {length}, padded {side}", outputs[info.name], expected
                )


@pytest.mark.parametrize(
    ("model", "config", "attention", "padded", "block", "most", "attribute"),
    [
        ("GPT2LMHeadModel", GPT2, "sdpa", None, "transformer.h", 15, "is_causal = true"),
        ("GPT2LMHeadModel", GPT2, "sdpa", "right", "transformer.h", 15, "is_causal = true"),
        ("GPT2LMHeadModel", GPT2, "eager", None, "transformer.h", 15, "is_causal = true"),
        ("LlamaForCausalLM", GROUPED, "sdpa", None, "model.layers", 20, "is_causal = true"),
        ("LlamaForCausalLM", GROUPED, "sdpa", "right", "model.layers", 20, "enable_gqa = true"),
        ("LlamaForCausalLM", GROUPED, "eager", "right", "model.layers", 20, "enable_gqa = true"),
        ("MistralForCausalLM", SLIDING, "sdpa", "right", "model.layers", 20, "window = 4"),
        ("BertModel", TINY, "eager", "right", "encoder.layer", 20, "is_causal = false"),
        ("FalconForCausalLM", FALCON, "sdpa", "right", "transformer.h", 20, "alibi_scale = 0.35"),
        ("BloomForCausalLM", BLOOM, "eager", "right", "transformer.h", 20, "is_causal = true"),
        ("MptForCausalLM", MPT, "eager", "right", "transformer.blocks", 24, "is_causal = true"),
    ],
)
def test_a_transformer_has_no_mask_arithmetic_left(
    model: str,
    config: dict,
    attention: str,
    padded: str | None,
    block: str,
    most: int,
    attribute: str,
    tmp_path,
    pycandle,
) -> None:
    made = tiny(model, config, attention)
    form = recorded_form(made, tokens(2, 7, padded, 0), tmp_path, pycandle)
    is_falcon = model.startswith("Falcon")  # takes single heads out by index, and no view splits them
    assert not MASK_ARITHMETIC & (form.ops() - ({"gather_nd"} if is_falcon else set()))
    assert is_falcon or {"split_heads", "merge_heads", "linear"} <= form.ops()
    for number in range(2):
        nodes = form.within(f"{block}.{number}")
        assert len(nodes) <= most, nodes
    attentions = form.attentions()
    assert len(attentions) == 2 and all(attribute in line for line in attentions)
    if config in (FALCON, BLOOM, MPT):
        assert all(re.search(r", _, %\d+, %\d+, %\d+\)", line) for line in attentions), "slopes and positions"
    agrees_elsewhere(made, padded, tmp_path)


def positions(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n = torch.arange(x.shape[1])
    return n[:, None], n[None, :]


def filled(mask: torch.Tensor, value: float = float("-inf")) -> torch.Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, value)


# Each gives a mask of [length, length], and what the attention must say.
SPELLINGS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
    (
        "is_causal = true, query_offset = 0",
        lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)),
    ),
    (
        "is_causal = true, query_offset = 0",
        lambda x: ~torch.triu(torch.ones(x.shape[1], x.shape[1]), 1).bool(),
    ),
    (
        "is_causal = true, query_offset = 0",
        lambda x: torch.triu(torch.full((x.shape[1], x.shape[1]), -torch.inf), 1),
    ),
    (
        "is_causal = true, query_offset = 0",
        lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1]))[None, None] > 0,
    ),
    ("is_causal = true, query_offset = 0", lambda x: filled(positions(x)[1] <= positions(x)[0])),
    ("is_causal = true, query_offset = 0", lambda x: filled(positions(x)[1] <= positions(x)[0], -3e38)),
    (
        "is_causal = true, query_offset = 0",
        lambda x: (1.0 - torch.tril(torch.ones(x.shape[1], x.shape[1]))) * torch.finfo(torch.float32).min,
    ),
    (
        "is_causal = true, query_offset = 0",
        lambda x: nn.Transformer.generate_square_subsequent_mask(x.shape[1]),
    ),
    (
        "is_causal = true, window = 3, query_offset = 0",
        lambda x: (lambda d: (d >= 0) & (d < 3))(positions(x)[0] - positions(x)[1]),
    ),
    (
        "is_causal = true, window = 3, query_offset = 0",
        lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1])).triu(-2).bool(),
    ),
    (
        "is_causal = true, window = 5, query_offset = 2",
        lambda x: (positions(x)[0] - positions(x)[1]).abs() <= 2,
    ),
    ("is_causal = true, query_offset = -1", lambda x: positions(x)[1] < positions(x)[0]),
    (
        "is_causal = true, query_offset = 1",
        lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1]), 1).bool(),
    ),
    ("attn_mask", lambda x: (x.sum(-1)[0] > 0)[:, None] & (x.sum(-1)[0] > -9)[None, :]),
    ("attn_mask", lambda x: (positions(x)[1] <= positions(x)[0]) | (positions(x)[1] < 2)),
]


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple:
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        return tuple(
            F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask(x)) for _, mask in SPELLINGS
        )


def test_masks_are_proven_however_they_are_spelled(tmp_path, pycandle) -> None:
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    recorder = GoldenRecorder(tmp_path, dynamic={"x": {0: "batch", 1: "length"}})
    recorder.record(Masked().eval(), x=x)
    recorder.save("model")
    assert pycandle.json("verify", tmp_path)["status"] == "passed"
    attentions = Form(pycandle("inspect", tmp_path, "--ptir").stdout).attentions()
    for (expected, _), line in zip(SPELLINGS, attentions, strict=True):
        if expected == "attn_mask":
            assert not re.search(r"attention\(%\d+, %\d+, %\d+, _", line), line
            continue
        assert re.search(r"attention\(%\d+, %\d+, %\d+, _, _, _, _\)", line), line
        assert all(part in line for part in expected.split(", ")), line
        assert "masked_bias = none" in line
        assert ("window = none" in line) == ("window" not in expected), line
    loaded = pc.load_model(tmp_path)
    for length in (1, 2, 5, 11):
        other = torch.randn(3, length, 8, generator=torch.Generator().manual_seed(length))
        theirs = Masked()(other)
        ours = loaded.forward(x=other.numpy())
        for info, expected in zip(loaded.outputs, theirs, strict=True):
            np.testing.assert_allclose(ours[info.name], expected.numpy(), atol=2e-6)
