"""Runs the user's module as it is: the truth that a recording is compared with."""

from __future__ import annotations

import contextlib
import warnings
from collections import OrderedDict

import torch
import torch._dynamo

from .inputs import Inputs, flatten_outputs

_CONTAINERS = (list, dict, set, OrderedDict)


@contextlib.contextmanager
def quiet_inference(seed: int):
    """No gradients, a fixed seed, no attention fast path, and nothing remembered of the shapes of earlier calls.

    The fast path writes zeros at padded places, others do not. torch.cond and its like compile what they call
    even in eager mode: for the sizes that vary, unless told not to, and then they refuse what they took before.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        with torch.no_grad(), no_memory_of_shapes(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_rng_state(state)
        torch.backends.mha.set_fastpath_enabled(fast)


def no_memory_of_shapes():
    return torch._dynamo.config.patch(automatic_dynamic_shapes=False)


class Eager:
    """The module with what it remembers between calls under control.

    Buffers go back to their first values before each run. Plain attributes (counters, caches) are put back only
    on request: that a model remembers something is for the soundness check to find.
    """

    def __init__(self, model: torch.nn.Module, seed: int):
        self.model = model
        self.seed = seed
        self._buffers = [(b, b.detach().clone()) for b in model.buffers() if not b.is_meta]
        self._attributes = [(m, _shallow(m.__dict__)) for m in model.modules()]

    def run(self, inputs: Inputs) -> list:
        """The flat outputs for these inputs."""
        return flatten_outputs(self.run_tree(inputs))[0]

    def run_tree(self, inputs: Inputs) -> object:
        fresh = inputs.copied()
        with quiet_inference(self.seed):
            self.restore_buffers()
            try:
                return self.model(*fresh.args, **fresh.kwargs)
            finally:
                self.restore_buffers()

    def restore_buffers(self) -> None:
        with torch.no_grad():
            for buffer, value in self._buffers:
                buffer.copy_(value)

    def changed_attributes(self) -> list[tuple[torch.nn.Module, str]]:
        """Attributes that no longer are what they were before the first run."""
        changed = []
        for module, before in self._attributes:
            for name, value in module.__dict__.items():
                if not _same(before.get(name, _Missing), value):
                    changed.append((module, name))
        return changed

    def restore_attributes(self) -> None:
        for module, before in self._attributes:
            now = dict(module.__dict__)
            module.__dict__.clear()
            module.__dict__.update(_shallow(before))
            for name, value in now.items():  # hooks: their handles know the dict itself
                if type(value) is OrderedDict and type(before.get(name)) is OrderedDict:
                    value.clear()
                    value.update(before[name])
                    module.__dict__[name] = value


class _Missing:
    pass


def _shallow(attributes: dict) -> dict:
    """A copy in which containers are copied too, so that an `append` does not reach the saved one."""
    return {name: value.copy() if type(value) in _CONTAINERS else value for name, value in attributes.items()}


def _same(before: object, after: object) -> bool:
    if before is after:
        return True
    if type(before) is not type(after):
        return False
    if type(after) in (list, set):
        return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
    if type(after) in (dict, OrderedDict):
        return before.keys() == after.keys() and all(before[k] is after[k] for k in after)
    return isinstance(after, (int, float, str, bool, tuple)) and before == after
