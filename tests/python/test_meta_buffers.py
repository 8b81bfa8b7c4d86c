"""Buffers of a meta model that no checkpoint holds: computed anew, or the model's own, never zeros."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from recording_checks import read_tensors
from torch import nn

from pycandle import parameters_on_meta

# torch notes at the first use which functions make tensors on a device. transformers replaces torch.linspace while it builds some
# models: were one of them the first, the original would be forgotten for the whole process.
with torch.device("meta"):
    torch.empty(0)


class Positions(nn.Module):
    """A buffer that no state dict holds, computed from what the constructor is given."""

    def __init__(self, width: int, base: float = 100.0, keeps: bool = True):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.width = width
        if keeps:
            self.base, self.keeps = base, keeps
        self.register_buffer("rates", base ** -torch.linspace(0, 1, width), persistent=False)

    def forward(self, x):
        return self.linear(x) * self.rates


def bert():
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, vocab_size=50, max_position_embeddings=12)  # fmt: skip
    return transformers.BertModel(config)


def carried(folder: Path) -> dict[str, torch.Tensor]:
    files = list(folder.glob("*_weights.safetensors"))
    return read_tensors(files[0]) if files else {}


@pytest.mark.parametrize(
    ("build", "x"),
    [
        (lambda: nn.Sequential(Positions(4, base=7.0)), torch.zeros(2, 4)),
        (bert, torch.zeros(1, 5, dtype=torch.long)),
    ],
    ids=["arguments that are kept", "a configuration"],
)
def test_buffers_of_a_meta_model_are_computed_anew(record, tmp_path, build, x):
    with torch.device("meta"):
        model = build().eval()
    manifest, _ = record(model, x.to("meta"))
    expected = {p["name"]: build().get_buffer(p["name"]) for p in manifest["parameters"] if not p["persistent"]}  # fmt: skip
    found = carried(tmp_path)
    assert expected and found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_buffer_that_cannot_be_computed_is_named_and_never_zeros(record, tmp_path):
    with torch.device("meta"):
        model = nn.Sequential(Positions(4, base=7.0, keeps=False))
    manifest, _ = record(model, torch.zeros(2, 4, device="meta"))
    assert carried(tmp_path) == {} and "no values for 0.rates" in manifest["notes"][0]
    with parameters_on_meta():
        model = nn.Sequential(Positions(4, base=7.0, keeps=False))
    assert model[0].linear.weight.is_meta
    record(model, torch.zeros(2, 4, device="meta"))
    assert torch.equal(carried(tmp_path)["0.rates"], model[0].rates), "the model's own values, which it keeps"
