"""Runs the user's module as it is: the truth that a recording is compared with."""

from __future__ import annotations

import contextlib
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from .inputs import Inputs, flatten_outputs
from .torch_compat import buffers_of, memory_of, no_memory_of_shapes, pytree, writes_into
from .tracing.stable_sorts import StableSorts

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


@dataclass(frozen=True)
class Call:
    """What one call gave: flat outputs, their names and nesting, and buffers after it by name."""

    outputs: list
    names: list[str]
    spec: pytree.TreeSpec
    states: dict[str, torch.Tensor]


class Eager:
    """The module with what it remembers between calls under control.

    Buffers go back to their first values before each run. Plain attributes (counters, caches) are put back only
    on request: that a model remembers something is for the soundness check to find.
    """

    def __init__(self, model: torch.nn.Module, seed: int):
        self.model = model
        self.seed = seed
        self.sorts_are_stable = False
        self._buffers = [
            (module, name, buffer, _saved(buffer))
            for module in model.modules()
            for name, buffer in buffers_of(module).items()
        ]
        self._attributes = [(m, _shallow(m.__dict__)) for m in model.modules()]

    def run(self, inputs: Inputs) -> list:
        """The flat outputs for these inputs."""
        return self.run_calls([inputs])[0].outputs

    def run_calls(self, calls: list[Inputs], states: Iterable[str] = ()) -> list[Call]:
        """Calls in a row: each begins with the buffers that the one before it left. `states` are those to keep."""
        self.restore_buffers()
        try:
            return [self._call(inputs, states) for inputs in calls]
        finally:
            self.restore_buffers()

    def _call(self, inputs: Inputs, states: Iterable[str]) -> Call:
        fresh = inputs.copied()
        sorts = StableSorts() if self.sorts_are_stable else contextlib.nullcontext()
        with quiet_inference(self.seed), sorts:
            outputs, names, spec = flatten_outputs(self.model(*fresh.args, **fresh.kwargs))
        buffers = dict(self.model.named_buffers(remove_duplicate=False))
        memory = {_memory(buffer) for buffer in buffers.values()} - {None}
        # An output that is a buffer would change when the buffer does.
        outputs = [o.clone() if isinstance(o, torch.Tensor) and _memory(o) in memory else o for o in outputs]
        return Call(outputs, names, spec, {name: buffers[name].detach().clone() for name in states})

    def changed_buffers(self, inputs: Inputs) -> list[str]:
        """Names of the buffers that hold something else after a call, a tensor in the place of None included."""
        self.restore_buffers()
        versions = [_version(buffer) for _, _, buffer, _ in self._buffers]
        paths = {module: path for path, module in self.model.named_modules()}
        try:
            self._call(inputs, ())
            changed = []
            for (module, name, buffer, value), version in zip(self._buffers, versions, strict=True):
                buffers = buffers_of(module)  # a scripted module's have no get()
                now = buffers[name] if name in buffers else None  # noqa: SIM401
                touched = now is not buffer or _version(buffer) != version
                if touched and (value is None or now is None or not torch.equal(now, value)):
                    changed.append(".".join(part for part in (paths[module], name) if part))
            return changed
        finally:
            self.restore_buffers()

    def restore_buffers(self) -> None:
        """Also those that the model assigned anew: `self.count = self.count + 1` leaves another tensor there."""
        with torch.no_grad():
            for module, name, buffer, value in self._buffers:
                buffers_of(module)[name] = buffer
                if value is not None:
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


def _saved(buffer: torch.Tensor | None) -> torch.Tensor | None:
    return None if buffer is None or buffer.is_meta else buffer.detach().clone()


def _version(buffer: torch.Tensor | None) -> int:
    """Counts the writes into a tensor."""
    return 0 if buffer is None else writes_into(buffer)


def _memory(tensor: torch.Tensor) -> int | None:
    """None for sparse tensors and their like, which have no memory of one piece."""
    return memory_of(tensor) if tensor.layout is torch.strided else None


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
