"""`load_decoder`: a transformers model that generates token by token, as a user drives it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from causal_models import CAUSAL, VOCABULARY
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import pycandle as pc

TINY = {"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}


def recorded(model: torch.nn.Module, folder, **inputs: torch.Tensor):
    recorder = pc.GoldenRecorder(folder)
    recorder.record(model.eval(), **inputs)
    recorder.save("model")
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**TINY, num_attention_heads=4, num_key_value_heads=2)).eval()
    folder = recorded(model, tmp_path_factory.mktemp("llama"), input_ids=torch.randint(0, VOCABULARY, (2, 7)))
    return model, folder


def whole(model: torch.nn.Module, tokens: list[int]) -> np.ndarray:
    """The logits of every position."""
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def agree(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_greedy_decoding_is_that_of_transformers(llama, backend: str) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder, backend)
    prompt = [3, 1, 4, 1, 5]
    theirs = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False, eos_token_id=None)[
        0
    ].tolist()
    cache = decoder.new_cache(capacity=32)
    out = decoder.step(cache, np.array([prompt]))["output.logits"]
    tokens = list(prompt)
    for _ in range(12):
        tokens.append(int(out[0, -1].argmax()))
        out = decoder.step(cache, np.array([tokens[-1:]]))["output.logits"]
    assert tokens == theirs
    assert cache.lengths == [17]


def test_only_the_last_tokens_logits_are_given_where_these_are_wanted(llama) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder)
    cache = decoder.new_cache(batch=2, capacity=16)
    out = decoder.step(cache, np.array([[3, 1, 4, 1], [5, 9, 0, 0]]), counts=[4, 2], last=True)[
        "output.logits"
    ]
    assert out.shape == (2, 1, VOCABULARY)
    agree(out[0, 0], whole(model, [3, 1, 4, 1])[-1])
    agree(out[1, 0], whole(model, [5, 9])[-1])
    cache = decoder.new_cache(capacity=16)
    out = decoder.step(cache, np.array([[3, 1, 4, 1]]), last=True)["output.logits"]
    assert out.shape == (1, 1, VOCABULARY)
    agree(out[0, 0], whole(model, [3, 1, 4, 1])[-1])


def test_sequences_of_different_lengths_share_a_batch(llama) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder)
    cache = decoder.new_cache(batch=2, capacity=16)
    out = decoder.step(cache, np.array([[3, 1, 4, 1], [5, 9, 0, 0]]), counts=[4, 2])["output.logits"]
    agree(out[0], whole(model, [3, 1, 4, 1]))
    agree(out[1, :2], whole(model, [5, 9]))
    out = decoder.step(cache, np.array([[7], [8]]))["output.logits"]
    assert cache.lengths == [5, 3]
    agree(out[0, 0], whole(model, [3, 1, 4, 1, 7])[-1])
    agree(out[1, 0], whole(model, [5, 9, 8])[-1])


def test_a_cache_is_forked_truncated_saved_and_resized(llama, tmp_path) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder)
    cache = decoder.new_cache(capacity=8)
    decoder.step(cache, torch.tensor([[3, 1, 4]]))
    beams = cache.fork([0, 0])
    out = decoder.step(beams, torch.tensor([[7], [8]]))["output.logits"]
    assert isinstance(out, torch.Tensor)
    agree(out[1, 0].numpy(), whole(model, [3, 1, 4, 8])[-1])
    assert cache.lengths == [3] and beams.lengths == [4, 4]

    beams.truncate(0, 2)
    beams.save(tmp_path / "cache.safetensors")
    again = pc.load_decoder(folder).load_cache(tmp_path / "cache.safetensors")
    assert again.lengths == [2, 4] and again.capacity == 8
    again = decoder.resized(again, 20)
    out = decoder.step(again, np.array([[6], [6]]))["output.logits"]
    agree(out[0, 0], whole(model, [3, 1, 6])[-1])
    agree(out[1, 0], whole(model, [3, 1, 4, 8, 6])[-1])


GOES_ON = """
import sys
import numpy as np
import pycandle as pc
decoder = pc.load_decoder(sys.argv[1])
cache = decoder.load_cache(sys.argv[2])
np.save(sys.argv[3], decoder.step(cache, np.array([[1], [5]]))["output.logits"])
"""


def test_another_process_goes_on_from_a_saved_cache(llama, tmp_path) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder)
    cache = decoder.new_cache(batch=2, capacity=8)
    decoder.step(cache, np.array([[3, 1, 4], [2, 7, 0]]), counts=[3, 2])
    saved, given = tmp_path / "cache.safetensors", tmp_path / "given.npy"
    cache.save(saved)
    subprocess.run([sys.executable, "-c", GOES_ON, folder, saved, given], check=True)
    agree(np.load(given)[0, 0], whole(model, [3, 1, 4, 1])[-1])
    agree(np.load(given)[1, 0], whole(model, [2, 7, 5])[-1])


def test_a_prompt_starts_behind_what_it_shares_with_another(llama) -> None:
    model, folder = llama
    decoder = pc.load_decoder(folder)
    store = decoder.prefix_store()
    cache, known = store.start([3, 1, 4, 1], capacity=16)
    assert known == 0
    decoder.step(cache, np.array([[3, 1, 4, 1]]))
    store.keep(cache, [3, 1, 4, 1])
    cache, known = store.start([3, 1, 4, 9, 2], capacity=16)
    assert known == 3 and len(store) == 1
    out = decoder.step(cache, np.array([[9, 2]]))["output.logits"]
    agree(out[0], whole(model, [3, 1, 4, 9, 2])[3:])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_cache_has_half_the_bytes(llama, dtype: str, pycandle) -> None:
    model, folder = llama
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    wide, narrow = pc.load_decoder(folder), pc.load_decoder(folder, cache=dtype)
    cache = narrow.new_cache(capacity=8)
    assert cache.bytes * 2 == wide.new_cache(capacity=8).bytes
    steps = [narrow.step(cache, np.array([[token]]))["output.logits"][0] for token in tokens]
    difference = np.abs(np.concatenate(steps) - whole(model, tokens)).max()
    assert 0 < difference < 0.02, "rounded to 16 bits, and no more than that"
    for backend in ("reference", "cpu"):
        assert pycandle.json("verify", folder, "--decode", "--cache", dtype, "--backend", backend)["passed"]


def test_an_encoder_runs_once(tmp_path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=1)).eval()
    source = torch.randint(0, VOCABULARY, (2, 6))
    target = torch.randint(0, VOCABULARY, (2, 9))
    recorded(model, tmp_path, input_ids=source, decoder_input_ids=target[:, :4])
    decoder = pc.load_decoder(tmp_path)
    assert decoder.inputs == ["decoder_input_ids"]
    cache = decoder.new_cache(batch=2, capacity=9, input_ids=source)
    steps = [decoder.step(cache, target[:, i : i + 3])["output.logits"] for i in (0, 3, 6)]
    with torch.no_grad():
        theirs = model(input_ids=source, decoder_input_ids=target).logits
    agree(torch.cat(steps, 1).numpy(), theirs.numpy())


def test_a_recurrent_model_goes_on_where_it_was(tmp_path) -> None:
    torch.manual_seed(0)
    model = CAUSAL["lstm"]().eval()
    tokens = torch.randint(0, VOCABULARY, (2, 8))
    recorded(model, tmp_path, tokens=tokens)
    decoder = pc.load_decoder(tmp_path)
    cache = decoder.new_cache(batch=2, capacity=8)
    steps = [decoder.step(cache, tokens[:, i : i + 2])["output"] for i in range(0, 8, 2)]
    agree(torch.cat(steps, 1).numpy(), model(tokens).detach().numpy())


def test_what_cannot_be_is_said(llama, tmp_path) -> None:
    decoder = pc.load_decoder(llama[1])
    cache = decoder.new_cache(capacity=3)
    decoder.step(cache, np.array([[3, 1]]))
    with pytest.raises(pc.Error, match="the cache is full"):
        decoder.step(cache, np.array([[3, 1]]))
    assert cache.lengths == [2]
    with pytest.raises(pc.Error, match="f32, bf16 or f16"):
        pc.load_decoder(llama[1], cache="int3")
    with pytest.raises(pc.Error, match="truncated"):
        cache.truncate(0, 5)
    with pytest.raises(pc.Error, match="no such sequence"):
        cache.fork([1])
    bert = BertModel(BertConfig(**TINY, num_attention_heads=4))
    recorded(bert, tmp_path, input_ids=torch.randint(0, VOCABULARY, (2, 7)))
    with pytest.raises(pc.Error, match="attention is not causal"):
        pc.load_decoder(tmp_path)
