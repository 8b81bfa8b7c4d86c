"""What models call and torch.export cannot trace: while it traces, something equal answers.

x.data                                     x.detach()
copy.deepcopy(x)                           x.clone()
torch.tensor([a, b]) of tensors            torch.stack
torch.equal(a, b), torch.allclose(a, b)    a tensor of one bool
torch.quantile and its like                decompositions.py
torch.linspace(0, 1, x.shape[0])           size_numbers.py; triu_indices and adaptive_max_pool2d too
if (x < 0).any(): raise …                  goes on (data_checks.py)
x.tensor_split(3)                          even_splits.py
torch.take_along_dim(x, i, 1)              gather, which leaves the other axes open
x[x.argmax()]                              tensor_indices.py
len(x), math.sqrt(x.shape[0])              sizes that stay open
torch.stack(rows), torch.cat(rows)         of rows that a loop over an open size made: open_loops.py
"""

from __future__ import annotations

import contextlib
import sys

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ...errors import RecordingError
from ..places import place_here
from ..torch_compat import (
    ADAPTIVE_MAX_POOL2D,
    ADAPTIVE_MAX_POOL3D,
    DISABLED_TORCH_FUNCTION,
    distributions_not_validated,
)
from .data_checks import asking_frame, checks_of_numbers_pass, is_caught, is_of_torch, passing_answer, shown
from .decompositions import DECOMPOSITIONS
from .even_splits import split_tensor
from .open_loops import cat, stack
from .size_numbers import (
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    linspace,
    sizes_in_python,
    tril_indices,
    triu_indices,
)
from .tensor_indices import get_item, holds_places, set_item


def _equal(a, b):
    if a.shape != b.shape:
        return torch.zeros((), dtype=torch.bool)
    return (a == b).all()


def _allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return torch.isclose(a, b, rtol, atol, equal_nan).all()


def _deepcopy(x, memo):
    memo[id(x)] = copied = x.clone()
    return copied


def _random(x, *bounds, **options):
    if not bounds or None in bounds:
        return x.random_(*bounds, **options)
    # The first bound of torch's operator is called `from`, a keyword: torch.fx writes code that does not parse.
    return x.copy_(torch.randint(*bounds, x.shape, dtype=x.dtype, **options))


def _take_along_dim(input, indices, dim=None):
    if dim is None:
        return _take_along_dim(input.reshape(-1), indices.reshape(-1), 0)
    if input.dim() != indices.dim() or not -input.dim() <= dim < input.dim():
        return torch.take_along_dim(input, indices, dim)  # torch's own error
    axis = dim % input.dim()
    others = [[*t.shape[:axis], 1, *t.shape[axis + 1 :]] for t in (input, indices)]
    whole = torch.broadcast_shapes(*others)
    spread = [t.expand(*whole[:axis], t.shape[axis], *whole[axis + 1 :]) for t in (input, indices)]
    from_the_end = torch.where(
        spread[1] < 0, spread[1] + input.shape[axis], spread[1]
    )  # gather takes no negative ones
    return spread[0].gather(axis, from_the_end)


def _one_hot(x, num_classes=-1):
    if num_classes == -1:
        raise RecordingError(
            "one_hot counts its classes from the values of a tensor", place_here(), "pass num_classes"
        )
    return F.one_hot(x, num_classes)


def _assign_data(x, value):
    if x.shape != value.shape or x.dtype != value.dtype:
        raise RecordingError(
            "a tensor's .data is replaced by one of another shape or dtype", place_here(), "make a new tensor"
        )
    x.detach().copy_(value)


def _tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    made = _stacked(data)
    dtype = dtype or _promoted(_leaves(data))
    return made.to(dtype=dtype, device=device, copy=True)


def _new_tensor(x, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return _tensor(data, dtype=dtype or x.dtype, device=device or x.device)


def _stacked(data):
    if isinstance(data, (list, tuple)):
        parts = [_stacked(item) for item in data]
        dtype = _promoted(parts)
        return torch.stack([part.to(dtype) for part in parts])
    if isinstance(data, torch.Tensor):
        return data.detach() if data.dim() == 0 else data.detach().reshape(())
    return torch.tensor(data)


def _leaves(data) -> list:
    if isinstance(data, (list, tuple)):
        return [leaf for item in data for leaf in _leaves(item)]
    return [data if isinstance(data, torch.Tensor) else torch.tensor(data)]


def _promoted(tensors: list[torch.Tensor]) -> torch.dtype:
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def _holds_tensors(data) -> bool:
    return isinstance(data, (list, tuple)) and any(
        isinstance(item, torch.Tensor) or _holds_tensors(item) for item in data
    )


_STAND_INS = {
    torch.equal: _equal,
    torch.Tensor.equal: _equal,
    torch.allclose: _allclose,
    torch.Tensor.allclose: _allclose,
    torch.Tensor.__deepcopy__: _deepcopy,
    torch.Tensor.random_: _random,
    F.one_hot: _one_hot,
    torch.linspace: linspace,
    torch.triu_indices: triu_indices,
    torch.tril_indices: tril_indices,
    ADAPTIVE_MAX_POOL2D: adaptive_max_pool2d,
    ADAPTIVE_MAX_POOL3D: adaptive_max_pool3d,
    torch.take_along_dim: _take_along_dim,
    torch.Tensor.take_along_dim: _take_along_dim,
    torch.tensor_split: split_tensor,
    torch.stack: stack,
    torch.cat: cat,
    torch.concat: cat,
    torch.concatenate: cat,
    torch.Tensor.tensor_split: split_tensor,
    **DECOMPOSITIONS,
}
_OF_LISTS = {
    torch.tensor: (0, _tensor),
    torch.as_tensor: (0, _tensor),
    torch.Tensor.new_tensor: (1, _new_tensor),
}
_OF_INDICES = {torch.Tensor.__getitem__: get_item, torch.Tensor.__setitem__: set_item}


class StandIns(TorchFunctionMode):
    """Answers for the functions above; everything else passes through."""

    def __init__(self):
        super().__init__()
        self.left_out: set[str] = set()
        self.refused: list[Exception] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.compiler.is_dynamo_compiling():
            return func(*args, **kwargs)
        if func is torch.Tensor.__bool__ or (func is torch.Tensor.item and args[0].dtype is torch.bool):
            return self._truth(func, args[0])
        if func is torch._assert:
            return self._assert(*args, **kwargs)
        if getattr(func, "__self__", None) is torch.Tensor.data:
            return args[0].detach() if func.__name__ == "__get__" else _assign_data(*args)
        if func in _OF_LISTS:
            place, stand_in = _OF_LISTS[func]
            func = stand_in if len(args) > place and _holds_tensors(args[place]) else func
        if func in _OF_INDICES and holds_places(args[1]):
            func = _OF_INDICES[func]
        return _STAND_INS.get(func, func)(*args, **kwargs)

    def _truth(self, func, tensor: torch.Tensor) -> bool:
        frame = asking_frame(sys._getframe(1))
        answer = passing_answer(frame)
        if answer is not None:
            self.left_out.add(shown(frame))
            return answer
        try:
            return func(tensor)
        except Exception as error:
            if not is_of_torch(frame) or is_caught(frame.f_back):
                self.refused.append(error)
            raise

    def _assert(self, condition, message) -> None:
        if isinstance(condition, torch.Tensor):
            condition = self._truth(torch.Tensor.__bool__, condition)
        torch._assert(condition, message)


@contextlib.contextmanager
def _functions_seen_through():
    """torch.nn.functional hands its functions over whole, and what they call inside would go unseen."""
    originals = {name: getattr(F, name) for name in _HAND_OVER}
    for name in _HAND_OVER:
        setattr(
            F, name, _has_own_functions if name == "has_torch_function" else lambda *a: _has_own_functions(a)
        )
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(F, name, original)


_HAND_OVER = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_PLAIN = (torch.Tensor.__torch_function__.__func__, DISABLED_TORCH_FUNCTION)


def _has_own_functions(values) -> bool:
    """Whether one of them is of a class that overrides torch's functions."""
    return any(
        isinstance(value, torch.Tensor)
        and getattr(type(value).__torch_function__, "__func__", type(value).__torch_function__) not in _PLAIN
        for value in values
    )


@contextlib.contextmanager
def stand_ins(notes: list[str]):
    """While a model is traced; `notes` get what was left out of the program."""
    mode = StandIns()
    with (
        distributions_not_validated(),
        mode,
        _functions_seen_through(),
        checks_of_numbers_pass(mode.left_out, mode.refused),
        sizes_in_python(),
    ):
        yield
    if mode.refused:  # the model caught it and went on
        raise mode.refused[0]
    notes += [f"the check of values at {place} is left out" for place in sorted(mode.left_out)]
