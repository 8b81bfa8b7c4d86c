"""Is `pycandle.Tokenizer` the `tokenizers` package? Ids, offsets, tokens, words, decoding and streaming, string by string."""

from __future__ import annotations

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pathlib import Path

import tokenizers

import pycandle


class Pair:
    """The same file opened by both."""

    def __init__(self, path: str | Path) -> None:
        self.ours = pycandle.Tokenizer.from_file(path)
        self.theirs = tokenizers.Tokenizer.from_file(str(path))

    def without_limits(self) -> Pair:
        for each in (self.ours, self.theirs):
            each.no_truncation()
            each.no_padding()
        return self


def facts(encoding) -> dict:
    return {
        "ids": encoding.ids,
        "offsets": encoding.offsets,
        "tokens": encoding.tokens,
        "words": encoding.word_ids,
        "type_ids": encoding.type_ids,
        "special_tokens_mask": encoding.special_tokens_mask,
        "attention_mask": encoding.attention_mask,
    }


def streamed(tokenizer: pycandle.Tokenizer, ids: list[int]) -> str:
    stream = tokenizer.stream(skip_special_tokens=False)
    parts = [stream.next(token) for token in ids]
    for part in parts:
        assert "\ufffd" not in part[-1:], "a part ends in half a character"
    return "".join(parts) + stream.finish()


def assert_same(pair: Pair, texts: list[bytes]) -> None:
    """Bytes go to ours as they are, and to theirs as Python decodes them."""
    for data in texts:
        text = data.decode("utf-8", errors="replace")
        ours, theirs = pair.ours.encode(data), pair.theirs.encode(text)
        assert facts(ours) == facts(theirs), text
        assert pair.ours.decode(ours.ids) == pair.theirs.decode(ours.ids), text
        whole = pair.ours.decode(ours.ids, skip_special_tokens=False)
        assert whole == pair.theirs.decode(ours.ids, skip_special_tokens=False), text
        assert streamed(pair.ours, ours.ids) == whole, text
