"""The C++ side of pycandle: load_model() in the package is what to use."""

import os
from typing import Annotated

from numpy.typing import NDArray


def backends() -> list[str]:
    """The backends of this build."""

class Error(RuntimeError):
    pass

class Model:
    """A recorded model, ready to run."""

    def forward(self, inputs: dict) -> dict:
        """Outputs by name, in the order of the model."""

    def trace(self, inputs: dict) -> tuple[dict, dict]:
        """(taps by id, outputs by name)."""

    def on(self, backend: str) -> Model:
        """
        The same recording with the same opened weights and states on another backend.
        """

    def states(self) -> dict:
        """What the states are now, by name: copies."""

    def set_states(self, states: dict, every: bool) -> None:
        """States by name: some, or every one."""

    def reset(self) -> None:
        """The states are as recorded."""

    def save_states(self, path: str | os.PathLike) -> None: ...

    def load_states(self, path: str | os.PathLike) -> None: ...

    def session(self) -> Model:
        """The same model with states of its own, as recorded."""

    def with_states_of(self, other: Model) -> Model:
        """This model with the states of the other."""

    @property
    def state_types(self) -> list[tuple[str, str, list[int | str]]]: ...

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str]]]: ...

    @property
    def outputs(self) -> list[tuple[str, str, list[int | str]]]: ...

    @property
    def taps(self) -> list[str]: ...

    @property
    def notes(self) -> list[str]: ...

    @property
    def output_tree(self) -> str:
        """The nesting of the outputs, as JSON text."""

def load_model(path: str | os.PathLike, backend: str = 'reference', threads: int = 0, pack_weights: bool = True, check_weights: bool = False) -> Model:
    """
    A manifest, the folder of one, or a bundle. 0 threads: PYCANDLE_THREADS or all cores.
    """

def load_manifest(text: str, backend: str = 'reference') -> Model:
    """The text of a manifest that needs no weights."""

def load_call(text: str, backend: str = 'reference') -> Model:
    """
    One call of an overload, its types inferred and compared with nothing: src/import/single_call.h has the format.
    """

def content_hash(bytes: Annotated[NDArray, dict(order='C', device='cpu', writable=False)]) -> str:
    """The checksum of a tensor's bytes, as the manifest keeps it."""

def gaps(manifest: str) -> list[dict]:
    """
    What of a recording nothing supports: op, reason, count, places, suggestion.
    """

def aten_overloads() -> list[str]:
    """The ATen overloads that the catalogue maps."""
