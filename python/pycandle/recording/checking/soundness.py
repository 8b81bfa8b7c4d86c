"""Is the recorded program the model? Both run side by side; a difference must be rounding, or it is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..eager import Eager
from ..graph.interpreter import ROUNDOFF, ProgramFailed, run_call, run_program
from ..graph.program import Program
from ..graph.taps import symbol_sizes
from ..inputs import Inputs
from ..sizes.dims import DimNames, evaluate, symbol_of

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

    def __init__(self, what: str, inputs: Inputs, detail: str, node: torch.fx.Node | None = None):
        self.what = what
        self.inputs = inputs
        self.detail = detail
        self.node = node  # where it shows, when that is known
        super().__init__(f"{what}: {detail}")


def compare(
    what: str,
    eager: Eager,
    program: Program,
    inputs: Inputs,
    expected: list | None = None,
    dims: DimNames | None = None,
) -> Check:
    """Runs both; `expected` are the model's outputs when they are known already.

    With `dims`, every result must also have the shape that the manifest writes for it.
    """
    expected = eager.run(inputs) if expected is None else expected
    named = {f"output {i}": value for i, value in enumerate(expected)}
    see = _sizes_as_written(what, program, dims, inputs) if dims else None

    def run(**how) -> dict:
        outputs = run_program(program, inputs.copied().leaves, eager.seed, see=see, **how)
        return {f"output {i}": value for i, value in enumerate(outputs)}

    return Check(what, inputs.shapes(), _compare(what, inputs, named, run, eager.seed))


def compare_calls(eager: Eager, program: Program, calls: list[Inputs]) -> list[Check]:
    """Calls in a row: what the states become in each, and the outputs of the later ones, which read them."""
    names = [state.name for state in program.states()]
    states: dict[str, torch.Tensor] | None = None
    checks = []
    for number, (inputs, call) in enumerate(zip(calls, eager.run_calls(calls, names), strict=True), 1):

        def run(inputs=inputs, states=states, **how) -> dict:
            outputs, new = run_call(program, inputs.copied().leaves, eager.seed, states=states, **how)
            return _named(outputs, new)

        what = f"call {number} and its states"
        checks.append(
            Check(
                what,
                inputs.shapes(),
                _compare(what, inputs, _named(call.outputs, call.states), run, eager.seed),
            )
        )
        states = call.states
    return checks


def _named(outputs: list, states: dict) -> dict:
    named = {f"output {i}": value for i, value in enumerate(outputs)}
    return named | {f"state {name}": value for name, value in states.items()}


def _sizes_as_written(what: str, program: Program, dims: DimNames, inputs: Inputs):
    sizes = symbol_sizes(program, inputs)
    known: dict[object, int | None] = {}

    def written(size: object) -> int | None:
        expression = symbol_of(size)
        if expression not in known:
            known[expression] = dims.evaluate(size, sizes)
        return known[expression]

    def see(node: torch.fx.Node, value: object) -> None:
        recorded = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not isinstance(recorded, torch.Tensor):
            return
        shape = [written(size) for size in recorded.shape]
        is_other = len(shape) != value.dim() or any(
            w not in (None, found) for w, found in zip(shape, value.shape, strict=True)
        )
        if is_other:
            texts = [dims.write(size) for size in recorded.shape]
            raise Mismatch(
                what, inputs, f"{node.name} is {list(value.shape)} instead of {shape} ({texts})", node
            )

    return see


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


def _compare(what: str, inputs: Inputs, expected: dict, run: Callable[..., dict], seed: int) -> str:
    """`expected` are the model's values by name, `run` gives the program's; a difference must be rounding."""
    try:
        found = run()
    except ProgramFailed as failure:
        raise Mismatch(
            what, inputs, f"the exported program fails where the model runs: {failure}"
        ) from failure
    if len(expected) != len(found):
        raise Mismatch(what, inputs, f"{len(found)} outputs instead of {len(expected)}")
    expected = {name: _as_data(value, found[name]) for name, value in expected.items()}
    different = [name for name in expected if not _same(what, inputs, name, expected[name], found[name])]
    if not different:
        only_shapes = any(isinstance(e, torch.Tensor) and e.is_meta for e in expected.values())
        return "same shapes" if only_shapes else "bit-equal"
    exact = _double_run(run)
    moved = _double_run(run, torch.Generator().manual_seed(seed))
    for name in different:
        if (
            exact is None
            or moved is None
            or not within_rounding(found[name], expected[name], exact[name], moved[name])
        ):
            raise Mismatch(what, inputs, describe_difference(name, expected[name], found[name]))
    return "within rounding"


def _as_data(expected: object, found: object) -> object:
    """torch.equal gives a Python bool, which is a tensor in the program."""
    is_data = isinstance(expected, bool) and isinstance(found, torch.Tensor)
    return torch.tensor(expected) if is_data else expected


def _same(what: str, inputs: Inputs, name: str, expected: object, found: object) -> bool:
    """Whether two outputs are equal to the bit; types and shapes must be equal in any case."""
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        if isinstance(expected, torch.Tensor) != isinstance(found, torch.Tensor) or expected != found:
            raise Mismatch(what, inputs, f"{name} is {found!r} instead of {expected!r}")
        return True
    if expected.dtype != found.dtype or expected.shape != found.shape:
        wanted = f"{expected.dtype} {list(expected.shape)}"
        raise Mismatch(what, inputs, f"{name} is {found.dtype} {list(found.shape)} instead of {wanted}")
    return expected.is_meta or bit_equal(expected, found)


def bit_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if torch.equal(a, b):
        return True
    if a.dtype.is_floating_point or a.dtype.is_complex:
        both_nan = torch.isnan(a) & torch.isnan(b)
        return bool(((a == b) | both_nan).all())
    return False


def _double_run(run: Callable[..., dict], jitter: torch.Generator | None = None) -> dict | None:
    try:
        return run(wide=True, jitter=jitter)
    except (ProgramFailed, RuntimeError):
        return None


def within_rounding(found: torch.Tensor, expected: torch.Tensor, exact: object, moved: object) -> bool:
    """The difference is at most a few times what rounding alone does to the program's result.

    `exact` is the program in double precision and `moved` the same with every value jittered by one rounding.
    The model's result has no part in the floor: a wrong program would otherwise raise its own tolerance.
    """
    if expected.dtype.is_complex and isinstance(exact, torch.Tensor) and exact.is_complex():
        parts = (torch.view_as_real(t.resolve_conj()) for t in (found, expected, exact, moved))
        return within_rounding(*parts)
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


def describe_difference(name: str, expected: torch.Tensor, found: torch.Tensor) -> str:
    if expected.dtype.is_floating_point or expected.dtype.is_complex:
        worst = (expected.to(torch.complex128) - found.to(torch.complex128)).abs()
        worst = worst.nan_to_num(float("inf")).max().item()
        return f"{name} differs by up to {worst:.3g}"
    return f"{name} differs in {(expected != found).sum().item()} of {expected.numel()} places"
