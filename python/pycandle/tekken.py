"""Mistral's tekken.json as a tokenizer.json: `python -m pycandle.tekken tekken.json tokenizer.json`.

A tekken file lists tokens as bytes, in the order in which they were merged. tokenizer.json wants the merges themselves: for
each token every way to make it of two others, in the order of the tokens.
"""

from __future__ import annotations

import argparse
import base64
import json
from pathlib import Path
from typing import Any

from .errors import UsageError

__all__ = ["tokenizer_json"]

# Of files that do not list them; ids up to `default_num_special_tokens` are fillers.
SPECIAL = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
]


def alphabet() -> dict[int, str]:
    """The character that stands for a byte in byte-level tokenizers."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{byte: chr(byte) for byte in printable},
        **{byte: chr(0x100 + i) for i, byte in enumerate(others)},
    }


def special_tokens(tekken: dict[str, Any], count: int) -> list[str]:
    named = {entry["rank"]: entry["token_str"] for entry in tekken.get("special_tokens") or []}
    named = named or dict(enumerate(SPECIAL))
    return [named.get(rank, f"<SPECIAL_{rank}>") for rank in range(count)]


def tokenizer_json(tekken: dict[str, Any]) -> dict[str, Any]:
    """The content of a tekken.json as the content of a tokenizer.json."""
    try:
        config = tekken["config"]
        special = special_tokens(tekken, config["default_num_special_tokens"])
        entries = sorted(tekken["vocab"], key=lambda entry: entry["rank"])[
            : config["default_vocab_size"] - len(special)
        ]
        tokens = [base64.b64decode(entry["token_bytes"]) for entry in entries]
        pattern = config["pattern"]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"this is not a tekken.json: {error!r}") from error
    character = alphabet()
    spelt = {token: "".join(character[byte] for byte in token) for token in tokens}
    rank = {token: index for index, token in enumerate(tokens)}
    merges = []
    for token in tokens:
        cuts = [(token[:at], token[at:]) for at in range(1, len(token))]
        pairs = [pair for pair in cuts if pair[0] in rank and pair[1] in rank]
        merges += sorted(pairs, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    texts = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocabulary = {token: id for id, token in enumerate([*special, *(spelt[token] for token in tokens)])}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id, "content": content, **flags} for id, content in enumerate(special)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, texts[0]],
            "pair": [begin, *texts],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [vocabulary["<s>"]], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "ignore_merges": True,
            "vocab": vocabulary,
            "merges": [[spelt[left], spelt[right]] for left, right in merges],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Mistral's tekken.json as a tokenizer.json.")
    parser.add_argument("tekken", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    converted = tokenizer_json(json.loads(arguments.tekken.read_text()))
    arguments.out.write_text(json.dumps(converted, ensure_ascii=False))


if __name__ == "__main__":
    main()
