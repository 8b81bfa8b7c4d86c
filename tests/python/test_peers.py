"""`pycandle bench --against`: other runtimes on a recorded model, and what it says when one cannot run."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest
import torch
from torch import nn

from pycandle import GoldenRecorder
from pycandle.peers import PeerError
from pycandle.peers.rebuilt import Rebuilt
from pycandle.recording.eager import quiet_inference


class Tagger(nn.Module):
    """A causal block, a recurrent layer, a split, two outputs; the length is open."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.lstm = nn.LSTM(32, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        forwards, backwards = self.lstm(self.block(self.embed(ids)))[0].chunk(2, -1)
        return self.head(forwards + backwards).softmax(-1), forwards[:, -1]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    torch.manual_seed(0)
    model = Tagger().eval()
    recorder = GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(model, torch.randint(0, 40, (1, 9)))
    return model, recorder.save("tagger").manifest


def bench(pycandle, manifest, *more, status=0):
    return pycandle.json("bench", manifest, "--seconds", 0.05, "--rounds", 2, *more, status=status)


def test_a_recording_becomes_the_same_torch_module_again_at_other_sizes(recording):
    model, manifest = recording
    ids = torch.randint(0, 40, (3, 21))
    rebuilt = Rebuilt(manifest, {"ids": ids})
    with quiet_inference(0):  # without the fast path of attention, which is another spelling
        for found, expected in zip(rebuilt.module(*rebuilt.inputs), model(ids), strict=True):
            torch.testing.assert_close(found, expected)


def test_torch_is_measured_beside_ours_with_every_number_of_threads(pycandle, recording):
    # What is said twice is one row.
    found = bench(pycandle, recording[1], "--threads", "1,2,1", "--against", "torch,torch")
    assert [(row["runner"], row["threads"]) for row in found["rows"]] == [
        ("cpu", 1),
        ("torch", 1),
        ("cpu", 2),
        ("torch", 2),
    ]
    for row in found["rows"]:
        assert row["model"] == "tagger"
        assert 0 < row["best_ms"] <= row["median_ms"]
        assert 0 < row["load_ms"] <= row["first_ms"]
        assert row["peak_mb"] > 1 and row["runs"] >= 2 and row["difference"] < 1e-4
    ours, torchs = found["rows"][:2]
    assert ours["ratio"] == 1 and torchs["ratio"] == pytest.approx(torchs["median_ms"] / ours["median_ms"])
    assert torchs["version"] == f"torch {torch.__version__.split('+')[0]}"
    assert torchs["import_ms"] > 0


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_a_peer_runs_or_is_named_with_what_to_install(pycandle, recording, peer):
    try:
        importlib.metadata.version(peer)
    except importlib.metadata.PackageNotFoundError:
        error = bench(pycandle, recording[1], "--against", peer, status=2)["error"]
        assert peer in error["message"] and f"pip install {peer}" in error["hint"]
    else:
        rows = bench(pycandle, recording[1], "--against", peer)["rows"]
        assert [row["runner"] for row in rows] == ["cpu", peer] and "failed" not in rows[1]


def test_a_python_without_pycandle_is_named(pycandle, recording, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    error = bench(pycandle, recording[1], "--against", "torch", "--python", bare, status=2)["error"]
    assert str(bare) in error["found"] and "--python" in error["hint"]


RUNNER = """
import json, sys, time
import numpy as np
from safetensors.numpy import load_file, save_file
at = sys.argv.index("--outputs")
now = time.monotonic()
save_file({{"0000": np.full((1, 9, 5), {value}, np.float32), "0001": np.zeros((1, 16), np.float32)}}, sys.argv[at + 1])
print(json.dumps({answer}), flush=True)
for line in sys.stdin:
    print(json.dumps([float(line)]), flush=True)
"""


@pytest.mark.parametrize(
    ("value", "answer", "reason"),
    [
        ("0.2", '{"loaded": now, "first": now}', "computes something else"),
        ("np.nan", '{"loaded": now, "first": now}', "computes something else"),
        ("0.2", '{"error": "out of luck"}', "out of luck"),
        ("0.2", '{"first": now}', "first answer is not understood"),
        ("1/0", "{}", "ZeroDivisionError"),
    ],
)
def test_a_peer_that_fails_or_computes_something_else_has_a_row_with_the_reason(
    pycandle, recording, tmp_path, value, answer, reason
):
    script = tmp_path / "runner.py"
    script.write_text(RUNNER.format(value=value, answer=answer))
    found = bench(pycandle, recording[1], "--peer", f"mine={sys.executable} {script} {{threads}}", status=1)
    assert found["status"] == "failed" and found["rows"][0]["median_ms"] > 0
    assert found["rows"][1]["runner"] == "mine" and reason in found["rows"][1]["failed"]


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x) * 2


SPECTRUM = """
import json, sys, time
import numpy as np
from safetensors.numpy import load_file, save_file
(x,) = load_file(sys.argv[sys.argv.index("--inputs") + 1]).values()
y = (np.fft.rfft(x) * 2 * {factor}).astype(np.complex64)
save_file({{"0000": y}}, sys.argv[sys.argv.index("--outputs") + 1])
now = time.monotonic()
print(json.dumps({{"loaded": now, "first": now}}), flush=True)
for line in sys.stdin:
    print(json.dumps([float(line)]), flush=True)
"""


@pytest.mark.parametrize(
    ("factor", "status", "said"),
    [("1", 0, {}), ("1.0001", 0, {"note": "a guess"}), ("1.01", 1, {"failed": "computes something else"})],
)
def test_complex_outputs_are_judged_by_the_floor_and_a_guess_is_said(
    pycandle, tmp_path, factor, status, said
):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Spectrum().eval(), torch.randn(2, 16))
    manifest = recorder.save("spectrum").manifest
    script = tmp_path / "runner.py"
    script.write_text(SPECTRUM.format(factor=factor))
    found = bench(pycandle, manifest, "--peer", f"mine={sys.executable} {script} {{threads}}", status=status)
    ours, theirs = found["rows"]
    assert found["judged_by"] == "floors" and not {"note", "failed"} & ours.keys()
    assert {"note", "failed"} & theirs.keys() == said.keys()
    assert all(text in theirs[key] for key, text in said.items())


def test_sizes_that_depend_on_data_are_refused_before_torch_is_asked(tmp_path):
    class Counted(nn.Module):
        def forward(self, x):
            return torch.zeros(x[x > 0].shape[0])

    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Counted(), torch.randn(6))
    with pytest.raises(PeerError, match="depends on data"):
        Rebuilt(recorder.save("counted").manifest, {"x": torch.ones(6)})
