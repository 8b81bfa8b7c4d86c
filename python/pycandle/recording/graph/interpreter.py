"""Runs a recorded program in torch, node by node, on a flat list of inputs: no guards, values freed after last use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch.fx import Node

from ..eager import quiet_inference
from ..torch_compat import OpOverload, TorchDispatchMode, schema_of
from .program import Program

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
ROUNDOFF = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.complex64: 2.0**-24,
}


class ProgramFailed(Exception):
    """A node raised while the program ran."""

    def __init__(self, node: Node, error: Exception):
        self.node = node
        self.error = error
        super().__init__(f"{node.name}: {error}")


def run_program(
    program: Program,
    leaves: tuple,
    seed: int,
    see: Callable[[Node, object], None] | None = None,
    wide: bool = False,
    jitter: torch.Generator | None = None,
) -> list:
    """The flat outputs of a call that begins with the model's own states."""
    return run_call(program, leaves, seed, see, wide=wide, jitter=jitter)[0]


def run_call(
    program: Program,
    leaves: tuple,
    seed: int,
    see: Callable[[Node, object], None] | None = None,
    states: dict[str, torch.Tensor] | None = None,
    wide: bool = False,
    jitter: torch.Generator | None = None,
) -> tuple[list, dict[str, torch.Tensor]]:
    """The flat outputs and what the states became, by name; `see` is shown every value as it is computed.

    `states` are what the call begins with, by default the model's own. `wide` computes in double precision;
    `jitter` moves every wide value by up to one rounding of its own dtype, which shows what rounding may do:
    each node's, and within a node that torch computes by several operators (F.kl_div) each of theirs.
    """
    environment: dict[Node, object] = {}
    released = _last_uses(program)
    for node, value in _initial_values(program, leaves, states or {}):
        environment[node] = _Lazy(value, jitter) if wide else value
    with quiet_inference(seed), _default_dtype(torch.float64 if wide else torch.get_default_dtype()):
        for node in program.graph.nodes:
            if node.op == "placeholder":
                if see and node in environment:
                    see(node, environment[node])
                continue
            if node.op == "output":
                break
            rounding = None if jitter is None else _Rounding(node, jitter)
            environment[node] = _run_node(program, node, environment, wide, rounding)
            if see:
                see(node, environment[node])
            for spent in released.get(node, ()):
                environment.pop(spent, None)
        outputs = [_fetch(environment, out) for out in program.outputs]
        return outputs, {p.name: _fetch(environment, p.updated) for p in program.states()}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The dtype of `torch.eye(3)`, and of a quotient of integers."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _initial_values(program: Program, leaves: tuple, states: dict) -> Iterator[tuple[Node, object]]:
    for node, leaf in zip(program.user_inputs, leaves, strict=True):
        if node is not None:
            yield node, leaf
    for parameter in program.parameters:
        for node in parameter.nodes:
            yield node, states.get(parameter.name, parameter.tensor)


def _run_node(
    program: Program, node: Node, environment: dict, wide: bool, rounding: _Rounding | None
) -> object:
    if node.op == "get_attr":
        return program.module.get_submodule(node.target)
    args = torch.fx.node.map_arg(node.args, lambda n: _fetch(environment, n))
    kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: _fetch(environment, n))
    if wide:
        args, kwargs = _widen_dtypes(args), _widen_dtypes(kwargs)
    try:
        if rounding is None:
            return node.target(*args, **kwargs)
        with rounding if isinstance(node.target, OpOverload) else contextlib.nullcontext():
            value = node.target(*args, **kwargs)
        return rounding.result(value)
    except Exception as error:
        raise ProgramFailed(node, error) from error


def _last_uses(program: Program) -> dict[Node, list[Node]]:
    """The nodes whose values nobody needs after each node has run."""
    kept = {out for out in program.outputs if isinstance(out, Node)}
    kept |= {state.updated for state in program.states()}
    spent: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(program.graph.nodes):
        if node.op == "output":
            continue
        for used in (*node.all_input_nodes, node):
            if used not in seen and used not in kept and used.op != "placeholder":
                seen.add(used)
                spent.setdefault(node, []).append(used)
    return spent


class _Lazy:
    """A parameter or input that becomes double only while a node uses it."""

    def __init__(self, value: object, jitter: torch.Generator | None):
        self.value = value
        self.jitter = jitter

    def widened(self) -> object:
        if not isinstance(self.value, torch.Tensor):
            return self.value
        if self.value.dtype is torch.complex64:
            wide = self.value.to(torch.complex128)
        elif self.value.dtype in _NARROW:
            wide = self.value.double()
        else:
            return self.value
        return wide if self.jitter is None else _jittered(wide, ROUNDOFF[self.value.dtype], self.jitter)


def _jittered(value: torch.Tensor, roundoff: float, generator: torch.Generator) -> torch.Tensor:
    if value.is_complex():
        parts = torch.view_as_real(value.resolve_conj().resolve_neg())
        return torch.view_as_complex(_jittered(parts, roundoff, generator))
    noise = torch.rand(value.shape, generator=generator, dtype=torch.float64)
    return value * (1 + roundoff * (2 * noise - 1))


class _Rounding(TorchDispatchMode):
    """Jitters the values that a node computes: its result, and what the operators within a composite one give."""

    def __init__(self, node: Node, generator: torch.Generator):
        super().__init__()
        self.generator = generator
        self.dtype = getattr(node.meta.get("val"), "dtype", None)
        self.wide = torch.complex128 if self.dtype is torch.complex64 else torch.float64
        self.last: object = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        value = func(*args, **(kwargs or {}))
        if any(given.alias_info for given in schema_of(func).returns):
            return value  # a view or a value written in place: nothing is rounded
        self.last = self._moved(value)
        return self.last

    def result(self, value: object) -> object:
        """The node's value, which the last operator may have jittered already."""
        return value if value is self.last else self._moved(value)

    def _moved(self, value: object) -> object:
        rounds = self.dtype in ROUNDOFF and self.dtype is not self.wide
        if rounds and isinstance(value, torch.Tensor) and value.dtype is self.wide:
            return _jittered(value, ROUNDOFF[self.dtype], self.generator)
        return value


def _fetch(environment: dict, value: object) -> object:
    if not isinstance(value, Node):
        return value
    found = environment[value]
    return found.widened() if isinstance(found, _Lazy) else found


def _widen_dtypes(tree: object) -> object:
    if isinstance(tree, torch.dtype):
        if tree in _NARROW:
            return torch.float64
        return torch.complex128 if tree is torch.complex64 else tree
    if isinstance(tree, (list, tuple)):
        return type(tree)(_widen_dtypes(item) for item in tree)
    if isinstance(tree, dict):
        return {key: _widen_dtypes(item) for key, item in tree.items()}
    return tree
