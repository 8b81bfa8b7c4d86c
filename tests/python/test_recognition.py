"""What people spell out in Python becomes one node of the program, and what only looks like it does not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pycandle import GoldenRecorder, perturb

SQRT2, SLOPE = math.sqrt(2), math.sqrt(2 / math.pi)


class Formulas(nn.Module):
    """Several formulas of the same inputs, an output each: recorded at once."""

    def __init__(self, formulas: list[Callable]) -> None:
        super().__init__()
        self.formulas = formulas

    def forward(self, **inputs: torch.Tensor) -> tuple:
        return tuple(f(**inputs) for f in self.formulas)


def ops_of_outputs(formulas: list[Callable], inputs: dict, tmp_path, pycandle) -> list[list[str]]:
    """Records the formulas; for each output the ops that it is made of, from the last to the first."""
    recorder = GoldenRecorder(tmp_path)
    recorder.record(Formulas(formulas).eval(), **inputs)
    recorder.save("formulas")
    assert pycandle.json("verify", tmp_path)["status"] == "passed"
    return chains(pycandle("inspect", tmp_path, "--ptir").stdout)


def chains(ptir: str) -> list[list[str]]:
    nodes, outputs = {}, []
    for line in ptir.splitlines():
        if line.startswith("%"):
            results, call = line.split(" = ", 1)
            op, rest = call.split("(", 1)
            operands = [o.strip() for o in rest.split(")", 1)[0].split(",")]
            for result in results.split(", "):
                nodes[result] = (op, operands)
        elif line.startswith("output"):
            outputs.append(line.split()[-1])
    found = []
    for output in outputs:
        queue, seen, ops = [output], set(), []
        while queue:
            value = queue.pop(0)
            if value in seen or value not in nodes:
                continue
            seen.add(value)
            op, operands = nodes[value]
            ops.append(op)
            queue += operands
        found.append(ops)
    return found


def check(spellings: dict[str, list[Callable]], inputs: dict, tmp_path, pycandle) -> None:
    """Every formula is exactly the one op it stands under; those under "" stay as they are written."""
    named = [(op, f) for op, formulas in spellings.items() for f in formulas]
    found = ops_of_outputs([f for _, f in named], inputs, tmp_path, pycandle)
    for number, ((op, _), ops) in enumerate(zip(named, found, strict=True)):
        if op:
            assert ops == [op], f"formula {number} should be {op} and is {ops}"
        else:
            assert len(ops) > 1 and not RECOGNISED & set(ops), f"formula {number} was taken for {ops}"


RECOGNISED = {
    "gelu",
    "quick_gelu",
    "silu",
    "mish",
    "sigmoid",
    "snake",
    "hardswish",
    "hardsigmoid",
    "glu",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "rotary_embedding",
    "scaled_dot_product_attention",
}

POINTWISE = {
    "gelu": [
        lambda x: 0.5 * x * (1.0 + torch.tanh(SLOPE * (x + 0.044715 * torch.pow(x, 3.0)))),  # NewGELU
        lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),  # FastGELU
        lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))),  # BLOOM
        lambda x: 0.5 * x * (1 + torch.tanh(SLOPE * (x + 0.044715 * x**3))),
        lambda x: x * (torch.tanh(SLOPE * (x + 0.044715 * x * x * x)) + 1) / 2,
        lambda x: 0.5 * (torch.tanh((x + 0.044715 * (x * x * x)) * SLOPE) + 1) * x,
        lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476)),
        lambda x: 0.5 * x * (1.0 + torch.erf(x * SQRT2 / 2)),
        lambda x: x * (0.5 * (1 + torch.erf(x / SQRT2))),
        lambda x: x / 2 * (torch.erf(x / SQRT2) + 1),
    ],
    "quick_gelu": [lambda x: x * torch.sigmoid(1.702 * x), lambda x: torch.sigmoid(x * 1.702) * x],
    "silu": [
        lambda x: x * torch.sigmoid(x),
        lambda x: torch.sigmoid(x).mul(x),
        lambda x: x / (1 + torch.exp(-x)),
        lambda x: x * (1 / (1 + torch.exp(-x))),
    ],
    "sigmoid": [lambda x: 1 / (1 + torch.exp(-x)), lambda x: (1 + (-x).exp()).reciprocal()],
    "mish": [
        lambda x: x * torch.tanh(F.softplus(x)),
        lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))),
        lambda x: torch.tanh(torch.log1p(x.exp())) * x,
    ],
    "hardswish": [lambda x: x * F.relu6(x + 3) / 6, lambda x: x * (F.relu6(x + 3.0) / 6.0)],
    "hardsigmoid": [lambda x: F.relu6(x + 3) / 6, lambda x: torch.clamp(x + 3, 0, 6) / 6],
    "glu": [
        lambda x: x.chunk(2, -1)[0] * torch.sigmoid(x.chunk(2, -1)[1]),
        lambda x: (lambda a, b: torch.sigmoid(b) * a)(*x.split(3, 1)),
    ],
    "": [
        lambda x: 0.5 * x * (1.0 + torch.tanh(SLOPE * (x + 0.0447 * torch.pow(x, 3.0)))),  # another constant
        lambda x: 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda x: 0.5 * x * (1.0 + torch.tanh(SLOPE * (x + 0.044715 * torch.pow(x, 2.0)))),
        lambda x: 0.5 * x * (2.0 + torch.erf(x / SQRT2)),
        lambda x: 0.5 * x * (1.0 - torch.erf(x / SQRT2)),
        lambda x: x * torch.tanh(F.softplus(x, beta=2)),
        lambda x: (lambda a, b: a * torch.tanh(b))(*x.chunk(2, -1)),
    ],
}


def test_activations_are_recognised_in_every_spelling(tmp_path, pycandle) -> None:
    check(POINTWISE, {"x": torch.randn(4, 6, 8)}, tmp_path, pycandle)


def test_a_shared_interior_value_stays_where_it_is(tmp_path, pycandle) -> None:
    def gate(x: torch.Tensor) -> torch.Tensor:
        inner = torch.tanh(SLOPE * (x + 0.044715 * torch.pow(x, 3.0)))
        return 0.5 * x * (1.0 + inner) + inner.mean(-1, keepdim=True)

    ops = ops_of_outputs([gate], {"x": torch.randn(4, 6, 8)}, tmp_path, pycandle)[0]
    assert "gelu" not in ops and "tanh" in ops


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_recognised_only_where_the_formula_computes_wide(dtype, tmp_path, pycandle) -> None:
    def narrow(x: torch.Tensor) -> torch.Tensor:
        return x * 0.5 * (1.0 + torch.erf(x / SQRT2))

    def wide(x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        return (y * 0.5 * (1.0 + torch.erf(y / SQRT2))).to(x.dtype)

    x = torch.randn(4, 6, 8).to(dtype)
    rounded, exact = ops_of_outputs([narrow, wide], {"x": x}, tmp_path, pycandle)
    assert "gelu" not in rounded
    assert exact == ["gelu"]


# ---- models

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
GPT = {"vocab_size": 97, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
GROUPED = {**SMALL, "num_key_value_heads": 2}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
TOKENS = {"input_ids": torch.arange(3, 21).reshape(2, 9)}
PIXELS = {"pixel_values": torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)}
F32, BF16 = torch.float32, torch.bfloat16
# configuration, class, attention, dtype, its arguments, inputs, and what the program has of each functional
MODELS = [
    ("GPT2", "LMHeadModel", "sdpa", F32, GPT, TOKENS, {"layer_norm": 5, "gelu": 2}),
    ("GPT2", "LMHeadModel", "eager", F32, GPT, TOKENS, {"layer_norm": 5, "gelu": 2}),
    ("Llama", "ForCausalLM", "sdpa", F32, GROUPED, TOKENS, {"rms_norm": 5, "rotary_embedding": 4, "silu": 2}),
    ("Llama", "ForCausalLM", "eager", BF16, GROUPED, TOKENS, {"rms_norm": 5, "rotary_embedding": 4}),
]
MORE_MODELS = [
    (
        "GPTJ",
        "ForCausalLM",
        "eager",
        F32,
        {**GPT, "rotary_dim": 4},
        TOKENS,
        {"rotary_embedding": 4, "gelu": 2},
    ),
    ("GPTNeoX", "ForCausalLM", "eager", F32, SMALL, TOKENS, {"rotary_embedding": 4, "layer_norm": 5}),
    ("Gemma", "ForCausalLM", "eager", BF16, {**GROUPED, "head_dim": 8}, TOKENS, {"rms_norm": 5, "gelu": 2}),
    ("Qwen3", "ForCausalLM", "sdpa", F32, {**GROUPED, "head_dim": 8}, TOKENS, {"rms_norm": 9, "silu": 2}),
    ("Phi", "ForCausalLM", "eager", F32, SMALL, TOKENS, {"rotary_embedding": 4, "gelu": 2}),
    ("Bert", "Model", "eager", F32, SMALL, TOKENS, {"layer_norm": 5, "gelu": 2}),
    ("T5", "EncoderModel", "sdpa", F32, T5, TOKENS, {"rms_norm": 5}),
    ("CLIPVision", "Model", "eager", F32, IMAGE, PIXELS, {"quick_gelu": 2}),
]
FORMULA = {"rsqrt", "sqrt", "pow", "tanh", "erf", "neg", "exp", "mean", "softmax", "matmul", "sigmoid"}


@pytest.mark.parametrize(
    "model",
    [*MODELS, *(pytest.param(m, marks=pytest.mark.full) for m in MORE_MODELS)],
    ids=lambda m: f"{m[0]}-{m[2]}",
)
def test_a_model_is_made_of_functionals(model, tmp_path, pycandle) -> None:
    import transformers

    name, kind, attention, dtype, config, inputs, expected = model
    made = getattr(transformers, name + "Config")(**config)
    made.use_cache = False
    torch.manual_seed(0)
    net = getattr(transformers, name + kind)._from_config(made, attn_implementation=attention).eval()
    perturb(net, seed=0)
    recorder = GoldenRecorder(tmp_path)
    as_dtype = {key: value.to(dtype) if value.is_floating_point() else value for key, value in inputs.items()}
    recorder.record(net.to(dtype), **as_dtype)
    recorder.save("model")
    result = pycandle.json("verify", tmp_path)
    assert result["status"] == "passed"

    ptir = pycandle("inspect", tmp_path, "--ptir", "--places").stdout
    ops = ops_of_blocks(ptir)
    everything = [op for block in ops.values() for op in block]
    for op, count in {"scaled_dot_product_attention": 2, **expected}.items():
        assert everything.count(op) == count, f"{op}: {sorted(everything)}"
    inside = [op for block, of_block in ops.items() if block for op in of_block]
    assert not FORMULA & set(inside), "a formula is left in a block"
    limit = {"GPT2": 15, "Llama": 20}.get(name)
    if limit and attention == "sdpa":
        assert {len(of_block) for block, of_block in ops.items() if block} == {limit}


def ops_of_blocks(ptir: str) -> dict[str, list[str]]:
    """The ops of each numbered block of layers ("h.0", "layers.1"), and under "" those outside of them."""
    calls = dict(re.findall(r'^call #(\d+) "([^"]*)"', ptir, re.MULTILINE))
    blocks: dict[str, list[str]] = {"": []}
    for line in ptir.splitlines():
        if not line.startswith("%"):
            continue
        op = line.split(" = ", 1)[1].split("(", 1)[0]
        call = re.search(r"loc\(#(\d+)", line)
        path = calls.get(call.group(1), "") if call else ""
        block = re.search(r"(?:^|\.)(\w+\.\d+)(?:\.|$)", path)
        blocks.setdefault(block.group(1) if block else "", []).append(op)
    return blocks
