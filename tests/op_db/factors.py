"""Factors that a matrix does not determine: what they tell of it is compared instead.

The directions of singular vectors and eigenvectors are open (a sign, a phase, a basis where values are equal or missing). What
is determined is the values, the product of the factors, and that the vectors are orthonormal.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .judging import widened

View = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def of_svd(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """U, S, V."""
    u, s, v = results
    count = s.shape[-1]
    product = (u[..., :count] * s.unsqueeze(-2)) @ v[..., :count].mH
    return [s, product, u.mH @ u, v.mH @ v]


def of_linalg_svd(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """U, S, Vᴴ."""
    u, s, vh = results
    return of_svd([u, s, vh.mH])


def of_eigh(results: list[torch.Tensor]) -> list[torch.Tensor]:
    values, vectors = results
    return [values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors]


VIEWS: dict[tuple[str, int], View] = {  # by the operator and the number of results of the call
    ("aten.linalg_svd.default", 3): of_linalg_svd,
    ("aten.svd.default", 3): of_svd,
    ("aten.linalg_eigh.default", 2): of_eigh,
}
LOW_RANK: View = of_svd  # torch.svd_lowrank and torch.pca_lowrank: made of the others and random directions


def view_of(overloads: list[str], results: int) -> View | None:
    if len(overloads) > 1 and "aten.linalg_svd.default" in overloads and results == 3:
        return LOW_RANK
    found = [VIEWS[overload, results] for overload in overloads if (overload, results) in VIEWS]
    return found[0] if found else None


def known_of(overloads: list[str], tensors: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The product of the singular vectors and values is the matrix that was given."""
    if overloads in (["aten.linalg_svd.default"], ["aten.svd.default"]):
        return {1: widened(tensors[0])}
    return {}
