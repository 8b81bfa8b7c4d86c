"""How far a mistake moves a layer in PyTorch, and how far another order of summation moves the same layer.

Both are measured module by module, from the values that the right model gives each module: rms of the change, of the
output's size. A mistake counts when some module moves further than torch itself does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Effect:
    change: float  # of the module that moved furthest beyond what torch's own sums move it
    noise: float  # of that module: torch's own change under another order of summation
    paths: tuple[str, ...]  # modules whose output changed beyond that, innermost first
    is_refused: bool = False  # the wrong model does not run from these values

    @property
    def is_real(self) -> bool:
        return self.is_refused or self.change > self.noise

    def json(self) -> dict:
        return asdict(self) | {"paths": list(self.paths)}


class Permuted(TorchFunctionMode):
    """The same functions, with the terms of every sum in another order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = torch.Generator().manual_seed(seed)

    def order(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return torch.randperm(x.shape[axis], generator=self.draw)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            changed = self.permuted(function, args, kwargs)
        except (TypeError, IndexError, RuntimeError, ValueError):
            changed = None  # a form of the call that is not known here
        return function(*args, **kwargs) if changed is None else changed

    def permuted(self, function, args, kwargs):
        if function is F.linear and not kwargs:
            x, w, *b = args
            at = self.order(x, -1)
            return function(x[..., at], w[..., at], *b)
        if function in (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__) and args[1].dim() > 1:
            a, b = args
            at = self.order(a, -1)
            return function(a[..., at], b[..., at, :])
        if function in (torch.conv1d, torch.conv2d, F.conv1d, F.conv2d):
            return self.convolution(function, args, kwargs)
        if function is F.scaled_dot_product_attention:
            q, k, v, *rest = args
            at = self.order(q, -1)
            return function(q[..., at], k[..., at], v, *rest, **kwargs)
        if function is F.layer_norm and len(args[1]) == 1:
            x, shape, *rest = args
            w, b = (*rest, None, None)[:2]
            w, b = kwargs.get("weight", w), kwargs.get("bias", b)
            eps = kwargs.get("eps", rest[2] if len(rest) > 2 else 1e-5)
            at = self.order(x, -1)
            y = function(
                x[..., at], shape, w[at] if w is not None else None, b[at] if b is not None else None, eps
            )
            return y[..., at.argsort()]
        if function in (torch.softmax, F.softmax, torch.Tensor.softmax):
            axis = args[1] if len(args) > 1 else kwargs["dim"]
            at = self.order(args[0], axis)
            return function(args[0].index_select(axis, at), *args[1:], **kwargs).index_select(
                axis, at.argsort()
            )
        if function in (torch.Tensor.mean, torch.mean, torch.Tensor.sum, torch.sum):
            axes = args[1] if len(args) > 1 else kwargs.get("dim")
            x = args[0]
            for axis in (axes,) if isinstance(axes, int) else axes or ():
                x = x.index_select(axis, self.order(x, axis))
            return function(x, *args[1:], **kwargs)
        return None

    def convolution(self, function, args, kwargs):
        x, w, *rest = args
        if kwargs.get("groups", rest[4] if len(rest) > 4 else 1) != 1:
            return None
        at = self.order(x, 1)
        return function(x[:, at], w[:, at], *rest, **kwargs)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


def other_orders() -> Iterator[ExitStack]:
    """Ways to run the same module that differ in the order of its sums alone."""
    for count, is_on, seed in ((2, True, None), (1, False, None), (1, True, 1), (1, True, 2), (1, False, 3)):
        stack = ExitStack()
        stack.enter_context(threads(count))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=is_on))
        if seed is not None:
            stack.enter_context(Permuted(seed))
        yield stack


def floats(value: object) -> list[torch.Tensor]:
    return [x.detach() for x in tree_leaves(value) if isinstance(x, torch.Tensor)]


def distance(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    """The largest rms of a difference, of the size of the first."""
    if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return 1.0
    largest = 0.0
    for x, y in zip(a, b, strict=True):
        x, y = x.double(), y.double()
        both = x.isfinite() & y.isfinite()
        if not bool((both | (x == y) | (x.isnan() & y.isnan())).all()):
            return 1.0
        # Each channel by itself: one large channel does not hide what happens to the others.
        d, s = torch.where(both, x - y, 0), torch.where(both, x, 0)
        if x.dim() > 1:
            d, s = d.flatten(0, -2), s.flatten(0, -2)
            d, s = d.pow(2).mean(0).sqrt(), s.pow(2).mean(0).sqrt()
            part = d / torch.where(s > 0, s, 1)
            largest = max(largest, float(part.pow(2).mean().sqrt()))
        else:
            size = float(s.pow(2).mean().sqrt()) or 1.0
            largest = max(largest, float(d.pow(2).mean().sqrt()) / size)
    return largest


def calls_of(model: nn.Module, inputs: dict) -> dict[str, tuple[tuple, dict, object]]:
    """Arguments and result of the first call of each module, in the order in which they end."""
    calls, hooks = {}, []

    def remember(path: str):
        def hook(_module, args, kwargs, result) -> None:
            copied = tree_map(
                lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (args, kwargs, result)
            )
            calls.setdefault(path, copied)

        return hook

    for path, module in model.named_modules():
        hooks.append(module.register_forward_hook(remember(path), with_kwargs=True))
    with torch.no_grad():
        model(**inputs)
    for hook in hooks:
        hook.remove()
    return calls


IN_F32 = 3e-6  # of a value's size: 50 units of rounding, more than any order of summation does here


def noise_of(module: nn.Module, args: tuple, kwargs: dict, result: object) -> float:
    if any(x.dtype is torch.float32 for x in floats(result)):
        return IN_F32
    largest = 0.0
    for stack in other_orders():
        with stack, torch.no_grad():
            largest = max(largest, distance(floats(result), floats(module(*args, **kwargs))))
    return largest


def effect(right: nn.Module, wrong: nn.Module, inputs: dict) -> Effect:
    calls = calls_of(right, inputs)
    mine, theirs = dict(right.named_modules()), dict(wrong.named_modules())
    best, paths = Effect(0.0, 0.0, ()), []
    for path, (args, kwargs, result) in calls.items():
        if path not in theirs:
            continue
        try:
            with torch.no_grad():
                change = distance(floats(result), floats(theirs[path](*args, **kwargs)))
        except (RuntimeError, TypeError):
            return Effect(1.0, 0.0, (path,), True)
        if change == 0:
            continue
        noise = noise_of(mine[path], args, kwargs, result)
        if change > noise:
            paths.append(path)
        if not best.paths or change - noise > best.change - best.noise:
            best = Effect(change, noise, (path,))
    return Effect(best.change, best.noise, tuple(paths))
