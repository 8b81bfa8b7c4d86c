"""Our values beside torch's; docs/testing-operators.md has the rules.

dtype and shape     equal
integers, bools     equal; positions that ties leave open (sort without stable=True, topk, kthvalue, median, mode) must name equal elements, each once
NaN, infinities     at the same places, but where torch has one and its exact result is a number, either will do
floats              |ours - exact| <= 4 floor + 8 u |exact|, for each element by itself
transforms, factors, cubic interpolation    8 u (the size of the whole) more: they round relative to that

`exact` is torch's result in double precision, `u` half the distance from 1 to the next number of the dtype. `floor` is what
torch itself is off by or, where that is not enough, the largest of what torch is off by on inputs moved by u, and of how far the
exact result moves with them. For results in double precision there is nothing more exact: what torch is off by is measured in
single precision and scaled, and twice the distance is allowed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .samples import NARROW, WIDE

_MOVES = 24  # how often the inputs are moved: rounding errors that cancel do so by luck
_NEARBY = (
    2.0**-10
)  # and how far, to see what torch is off by there: a smaller move may change no rounding on the way


def is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


Size = Callable[[torch.Tensor], torch.Tensor]


def _of_transform(sizes: torch.Tensor) -> torch.Tensor:
    """Every number of a Fourier transform is a sum over all points, in log2(points) steps that each round."""
    steps = max(1.0, math.log2(max(1, sizes.numel())) / 4)
    return sizes.square().mean().sqrt() * steps


def _of_matrix(sizes: torch.Tensor) -> torch.Tensor:
    """Factors are exact for a matrix that is off by u times its norm."""
    axes = tuple(range(max(0, sizes.dim() - 2), sizes.dim()))
    return sizes.square().sum(axes, keepdim=True).sqrt()


def _of_positions(sizes: torch.Tensor) -> torch.Tensor:
    """A position along an axis of n rounds by u n, and the result moves with it by as much as its neighbours differ."""
    return sizes.square().mean().sqrt() * max(sizes.shape[2:], default=1)


# What operators round relative to, when it is not each number by itself.
_SIZES: dict[str, Size] = {
    r"_?fft_[a-z]+\d?|i?stft": _of_transform,
    r"(linalg_)?(svd|eigh)|linalg_(svdvals|eigvalsh)": _of_matrix,
    "special_ndtr": torch.ones_like,  # 1 + erf
    r"upsample_bicubic2d": _of_positions,
}


def size_of(overloads: list[str]) -> Size | None:
    names = [overload.split(".")[1] for overload in overloads if overload.startswith("aten.")]
    return next(
        (size for pattern, size in _SIZES.items() if any(re.fullmatch(pattern, n) for n in names)), None
    )


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(WIDE.get(tensor.dtype, tensor.dtype))


@dataclass
class OpenPositions:
    """A result that says where elements of `source` stand along `axis`."""

    result: int
    source: torch.Tensor
    axis: int

    def problem(self, expected: torch.Tensor, ours: torch.Tensor) -> str | None:
        if self.source.dim() == 0:
            return exact_problem(expected, ours)
        if ours.dim() < self.source.dim():
            expected, ours = expected.unsqueeze(self.axis), ours.unsqueeze(self.axis)
        in_order = ours.sort(self.axis).values
        if ours.numel() and (in_order.diff(dim=self.axis) == 0).any():
            return "a position stands there twice"
        theirs, mine = (self.source.gather(self.axis, positions) for positions in (expected, ours))
        same = (theirs == mine) | (theirs.isnan() & mine.isnan())
        return None if same.all() else exact_problem(expected, ours)


class Precision(NamedTuple):
    """The call in torch on other tensors: as it is, in double and in single precision."""

    given: Callable[[list], list]
    wide: Callable[[list], list]
    narrow: Callable[[list], list]


class Judge:
    """Compares the results of one call. `size` tells what whole a result rounds relative to, when it is not element by
    element; `view` makes of the results what is compared, when they are not determined themselves; `known` are those of them
    whose exact value the call does not have to tell."""

    def __init__(
        self,
        compute: Precision,
        tensors: list[torch.Tensor],
        expected: list[torch.Tensor],
        positions: OpenPositions | None = None,
        size: Size | None = None,
        view: Callable[[list], list] | None = None,
        known: dict[int, torch.Tensor] | None = None,
    ):
        self.compute = compute
        self.tensors = tensors
        self.expected = expected
        self.positions = positions
        self.size = size
        self.view = view
        self.known = known or {}
        self._exact: list | None = None

    def problems(self, ours: list[torch.Tensor], types_only: bool, nearby: bool = True) -> list[str]:
        """Without `nearby`, what torch is off by on these inputs alone counts."""
        if len(ours) != len(self.expected):
            return [f"{len(ours)} results instead of {len(self.expected)}"]
        found = [type_problem(theirs, mine) for theirs, mine in zip(self.expected, ours, strict=True)]
        if not any(found) and not types_only:
            pairs = zip(self._seen(self.expected), self._seen(ours), strict=True)
            found = [self._value_problem(index, *pair, nearby) for index, pair in enumerate(pairs)]
        several = len(found) > 1
        return [f"result {i}: {text}" if several else text for i, text in enumerate(found) if text]

    def _seen(self, results: list[torch.Tensor]) -> list[torch.Tensor]:
        return self.view(results) if self.view else results

    def _value_problem(
        self, index: int, expected: torch.Tensor, ours: torch.Tensor, nearby: bool
    ) -> str | None:
        if self.positions is not None and self.positions.result == index:
            return self.positions.problem(expected, ours)
        if not is_inexact(expected):
            return exact_problem(expected, ours)
        if torch.equal(expected, ours):
            return None
        exact = self._exact_result(index, expected)
        expected = torch.where(_kernel_fails(expected, exact, ours), exact.to(expected.dtype), expected)
        problem = position_problem(expected, ours)
        if problem:
            return problem
        floor = self._own_error(index, expected, exact)
        if self.size is not None:
            whole = self.size(exact.abs().double().nan_to_num(0, 0, 0))
            floor = floor + 2 * roundoff(expected.dtype) * whole
        problem = distance_problem(expected, ours, exact, floor)
        if problem and nearby:
            floor = torch.maximum(floor, self._floor_nearby(index, expected, exact))
            problem = distance_problem(expected, ours, exact, floor)
        return problem

    def _exact_result(self, index: int, expected: torch.Tensor) -> torch.Tensor:
        """torch's double-precision result; torch's own result where double precision takes another turn."""
        if index in self.known:
            return self.known[index]
        if self._exact is None:
            self._exact = self._computed(self.compute.wide, [widened(t) for t in self.tensors])
        theirs = widened(expected)
        if index >= len(self._exact):
            return theirs
        exact = self._exact[index]
        if exact.shape != expected.shape or exact.dtype != theirs.dtype:
            return theirs
        return torch.where(exact.isfinite(), exact, theirs)

    def _own_error(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        if expected.dtype in NARROW and index not in self.known:
            return self._kernel_error(index, expected, exact)
        return _distance(widened(expected), exact)

    def _kernel_error(
        self,
        index: int,
        expected: torch.Tensor,
        exact: torch.Tensor,
        generator: torch.Generator | None = None,
        move: float = 0.0,
    ) -> torch.Tensor:
        """What torch's kernel is off by, on tensors that are moved if there is a generator; in double precision by what it
        is off in single precision."""
        narrow = expected.dtype in NARROW
        compute = self.compute.narrow if narrow else self.compute.given
        working = NARROW.get(expected.dtype, expected.dtype)
        tensors = self.tensors
        if generator is not None:
            tensors = [_moved(t, max(move, roundoff(working)), generator) for t in self._movable()]
        tensors = [_rounded(t, given, narrow) for t, given in zip(tensors, self.tensors, strict=True)]
        coarse = _result(self._computed(compute, tensors), index, exact)
        fine = _result(self._computed(self.compute.wide, [widened(t) for t in tensors]), index, exact)
        if coarse is None or fine is None:
            return torch.zeros(exact.shape, dtype=torch.float64)
        return _distance(widened(coarse), fine) * (roundoff(expected.dtype) / roundoff(working))

    def _floor_nearby(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        """How far the exact result moves with its inputs, and what torch's kernel is off by on such inputs."""
        generator = torch.Generator().manual_seed(0)
        unit = max((roundoff(t.dtype) for t in self.tensors if is_inexact(t)), default=0.0)
        unit = max(unit, roundoff(expected.dtype))
        floor = torch.zeros(exact.shape, dtype=torch.float64)
        for number in range(_MOVES):
            moved = [_moved(t, unit, generator) for t in self._movable()]
            there = _result(self._computed(self.compute.wide, moved), index, exact)
            if there is not None:
                floor = torch.maximum(floor, _distance(there, exact))
            move = _NEARBY if number % 2 else 0.0
            floor = torch.maximum(floor, self._kernel_error(index, expected, exact, generator, move))
        return floor

    def _movable(self) -> list[torch.Tensor]:
        """The tensors in double precision; where all are whole numbers, as the floats that they become."""
        if any(is_inexact(t) for t in self.tensors):
            return [widened(t) for t in self.tensors]
        return [t.double() for t in self.tensors]

    def _computed(self, compute: Callable[[list], list], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return self._seen(compute(tensors))
        except Exception:  # no kernel in that precision, or a dtype argument that does not fit it
            return []


def _result(results: list[torch.Tensor], index: int, like: torch.Tensor) -> torch.Tensor | None:
    fits = index < len(results) and results[index].shape == like.shape and is_inexact(results[index])
    return results[index] if fits and results[index].is_complex() == like.is_complex() else None


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a - b).abs().double().nan_to_num(0, 0, 0)


def _kernel_fails(expected: torch.Tensor, exact: torch.Tensor, ours: torch.Tensor) -> torch.Tensor:
    """Where torch, unlike us, gives NaN or infinity for a number, or NaN for one that is too large: something on the way overflowed."""
    number = ~expected.isfinite() & exact.to(expected.dtype).isfinite() & ours.isfinite()
    return number | (expected.isnan() & exact.isfinite() & ~ours.isnan())


def _moved(tensor: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    if not is_inexact(tensor):
        return tensor
    signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8) * 2 - 1
    return tensor * (1 + unit * signs.double())


def _rounded(tensor: torch.Tensor, given: torch.Tensor, narrow: bool) -> torch.Tensor:
    """In the dtype of the given tensor; a whole number that was moved stays a float."""
    if not is_inexact(tensor):
        return tensor
    dtype = given.dtype if is_inexact(given) else torch.float32
    return tensor.to(NARROW.get(dtype, dtype) if narrow else dtype)


def type_problem(expected: torch.Tensor, ours: torch.Tensor) -> str | None:
    if expected.dtype == ours.dtype and expected.shape == ours.shape:
        return None
    return f"{ours.dtype} {list(ours.shape)} instead of {expected.dtype} {list(expected.shape)}"


def exact_problem(expected: torch.Tensor, ours: torch.Tensor) -> str | None:
    wrong = expected != ours
    return (
        _shown(expected, ours, wrong, f"{int(wrong.sum())} of {wrong.numel()} differ")
        if wrong.any()
        else None
    )


def position_problem(expected: torch.Tensor, ours: torch.Tensor) -> str | None:
    for theirs, mine in zip(_parts(expected), _parts(ours), strict=True):
        wrong = theirs.isnan() != mine.isnan()
        infinite = theirs.isinf() | mine.isinf()
        wrong |= infinite & (theirs != mine) & ~(theirs.isnan() & mine.isnan())
        if wrong.any():
            return _shown(expected, ours, wrong, "NaN or infinity elsewhere")
    return None


def distance_problem(
    expected: torch.Tensor, ours: torch.Tensor, exact: torch.Tensor, floor: torch.Tensor
) -> str | None:
    finite = expected.isfinite() & exact.isfinite()
    if not finite.any():
        return None
    unit = roundoff(expected.dtype)
    allowed = 4 * floor.double() + 8 * unit * torch.where(finite, exact.abs().double(), 0.0)
    if expected.dtype in NARROW:
        allowed *= 2  # `exact` is torch's own result, and as far off
    allowed += torch.finfo(expected.dtype).tiny  # results below it need not be there
    distance = (widened(ours) - exact).abs().double()
    wrong = finite & ~(distance <= allowed)
    if not wrong.any():
        return None
    worst = float((distance / allowed)[wrong].max())
    return _shown(expected, ours, wrong, f"off by {worst:.2g} times what is allowed")


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [tensor.real, tensor.imag] if tensor.is_complex() else [tensor]


def _shown(expected: torch.Tensor, ours: torch.Tensor, wrong: torch.Tensor, what: str) -> str:
    where = wrong.flatten().nonzero()[0, 0]
    return f"{what}: {ours.flatten()[where].item()} instead of {expected.flatten()[where].item()} at {int(where)}"
