"""Long sums whose weights are a little off, and inputs that prove nothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .twin import BF16, F16, F32, Twin, Variant, stored, turned

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
ROWS = 24


class Sum(nn.Module):
    """One product of n terms."""

    def __init__(self, length: int, is_positive: bool) -> None:
        super().__init__()
        self.fc, self.is_positive = nn.Linear(length, ROWS, bias=False), is_positive
        if is_positive:  # nothing cancels: sums of all terms are as large as they get
            nn.init.uniform_(self.fc.weight, 0, 2 / length)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.abs() if self.is_positive else x)


def changes(dtype: torch.dtype, length: int) -> list[str]:
    if dtype is F32:
        bits = [10, 12, 13, 14, *([15, 16] if length <= 1024 else [])]
        return [*(f"rounded to {b} bits" for b in bits), "row times 1.0001", "times 1.00003"]
    return ["rounded to 5 bits", "times 1.02", *(["rounded to 7 bits"] if dtype is F16 else [])]


def long_sum(length: int, dtype: torch.dtype, is_positive: bool) -> Twin:
    wrongs = tuple(
        stored(change, "fc.weight", "" if change.startswith("rounded") else "stored weight")
        for change in changes(dtype, length)
    )
    name = f"sum_{length}" + ("_positive" if is_positive else "")
    inputs = lambda g: {"x": torch.randn(6, length, generator=g)}  # noqa: E731
    return Twin(name, lambda: Sum(length, is_positive), inputs, wrongs, (Variant(dtype),))


SUMS = tuple(
    long_sum(length, dtype, is_positive)
    for length in LENGTHS
    for is_positive in (False, True)
    for dtype in ((F32, BF16, F16) if length in (256, 1024, 4096) else (F32,))
)


class Window(nn.Module):
    """A convolution, of which some ways to compute it err far more than a product of as many terms."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(length // 9, ROWS, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.relu(x))


def window(length: int, pictures: int = 1, side: int = 12) -> Twin:
    wrongs = tuple(
        stored(change, "conv.weight", "" if change.startswith("rounded") else "stored weight")
        for change in changes(F32, min(length, 1024))
    )
    inputs = lambda g: {"x": torch.randn(pictures, length // 9, side, side, generator=g)}  # noqa: E731
    name = f"window_{length}" + (f"_{pictures}x{side}x{side}" if (pictures, side) != (1, 12) else "")
    return Twin(name, lambda: Window(length), inputs, wrongs, (Variant(F32),))


FEW_PLACES = (window(576, side=3), window(576, side=1), window(1008, pictures=3, side=4), window(576, 16, 3))
WINDOWS = (*(window(length) for length in (72, 576, 2304)), *FEW_PLACES)


class Quiet(nn.Module):
    """Without biases: zeros stay zeros."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False)
        self.act, self.share = knobs.get("act", F.gelu), knobs.get("share", 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.act(self.first(x)) * self.share)


class Level(nn.Module):
    """A norm of equal numbers."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.norm, self.out = (
            nn.LayerNorm(8, knobs.get("eps", 1e-5), elementwise_affine=False),
            nn.Linear(8, 4, bias=False),
        )
        self.sign = knobs.get("sign", 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(x) * self.sign)


class Full(nn.Module):
    """Gates that are all open."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.gate, self.act = nn.Linear(8, 8), knobs.get("act", torch.sigmoid)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.gate(x).abs() + 100)


class Absorbed(nn.Module):
    """A sum with a number so large that nothing of the other term is left."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(8, 8), knobs.get("act", F.gelu)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.act(self.fc(x)) + 1e8) - 1e8


def filled(value: float):
    return lambda g: {"x": torch.full((4, 8), value)}


def vacuous(name: str, make, inputs, *wrongs, dtypes=(F32, BF16)) -> Twin:
    return Twin(name, make, inputs, wrongs, tuple(Variant(d) for d in dtypes), is_vacuous=True)


VACUOUS = (
    vacuous(
        "zeros",
        Quiet,
        filled(0.0),
        turned("ReLU for GELU", "activation", is_listed=False, act=F.relu),
        turned("half", "missing factor or constant or scale", is_listed=False, share=0.5),
    ),
    vacuous(
        "not_a_number",
        Quiet,
        filled(float("nan")),
        turned("ReLU for GELU", "activation", is_listed=False, act=F.relu),
        turned("half", "missing factor or constant or scale", is_listed=False, share=0.5),
    ),
    vacuous(
        "constant",
        Level,
        filled(0.5),
        turned("another epsilon", "epsilon", is_listed=False, eps=1e-2),
        turned("negated", "missing factor or constant or scale or operation", is_listed=False, sign=-1.0),
    ),
    vacuous(
        "saturated",
        Full,
        filled(0.3),
        turned("ones", act=torch.ones_like),
        turned("tanh", "activation", is_listed=False, act=torch.tanh),
    ),
    vacuous(
        "absorbed",
        Absorbed,
        lambda g: {"x": torch.randn(4, 8, generator=g)},
        turned("ReLU for GELU", "activation", is_listed=False, act=F.relu),
        dtypes=(F32,),
    ),
)
TWINS = (*SUMS, *WINDOWS, *VACUOUS)
