"""One entry of a database: its calls traced, run here, judged."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cache

import torch

from pycandle import _core
from pycandle.errors import RecordingError
from pycandle.recording.inputs import DTYPE_NAMES

from .factors import known_of, view_of
from .judging import Judge, Precision, size_of
from .samples import Call, calls_of
from .tracing import Traced, Untraceable, run, trace

_LISTED = 40  # failures of one entry and dtype that are kept word by word


@dataclass
class Outcome:
    """What came of an entry at one dtype (or of its error inputs)."""

    part: str  # values, errors, modules
    entry: str
    dtype: str = ""
    backend: str = "reference"
    calls: int = 0  # tried here: passed + failed
    passed: int = 0
    types_only: int = 0  # of those that passed: random, so only dtype and shape were compared
    touches: bool = False  # whether any call's trace touches the catalogue
    untraceable: list[str] = field(default_factory=list)  # why torch could not trace a call
    refused: list[str] = field(default_factory=list)  # why torch could not run it
    outside: list[str] = field(default_factory=list)  # dtypes that PTIR does not have
    unmapped: dict[str, int] = field(default_factory=dict)  # overloads that the catalogue lacks: calls
    failures: list[dict] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return self.calls - self.passed

    def fail(self, call: object, message: str, overloads: Iterable[str] = ()) -> None:
        self.calls += 1
        if len(self.failures) < _LISTED:
            self.failures.append(
                {"call": str(call)[:300], "message": message[:600], "overloads": list(overloads)}
            )

    def succeed(self, types_only: bool = False) -> None:
        self.calls += 1
        self.passed += 1
        self.types_only += types_only

    def as_dict(self) -> dict:
        return asdict(self)


@cache
def mapped() -> frozenset[str]:
    return frozenset(_core.aten_overloads())


def rotated(calls: list, limit: int | None, turn: int) -> list:
    """At most `limit` of the calls, others at every turn."""
    if limit is None or len(calls) <= limit:
        return calls
    stride = -(-len(calls) // limit)
    return calls[turn % stride :: stride]


def run_values(
    name: str, dtype: str, limit: int | None = None, turn: int = 0, backend: str = "reference"
) -> Outcome:
    outcome = Outcome("values", name, dtype, backend)
    for call in rotated(list(calls_of(name, dtype)), limit, turn):
        run_call(call, outcome)
    return outcome


def run_call(call: Call, outcome: Outcome) -> None:
    tensors = call.tensors
    try:
        expected = call.tensors_on([t.clone() for t in tensors])
    except Exception as error:
        outcome.refused.append(first_line(error))
        return
    lacking = {str(t.dtype) for t in (*tensors, *expected) if t.dtype not in DTYPE_NAMES}
    if lacking:
        outcome.outside += sorted(lacking)
        return
    try:
        traced = trace(lambda *given: call.tensors_on(given), tensors)
    except Untraceable as error:
        outcome.untraceable.append(str(error))
        return
    if len(traced.outputs) != len(expected):  # the recorder compares with the model, and refuses
        outcome.untraceable.append(
            f"its program has {len(traced.outputs)} results, and torch {len(expected)}"
        )
        return
    overloads = traced.overloads
    outcome.touches |= any(overload in mapped() for overload in overloads)
    lacking = [overload for overload in overloads if overload not in mapped()]
    for overload in lacking:
        outcome.unmapped[overload] = outcome.unmapped.get(overload, 0) + 1
    if lacking:
        outcome.fail(call, f"not in the catalogue: {', '.join(lacking)}", overloads)
        return
    try:
        ours = run(traced, outcome.backend)
    except (_core.Error, RecordingError) as error:
        outcome.fail(call, error_text(error), overloads)
        return
    judge = judge_of(call, traced, expected)
    types_only = traced.has_free_values and not is_determined(judge, traced)
    problems = judge.problems(ours, types_only)
    if problems and traced.has_free_values and not types_only and not is_determined(judge, traced, draws=500):
        types_only = True  # a rare draw moves torch's own value as far
        problems = judge.problems(ours, types_only)
    if not problems and types_only and (problem := traced.random_problem(ours)):
        problems.append(problem)
    if problems:
        outcome.fail(call, "; ".join(problems), overloads)
    else:
        outcome.succeed(types_only)


def judge_of(call: Call, traced: Traced, expected: list[torch.Tensor]) -> Judge:
    precisions = Precision(call.tensors_on, call.wide().tensors_on, call.narrow().tensors_on)
    view = view_of(traced.overloads, len(expected))
    return Judge(
        precisions,
        call.tensors,
        expected,
        traced.open_positions,
        size_of(traced.overloads),
        view,
        known_of(traced.overloads, call.tensors) if view else None,
    )


def is_determined(judge: Judge, traced: Traced, draws: int = 24) -> bool:
    """Whether random numbers on the way leave what is compared alone: torch agrees with itself when they are others."""
    if traced.is_uninitialised or judge.view is None:
        return False

    def agrees(number: int) -> bool:
        torch.manual_seed(number)
        again = torch.fx.Interpreter(traced.graph).run(*(tensor for _, tensor in traced.inputs))
        return not judge.problems(list(again), False, nearby=False)

    return all(agrees(number) for number in range(draws))


def error_text(error: Exception) -> str:
    if not isinstance(error, _core.Error):
        return f"{type(error).__name__}: {first_line(error)}"
    facts = [f"{name} {getattr(error, name)}" for name in ("expected", "found") if getattr(error, name)]
    return f"{error.code}: {error.message} [{error.op}] {', '.join(facts)}"


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]


def quiet_torch() -> None:
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
