"""Our values beside torch's.

dtype and shape     equal
integers, bools     equal; positions that ties leave open (sort without stable=True, topk, kthvalue, median, mode) must name equal elements, each once
NaN, infinities     at the same places, but where torch has one and its exact result is a number of the dtype, either will do
floats              |ours - exact| <= 4 floor + 8 u |exact|, for each element by itself

`exact` is torch's result in double precision, `u` half the distance from 1 to the next number of the dtype. `floor` is what
torch itself is off by or, where that is not enough, the largest of what torch is off by on inputs moved by u, and of how far the
exact result moves with them: an implementation cannot know its inputs better than that. For results in double precision there is nothing more exact: what
torch is off by is measured in single precision and scaled, and twice the distance is allowed. Fourier transforms round relative
to the whole of their result: 8 u rms(exact) more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .samples import WIDE

NARROWED = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_MOVES = 24  # how often the inputs are moved: rounding errors that cancel do so by luck


def is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


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


class Judge:
    """Compares the results of one call. `compute` is the call in torch on other tensors, `compute_wide` in double precision."""

    def __init__(
        self,
        compute: Callable[[list], list],
        compute_wide: Callable[[list], list],
        tensors: list[torch.Tensor],
        expected: list[torch.Tensor],
        positions: OpenPositions | None = None,
        as_a_whole: bool = False,
    ):
        self.compute = compute
        self.compute_wide = compute_wide
        self.tensors = tensors
        self.expected = expected
        self.positions = positions
        self.as_a_whole = as_a_whole
        self._exact: list | None = None

    def problems(self, ours: list[torch.Tensor], types_only: bool) -> list[str]:
        if len(ours) != len(self.expected):
            return [f"{len(ours)} results instead of {len(self.expected)}"]
        found = []
        for index, (expected, mine) in enumerate(zip(self.expected, ours, strict=True)):
            problem = type_problem(expected, mine)
            if problem is None and not types_only:
                problem = self._value_problem(index, expected, mine)
            if problem:
                found.append(problem if len(ours) == 1 else f"result {index}: {problem}")
        return found

    def _value_problem(self, index: int, expected: torch.Tensor, ours: torch.Tensor) -> str | None:
        if self.positions is not None and self.positions.result == index:
            return self.positions.problem(expected, ours)
        if not is_inexact(expected):
            return exact_problem(expected, ours)
        if torch.equal(expected, ours):
            return None
        exact = self._exact_result(index, expected)
        expected = torch.where(
            _kernel_fails(expected, exact) & ours.isfinite(), exact.to(expected.dtype), expected
        )
        problem = position_problem(expected, ours)
        if problem:
            return problem
        floor = self._own_error(index, expected, exact)
        if self.as_a_whole:
            size = exact.abs().double().nan_to_num(0, 0, 0)
            floor = floor + 2 * roundoff(expected.dtype) * size.square().mean().sqrt()
        problem = distance_problem(expected, ours, exact, floor)
        if problem:
            floor = torch.maximum(floor, self._floor_nearby(index, expected, exact))
            problem = distance_problem(expected, ours, exact, floor)
        return problem

    def _exact_result(self, index: int, expected: torch.Tensor) -> torch.Tensor:
        """torch's double-precision result; torch's own result where double precision takes another turn."""
        if self._exact is None:
            self._exact = self._computed(self.compute_wide, [widened(t) for t in self.tensors])
        theirs = widened(expected)
        if index >= len(self._exact):
            return theirs
        exact = self._exact[index]
        if exact.shape != expected.shape or exact.dtype != theirs.dtype:
            return theirs
        return torch.where(exact.isfinite(), exact, theirs)

    def _own_error(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        if expected.dtype in NARROWED:
            return self._kernel_error(index, exact, self.tensors)
        return _distance(widened(expected), exact)

    def _kernel_error(self, index: int, exact: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        """What torch's kernel is off by on these tensors; in double precision by what it is off in single precision."""
        nothing = torch.zeros(exact.shape, dtype=torch.float64)
        scale = 1.0
        if self.expected[index].dtype in NARROWED:
            tensors = [t.to(NARROWED.get(t.dtype, t.dtype)) for t in tensors]
            scale = roundoff(torch.float64) / roundoff(torch.float32)
        coarse = _result(self._computed(self.compute, tensors), index, exact)
        fine = _result(self._computed(self.compute_wide, [widened(t) for t in tensors]), index, exact)
        return nothing if coarse is None or fine is None else _distance(widened(coarse), fine) * scale

    def _floor_nearby(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        """How far the exact result moves with its inputs, and what torch's kernel is off by on such inputs."""
        generator = torch.Generator().manual_seed(0)
        unit = max((roundoff(t.dtype) for t in self.tensors if is_inexact(t)), default=0.0)
        unit = max(unit, roundoff(expected.dtype))
        floor = torch.zeros(exact.shape, dtype=torch.float64)
        for _ in range(_MOVES):
            moved = [_moved(widened(t), unit, generator) for t in self.tensors]
            there = _result(self._computed(self.compute_wide, moved), index, exact)
            if there is not None:
                floor = torch.maximum(floor, _distance(there, exact))
            rounded = [m.to(t.dtype) for m, t in zip(moved, self.tensors, strict=True)]
            floor = torch.maximum(floor, self._kernel_error(index, exact, rounded))
        return floor

    def _computed(self, compute: Callable[[list], list], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return compute(tensors)
        except Exception:  # no kernel in that precision, or a dtype argument that does not fit it
            return []


def _result(results: list[torch.Tensor], index: int, like: torch.Tensor) -> torch.Tensor | None:
    fits = index < len(results) and results[index].shape == like.shape and is_inexact(results[index])
    return results[index] if fits and results[index].is_complex() == like.is_complex() else None


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a - b).abs().double().nan_to_num(0, 0, 0)


def _kernel_fails(expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Where torch gives NaN or infinity for what is a number: something on the way overflowed."""
    return ~expected.isfinite() & exact.to(expected.dtype).isfinite()


def _moved(tensor: torch.Tensor, unit: float, generator: torch.Generator) -> torch.Tensor:
    if not is_inexact(tensor):
        return tensor
    signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8) * 2 - 1
    return tensor * (1 + unit * signs.double())


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
    if expected.dtype in NARROWED:
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
