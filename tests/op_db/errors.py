"""Calls that torch refuses: they must be refused here too, by inference and constraints alone.

The overload and the arguments of the failing call are caught where torch dispatches it, and become a program of one node
without any recorded types. Where torch refuses before it calls an operator (its argument parser, Python code of
torch.nn.functional) there is nothing to build: then recording must refuse, and that is tried.
"""

from __future__ import annotations

import json

import torch
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.utils._python_dispatch import TorchDispatchMode

from pycandle import _core
from pycandle.errors import RecordingError
from pycandle.recording.graph.graph_writer import GraphWriter, Sources, op_name
from pycandle.recording.inputs import DTYPE_NAMES

from .running import Outcome, error_text, first_line, mapped, rotated
from .samples import Call, entries, seed
from .tracing import Untraceable, run, run_model, trace


class FailingCall(SchemaCheckMode):
    """Keeps the operator that raised, with its arguments, as Python called it.

    Before dispatch torch lets in three kinds of mode only; this is one of them by its class alone.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self.found: tuple | None = None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        try:
            return function(*args, **(kwargs or {}))
        except Exception:
            if self.found is None:
                self.found = (function, args, kwargs or {})
            raise


def run_errors(name: str, limit: int | None = None, turn: int = 0, backend: str = "reference") -> Outcome:
    op = entries()[name]
    outcome = Outcome("errors", name, backend=backend)
    for error_input in rotated(error_inputs(name), limit, turn):
        sample = error_input.sample_input
        call = Call.of(op.op, (sample.input, *sample.args), sample.kwargs)
        run_error(call, error_input.error_type, outcome)
    return outcome


def error_inputs(name: str) -> list:
    for device in ("cpu", torch.device("cpu")):  # torch's generators want the one or the other
        seed(name)
        try:
            return list(entries()[name].error_inputs(device))
        except AttributeError as error:
            refused = error
    raise refused


def run_error(call: Call, kind: type[Exception], outcome: Outcome) -> None:
    overload, problem = None, None
    watcher = FailingCall()
    try:
        with enable_python_dispatcher(), watcher:
            call.tensors_on(call.tensors)
        outcome.refused.append(f"torch does not refuse {call}")  # it would with gradients
        return
    except Exception as error:
        if not isinstance(error, kind):
            outcome.refused.append(f"torch raises another error: {first_line(error)}")
            return
    if watcher.found is not None:
        function, args, kwargs = watcher.found
        overload = functional_form(function)
    if overload is not None and op_name(overload) in mapped():
        outcome.touches = True
        problem = accepted_alone(overload, args, kwargs, outcome.backend)
        if problem and overload is not function and torch_accepts(overload, args, kwargs):
            problem = None  # the tensor written to is at fault, and a program writes to none: the recorder's own run raises
    else:
        problem = accepted_when_recorded(call, outcome.backend)
    if problem is None:
        outcome.succeed()
    else:
        outcome.fail(call, problem, [op_name(overload)] if overload is not None else [])


def torch_accepts(overload, args: tuple, kwargs: dict) -> bool:
    known = {argument.name for argument in overload._schema.arguments}
    try:
        overload(*args, **{name: value for name, value in kwargs.items() if name in known})
    except Exception:
        return False
    return True


def accepted_alone(overload, args: tuple, kwargs: dict, backend: str) -> str | None:
    """None when the call is refused, as it should be."""
    try:
        text, tensors = one_call(overload, args, kwargs)
    except RecordingError:
        return None  # no such argument can be recorded
    try:
        run_model(_core.load_call(text, backend), tensors)
    except _core.Error as error:
        if error.code == "internal" or "was recorded without result" in error.message:
            return error_text(error)
        return None
    return "accepted, where torch raises"


def one_call(overload, args: tuple, kwargs: dict) -> tuple[str, list[torch.Tensor]]:
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    graph = torch.fx.Graph()
    nodes = {}
    for tensor in tensors:
        if id(tensor) not in nodes:
            nodes[id(tensor)] = graph.placeholder(f"t{len(nodes)}")
            nodes[id(tensor)].meta["val"] = tensor
    put = lambda tree: pytree.tree_map_only(torch.Tensor, lambda t: nodes[id(t)], tree)  # noqa: E731
    writer = GraphWriter(None, None, Sources(keep_lines=False))
    known = {a.name for a in overload._schema.arguments}
    node = graph.call_function(
        overload, put(tuple(args)), {k: v for k, v in put(dict(kwargs)).items() if k in known}
    )
    inputs, distinct = [], []
    for tensor in tensors:
        if (nodes[id(tensor)], 0) not in writer.values:
            writer.define(nodes[id(tensor)])
            distinct.append(tensor)
            inputs.append(_type_of(tensor))
    arguments = writer._schema_arguments(node, None)
    return json.dumps({"op": op_name(overload), "inputs": inputs, "args": arguments}), distinct


def _type_of(tensor: torch.Tensor) -> dict:
    if tensor.dtype not in DTYPE_NAMES:
        raise RecordingError(f"the dtype {tensor.dtype} cannot be recorded")
    return {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape)}


def accepted_when_recorded(call: Call, backend: str) -> str | None:
    """None when the call cannot be recorded, or its program refuses the values."""
    try:
        traced = trace(lambda *given: call.tensors_on(given), call.tensors)
    except Untraceable:
        return None
    try:
        run(traced, backend)
    except RecordingError:
        return None
    except _core.Error as error:
        return error_text(error) if error.code == "internal" else None
    return "recorded and run, where torch raises"


def functional_form(function):
    """The overload that recording makes of an in-place or out= overload; the overload itself otherwise."""
    if not isinstance(function, torch._ops.OpOverload):
        return None
    schema = function._schema
    if not schema.is_mutable:
        return function
    name = schema.name.split("::")[1]
    packet = getattr(getattr(torch.ops, function.namespace), name.removesuffix("_"), None)
    if packet is None:
        return None
    wanted = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    for other in packet.overloads():
        candidate = getattr(packet, other)
        arguments = [(a.name, str(a.type)) for a in candidate._schema.arguments]
        if not candidate._schema.is_mutable and arguments == wanted:
            return candidate
    return None
