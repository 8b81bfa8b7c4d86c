"""Small causal language models that are no transformers: recurrent layers, causal convolutions, shifted tokens, running sums."""

from __future__ import annotations

import torch
from torch import nn
from torch._higher_order_ops.scan import scan
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


class StateSpace(nn.Module):
    """A selective state space, as Mamba has it: a causal convolution, then a scan whose decay depends on the token."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4, groups=WIDTH)
        self.dt, self.b, self.c = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)
        self.decay = nn.Parameter(torch.rand(WIDTH, 4))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        def step(state, now):
            x, dt, b, c = now
            state = torch.exp(-dt.unsqueeze(-1) * self.decay) * state + (dt * x).unsqueeze(-1) * b.unsqueeze(
                1
            )
            return state, (state * c.unsqueeze(1)).sum(-1)

        x = self.embed(tokens)
        x = functional.silu(self.conv(functional.pad(x.transpose(1, 2), (3, 0)))).transpose(1, 2)
        rows = (x, functional.softplus(self.dt(x)), self.b(x), self.c(x))
        start = x.new_zeros(x.shape[0], WIDTH, 4)
        given = scan(step, start, tuple(row.transpose(0, 1) for row in rows), dim=0)[1]
        return self.head(given.transpose(0, 1))


CAUSAL = {
    "lstm": lambda: Recurrent("LSTM"),
    "gru": lambda: Recurrent("GRU"),
    "rnn": lambda: Recurrent("RNN"),
    "convolution": Convolution,
    "shifted": Shifted,
    "state_space": StateSpace,
}
NOT_CAUSAL = {"both_ways": BothWays}
