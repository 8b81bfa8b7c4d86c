"""The models that `scripts/eval.py` and `scripts/export_model_weights.py` know by name: made here, with weights drawn from a seed, or
read from a checkpoint. `--tiny` makes them small enough for a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn


@dataclass(frozen=True)
class KnownModel:
    make: Callable[[bool], nn.Module]  # with True: a tiny one
    tokens: bool = False  # it takes token ids; otherwise an image

    def built(self, tiny: bool = False, checkpoint: Path | None = None, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        model = self.make(tiny).eval()
        if checkpoint is not None:
            from pycandle.weights import open_checkpoint

            stored = open_checkpoint(checkpoint, framework="torch")
            model.load_state_dict({name: stored[name] for name in stored}, strict=False)
        return model

    def inputs(self, tiny: bool = False, size: int = 0, seed: int = 1) -> dict[str, torch.Tensor]:
        """size: tokens of the sequence."""
        generator = torch.Generator().manual_seed(seed)
        if self.tokens:
            ids = torch.randint(0, 60 if tiny else 50_000, (1, size or 9), generator=generator)
            return {"input_ids": ids}
        edge = 64 if tiny else 224
        return {"x": torch.randn(1, 3, edge, edge, generator=generator)}


def _vision(name: str) -> KnownModel:
    def make(tiny: bool) -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, num_classes=10 if tiny else 1000)

    return KnownModel(make)


def _gpt2(tiny: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 128} if tiny else {}
    return GPT2LMHeadModel(GPT2Config(use_cache=False, **small))


def _llama(tiny: bool) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    size = (
        {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
        if tiny
        else {"vocab_size": 50_257, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12}
    )
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2} if tiny else {"num_attention_heads": 12}
    return LlamaForCausalLM(LlamaConfig(use_cache=False, **size, **heads))


KNOWN = {
    "resnet34": _vision("resnet34"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "gpt2": KnownModel(_gpt2, tokens=True),
    "llama": KnownModel(_llama, tokens=True),
}
