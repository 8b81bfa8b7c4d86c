"""What a loaded model can be asked for beside `forward`: text to vectors, images, token by token."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .arrays import to_numpy
from .decoder import Cache, Decoder


class Capable:
    """Capabilities of `Model`."""

    _core: _core.Model
    _text: dict[str, Any]

    @property
    def kind(self) -> str:
        """The class that was recorded, as a text: `transformers.models.llama.modeling_llama.LlamaForCausalLM`."""
        return self._core.kind

    @property
    def capabilities(self) -> list[str]:
        """`forward`, `trace`, `causal_lm`, `embedding`: of a bundle those that were proven when it was made; of a recording
        those that need no proof."""
        return self._core.capabilities

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        pool: str = "mean",
        normalize: bool = False,
        tokenizer: _core.Tokenizer | None = None,
    ) -> np.ndarray:
        """A vector for each text, [texts, width]; one text: [width]. The formula of sentence-transformers.

        pool       of a model that gives a vector for each token: "mean" of them, or "cls", the first one
        normalize  to length 1
        tokenizer  in place of the bundle's"""
        all_texts = [texts] if isinstance(texts, str) else list(texts)
        tokenizer = tokenizer or self.tokenizer
        vectors = to_numpy({"": self._core.embed(all_texts, pool, normalize, tokenizer)})[""]
        return vectors[0] if isinstance(texts, str) else vectors

    def forward_vision(self, image: Any) -> Any:
        """The first output for an image or a batch of them, [batch, channels, height, width] or without the batch."""
        images = [i for i in self.inputs if len(i.shape) == 4 and i.dtype in ("f32", "f16", "bf16", "f64")]
        if len(images) != 1 or len(self.inputs) != 1:
            raise TypeError(f"{self.name} does not take one image: {', '.join(i.name for i in self.inputs)}")
        batch = image if len(image.shape) == 4 else image[None]
        return self.forward(**{images[0].name: batch})[self.outputs[0].name]

    @functools.cached_property
    def _decoder(self) -> Decoder:
        return Decoder(_core.decoder_of(self._core, self._text.get("cache", "f32")))

    def new_cache(self, batch: int = 1, capacity: int = 512, **inputs: Any) -> Cache:
        """An empty cache with room for `capacity` tokens of each sequence: `fork`, `truncate` and `save` it, `step` with it.

        inputs: what the model reads once, as an encoder. A model that sees later tokens has no decode step: an error that names
        the layer, the line and the reason."""
        return self._decoder.new_cache(batch, capacity, **inputs)

    def load_cache(self, path: str | os.PathLike) -> Cache:
        """A cache that `Cache.save` wrote, of the same model."""
        return self._decoder.load_cache(path)

    def step(self, cache: Cache, tokens: Any = None, **options: Any) -> dict[str, Any]:
        """Runs new tokens [batch, new] behind those in the cache: `Decoder.step`."""
        return self._decoder.step(cache, tokens, **options)
