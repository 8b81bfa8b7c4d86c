"""Small causal language models that are no transformers: recurrent layers, causal convolutions, shifted tokens, running sums."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH = 29, 12


class Recurrent(nn.Module):
    def __init__(self, kind: str):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = getattr(nn, kind)(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens))[0])


class BothWays(Recurrent):
    def __init__(self):
        super().__init__("GRU")
        self.layers = nn.GRU(WIDTH, WIDTH // 2, bidirectional=True, batch_first=True)


class Convolution(nn.Module):
    """A stack of causal convolutions: padded on the left, padded on both sides and cut, and with gaps."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.left = nn.Conv1d(WIDTH, WIDTH, 3)
        self.cut = nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH, padding=3)
        self.gaps = nn.Conv1d(WIDTH, WIDTH, 2, dilation=2)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        x = x + functional.silu(self.left(functional.pad(x, (2, 0))))
        x = x + functional.silu(self.cut(x))[..., : x.shape[-1]]
        x = x + self.gaps(functional.pad(x, (2, 0)))
        return self.head(x.transpose(1, 2))


class Shifted(nn.Module):
    """Each token is mixed with the one before it, and weighted by a running product."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.mix = nn.Parameter(torch.rand(WIDTH))
        self.decay = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        before = functional.pad(x, (0, 0, 1, -1))
        x = x * self.mix + before * (1 - self.mix)
        joined = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        decay = torch.sigmoid(self.decay(joined))
        state = torch.cumsum(x, 1) + torch.cumprod(decay, 1) + torch.logcumsumexp(x, 1)
        return self.head(state)


CAUSAL = {
    "lstm": lambda: Recurrent("LSTM"),
    "gru": lambda: Recurrent("GRU"),
    "rnn": lambda: Recurrent("RNN"),
    "convolution": Convolution,
    "shifted": Shifted,
}
NOT_CAUSAL = {"both_ways": BothWays}
