"""Recorded models, run from Python: NumPy arrays or anything with DLPack (torch tensors) in, the same kind out."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import _core
from .arrays import contiguous, flatten, like
from .backends import dump_dir, dumps_final, get_backend, is_chosen
from .capable import Capable
from .generation import Generates
from .options import check_threads, check_weight_format
from .states import Stateful


@dataclass(frozen=True)
class TensorInfo:
    """An input or output. Entries of `shape` that are text are dynamic: `s0`, `2*s1 + 1`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Model(Stateful, Generates, Capable):
    """A recorded model, ready to run. Made by `load_model`.

    A model that changes its buffers has `states`: a call starts from what the last one left. Any model may be called
    from several threads at once; calls of one with states take turns, and `session()` gives a caller its own states.
    """

    def __init__(
        self,
        core: _core.Model,
        traced: Callable[[], _core.Model] | None = None,
        opened: dict[str, Any] | None = None,
        text: dict[str, Any] | None = None,
    ) -> None:
        self._core = core
        self._text = text or {}
        self._traced = functools.cache(traced or (lambda: core))  # with whatever states
        self._opened = opened  # the arguments of load_model

    def __reduce__(self):
        """Pickled by path: the other process opens the same files. The states come along."""
        if self._opened is None:
            raise TypeError(
                f"{self.name} was not loaded from files, so it cannot be pickled: load_model(path) can"
            )
        return _load_again, ({**self._opened, **self._text}, self.states.copy())

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def backend(self) -> str:
        return self._core.backend

    @property
    def ledger(self) -> dict[str, Any]:
        """What became of each tensor of the weight files or the checkpoint, and of each parameter: docs/weights.md."""
        return json.loads(self._core.ledger())

    @property
    def inputs(self) -> list[TensorInfo]:
        return [TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in self._core.inputs]

    @property
    def outputs(self) -> list[TensorInfo]:
        return [TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in self._core.outputs]

    @property
    def taps(self) -> list[str]:
        """The identities of the values that `trace` gives."""
        return self._core.taps

    def _with_states(self) -> _core.Model:
        return self._core

    def session(self) -> Model:
        """The same weights and plans, with states of its own that begin as recorded: one for each caller."""
        return Model(self._core.session(), self._traced, self._opened, self._text)

    def forward(self, *in_order: Any, **inputs: Any) -> dict[str, Any]:
        """Outputs by name, in the order of `outputs`. States that the model changes stay changed.

        Inputs come in the order of `inputs` or by name. Nested ones may be given nested (`past=[{"key": k}]`) or by path
        (`**{"past.0.key": k}`)."""
        flat = flatten(self._named(in_order, inputs))
        return like(flat, self._core.forward(contiguous(flat)), {o.name: o.dtype for o in self.outputs})

    __call__ = forward

    def trace(self, *in_order: Any, **inputs: Any) -> dict[str, Any]:
        """The value of every tap, by identity (`transformer.h.0.mlp@0/output`), and of every output, by name.

        On the reference, which shows every value, unless the model was loaded on a backend by name. It is a call as
        `forward` is: states change."""
        flat = flatten(self._named(in_order, inputs))
        taps, outputs = self._traced().with_states_of(self._core).trace(contiguous(flat))
        return like(flat, {**taps, **outputs})

    def profile(self, *in_order: Any, **inputs: Any) -> dict[str, Any]:
        """Where the time of `forward` goes: what `pycandle forward --profile --json` prints as "profile". States stay."""
        flat = flatten(self._named(in_order, inputs))
        return json.loads(self._core.profile(contiguous(flat)))

    def _named(self, in_order: tuple, inputs: dict[str, Any]) -> dict[str, Any]:
        if not in_order:
            return inputs
        placed = _in_places([i.name for i in self.inputs], in_order, self.name)
        given = {name.split(".")[0] for name in placed}
        for name in inputs:
            if name.split(".")[0] in given:
                raise TypeError(f"{name} is given by place and by name")
        return placed | inputs

    def __repr__(self) -> str:
        def signature(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{i.name}: {i.dtype}[{', '.join(map(str, i.shape))}]" for i in infos)

        return f"pycandle.Model({self.name!r}, {signature(self.inputs)} -> {signature(self.outputs)}, {self.backend})"


LoadedModel = Model


def load_model(
    path: str | os.PathLike,
    backend: str | None = None,
    threads: int | None = None,
    *,
    weights: str = "f32",
    memory: str = "fast",
    check_weights: bool = False,
    checkpoint: str | os.PathLike | None = None,
    rules: str | os.PathLike = "",
    lora: str | os.PathLike = "",
    section: str | None = None,
    strict: bool = False,
    tokenizer: str | os.PathLike | _core.Tokenizer | None = None,
    generation_config: str | os.PathLike | None = None,
    cache: str = "f32",
    overrides: dict[str, str] | None = None,
    param_budget: int | None = None,
) -> Model:
    """Opens a manifest, the folder of one, or a bundle, and the weights.

    backend        without one, `forward` runs on `get_backend()` and `trace` on the reference
    threads        of the cpu backend; PYCANDLE_THREADS or all cores otherwise
    weights        how linear layers and embeddings keep theirs: "f32", or "bf16", "f16", "int8", "int4" in fewer bytes
    memory         "fast" packs weights for the kernels, "small" reads them where they lie, in about half the memory
    check_weights  read all of them first, and refuse those whose checksum is not the recorded one
    checkpoint     weights from this file or folder, not from the recording: safetensors, torch, GGUF, NumPy or HDF5. `rules`,
                   `lora`, `section` and `strict` are those of `pycandle.weights.extract`; `Model.ledger` says what was used
    tokenizer      of a language model: tokenizer.json, for `Model.generate`; generation_config: its generation_config.json
    cache          what its cache keeps rows in: "f32", or "bf16", "f16" in half the bytes
    overrides      how the cpu backend runs functionals: {"linear": "naive"} decomposes it
    param_budget   most bytes of weights in memory; the others are read again when they are needed

    The files may be replaced afterwards (by renaming), not changed in place."""
    check_threads(threads)
    check_weight_format(weights)
    if memory not in ("fast", "small"):
        raise ValueError(f"memory must be 'fast' or 'small', not {memory!r}")
    if checkpoint is None and (rules or lora or section or strict):
        raise ValueError("rules, lora, section and strict say how a checkpoint is read, and none is given")
    place = os.path.abspath(os.fspath(path))
    taken = None
    if checkpoint is not None:
        taken = (*(os.path.abspath(p) if p else "" for p in (checkpoint, rules, lora)), section, strict)
    core = _core.load_model(
        place,
        get_backend() if backend is None else backend,
        threads or 0,
        memory == "fast",
        check_weights,
        weights,
        taken,
        dump_dir(),
        dumps_final(),
        overrides or {},
        param_budget,
    )
    opened = {"path": place, "backend": backend, "threads": threads, "weights": weights, "memory": memory}
    opened |= {"overrides": overrides, "param_budget": param_budget}
    if taken is not None:
        opened |= dict(zip(("checkpoint", "rules", "lora", "section", "strict"), taken, strict=True))
    text = {
        "tokenizer": os.path.abspath(tokenizer) if isinstance(tokenizer, (str, os.PathLike)) else tokenizer,
        "generation_config": generation_config and os.path.abspath(generation_config),
        "cache": cache,
    }
    return Model(
        core, (lambda: core.on("reference")) if backend is None and not is_chosen() else None, opened, text
    )


def _load_again(opened: dict[str, Any], states: dict[str, Any]) -> Model:
    model = load_model(**opened)
    if states:
        model.states.update(states)
    return model


def _in_places(each: list[str], in_order: tuple, model: str) -> dict[str, Any]:
    """Values in the order of the inputs, by name. Those of `forward(*tensors)`, `xs.0` and `xs.1`, may come one by one."""
    names = list(dict.fromkeys(name.split(".")[0] for name in each))
    placed: dict[str, Any] = {}
    values = list(in_order)
    if len(values) == len(each) and not any(isinstance(value, (Mapping, list, tuple)) for value in values):
        return dict(zip(each, values, strict=True))
    for name in names:
        if not values:
            break
        parts = [one for one in each if one.split(".")[0] == name]
        if count := _given_one_by_one(name, parts, values[0]):
            placed |= {f"{name}.{i}": value for i, value in enumerate(values[:count])}
            values = values[count:]
        else:
            placed[name] = values.pop(0)
    if values:
        raise TypeError(f"{len(in_order)} inputs are given, and {model} has {len(names)}: {', '.join(names)}")
    return placed


def _given_one_by_one(name: str, parts: list[str], value: Any) -> int:
    """How many values `xs.0`, `xs.1`, … are, where `value` is the first of them; 0 where it is all of `xs`."""
    first = {part for part in parts if part.split(".")[:2] == [name, "0"]}
    if set(flatten({name: value})) == set(parts) or set(flatten({f"{name}.0": value})) != first:
        return 0
    return len({part.split(".")[1] for part in parts})
