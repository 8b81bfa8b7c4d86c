"""From the user's example to a program that is sound: open as many axes as hold, fix the rest and say why.

all axes open → batch only → the user's example as it is
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy
import torch

from ...errors import RecordingError
from ..eager import Eager
from ..graph.graph_writer import GraphWriter, Sources, bound_symbols
from ..graph.program import Program, build_program, names_of_tensors
from ..inputs import Inputs
from ..places import Place, place_of_exception, place_of_text
from ..progress import Progress
from ..sizes.dims import DimNames, symbol_of
from ..sizes.dynamic import Group, derived_sizes, permuted, resized, with_integers_up_to
from ..sizes.ties import Ties, without
from ..sizes.turning_points import turning_sizes
from ..tracing.exporting import Exported, export_model
from ..tracing.stable_sorts import has_stable_sorts
from .differences import first_difference
from .soundness import Check, Mismatch, compare, compare_calls, compare_shapes


@dataclass
class FixedGroup:
    """An axis that was meant to stay open, at which size it stays, and why."""

    group: Group
    reason: str
    place: Place | None
    by_size: bool = False  # it was compared with a number, which may be another input's size


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

    def __init__(
        self, reason: str, place: Place | None, groups: list[Group] | None = None, by_size: bool = False
    ):
        self.reason = reason
        self.place = place
        self.groups = groups
        self.by_size = by_size
        super().__init__(reason)


def choose_program(
    eager: Eager,
    inputs: Inputs,
    groups: list[Group],
    expected: list | None,
    decompositions: dict,
    progress: Progress,
    exactly_these: bool = False,
) -> Chosen:
    """Tries with every group open and gives up groups until the program is sound.

    `expected` are the model's outputs; None for a meta model, which cannot run. `exactly_these`: the user named the
    axes, so that no other is opened beside them.
    """
    attempts = _Attempts(eager, inputs, expected, decompositions, progress)
    ties = Ties(inputs, attempts.expressions)
    fixed: list[FixedGroup] = []
    remaining = list(groups)
    while True:
        try:
            chosen = attempts.export(remaining)
            if joined := _join(ties, chosen.fixed, remaining, exactly_these):
                remaining = joined
                continue
            attempts.check(chosen)
            chosen.fixed = fixed + chosen.fixed
            return chosen
        except TooOpen as failure:
            given_up = [
                FixedGroup(group, failure.reason, failure.place, failure.by_size)
                for group in failure.groups or remaining[1:] or remaining
            ]
            if joined := _join(ties, given_up, remaining, exactly_these):
                remaining = joined
                continue
            fixed += given_up
            remaining = without(remaining, {axis for entry in given_up for axis in entry.group.axes})


def _join(
    ties: Ties, fixed: list[FixedGroup], groups: list[Group], exactly_these: bool
) -> list[Group] | None:
    """The groups with axes of other inputs joined to one that is fixed because it must have their size.

    That one may be a part of a group: of x [n, d] and adjacency [n, n] in `adjacency @ x` the first axes are open, but
    x's must have the size of adjacency's last. Where the user said which axes are open, that is the reason instead.
    """
    for entry in fixed:
        part = entry.group
        whole = next((g for g in groups if set(part.axes) <= set(g.axes)), None)
        if not entry.by_size or whole is None:
            continue
        joined = ties.find(part, groups if part.axes == whole.axes else without(groups, set(part.axes)))
        if joined is None:
            entry.place = ties.place or entry.place
        elif exactly_these:
            entry.reason = ties.explain(part, joined)
        else:
            others = without(groups, set(joined.axes))
            at = min(groups.index(whole), len(others))
            return [*others[:at], joined, *others[at:]]
    return None


class _Attempts:
    """One export after another, with these groups of axes open."""

    def __init__(
        self, eager: Eager, inputs: Inputs, expected: list | None, decompositions: dict, progress: Progress
    ):
        self.eager = eager
        self.inputs = inputs
        self.expected = expected
        self.decompositions = decompositions
        self.progress = progress

    def export(self, groups: list[Group]) -> Chosen:
        sizes = derived_sizes(groups)
        if groups and self.expected is not None:
            self._run_example(groups, sizes)
        exported, program = self._export(groups, sizes)
        chosen = read_open_groups(exported, program, groups, sizes)
        _check_that_it_can_be_written(program, chosen)
        return chosen

    def check(self, chosen: Chosen) -> None:
        with self.progress.step("comparing with the model"):
            if self.expected is None:
                _check_shapes(self.inputs, chosen)
            else:
                _check_soundness(self.eager, self.inputs, self.expected, chosen)

    def expressions(self, groups: list[Group]):
        """What torch makes of each axis, without the comparisons."""
        sizes = derived_sizes(groups)
        try:
            if self.expected is not None:
                self._run_example(groups, sizes)
            exported, program = self._export(groups, sizes)
        except TooOpen:
            return None
        place = next((s.place for s in exported.specialised if s.size in sizes and s.place), None)
        return lambda axis: _axis_expression(program, axis), place

    def _run_example(self, groups: list[Group], sizes: list[int]) -> None:
        """Only a group whose size was changed can be what the model does not run with."""
        error = self._failure(groups, sizes)
        if error is None:
            return
        changed = [g for g, size in zip(groups, sizes, strict=True) if g.size != size]
        alone = [g for g in changed if self._failure([g], [sizes[groups.index(g)]]) is not None]
        reason = f"the model does not run on an example with other sizes ({_first_line(error)})"
        raise TooOpen(reason, place_of_exception(error), alone or changed or None, by_size=True) from error

    def _failure(self, groups: list[Group], sizes: list[int]) -> Exception | None:
        try:
            self.eager.run(resized(self.inputs, groups, sizes))
        except Exception as error:
            return error
        return None

    def _export(self, groups: list[Group], sizes: list[int]) -> tuple[Exported, Program]:
        example = resized(self.inputs, groups, sizes)
        axes = [axis for group in groups for axis in group.axes]
        self.eager.restore_buffers()
        try:
            with self.progress.step("exporting"):
                exported = export_model(self.eager.model, example, axes, self.decompositions)
        except RecordingError as error:
            if not groups:
                raise
            raise TooOpen(f"torch.export fails with the axis open: {error.what}", error.place) from error
        finally:
            self.eager.restore_buffers()
        return exported, build_program(exported, names_of_tensors(self.eager.model))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()[:200]}" if lines else type(error).__name__


# ---- which axes stayed open -----------------------------------------------------------------------------------


def read_open_groups(exported: Exported, program: Program, groups: list[Group], sizes: list[int]) -> Chosen:
    """What torch made of each group: one symbol, several (tied here), or a number."""
    chosen = Chosen(program, DimNames(exported.floats), [], [])
    ranges = exported.program.range_constraints
    for group, size in zip(groups, sizes, strict=True):
        expressions = {axis: _axis_expression(program, axis) for axis in group.axes}
        for part in _fixed_parts(exported, group, size, expressions):
            if size != group.size:
                raise TooOpen(part.reason, part.place, [part.group], part.by_size)
            chosen.fixed.append(part)
            for axis in part.group.axes:
                if not isinstance(expression := expressions.pop(axis), int):
                    chosen.dims.tie(expression, sympy.Integer(size))
        symbols = list(expressions.values())
        if not symbols:
            continue
        for symbol in symbols[1:]:
            if symbol != symbols[0]:
                chosen.dims.tie(symbol, symbols[0])
        lower, upper = _bounds(ranges, symbols)
        chosen.open.append(OpenGroup(replace(group, axes=tuple(expressions)), symbols[0], size, lower, upper))
    bound_symbols(program, chosen.dims)
    return chosen


def _fixed_parts(exported: Exported, group: Group, size: int, expressions: dict) -> list[FixedGroup]:
    """The axes of a group that cannot stay open, each with its reason; the others of the group can."""
    place = next((s.place for s in exported.specialised if s.size == size and s.place), None)
    composite = [e for e in expressions.values() if not isinstance(e, int) and not e.is_Symbol]
    if composite:
        reason = f"the model needs this size to be of the form {composite[0]}"
        raise TooOpen(reason, place, [group])
    parts = []
    if numbers := tuple(axis for axis, e in expressions.items() if isinstance(e, int)):
        parts.append(FixedGroup(replace(group, axes=numbers), _FIXED, place, by_size=True))
    for entry in exported.frozen:
        symbols = entry.symbols()
        if taken := tuple(axis for axis, e in expressions.items() if e in symbols):
            parts.append(FixedGroup(replace(group, axes=taken), _TAKEN_OUT, entry.place))
            break
    return parts


_FIXED = "the model needs this very size: it meets a plain number, a size of a parameter, or an axis that is not open"
_TAKEN_OUT = (
    "int(), float() or range() makes a plain number of a size computed from it, which fixes it: "
    "math.floor(…), math.ceil(…), round(…) or torch.sym_int(…) keep it open"
)


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
    for entry in chosen.open:
        _check_turning_sizes(eager, inputs, entry, chosen)


_SORTS_NOTE = (
    "the results show in which order torch.sort puts equal elements, which torch leaves open: the program keeps the order in "
    "which they come, as with stable=True"
)


def _check_recorded(eager: Eager, inputs: Inputs, expected: list, chosen: Chosen) -> None:
    try:
        _compare_values(eager, inputs, None if eager.sorts_are_stable else expected, chosen)
    except Mismatch as mismatch:
        if _differs_by_sorts_alone(eager, inputs, chosen):
            chosen.notes.append(_SORTS_NOTE)
            return
        refusal = explain_mismatch(mismatch, eager, chosen.program)
        if not chosen.open:
            raise refusal from mismatch
        # torch takes the branch for sizes above 1 where the user's size is 1: those axes go first.
        ones = [entry.group for entry in chosen.open if entry.group.size == 1]
        raise TooOpen(refusal.what, refusal.place, ones or None) from mismatch
    if eager.sorts_are_stable:
        chosen.notes.append(_SORTS_NOTE)


def _compare_values(eager: Eager, inputs: Inputs, expected: list | None, chosen: Chosen) -> None:
    chosen.checks.append(compare("recorded input", eager, chosen.program, inputs, expected))
    other = permuted(inputs, eager.seed + 1)
    try:
        known = eager.run(other)
    except Exception as error:
        chosen.notes.append(
            f"not compared on permuted values: the model fails on them ({_first_line(error)})"
        )
    else:
        chosen.checks.append(compare("permuted values", eager, chosen.program, other, known))


def _differs_by_sorts_alone(eager: Eager, inputs: Inputs, chosen: Chosen) -> bool:
    """The model's results show in which order torch.sort puts equal elements: from now on it is run with stable sorts."""
    if eager.sorts_are_stable or not has_stable_sorts(chosen.program.module):
        return False
    eager.sorts_are_stable = True
    try:
        _compare_values(eager, inputs, None, chosen)
    except Mismatch:
        eager.sorts_are_stable = False
        return False
    return True


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
            chosen.checks.append(compare("second shape", eager, chosen.program, other, known, chosen.dims))
        except Mismatch as mismatch:
            refusal = explain_mismatch(mismatch, eager, chosen.program)
            culprits = _differing_alone(eager, inputs, groups, sizes, chosen)
            raise TooOpen(refusal.what, refusal.place, culprits) from mismatch
        return
    chosen.notes.append(f"not compared at a second shape: the model fails there ({_first_line(failure)})")


def _differing_alone(
    eager, inputs, groups: list[Group], sizes: list[int], chosen: Chosen
) -> list[Group] | None:
    """The groups whose other size alone makes the program differ; None when it takes several."""
    if len(groups) == 1:
        return groups
    culprits = []
    for group, size in zip(groups, sizes, strict=True):
        one = [
            size if other is group else entry.derived
            for other, entry in zip(groups, chosen.open, strict=True)
        ]
        try:
            compare("", eager, chosen.program, resized(inputs, groups, one), None, chosen.dims)
        except Mismatch:
            culprits.append(group)
        except Exception:
            continue
    return culprits or None


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
    try:
        chosen.checks.append(_compare_at(eager, inputs, entry, 1, chosen))
        entry.minimum = 1
        return
    except Mismatch as mismatch:
        refusal = explain_mismatch(mismatch, eager, chosen.program)
        chosen.notes.append(
            f"{label} is left out: {refusal.what}{f' at {refusal.place}' if refusal.place else ''}"
        )
    except Exception as error:
        chosen.notes.append(f"{label} is left out: the model fails there ({_first_line(error)})")
    entry.minimum = _least_size(eager, inputs, entry, chosen)


def _compare_at(eager: Eager, inputs: Inputs, entry: OpenGroup, size: int, chosen: Chosen) -> Check:
    """Compares with one group at another size; raises what the model raises."""
    sizes = [size if other is entry else other.derived for other in chosen.open]
    example = resized(inputs, [other.group for other in chosen.open], sizes)
    try:
        known = eager.run(example)
    except Exception:  # values may speak of the size: lengths of sequences, positions
        example = with_integers_up_to(example, size)
        known = eager.run(example)
    what = f"{entry.group.label} of size {size}"
    return compare(what, eager, chosen.program, example, known, chosen.dims)


def _least_size(eager: Eager, inputs: Inputs, entry: OpenGroup, chosen: Chosen) -> int:
    """Where the model starts to run and the program to be the model: a window needs more than two positions."""

    def holds(size: int) -> bool:
        try:
            _compare_at(eager, inputs, entry, size, chosen)
        except Exception:
            return False
        return True

    low, high = entry.minimum, max(entry.minimum, min(entry.derived, entry.group.size))
    if low == high or holds(low):
        return low
    # One after another as long as they are small: where sizes are compared, some may fail behind one that holds.
    near = min(high, low + _SMALL_SIZES)
    low = max(size for size in range(low, near) if size == low or not holds(size))
    if low + 1 < near:
        return low + 1
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


_SMALL_SIZES = 12
_TURNING_SIZES = 3


def _check_turning_sizes(eager: Eager, inputs: Inputs, entry: OpenGroup, chosen: Chosen) -> None:
    """Sizes computed with fractions are compared where rounding decides them."""
    others = {other.symbol: other.derived for other in chosen.open}
    done = 0
    for size in turning_sizes(chosen.dims, entry.symbol, others):
        if done == _TURNING_SIZES:
            return
        if size < entry.minimum or (entry.maximum is not None and size > entry.maximum):
            continue
        try:
            chosen.checks.append(_compare_at(eager, inputs, entry, size, chosen))
        except Mismatch as mismatch:
            refusal = explain_mismatch(mismatch, eager, chosen.program)
            raise TooOpen(refusal.what, refusal.place, [entry.group]) from mismatch
        except Exception:
            continue
        done += 1


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
    what = f"the exported program is not the model ({mismatch})"
    hint = (
        "something outside the tensors decides here: a Python branch on sizes or values, a number or constant "
        "taken from the example, a module in train mode, or state kept between calls"
    )
    if mismatch.node is not None:
        return RecordingError(what, place_of_text(mismatch.node.meta.get("stack_trace")), hint)
    difference = first_difference(eager, program, mismatch.inputs)
    if difference is None:
        return RecordingError(what, None, hint)
    return RecordingError(f"{what}: {difference.explanation}", difference.place, hint, difference.module)


def check_second_call(eager: Eager, chosen: Chosen, inputs: Inputs, notes: list[str]) -> Inputs | None:
    """The inputs of a second call, after comparing two calls in a row: only there a state shows what it does.

    Other values than the first call's where the model takes them: a state that only repeats its input would not
    change again. None when the model takes no second call, as with a cache that the first one filled.
    """
    second = None
    for candidate in (permuted(inputs, eager.seed + 1), inputs.copied()):
        try:
            eager.run_calls([inputs, candidate])
        except Exception as error:
            failure = error
            continue
        second = candidate
        break
    if second is None:
        notes.append(
            f"one call was recorded: the model fails in a second one after it ({_first_line(failure)})"
        )
    calls = [inputs] if second is None else [inputs, second]
    try:
        chosen.checks += compare_calls(eager, chosen.program, calls)
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
