"""Functions that torch.export cannot take apart, or keeps whole where nothing else knows them, in terms of others.

Each does what ATen does, in its order, without looking at values: the checks of values are left out.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

from ..torch_compat import PAD_SEQUENCE
from .size_numbers import triu_indices

_ROUNDING = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}


def quantile(x, q, dim=None, keepdim=False, *, interpolation="linear", ignore_nan=False):
    q = q if isinstance(q, torch.Tensor) else torch.full((), q, dtype=x.dtype)
    axis = None if dim is None else dim % max(x.dim(), 1)
    if axis is None:
        kept = [1] * x.dim() if keepdim else []
    else:
        kept = [1 if i == axis else size for i, size in enumerate(x.shape) if keepdim or i != axis]
    rows = x.flatten() if axis is None or x.dim() == 0 else x.movedim(axis, -1)
    ordered = rows.sort(-1)[0].unsqueeze(0)
    ranks = _ranks(
        ordered, q.reshape(-1, *[1] * rows.dim()), ignore_nan
    )  # q first, then x without its axis, then 1
    if interpolation in _ROUNDING:
        ranks = _ROUNDING[interpolation](ranks)
    ordered = ordered.expand(ranks.shape[0], *ordered.shape[1:])
    below = ordered.gather(-1, ranks.long())
    if interpolation in ("linear", "midpoint"):
        weight = torch.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - ranks.long()
        below = below.lerp(ordered.gather(-1, ranks.ceil().long()), weight)
    return below.reshape([*q.shape, *kept])


def nanquantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
    return quantile(x, q, dim, keepdim, interpolation=interpolation, ignore_nan=True)


def _ranks(ordered, q, ignore_nan):
    """Where in the sorted rows the quantiles lie; NaN are sorted last."""
    if ignore_nan:
        ranks = q * ((~ordered.isnan()).sum(-1, True) - 1)
        return ranks.masked_fill(ranks < 0, 0)
    last = ordered.shape[-1] - 1
    return torch.where(ordered.isnan().any(-1, True), torch.full((), last, dtype=q.dtype), q * last)


def cov(x, *, correction=1, fweights=None, aweights=None):
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        count = rows.shape[1]
        average = rows.sum(1) / count
        freedom = torch.sym_max(count - correction, 0)
    else:
        total = weights.sum()
        average = (rows * weights).sum(1) / total
        lost = correction * (weights * aweights).sum() / total if aweights is not None else correction
        freedom = total - (lost if correction != 0 else 0)
        freedom = torch.where(freedom <= 0, torch.zeros_like(freedom), freedom)
    rows = rows - average.unsqueeze(1)
    products = rows @ (rows if weights is None else rows * weights).t().conj()
    return (products / freedom).squeeze()


def corrcoef(x):
    c = cov(x)
    if c.dim() == 0:
        return c / c
    deviation = torch.sqrt(c.diagonal().real if c.is_complex() else c.diagonal())
    c = c / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    if c.is_complex():
        return torch.complex(c.real.clip(-1, 1), c.imag.clip(-1, 1))
    return c.clip(-1, 1)


def combinations(x, r=2, with_replacement=False):
    if r == 2:
        rows, columns = triu_indices(x.shape[0], x.shape[0], 0 if with_replacement else 1)
        return torch.stack([x[rows], x[columns]], 1)
    if r == 0:
        return x.new_empty(0)
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = torch.tensor(list(chosen(range(int(x.shape[0])), r)), dtype=torch.int64).reshape(-1, r)
    return x[places]


def linalg_vander(x, *, N=None):
    count = x.shape[-1] if N is None else N
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    return torch.cat([powers.new_ones(*x.shape, 1), powers], -1)


def vander(x, N=None, increasing=False):
    count = x.shape[0] if N is None else N
    if count == 0:
        is_integer = not (x.is_floating_point() or x.is_complex())
        return x.new_empty(x.shape[0], 0, dtype=torch.int64 if is_integer else x.dtype)
    powers = linalg_vander(x, N=count)
    return powers if increasing else powers.flip(-1)


def pdist(x, p=2.0):
    rows, columns = triu_indices(x.shape[0], x.shape[0], 1)
    return torch.linalg.vector_norm(x[rows] - x[columns], p, -1)


def kron(x, y):
    rank = max(x.dim(), y.dim())
    sizes = [[1] * (rank - t.dim()) + list(t.shape) for t in (x, y)]
    x = x.reshape([size for m in sizes[0] for size in (m, 1)])
    y = y.reshape([size for n in sizes[1] for size in (1, n)])
    return (x * y).reshape([m * n for m, n in zip(*sizes, strict=True)])


def linalg_cond(x, p=None):
    if p in (None, 2, -2):
        values = torch.linalg.svdvals(x)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    return torch.linalg.matrix_norm(x, p) * torch.linalg.matrix_norm(torch.linalg.inv(x), p)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    longest = sequences[0].shape[0]
    for sequence in sequences[1:]:
        longest = torch.sym_max(longest, sequence.shape[0])
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        ends = [0, missing] if padding_side == "right" else [missing, 0]
        padded.append(F.pad(sequence, [0, 0] * (sequence.dim() - 1) + ends, value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def histogram(x, bins, *, range=None, weight=None, density=False):
    values = x.flatten()
    edges = bins if isinstance(bins, torch.Tensor) else _edges(values, bins, range)
    count = edges.shape[0] - 1
    place = torch.searchsorted(edges, values, right=True) - 1
    place = torch.where(values == edges[-1], count - 1, place)  # the last bin has both its ends
    inside = (values >= edges[0]) & (values <= edges[-1])
    weights = torch.ones_like(values) if weight is None else weight.flatten()
    hist = torch.zeros(count, dtype=x.dtype).index_add(
        0, place.clamp(0, count - 1), torch.where(inside, weights, torch.zeros_like(weights))
    )
    if density:
        hist = hist / hist.sum() / edges.diff()
    return torch.return_types.histogram((hist, edges))


def _edges(values, count, ends):
    if ends is not None:
        low, high = (float(end) for end in ends)
        if low == high:
            low, high = low - 0.5, high + 0.5
        return torch.linspace(low, high, count + 1, dtype=values.dtype)
    low, high = values.amin(), values.amax()
    widened = torch.where(low == high, 0.5, 0.0).to(values.dtype)
    return torch.linspace(low - widened, high + widened, count + 1, dtype=values.dtype)


def gradient(x, *, spacing=1, dim=None, edge_order=1):
    axes = list(range(x.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(axes)
    return tuple(
        _slope(x.movedim(axis, -1), step, edge_order).movedim(-1, axis)
        for axis, step in zip(axes, steps, strict=True)
    )


def _slope(x, step, edge_order):
    """The derivative along the last axis; `step` is a distance or the coordinates."""
    if isinstance(step, torch.Tensor) and step.dim() == 1:
        steps = step.diff()
        near, far = steps[:-1], steps[1:]
        weights = -far / (near * (near + far)), (far - near) / (near * far), near / (far * (near + far))
        middle = weights[0] * x[..., :-2] + weights[1] * x[..., 1:-1] + weights[2] * x[..., 2:]
        first, second, last, last_but_one = steps[0], steps[1], steps[-1], steps[-2]
    else:
        middle = (x[..., 2:] - x[..., :-2]) / step / 2
        first = second = last = last_but_one = step
    if edge_order == 1:
        left, right = (x[..., 1:2] - x[..., :1]) / first, (x[..., -1:] - x[..., -2:-1]) / last
    else:
        left = _edge(x[..., 0:1], x[..., 1:2], x[..., 2:3], first, second)
        right = -_edge(x[..., -1:], x[..., -2:-1], x[..., -3:-2], last, last_but_one)
    return torch.cat([left, middle, right], -1)


def _edge(outer, next_one, inner, near, far):
    both = near + far
    return (
        -(2 * near + far) / (near * both) * outer
        + both / (near * far) * next_one
        - near / (far * both) * inner
    )


DECOMPOSITIONS = {
    torch.quantile: quantile,
    torch.Tensor.quantile: quantile,
    torch.nanquantile: nanquantile,
    torch.Tensor.nanquantile: nanquantile,
    torch.cov: cov,
    torch.Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    torch.Tensor.corrcoef: corrcoef,
    torch.combinations: combinations,
    torch.vander: vander,
    torch.linalg.vander: linalg_vander,
    torch.pdist: pdist,
    torch.kron: kron,
    torch.Tensor.kron: kron,
    torch.linalg.cond: linalg_cond,
    PAD_SEQUENCE: pad_sequence,
    torch.histogram: histogram,
    torch.Tensor.histogram: histogram,
    torch.gradient: gradient,
}
