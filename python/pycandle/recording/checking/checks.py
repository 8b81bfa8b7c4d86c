"""Reasons to refuse a model that have nothing to do with torch.export: train mode, memory, randomness."""

from __future__ import annotations

import torch
from torch import nn

from ...errors import RecordingError
from ..eager import Eager
from ..graph.graph_writer import op_name
from ..graph.names import attribute_assignment
from ..graph.program import Program
from ..graph.taps import is_random
from ..inputs import Inputs
from ..places import Place, place_here, place_of_text
from ..sizes.dynamic import permuted
from ..torch_compat import DropoutBase, NormBase, OpOverload, name_of
from .differences import first_change
from .soundness import bit_equal


class _Reached(Exception):
    def __init__(self, path: str, module: nn.Module, place: Place | None):
        self.path, self.module, self.place = path, module, place


def refuse_train_mode(model: nn.Module, inputs: Inputs, seed: int) -> None:
    """A module in train mode that behaves otherwise in eval mode, if the call reaches it."""
    training = [(path, m) for path, m in model.named_modules() if m.training and _differs_in_training(m)]
    if not training:
        return

    def reached(path, module):
        def hook(*_):
            raise _Reached(path, module, place_here())

        return hook

    handles = [module.register_forward_pre_hook(reached(path, module)) for path, module in training]
    try:
        Eager(model, seed).run(inputs)
    except _Reached as found:
        kind = type(found.module).__name__
        raise RecordingError(
            f"{kind} is in train mode, so the model computes something else than in use",
            found.place,
            "call model.eval() before recording",
            found.path,
        ) from None
    finally:
        for handle in handles:
            handle.remove()


def _differs_in_training(module: nn.Module) -> bool:
    if isinstance(module, DropoutBase):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, (NormBase, nn.RReLU)) and getattr(module, "track_running_stats", True)


def check_repeatable(eager: Eager, inputs: Inputs, expected: list, notes: list[str]) -> None:
    """The same input again gives the same output, and nothing of one call reaches the next."""
    if not _all_equal(expected, eager.run(inputs)):
        # What decides may not change between two runs that follow at once: a clock, seen in f32.
        difference = next(filter(None, (first_change(eager, inputs) for _ in range(5))), None)
        raise RecordingError(
            "the model gives another output when the same input is run again",
            difference.place if difference else None,
            "something outside its inputs and buffers decides: Python's or NumPy's random numbers, a torch.Generator, "
            "a clock, a counter; pass it in as an input, or make it a buffer",
            difference.module if difference else None,
        )
    changed = eager.changed_attributes()
    if not changed:
        return
    _refuse_memory_of_inputs(eager, inputs, changed)
    eager.restore_attributes()


def _refuse_memory_of_inputs(eager: Eager, inputs: Inputs, changed: list) -> None:
    """An attribute that an earlier input left behind changes what a later input gives."""
    other = permuted(inputs, eager.seed + 1)
    try:
        after_another = eager.run(other)
        eager.restore_attributes()
        alone = eager.run(other)
    except Exception:
        return
    if _all_equal(after_another, alone):
        return
    module, name = changed[0]
    path = next((p for p, m in eager.model.named_modules() if m is module), "")
    raise RecordingError(
        f"the attribute {name} keeps a value computed from an earlier input",
        attribute_assignment(type(module), name),
        "compute it anew in each call, or register it as a buffer and write into it",
        path,
    )


def _all_equal(first: list, second: list) -> bool:
    if len(first) != len(second):
        return False
    for a, b in zip(first, second, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            if a.shape != b.shape or a.dtype != b.dtype or not (a.is_meta or bit_equal(a, b)):
                return False
        elif isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or a != b:
            return False
    return True


_DROPOUT_INSIDE = {
    "scaled_dot_product_attention": "scaled_dot_product_attention with dropout_p above 0",
    "lstm": "a recurrent layer with dropout in train mode",
    "gru": "a recurrent layer with dropout in train mode",
    "rnn_tanh": "a recurrent layer with dropout in train mode",
    "rnn_relu": "a recurrent layer with dropout in train mode",
}


def refuse_active_dropout(program: Program) -> None:
    """Randomness inside an operator cannot be fed from golden values."""
    for node in program.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        name = name_of(node.target).removeprefix("padded_")
        if name in _DROPOUT_INSIDE and _drops(node, name):
            raise RecordingError(
                f"{_DROPOUT_INSIDE[name]} is random",
                place_of_text(node.meta.get("stack_trace")),
                "pass dropout_p only when self.training, and call model.eval() before recording",
            )


def refuse_randomness_in_training(model: nn.Module, program: Program) -> None:
    """Random operators of a model in train mode are regularisation that somebody forgot to switch off."""
    training = next((path for path, module in model.named_modules() if module.training), None)
    random = next((n for n in program.graph.nodes if n.op == "call_function" and is_random(n)), None)
    if training is not None and random is not None:
        raise RecordingError(
            f"the model is in train mode and random ({op_name(random.target)})",
            place_of_text(random.meta.get("stack_trace")),
            "call model.eval() before recording",
        )


def _drops(node: torch.fx.Node, name: str) -> bool:
    if name == "scaled_dot_product_attention":
        return is_random(node)
    if node.target.namespace != "pycandle":
        return False
    layers, dropout, train = node.args[-5:-2]
    return bool(train) and dropout > 0 and layers > 1


def refuse_memory_views(program: Program) -> None:
    """as_strided walks memory; a program knows the order of elements, which is that of memory only row by row."""
    for node in program.graph.nodes:
        if node.op == "call_function" and str(node.target).startswith("aten.as_strided"):
            tensor = node.args[0].meta["val"]
            if not tensor.is_contiguous() or tensor.storage_offset() != 0:
                raise RecordingError(
                    "as_strided is used on a view of another tensor's memory",
                    place_of_text(node.meta.get("stack_trace")),
                    "call .contiguous() before it, or write it with unfold, slices or expand",
                )


def refuse_hidden_updates(program: Program) -> None:
    """instance_norm moves running statistics in place and its schema does not say so: an exported program loses that."""
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is not torch.ops.aten.instance_norm.default:
            continue
        _, _, _, mean, var, by_input, *_ = node.args
        if by_input and not (mean is None and var is None):
            raise RecordingError(
                "instance_norm moves running statistics, and an exported program does not show it",
                place_of_text(node.meta.get("stack_trace")),
                "pass use_input_stats=False, or no running statistics",
            )


def refuse_lost_states(eager: Eager, program: Program, inputs: Inputs) -> None:
    """A buffer that a call changes and the program does not. What is only computed once and kept is none."""
    known = {name for state in program.states() for name in (state.name, *state.aliases)}
    for name in eager.changed_buffers(inputs):
        if name in known:
            continue
        path, _, attribute = name.rpartition(".")
        module = eager.model.get_submodule(path)
        place = attribute_assignment(type(module), attribute)
        if getattr(module, attribute) is None:
            if not _later_calls_differ(eager, inputs):
                continue
            raise RecordingError(
                f"the buffer {name} has no value before the first call, and a call gives it one",
                place,
                f'register it with its shape: register_buffer("{attribute}", torch.zeros(…)), and write into it',
                path,
            )
        raise RecordingError(
            f"a call changes the buffer {name}, and the exported program does not",
            place,
            "write into the buffer itself in forward (copy_, add_, index_copy_)",
            path,
        )


def _later_calls_differ(eager: Eager, inputs: Inputs) -> bool:
    other = permuted(inputs, eager.seed + 1)
    try:
        return not _all_equal(eager.run_calls([inputs, other])[1].outputs, eager.run(other))
    except Exception:
        pass  # not with these values
    try:
        return not _all_equal(eager.run_calls([inputs, inputs])[1].outputs, eager.run(inputs))
    except Exception:
        return True


def random_notes(program: Program) -> list[str]:
    notes = []
    for node in program.graph.nodes:
        if node.op == "call_function" and is_random(node):
            place = place_of_text(node.meta.get("stack_trace"))
            where = f" at {place}" if place else ""
            notes.append(
                f"random: {op_name(node.target)}{where}; verification takes its values from the goldens"
            )
    return notes
