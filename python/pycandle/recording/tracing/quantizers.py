"""Modules of quantization-aware training (torch.ao): buffers say whether they observe and whether they quantize.

torch.export refuses a branch on a buffer. The flags are read before the trace: one that quantizes is `fake_quantize` with its scale,
and one that still observes changes its scale with every call, which is refused.
"""

from __future__ import annotations

import contextlib
import sys

import torch
from torch import nn

from ...errors import RecordingError


@contextlib.contextmanager
def quantizers_as_they_are(model: nn.Module):
    home = sys.modules.get("torch.ao.quantization.fake_quantize")
    found = [(p, m) for p, m in model.named_modules() if home and isinstance(m, home.FakeQuantizeBase)]
    if not found:
        yield
        return
    for path, module in found:
        if module.observer_enabled[0] == 1:
            raise RecordingError(
                f"{type(module).__name__} still observes: its scale moves with every call",
                None,
                "call model.apply(torch.ao.quantization.disable_observer) before recording",
                path,
            )
    quantizing = {id(module): bool(module.fake_quant_enabled[0] == 1) for _, module in found}

    def forward(self, X):
        if not quantizing[id(self)]:
            return X
        low, high = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, low, high
            )
        return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, low, high)

    kinds = (home.FakeQuantize, home.FusedMovingAvgObsFakeQuantize)
    originals = [kind.forward for kind in kinds]
    for kind in kinds:
        kind.forward = forward
    try:
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.forward = original
