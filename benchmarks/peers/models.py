"""The models that are timed: as their libraries build them, random weights from a fixed seed, batch 1 unless
the title says another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn


@dataclass(frozen=True)
class Entry:
    name: str
    title: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, torch.Tensor]]
    recording: str = ""  # whose recording it uses, when not its own
    gguf: bool = False  # llama.cpp knows the architecture

    @property
    def recorded_as(self) -> str:
        return self.recording or self.name


class Output(nn.Module):
    """A model that returns one tensor of what its library returns."""

    def __init__(self, model: nn.Module, pick: str, **options: object):
        super().__init__()
        self.model = model
        self._pick = pick
        self._options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(x, **self._options), self._pick)


class LastLogits(nn.Module):
    """Every runner computes the logits of the last token only."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids, use_cache=False, logits_to_keep=1).logits[:, -1]


class Sequence(nn.Module):
    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        self.lstm = lstm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def _vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return Output(ViTForImageClassification(ViTConfig(num_labels=1000)), "logits")


def _minilm() -> nn.Module:
    from transformers import BertConfig, BertModel

    shape = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, vocab_size=30522
    )
    return Output(BertModel(shape, add_pooling_layer=False), "last_hidden_state")


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel, masking_utils

    # A flag of the attention, as torch eager has it anyway: traced or compiled, transformers would spell the mask out,
    # in operators that not every peer has.
    masking_utils.find_packed_sequence_indices = lambda position_ids: None
    masking_utils._ignore_causal_mask_sdpa = lambda *given, **more: True
    return LastLogits(GPT2LMHeadModel(GPT2Config()))


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)()

    return build


def _convnext() -> nn.Module:
    import timm

    return timm.create_model("convnext_tiny")


def _image(batch: int = 1) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(batch, 3, 224, 224)}


def _tokens(count: int, vocabulary: int, name: str) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {name: torch.randint(0, vocabulary, (1, count))}


MODELS = [
    Entry("vit-b16", "ViT-B/16", _vit, _image),
    Entry("minilm", "MiniLM, 128 tokens", _minilm, _tokens(128, 30522, "x")),
    Entry("gpt2-128", "GPT-2 124M, 128 tokens", _gpt2, _tokens(128, 50257, "input_ids"), gguf=True),
    Entry(
        "gpt2-512", "GPT-2 124M, 512 tokens", _gpt2, _tokens(512, 50257, "input_ids"), "gpt2-128", gguf=True
    ),
    Entry(
        "lstm",
        "LSTM 2×256, 100 steps",
        lambda: Sequence(nn.LSTM(256, 256, 2, batch_first=True)),
        lambda: {"x": torch.randn(1, 100, 256)},
    ),
    Entry("resnet34", "ResNet34 @224", _torchvision("resnet34"), _image),
    *(
        Entry(
            f"resnet34-{n}",
            f"ResNet34 @224, batch {n}",
            _torchvision("resnet34"),
            partial(_image, n),
            "resnet34",
        )
        for n in (8, 32)
    ),
    Entry("mobilenetv2", "MobileNetV2 @224", _torchvision("mobilenet_v2"), _image),
    Entry("convnext-tiny", "ConvNeXt-tiny @224", _convnext, _image),
]
BY_NAME = {entry.name: entry for entry in MODELS}


def built(entry: Entry) -> nn.Module:
    torch.manual_seed(0)
    module = entry.build().eval()
    with torch.no_grad():
        for name, tensor in module.state_dict().items():  # what starts as a constant would hide mistakes
            if name.endswith(("running_mean", "bias")):
                tensor.normal_(0, 0.05)
            elif name.endswith(("running_var", "gamma")):
                tensor.uniform_(0.5, 1.5)
    return module


def inputs_of(entry: Entry) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return entry.inputs()
