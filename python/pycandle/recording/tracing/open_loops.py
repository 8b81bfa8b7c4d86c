"""`for t in range(x.shape[1])` over an axis that is open: a scan, where torch.export would unroll it and fix the size.

While a model is traced, functions that it may call run as `loop_code.py` has rewritten them. Where the number of rounds is a
plain number, or a round does what a scan cannot, the loop runs as it stands in the file.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import types
from collections.abc import Callable, Iterator

import torch

from ...errors import RecordingError
from ..places import is_user_file, place_here, relative_path
from ..torch_compat import is_view, scan
from ..torch_compat.symbolic import expression_of, fixed_value
from .loop_code import LOOP, rewritten_codes


class Unfit(Exception):
    """The rounds of this loop are no steps of a scan."""


class Rows(list):
    """A list that an open number of rounds filled: it can be stacked or joined, and its last entry read."""

    def __init__(self, stacked: torch.Tensor):
        super().__init__([stacked[-1]])  # so that torch takes it for a list of tensors
        self.stacked = stacked

    def __getitem__(self, index):
        if index != -1:
            self._refuse()
        return super().__getitem__(0)

    def _refuse(self, *_):
        raise RecordingError(
            "a list that a loop over an open size filled is used in another way than by torch.stack or torch.cat",
            place_here(),
            "stack it, or record with the axis fixed: dynamic=",
        )

    __iter__ = __len__ = append = extend = insert = pop = __add__ = __iadd__ = __setitem__ = __eq__ = _refuse
    __hash__ = None


def stack(tensors, dim=0, **options):
    if not isinstance(tensors, Rows):
        return torch.stack(tensors, dim, **options)
    return tensors.stacked.movedim(0, dim)


def cat(tensors, dim=0, **options):
    if not isinstance(tensors, Rows):
        return torch.cat(tensors, dim, **options)
    axis = dim % (tensors.stacked.dim() - 1)
    return tensors.stacked.movedim(0, axis).flatten(axis, axis + 1)


# ---- running -------------------------------------------------------------------------------------------------


def _run(notes: list[str]) -> Callable:
    def run(rounds, round_, row_entries, kinds, rows_of, carried_of, targets_of, line):
        """What the names are after the loop; None: it runs as it is."""
        if torch.compiler.is_dynamo_compiling() or not _is_open(rounds):
            return None
        try:
            done = _scanned(rounds, round_, row_entries, kinds, rows_of(), carried_of(), targets_of())
        except Exception:  # the loop as it is shows what torch thinks of it
            return None
        file = relative_path(round_.__code__.co_filename)
        note = f"the loop at {file}:{line} is recorded as a scan, so that its number of rounds stays open"
        if note not in notes:
            notes.append(note)
        return done

    return run


def _is_open(rounds: tuple) -> bool:
    first, last = (0, rounds[0]) if len(rounds) == 1 else rounds
    return type(first) is int and first >= 0 and isinstance(last, torch.SymInt) and fixed_value(last) is None


def _scanned(rounds, round_, row_entries, kinds, bases, carried, targets) -> tuple:
    first, last = (0, rounds[0]) if len(rounds) == 1 else rounds
    rows = [_rows(base, entries, first, last) for base, entries in zip(bases, row_entries, strict=True)]
    for target, entries in zip(targets, kinds, strict=True):
        if entries is None:
            if type(target) is not list or target:
                raise Unfit
        elif not isinstance(target, torch.Tensor):
            raise Unfit
    start = [_copied(value) for value in carried]

    def step(state, row):
        after, given = round_(row, *[_copied(value) for value in state])
        return [_copied(value) for value in after], [_copied(value) for value in given]

    rows = rows or [torch.arange(first, last)]  # a scan goes over something
    after, given = scan(step, start, rows, dim=0)
    results = list(after)
    for number, (target, entries) in enumerate(zip(targets, kinds, strict=True)):
        results.append(
            Rows(given[number]) if entries is None else _filled(target, entries, first, last, given[number])
        )
    results += [value[-1] for value in given[len(targets) :]]
    return tuple(results)


def _copied(value):
    """Tensors, and lists and tuples of them: a scan wants memory of its own for each, always laid out alike."""
    if isinstance(value, torch.Tensor):
        return value.clone(memory_format=torch.contiguous_format)
    if type(value) in (list, tuple) and value:
        return type(value)([_copied(item) for item in value])
    raise Unfit


def _axis(entries: tuple[str, ...], rank: int) -> int:
    at = entries.index("loop")
    before, behind = entries[:at], entries[at + 1 :]
    if "ellipsis" not in before:
        return before.count("axis")
    return rank - 1 - behind.count("axis")


def _is_whole(size: object, first: int, last: torch.SymInt) -> bool:
    return first == 0 and isinstance(size, torch.SymInt) and expression_of(size) == expression_of(last)


def _rows(base: object, entries: tuple[str, ...], first: int, last: torch.SymInt) -> torch.Tensor:
    if not isinstance(base, torch.Tensor):
        raise Unfit
    axis = _axis(entries, base.dim())
    part = base if _is_whole(base.shape[axis], first, last) else base.narrow(axis, first, last - first)
    return part.movedim(axis, 0)


def _filled(
    target: torch.Tensor, entries: tuple[str, ...], first: int, last: torch.SymInt, rows: torch.Tensor
) -> torch.Tensor:
    axis = _axis(entries, target.dim())
    part = target if _is_whole(target.shape[axis], first, last) else target.narrow(axis, first, last - first)
    missing = target.dim() - rows.dim()  # each row is spread as an assignment spreads it
    rows = rows.reshape([rows.shape[0], *[1] * missing, *rows.shape[1:]]) if missing else rows
    filled = rows.movedim(0, axis).to(target.dtype).expand(part.shape)
    if part is target and not is_view(target):
        return filled
    part.copy_(filled)
    return target


# ---- the functions of a model ----------------------------------------------------------------------------------


@contextlib.contextmanager
def loops_stay_open(model: torch.nn.Module, notes: list[str]) -> Iterator[None]:
    """While a model is traced."""
    changed: list[tuple[types.FunctionType, types.CodeType]] = []
    builtins.__dict__[LOOP] = _run(notes)
    try:
        for function in _functions(model):
            code = function.__code__
            new = rewritten_codes(code.co_filename).get((code.co_qualname, code.co_firstlineno))
            if new is not None:
                changed.append((function, code))
                function.__code__ = new
        yield
    finally:
        for function, code in reversed(changed):
            function.__code__ = code
        del builtins.__dict__[LOOP]


def _functions(model: torch.nn.Module) -> list[types.FunctionType]:
    """Those that the model may call: methods of its classes, and what these name."""
    found: dict[int, types.FunctionType] = {}
    waiting: list[types.FunctionType] = []

    def add(value: object) -> None:
        for function in _unwrapped(value):
            if id(function) not in found and is_user_file(function.__code__.co_filename):
                found[id(function)] = function
                waiting.append(function)

    for kind in {kind for module in model.modules() for kind in type(module).__mro__}:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        for value in vars(kind).values() if file and is_user_file(file) else ():
            add(value)
    while waiting:
        function = waiting.pop()
        names = _names(function.__code__)
        for named in (function.__globals__.get(name) for name in names):
            add(named)
            if isinstance(named, types.ModuleType) and is_user_file(getattr(named, "__file__", None) or "<"):
                for name in names:
                    add(vars(named).get(name))
    return list(found.values())


def _names(code: types.CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _unwrapped(value: object) -> Iterator[types.FunctionType]:
    """Functions in a value of a namespace, without what is wrapped around them."""
    for _ in range(20):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, types.FunctionType):
            yield value
            for cell in value.__closure__ or ():
                with contextlib.suppress(ValueError):
                    if isinstance(cell.cell_contents, types.FunctionType):
                        yield cell.cell_contents
            value = getattr(value, "__wrapped__", None)
        else:
            return
