"""From the user's example to a program that is sound: open as many axes as hold, fix the rest and say why.

all axes open → batch only → the user's example as it is
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
import torch

from .differences import first_difference
from .dims import DimNames, symbol_of
from .dynamic import Group, derived_sizes, permuted, resized
from .eager import Eager
from .errors import RecordingError
from .exporting import Exported, export_model
from .graph_writer import GraphWriter, Sources, bound_symbols
from .inputs import Inputs
from .places import Place, place_of_exception, place_of_text
from .program import Program, build_program, names_of_tensors
from .progress import Progress
from .soundness import Check, Mismatch, compare, compare_calls, compare_shapes


@dataclass(frozen=True)
class FixedGroup:
    """An axis that was meant to stay open, at which size it stays, and why."""

    group: Group
    reason: str
    place: Place | None


@dataclass
class OpenGroup:
    """Axes that stay open under one symbol."""

    group: Group
    symbol: sympy.Symbol
    derived: int
    minimum: int
    maximum: int | None


@dataclass
class Chosen:
    """A sound program and what is known of its sizes."""

    program: Program
    dims: DimNames
    open: list[OpenGroup]
    fixed: list[FixedGroup]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class TooOpen(Exception):
    """This attempt left axes open that cannot be. `groups` are the culprits, where they are known."""

    def __init__(self, reason: str, place: Place | None, groups: list[Group] | None = None):
        self.reason = reason
        self.place = place
        self.groups = groups
        super().__init__(reason)


def choose_program(
    eager: Eager,
    inputs: Inputs,
    groups: list[Group],
    expected: list | None,
    decompositions: dict,
    progress: Progress,
) -> Chosen:
    """Tries with every group open and gives up groups until the program is sound.

    `expected` are the model's outputs; None for a meta model that cannot run by itself.
    """
    fixed: list[FixedGroup] = []
    remaining = list(groups)
    while True:
        try:
            chosen = _attempt(eager, inputs, remaining, expected, decompositions, progress)
            chosen.fixed = fixed + chosen.fixed
            return chosen
        except TooOpen as failure:
            given_up = failure.groups or remaining[1:] or remaining
            fixed += [FixedGroup(group, failure.reason, failure.place) for group in given_up]
            remaining = [group for group in remaining if group not in given_up]


def _attempt(eager, inputs, groups, expected, decompositions, progress) -> Chosen:
    sizes = derived_sizes(groups)
    example = resized(inputs, groups, sizes)
    if groups and expected is not None:
        _run_example(eager, example)
    with progress.step("exporting"):
        exported = _export(eager, example, groups, decompositions)
    program = build_program(exported, names_of_tensors(eager.model))
    chosen = read_open_groups(exported, program, groups, sizes)
    _check_that_it_can_be_written(program, chosen)
    with progress.step("comparing with the model"):
        if expected is None:
            _check_shapes(inputs, chosen)
        else:
            _check_soundness(eager, inputs, expected, chosen)
    return chosen


def _run_example(eager: Eager, example: Inputs) -> None:
    try:
        eager.run(example)
    except Exception as error:
        reason = f"the model does not run on an example with other sizes ({_first_line(error)})"
        raise TooOpen(reason, place_of_exception(error)) from error


def _export(eager, example, groups, decompositions) -> Exported:
    axes = [axis for group in groups for axis in group.axes]
    eager.restore_buffers()
    try:
        return export_model(eager.model, example, axes, decompositions)
    except RecordingError as error:
        if not groups:
            raise
        raise TooOpen(f"torch.export fails with the axis open: {error.what}", error.place) from error
    finally:
        eager.restore_buffers()


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:200]}" if lines else type(error).__name__


# ---- which axes stayed open -----------------------------------------------------------------------------------


def read_open_groups(exported: Exported, program: Program, groups: list[Group], sizes: list[int]) -> Chosen:
    """What torch made of each group: one symbol, several (tied here), or a number."""
    chosen = Chosen(program, DimNames(), [], [])
    ranges = exported.program.range_constraints
    for group, size in zip(groups, sizes, strict=True):
        expressions = [_axis_expression(program, axis) for axis in group.axes]
        numbers = [e for e in expressions if isinstance(e, int)]
        composite = [e for e in expressions if not isinstance(e, int) and not e.is_Symbol]
        place = next((s.place for s in exported.specialised if s.size == size and s.place), None)
        if composite:
            raise TooOpen(f"the model needs this size to be of the form {composite[0]}", place, [group])
        if numbers:
            if size != group.size:
                raise TooOpen(_FIXED, place, [group])
            chosen.fixed.append(FixedGroup(group, _FIXED, place))
            for symbol in (e for e in expressions if not isinstance(e, int)):
                chosen.dims.tie(symbol, sympy.Integer(size))
            continue
        for symbol in expressions[1:]:
            if symbol != expressions[0]:
                chosen.dims.tie(symbol, expressions[0])
        lower, upper = _bounds(ranges, expressions)
        chosen.open.append(OpenGroup(group, expressions[0], size, lower, upper))
    bound_symbols(program, chosen.dims)
    return chosen


_FIXED = "the model turns this size into a plain number, which fixes it"


def _axis_expression(program: Program, axis: tuple[int, int]) -> sympy.Expr | int:
    node = program.user_inputs[axis[0]]
    return symbol_of(node.meta["val"].shape[axis[1]])


def _bounds(ranges: dict, symbols: list[sympy.Symbol]) -> tuple[int, int | None]:
    lower, upper = 2, None
    for symbol in symbols:
        if symbol in ranges:
            bounds = ranges[symbol]
            lower = max(lower, int(bounds.lower)) if bounds.lower.is_Integer else lower
            if bounds.upper.is_Integer and int(bounds.upper) < 2**62:
                upper = int(bounds.upper) if upper is None else min(upper, int(bounds.upper))
    return lower, upper


def _check_that_it_can_be_written(program: Program, chosen: Chosen) -> None:
    """Sizes that the manifest cannot say fix their axes, like any other reason."""
    try:
        trial = GraphWriter(program, chosen.dims, Sources(False))
        for node in program.graph.nodes:
            if node.op == "placeholder":
                trial.define(node)
        trial.write_nodes()
    except RecordingError as error:
        if not chosen.open:
            raise
        raise TooOpen(error.what, error.place) from error


# ---- soundness ------------------------------------------------------------------------------------------------


def _check_soundness(eager: Eager, inputs: Inputs, expected: list, chosen: Chosen) -> None:
    _check_recorded(eager, inputs, expected, chosen)
    groups = [entry.group for entry in chosen.open]
    if not groups:
        return
    _check_second_shape(eager, inputs, groups, chosen)
    for entry in chosen.open:
        _check_size_one(eager, inputs, entry, chosen)


def _check_recorded(eager: Eager, inputs: Inputs, expected: list, chosen: Chosen) -> None:
    program = chosen.program
    try:
        chosen.checks.append(compare("recorded input", eager, program, inputs, expected))
        other = permuted(inputs, eager.seed + 1)
        try:
            known = eager.run(other)
        except Exception as error:
            chosen.notes.append(
                f"not compared on permuted values: the model fails on them ({_first_line(error)})"
            )
        else:
            chosen.checks.append(compare("permuted values", eager, program, other, known))
    except Mismatch as mismatch:
        refusal = explain_mismatch(mismatch, eager, program)
        if not chosen.open:
            raise refusal from mismatch
        # torch takes the branch for sizes above 1 where the user's size is 1: those axes go first.
        ones = [entry.group for entry in chosen.open if entry.group.size == 1]
        raise TooOpen(refusal.what, refusal.place, ones or None) from mismatch


def _check_second_shape(eager: Eager, inputs: Inputs, groups: list[Group], chosen: Chosen) -> None:
    failure = None
    for step in (2, 1, -1):
        sizes = [_another_size(entry, step + i) for i, entry in enumerate(chosen.open)]
        other = resized(inputs, groups, sizes)
        try:
            known = eager.run(other)
        except Exception as error:
            failure = error
            continue
        try:
            chosen.checks.append(compare("second shape", eager, chosen.program, other, known))
        except Mismatch as mismatch:
            refusal = explain_mismatch(mismatch, eager, chosen.program)
            raise TooOpen(refusal.what, refusal.place) from mismatch
        return
    chosen.notes.append(f"not compared at a second shape: the model fails there ({_first_line(failure)})")


def _another_size(entry: OpenGroup, step: int) -> int:
    size = max(2, entry.derived + step)
    if entry.maximum is not None:
        size = min(size, entry.maximum)
    return max(size, entry.minimum)


def _check_size_one(eager: Eager, inputs: Inputs, entry: OpenGroup, chosen: Chosen) -> None:
    """torch exports no guard for what happens at size 1, so it is always compared."""
    label = f"{entry.group.label} of size 1"
    if entry.minimum > 2:
        if entry.group.size < entry.minimum:
            entry.minimum = entry.group.size
        return
    sizes = [1 if other is entry else other.derived for other in chosen.open]
    one = resized(inputs, [other.group for other in chosen.open], sizes)
    try:
        known = eager.run(one)
    except Exception as error:
        chosen.notes.append(f"{label} is left out: the model fails there ({_first_line(error)})")
        return
    try:
        chosen.checks.append(compare(label, eager, chosen.program, one, known))
        entry.minimum = 1
    except Mismatch as mismatch:
        refusal = explain_mismatch(mismatch, eager, chosen.program)
        chosen.notes.append(
            f"{label} is left out: {refusal.what}{f' at {refusal.place}' if refusal.place else ''}"
        )


def _check_shapes(inputs: Inputs, chosen: Chosen) -> None:
    """For a meta model that only torch.export can run: does the program give the shapes that were recorded?"""
    groups = [entry.group for entry in chosen.open]
    cases = [("recorded input", inputs)]
    if groups:
        cases.append(
            (
                "second shape",
                resized(inputs, groups, [_another_size(e, 2 + i) for i, e in enumerate(chosen.open)]),
            )
        )
    for entry in chosen.open:
        sizes = [1 if other is entry else other.derived for other in chosen.open]
        cases.append((f"{entry.group.label} of size 1", resized(inputs, groups, sizes)))
    for what, example in cases:
        try:
            chosen.checks.append(compare_shapes(what, chosen.program, example))
        except Mismatch as mismatch:
            if what == "recorded input":
                raise RecordingError(
                    f"the program does not give the recorded shapes ({mismatch})"
                ) from mismatch
            chosen.notes.append(f"not checked: {mismatch}")
    for entry in chosen.open:
        if (
            any(check.what == f"{entry.group.label} of size 1" for check in chosen.checks)
            and entry.minimum <= 2
        ):
            entry.minimum = 1


def explain_mismatch(mismatch: Mismatch, eager: Eager, program: Program) -> RecordingError:
    """The refusal that names the line where the two runs part."""
    difference = first_difference(eager, program, mismatch.inputs)
    what = f"the exported program is not the model ({mismatch})"
    hint = (
        "something outside the tensors decides here: a Python branch on sizes or values, a number or constant "
        "taken from the example, a module in train mode, or state kept between calls"
    )
    if difference is None:
        return RecordingError(what, None, hint)
    return RecordingError(f"{what}: {difference.explanation}", difference.place, hint, difference.module)


def check_second_call(eager: Eager, chosen: Chosen, inputs: Inputs) -> Inputs:
    """The inputs of a second call, after comparing two calls in a row: only there a state shows what it does.

    Other values than the first call's where the model takes them: a state that only repeats its input would not
    change again.
    """
    second = permuted(inputs, eager.seed + 1)
    try:
        eager.run_calls([inputs, second])
    except Exception:
        second = inputs.copied()
    try:
        chosen.checks += compare_calls(eager, chosen.program, [inputs, second])
    except Mismatch as mismatch:
        raise RecordingError(
            f"the exported program does not change its states as the model does ({mismatch})",
            _place_of_update(chosen.program, mismatch.detail),
            "write into a registered buffer (copy_, add_, index_copy_), or assign a tensor of its shape and dtype to it",
        ) from mismatch
    return second


def _place_of_update(program: Program, detail: str) -> Place | None:
    for state in program.states():
        if detail.startswith(f"state {state.name} "):
            return place_of_text(state.updated.meta.get("stack_trace"))
    return None


def check_at(eager: Eager, chosen: Chosen, inputs: Inputs) -> Check:
    """Compares at further inputs; raises RecordingError where the program is not the model."""
    try:
        return compare("further input", eager, chosen.program, inputs)
    except Mismatch as mismatch:
        raise explain_mismatch(mismatch, eager, chosen.program) from mismatch


def is_meta(inputs: Inputs, model: torch.nn.Module) -> bool:
    tensors = [t for _, _, t in inputs.tensors()]
    return any(t.is_meta for t in (*tensors, *model.parameters(), *model.buffers()))
