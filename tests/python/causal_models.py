"""Small language models: causal ones that are no transformers, and models in which a token sees later ones."""

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


class Crossed(nn.Module):
    """Branches of which one is turned: the cpu backend computes both in one kernel for single tokens, and in two for more."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.turned, self.straight = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.activation = nn.GELU()
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens).cumsum(1)
        turned = self.turned(x.transpose(0, 1)).transpose(0, 1)
        return self.head(turned * self.activation(self.straight(x)))


class Cells(nn.Module):
    """Layers of cells in a loop over the tokens, whose states are lists; rows are written into a tensor."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.cells = nn.ModuleList(nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, length, width = x.size()
        h, c = ([x.new_zeros(batch, width) for _ in self.cells] for _ in range(2))
        logits = torch.zeros(batch, length, VOCABULARY)
        for t in range(length):
            now = x[:, t, :]
            for i, cell in enumerate(self.cells):
                h[i], c[i] = cell(now, (h[i], c[i]))
                now = h[i]
            logits[:, t] = self.head(now)
        return logits


class Cell(nn.Module):
    """One cell in a loop over the tokens; rows are appended to a list."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens)
        state = torch.zeros(x.shape[0], WIDTH)
        states = []
        for t in range(tokens.shape[1]):
            state = self.cell(x[:, t], state)
            states.append(state)
        return self.head(torch.stack(states, dim=1))


class Mixed(nn.Module):
    """A layer of one kind between embedding and head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.layer(self.embed(tokens))
        return self.head(x + self.mixed(x))

    def mixed(self, x):
        raise NotImplementedError


class SeesAll(Mixed):
    def mixed(self, x):
        return functional.scaled_dot_product_attention(x, x, x)


class SeesThePrefix(Mixed):
    """Causal, but the first four tokens see each other: what prefix language models do."""

    def mixed(self, x):
        at = torch.arange(x.shape[1])
        allowed = (at[None, :] <= at[:, None]) | (at[None, :] < 4)
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=allowed)


class SeesOneMore(Mixed):
    """A mask that lets the next token in."""

    def mixed(self, x):
        at = torch.arange(x.shape[1])
        scores = x @ x.transpose(1, 2) + torch.where(at[None, :] <= at[:, None] + 1, 0.0, float("-inf"))
        return scores.softmax(-1) @ x


class RunsBackwards(Mixed):
    def mixed(self, x):
        return x.flip(1).cumsum(1).flip(1)


class Averages(Mixed):
    def mixed(self, x):
        return x.mean(1, keepdim=True)


class Competes(Mixed):
    def mixed(self, x):
        return x.softmax(1)


class Normalises(Mixed):
    """Over the sequence, as instance norm does."""

    def mixed(self, x):
        return functional.instance_norm(x.transpose(1, 2)).transpose(1, 2)


class Sorts(Mixed):
    def mixed(self, x):
        return x.sort(1).values


class Rolls(Mixed):
    def mixed(self, x):
        return x.roll(1, 1)


class LooksAhead(Mixed):
    def mixed(self, x):
        return functional.pad(x[:, 1:], (0, 0, 0, 1))


class Centred(Mixed):
    """A convolution whose window reaches to both sides."""

    def __init__(self):
        super().__init__()
        self.window = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def mixed(self, x):
        return self.window(x.transpose(1, 2)).transpose(1, 2)


class CountsFromTheEnd(Mixed):
    def mixed(self, x):
        return x * (x.shape[1] - torch.arange(x.shape[1])).unsqueeze(1)


class ScalesByLength(Mixed):
    def mixed(self, x):
        return x.cumsum(1) / x.shape[1]


class Transforms(Mixed):
    """Along the sequence, as FNet does."""

    def mixed(self, x):
        return torch.view_as_real(torch.fft.fft(x, dim=1))[..., 0]


CAUSAL = {
    "lstm": lambda: Recurrent("LSTM"),
    "gru": lambda: Recurrent("GRU"),
    "rnn": lambda: Recurrent("RNN"),
    "convolution": Convolution,
    "shifted": Shifted,
    "state_space": StateSpace,
    "crossed": Crossed,
}
CELLS = {"cells": Cells, "cell": Cell}
NOT_CAUSAL = {  # with the reason that is given
    BothWays: "a scan runs backwards",
    SeesAll: "attention is not causal",
    SeesThePrefix: "attention is not causal",
    SeesOneMore: "attention is not causal",
    RunsBackwards: "reverse mixes positions",
    Averages: "mean reads all positions at once",
    Competes: "softmax mixes positions",
    Normalises: "reads all positions at once",
    Sorts: "sort mixes positions",
    Rolls: "concat changes the length",
    LooksAhead: "pad sees later positions",
    Centred: "convolution sees later positions",
    CountsFromTheEnd: "a value depends on the length",
    ScalesByLength: "a value depends on the length",
    Transforms: "what fft does along the sequence is not known",
}
