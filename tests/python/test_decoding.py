"""Decode steps that are derived from recorded models, and proven: token by token they are the forward pass."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from causal_models import CAUSAL, NOT_CAUSAL, VOCABULARY, LooksAhead, SeesOneMore
from zoo import transformers_models as models
from zoo.recordings import record

from pycandle import GoldenRecorder

KINDS = (
    models.DECODERS,
    models.EXPERTS_MODELS,
    models.STATE_SPACES,
    models.ENCODERS,
    models.SEQ2SEQ,
    models.AUDIO,
)
ENTRIES = {entry.name: entry for kind in KINDS for entry in kind}
FEW = ("gpt2", "gemma3_text", "t5")
MORE = (
    "llama", "mistral", "qwen3", "opt", "bloom", "gpt_neox", "gptj", "gpt_bigcode", "falcon", "phi", "stablelm", "olmo2", "cohere",
    "cohere2", "glm4", "biogpt", "gemma2", "codegen", "gpt_neo", "xglm", "mpt", "ctrl", "diffllama", "apertus", "bart", "mixtral",
    "qwen2_moe", "qwen3_moe", "granitemoe", "deepseek_v2", "deepseek_v3", "phimoe", "gpt_oss", "lfm2", "whisper",
)  # fmt: skip
REFUSED = ("roberta",)


def full(names: tuple | list) -> list:
    return [pytest.param(name, marks=pytest.mark.full) for name in names]


def expect_proven(folder: Path, pycandle) -> None:
    for backend in ("reference", "cpu"):
        proof = pycandle.json("verify", folder, "--decode", "--backend", backend)
        assert proof["passed"], proof
        assert [s["chunk"] for s in proof["schedules"]] == [1, 3, 16]
        assert len(proof["lengths"]) == 2 and len(set(proof["lengths"])) == 2
        assert all(s["values"] > 10 for s in proof["schedules"])


@pytest.mark.parametrize("name", [*FEW, *full(MORE)])
def test_the_step_is_the_forward_pass(name: str, pycandle, tmp_path) -> None:
    record(ENTRIES[name], tmp_path)
    expect_proven(tmp_path, pycandle)


@pytest.mark.parametrize("name", ["opt", *full(("bloom", "gpt_neo", "gemma2", "falcon", "xglm", "biogpt"))])
def test_a_model_that_was_given_no_mask_makes_its_positions_itself(name: str, pycandle, tmp_path) -> None:
    record(dataclasses.replace(ENTRIES[name], inputs=models.tokens), tmp_path)
    expect_proven(tmp_path, pycandle)


@pytest.mark.parametrize("name", ["bert", *full(REFUSED)])
def test_a_model_that_sees_later_tokens_is_refused(name: str, pycandle, tmp_path) -> None:
    record(ENTRIES[name], tmp_path)
    error = pycandle("verify", tmp_path, "--decode", status=1).stderr
    assert "no decode step can be derived" in error
    assert ".py:" in error, "the line is named"


def recorded(model: torch.nn.Module, folder: Path) -> Path:
    recorder = GoldenRecorder(folder)
    recorder.record(model.eval(), torch.randint(0, VOCABULARY, (2, 9)))
    recorder.save("model")
    return folder


@pytest.mark.parametrize("name", CAUSAL)
def test_the_step_carries_states_and_last_inputs(name: str, pycandle, tmp_path) -> None:
    recorded(CAUSAL[name](), tmp_path)
    for backend in ("reference", "cpu"):
        proof = pycandle.json("verify", tmp_path, "--decode", "--backend", backend)
        assert proof["passed"], proof
        assert proof["caches"], "something is carried from token to token"


ALWAYS = (SeesOneMore, LooksAhead)


@pytest.mark.parametrize("model", [*ALWAYS, *full([model for model in NOT_CAUSAL if model not in ALWAYS])])
def test_a_layer_in_which_a_token_sees_later_ones_is_refused(model, pycandle, tmp_path) -> None:
    recorded(model(), tmp_path)
    error = pycandle("verify", tmp_path, "--decode", status=1).stderr
    assert f"no decode step can be derived: {NOT_CAUSAL[model]}" in error
    assert "causal_models.py:" in error, "the line is named"
