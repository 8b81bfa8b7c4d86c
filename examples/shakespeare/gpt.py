"""A small GPT, as one writes it: what `run.py` trains, and what pycandle turns into C++."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Sizes:
    vocabulary: int = 512
    context: int = 128
    width: int = 128
    heads: int = 4
    layers: int = 4


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query_key_value = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        query, key, value = (
            part.view(split).transpose(1, 2) for part in self.query_key_value(x).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(sizes.width)
        self.attention = Attention(sizes)
        self.before_mlp = nn.LayerNorm(sizes.width)
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))


class GPT(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = nn.Embedding(sizes.context, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1])
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
