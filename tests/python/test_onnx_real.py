"""ONNX files as they are published, beside ONNX Runtime, at two sizes where they have open ones."""

from __future__ import annotations

import subprocess
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
