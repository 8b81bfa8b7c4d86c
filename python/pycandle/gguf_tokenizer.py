"""The vocabulary of a GGUF file as files of transformers: `python -m pycandle.gguf_tokenizer model.gguf FOLDER`.

Writes tokenizer.json, tokenizer_config.json (special tokens and chat template) and generation_config.json (end token). Byte-level
vocabularies alone: those that llama.cpp calls "gpt2".
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

from .errors import UsageError

__all__ = ["read_metadata", "tokenizer_files"]

_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _LIST = 8, 9
_LONGEST = 1 << 28  # bytes of a string, elements of a list
_CONTROL, _USER_DEFINED = 3, 4  # types of tokens

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
# The regular expressions that llama.cpp names in tokenizer.ggml.pre.
_GPT2 = {**_BYTE_LEVEL, "use_regex": True}
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = _LLAMA3.replace("{1,3}", "")


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, {**_BYTE_LEVEL, "use_regex": False}]}


_PRE_TOKENIZERS = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _GPT2]},
    "llama-bpe": _split(_LLAMA3),
    "qwen2": _split(_QWEN2),
}


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def take(self, count: int) -> bytes:
        data = self.file.read(count) if count <= _LONGEST else b""
        if len(data) != count:
            raise UsageError("the GGUF file is truncated")
        return data

    def number(self, kind: int) -> Any:
        form = _NUMBERS[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number(10)).decode(errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            of, count = self.number(4), self.number(10)
            if count > _LONGEST or of == _LIST:
                raise UsageError("the GGUF file has a list that nobody writes")
            return [self.value(of) for _ in range(count)]
        if kind not in _NUMBERS:
            raise UsageError(f"the GGUF file has a value of the unknown kind {kind}")
        return self.number(kind)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What the file says of its model: numbers, texts, and lists of them, by key."""
    with Path(path).open("rb") as file:
        reader = _Reader(file)
        if reader.take(4) != b"GGUF" or reader.number(4) not in (2, 3):
            raise UsageError(f"{path} is not a GGUF file of version 2 or 3")
        reader.number(10)  # tensors
        return {reader.text(): reader.value(reader.number(4)) for _ in range(reader.number(10))}


def tokenizer_files(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The contents of the files, by name."""
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or pre not in _PRE_TOKENIZERS:
        raise UsageError(
            f"this vocabulary is not supported: {model}, {pre} (gpt2 with {', '.join(_PRE_TOKENIZERS)} is)"
        )
    tokens, kinds = metadata["tokenizer.ggml.tokens"], metadata.get("tokenizer.ggml.token_type", [])
    added = [
        {
            "id": i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for i, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": _PRE_TOKENIZERS[pre],
        "post_processor": None,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }
    config = {
        f"{name}_token": tokens[metadata[key]]
        for name, key in (("bos", "tokenizer.ggml.bos_token_id"), ("eos", "tokenizer.ggml.eos_token_id"))
        if key in metadata
    }
    if "tokenizer.chat_template" in metadata:
        config["chat_template"] = metadata["tokenizer.chat_template"]
    generation = {"eos_token_id": metadata["tokenizer.ggml.eos_token_id"]} if "eos_token" in config else {}
    return {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": config,
        "generation_config.json": generation,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pycandle.gguf_tokenizer", description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        files = tokenizer_files(read_metadata(options.gguf))
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (options.folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
