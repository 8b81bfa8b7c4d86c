"""What must be so before a model is traced: wrappers off, caches off, lazy modules materialised."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from .eager import quiet_inference
from .torch_compat import before_compile, children_of, compiled_type

_COMPILED_NOTE = "recorded as it was before torch.compile: the same values, layer by layer"
CACHE_NOTE = "use_cache was set to False: a cache object cannot be recorded"


@contextlib.contextmanager
def prepared(
    model: torch.nn.Module, args: tuple, kwargs: dict, seed: int, notes: list[str]
) -> Iterator[tuple]:
    """Yields the call's arguments; the model's settings come back afterwards."""
    materialise_lazy_modules(model, args, kwargs, seed)
    configs = _caching_configs(model)
    if kwargs.get("use_cache"):
        kwargs = {**kwargs, "use_cache": False}
        configs = configs or [None]
    if configs:
        notes.append(CACHE_NOTE)
    changed = [config for config in configs if config is not None]
    for config in changed:
        config.use_cache = False
    try:
        with _layers_unwrapped(model, notes):
            yield args, kwargs
    finally:
        for config in changed:
            config.use_cache = True


def unwrapped(model: torch.nn.Module, notes: list[str]) -> torch.nn.Module:
    """The model inside torch.compile and nn.DataParallel: they change how it runs, not what."""
    while True:
        if isinstance(model, compiled_type()):
            if _COMPILED_NOTE not in notes:
                notes.append(_COMPILED_NOTE)
            model = before_compile(model)
        elif isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


@contextlib.contextmanager
def _layers_unwrapped(model: torch.nn.Module, notes: list[str]) -> Iterator[None]:
    """The same for layers of the model, for as long as it is recorded."""
    wrapped = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in children_of(parent).items()
        if child is not None and unwrapped(child, []) is not child
    ]
    for parent, name, child in wrapped:
        children_of(parent)[name] = unwrapped(child, notes)
    try:
        yield
    finally:
        for parent, name, child in wrapped:
            children_of(parent)[name] = child


def _caching_configs(model: torch.nn.Module) -> list[object]:
    """The configurations that ask for a cache; submodules may hold copies of the root's."""
    found: dict[int, object] = {}
    for module in model.modules():
        config = getattr(module, "config", None)
        if getattr(config, "use_cache", None) is True and not isinstance(config, dict):
            found[id(config)] = config
    return list(found.values())


def materialise_lazy_modules(model: torch.nn.Module, args: tuple, kwargs: dict, seed: int) -> None:
    """Runs a model with lazy modules once, so that they know their sizes. Its buffers stay what they were."""
    if not any(isinstance(m, LazyModuleMixin) and m.has_uninitialized_params() for m in model.modules()):
        return
    before = [(b, b.detach().clone()) for b in model.buffers() if not is_lazy(b) and not b.is_meta]
    with quiet_inference(seed):
        try:
            model(*args, **kwargs)
        finally:
            for buffer, value in before:
                buffer.copy_(value)
