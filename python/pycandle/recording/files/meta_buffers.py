"""Values that no checkpoint holds: the non-persistent buffers of a meta model.

They are the model's own where it was built with `parameters_on_meta`, else computed anew on the CPU.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator

import torch

from ..graph.program import Program

_PLAIN = (bool, int, float, str, type(None))


@contextlib.contextmanager
def parameters_on_meta() -> Iterator[None]:
    """A model that is built here has parameters without values and buffers with them.

    with parameters_on_meta():
        model = MyLargeModel()
    """
    register = torch.nn.Module.register_parameter

    def register_on_meta(self, name: str, param: torch.nn.Parameter | None) -> None:
        register(self, name, param)
        if param is not None:
            self._parameters[name] = torch.nn.Parameter(param.detach().to("meta"), param.requires_grad)

    torch.nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


@contextlib.contextmanager
def buffers_on_meta(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Where parameters are on meta, buffers must be so while the model is recorded; gives the values that they had."""
    real = {}
    if any(p.is_meta for p in model.parameters()):
        real = {name: b for name, b in model.named_buffers() if not b.is_meta}
    for name, buffer in real.items():
        _set_buffer(model, name, buffer.to("meta"))
    try:
        yield real
    finally:
        for name, buffer in real.items():
            _set_buffer(model, name, buffer)


def _set_buffer(model: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(path), leaf, value)


def fill_buffers(model: torch.nn.Module, program: Program, real: dict[str, torch.Tensor]) -> list[str]:
    """Gives each buffer that no checkpoint holds its value; notes what must come from elsewhere."""
    missing = []
    rebuilt = _Rebuilt(model)
    for parameter in program.parameters:
        if parameter.persistent or not parameter.tensor.is_meta or not any(n.users for n in parameter.nodes):
            continue
        value = real.get(parameter.name)
        value = rebuilt.buffer(parameter.name) if value is None else value
        wanted = parameter.tensor
        if value is not None and value.is_floating_point() and wanted.is_floating_point():
            value = value.to(wanted.dtype)  # as model.to(dtype) rounds buffers
        if value is not None and value.shape == wanted.shape and value.dtype == wanted.dtype:
            parameter.tensor = value.contiguous()
        else:
            missing.append(parameter.name)
    if not missing:
        return []
    return [
        f"no values for {', '.join(missing)}: no checkpoint holds them; build the model with pycandle.parameters_on_meta"
    ]


class _Rebuilt:
    """Modules of a meta model built once more with values in their buffers, none in their parameters."""

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self._made: dict[str, torch.nn.Module | None] = {}

    def buffer(self, name: str) -> torch.Tensor | None:
        """From its owner, or the nearest module around it that can be built again."""
        path = name.rpartition(".")[0]
        while True:
            made = self._module(path)
            if made is not None:
                return dict(made.named_buffers(remove_duplicate=False)).get(
                    name.removeprefix(path).lstrip(".")
                )
            if not path:
                return None
            path = path.rpartition(".")[0]

    def _module(self, path: str) -> torch.nn.Module | None:
        if path not in self._made:
            self._made[path] = _built_again(self.model.get_submodule(path))
        return self._made[path]


def _built_again(module: torch.nn.Module) -> torch.nn.Module | None:
    """The same module by its constructor; None unless the arguments are known and give the same module twice."""
    arguments = _arguments_of(module)
    if arguments is None:
        return None
    made = []
    try:
        for seed in (1, 2):  # a buffer of random numbers is not the one that a checkpoint was trained with
            with torch.random.fork_rng(devices=[]), torch.device("cpu"), parameters_on_meta():
                torch.manual_seed(seed)
                made.append(type(module)(**arguments))
    except Exception:  # a constructor that needs more than this
        return None
    first, second = made
    alike = _plain_facts(first) == _plain_facts(module) and all(
        torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True)
    )
    return first if alike else None


def _arguments_of(module: torch.nn.Module) -> dict[str, object] | None:
    """What its constructor was given: its configuration, and what it keeps under the names of the arguments.

    An argument that it keeps nowhere may have had any value, so nothing is assumed of it, unless there is a configuration
    or it says where tensors are made.
    """
    arguments = {}
    known = vars(module)
    for name, parameter in list(inspect.signature(type(module).__init__).parameters.items())[1:]:
        if name in known:
            arguments[name] = known[name]
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if "config" not in known:
                return None
        elif parameter.default is parameter.empty or not ("config" in known or name in ("device", "dtype")):
            return None
    return arguments


def _plain_facts(module: torch.nn.Module) -> dict[str, object]:
    """Names and shapes of all tensors, numbers and words of all modules."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    facts: dict[str, object] = {name: tuple(t.shape) for name, t in tensors}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name != "training" and not name.startswith("_") and isinstance(value, _PLAIN):
                facts[f"{path}:{name}"] = value
    return facts
