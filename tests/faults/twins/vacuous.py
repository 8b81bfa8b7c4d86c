"""Inputs that prove nothing of a layer: the fault shows at the inputs that the recorder adds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .twin import BF16, F32, Twin, Variant, turned


class Hidden(nn.Module):
    """fc, then one of the functions below, then out."""

    def __init__(self, between: str, **knobs) -> None:
        super().__init__()
        self.fc, self.out, self.between, self.knob = (
            nn.Linear(16, 16),
            nn.Linear(16, 4),
            between,
            knobs.get("knob"),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(BETWEEN[self.between](self.fc(x), self.knob))


BETWEEN = {
    "dead": lambda h, shift: F.relu(h - (shift or 4.0)),
    "hot": lambda h, heat: torch.softmax(h * (heat or 8.0), -1),
}


def hidden(between: str):
    return lambda **knobs: Hidden(between, **knobs)


class Masked(nn.Module):
    """Attention with a mask that hides nothing."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed, self.q, self.scores = nn.Embedding(32, 16), nn.Linear(16, 16), Scores()
        self.is_masked = knobs.get("is_masked", True)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        hidden = (1 - mask[:, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        return self.scores(self.q(x), x, hidden if self.is_masked else torch.zeros_like(hidden))


class Scores(nn.Module):
    def forward(self, q: torch.Tensor, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ x.transpose(-1, -2) + hidden, -1) @ x


def scaled(size: float):
    return lambda g: {"x": size * torch.randn(3, 16, generator=g)}


def unmasked(g: torch.Generator) -> dict:
    return {"ids": torch.randint(0, 32, (2, 9), generator=g), "mask": torch.ones(2, 9, dtype=torch.long)}


BOTH = (Variant(F32), Variant(BF16))
CONSTANT = "constant or scale or missing factor"
TWINS = (
    Twin(
        "dead_relu",
        hidden("dead"),
        scaled(0.1),
        (turned("4.5 for 4", CONSTANT, knob=4.5),),
        BOTH,
        is_vacuous=True,
    ),
    Twin(
        "hot_softmax",
        hidden("hot"),
        scaled(1e6),
        (turned("9 for 8", CONSTANT, knob=9.0),),
        BOTH,
        is_vacuous=True,
    ),
    Twin(
        "open_mask",
        Masked,
        unmasked,
        (turned("no mask", "missing mask", is_masked=False),),
        BOTH,
        is_vacuous=True,
    ),
)
