"""The C++ side of pycandle: load_model() in the package is what to use."""

from collections.abc import Mapping, Sequence
import os
from typing import Annotated

from numpy.typing import NDArray


def backends() -> list[str]:
    """
    The backends of this build, those that ship beside it, and those in the folders of PYCANDLE_BACKEND_PATH.
    """

class Error(RuntimeError):
    pass

class Model:
    """A recorded model, ready to run."""

    def forward(self, inputs: dict) -> dict:
        """Outputs by name, in the order of the model."""

    def trace(self, inputs: dict) -> tuple[dict, dict]:
        """(taps by id, outputs by name)."""

    def profile(self, inputs: dict) -> str:
        """Where the time of a call goes, as JSON text."""

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

    def ledger(self) -> str:
        """What became of each tensor and each parameter, as JSON text."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def capabilities(self) -> list[str]: ...

    @property
    def has_tokenizer(self) -> bool: ...

    def tokenizer(self) -> Tokenizer:
        """The bundle's."""

    def embed(self, texts: Sequence[str], pool: str, normalize: bool, tokenizer: Tokenizer | None = None) -> object: ...

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
    def ptir(self) -> str:
        """The program in text form, in program form."""

    @property
    def output_tree(self) -> str:
        """The nesting of the outputs, as JSON text."""

def load_model(path: str | os.PathLike, backend: str = 'reference', threads: int = 0, pack_weights: bool = True, check_weights: bool = False, weights: str = 'f32', checkpoint: tuple[str | os.PathLike, str | os.PathLike, str | os.PathLike, str | None, bool] | None = None, dump_dir: str | os.PathLike = '', dump_final: bool = False, overrides: Mapping[str, str] = {}, param_budget: int | None = None) -> Model:
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

class Checkpoint:
    """A checkpoint of any format, opened: nothing is read until asked."""

    def __init__(self, path: str | os.PathLike, section: str | None = None) -> None: ...

    @property
    def tensors(self) -> list[tuple[str, str, list[int], str]]: ...

    @property
    def format(self) -> str: ...

    @property
    def section(self) -> str: ...

    @property
    def left_out(self) -> dict[str, int]: ...

    @property
    def metadata(self) -> dict[str, str]: ...

    def read(self, name: str) -> object: ...

def extract_weights(checkpoint: str | os.PathLike, manifest: str | os.PathLike, out: str | os.PathLike, rules: str | os.PathLike, lora: str | os.PathLike, dtype: str, shard_bytes: int, strict: bool, attach: bool, section: str | None) -> tuple[list[str], str, bool]: ...

def map_weights(checkpoint: str | os.PathLike, manifest: str | os.PathLike, heads: int, key_heads: int, section: str | None) -> tuple[str, bool, list[str]]: ...

class Cache:
    """What a decode step has seen of each sequence of a batch."""

    def fork(self, sequences: Sequence[int]) -> Cache: ...

    def truncate(self, sequence: int, length: int) -> None: ...

    def save(self, path: str | os.PathLike) -> None: ...

    @property
    def lengths(self) -> list[int]: ...

    @property
    def capacity(self) -> int: ...

    @property
    def bytes(self) -> int: ...

class Decoder:
    """The decode step of a recorded causal model."""

    def new_cache(self, batch: int, capacity: int, inputs: dict) -> Cache: ...

    def step(self, cache: Cache, tokens: dict, counts: Sequence[int], last: bool) -> dict: ...

    def load_cache(self, path: str | os.PathLike) -> Cache: ...

    def resized(self, cache: Cache, capacity: int) -> Cache: ...

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> list[str]: ...

    @property
    def first_inputs(self) -> list[str]: ...

    @property
    def longest(self) -> int:
        """The positions that the model has; 0: any number."""

class PrefixStore:
    """Prompts that were seen, with their caches."""

    def __init__(self, decoder: Decoder, bytes: int) -> None: ...

    def keep(self, cache: Cache, sequence: int, tokens: Sequence[int]) -> None: ...

    def start(self, prompt: Sequence[int], capacity: int) -> tuple[Cache, int]: ...

    @property
    def bytes(self) -> int: ...

    def __len__(self) -> int: ...

def decoder_of(model: Model, cache: str) -> Decoder: ...

def load_decoder(path: str | os.PathLike, backend: str = 'reference', threads: int = 0, weights: str = 'f32', cache: str = 'f32') -> Decoder: ...

class Encoding:
    """The tokens of a text. Offsets are in characters."""

    def __len__(self) -> int: ...

    @property
    def ids(self) -> list[int]: ...

    @property
    def offsets(self) -> list[tuple[int, int]]: ...

    @property
    def tokens(self) -> list[str]: ...

    @property
    def type_ids(self) -> list[int]: ...

    @property
    def word_ids(self) -> list[int | None]:
        """The piece that a token is of; None for tokens that were added."""

    @property
    def special_tokens_mask(self) -> list[int]: ...

    @property
    def attention_mask(self) -> list[int]: ...

    @property
    def overflowing(self) -> list[Encoding]:
        """What a truncation cut off, in parts that are as long."""

class TokenStream:
    """Text from tokens that come one by one; a character is never split."""

    def next(self, id: int) -> str:
        """The text that this token completes, which may be empty."""

    def finish(self) -> str:
        """What was held back, when no more tokens come."""

class Tokenizer:
    """Text to tokens and back, from a Hugging Face tokenizer.json."""

    @staticmethod
    def from_file(path: str | os.PathLike) -> Tokenizer:
        """Read a tokenizer.json."""

    @staticmethod
    def from_text(json: str) -> Tokenizer:
        """Read the text of a tokenizer.json."""

    @staticmethod
    def compile(json: str) -> bytes:
        """
        The tables of a tokenizer.json, which from_compiled reads in milliseconds: what a bundle carries.
        """

    @staticmethod
    def from_compiled(tables: bytes) -> Tokenizer:
        """Read what compile() gave."""

    def encode(self, text: str | bytes, pair: str | bytes | None = None, add_special_tokens: bool = True) -> Encoding:
        """
        The tokens of a text, or of a pair. Bytes are read as UTF-8 with errors="replace".
        """

    def encode_batch(self, texts: Sequence[str | bytes], add_special_tokens: bool = True) -> list[Encoding]:
        """The tokens of each text."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""

    def stream(self, skip_special_tokens: bool = True) -> TokenStream:
        """Text from tokens that come one by one."""

    def token_to_id(self, token: str) -> int | None: ...

    def id_to_token(self, id: int) -> str | None: ...

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are, with added ones."""

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def enable_truncation(self, max_length: int, stride: int = 0, strategy: str = 'longest_first', direction: str = 'right') -> None:
        """
        What is cut off is in Encoding.overflowing: parts that have `stride` tokens in common with the one before.
        """

    def enable_padding(self, length: int | None = None, direction: str = 'right', pad_to_multiple_of: int = 0, pad_id: int = 0, pad_type_id: int = 0, pad_token: str = '[PAD]') -> None: ...

class ChatTemplate:
    """A chat template; pycandle.ChatTemplate is what to use."""

    def __init__(self, source: str) -> None: ...

    @staticmethod
    def from_config(path: str | os.PathLike, name: str = 'default') -> ChatTemplate: ...

    def render(self, variables: str) -> str:
        """`variables` is the text of a JSON object."""

class LanguageModel:
    """A model with its decode step and tokenizer."""

    def start(self, prompts: Sequence[str], options: GenerationOptions) -> Generation: ...

    def start_tokens(self, prompts: Sequence[Sequence[int]], options: GenerationOptions) -> Generation: ...

    def logits(self, tokens: Sequence[int], whole: bool) -> object: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def end_tokens(self) -> list[int]: ...

    @property
    def longest(self) -> int | None: ...

class GenerationOptions:
    """
    How text is generated: include/pycandle/generation.h says what each means.
    """

    def __init__(self) -> None: ...

    @property
    def max_tokens(self) -> int: ...

    @max_tokens.setter
    def max_tokens(self, arg: int, /) -> None: ...

    @property
    def stop(self) -> list[str]: ...

    @stop.setter
    def stop(self, arg: Sequence[str], /) -> None: ...

    @property
    def stop_tokens(self) -> list[int]: ...

    @stop_tokens.setter
    def stop_tokens(self, arg: Sequence[int], /) -> None: ...

    @property
    def ignore_end(self) -> bool: ...

    @ignore_end.setter
    def ignore_end(self, arg: bool, /) -> None: ...

    @property
    def samples(self) -> int: ...

    @samples.setter
    def samples(self, arg: int, /) -> None: ...

    @property
    def beams(self) -> int: ...

    @beams.setter
    def beams(self, arg: int, /) -> None: ...

    @property
    def length_penalty(self) -> float: ...

    @length_penalty.setter
    def length_penalty(self, arg: float, /) -> None: ...

    @property
    def log_probabilities(self) -> bool: ...

    @log_probabilities.setter
    def log_probabilities(self, arg: bool, /) -> None: ...

    @property
    def alternatives(self) -> int: ...

    @alternatives.setter
    def alternatives(self, arg: int, /) -> None: ...

    @property
    def json_schema(self) -> str: ...

    @json_schema.setter
    def json_schema(self, arg: str, /) -> None: ...

    @property
    def use_cache(self) -> bool: ...

    @use_cache.setter
    def use_cache(self, arg: bool, /) -> None: ...

    @property
    def cache_capacity(self) -> int: ...

    @cache_capacity.setter
    def cache_capacity(self, arg: int, /) -> None: ...

    @property
    def batch(self) -> int: ...

    @batch.setter
    def batch(self, arg: int, /) -> None: ...

    @property
    def keep_prefix(self) -> bool: ...

    @keep_prefix.setter
    def keep_prefix(self, arg: bool, /) -> None: ...

    @property
    def prompt_lookup(self) -> bool: ...

    @prompt_lookup.setter
    def prompt_lookup(self, arg: bool, /) -> None: ...

    @property
    def draft_tokens(self) -> int: ...

    @draft_tokens.setter
    def draft_tokens(self, arg: int, /) -> None: ...

    @property
    def draft(self) -> LanguageModel | None: ...

    @draft.setter
    def draft(self, arg: LanguageModel, /) -> None: ...

    def set_inputs(self, inputs: dict) -> None: ...

    @property
    def choice(self) -> Choice: ...

    @choice.setter
    def choice(self, arg: Choice, /) -> None: ...

class Choice:
    """How the next token is chosen."""

    def __init__(self) -> None: ...

    @property
    def logit_bias(self) -> dict[int, float]: ...

    @logit_bias.setter
    def logit_bias(self, arg: Mapping[int, float], /) -> None: ...

    @property
    def repetition_penalty(self) -> float: ...

    @repetition_penalty.setter
    def repetition_penalty(self, arg: float, /) -> None: ...

    @property
    def frequency_penalty(self) -> float: ...

    @frequency_penalty.setter
    def frequency_penalty(self, arg: float, /) -> None: ...

    @property
    def presence_penalty(self) -> float: ...

    @presence_penalty.setter
    def presence_penalty(self, arg: float, /) -> None: ...

    @property
    def sample(self) -> bool: ...

    @sample.setter
    def sample(self, arg: bool, /) -> None: ...

    @property
    def temperature(self) -> float: ...

    @temperature.setter
    def temperature(self, arg: float, /) -> None: ...

    @property
    def top_k(self) -> int: ...

    @top_k.setter
    def top_k(self, arg: int, /) -> None: ...

    @property
    def top_p(self) -> float: ...

    @top_p.setter
    def top_p(self, arg: float, /) -> None: ...

    @property
    def min_p(self) -> float: ...

    @min_p.setter
    def min_p(self, arg: float, /) -> None: ...

    @property
    def seed(self) -> int: ...

    @seed.setter
    def seed(self, arg: int, /) -> None: ...

class GeneratedToken:
    """A token, with what the model thought of it."""

    @property
    def id(self) -> int: ...

    @property
    def log_probability(self) -> float: ...

    @property
    def alternatives(self) -> list[tuple[int, float]]: ...

class Generated:
    """One text, and how it came to be."""

    @property
    def prompt(self) -> int: ...

    @property
    def sample(self) -> int: ...

    @property
    def text(self) -> str: ...

    @property
    def tokens(self) -> list[GeneratedToken]: ...

    @property
    def score(self) -> float: ...

    @property
    def finish(self) -> str: ...

class GenerationCounts:
    """What a generation took."""

    @property
    def prompt_seconds(self) -> float: ...

    @property
    def seconds(self) -> float: ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def drafted(self) -> int: ...

    @property
    def accepted(self) -> int: ...

class Generation:
    """A generation that goes on when asked."""

    def next(self) -> list[tuple[int, str]] | None:
        """
        What the next run of the model adds, as (sequence, text); None when all is done.
        """

    def cancel(self) -> None: ...

    def result(self, sequence: int) -> Generated: ...

    def finish(self, sequence: int) -> str: ...

    def __len__(self) -> int: ...

    @property
    def counts(self) -> GenerationCounts: ...

def language_model(model: Model, tokenizer: Tokenizer | None, generation_config: str, cache: str) -> LanguageModel:
    """The decode step of a model, with its tokenizer."""

def forward_tokens(model: Model, tokens: Annotated[NDArray, dict(order='C', device='cpu', writable=False)]) -> dict:
    """The outputs of whole sequences of tokens [batch, tokens]."""
