"""Recording a program that somebody else exported: an ExportedProgram or a `.pt2` file."""

from __future__ import annotations

import inspect

from ..errors import RecordingError, UsageError
from .checking.chain import Chosen, OpenGroup
from .checking.checks import random_notes, refuse_active_dropout, refuse_memory_views
from .checking.soundness import Mismatch, compare
from .eager import Eager
from .graph.graph_writer import bound_symbols
from .graph.program import build_program
from .graph.stack_calls import calls_from_stacks
from .inputs import gather_inputs
from .sizes.dims import DimNames, symbol_of
from .sizes.dynamic import Group, permuted
from .torch_compat import module_of, parts_of
from .tracing.exporting import functionalise, keywords_as_names


def record_exported_program(recorder, exported, args: tuple, kwargs: dict):
    """Compares with the exported program as torch runs it, its example inputs where none are given."""
    if not args and not kwargs:
        if exported.example_inputs is None:
            raise UsageError("the exported program holds no example inputs: pass some to record")
        args, kwargs = exported.example_inputs
    signature = _signature(exported)
    inputs = gather_inputs(signature, tuple(args), dict(kwargs))
    with keywords_as_names():
        eager = Eager(module_of(exported), recorder.seed)
    try:
        (result,) = eager.run_calls([inputs])
    except Exception as error:
        raise UsageError(f"the inputs do not fit the exported program: {error}") from error
    form = functionalise(exported, recorder.decompositions)
    program = build_program(form, _tied_names(exported))
    calls_from_stacks(program)
    chosen = Chosen(program, DimNames(form.floats), _open_groups(program, inputs, form), [])
    bound_symbols(program, chosen.dims)
    _check(eager, chosen, inputs, result.outputs)
    refuse_active_dropout(program)
    refuse_memory_views(program)
    notes = ["recorded from an exported program, which is what it was compared with", *chosen.notes]
    notes += program.notes + random_notes(program)
    return recorder.finish_recording(eager, chosen, inputs, result.names, signature, notes, False)


def _signature(exported) -> inspect.Signature:
    args, kwargs = parts_of(exported.call_spec.in_spec)
    names = exported.module_call_graph[0].signature.forward_arg_names
    count = len(parts_of(args))
    names = list(names or [])[:count] or [f"arg{i}" for i in range(count)]
    keys = list(kwargs.context or [])
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    parameters += [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY) for k in keys]
    return inspect.Signature(parameters)


def _tied_names(exported) -> dict[str, list[str]]:
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, tensor in exported.state_dict.items():
        names.setdefault(first.setdefault(id(tensor), name), []).append(name)
    return names


def _open_groups(program, inputs, form) -> list[OpenGroup]:
    """One group per symbol that the inputs show."""
    axes: dict[object, list[tuple[int, int]]] = {}
    for leaf, node in enumerate(program.user_inputs):
        if node is None:
            continue
        for axis, size in enumerate(node.meta["val"].shape):
            expression = symbol_of(size)
            if isinstance(expression, int):
                continue
            if not expression.is_Symbol:
                raise RecordingError(f"axis {axis} of {inputs.names[leaf]} must be of the form {expression}")
            axes.setdefault(expression, []).append((leaf, axis))
    groups = []
    for symbol, members in axes.items():
        leaf, axis = members[0]
        size = inputs.leaves[leaf].shape[axis]
        bounds = form.program.range_constraints.get(symbol)
        lower = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else 2
        upper = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else None
        upper = None if upper is not None and upper >= 2**62 else upper
        groups.append(OpenGroup(Group(str(symbol), size, tuple(members)), symbol, size, lower, upper))
    return groups


def _check(eager: Eager, chosen: Chosen, inputs, expected: list) -> None:
    try:
        chosen.checks.append(compare("recorded input", eager, chosen.program, inputs, expected))
        chosen.checks.append(
            compare("permuted values", eager, chosen.program, permuted(inputs, eager.seed + 1))
        )
    except Mismatch as mismatch:
        raise RecordingError(f"the functional form is not the exported program ({mismatch})") from mismatch
