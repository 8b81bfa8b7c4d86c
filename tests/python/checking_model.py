"""A model that checks its values; in a file of its own, because pytest rewrites the asserts of test files."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn


class Checks(nn.Module):
    """Every way in which people check values before they go on."""

    def forward(self, x, lengths):
        if not (x > -1e9).all() or (x.sum()
                                    != x.sum()):  # fmt: skip
            raise ValueError("not"
                             "finite")  # fmt: skip
        assert x.sum() < 1e9, "large"
        assert (x < 1e9).all() and not (x < -1e9).any()
        if x.isnan().any().item():
            raise ValueError("NaN")
        if lengths.max().item() > 512:
            raise ValueError(f"long: {lengths}")
        if x.max() > 100:
            warnings.warn("large values", stacklevel=1)
        if x.max() < 100:
            y = x + 1
        else:
            raise RuntimeError("large")
        is_large = x.max() > 100
        if is_large:
            raise ValueError
        if any(t.isnan().any() for t in (x, y)):
            raise ValueError
        torch._assert((x < 100).all(), "large")
        if not bool((x < 100).all()):
            raise ValueError
        return F.gaussian_nll_loss(x, y, y.abs() + 0.1, reduction="none")
