"""Where two runs part: the first line of the user's Python that gives another value, or that only one of them ran."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass

import torch

from ..eager import Eager
from ..graph.interpreter import ProgramFailed, run_program
from ..graph.names import deciding_line
from ..graph.program import Program, is_size, producer
from ..inputs import Inputs
from ..places import Place, place_here, place_of_text
from ..torch_compat import TorchDispatchMode

_SAMPLE = 4096
_TOLERANCES = (1e-3, 1e-6, 0.0)  # of a value's scale: rounding on the way must not be taken for the cause
_LONGEST = 6000  # steps; what differs first differs early, and aligning is quadratic


@dataclass(frozen=True)
class Difference:
    place: Place
    module: str | None
    explanation: str


@dataclass
class Step:
    """What one line of Python computed, once: its last tensor, as a sample."""

    place: Place
    sample: tuple | None
    module: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.place.file, self.place.line


def first_difference(eager: Eager, program: Program, inputs: Inputs) -> Difference | None:
    """The first line where the model and its exported program part."""
    model, exported = _eager_steps(eager, inputs), _program_steps(program, inputs, eager.seed)
    for tolerance in _TOLERANCES:
        if difference := _compare(model, exported, tolerance):
            return difference
    return None


def first_change(eager: Eager, inputs: Inputs) -> Difference | None:
    """The first line that computes something else when the model runs a second time."""
    return _compare(_eager_steps(eager, inputs), _eager_steps(eager, inputs), 0.0)


class _Steps(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.steps: list[Step] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if (place := place_here()) is not None:
            _append(self.steps, place, result)
        return result


def _eager_steps(eager: Eager, inputs: Inputs) -> list[Step]:
    log = _Steps()
    with contextlib.suppress(Exception), log:  # the steps before a failure are what matters
        eager.run(inputs)
    return log.steps


def _program_steps(program: Program, inputs: Inputs, seed: int) -> list[Step]:
    steps: list[Step] = []

    def see(node, value):
        place = place_of_text(node.meta.get("stack_trace")) if node.op == "call_function" else None
        if place is not None and not is_size(node) and producer(node)[0] is node:
            call = program.call_of_node.get(node)
            _append(steps, place, value, program.calls[call].path if call is not None else None)

    with contextlib.suppress(ProgramFailed):
        run_program(program, inputs.copied().leaves, seed, see)
    return steps


def _append(steps: list[Step], place: Place, result: object, module: str | None = None) -> None:
    tensors = [
        t for t in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(t, torch.Tensor)
    ]
    sample = _sample(tensors[0]) if tensors else None
    if steps and steps[-1].key == (place.file, place.line):
        steps[-1] = Step(place, sample or steps[-1].sample, module)
    else:
        steps.append(Step(place, sample, module))


def _sample(tensor: torch.Tensor) -> tuple:
    """Shape and up to 4096 elements: enough to tell two values apart without keeping them."""
    if tensor.is_meta or tensor.dtype.is_complex:
        return tuple(tensor.shape), None
    flat = tensor.detach().reshape(-1)
    flat = flat[:: max(1, flat.numel() // _SAMPLE)]
    return tuple(tensor.shape), flat.double().clone()


def _compare(first: list[Step], second: list[Step], tolerance: float) -> Difference | None:
    first, second = first[:_LONGEST], second[:_LONGEST]
    matcher = difflib.SequenceMatcher(None, [s.key for s in first], [s.key for s in second], autojunk=False)
    other_shape: Difference | None = None
    for kind, i0, i1, j0, j1 in matcher.get_opcodes():
        if kind == "equal":
            for a, b in zip(first[i0:i1], second[j0:j1], strict=True):
                if a.sample and b.sample and a.sample[0] != b.sample[0]:
                    other_shape = other_shape or _found(a, b, "this line gives another shape")
                elif not _close(a.sample, b.sample, tolerance):
                    return _found(a, b, "this line gives another value")
        elif parted := _parted(first[i0:i1], second[j0:j1], _next(second, j0), _next(first, i0)):
            return parted
    return other_shape


def _parted(only_first: list[Step], only_second: list[Step], next_second, next_first) -> Difference | None:
    """A branch or loop that one run entered and the other did not."""
    for steps, other in ((only_first, next_second), (only_second, next_first)):
        for step in steps:
            line = other.place.line if other and other.place.file == step.place.file else None
            head = deciding_line(step.place.file, step.place.line, line)
            if head is not None:
                module = step.module or (other.module if other else None)
                return Difference(Place(step.place.file, head), module, "the two runs part at this line")
    return None


def _next(steps: list[Step], index: int) -> Step | None:
    return steps[index] if index < len(steps) else None


def _found(a: Step, b: Step, explanation: str) -> Difference:
    return Difference(a.place, a.module or b.module, explanation)


def _close(a: tuple | None, b: tuple | None, tolerance: float) -> bool:
    if a is None or b is None or a[1] is None or b[1] is None:
        return True
    x, y = a[1], b[1]
    scale = x[torch.isfinite(x)].abs().max().item() if torch.isfinite(x).any() else 0.0
    return torch.allclose(x, y, rtol=0.0, atol=tolerance * scale, equal_nan=True)
