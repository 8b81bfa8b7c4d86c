"""Module calls of a program that was exported elsewhere, from the module stacks of its nodes.

No hook saw the calls, so a call's arguments are the values that it uses and others made, and its outputs the
values that it makes and others use, in the order of the graph.
"""

from __future__ import annotations

import torch

from ..tracing.module_calls import ModuleCall, Slot
from .program import Program, is_size


def calls_from_stacks(program: Program) -> None:
    """Fills `program.calls` and `program.call_of_node`."""
    calls: list[ModuleCall] = [ModuleCall("", 0, None, _root_class(program), None)]
    index_of: dict[tuple[str, ...], int] = {(): 0}
    numbers: dict[str, int] = {}
    members: dict[int, list[torch.fx.Node]] = {0: []}
    for node in program.graph.nodes:
        if node.op != "call_function" or is_size(node):
            continue
        stack = [(key, *value) for key, value in node.meta.get("nn_module_stack", {}).items()][1:]
        keys: tuple[str, ...] = ()
        enclosing = [0]
        for key, path, kind in stack:
            keys = (*keys, key)
            if keys not in index_of:
                index_of[keys] = len(calls)
                path = path.split("@")[0]
                number = numbers.get(path, 0)
                numbers[path] = number + 1
                calls.append(ModuleCall(path, number, None, _class_text(kind), enclosing[-1]))
            enclosing.append(index_of[keys])
        program.call_of_node[node] = enclosing[-1]
        for call in enclosing:
            members.setdefault(call, []).append(node)
    for index, call in enumerate(calls):
        _values_across(call, members.get(index, []))
    program.calls = calls


def _root_class(program: Program) -> str:
    for node in program.graph.nodes:
        stack = list(node.meta.get("nn_module_stack", {}).values())
        if stack:
            return _class_text(stack[0][1])
    return "torch.nn.modules.module.Module"


def _class_text(kind: object) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _values_across(call: ModuleCall, nodes: list[torch.fx.Node]) -> None:
    inside = set(nodes)
    for node in nodes:
        for used in node.all_input_nodes:
            made_here = used in inside or used.op == "get_attr" or is_size(used)
            if not made_here and not _is_parameter(used) and used not in call.inputs:
                call.inputs.append(used)
        leaves = any(user not in inside and not is_size(user) for user in node.users)
        if leaves and isinstance(node.meta.get("val"), torch.Tensor):
            call.outputs.append(node)
    call.arguments = [(str(i), Slot(i)) for i in range(len(call.inputs))]
    slots = [Slot(i) for i in range(len(call.outputs))]
    call.output = slots[0] if len(slots) == 1 else slots


def _is_parameter(node: torch.fx.Node) -> bool:
    return node.op == "placeholder" and node.name.startswith(("p_", "b_", "c_"))
