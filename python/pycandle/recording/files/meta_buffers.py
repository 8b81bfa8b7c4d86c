"""Values that no checkpoint holds: the non-persistent buffers of a meta model, computed anew on the CPU."""

from __future__ import annotations

import inspect

import torch

from ..graph.program import Program


def recompute_buffers(model: torch.nn.Module, program: Program) -> list[str]:
    """Builds each small module that owns such buffers once more, on the CPU; notes what must come from elsewhere."""
    missing = []
    for parameter in program.parameters:
        if parameter.persistent or not parameter.tensor.is_meta or not any(n.users for n in parameter.nodes):
            continue
        path, _, name = parameter.name.rpartition(".")
        value = _rebuilt(model, path).get(name)
        wanted = parameter.tensor
        if value is not None and value.is_floating_point() and wanted.is_floating_point():
            value = value.to(wanted.dtype)  # as model.to(dtype) rounds buffers
        if value is not None and value.shape == wanted.shape and value.dtype == wanted.dtype:
            parameter.tensor = value
        else:
            missing.append(parameter.name)
    if not missing:
        return []
    return [
        f"no values for {', '.join(missing)}: no checkpoint holds them, so they must be given when weights are added"
    ]


def _rebuilt(model: torch.nn.Module, path: str) -> dict[str, torch.Tensor]:
    """The buffers of a module without parameters that is made from its configuration alone."""
    try:
        owner = model.get_submodule(path)
    except AttributeError:
        return {}
    config = getattr(owner, "config", None)
    if config is None or any(True for _ in owner.parameters()):
        return {}
    accepted = [p for p in inspect.signature(type(owner).__init__).parameters if p == "config"]
    try:
        with torch.device("cpu"):
            made = type(owner)(config=config) if accepted else type(owner)(config)
    except Exception:  # a constructor that needs more than its configuration
        return {}
    return dict(made.named_buffers(recurse=False))
