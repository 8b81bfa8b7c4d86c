"""Checkpoints of all formats hold what their own libraries read from them, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
from checkpoint_files import all_cases
from safetensors.torch import save_file
from terminals import on_terminal

from pycandle.weights import open_checkpoint

CASES = all_cases()


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Equal dtype, shape and values, NaN where NaN is; the sign of a NaN is nobody's."""
    theirs = theirs.resolve_conj().resolve_neg().contiguous()
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    if not (ours.dtype.is_floating_point or ours.dtype.is_complex):
        return torch.equal(ours, theirs)
    return torch.equal(torch.nan_to_num(ours, 7.0), torch.nan_to_num(theirs, 7.0)) and torch.equal(
        ours.isnan(), theirs.isnan()
    )


@pytest.mark.parametrize("case", CASES, ids=[c.name.replace(" ", "-") for c in CASES])
def test_every_tensor_is_what_its_own_library_reads(case, tmp_path):
    path = tmp_path / f"file{case.suffix}"
    expected = case.write(path)
    ours = open_checkpoint(path, framework="torch")
    assert set(ours) == set(expected)
    for name, theirs in expected.items():
        assert same(ours[name], theirs), f"{name}: {ours[name]} is not {theirs}"


def test_there_are_enough_files():
    assert len(CASES) >= 60


def test_a_training_checkpoint_is_its_weights(tmp_path):
    path = tmp_path / "last.ckpt"
    module = torch.nn.Linear(2, 3)
    state = {
        "model": module.state_dict(),
        "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}},
        "epoch": 1,
    }
    torch.save(state, path)
    opened = open_checkpoint(path)
    assert (list(opened), opened.section, opened.left_out) == (["weight", "bias"], "model", {"optimizer": 1})
    everything = open_checkpoint(path, section="")
    assert "optimizer.state.0.step" in everything and "model.weight" in everything


def test_a_number_that_no_program_holds_names_its_tensor(tmp_path):
    np.savez(tmp_path / "big.npz", ids=np.array([1, 2**63], dtype="u8"))
    with pytest.raises(Exception, match=r"big\.npz.*tensor 'ids' holds 9223372036854775808"):
        open_checkpoint(tmp_path / "big.npz")["ids"]


def test_a_keras_model_is_its_weights(tmp_path):
    """model.save("m.h5") keeps weights and the optimizer's state in two groups."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["model_weights/dense/dense/kernel:0"] = np.ones((2, 3), "f4")
        file["optimizer_weights/Adam/iteration:0"] = np.int64(4)
    opened = open_checkpoint(tmp_path / "m.h5")
    assert (list(opened), opened.section) == (["dense/dense/kernel:0"], "model_weights")
    assert opened.left_out == {"optimizer_weights": 1}


def test_a_machine_without_libhdf5_says_what_is_missing(tmp_path):
    """Nothing links libhdf5; where the loader does not find it, the message names the package."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["w"] = np.ones(2)
    code = "import sys; from pycandle.weights import open_checkpoint; open_checkpoint(sys.argv[1])"
    (tmp_path / "lib").mkdir()
    for name in ("libhdf5_serial.so.103", "libhdf5_serial.so.310", "libhdf5_serial.so", "libhdf5.so.103", "libhdf5.so.200", "libhdf5.so.310", "libhdf5.so.320", "libhdf5.so"):  # fmt: skip
        (tmp_path / "lib" / name).write_bytes(b"not a library")
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.h5"], capture_output=True, text=True, check=False,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path / "lib")},
    )  # fmt: skip
    assert "libhdf5, which reads those, is not here" in ran.stderr


def test_two_sets_of_weights_are_not_chosen_between(tmp_path):
    path = tmp_path / "both.pth"
    torch.save({"params": {"w": torch.zeros(1)}, "params_ema": {"w": torch.ones(1)}}, path)
    assert set(open_checkpoint(path)) == {"params.w", "params_ema.w"}
    assert open_checkpoint(path, section="params_ema", framework="torch")["w"].item() == 1


def test_tensors_of_one_storage_are_shown_as_one(tmp_path, pycandle):
    path = tmp_path / "tied.pt"
    weight = torch.randn(3, 2)
    torch.save({"embed": weight, "head": weight}, path)
    shown = pycandle.json("weights", "show", path)
    assert [t.get("same_as") for t in shown["tensors"]] == [None, "embed"]
    assert shown["bytes"] == 24


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("w.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n", "git lfs pull"),
        ("w.safetensors", b"<!DOCTYPE html><html><body>404</body></html>", "is a web page"),
        ("w.onnx", bytes(range(8, 40)), "ONNX file, which is a program"),
        ("w.txt", b"layers and\nmore layers", "found    layers and"),
        ("w.pt", b"\x1f\x8b" + bytes(40), "the first bytes are 1f 8b 00"),
    ],
)
def test_what_is_no_checkpoint_is_said_to_be_what_it_is(name, content, words, tmp_path, pycandle):
    (tmp_path / name).write_bytes(content)
    said = pycandle("weights", "show", tmp_path / name, status=2).stderr
    assert words in said and "safetensors header" not in said


def test_a_link_to_itself_is_one_error(tmp_path, pycandle):
    (tmp_path / "w.bin").symlink_to(tmp_path / "w.bin")
    for command in (["weights", "show"], ["weights", "diff", tmp_path]):
        assert "symbolic links" in pycandle(*command, tmp_path / "w.bin", status=2).stderr, command
    assert "there is no file" in pycandle("verify", tmp_path / "w.bin", status=2).stderr


def test_a_name_writes_no_escape_codes_to_the_terminal(tmp_path, pycandle):
    save_file({"a\n\033[31mred\033[2J": torch.ones(1)}, tmp_path / "w.safetensors")
    shown = pycandle("weights", "show", tmp_path / "w.safetensors").stdout
    assert "a??[31mred?[2J  f32[1]" in shown
    assert "\033[2J" not in on_terminal([pycandle.path, "weights", "show", tmp_path / "w.safetensors"])
