"""Modules that went through torch.jit.script: their Python originals are traced, over the same parameters.

torch.export cannot look into a ScriptModule. One that torch.jit.script made knows its class, attributes and constants, so the
original is put together again while a model is traced. What it is compared with stays the scripted module.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator

import torch
from torch import nn

from ...errors import RecordingError
from ..torch_compat import children_of, scripted_type

_OF_TORCH = ("_is_full_backward_hook", "training")


def forward_signature(model: nn.Module) -> inspect.Signature:
    """Of forward; a model without its Python code, which has none, is refused."""
    if isinstance(model, torch.jit.ScriptModule):
        _original(model, "", {})
    return inspect.signature(model.forward)


@contextlib.contextmanager
def python_originals(model: nn.Module) -> Iterator[nn.Module]:
    """Yields the model with no scripted module in it; the user's own is as it was afterwards."""
    if isinstance(model, torch.jit.ScriptModule):
        yield _original(model, "", {})
        return
    made: dict[int, nn.Module] = {}
    replaced = []
    for path, module in list(model.named_modules()):
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for name, child in children_of(module).items():
            if isinstance(child, torch.jit.ScriptModule):
                where = f"{path}.{name}" if path else name
                replaced.append((children_of(module), name, child, _original(child, where, made)))
    for modules, name, _, original in replaced:
        modules[name] = original
    try:
        yield model
    finally:
        for modules, name, child, _ in replaced:
            modules[name] = child


def _original(scripted: torch.jit.ScriptModule, path: str, made: dict[int, nn.Module]) -> nn.Module:
    if id(scripted) in made:
        return made[id(scripted)]
    known = scripted_type(scripted)
    kind = getattr(known, "py_class", None)
    if kind is None or not issubclass(kind, nn.Module) or kind.__module__.startswith("torch.jit"):
        how = "traced" if kind is not None else "loaded from a file"
        raise RecordingError(
            f"{path or 'the model'} is a TorchScript module that was {how}: its Python code is not there",
            None,
            "build the Python module, load_state_dict(scripted.state_dict()) into it, and record that",
            path,
        )
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    made[id(scripted)] = module
    for name, value in known.get_constants().items():
        setattr(module, name, value)
    tensors = {
        **dict(scripted.named_buffers(recurse=False)),
        **dict(scripted.named_parameters(recurse=False)),
    }
    for name, (_, is_parameter) in known.get_attributes().items():
        if name in _OF_TORCH:
            continue
        value = tensors[name] if name in tensors else getattr(scripted, name, None)
        if is_parameter:
            module.register_parameter(name, None if value is None else _parameter(value))
        elif name in tensors:
            module.register_buffer(name, value)
        else:
            setattr(module, name, value)
    for name, child in scripted.named_children():
        module.add_module(name, _original(child, f"{path}.{name}" if path else name, made))
    module.training = scripted.training  # train() would set that of the children as well
    return module


def _parameter(tensor: torch.Tensor) -> nn.Parameter:
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, tensor.requires_grad)
