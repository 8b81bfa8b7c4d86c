"""Result types that torch's fake tensors get wrong: an exported program would carry them on.

Places and counts of `unique` are int64 whatever the tensor, and its axis may count from the end; `bincount` is int64, with weights float64 or float32 for those;
`multilabel_margin_loss` of one row and without reduction is a number; losses of an open batch and without reduction are a
number for each row. `fake_quantize` and some random numbers have no fake at all.
"""

from __future__ import annotations

import torch

from ..torch_compat import drop_decomposition, fake_kernels, replace_kernels, schema_of

aten = torch.ops.aten


def _with_int64_places(original):
    def run(fake_mode, func, x, *args, **kwargs):
        names = [argument.name for argument in schema_of(func).arguments][1:]
        given = dict(zip(names, args, strict=False)) | kwargs
        if given.get("dim") is not None and given["dim"] < 0:
            given["dim"] += max(x.dim(), 1)
        values, *others = original(fake_mode, func, x, **given)
        return values, *(
            t if t.dtype == torch.int64 else t.new_empty(t.shape, dtype=torch.int64) for t in others
        )

    return run


def _bincount(original):
    def run(fake_mode, func, x, weights=None, minlength=0):
        counts = original(fake_mode, func, x, weights, minlength)
        if weights is None:
            dtype = torch.int64
        else:
            dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
        return counts if counts.dtype == dtype else counts.new_empty(counts.shape, dtype=dtype)

    return run


def _like_first(fake_mode, func, x, *args, **kwargs):
    """The results are of the shape of `x`; a second one says where something holds."""
    result = x.new_empty(x.shape)
    return result if len(schema_of(func).returns) == 1 else (result, x.new_empty(x.shape, dtype=torch.bool))


for _op in (
    aten.fake_quantize_per_tensor_affine_cachemask.default,
    aten.fake_quantize_per_channel_affine_cachemask.default,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
    aten._fake_quantize_learnable_per_tensor_affine.default,
    aten._fake_quantize_learnable_per_channel_affine.default,
    aten._standard_gamma.default,
    aten._sample_dirichlet.default,
    aten.binomial.default,
):
    fake_kernels.setdefault(_op, _like_first)
for _op in (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default):
    if _op in fake_kernels:
        fake_kernels[_op] = _with_int64_places(fake_kernels[_op])
if aten.bincount.default in fake_kernels:
    fake_kernels[aten.bincount.default] = _bincount(fake_kernels[aten.bincount.default])


def _multilabel_margin_loss(original):
    def run(x, target, reduction):
        loss, is_target = original(x, target, reduction)
        return (loss.reshape(()) if x.dim() < 2 else loss), is_target

    return run


replace_kernels(aten.multilabel_margin_loss_forward.default, _multilabel_margin_loss)


# torch calls its Python decompositions of these, which take the reduction as a word, with the number that the operator
# takes: `nll_loss`, and `cross_entropy` through it, then reduces whatever it was told. Those in C++ are right.
for _op in (aten.nll_loss.default, aten.margin_ranking_loss.default, aten.hinge_embedding_loss.default):
    drop_decomposition(_op)
