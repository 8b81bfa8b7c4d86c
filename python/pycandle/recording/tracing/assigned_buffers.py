"""`self.mean = …` in a part of a model: torch.export sees such an assignment in the model itself alone.

At the end of the call the buffer gets the assigned value in place, which torch.export sees everywhere.
"""

from __future__ import annotations

import contextlib

import torch

from ..torch_compat import buffers_of


@contextlib.contextmanager
def assigned_buffers_are_written(model: torch.nn.Module):
    """While `model` is traced; an assignment of another shape or dtype is left to the comparison of states."""
    parts = [module for module in model.modules() if module is not model]
    before: list[dict[str, torch.Tensor | None]] = []

    def entering(*_) -> None:
        before[:] = [dict(buffers_of(part)) for part in parts]

    def leaving(*_) -> None:
        for part, tensors in zip(parts, before, strict=True):
            now = buffers_of(part)
            for name, tensor in tensors.items():
                if _is_written(tensor, now.get(name)):
                    tensor.copy_(now[name])
                    now[name] = tensor

    handles = [model.register_forward_pre_hook(entering), model.register_forward_hook(leaving)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_written(tensor: torch.Tensor | None, value: torch.Tensor | None) -> bool:
    if tensor is value or tensor is None or value is None:
        return False
    return tensor.dtype == value.dtype and tensor.shape == value.shape
