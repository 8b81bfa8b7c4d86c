"""The examples with language models: a small one that is trained here, and a real one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from terminals import on_terminal, screen

import pycandle as pc

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.full
def test_a_gpt_is_trained_and_its_emitted_code_writes_on(tmp_path) -> None:
    lines = [
        f"ROMEO.\nThe {word} of the house, and of the night {i}.\n"
        for i in range(900)
        for word in ("king", "day")
    ]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "play_gut.txt").write_text("".join(lines))
    options = ["--seconds", "3", "--texts", tmp_path / "texts", "--out", tmp_path / "out"]
    command = [sys.executable, EXAMPLES / "shakespeare" / "run.py", *options]
    shown = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    written = shown[shown.rindex("ROMEO.\n") :]
    assert "decode.hpp" in shown and len(written) > 40
    program = tmp_path / "out" / "build" / "shakespeare"
    refused = subprocess.run(
        [program, tmp_path, tmp_path / "none.json", "x"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and refused.stderr.startswith("error: ")


@pytest.mark.full
def test_smollm2_writes_what_transformers_does(tmp_path, monkeypatch) -> None:
    """Real weights, 200 greedy tokens, with its tokenizer and chat template from the GGUF file."""
    subprocess.run([ROOT / "scripts" / "setup.sh", "smollm2"], check=True)
    monkeypatch.syspath_prepend(EXAMPLES)
    from smollm2 import gguf_file, smollm2

    model = smollm2()
    recorder = pc.GoldenRecorder(tmp_path)
    recorder.record(model, input_ids=torch.tensor([[504, 3575, 282, 4649, 314]]), use_cache=False)
    recorder.save("smollm2")
    convert = [sys.executable, "-m", "pycandle.gguf_tokenizer", gguf_file(), tmp_path]
    subprocess.run(convert, check=True)
    ours = pc.load_model(tmp_path, tokenizer=tmp_path / "tokenizer.json")
    assert ours.generate("The capital of France is", max_tokens=2).text == " Paris."
    for text in ("The capital of France is", "Once upon a time, in a village by the sea,"):
        prompt = ours.tokenizer.encode(text).ids
        out = model.generate(torch.tensor([prompt]), max_new_tokens=200, do_sample=False, eos_token_id=None)
        assert ours.generate_tokens(prompt, max_tokens=200, ignore_end=True) == out[0].tolist()[len(prompt) :]
    template = pc.ChatTemplate.from_config(tmp_path / "tokenizer_config.json")
    chat = template.render(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True
    )
    ids = ours.tokenizer.encode(chat, add_special_tokens=False).ids
    assert "Paris" in ours.tokenizer.decode(ours.generate_tokens(ids, max_tokens=20))


@pytest.mark.full
def test_minilm_embeds_as_sentence_transformers_does(tmp_path, monkeypatch, pycandle) -> None:
    """Its real weights and tokenizer; the formula is the one of its configuration: the mean over words, at unit length."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from minilm import SENTENCES, SentenceEncoder, get_model_path, tokenize

    encoder = SentenceEncoder().eval()
    recorder = pc.GoldenRecorder(tmp_path)
    recorder.record(encoder.bert, **tokenize(SENTENCES[:2]))
    recorder.save("minilm")
    bundle = tmp_path / "minilm.pycandle"
    pycandle("bundle", tmp_path, "--tokenizer", Path(get_model_path()) / "tokenizer.json", "--out", bundle)
    with torch.no_grad():
        expected = encoder(**tokenize(SENTENCES)).numpy()
    ours = pc.load_model(bundle).embed(SENTENCES, pool="mean", normalize=True)
    assert abs(ours - expected).max() < 1e-5
    texts = [word for sentence in SENTENCES for word in ("--text", sentence)]
    shown = pycandle.json("embed", bundle, *texts, "--pool", "mean", "--normalize")["embeddings"]
    assert abs(np.array([each["embedding"] for each in shown]) - expected).max() < 1e-5


@pytest.mark.full
def test_each_step_of_the_demo_fits_a_screen() -> None:
    """As `make demo` runs it, on a terminal of 80 columns and 24 rows."""
    subprocess.run([ROOT / "scripts" / "setup.sh", "smollm2"], check=True)
    shown = "\n".join(screen(on_terminal([sys.executable, EXAMPLES / "demo.py"])))
    steps = re.split(r"(?m)^(?=\d+\. [A-Z])", shown)[1:]
    rows = {
        step.splitlines()[0]: sum(max(1, -(-len(line) // 80)) for line in step.strip().splitlines())
        for step in steps
    }
    assert [title.partition(".")[0] for title in rows] == [str(i + 1) for i in range(len(rows))]
    assert len(rows) >= 8 and "Open the page" in steps[-1], shown
    assert max(rows.values()) <= 24, rows
