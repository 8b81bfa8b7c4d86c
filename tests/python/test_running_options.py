"""What every command that runs a model takes, and Python too: profiles, dumps, node-by-node runs, backends, a prompt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from generating_models import make, record, train_tokenizer
from report_models import edited, with_tanh_gelu
from safetensors.torch import save_model

import pycandle as pc

PROMPT = "the house"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A recording of a language model, with its tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    record(make("gpt2"), folder)
    train_tokenizer(folder / "tokenizer.json")
    return folder


@pytest.fixture(scope="module")
def reproduction(good, pycandle, tmp_path_factory):
    """The folder of a wrong layer, for replay."""
    folder = tmp_path_factory.mktemp("broken")
    wrong = edited(good, folder / "m", with_tanh_gelu)
    pycandle("verify", wrong, "--repro", folder / "repro", status=1)
    return next((folder / "repro").iterdir())


def commands(model, reproduction, out) -> dict[str, tuple]:
    """Each command that runs a model, on the cpu backend."""
    text = ["--tokenizer", model / "tokenizer.json", "--prompt", PROMPT]
    return {
        "forward": ("forward", model),
        "forward of a text": ("forward", model, *text),
        "trace": ("trace", model, "--backend", "cpu", "--out", out / "taps.safetensors"),
        "verify": ("verify", model, "--backend", "cpu"),
        "bench": ("bench", model, "--seconds", 0, "--rounds", 1, "--starts", 1, "--threads", 1),
        "generate": ("generate", model, *text, "--max-tokens", 3),
        "replay": ("replay", reproduction, "--backend", "cpu"),
    }


NAMES = list(commands(Path(), Path(), Path()))


@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_runs_a_model_says_where_its_time_goes(
    model, reproduction, pycandle, tmp_path, name: str
) -> None:
    command = commands(model, reproduction, tmp_path)[name]
    status = 1 if name == "replay" else 0
    shown = pycandle(*command, "--profile", status=status).stdout
    assert "by kernel" in shown and "by layer" in shown and "of it accounted for" in shown
    found = pycandle.json(*command, "--profile", status=status)
    profile = found["profiles"][0] if name == "bench" else found["profile"]
    assert profile["kernels"] and profile["layers"] and profile["ms"] > 0
    assert sum(row["ms"] for row in profile["ops"]) == pytest.approx(profile["ms"], rel=0.2)
    without = pycandle.json(*command, status=status)
    assert not without.get("profile") and not without.get("profiles")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_runs_a_model_dumps_its_program(
    model, reproduction, pycandle, tmp_path, name: str
) -> None:
    command = commands(model, reproduction, tmp_path)[name]
    status, counts = 1 if name == "replay" else 0, {}
    for mode in ("all", "final"):
        folder = tmp_path / mode
        pycandle(*command, "--dump-dir", folder, "--dump-mode", mode, status=status)
        counts[mode] = len(list(folder.rglob("*.ptir")))
    assert 0 < counts["final"] < counts["all"]


def test_a_decode_step_is_dumped_beside_the_model(model, pycandle, tmp_path) -> None:
    folder = tmp_path / "dumps"
    command = commands(model, None, tmp_path)["generate"]
    pycandle(*command, "--dump-dir", folder, "--dump-mode", "final")
    assert {path.parent.name for path in folder.rglob("*.ptir")} >= {
        "dumps",
        "decode-step",
        "decode-last-token",
    }
    step = "".join(path.read_text() for path in (folder / "decode-step").glob("*.ptir"))
    assert "cache" in step


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("bench", "replay")])
def test_node_by_node_gives_the_same(model, reproduction, pycandle, tmp_path, monkeypatch, name: str) -> None:
    command = commands(model, reproduction, tmp_path)[name]
    fused = pycandle.json(*command)
    monkeypatch.setenv("PYCANDLE_EAGER", "1")
    eager = pycandle.json(*command)
    for each in (fused, eager):
        for timed in ("seconds", "timings", "took"):
            each.pop(timed, None)
    if name == "generate":
        assert eager["results"][0]["tokens"] == fused["results"][0]["tokens"]
    elif name.startswith("forward"):
        for a, b in zip(eager["outputs"], fused["outputs"], strict=True):
            assert a["mean"] == pytest.approx(b["mean"], rel=1e-4, abs=1e-6)
    else:
        assert eager["status"] == fused["status"]


def test_node_by_node_a_run_has_a_step_for_each_node(model, pycandle, monkeypatch) -> None:
    kernels = {row["name"]: row["steps"] for row in _kernels(pycandle, model)}
    monkeypatch.setenv("PYCANDLE_EAGER", "1")
    assert sum(row["steps"] for row in _kernels(pycandle, model)) > sum(kernels.values())


def _kernels(pycandle, model) -> list[dict]:
    command = ["trace", model, "--backend", "cpu", "--out", "/dev/null"]
    return pycandle.json(*command, "--profile")["profile"]["kernels"]


def test_the_environment_names_the_backend_of_generate(model, pycandle, monkeypatch) -> None:
    command = commands(model, None, model)["generate"]
    assert pycandle.json(*command)["backend"] == "cpu"
    monkeypatch.setenv("PYCANDLE_BACKEND", "reference")
    assert pycandle.json(*command)["backend"] == "reference"
    assert pycandle.json(*command, "--backend", "cpu")["backend"] == "cpu"


def test_a_text_goes_through_forward(model, pycandle, tmp_path) -> None:
    ours = pc.load_model(model, tokenizer=model / "tokenizer.json")
    ids = ours.tokenizer.encode(PROMPT).ids
    logits = ours.logits(ids, last=True)
    text = ["--prompt", PROMPT, "--tokenizer", model / "tokenizer.json"]
    found = pycandle.json("forward", model, *text)
    assert found["outputs"][0]["shape"][:2] == [1, len(ids)]
    best = np.argsort(-logits)[:5].tolist()
    assert [each["token"] for each in found["next_tokens"]] == best
    probabilities = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(
        [each["probability"] for each in found["next_tokens"]], probabilities[best], rtol=1e-4
    )
    assert found["next_tokens"][0]["text"] == ours.tokenizer.decode(best[:1], skip_special_tokens=False)
    assert "next: " in pycandle("forward", model, *text).stdout
    pycandle("trace", model, *text, "--out", tmp_path / "taps.safetensors")
    folder = ["--prompt", PROMPT, "--tokenizer", model]
    assert pycandle.json("forward", model, *folder)["next_tokens"] == found["next_tokens"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--prompt", "x"], "no tokenizer"),
        (["--tokenizer", "tokenizer.json"], "there is none"),
        (["--prompt", "x", "--set", "s0=3"], "--set gives sizes to random inputs"),
    ],
)
def test_a_text_that_cannot_be_read_is_said(model, pycandle, flags, message: str) -> None:
    assert message in pycandle("forward", model, *flags, status=2).stderr


# ---- a recording without weights


@pytest.fixture(scope="module")
def bare(model, tmp_path_factory):
    """The same recording without weights, and these as a checkpoint."""
    folder = tmp_path_factory.mktemp("bare")
    torch_model = make("gpt2")
    recorder = pc.GoldenRecorder(folder, weights="none")
    recorder.record(torch_model, input_ids=torch.randint(3, 200, (2, 7)))
    recorder.save("model")
    save_model(torch_model, str(folder / "checkpoint.safetensors"))
    return folder


def test_a_recording_without_weights_takes_them_from_a_checkpoint(model, bare, pycandle) -> None:
    beside = ["--checkpoint", bare / "checkpoint.safetensors", "--tokenizer", model / "tokenizer.json"]
    text = ["--prompt", PROMPT]
    same = ["--tokenizer", model / "tokenizer.json", *text]
    forward = pycandle.json("forward", bare, *beside, *text)
    assert forward["next_tokens"] == pycandle.json("forward", model, *same)["next_tokens"]
    written = pycandle("generate", bare, *beside, *text, "--max-tokens", 8).stdout
    assert written == pycandle("generate", model, *same, "--max-tokens", 8).stdout
    for command in ("forward", "generate"):
        refused = pycandle(command, bare, *beside[2:], *text, status=2).stderr
        assert "weights" in refused


def test_weights_that_exceed_the_budget_give_the_same_text(model, pycandle) -> None:
    command = commands(model, None, model)["generate"]
    assert pycandle(*command, "--param-budget", "20kB").stdout == pycandle(*command).stdout
    ours = pc.load_model(model, param_budget=20_000)
    tokens = np.arange(5).reshape(1, 5)
    np.testing.assert_array_equal(
        ours.forward_tokens(tokens)["output.logits"],
        pc.load_model(model).forward_tokens(tokens)["output.logits"],
    )


# ---- Python


def test_python_profiles_a_call(model) -> None:
    ours = pc.load_model(model)
    found = ours.profile(np.arange(5).reshape(1, 5))
    assert found["kernels"] and found["layers"] and found["steps"]
    json.dumps(found)


def test_options_of_a_model_are_those_of_its_decode_step(model, tmp_path) -> None:
    plain = pc.load_model(model, tokenizer=model / "tokenizer.json")
    expected = plain.generate(PROMPT, max_tokens=8, ignore_end=True).tokens
    pc.set_dump_dir(tmp_path / "dumps", mode="final")
    try:
        naive = pc.load_model(
            model, tokenizer=model / "tokenizer.json", overrides={"linear": "naive", "layer_norm": "naive"}
        )
        assert naive.generate(PROMPT, max_tokens=8, ignore_end=True).tokens == expected
    finally:
        pc.set_dump_dir(None)
    step = "".join(path.read_text() for path in (tmp_path / "dumps/decode-step").glob("*.ptir"))
    assert "dot_general" in step and "layer_norm" not in step.replace("layer_norm_epsilon", "")
    with pytest.raises(ValueError, match="mode must be"):
        pc.set_dump_dir(tmp_path, mode="some")


def test_a_compiled_model_takes_overrides() -> None:
    module, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    naive = pc.compile(module, x, overrides={"linear": "naive"})
    torch.testing.assert_close(naive(x), module(x).detach())
    with pytest.raises(pc.Error, match="linear"):
        pc.compile(module, x, overrides={"linear": "magic"})
