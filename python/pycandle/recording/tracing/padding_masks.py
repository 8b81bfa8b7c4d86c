"""Masks of libraries without the Python numbers that torch.export cannot trace: `patches.PATCHES` says what they stand for."""

from __future__ import annotations

import torch


def no_causal_hint(mask, is_causal=None, size=None) -> bool:
    """The mask is applied in any case; that it is causal is a hint for speed."""
    return NotImplemented if mask is None or is_causal is not None else False


def conformer(self, input: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The longest sequence fills the input: the original fails where it does not."""
    behind = _behind(lengths, input.shape[1])
    x = input.transpose(0, 1)
    for layer in self.conformer_layers:
        x = layer(x, behind)
    return x.transpose(0, 1), lengths


def emformer(utterance, right_context, summary, lengths, mems, left_context_key=None) -> torch.Tensor:
    """The most keys that a sequence has is a size: the length of the longest one is subtracted and added again."""
    frames = right_context.size(0) + utterance.size(0)
    past = mems.size(0) + (0 if left_context_key is None else left_context_key.size(0))
    return _behind(lengths + (frames - torch.max(lengths).int() + past), frames + past)


def _behind(lengths: torch.Tensor, size: int) -> torch.Tensor:
    positions = torch.arange(size, device=lengths.device, dtype=lengths.dtype)
    return positions.expand(lengths.shape[0], size) >= lengths.unsqueeze(1)
