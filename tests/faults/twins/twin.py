"""What a twin is: a model with knobs, and mistakes that turn one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


@dataclass(frozen=True)
class Wrong:
    """`kinds`: the kinds of cause that name it, joined by " or "; empty: none is expected.
    `knobs` go to the model's constructor. `weights` changes the stored weights instead: a name of weight_faults.CHANGES
    and the parameter it is done to."""

    name: str
    kinds: str = ""
    knobs: dict = field(default_factory=dict)
    weights: tuple[str, str] | None = None
    half_only: bool = False  # in f32 it is the same program
    is_buffer: bool = False  # what differs is stored: the program is the same
    is_listed: bool = (
        True  # in the verifier's list of causes; others need no cause, but must have no wrong one
    )


@dataclass(frozen=True)
class Variant:
    """One dtype of a model; `outlier`: one channel of the embedding (or of the first weight) is 100 times the others."""

    dtype: torch.dtype = F32
    outlier: bool = False

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.") + ("_outlier" if self.outlier else "")


PLAIN = (Variant(F32), Variant(BF16), Variant(F16))


@dataclass(frozen=True)
class Twin:
    name: str
    make: Callable[..., nn.Module]
    inputs: Callable[[torch.Generator], dict]
    wrongs: tuple[Wrong, ...]
    variants: tuple[Variant, ...] = PLAIN
    outlier: str = ""  # the parameter that has the outlier channel (its last axis)
    is_vacuous: bool = False  # the recorded input proves nothing: to say so is to find the fault


def turned(name: str, kinds: str = "", **knobs) -> Wrong:
    flags = {key: knobs.pop(key) for key in ("half_only", "is_buffer", "is_listed") if key in knobs}
    return Wrong(name, kinds, knobs, **{"is_listed": bool(kinds)} | flags)


# Changes of a stored parameter that are also mistakes of their own.
ALSO = {
    "flipped": "flipped kernel",
    "columns reversed": "channel order",
    "bias zeroed": "missing bias",
    "transposed": "transposed weight",
    "gates exchanged": "gate order",
}


def stored(change: str, parameter: str, kinds: str = "stored weight") -> Wrong:
    """A cause is right when it has the parameter's name or is one of `kinds`."""
    also = f" or {ALSO[change]}" if change in ALSO else ""
    return Wrong(f"{change}: {parameter}", kinds + also, {}, (change, parameter), is_listed=bool(kinds))


def random(*shape: int) -> Callable[[torch.Generator], dict]:
    return lambda g: {"x": torch.randn(*shape, generator=g)}


def tokens(vocabulary: int, batch: int, length: int) -> Callable[[torch.Generator], dict]:
    return lambda g: {"ids": torch.randint(0, vocabulary, (batch, length), generator=g)}
