"""Bundles: what is made, what is opened, what is refused, and that several threads get the same."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import PYCANDLE
from hostile_bundles import HOSTILE, hostile_files, seal
from memory import peaks_of
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import pycandle as pc

VOCABULARY = 300
SENTENCES = ["the house on the hill", "a hill behind the house", "the river and the hills"]


def trained_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES * 10, trainer)
    return tokenizer


def recorded(model: torch.nn.Module, folder, **inputs: torch.Tensor):
    recorder = pc.GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(model.eval(), **inputs)
    recorder.save("model")
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    folder = tmp_path_factory.mktemp("llama")
    recorded(model, folder, input_ids=torch.randint(0, VOCABULARY, (2, 7)))
    trained_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}", "eos_token": "</s>"}
        )
    )
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    return model, folder


@pytest.fixture(scope="module")
def bundle(llama, pycandle, tmp_path_factory):
    """A folder with everything."""
    _, folder = llama
    out = tmp_path_factory.mktemp("bundle") / "model.pycandle"
    pycandle(
        "bundle", folder, "--tokenizer", folder / "tokenizer.json", "--tokenizer-config",
        folder / "tokenizer_config.json", "--generation-config", folder / "generation_config.json", "--out", out,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def single_file(llama, pycandle, tmp_path_factory):
    _, folder = llama
    out = tmp_path_factory.mktemp("single") / "model.pycandle"
    pycandle("bundle", folder, "--tokenizer", folder / "tokenizer.json", "--single-file", "--out", out)
    return out


def greedy(model, prompt: list[int], count: int) -> list[int]:
    cache = model.new_cache(capacity=64)
    tokens = list(prompt)
    out = model.step(cache, np.array([prompt]), last=True)
    for _ in range(count):
        tokens.append(int(np.argmax(out["output.logits"][0, -1])))
        out = model.step(cache, np.array([tokens[-1:]]), last=True)
    return tokens


def test_a_bundle_computes_what_the_recording_does(llama, bundle, single_file) -> None:
    _, folder = llama
    tokens = np.arange(12).reshape(2, 6)
    expected = pc.load_model(folder)(tokens)["output.logits"]
    for path in (bundle, single_file):
        np.testing.assert_array_equal(pc.load_model(path)(tokens)["output.logits"], expected)


def test_capabilities_are_those_that_were_proven(llama, bundle) -> None:
    _, folder = llama
    assert pc.load_model(bundle).capabilities == ["forward", "trace", "causal_lm"]
    assert pc.load_model(folder).capabilities == ["forward", "trace"]
    assert pc.load_model(bundle).kind.endswith("LlamaForCausalLM")
    head = json.loads((bundle / "bundle.json").read_text())["contents"]
    assert head["verification"]["decode"]["passed"] and head["verification"]["by"] == pc.__version__


def test_a_bundle_decodes_as_transformers_does(llama, bundle, single_file) -> None:
    model, _ = llama
    prompt = [3, 1, 4, 1, 5]
    theirs = model.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None)
    for path in (bundle, single_file):
        assert greedy(pc.load_model(path), prompt, 20) == theirs[0].tolist()


def test_a_bundle_has_its_tokenizer(llama, bundle) -> None:
    _, folder = llama
    ours, theirs = pc.load_model(bundle).tokenizer, trained_tokenizer()
    for sentence in [*SENTENCES, "Ünïcödé 🏠 <x>\n\n  1234", ""]:
        assert ours.encode(sentence).ids == theirs.encode(sentence).ids
        assert ours.decode(ours.encode(sentence).ids) == sentence
    assert pc.load_model(folder).tokenizer is None


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
def test_narrow_weights_are_small_and_those_of_the_option(llama, pycandle, tmp_path, weights: str) -> None:
    _, folder = llama
    pycandle("bundle", folder, "--weights", weights, "--out", tmp_path / "narrow")
    bits = {"bf16": 16, "int8": 8, "int4": 5}[weights]
    matrices = sum(
        int(np.prod(w["shape"])) for w in json.loads((tmp_path / "narrow/weights.json").read_text()).values()
    )
    assert (tmp_path / "narrow/weights.bin").stat().st_size < matrices * bits / 8 * 1.2 + 4096
    tokens = np.arange(6).reshape(1, 6)
    np.testing.assert_allclose(
        pc.load_model(tmp_path / "narrow")(tokens)["output.logits"],
        pc.load_model(folder, weights=weights)(tokens)["output.logits"],
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.full
def test_narrow_weights_are_never_wide_all_at_once(pycandle, tmp_path) -> None:
    """A text needs less memory than the weights in f32."""
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 3, "num_attention_heads": 8}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes))
    recorded(model, tmp_path, input_ids=torch.randint(0, VOCABULARY, (1, 5)))
    trained_tokenizer().save(str(tmp_path / "tokenizer.json"))
    made = tmp_path / "model.pycandle"
    for weights, bytes_of_one in (("bf16", 2), ("int8", 1)):
        options = ["--tokenizer", tmp_path / "tokenizer.json", "--weights", weights, "--single-file"]
        pycandle("bundle", tmp_path, *options, "--out", made)
        assert made.stat().st_size < 1.1 * bytes_of_one * sum(p.numel() for p in model.parameters())
        text = ["--prompt", "the house", "--max-tokens", 6, "--kv-cache-capacity", 64, "--threads", 1]
        peak = max(peaks_of([PYCANDLE, "generate", made, *text]).values())
        cache = 3 * 2 * 64 * 1024 * 4
        assert peak < 4 * sum(p.numel() for p in model.parameters()), f"{weights}: {peak / 1e6:.0f} MB"
        if weights == "bf16":
            assert peak < made.stat().st_size + cache + 64e6, f"{weights}: {peak / 1e6:.0f} MB"


def test_verify_and_doctor_read_the_weights(bundle, pycandle, tmp_path) -> None:
    assert "is what was verified" in pycandle("verify", bundle).stdout
    assert pycandle.json("doctor", bundle)["status"] == "fine"
    pycandle("verify", bundle, "--decode", "--backend", "cpu")
    pycandle("verify", bundle, "--backend", "cpu", "--against", "reference")
    damaged = tmp_path / "damaged"
    shutil.copytree(bundle, damaged)
    raw = bytearray((damaged / "weights.bin").read_bytes())
    raw[len(raw) // 2] ^= 0x40
    (damaged / "weights.bin").write_bytes(raw)
    pc.load_model(damaged)  # mapped, not read
    assert "DAMAGED" in pycandle("verify", damaged, status=1).stdout
    assert pycandle.json("doctor", damaged, status=1)["status"] == "damaged"
    with pytest.raises(pc.Error, match="not the recorded ones"):
        pc.load_model(damaged, check_weights=True)


def test_other_commands_take_a_bundle(bundle, single_file, pycandle, tmp_path) -> None:
    for path in (bundle, single_file):
        assert pycandle.json("inspect", path)["nodes"] > 0
        pycandle("inspect", path, "--decode")
        pycandle("forward", path, "--param-budget", "100kB")
        pycandle("trace", path, "--out", tmp_path / "taps.safetensors")
    pycandle("codegen", "--manifest", bundle, "--out", tmp_path / "x")


def test_a_bundle_is_replaced_whole_and_nothing_else_is(llama, bundle, pycandle, tmp_path) -> None:
    _, folder = llama
    out = tmp_path / "again"
    pycandle("bundle", folder, "--out", out)
    pycandle("bundle", folder, "--tokenizer", folder / "tokenizer.json", "--out", out)
    assert (out / "tokenizer.bin").exists() and [p.name for p in tmp_path.iterdir()] == ["again"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years")
    assert "is not a bundle" in pycandle("bundle", folder, "--out", tmp_path / "mine", status=2).stderr
    assert (tmp_path / "mine/thesis.txt").exists()
    same = tmp_path / "same"
    pycandle("bundle", folder, "--tokenizer", folder / "tokenizer.json", "--out", same)
    for file in sorted(same.iterdir()):
        assert file.read_bytes() == (out / file.name).read_bytes(), f"{file.name} is not deterministic"


def test_tensors_of_one_file_are_aligned(single_file, bundle) -> None:
    raw = single_file.read_bytes()
    offset, size = np.frombuffer(raw[-40:-24], np.uint64).tolist()
    sections = json.loads(raw[offset : offset + size])
    table = json.loads(raw[slice(sections["weights.json"][0], sum(sections["weights.json"]))])
    base = sections["weights.bin"][0]
    assert all((base + w["offset"]) % 64 == 0 for w in table.values())


def test_a_bundle_that_is_sealed_again_unchanged_opens(bundle, tmp_path) -> None:
    """So that what refuses the hostile ones below is not a hash that the test computes otherwise."""
    shutil.copytree(bundle, tmp_path / "same")
    seal(tmp_path / "same")
    assert greedy(pc.load_model(tmp_path / "same"), [1, 2, 3], 2)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_bundle_is_one_clear_error(bundle, tmp_path, name: str) -> None:
    folder = tmp_path / "hostile.pycandle"
    shutil.copytree(bundle, folder)
    HOSTILE[name](folder)
    with pytest.raises(pc.Error) as caught:
        model = pc.load_model(folder)
        assert model.tokenizer.encode("the house").ids
        greedy(model, [1, 2, 3], 2)
    assert "internal" not in str(caught.value) and str(caught.value).strip()


def test_a_hostile_file_is_one_clear_error(single_file, tmp_path, pycandle) -> None:
    for name, raw in hostile_files(single_file.read_bytes()).items():
        (tmp_path / "hostile").write_bytes(raw)
        finished = pycandle("forward", tmp_path / "hostile", status=2)
        assert finished.stderr.count("error:") == 1, name


def test_at_least_forty_are_tried() -> None:
    assert len(HOSTILE) + len(hostile_files(bytes(200))) >= 50


def test_a_thousand_requests_of_eight_threads_give_what_one_gives(bundle) -> None:
    model = pc.load_model(bundle, threads=1)
    prompts = [[1 + i % 7, 2 + i % 11, 3] for i in range(77)]
    alone = [greedy(model, prompt, 3) for prompt in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda i: greedy(model, prompts[i % 77], 3), range(1000)))
    assert together == [alone[i % 77] for i in range(1000)]


# ---- embeddings


@pytest.fixture(scope="module")
def bert(pycandle, tmp_path_factory):
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    folder = tmp_path_factory.mktemp("bert")
    ids = torch.randint(0, VOCABULARY, (2, 7))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    recorded(model, folder, input_ids=ids, attention_mask=mask)
    trained_tokenizer().save(str(folder / "tokenizer.json"))
    out = folder / "bert.pycandle"
    pycandle("bundle", folder, "--tokenizer", folder / "tokenizer.json", "--single-file", "--out", out)
    return model, folder, out


def pooled(model, texts: list[str], pool: str, normalize: bool) -> np.ndarray:
    """The formula of sentence-transformers, one text at a time."""
    rows = []
    for text in texts:
        ids = torch.tensor([trained_tokenizer().encode(text).ids])
        with torch.no_grad():
            hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
        row = hidden.mean(0) if pool == "mean" else hidden[0]
        rows.append(torch.nn.functional.normalize(row, dim=0) if normalize else row)
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("pool", ["mean", "cls"])
@pytest.mark.parametrize("normalize", [True, False])
def test_embeddings_are_pooled_as_sentence_transformers_does(bert, pool: str, normalize: bool) -> None:
    model, _, bundle = bert
    ours = pc.load_model(bundle)
    assert ours.capabilities == ["forward", "trace", "embedding"]
    np.testing.assert_allclose(
        ours.embed(SENTENCES, pool=pool, normalize=normalize),
        pooled(model, SENTENCES, pool, normalize),
        rtol=1e-4,
        atol=1e-5,
    )


def test_embed_on_the_command_line(bert, pycandle, tmp_path) -> None:
    model, folder, bundle = bert
    (tmp_path / "texts").write_text("\n".join(SENTENCES) + "\n")
    expected = pooled(model, SENTENCES, "mean", True)
    for source in ([bundle], [folder, "--tokenizer", folder / "tokenizer.json"]):
        said = pycandle.json("embed", *source, "--file", tmp_path / "texts", "--normalize")
        assert [e["text"] for e in said["embeddings"]] == SENTENCES
        np.testing.assert_allclose(
            [e["embedding"] for e in said["embeddings"]], expected, rtol=1e-4, atol=1e-5
        )
    out = tmp_path / "out.safetensors"
    pycandle("embed", bundle, "--text", SENTENCES[0], "--text", SENTENCES[1], "--pool", "cls", "--out", out)
    from safetensors.numpy import load_file

    np.testing.assert_allclose(
        load_file(out)["embeddings"], pooled(model, SENTENCES[:2], "cls", False), rtol=1e-4, atol=1e-5
    )


def test_a_model_that_is_no_embedding_model_says_so(bundle, pycandle) -> None:
    assert "there is no text" in pycandle("embed", bundle, status=2).stderr
