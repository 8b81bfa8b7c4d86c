"""A module as it is now, to be put back later: the values of its buffers, its attributes and what is in their containers."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator

import torch

_CONTAINERS = (list, dict, set, OrderedDict)


class ModuleSnapshot:
    """Parameters are remembered as objects, not by their values."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._buffers = [(b, b.detach().clone()) for b in model.buffers() if not b.is_meta]
        self._attributes = [
            (m, {name: _with_contents(v) for name, v in vars(m).items()}) for m in model.modules()
        ]

    def restore(self) -> None:
        for module, before in self._attributes:
            for name in [name for name in vars(module) if name not in before]:
                del vars(module)[name]
            for name, (value, contents) in before.items():
                vars(module)[name] = value
                if contents is not None:
                    _refill(value, contents)
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)

    @contextlib.contextmanager
    def in_force(self, model: torch.nn.Module) -> Iterator[None]:
        """The module as it was then; afterwards, whatever happens, as it is now. The random numbers go on likewise."""
        now, random = ModuleSnapshot(model), torch.get_rng_state()
        self.restore()
        try:
            yield
        finally:
            now.restore()
            torch.set_rng_state(random)


def _with_contents(value: object) -> tuple[object, object]:
    return value, value.copy() if type(value) in _CONTAINERS else None


def _refill(container: list | dict | set, contents: list | dict | set) -> None:
    """In place: others may hold the same container."""
    if isinstance(container, list):
        container[:] = contents
    else:
        container.clear()
        container.update(contents)
