"""Text from language models: `Model.generate` and what belongs to it (docs/generation.md)."""

from __future__ import annotations

import functools
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .arrays import contiguous, is_torch, to_numpy, to_torch

if TYPE_CHECKING:
    from .model import Model


class GeneratedText:
    """One text that a model writes. It is written while you look: iterate over its pieces, or ask for the whole `text`.

    for piece in model.generate("Once upon a time"):
        print(piece, end="", flush=True)
    """

    def __init__(self, generation: _core.Generation, sequence: int, pending: list[list[str]]) -> None:
        self._generation = generation
        self._sequence = sequence
        self._pending = pending  # pieces of each sequence that nobody has asked for yet

    def __iter__(self) -> Iterator[str]:
        pieces = self._pending[self._sequence]
        while True:
            while pieces:
                yield pieces.pop(0)
            if self._finish != "running" or not self._advance():
                yield from pieces
                pieces.clear()
                return

    def _advance(self) -> bool:
        parts = self._generation.next()
        for sequence, text in parts or ():
            if text:
                self._pending[sequence].append(text)
        return parts is not None

    @property
    def _finish(self) -> str:
        return self._generation.finish(self._sequence)

    def _finished(self) -> _core.Generated:
        while self._finish == "running" and self._advance():
            pass
        return self._generation.result(self._sequence)

    def cancel(self) -> None:
        """Ends here: `finish` is "cancelled". From any thread."""
        self._generation.cancel()

    @property
    def text(self) -> str:
        """All of it."""
        return self._finished().text

    @property
    def tokens(self) -> list[int]:
        return [token.id for token in self._finished().tokens]

    @property
    def log_probabilities(self) -> list[float]:
        """Of each token, by the model itself; asked for with `log_probabilities=True`."""
        return [token.log_probability for token in self._finished().tokens]

    @property
    def alternatives(self) -> list[list[tuple[int, float]]]:
        """The most probable tokens at each place, with log-probabilities; asked for with `alternatives=5`."""
        return [[tuple(each) for each in token.alternatives] for token in self._finished().tokens]

    @property
    def finish(self) -> str:
        """Why it ended: "stop" (an end token or a stop text), "length" or "cancelled"."""
        return self._finished().finish

    @property
    def score(self) -> float:
        """Of a beam: the sum of log-probabilities, divided by the length to the power of `length_penalty`."""
        return self._finished().score

    @property
    def counts(self) -> dict[str, float]:
        """Seconds and tokens of the whole call, steps of the model, and how many guesses were right."""
        self._finished()
        counts = self._generation.counts
        return {name: getattr(counts, name) for name in _COUNTS}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"pycandle.GeneratedText({self._generation.result(self._sequence).text!r}, {self._finish})"


_COUNTS = ("prompt_tokens", "prompt_seconds", "tokens", "seconds", "steps", "drafted", "accepted")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


def make_options(
    *,
    max_tokens: int = 128,
    greedy: bool = False,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    seed: int | None = None,
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    logit_bias: Mapping[int, float] | None = None,
    stop: str | Sequence[str] = (),
    stop_tokens: Sequence[int] = (),
    ignore_end: bool = False,
    samples: int = 1,
    beams: int = 1,
    length_penalty: float = 1.0,
    log_probabilities: bool = False,
    alternatives: int = 0,
    json_schema: str | Mapping[str, Any] | None = None,
    kv_cache: bool = True,
    kv_cache_capacity: int = 0,
    batch: int = 8,
    keep_prefix: bool = False,
    draft: Model | str | None = None,
    draft_tokens: int = 5,
    inputs: Mapping[str, Any] | None = None,
) -> _core.GenerationOptions:
    """The options of `Model.generate`, checked where the model runs."""
    sampling = dict(zip(_SAMPLING, (temperature, top_k, top_p, min_p, seed), strict=True))
    samples_differ = samples > 1 and beams == 1
    is_sampled = samples_differ or any(value is not None for value in sampling.values())
    if greedy and is_sampled:
        raise ValueError("greedy text takes no draws: leave the options of sampling out")
    options = _core.GenerationOptions()
    choice = _core.Choice()
    choice.sample = is_sampled
    for name, value in sampling.items():
        if value is not None:
            setattr(choice, name, value)
    if is_sampled and seed is None:
        choice.seed = secrets.randbits(64)
    choice.repetition_penalty = repetition_penalty
    choice.presence_penalty = presence_penalty
    choice.frequency_penalty = frequency_penalty
    choice.logit_bias = {int(token): float(bias) for token, bias in (logit_bias or {}).items()}
    options.choice = choice
    options.max_tokens = max_tokens
    options.stop = [stop] if isinstance(stop, str) else list(stop)
    options.stop_tokens = [int(token) for token in stop_tokens]
    options.ignore_end = ignore_end
    options.samples = samples
    options.beams = beams
    options.length_penalty = length_penalty
    options.log_probabilities = log_probabilities
    options.alternatives = alternatives
    if json_schema is not None:
        options.json_schema = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
    options.use_cache = kv_cache
    options.cache_capacity = kv_cache_capacity
    options.batch = batch
    options.keep_prefix = keep_prefix
    options.draft_tokens = draft_tokens
    if draft == "lookup":
        options.prompt_lookup = True
    elif draft is not None:
        options.draft = draft.language_model
    if inputs:
        options.set_inputs(contiguous(dict(inputs)))
    return options


class Generates:
    """What a model that writes text has. Its decode step is derived on first use; a model that sees later tokens is refused."""

    _core: _core.Model
    _opened: dict[str, Any] | None
    _text: dict[str, Any]  # tokenizer, generation_config and cache, as given to load_model

    @functools.cached_property
    def language_model(self) -> _core.LanguageModel:
        """The C++ object behind `generate`: the model with its decode step and tokenizer."""
        return _core.language_model(
            self._core,
            self.tokenizer,
            _text_of(self._text.get("generation_config")),
            self._text.get("cache", "f32"),
        )

    @functools.cached_property
    def tokenizer(self) -> _core.Tokenizer | None:
        """The tokenizer that was given to `load_model`, or the bundle's; None when there is none."""
        given = self._text.get("tokenizer")
        if given is None:
            return self._core.tokenizer() if self._core.has_tokenizer else None
        if isinstance(given, _core.Tokenizer):
            return given
        return _core.Tokenizer.from_file(os.fspath(given))

    def generate(self, prompt: str | Sequence[int], **options: Any) -> GeneratedText:
        """Goes on from a prompt: text, or tokens. Iterate over the result to see it grow, or ask for its `text`.

        max_tokens=128          at most so many
        temperature, top_k, top_p, min_p, seed    sample; without any of them the most probable token is taken each time
        repetition_penalty, presence_penalty, frequency_penalty, logit_bias={token: number}
        stop=["\\n"]             end before one of these texts; stop_tokens=[2] at one of these tokens, beside the model's own
        beams=4                 beam search; length_penalty=1.0
        log_probabilities=True  and alternatives=5
        json_schema={…}         the text is JSON of this schema
        draft="lookup"          guess tokens from the text so far, or with a smaller model: the text stays the same
        kv_cache=False, kv_cache_capacity=N, keep_prefix=True    docs/generation.md"""
        if options.get("samples", 1) != 1:
            raise ValueError("generate gives one text; generate_all gives several")
        return self._start([prompt], options)[0]

    def generate_all(
        self, prompts: Sequence[str] | Sequence[Sequence[int]], **options: Any
    ) -> list[GeneratedText]:
        """The same for several prompts, which run in batches (batch=8), and with samples=N several texts of each."""
        return self._start(list(prompts), options)

    def generate_tokens(self, tokens: Sequence[int], **options: Any) -> list[int]:
        """The tokens that follow these."""
        return self._start([[int(token) for token in tokens]], options)[0].tokens

    def logits(self, tokens: Sequence[int], last: bool = False) -> np.ndarray:
        """The logits behind every token, [tokens, vocabulary]; last: behind the last one alone, [vocabulary]."""
        found = to_numpy({"logits": self.language_model.logits([int(token) for token in tokens], not last)})[
            "logits"
        ]
        return found[-1] if last else found

    def forward_tokens(self, tokens: Any) -> dict[str, Any]:
        """Outputs by name for whole sequences of tokens, [tokens] or [batch, tokens], by any model that reads tokens."""
        array = tokens if is_torch(tokens) else np.asarray(tokens)
        if array.ndim == 1:
            array = array[None]
        outputs = _core.forward_tokens(self._core, contiguous({"tokens": array})["tokens"])
        return to_torch(outputs) if is_torch(tokens) else to_numpy(outputs)

    def _start(self, prompts: list, options: dict[str, Any]) -> list[GeneratedText]:
        made = make_options(**options)
        language = self.language_model
        if prompts and all(isinstance(prompt, str) for prompt in prompts):
            generation = language.start(prompts, made)
        else:
            generation = language.start_tokens([[int(token) for token in prompt] for prompt in prompts], made)
        pending: list[list[str]] = [[] for _ in range(len(generation))]
        return [GeneratedText(generation, sequence, pending) for sequence in range(len(pending))]


def _text_of(path: str | os.PathLike | None) -> str:
    if path is None:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()
