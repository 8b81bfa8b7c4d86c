"""Moves a model's parameters off their initial values: fresh norms (weight 1, bias 0) hide what a program drops."""

from __future__ import annotations

import torch
from torch.nn.parameter import UninitializedTensorMixin

from ..errors import UsageError

_POSITIVE = ("running_var",)
_MARK = "_pycandle_perturbed"


def perturb(model: torch.nn.Module, seed: int = 0, amount: float = 0.1) -> torch.nn.Module:
    """Adds noise to every parameter and floating-point running statistic, in place; returns the model."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        seen: set[int] = set()
        for tensor in model.parameters():
            _move(tensor, generator, amount, seen)
        for name, tensor in model.named_buffers():
            if _is_statistic(name):
                _move(tensor, generator, amount, seen)
                if name.rsplit(".", 1)[-1] in _POSITIVE:
                    tensor.abs_().clamp_(min=0.05)
    model.__dict__[_MARK] = True
    return model


def is_perturbed(model: torch.nn.Module) -> bool:
    """Whether `perturb` has been here: the manifest says so."""
    return bool(model.__dict__.get(_MARK))


def _is_statistic(name: str) -> bool:
    """Only running statistics are learnt: other buffers are tables (positions, masks, frequencies)."""
    return name.rsplit(".", 1)[-1] in ("running_mean", "running_var")


def _move(tensor: torch.Tensor, generator: torch.Generator, amount: float, seen: set[int]) -> None:
    if isinstance(tensor, UninitializedTensorMixin):
        raise UsageError("a lazy module has no values to perturb yet: call the model once first")
    if tensor.is_meta or not tensor.dtype.is_floating_point or id(tensor) in seen:
        return
    seen.add(id(tensor))
    noise = torch.randn(tensor.shape, generator=generator)
    tensor.add_((amount * noise * _scale(tensor)).to(tensor.dtype))


def _scale(tensor: torch.Tensor) -> float:
    """Noise in proportion to the tensor's own size, so that large matrices keep their gain; 1 for zeros."""
    size = tensor.float().square().mean().sqrt().item() if tensor.numel() else 0.0
    return size if size > 0 else 1.0
