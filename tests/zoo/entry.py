"""An entry of the zoo: how to make a model and its inputs at any sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

Sizes = dict[str, int]
Inputs = Callable[[Sizes, torch.Generator], dict]

# The recorder's label of an open axis → the size of an entry that sets it.
SIZE_OF_LABEL = {"batch": "batch", "sequence": "seq", "decoder sequence": "target"}
FURTHER = {  # three further values of each open size; 1 is always among them
    "batch": (3, 1, 4),
    "seq": (1, 7, 12),
    "target": (6, 1, 9),
}


@dataclass(frozen=True)
class Entry:
    """`inputs(sizes, generator)` gives the keyword arguments of forward; `sizes` are those of the recording."""

    source: str
    name: str
    kind: str
    make: Callable[[], nn.Module]
    inputs: Inputs
    sizes: Sizes
    dynamic: dict | None = None
    further: dict[str, tuple[int, ...]] | None = None
    constant: tuple[str, ...] = ()  # outputs that may be constant: lengths, padding masks
    note: str = ""  # how it differs from the published model
    real_weights: bool = False

    @property
    def key(self) -> str:
        return f"{self.source}/{self.name}"

    def further_sizes(self, open_labels: set[str], minimums: dict[str, int]) -> list[Sizes]:
        """Three further shapes that leave fixed axes alone; the recorded one when nothing is open."""
        given = {**FURTHER, **(self.further or {})}
        opened = {SIZE_OF_LABEL.get(label, label): label for label in open_labels}
        shapes = []
        for number in range(3):
            sizes = dict(self.sizes)
            for name, label in opened.items():
                sizes[name] = max(given[name][number], minimums.get(label, 1))
            shapes.append(sizes)
        return shapes


def image(size: int, channels: int = 3, name: str = "x") -> Inputs:
    return lambda s, g: {name: torch.randn(s["batch"], channels, size, size, generator=g)}


def floats(**shapes: tuple) -> Inputs:
    """Normal values; a text in a shape names a size: `floats(x=("batch", 3, 8))`."""

    def make(s: Sizes, g: torch.Generator) -> dict:
        sized = {name: [s[d] if isinstance(d, str) else d for d in shape] for name, shape in shapes.items()}
        return {name: torch.randn(shape, generator=g) for name, shape in sized.items()}

    return make


@contextlib.contextmanager
def overriding(owner: object, helper: str, **overrides) -> Iterator[None]:
    """Makes a builder smaller where it passes its sizes to `owner.helper` itself and takes no others."""
    original = getattr(owner, helper)

    def smaller(*args, **kwargs):
        return original(*args, **{**kwargs, **overrides})

    setattr(owner, helper, smaller)
    try:
        yield
    finally:
        setattr(owner, helper, original)
