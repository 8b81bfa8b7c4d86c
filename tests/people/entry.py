"""An entry: a model, and its inputs in the recorder's own text form with names for sizes.

    entry("mlp", Mlp, "x=f32[batch,8]", batch=2)
    entry("crop", Crop, "x=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(8, 5, 9, 12), w=(10, 7, 7, 11))

A size is its value in the recording and, if given, three others; `AXES` opens every axis that has a name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from zoo.entry import FURTHER, Entry, Sizes

from pycandle.recording.inputs import arguments_by_name, parse_input

AXES = "axes"  # every axis whose size has a name
_SIZE = re.compile(r"[a-z]\w*")


@dataclass(frozen=True)
class Written(Entry):
    """`plain` are arguments that are no tensors; `fixed` are labels of axes that the model itself fixes."""

    plain: dict = field(default_factory=dict)
    fixed: tuple[str, ...] = ()

    def call(self, model: nn.Module, sizes: Sizes, generator: torch.Generator) -> tuple[tuple, dict]:
        args, kwargs = arguments_by_name(inspect.signature(model.forward), self.inputs(sizes, generator))
        return args, kwargs | self.plain


def entry(
    name: str,
    make: Callable[[], nn.Module],
    inputs: str | Callable[[Sizes, torch.Generator], dict],
    *,
    dynamic: object = None,
    plain: dict | None = None,
    fixed: tuple[str, ...] = (),
    constant: tuple[str, ...] = (),
    note: str = "",
    **sizes: int | tuple[int, ...],
) -> Written:
    """`inputs` is text, or a function of sizes and generator that gives tensors by name."""
    recorded = {k: v[0] if isinstance(v, tuple) else v for k, v in sizes.items()}
    further = {k: v[1:] for k, v in sizes.items() if isinstance(v, tuple)}
    further |= {k: FURTHER.get(k, (v,) * 3) for k, v in recorded.items() if k not in further}
    texts = inputs.split() if isinstance(inputs, str) else []
    return Written(
        source=Path(inspect.stack()[1].filename).stem,
        name=name,
        kind="",
        make=make,
        inputs=(lambda s, g: dict(parse_input(_sized(t, s), g) for t in texts)) if texts else inputs,
        sizes=recorded,
        dynamic=_named_axes(texts) if dynamic is AXES else dynamic,
        further=further,
        constant=constant,
        note=note,
        plain=plain or {},
        fixed=fixed,
    )


def _sized(text: str, sizes: Sizes) -> str:
    """`ids=i64[batch,seq]<97` at these sizes: `ids=i64[2,9]<97`."""
    head, shape, tail = re.fullmatch(r"(.+?)\[(.*?)\](.*)", text).groups()
    return f"{head}[{_SIZE.sub(lambda m: str(sizes[m[0]]), shape)}]{tail}"


def _named_axes(texts: list[str]) -> dict:
    axes = {}
    for text in texts:
        name, shape = re.match(r"(.+?)=\w+\[(.*?)\]", text).groups()
        named = {axis: size for axis, size in enumerate(shape.split(",")) if _SIZE.fullmatch(size)}
        if named:
            axes[name] = named
    return axes
