"""pycandle.compile: a PyTorch model as a callable that runs without it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from .. import _core
from ..errors import UsageError
from ..recording.inputs import gather_inputs
from ..recording.preparation import unwrapped
from ..recording.tracing.scripted import forward_signature
from ..running.arrays import contiguous, to_torch
from ..running.backends import is_library
from ..running.model import Model
from ..running.options import check_threads, check_weight_format
from ..running.states import Stateful
from .call_programs import CallPrograms, Options

_UNSET: Any = type("Unset", (), {"__repr__": lambda self: "unset"})()


class CompiledModel(Stateful):
    """Takes the arguments of the model it was made from and gives back the same structure.

    Arguments that are no tensors are part of a program: a call with others makes another program and keeps it.
    `states`, threads and `session()` are as those of `Model`; states are torch tensors here.
    """

    def __init__(self, programs: CallPrograms, states: _core.Model) -> None:
        self._programs = programs
        self._states = states  # whichever program; only its states matter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        program = self._programs.program_for(args, kwargs)
        given = {name: t for _, name, t in gather_inputs(self._programs.signature, args, kwargs).tensors()}
        core = program.core.with_states_of(self._states)
        return program.nested(to_torch(core.forward(contiguous(given))), given)

    @property
    def model(self) -> Model:
        """The program of the last call, with the states of this handle."""
        core = self._with_states()
        traced = (lambda: core.on("reference")) if self._programs.options.backend is None else None
        return Model(core, traced)

    def session(self) -> CompiledModel:
        """The same programs, with states of its own that begin as recorded: one for each caller."""
        return CompiledModel(self._programs, self._states.session())

    def _with_states(self) -> _core.Model:
        return self._programs.last().core.with_states_of(self._states)

    @staticmethod
    def _present(states: dict[str, Any]) -> dict[str, Any]:
        return to_torch(states)


def compile(
    model: torch.nn.Module,
    *example: Any,
    backend: str | None = _UNSET,
    threads: int | None = _UNSET,
    weights: str = _UNSET,
    overrides: Mapping[str, str] | None = _UNSET,
    dynamic: object = _UNSET,
    strict: bool = _UNSET,
    **kwargs: Any,
) -> CompiledModel:
    """Records the model at the example inputs and loads the result. The model itself stays as it is.

        compiled = pycandle.compile(model, x, scale=2.0)
        y = compiled(other_x, scale=2.0)
        z = compiled(other_x, scale=3.0)   # another program: recorded, and kept for the next such call

    backend, threads, weights, overrides   as for `load_model`
    dynamic            axes that stay open, as for `GoldenRecorder`
    strict             True: calls that need another program are errors. Without it at most 8 programs are kept; the
                       least recently used one makes room
    """
    given = {
        "backend": backend,
        "threads": threads,
        "weights": weights,
        "overrides": overrides,
        "dynamic": dynamic,
        "strict": strict,
    }
    given = {name: value for name, value in given.items() if value is not _UNSET}
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"compile takes an nn.Module, not {type(model).__name__}")
    model = unwrapped(model, [])
    signature = forward_signature(model)
    _refuse_ambiguous(signature, example, given, type(model).__name__)
    options = Options(**given)
    check_threads(options.threads)
    check_weight_format(options.weights)
    known = options.backend is None or is_library(options.backend) or options.backend in _core.backends()
    if not known:
        raise UsageError(f"there is no backend {options.backend!r}: one of {', '.join(_core.backends())}")
    programs = CallPrograms(model, signature, options)
    try:
        first = programs.program_for(example, kwargs)
    except BaseException:
        programs.close()
        raise
    return CompiledModel(programs, first.core.session())


def _refuse_ambiguous(signature: inspect.Signature, example: tuple, options: dict, model: str) -> None:
    positional = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ][: len(example)]
    for name, value in options.items():
        parameter = signature.parameters.get(name)
        named = parameter is not None and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if not named or name in positional:
            continue
        way = (
            f"give {model}.forward its {name} by place"
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            else f"wrap the model in a module whose forward has no {name}"
        )
        raise UsageError(
            f"{name}={value!r} can be meant for pycandle.compile or for {model}.forward, which both have that name: {way}"
        )
