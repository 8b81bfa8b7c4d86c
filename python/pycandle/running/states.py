"""The states of a model: the buffers that its calls change, and that live on between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .. import _core
from .arrays import contiguous, is_torch, to_numpy, to_torch

_NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
    "c64": np.complex64,
    "c128": np.complex128,
}


class States(Mapping[str, Any]):
    """States by name, as they are now. What is read is a copy; what is assigned is there in the next call.

        model.states["count"]                      # array(3)
        model.states["count"] = 7
        model.states.update({"count": 7, "last": x})

    `items()`, `values()` and `copy()` read all states at one moment, also while other threads call the model.
    """

    def __init__(
        self, core: Callable[[], _core.Model], present: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        self._core = core
        self._present = present

    def copy(self) -> dict[str, Any]:
        return self._present(self._core().states())

    def update(self, states: Mapping[str, Any]) -> None:
        self._set(states, every=False)

    def replace(self, states: Mapping[str, Any]) -> None:
        """Sets every state."""
        self._set(states, every=True)

    def _set(self, states: Mapping[str, Any], every: bool) -> None:
        core = self._core()
        types = {name: (dtype, tuple(shape)) for name, dtype, shape in core.state_types}
        given = {name: _of_type(name, value, types.get(name)) for name, value in states.items()}
        core.set_states(contiguous(given), every)

    def __getitem__(self, name: str) -> Any:
        states = self._core().states()
        if name not in states:
            raise KeyError(f"{name} is no state: {', '.join(states) or 'the model has none'}")
        return self._present({name: states[name]})[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._set({name: value}, every=False)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _, _ in self._core().state_types])

    def __len__(self) -> int:
        return len(self._core().state_types)

    def items(self):
        return self.copy().items()

    def values(self):
        return self.copy().values()

    def __repr__(self) -> str:
        described = [f"{name}: {dtype}{shape}" for name, dtype, shape in self._core().state_types]
        return f"<states {', '.join(described)}>" if described else "<no states>"


class Stateful:
    """What models with states have in common."""

    def _with_states(self) -> _core.Model:
        """Any of the model's programs, with the states of this handle."""
        raise NotImplementedError

    @staticmethod
    def _present(states: dict[str, Any]) -> dict[str, Any]:
        return as_numpy(states)

    @property
    def states(self) -> States:
        """The buffers that calls change, by name. Assign to one, or to all: `model.states = saved`."""
        return States(self._with_states, self._present)

    @states.setter
    def states(self, states: Mapping[str, Any]) -> None:
        self.states.replace(states)

    def reset(self) -> None:
        """The states are what they were when the model was recorded."""
        self._with_states().reset()

    def save_states(self, path: str | os.PathLike) -> None:
        """Writes the states to a safetensors file, which is there when it is complete."""
        self._with_states().save_states(os.fspath(path))

    def load_states(self, path: str | os.PathLike) -> None:
        """Takes every state from such a file; other names, dtypes or shapes are an error, and change nothing."""
        self._with_states().load_states(os.fspath(path))


def as_numpy(states: dict[str, Any]) -> dict[str, Any]:
    """Arrays that cannot be written, since nothing would come of it; bf16, which NumPy lacks, as torch tensors."""
    shown = {}
    for name, value in states.items():
        try:
            shown |= to_numpy({name: value})
            shown[name].flags.writeable = False
        except TypeError:
            import torch  # noqa: F401

            shown |= to_torch({name: value})
    return shown


def _of_type(name: str, value: Any, wanted: tuple[str, tuple] | None) -> Any:
    """Python's numbers and lists have no dtype of their own: they take the state's, unless that loses something."""
    if is_torch(value) or hasattr(value, "__dlpack__") or isinstance(value, np.ndarray) or wanted is None:
        return value
    array = np.asarray(value)
    if wanted[0] == "bf16" and array.dtype.kind in "biuf":
        import torch

        tensor = torch.as_tensor(array)
        given = tensor.bfloat16()
        _refuse_loss(name, array, given.to(tensor.dtype).numpy(), wanted[0])
        return given
    dtype = np.dtype(_NUMPY.get(wanted[0], array.dtype))
    are_integers = array.dtype.kind in "iu" and dtype.kind in "iu"  # NumPy does not cast i64 to u8 by itself
    if not are_integers and not np.can_cast(array.dtype, dtype, "same_kind"):
        return array
    with np.errstate(all="ignore"):
        given = array.astype(dtype)
        real = given if array.dtype.kind == "c" else given.real
        _refuse_loss(name, array, given if are_integers else real.astype(array.dtype), wanted[0])
    return given


def _refuse_loss(name: str, array: np.ndarray, back: np.ndarray, dtype: str) -> None:
    """An integer stays what it is; a fraction is rounded to the state's dtype, and stays finite."""
    exact = array.dtype.kind in "biu"
    kept = back == array if exact else np.isfinite(back) | ~np.isfinite(array)
    if not np.all(kept):
        raise _core.Error(f"the state {name} is {dtype}, which cannot hold {array[~kept].flat[0]}")
