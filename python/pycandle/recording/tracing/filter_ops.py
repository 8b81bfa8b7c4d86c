"""torchaudio's recursive filter as one operator.

Its kernel writes into an argument that it also returns, which torch.export cannot functionalise. Recording therefore puts a
function where torchaudio looks for the kernel; it calls an operator of our own and copies the result.
"""

from __future__ import annotations

import contextlib
import sys

import torch

_library = torch.library.Library("pycandle", "FRAGMENT")
_library.define("recursive_filter(Tensor x, Tensor coefficients) -> Tensor")


def _run(x, coefficients):
    import torchaudio.functional.filtering as filtering

    order = coefficients.shape[1] - 1
    padded = x.new_zeros((*x.shape[:-1], x.shape[-1] + order))
    _kernel(filtering)(x.contiguous(), coefficients.contiguous(), padded)
    return padded[..., order:].contiguous()


def _shape(x, coefficients):
    return x.new_empty(x.shape)


_library.impl("recursive_filter", _run, "CompositeExplicitAutograd")
torch.library.register_fake("pycandle::recursive_filter", _shape, lib=_library)


def _kernel(filtering):
    if filtering._IS_TORCHAUDIO_EXT_AVAILABLE:
        return torch.ops.torchaudio._lfilter_core_loop
    return filtering._lfilter_core_generic_loop


def _filter_into(x, coefficients, padded):
    padded[..., coefficients.shape[1] - 1 :] = torch.ops.pycandle.recursive_filter(x, coefficients)


@contextlib.contextmanager
def recursive_filters_stay_whole():
    """While a model is recorded, torchaudio's filters call the operator above."""
    filtering = sys.modules.get("torchaudio.functional.filtering")
    if filtering is None:
        yield
        return
    original = filtering._lfilter_core_loop
    filtering._lfilter_core_loop = _filter_into
    try:
        yield
    finally:
        filtering._lfilter_core_loop = original
