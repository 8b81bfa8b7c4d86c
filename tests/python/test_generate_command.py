"""`pycandle generate`: what the command writes, streams, and refuses."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import time

import pytest
from conftest import PYCANDLE
from generating_models import make, record, train_tokenizer
from hostile_bundles import contents, text

import pycandle as pc


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A recording, with its tokenizer and its chat template."""
    folder = tmp_path_factory.mktemp("model")
    record(make("llama"), folder)
    train_tokenizer(folder / "tokenizer.json")
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def arguments(model, *more) -> list:
    return ["generate", model, "--tokenizer", model / "tokenizer.json", "--ignore-end", *more]


def test_the_text_is_that_of_python(model, pycandle) -> None:
    ours = pc.load_model(model, tokenizer=model / "tokenizer.json")
    expected = ours.generate("the house", max_tokens=20, ignore_end=True)
    shown = pycandle(*arguments(model, "--prompt", "the house", "--max-tokens", 20), status=0).stdout
    assert shown == expected.text + "\n"
    sampled = ours.generate(
        "the house", max_tokens=20, ignore_end=True, seed=7, temperature=0.9, top_k=40, top_p=0.95, min_p=0.01
    )
    flags = ["--seed", 7, "--temperature", 0.9, "--top-k", 40, "--top-p", 0.95, "--min-p", 0.01]
    out = pycandle.json(*arguments(model, "--prompt", "the house", "--max-tokens", 20, *flags))
    assert out["results"][0]["tokens"] == sampled.tokens
    assert out["results"][0]["text"] == sampled.text
    assert out["seed"] == 7 and out["timings"]["tokens"] == 20
    assert len(out["results"][0]["log_probabilities"]) == 20


def test_every_way_of_generating_runs(model, pycandle, tmp_path) -> None:
    prompts, schema = tmp_path / "prompts.txt", tmp_path / "schema.json"
    prompts.write_text("the house\n\nthe hill and the dog\n")
    schema.write_text('{"type": "array", "items": {"type": "integer"}, "maxItems": 3}')
    plain = pycandle.json(*arguments(model, "--prompt", "the house", "--max-tokens", 12))["results"][0][
        "tokens"
    ]
    many = pycandle.json(
        *arguments(model, "--prompts", prompts, "--samples", 2, "--seed", 1, "--max-tokens", 5)
    )["results"]
    assert [(r["prompt"], r["sample"]) for r in many] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for flags in (
        ["--no-kv-cache"],
        ["--draft", "lookup"],
        ["--draft", model],
        ["--cache", "f32"],
        ["--threads", 1],
        ["--backend", "reference"],
    ):
        assert (
            pycandle.json(*arguments(model, "--prompt", "the house", "--max-tokens", 12, *flags))["results"][
                0
            ]["tokens"]
            == plain
        )
    beams = pycandle.json(
        *arguments(model, "--prompt", "the house", "--max-tokens", 12, "--beams", 3, "--samples", 2)
    )["results"]
    assert beams[0]["score"] >= beams[1]["score"]
    found = pycandle.json(*arguments(model, "--prompt", "x", "--json-schema", schema))["results"][0]["text"]
    assert isinstance(json.loads(found), list)
    short = pycandle.json(*arguments(model, "--prompt", "the house", "--kv-cache-capacity", 10))["results"][0]
    assert short["finish"] == "length" and short["tokens"] == plain[: len(short["tokens"])]
    weights = arguments(
        model,
        "--prompt",
        "the house",
        "--max-tokens",
        12,
        "--weights",
        "bf16",
        "--presence-penalty",
        1,
        "--frequency-penalty",
        1,
    )
    assert pycandle.json(
        *weights, "--repetition-penalty", 1.1, "--logit-bias", "5=-inf", "--log-probabilities", 2
    )["results"][0]["alternatives"]
    shown = pycandle(*arguments(model, "--prompts", prompts, "--max-tokens", 3)).stdout
    assert "── the house" in shown and "── the hill and the dog" in shown


def test_a_seed_gives_the_same_text_on_every_instruction_set(model) -> None:
    flags = ["--prompt", "the house", "--max-tokens", 100, "--seed", 11, "--temperature", 0.8, "--top-p", 0.9]
    command = [str(word) for word in (PYCANDLE, *arguments(model, *flags))]
    texts = {
        subprocess.run(
            command, capture_output=True, check=True, env={**os.environ, "PYCANDLE_ISA": isa}
        ).stdout
        for isa in ("portable", "avx2", "")
    }
    assert len(texts) == 1 and len(texts.pop()) > 50


def test_a_chat_uses_the_template(model, pycandle) -> None:
    once = pycandle(
        *arguments(model, "--chat", "--system", "Be kind.", "--prompt", "Hello", "--max-tokens", 10)
    ).stdout
    prompt = "system: Be kind.\nuser: Hello\nassistant:"
    assert once == pycandle(*arguments(model, "--prompt", prompt, "--max-tokens", 10)).stdout
    command = [PYCANDLE, *arguments(model, "--chat", "--max-tokens", 8, "--stop", "\n")]
    talk = subprocess.run(
        [str(word) for word in command], input=b"Hello\nWhat now?\n", capture_output=True, check=True
    )
    ours = pc.load_model(model, tokenizer=model / "tokenizer.json")
    options = {"max_tokens": 8, "stop": "\n", "ignore_end": True}
    first = ours.generate("user: Hello\nassistant:", **options).text
    second = ours.generate(f"user: Hello\nassistant: {first}\nuser: What now?\nassistant:", **options).text
    assert talk.stdout.decode() == f"{first}\n{second}\n"


def run_on_terminal(command: list, interrupt_after: float | None = None) -> tuple[int, str]:
    """Exit status, and what the terminal showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        list(map(str, command)), stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    shown, started = b"", None
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read
        started = started or time.monotonic()
        if interrupt_after is not None and time.monotonic() - started >= interrupt_after:
            process.send_signal(signal.SIGINT)
            interrupt_after = None
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_a_terminal_shows_the_speed_and_ctrl_c_ends_the_text(model) -> None:
    status, shown = run_on_terminal(
        [PYCANDLE, *arguments(model, "--prompt", "the house", "--max-tokens", 20)]
    )
    assert status == 0 and "20 tokens · " in shown and "tokens a second" in shown
    long = [
        PYCANDLE,
        *arguments(
            model, "--prompt", "the house", "--max-tokens", 250, "--no-kv-cache", "--backend", "reference"
        ),
    ]
    status, shown = run_on_terminal(long, interrupt_after=0)
    assert status == 130
    assert "tokens a second" in shown and "250 tokens ·" not in shown


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "there is no prompt"),
        (["--prompt", "x", "--greedy", "--seed", 1], "--greedy takes no draws"),
        (["--prompt", "x", "--logit-bias", "5"], "--logit-bias is not understood"),
        (["--prompt", "x", "--temperature", -1], "this temperature is not possible"),
        (["--prompt", "the house", "--kv-cache-capacity", 1], "the prompt is too long"),
        (["--prompts", "prompts.txt"], "cannot open prompts.txt"),
    ],
)
def test_what_cannot_be_is_said(model, pycandle, flags, message: str) -> None:
    assert message in pycandle(*arguments(model, *flags), status=2).stderr


@pytest.fixture(scope="module")
def bundle(model, tmp_path_factory):
    """The same model as a bundle that needs nothing else."""
    made = tmp_path_factory.mktemp("bundled") / "llama.pycandle"
    (model / "generation_config.json").write_text('{"eos_token_id": 0}')
    texts = [
        "--tokenizer-config",
        model / "tokenizer_config.json",
        "--generation-config",
        model / "generation_config.json",
    ]
    command = [PYCANDLE, "bundle", model, "--tokenizer", model / "tokenizer.json", *texts, "--out", made]
    subprocess.run(command, check=True, capture_output=True)
    return made


def test_a_bundle_brings_tokenizer_template_and_end_tokens(model, bundle, pycandle, tmp_path) -> None:
    for flags in (["--prompt", "the house"], ["--chat", "--prompt", "the house"]):
        wanted = [*flags, "--max-tokens", 24]
        recorded = pycandle.json("generate", model, "--tokenizer", model, *wanted)["results"][0]
        bundled = pycandle.json("generate", bundle, *wanted)["results"][0]
        assert bundled["tokens"] == recorded["tokens"] and bundled["text"] == recorded["text"]
    loaded = pc.load_model(bundle)
    plain = loaded.generate("the house", max_tokens=24, ignore_end=True)
    assert (
        str(plain)
        == pycandle("generate", bundle, "--prompt", "the house", "--max-tokens", 24, "--ignore-end").stdout[
            :-1
        ]
    )
    config = tmp_path / "other.json"
    config.write_text(json.dumps({"eos_token_id": [plain.tokens[3], 7]}))
    ended = pycandle.json("generate", bundle, "--prompt", "the house", "--generation-config", config)[
        "results"
    ][0]
    assert (
        ended["tokens"] == plain.tokens[: plain.tokens.index(plain.tokens[3])] and ended["finish"] == "stop"
    )


def test_a_step_that_is_not_the_forward_pass_writes_no_text(
    model, bundle, pycandle, tmp_path, monkeypatch
) -> None:
    """A bundle whose head says nothing of a proof, with a step whose rotary table is wrong."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    unproven, wrong = tmp_path / "unproven.pycandle", tmp_path / "wrong.pycandle"
    for place in (unproven, wrong):
        shutil.copytree(bundle, place)
        contents(lambda c: c["verification"].pop("decode"))(place)
    text("setup.ptir", "= cos(", "= sin(")(wrong)
    flags = ["--prompt", "the house", "--max-tokens", 8]
    assert pycandle("generate", unproven, *flags).stdout == pycandle("generate", bundle, *flags).stdout
    assert len(list((tmp_path / "cache").rglob("proofs/*.json"))) == 1, "one proof, of the bundle without"
    for _ in range(2):  # what failed is not kept
        refused = pycandle("generate", wrong, *flags, status=1)
        assert refused.stdout == "" and "the decode step is not the forward pass" in refused.stderr
    with pytest.raises(pc.Error, match="not the forward pass"):
        pc.load_model(wrong).generate("the house", max_tokens=8)
    assert (
        pycandle("generate", wrong, *flags, "--no-kv-cache").stdout
        == pycandle("generate", bundle, *flags).stdout
    )


def test_text_needs_a_tokenizer(model, pycandle) -> None:
    assert "text needs a tokenizer" in pycandle("generate", model, "--prompt", "x", status=2).stderr
