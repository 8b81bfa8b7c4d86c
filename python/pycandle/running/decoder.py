"""Causal models, run token by token: a decode step that is derived from the recording, and its cache (docs/decoding.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _core
from .arrays import contiguous, flatten, like
from .options import check_threads, check_weight_format


class Cache:
    """What a decoder has seen of each sequence of a batch. Made by `Decoder.new_cache`, `load_cache` or `PrefixStore.start`."""

    def __init__(self, core: _core.Cache) -> None:
        self._core = core

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence."""
        return self._core.lengths

    @property
    def capacity(self) -> int:
        return self._core.capacity

    @property
    def bytes(self) -> int:
        return self._core.bytes

    def fork(self, sequences: Sequence[int]) -> Cache:
        """Sequence i of the new cache is a copy of sequences[i] of this one: samples from one prompt, beams."""
        return Cache(self._core.fork(list(sequences)))

    def truncate(self, sequence: int, length: int) -> None:
        """Forgets the tokens of a sequence behind the first `length`."""
        self._core.truncate(sequence, length)

    def save(self, path: str | os.PathLike) -> None:
        """A safetensors file; `Decoder.load_cache` reads it in any process."""
        self._core.save(os.fspath(path))

    def __repr__(self) -> str:
        return f"pycandle.Cache(lengths={self.lengths}, capacity={self.capacity})"


class Decoder:
    """The decode step of a recorded causal model. Made by `load_decoder`."""

    def __init__(self, core: _core.Decoder) -> None:
        self._core = core

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def inputs(self) -> list[str]:
        """What `step` reads: tokens, and a mask where the model has one."""
        return self._core.inputs

    @property
    def longest(self) -> int | None:
        """The positions that the model has; None: any number."""
        return self._core.longest or None

    def new_cache(self, batch: int = 1, capacity: int = 512, **inputs: Any) -> Cache:
        """An empty cache with room for `capacity` tokens of each sequence. inputs: what the model reads once, as an encoder."""
        return Cache(self._core.new_cache(batch, capacity, contiguous(flatten(inputs))))

    def step(
        self,
        cache: Cache,
        tokens: Any = None,
        *,
        counts: Sequence[int] | None = None,
        last: bool = False,
        **inputs: Any,
    ) -> dict[str, Any]:
        """Runs new tokens [batch, new] behind those in the cache, and gives the outputs for them, by name.

        counts[b] of the new tokens of a sequence are real, the rest is padding. A mask of ones need not be given.
        last: outputs of each sequence's last token alone, [batch, 1, …]; the logits of a prompt are not computed"""
        given = inputs if tokens is None else {self.inputs[0]: tokens, **inputs}
        flat = flatten(given)
        return like(flat, self._core.step(cache._core, contiguous(flat), list(counts or []), last))

    def resized(self, cache: Cache, capacity: int) -> Cache:
        """The same tokens with room for another number of them."""
        return Cache(self._core.resized(cache._core, capacity))

    def load_cache(self, path: str | os.PathLike) -> Cache:
        return Cache(self._core.load_cache(os.fspath(path)))

    def prefix_store(self, megabytes: float = 256) -> PrefixStore:
        return PrefixStore(_core.PrefixStore(self._core, int(megabytes * 1e6)))

    def __repr__(self) -> str:
        return f"pycandle.Decoder({self.name!r}, {', '.join(self.inputs)})"


class PrefixStore:
    """Prompts that were seen, with their caches: one that begins as another starts behind what both share."""

    def __init__(self, core: _core.PrefixStore) -> None:
        self._core = core

    def __len__(self) -> int:
        return len(self._core)

    def keep(self, cache: Cache, tokens: Sequence[int], sequence: int = 0) -> None:
        """Keeps a sequence of the cache. tokens: those that it has seen."""
        self._core.keep(cache._core, sequence, [int(token) for token in tokens])

    def start(self, prompt: Sequence[int], capacity: int = 512) -> tuple[Cache, int]:
        """A cache of one sequence, and how many tokens of the prompt are in it; the others are still to be run."""
        core, known = self._core.start([int(token) for token in prompt], capacity)
        return Cache(core), known


def load_decoder(
    path: str | os.PathLike,
    backend: str = "cpu",
    threads: int | None = None,
    *,
    weights: str = "f32",
    cache: str = "f32",
) -> Decoder:
    """Derives the decode step of a recorded causal model.

    cache    what keys, values and other rows of an f32 model are kept in: "f32", or "bf16", "f16" in half the bytes
    the rest as in `load_model`

    A model that sees later tokens is refused, with the layer, the line and the reason."""
    check_threads(threads)
    check_weight_format(weights)
    return Decoder(
        _core.load_decoder(os.path.abspath(os.fspath(path)), backend, threads or 0, weights, cache)
    )
