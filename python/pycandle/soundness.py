"""Is the recorded program the model? Both run side by side; a difference must be rounding, or it is an error."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .dims import evaluate
from .eager import Eager
from .inputs import Inputs
from .interpreter import ROUNDOFF, ProgramFailed, run_program
from .program import Program
from .taps import symbol_sizes

RMS_FACTOR = 4.0
MAX_FACTOR = 16.0


@dataclass(frozen=True)
class Check:
    """One comparison that held."""

    what: str
    shapes: dict[str, list[int]]
    result: str


class Mismatch(Exception):
    """The program and the model gave different results for `inputs`."""

    def __init__(self, what: str, inputs: Inputs, detail: str):
        self.what = what
        self.inputs = inputs
        self.detail = detail
        super().__init__(f"{what}: {detail}")


def compare(what: str, eager: Eager, program: Program, inputs: Inputs, expected: list | None = None) -> Check:
    """Runs both; `expected` are the model's outputs when they are known already."""
    expected = eager.run(inputs) if expected is None else expected
    try:
        found = run_program(program, inputs.copied().leaves, eager.seed)
    except ProgramFailed as failure:
        raise Mismatch(
            what, inputs, f"the exported program fails where the model runs: {failure}"
        ) from failure
    result = compare_outputs(what, eager, program, inputs, expected, found)
    return Check(what, inputs.shapes(), result)


def compare_shapes(what: str, program: Program, inputs: Inputs) -> Check:
    """Runs the program on meta tensors and compares with the shapes that were recorded for its outputs."""
    try:
        found = run_program(program, inputs.copied().leaves, 0)
    except ProgramFailed as failure:
        raise Mismatch(what, inputs, f"the exported program fails: {failure}") from failure
    sizes = symbol_sizes(program, inputs)
    for i, (node, tensor) in enumerate(zip(program.outputs, found, strict=True)):
        if isinstance(tensor, torch.Tensor):
            recorded = [evaluate(size, sizes) for size in node.meta["val"].shape]
            if recorded != list(tensor.shape):
                raise Mismatch(what, inputs, f"output {i} is {list(tensor.shape)} instead of {recorded}")
    return Check(what, inputs.shapes(), "same shapes")


def compare_outputs(what, eager, program, inputs, expected: list, found: list) -> str:
    if len(expected) != len(found):
        raise Mismatch(what, inputs, f"{len(found)} outputs instead of {len(expected)}")
    expected = [_as_data(e, f) for e, f in zip(expected, found, strict=True)]
    different = [
        i for i, (e, f) in enumerate(zip(expected, found, strict=True)) if not _same(what, inputs, i, e, f)
    ]
    if not different:
        only_shapes = any(isinstance(e, torch.Tensor) and e.is_meta for e in expected)
        return "same shapes" if only_shapes else "bit-equal"
    exact = _double_run(program, inputs, eager.seed)
    moved = _double_run(program, inputs, eager.seed, torch.Generator().manual_seed(eager.seed))
    for i in different:
        if exact is None or moved is None or not within_rounding(found[i], expected[i], exact[i], moved[i]):
            raise Mismatch(what, inputs, describe_difference(i, expected[i], found[i]))
    return "within rounding"


def _as_data(expected: object, found: object) -> object:
    """torch.equal gives a Python bool, which is a tensor in the program."""
    is_data = isinstance(expected, bool) and isinstance(found, torch.Tensor)
    return torch.tensor(expected) if is_data else expected


def _same(what: str, inputs: Inputs, index: int, expected: object, found: object) -> bool:
    """Whether two outputs are equal to the bit; types and shapes must be equal in any case."""
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        if isinstance(expected, torch.Tensor) != isinstance(found, torch.Tensor) or expected != found:
            raise Mismatch(what, inputs, f"output {index} is {found!r} instead of {expected!r}")
        return True
    if expected.dtype != found.dtype or expected.shape != found.shape:
        wanted = f"{expected.dtype} {list(expected.shape)}"
        raise Mismatch(
            what, inputs, f"output {index} is {found.dtype} {list(found.shape)} instead of {wanted}"
        )
    return expected.is_meta or bit_equal(expected, found)


def bit_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if torch.equal(a, b):
        return True
    if a.dtype.is_floating_point or a.dtype.is_complex:
        both_nan = torch.isnan(a) & torch.isnan(b)
        return bool(((a == b) | both_nan).all())
    return False


def _double_run(
    program: Program, inputs: Inputs, seed: int, jitter: torch.Generator | None = None
) -> list | None:
    try:
        return run_program(program, inputs.copied().leaves, seed, wide=True, jitter=jitter)
    except (ProgramFailed, RuntimeError):
        return None


def within_rounding(found: torch.Tensor, expected: torch.Tensor, exact: object, moved: object) -> bool:
    """The difference is at most a few times what rounding alone does to the program's result.

    `exact` is the program in double precision and `moved` the same with every value jittered by one rounding.
    The model's result has no part in the floor: a wrong program would otherwise raise its own tolerance.
    """
    if (
        not expected.dtype.is_floating_point
        or not isinstance(exact, torch.Tensor)
        or exact.shape != expected.shape
    ):
        return False
    nan = torch.isnan(expected)
    if not torch.equal(nan, torch.isnan(found)):
        return False
    keep = torch.isfinite(expected) & torch.isfinite(found) & torch.isfinite(exact) & torch.isfinite(moved)
    if not torch.equal(expected[~keep & ~nan], found[~keep & ~nan]):
        return False
    ours, theirs, truth, jittered = (t[keep].double() for t in (found, expected, exact, moved))
    if ours.numel() == 0:
        return True
    roundoff = ROUNDOFF[expected.dtype]
    floor_rms = max(_rms(ours - truth), _rms(jittered - truth), roundoff * _rms(truth))
    floor_max = max(_top(ours - truth), _top(jittered - truth), roundoff * _top(truth))
    return _rms(theirs - ours) <= RMS_FACTOR * floor_rms and _top(theirs - ours) <= MAX_FACTOR * floor_max


def _top(t: torch.Tensor) -> float:
    return t.abs().max().item()


def _rms(t: torch.Tensor) -> float:
    return t.square().mean().sqrt().item()


def describe_difference(index: int, expected: torch.Tensor, found: torch.Tensor) -> str:
    if expected.dtype.is_floating_point or expected.dtype.is_complex:
        worst = (expected.to(torch.complex128) - found.to(torch.complex128)).abs()
        worst = worst.nan_to_num(float("inf")).max().item()
        return f"output {index} differs by up to {worst:.3g}"
    return f"output {index} differs in {(expected != found).sum().item()} of {expected.numel()} places"
