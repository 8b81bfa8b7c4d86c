"""pycandle.compile: a PyTorch model as a callable that runs without it."""

from __future__ import annotations

import inspect
import shutil
import tempfile
import weakref
from typing import Any

import torch
import torch.utils._pytree as pytree

from .errors import UsageError
from .inputs import flatten_outputs, gather_inputs
from .model import Model, load_model
from .preparation import prepared
from .recorder import GoldenRecorder


class CompiledModel:
    """Takes the arguments of the model it was made from and gives back the same structure."""

    def __init__(
        self, model: Model, signature: inspect.Signature, spec: pytree.TreeSpec, leaves: list
    ) -> None:
        self.model = model
        self._signature = signature
        self._spec = spec
        # Leaves that are no tensors are the same at every call.
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = gather_inputs(self._signature, args, kwargs)
        known = {info.name for info in self.model.inputs}
        given = {name: tensor for _, name, tensor in inputs.tensors()}
        if unknown := sorted(set(given) - known):
            raise UsageError(f"{', '.join(unknown)} was no tensor input when the model was compiled")
        outputs = self.model.forward(**given)
        leaves = list(self._leaves)
        for place, info in zip(self._places, self.model.outputs, strict=True):
            leaves[place] = outputs[info.name]
        return pytree.tree_unflatten(leaves, self._spec)


def compile(
    model: torch.nn.Module,
    *example: Any,
    backend: str | None = None,
    threads: int | None = None,
    dynamic: object = None,
    **kwargs: Any,
) -> CompiledModel:
    """Records the model at the example inputs and loads the result (`backend` and `threads` as for `load_model`).

    compiled = pycandle.compile(model, x)
    y = compiled(other_x)
    """
    folder = tempfile.mkdtemp(prefix="pycandle-")
    try:
        recorder = GoldenRecorder(folder, taps="none", dynamic=dynamic, source=False)
        recorder.record(model, *example, **kwargs)
        recorder.save("compiled")
        with torch.no_grad(), prepared(model, example, kwargs, 0, []) as (args, keywords):
            leaves, _, spec = flatten_outputs(model(*args, **keywords))
        loaded = load_model(folder, backend, threads)
        compiled = CompiledModel(loaded, inspect.signature(model.forward), spec, leaves)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(compiled, shutil.rmtree, folder, ignore_errors=True)
    return compiled
