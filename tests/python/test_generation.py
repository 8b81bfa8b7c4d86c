"""Text from language models: what transformers generates, token for token, and what it samples, in distribution."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from generating_models import ARCHITECTURES, END, VOCABULARY, make, record, train_tokenizer
from safetensors.torch import save_file
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.generation import logits_process as generation

import pycandle as pc

FEW = ("llama", "t5")
PROMPT = [5, 17, 250, 9, 31]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(tmp_path_factory.mktemp("text") / "tokenizer.json")


@pytest.fixture(scope="module")
def llama(tmp_path_factory, tokenizer):
    """The model in torch, and in ours."""
    model = make("llama")
    folder = record(model, tmp_path_factory.mktemp("llama"))
    return model, pc.load_model(folder, tokenizer=tokenizer)


def theirs(model: torch.nn.Module, prompt: list[int], **options) -> list[int]:
    given = torch.tensor([prompt])
    out = model.generate(given, attention_mask=torch.ones_like(given), eos_token_id=None, **options)[0]
    return out.tolist()[1 if model.config.is_encoder_decoder else len(prompt) :]


def until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END)] if END in tokens else tokens


def next_logits(model: torch.nn.Module, prompt: list[int], text: list[int]) -> torch.Tensor:
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            decoder = torch.tensor([[model.config.decoder_start_token_id, *text]])
            return model(input_ids=torch.tensor([prompt]), decoder_input_ids=decoder).logits[0, -1]
        return model(torch.tensor([prompt + text])).logits[0, -1]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FEW else [pytest.mark.full]) for n in ARCHITECTURES]
)
def test_greedy_text_is_that_of_transformers_over_200_tokens(name: str, tmp_path) -> None:
    model = make(name)
    ours = pc.load_model(record(model, tmp_path))
    expected = theirs(model, PROMPT, max_new_tokens=200, do_sample=False)
    got = ours.generate_tokens(PROMPT, max_tokens=200, ignore_end=True)
    assert len(got) == 200 and len(set(got)) > 2, "a text, not one token again and again"
    if got != expected:
        at = next(i for i in range(200) if got[i] != expected[i])
        logits = next_logits(model, PROMPT, expected[:at])
        gap = abs(logits[got[at]] - logits[expected[at]]) / logits.abs().max()
        assert gap < 1e-5, (
            f"token {at}: {got[at]}, not {expected[at]}; logits differ by {gap:.1e} of the largest"
        )
        print(f"{name}: logits tie at token {at}")


# ---- sampling


PROCESSORS = {
    "temperature": ({"temperature": 0.7}, [generation.TemperatureLogitsWarper(0.7)]),
    "top_k": ({"top_k": 7}, [generation.TopKLogitsWarper(7)]),
    "top_p": ({"top_p": 0.6}, [generation.TopPLogitsWarper(0.6)]),
    "min_p": ({"min_p": 0.2}, [generation.MinPLogitsWarper(0.2)]),
    "repetition": ({"repetition_penalty": 1.7}, [generation.RepetitionPenaltyLogitsProcessor(1.7)]),
    "bias": ({"logit_bias": {40: 3.0, 9: -1.5}}, [generation.SequenceBiasLogitsProcessor({(40,): 3.0, (9,): -1.5})]),
    "all": (
        {"logit_bias": {40: 3.0}, "repetition_penalty": 1.3, "temperature": 1.4, "top_k": 60, "top_p": 0.9, "min_p": 0.05},
        [
            generation.SequenceBiasLogitsProcessor({(40,): 3.0}),
            generation.RepetitionPenaltyLogitsProcessor(1.3),
            generation.TemperatureLogitsWarper(1.4),
            generation.TopKLogitsWarper(60),
            generation.TopPLogitsWarper(0.9),
            generation.MinPLogitsWarper(0.05),
        ],
    ),
}  # fmt: skip


def agrees(draws: list[int], expected: np.ndarray) -> None:
    """Chi-squared: tokens that are drawn fewer than five times on average are counted together."""
    counts = np.bincount(draws, minlength=len(expected)).astype(float)
    assert counts[expected == 0].sum() == 0, "a token was drawn that is left out"
    wanted = expected * len(draws)
    rare = wanted < 5
    seen, wanted = np.append(counts[~rare], counts[rare].sum()), np.append(wanted[~rare], wanted[rare].sum())
    kept = wanted > 0
    assert kept.sum() > 3
    statistic = ((seen[kept] - wanted[kept]) ** 2 / wanted[kept]).sum()
    # Wilson and Hilferty: the cube root is close to normal.
    spread = 2 / (9 * (kept.sum() - 1))
    deviations = ((statistic / (kept.sum() - 1)) ** (1 / 3) - (1 - spread)) / spread**0.5
    assert deviations < 4, "once in 30,000 runs of another seed"


def draws_of(ours: pc.Model, prompt: list[int], seed: int, **options) -> list[int]:
    texts = ours.generate_all([prompt], samples=10_000, max_tokens=1, seed=seed, ignore_end=True, **options)
    return [text.tokens[0] for text in texts]


@pytest.mark.parametrize("name", PROCESSORS)
def test_10000_draws_follow_the_distribution_of_transformers(name: str, llama) -> None:
    model, ours = llama
    options, processors = PROCESSORS[name]
    scores = next_logits(model, PROMPT, [])[None]
    for processor in processors:
        scores = processor(torch.tensor([PROMPT]), scores)
    agrees(draws_of(ours, PROMPT, seed=3, **options), scores.softmax(-1)[0].double().numpy())


def test_10000_draws_follow_presence_and_frequency_penalties(llama) -> None:
    """They count what was generated: the second token is looked at, behind the first token that was drawn most."""
    model, ours = llama
    options = {"presence_penalty": 1.5, "frequency_penalty": 0.75, "temperature": 0.25}
    texts = ours.generate_all([PROMPT], samples=10_000, max_tokens=2, seed=5, ignore_end=True, **options)
    pairs = [tuple(text.tokens) for text in texts]
    first = max({pair[0] for pair in pairs}, key=[pair[0] for pair in pairs].count)
    scores = next_logits(model, PROMPT, [first])
    scores[first] -= 1.5 + 0.75
    seconds = [second for before, second in pairs if before == first]
    assert len(seconds) > 1000
    agrees(seconds, (scores / 0.25).softmax(-1).double().numpy())


def test_a_seed_gives_the_same_text_and_another_one_another(llama) -> None:
    _, ours = llama
    texts = [ours.generate_tokens(PROMPT, max_tokens=30, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


# ---- batches, samples, ends


def test_a_batch_of_prompts_of_different_lengths_is_one_by_one(llama) -> None:
    _, ours = llama
    prompts = [PROMPT, [7], [300, 4, 250, 9, 31, 17, 5, 5, 60], [12, 13]]
    for options in ({}, {"seed": 4, "temperature": 1.2}):
        together = [t.tokens for t in ours.generate_all(prompts, max_tokens=40, **options)]
        assert together == [ours.generate_tokens(p, max_tokens=40, **options) for p in prompts]
        assert [t.tokens for t in ours.generate_all(prompts, max_tokens=40, batch=2, **options)] == together


def test_samples_of_one_prompt_are_those_of_a_prompt_run_alone(llama) -> None:
    _, ours = llama
    several = [t.tokens for t in ours.generate_all([PROMPT, [7]], samples=3, max_tokens=20, seed=9)]
    assert len({tuple(t) for t in several}) > 1
    assert several[:3] == [t.tokens for t in ours.generate_all([PROMPT], samples=3, max_tokens=20, seed=9)]
    assert several[0] == ours.generate_tokens(PROMPT, max_tokens=20, seed=9)


def test_an_end_token_ends_the_text_and_is_not_in_it(llama) -> None:
    _, ours = llama
    whole = ours.generate_tokens(PROMPT, max_tokens=30, ignore_end=True)
    end = next(token for token in whole[5:] if token not in whole[:5])
    text = ours.generate(PROMPT, max_tokens=30, ignore_end=True, stop_tokens=[end])
    assert text.tokens == whole[: whole.index(end)]
    assert text.finish == "stop"
    biased = ours.generate(PROMPT, max_tokens=30, logit_bias={END: 1000})
    assert biased.tokens == [] and biased.finish == "stop", "the class's own end token is known"


def test_stop_texts_end_the_text_and_no_part_of_them_is_streamed(llama, tokenizer) -> None:
    _, ours = llama
    whole = ours.generate("the house", max_tokens=60, ignore_end=True).text
    for at, size in ((10, 1), (7, 3), (15, 8)):
        stop = whole[at : at + size]
        text = ours.generate("the house", max_tokens=60, ignore_end=True, stop=["never seen", stop])
        pieces = list(text)
        assert "".join(pieces) == text.text == whole[: whole.index(stop)]
        assert text.finish == "stop"
    long = ours.generate("the house", max_tokens=60, ignore_end=True, stop=[whole[-3:] + "x"])
    assert long.text == whole and long.finish == "length", "what may begin a stop text is given at the end"


def test_pieces_hold_whole_characters_and_make_up_the_text(llama, tokenizer) -> None:
    _, ours = llama
    decoded = pc.Tokenizer.from_file(tokenizer)
    for seed in range(5):
        text = ours.generate("the 🏠", max_tokens=80, seed=seed, temperature=2.0, ignore_end=True)
        pieces = list(text)
        assert "".join(pieces) == text.text == decoded.decode(text.tokens)
        assert len(pieces) > 1


def test_log_probabilities_are_those_of_the_model(llama) -> None:
    model, ours = llama
    text = ours.generate(
        PROMPT, max_tokens=8, seed=2, temperature=3.0, log_probabilities=True, alternatives=3
    )
    for i, (token, found) in enumerate(zip(text.tokens, text.log_probabilities, strict=True)):
        expected = next_logits(model, PROMPT, text.tokens[:i]).log_softmax(-1)
        assert found == pytest.approx(float(expected[token]), abs=1e-4)
        values, indices = expected.topk(3)
        assert [a for a, _ in text.alternatives[i]] == indices.tolist()
        assert [b for _, b in text.alternatives[i]] == pytest.approx(values.tolist(), abs=1e-4)


def test_logits_and_forward_tokens_are_the_forward_pass(llama) -> None:
    model, ours = llama
    with torch.no_grad():
        expected = model(torch.tensor([PROMPT])).logits[0].numpy()
    np.testing.assert_allclose(ours.logits(PROMPT), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.logits(PROMPT, last=True), expected[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        ours.forward_tokens(PROMPT)["output.logits"][0], expected, rtol=1e-4, atol=1e-5
    )


# ---- the same text by other means


def test_without_a_cache_the_text_is_the_same(llama) -> None:
    _, ours = llama
    for options in ({}, {"seed": 6}):
        with_cache = [t.tokens for t in ours.generate_all([PROMPT, [7, 8]], max_tokens=25, **options)]
        assert [
            t.tokens for t in ours.generate_all([PROMPT, [7, 8]], max_tokens=25, kv_cache=False, **options)
        ] == with_cache


@pytest.fixture(scope="module")
def drafts(tmp_path_factory, llama):
    """The same program with other weights: one that guesses badly, and one that guesses well, with a little noise."""
    folder = tmp_path_factory.mktemp("drafts")
    torch.manual_seed(5)
    loaded = []
    for name, noise in (("bad", 1.0), ("good", 0.02)):
        weights = {
            n: t + noise * t.std() * torch.randn_like(t)
            for n, t in llama[0].state_dict().items()
            if t.ndim > 1
        }
        save_file({**llama[0].state_dict(), **weights}, folder / f"{name}.safetensors")
        loaded.append(pc.load_model(llama[1]._opened["path"], checkpoint=folder / f"{name}.safetensors"))
    return loaded


@pytest.mark.parametrize(
    "options", [{}, {"seed": 3, "temperature": 0.8, "repetition_penalty": 1.2}], ids=["greedy", "sampled"]
)
def test_guesses_change_nothing(llama, drafts, options) -> None:
    _, ours = llama
    prompts = [PROMPT, [7, 8, 9, 7, 8, 9, 7]]
    plain = [t.tokens for t in ours.generate_all(prompts, max_tokens=60, ignore_end=True, **options)]
    for draft in (*drafts, "lookup"):
        texts = ours.generate_all(prompts, max_tokens=60, ignore_end=True, draft=draft, **options)
        assert [t.tokens for t in texts] == plain
    good = ours.generate(PROMPT, max_tokens=60, ignore_end=True, draft=drafts[1], **options).counts
    assert good["drafted"] > good["accepted"] > (0 if options else 10)
    assert good["steps"] == 59 - good["accepted"], "a step for each token that was not guessed"


def test_a_prompt_goes_on_from_the_kept_text(llama) -> None:
    _, ours = llama
    first = ours.generate_tokens(PROMPT, max_tokens=20, keep_prefix=True, ignore_end=True)
    longer = [*PROMPT, *first, 44, 45]
    assert ours.generate_tokens(
        longer, max_tokens=20, keep_prefix=True, ignore_end=True
    ) == ours.generate_tokens(longer, max_tokens=20, ignore_end=True)


@pytest.mark.parametrize(
    "name",
    ["llama", pytest.param("t5", marks=pytest.mark.full), pytest.param("bart", marks=pytest.mark.full)],
)
@pytest.mark.parametrize("penalty", [1.0, 0.5])
def test_beams_are_those_of_transformers(name: str, penalty: float, llama, tmp_path) -> None:
    model = llama[0] if name == "llama" else make(name)
    ours = llama[1] if name == "llama" else pc.load_model(record(model, tmp_path))
    for prompt in (PROMPT, [7, 8, 300, 12]):
        given = torch.tensor([prompt])
        out = model.generate(
            given, attention_mask=torch.ones_like(given), num_beams=4, num_return_sequences=3, max_new_tokens=24,
            do_sample=False, length_penalty=penalty, early_stopping=False, output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        skipped = 1 if model.config.is_encoder_decoder else len(prompt)
        expected = [until_end(row[skipped:].tolist()) for row in out.sequences]
        texts = ours.generate_all([prompt], beams=4, samples=3, max_tokens=24, length_penalty=penalty)
        assert [t.tokens for t in texts] == expected
        assert [t.score for t in texts] == pytest.approx(out.sequences_scores.tolist(), abs=1e-4)


def test_a_repetition_penalty_is_that_of_transformers_in_greedy_text(llama) -> None:
    model, ours = llama
    expected = theirs(model, PROMPT, max_new_tokens=60, do_sample=False, repetition_penalty=1.4)
    assert ours.generate_tokens(PROMPT, max_tokens=60, repetition_penalty=1.4, ignore_end=True) == expected


# ---- JSON


SCHEMAS = {
    "object": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer"},
            "size": {"type": "number"},
            "tags": {"type": "array", "items": {"enum": ["red", "grün", 3, None]}, "minItems": 1, "maxItems": 3},
            "alive": {"type": ["boolean", "null"]},
        },
        "required": ["name", "tags"],
        "additionalProperties": False,
    },
    "any": True,
    "tree": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
                "required": ["value"],
            }
        },
        "$ref": "#/$defs/node",
    },
    "choice": {"anyOf": [{"type": "string", "minLength": 3}, {"const": {"a": [1, 2.5]}}, {"type": "object"}]},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("count", [6, pytest.param(100, marks=pytest.mark.full)])
def test_text_with_a_schema_is_json_of_that_schema(name: str, count: int, llama) -> None:
    import jsonschema

    _, ours = llama
    schema = SCHEMAS[name]
    given = schema if isinstance(schema, dict) else json.dumps(schema)
    texts = []
    for seed in range(count):
        text = ours.generate("{", max_tokens=60 + seed, seed=seed, temperature=1.5, json_schema=given).text
        jsonschema.validate(json.loads(text), schema)
        texts.append(text)
    greedy = ours.generate("{", max_tokens=60, json_schema=given).text
    jsonschema.validate(json.loads(greedy), schema)
    assert len(set(texts)) > 1


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string", "pattern": "a+"}, "pattern in a JSON schema is not supported"),
        ({"oneOf": [{"type": "string"}]}, "oneOf in a JSON schema is not supported"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "a schema that is itself"),
        ({"$ref": "#/nowhere"}, "a \\$ref to nothing"),
        ({"type": "string", "minLength": 100}, "more tokens than there may be"),
        ("{", "JSON schema"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(schema, message: str, llama) -> None:
    with pytest.raises(pc.Error, match=message):
        _ = llama[1].generate("x", max_tokens=50, json_schema=schema).text


# ---- several threads, cancelling, errors


def test_threads_write_what_one_writes(llama) -> None:
    _, ours = llama
    expected = {seed: ours.generate_tokens(PROMPT, max_tokens=20, seed=seed) for seed in range(8)}
    found: dict[int, list] = {}

    def work(seed: int) -> None:
        found[seed] = [ours.generate_tokens(PROMPT, max_tokens=20, seed=seed) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: [tokens] * 3 for seed, tokens in expected.items()}


@pytest.mark.full
def test_1000_requests_of_8_threads_are_those_of_one_and_leave_nothing_behind(llama) -> None:
    _, ours = llama
    options = [
        {"seed": seed, "max_tokens": 12} if seed % 2 else {"max_tokens": 10 + seed, "draft": "lookup"}
        for seed in range(10)
    ]
    expected = [ours.generate_tokens(PROMPT, **each) for each in options]
    wrong: list[int] = []

    def work(thread: int) -> None:
        for i in range(thread, 1000, 8):
            if ours.generate_tokens(PROMPT, **options[i % 10]) != expected[i % 10]:
                wrong.append(i)

    def run() -> int:
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    first = run()
    assert run() - first < 8e6, "the second thousand needs no more memory than the first"
    assert wrong == []


@pytest.mark.full
def test_an_encoder_that_reads_sound_has_it_from_inputs(tmp_path) -> None:
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=VOCABULARY, d_model=32, num_mel_bins=8, max_source_positions=16, max_target_positions=64,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, decoder_start_token_id=3, bos_token_id=1, eos_token_id=END, pad_token_id=2,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    sound = torch.randn(2, 8, 32)
    recorder = pc.GoldenRecorder(tmp_path)
    recorder.record(model, input_features=sound, decoder_input_ids=torch.randint(3, VOCABULARY, (2, 5)))
    recorder.save("whisper")
    tokens = [3, 40, 41]
    for _ in range(12):
        with torch.no_grad():
            tokens.append(
                int(
                    model(input_features=sound[:1], decoder_input_ids=torch.tensor([tokens]))
                    .logits[0, -1]
                    .argmax()
                )
            )
    ours = pc.load_model(tmp_path)
    inputs = {"input_features": sound[:1].numpy()}
    assert ours.generate_tokens([40, 41], inputs=inputs, max_tokens=12, ignore_end=True) == tokens[3:]
    with pytest.raises(pc.Error, match="an input that is no token"):
        ours.generate_tokens([40, 41])


def test_a_text_is_cancelled(llama) -> None:
    _, ours = llama
    text = ours.generate("the house", max_tokens=100, ignore_end=True)
    pieces = []
    for piece in text:
        pieces.append(piece)
        if len(pieces) == 3:
            text.cancel()
    assert text.finish == "cancelled" and 3 <= len(text.tokens) < 20
    assert "".join(pieces) == text.text


def test_the_cache_has_an_end(llama) -> None:
    _, ours = llama
    text = ours.generate(PROMPT, max_tokens=50, kv_cache_capacity=12, ignore_end=True)
    assert len(text.tokens) == 8 and text.finish == "length"
    assert text.tokens == ours.generate_tokens(PROMPT, max_tokens=8, ignore_end=True)
    with pytest.raises(pc.Error, match="the prompt is too long"):
        _ = ours.generate(PROMPT, kv_cache_capacity=3).text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "this temperature is not possible"),
        ({"top_p": 0.0}, "this top-p is not possible"),
        ({"min_p": 2.0}, "this min-p is not possible"),
        ({"repetition_penalty": 0.0}, "this repetition penalty is not possible"),
        ({"logit_bias": {VOCABULARY: 1.0}}, "this logit bias is not possible"),
        ({"max_tokens": 0}, "too small"),
        ({"stop": [""]}, "a stop text is empty"),
        ({"beams": 2, "seed": 1}, "beams choose by score"),
        ({"logit_bias": dict.fromkeys(range(VOCABULARY), float("-inf"))}, "no token is left to choose"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message: str, llama) -> None:
    with pytest.raises(pc.Error, match=message):
        _ = llama[1].generate(PROMPT, **options).text
