"""Our values beside torch's.

dtype and shape     equal
integers, bools     equal; positions that ties leave open (sort without stable=True, topk, kthvalue, median, mode) must name equal elements, each once
NaN, infinities     at the same places, but where torch has one and its exact result is a number of the dtype, either will do
floats              |ours - exact| <= 4 floor + 8 u |exact|, for each element by itself

`exact` is torch's result in double precision, `u` half the distance from 1 to the next number of the dtype. `floor` is what
torch itself is off by or, where that is not enough, by how much the exact result moves when every input moves by u: an
implementation cannot know its inputs better than that. For results in double precision there is nothing more exact: what
torch is off by is measured in single precision and scaled, and twice the distance is allowed. Fourier transforms round relative
to the whole of their result: 8 u rms(exact) more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

_WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
_NARROWED = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_MOVES = 8  # how often the inputs are moved


def is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_WIDE.get(tensor.dtype, tensor.dtype))


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
    """Compares the results of one call. `compute` is the call in torch, on other tensors."""

    def __init__(
        self,
        compute: Callable[[list], list],
        tensors: list[torch.Tensor],
        expected: list[torch.Tensor],
        positions: OpenPositions | None = None,
        as_a_whole: bool = False,
    ):
        self.compute = compute
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
            floor = torch.maximum(floor, self._movement(index, expected, exact))
            problem = distance_problem(expected, ours, exact, floor)
        return problem

    def _exact_result(self, index: int, expected: torch.Tensor) -> torch.Tensor:
        """torch's double-precision result; torch's own result where double precision takes another turn."""
        if self._exact is None:
            self._exact = self._computed([widened(t) for t in self.tensors])
        theirs = widened(expected)
        if index >= len(self._exact):
            return theirs
        exact = self._exact[index]
        if exact.shape != expected.shape or exact.dtype != theirs.dtype:
            return theirs
        return torch.where(exact.isfinite(), exact, theirs)

    def _own_error(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        error = (widened(expected) - exact).abs().double().nan_to_num(0, 0, 0)
        if expected.dtype in _NARROWED:
            narrow = [t.to(_NARROWED.get(t.dtype, t.dtype)) for t in self.tensors]
            coarse, fine = self._computed(narrow), self._computed([widened(t) for t in narrow])
            if (
                min(len(coarse), len(fine)) > index
                and coarse[index].shape == fine[index].shape == expected.shape
            ):
                error = (coarse[index] - fine[index]).abs().double().nan_to_num(0, 0, 0)
                error *= roundoff(torch.float64) / roundoff(torch.float32)
        return error

    def _movement(self, index: int, expected: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        unit = max((roundoff(t.dtype) for t in self.tensors if is_inexact(t)), default=0.0)
        unit = max(unit, roundoff(expected.dtype))
        moved_by = torch.zeros(exact.shape, dtype=torch.float64)
        for _ in range(_MOVES):
            moved = self._computed([_moved(widened(t), unit, generator) for t in self.tensors])
            if index < len(moved) and moved[index].shape == exact.shape and moved[index].dtype == exact.dtype:
                distance = (moved[index] - exact).abs().double().nan_to_num(0, 0, 0)
                moved_by = torch.maximum(moved_by, distance)
        return moved_by

    def _computed(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return self.compute(tensors)
        except Exception:  # no kernel in double precision, or a dtype argument that does not fit it
            return []


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
    if expected.dtype in _NARROWED:
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
