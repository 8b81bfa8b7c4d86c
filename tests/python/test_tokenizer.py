"""Tokenizers that are trained here, one for each component of tokenizer.json, beside the `tokenizers` package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tokenizer_agreement import Pair, assert_same, facts
from tokenizer_strings import strings
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

import pycandle

CORPUS = [text.decode("utf-8", errors="replace") for text in strings(600, seed=7)]
TEXTS = strings(400, seed=2)


def trained(model: str, **parts) -> Tokenizer:
    special = ["<unk>", "<s>", "</s>", "<pad>", "[MASK]"]
    if model == "bpe":
        tokenizer, trainer = (
            Tokenizer(models.BPE(unk_token="<unk>")),
            trainers.BpeTrainer(vocab_size=900, special_tokens=special),
        )
    elif model == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=special)
    elif model == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=9000, special_tokens=special, unk_token="<unk>")
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(vocab_size=900, special_tokens=special)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    trainer.show_progress = False
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level_bpe(**options) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**options))
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def opened(tokenizer: Tokenizer, tmp_path: Path) -> Pair:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return Pair(path)


SPLITS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PRE_TOKENIZERS = {
    "ByteLevel": pre_tokenizers.ByteLevel(add_prefix_space=True),
    "ByteLevel without regex": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    **{f"Split {b}": pre_tokenizers.Split(Regex(r"\s+|\d"), b) for b in SPLITS},
    **{f"Split inverted {b}": pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), b, invert=True) for b in SPLITS},
    "Split string": pre_tokenizers.Split(" ", "merged_with_previous"),
    "Split, lines": pre_tokenizers.Split(Regex(r"^\S+|\S+$"), "isolated"),
    "Whitespace": pre_tokenizers.Whitespace(),
    "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
    "Metaspace": pre_tokenizers.Metaspace(),
    "Metaspace first": pre_tokenizers.Metaspace(prepend_scheme="first"),
    "Metaspace never": pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
    "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(),
    "Digits": pre_tokenizers.Digits(),
    "Digits one by one": pre_tokenizers.Digits(individual_digits=True),
    "Punctuation": pre_tokenizers.Punctuation("contiguous"),
    "Sequence": pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation(), pre_tokenizers.ByteLevel(), pre_tokenizers.Digits()]
    ),
    "CharDelimiterSplit": pre_tokenizers.CharDelimiterSplit("e"),
}


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pieces_are_cut_as_by_tokenizers(name, tmp_path) -> None:
    assert_same(opened(trained("bpe", pre_tokenizer=PRE_TOKENIZERS[name]), tmp_path), TEXTS)


def test_scripts_are_told_apart_as_by_tokenizers(tmp_path) -> None:
    """Which knows Unicode 9 there: later characters are left out."""
    later = re.compile("[\u0560\U0001f900-\U0001f9ff]")
    texts = [later.sub("", text.decode("utf-8", errors="replace")).encode() for text in TEXTS]
    texts.append("  hello, мир  12 日本ーのカ ー\ue000y \u0300".encode())
    assert_same(opened(trained("bpe", pre_tokenizer=pre_tokenizers.UnicodeScripts()), tmp_path), texts)


NORMALIZERS = {
    "NFC": normalizers.NFC(),
    "NFD": normalizers.NFD(),
    "NFKC": normalizers.NFKC(),
    "NFKD": normalizers.NFKD(),
    "Lowercase": normalizers.Lowercase(),
    "Strip": normalizers.Strip(),
    "Strip left": normalizers.Strip(right=False),
    "StripAccents": normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()]),
    "BertNormalizer": normalizers.BertNormalizer(),
    "BertNormalizer with case": normalizers.BertNormalizer(lowercase=False, strip_accents=False),
    "Replace": normalizers.Replace(Regex(r"\s{2,}"), " "),
    "Replace string": normalizers.Replace("a", "--"),
    "Prepend": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "Nmt": normalizers.Nmt(),
    "ByteLevel": normalizers.ByteLevel(),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_texts_are_normalised_as_by_tokenizers(name, tmp_path) -> None:
    assert_same(opened(trained("bpe", normalizer=NORMALIZERS[name]), tmp_path), TEXTS)


@pytest.mark.parametrize("model", ["wordpiece", "unigram", "wordlevel"])
def test_models_give_the_tokens_of_tokenizers(model, tmp_path) -> None:
    cuts = pre_tokenizers.Metaspace() if model == "unigram" else pre_tokenizers.BertPreTokenizer()
    assert_same(opened(trained(model, pre_tokenizer=cuts), tmp_path), TEXTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"byte_fallback": True, "unk_token": "<unk>"},
        {"unk_token": "<unk>", "fuse_unk": True},
        {"unk_token": "<unk>", "fuse_unk": False},
        {"ignore_merges": True, "unk_token": "<unk>"},
        {},
    ],
)
def test_the_settings_of_bpe(changes, tmp_path) -> None:
    """Words of Latin letters; everything else is unknown, or its bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(
        ["the house that was there had been theirs, and more so in the end"] * 3, trainer
    )
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    for byte in range(256):
        vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    data["model"].update({"unk_token": None, **changes})
    data["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    assert_same(Pair(path), TEXTS)


def test_words_with_an_end(tmp_path) -> None:
    tokenizer = Tokenizer(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", continuing_subword_prefix="##")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=["<unk>"],
        end_of_word_suffix="</w>",
        continuing_subword_prefix="##",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.BPEDecoder()
    assert_same(opened(tokenizer, tmp_path), TEXTS)


def test_byte_level_with_ignored_merges_and_trimmed_offsets(tmp_path) -> None:
    for options in ({}, {"ignore_merges": True}):
        tokenizer = byte_level_bpe(**options)
        for trim in (True, False):
            tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
            assert_same(opened(tokenizer, tmp_path), TEXTS)


PROCESSORS = {
    "TemplateProcessing": processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)]
    ),
    "BertProcessing": processors.BertProcessing(("</s>", 2), ("<s>", 1)),
    "RobertaProcessing": processors.RobertaProcessing(("</s>", 2), ("<s>", 1)),
    "Sequence": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]),
        ]
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_special_tokens_truncation_padding_and_pairs(name, tmp_path) -> None:
    tokenizer = trained("bpe", pre_tokenizer=pre_tokenizers.ByteLevel(), post_processor=PROCESSORS[name])
    pair = opened(tokenizer, tmp_path)
    texts = [text.decode("utf-8", errors="replace") for text in TEXTS[:60]]
    for strategy in ("longest_first", "only_first"):
        for direction in ("right", "left"):
            for each in (pair.ours, pair.theirs):
                each.enable_truncation(40, strategy=strategy, direction=direction)
                each.enable_padding(length=48, direction=direction, pad_id=3, pad_token="<pad>")
            assert_same(pair, TEXTS[:60])
            for first, second in zip(texts, reversed(texts), strict=True):
                if strategy == "longest_first" and name != "Sequence":
                    assert facts(pair.ours.encode(first, second)) == facts(pair.theirs.encode(first, second))
    for each in (pair.ours, pair.theirs):
        each.no_truncation()
        each.enable_padding(pad_to_multiple_of=8, pad_id=3, pad_token="<pad>")
    ours, theirs = pair.ours.encode_batch(texts), pair.theirs.encode_batch(texts)
    assert [facts(each) for each in ours] == [facts(each) for each in theirs]


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("direction", ["right", "left"])
def test_what_is_cut_off_overflows_in_parts(name, direction, tmp_path) -> None:
    pair = opened(
        trained("bpe", pre_tokenizer=pre_tokenizers.ByteLevel(), post_processor=PROCESSORS[name]), tmp_path
    )
    texts = [text.decode("utf-8", errors="replace") for text in TEXTS[:40]]
    seen = 0
    for stride, padded in ((0, False), (5, True)):
        for each in (pair.ours, pair.theirs):
            each.enable_truncation(20, stride=stride, direction=direction)
            if padded:
                each.enable_padding(length=24, direction=direction, pad_id=3, pad_token="<pad>")
        for first, second in zip(texts, reversed(texts), strict=True):
            both = [(first,)] if name == "Sequence" else [(first,), (first, second)]
            for given in both:
                ours, theirs = pair.ours.encode(*given), pair.theirs.encode(*given)
                assert facts(ours) == facts(theirs)
                assert [facts(e) for e in ours.overflowing] == [facts(e) for e in theirs.overflowing], given
                seen += len(ours.overflowing)
    assert seen > 100
    pair.theirs.save(str(tmp_path / "saved.json"))
    again = pycandle.Tokenizer.from_file(tmp_path / "saved.json").encode(texts[5])
    assert [facts(e) for e in again.overflowing] == [
        facts(e) for e in pair.theirs.encode(texts[5]).overflowing
    ]


def test_a_stride_that_leaves_nothing_is_refused(tmp_path) -> None:
    ours = opened(byte_level_bpe(), tmp_path).ours
    ours.enable_truncation(4, stride=4)
    with pytest.raises(pycandle.Error, match="stride"):
        ours.encode("the house on the hill")
    ours.enable_truncation(5000, stride=4999)
    with pytest.raises(pycandle.Error, match="too many parts"):
        ours.encode("a b c d e f " * 4000)


def test_tables_are_the_tokenizer(tmp_path) -> None:
    for kind in ("bpe", "wordpiece", "unigram", "wordlevel"):
        pair = opened(trained(kind, pre_tokenizer=pre_tokenizers.Whitespace()), tmp_path)
        tables = pycandle.Tokenizer.compile((tmp_path / "tokenizer.json").read_text())
        pair.ours = pycandle.Tokenizer.from_compiled(tables)
        assert_same(pair, TEXTS[:100])


def test_added_tokens_are_found_where_tokenizers_finds_them(tmp_path) -> None:
    tokenizer = trained("bpe", pre_tokenizer=pre_tokenizers.Whitespace(), normalizer=normalizers.Lowercase())
    tokenizer.add_tokens(
        [
            AddedToken("HOUSE", single_word=True),
            AddedToken("the", normalized=False, single_word=True),
            AddedToken("[SEP]", lstrip=True, special=True, normalized=False),
            AddedToken("[INST]", rstrip=True, lstrip=True, special=True, normalized=False),
            AddedToken("was that", normalized=True),
            AddedToken("was"),
        ]
    )
    texts = [
        b" The house  [SEP] the houses[INST]  was that was  ",
        b"[SEP][SEP] HOUSE-house the\xff the",
        b"[INST] [SEP]",
    ]
    assert_same(opened(tokenizer, tmp_path), texts + TEXTS)


DECODERS = {
    "ByteLevel": decoders.ByteLevel(),
    "Metaspace": decoders.Metaspace(),
    "WordPiece": decoders.WordPiece(),
    "ByteFallback": decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    "Replace": decoders.Replace("e", "_"),
    "BPEDecoder": decoders.BPEDecoder("e"),
    "CTC": decoders.CTC(pad_token="<pad>"),
    "none": None,
}


@pytest.mark.parametrize("name", DECODERS)
def test_texts_are_decoded_as_by_tokenizers(name, tmp_path) -> None:
    tokenizer = trained("bpe", pre_tokenizer=pre_tokenizers.WhitespaceSplit())
    tokenizer.decoder = DECODERS[name]
    pair = opened(tokenizer, tmp_path)
    for data in TEXTS[:200]:
        ids = pair.theirs.encode(data.decode("utf-8", errors="replace")).ids
        if ids or name != "BPEDecoder":  # theirs panics on no tokens
            assert pair.ours.decode(ids) == pair.theirs.decode(ids)
    unknown = pair.ours.vocabulary_size + 7
    assert pair.ours.decode([unknown]) == ""


def test_one_tokenizer_serves_many_threads(tmp_path) -> None:
    pair = opened(byte_level_bpe(), tmp_path)
    expected = [pair.ours.encode(text).ids for text in TEXTS]
    wrong: list[int] = []

    def work() -> None:
        wrong.extend(i for i, text in enumerate(TEXTS) if pair.ours.encode(text).ids != expected[i])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def base(**changes) -> dict:
    model = {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"}
    return {"version": "1.0", "added_tokens": [], "model": model, **changes}


UNKNOWN = {
    "normalizer": {"type": "Shout"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Shout"}]},
    "post_processor": {"type": "Shout"},
    "decoder": {"type": "Shout"},
    "model": {"type": "Shout", "vocab": {}},
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_component_that_is_not_known_is_named(kind) -> None:
    with pytest.raises(pycandle.Error, match=f"{kind} that is not supported[^$]*Shout") as caught:
        pycandle.Tokenizer.from_text(json.dumps(base(**{kind: UNKNOWN[kind]})))
    assert caught.value.code == "gap"


HOSTILE = {
    "empty": "",
    "not an object": "[1]",
    "cut off": json.dumps(base())[:-20],
    "no model": json.dumps({"version": "1.0"}),
    "trailing bytes": json.dumps(base()) + "x",
    "an id too large": json.dumps(base(model={"type": "WordLevel", "vocab": {"a": 4_000_000_000}})),
    "a negative id": json.dumps(base(model={"type": "WordLevel", "vocab": {"a": -1}})),
    "a merge of unknown tokens": json.dumps(
        base(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})
    ),
    "a merge of three": json.dumps(base(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]})),
    "a merge of one": json.dumps(base(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]})),
    "dropout": json.dumps(base(model={"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1})),
    "unk_id beyond the vocabulary": json.dumps(
        base(model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 5})
    ),
    "a score that is none": json.dumps(base(model={"type": "Unigram", "vocab": [["a", "b"]]})),
    "an expression that is none": json.dumps(
        base(
            pre_tokenizer={
                "type": "Split",
                "pattern": {"Regex": "(("},
                "behavior": "Isolated",
                "invert": False,
            }
        )
    ),
    "an intersection": json.dumps(
        base(
            pre_tokenizer={
                "type": "Split",
                "pattern": {"Regex": "[a-z&&b]"},
                "behavior": "Isolated",
                "invert": False,
            }
        )
    ),
    "a behaviour that is none": json.dumps(
        base(pre_tokenizer={"type": "Split", "pattern": {"String": "a"}, "behavior": "Up", "invert": False})
    ),
    "a table that is none": json.dumps(
        base(normalizer={"type": "Precompiled", "precompiled_charsmap": "////"})
    ),
    "a template with an unknown token": json.dumps(
        base(
            post_processor={
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
                "pair": [],
                "special_tokens": {},
            }
        )
    ),
    "padding to the moon": json.dumps(base(padding={"strategy": {"Fixed": 4_000_000_000}})),
    "deep": "[" * 100_000,
    "a version to come": json.dumps(base(version="2.0")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_wrong_gives_one_clear_error(name) -> None:
    with pytest.raises(pycandle.Error) as caught:
        pycandle.Tokenizer.from_text(HOSTILE[name])
    assert caught.value.code in ("bad_input", "gap")


def command(*words) -> str:
    program = Path(sys.executable).with_name("pycandle")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True).stdout


def test_the_command_shows_tokens_and_text(tmp_path) -> None:
    pair = opened(byte_level_bpe(), tmp_path)
    path = tmp_path / "tokenizer.json"
    shown = json.loads(command("tokenize", path, "--text", "the house 🏠", "--json"))
    theirs = pair.theirs.encode("the house 🏠")
    assert shown["ids"] == theirs.ids
    assert [tuple(o) for o in shown["offsets"]] == theirs.offsets
    assert shown["tokens"] == theirs.tokens
    (tmp_path / "bytes.txt").write_bytes(b"the \xff house")
    shown = json.loads(command("tokenize", path, "--file", tmp_path / "bytes.txt", "--json"))
    assert shown["ids"] == pair.theirs.encode("the \ufffd house").ids
    assert command("tokenize", path, "--decode", ",".join(map(str, theirs.ids))) == "the house 🏠\n"
