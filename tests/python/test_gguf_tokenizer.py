"""The vocabulary of a GGUF file as tokenizer.json."""

from __future__ import annotations

import json

import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer

import pycandle
from pycandle.gguf_tokenizer import main, read_metadata, tokenizer_files
from pycandle.tekken import alphabet


def vocabulary_file(path, pre: str = "smollm", model: str = "gpt2"):
    tokens = [*alphabet().values(), "he", "ll", "hell", "hello", "Ġhello", "<|end|>"]
    writer = GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_token_merges(["h e", "l l", "he ll", "hell o", "Ġ hello"])
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "qwen2"])
def test_a_vocabulary_becomes_a_tokenizer(tmp_path, pre: str) -> None:
    assert main([str(vocabulary_file(tmp_path / "m.gguf", pre)), str(tmp_path / "out")]) == 0
    ours = pycandle.Tokenizer.from_file(tmp_path / "out/tokenizer.json")
    theirs = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    for text in ("hello hello", "hell 1234 <|end|> hello\n", "Über 🏠"):
        assert ours.encode(text).ids == theirs.encode(text).ids
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text
    template = pycandle.ChatTemplate.from_config(tmp_path / "out/tokenizer_config.json")
    assert template.render([{"role": "user", "content": "hello"}]) == "hello<|end|>"
    config = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert config == {"eos_token_id": ours.token_to_id("<|end|>")}


def test_what_is_not_supported_is_said(tmp_path, capsys) -> None:
    with pytest.raises(pycandle.UsageError, match="llama, default"):
        tokenizer_files(read_metadata(vocabulary_file(tmp_path / "a.gguf", "default", "llama")))
    (tmp_path / "b.gguf").write_bytes((tmp_path / "a.gguf").read_bytes()[:200])
    assert main([str(tmp_path / "b.gguf"), str(tmp_path / "out")]) == 2
    (tmp_path / "c.gguf").write_bytes(b"no")
    assert main([str(tmp_path / "c.gguf"), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("error:") == 2
