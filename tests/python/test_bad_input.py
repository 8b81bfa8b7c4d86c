"""Files from outside are untrusted: one clear error, exit 2, no crash, no partial output."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pycandle import Error, GoldenRecorder, UsageError, load_model


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 6)
        self.norm = torch.nn.LayerNorm(6)
        self.second = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.norm(self.first(x))))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("recorded")
    torch.manual_seed(0)
    recorder = GoldenRecorder(folder)
    recorder.record(Small().eval(), torch.randn(2, 4))
    recorder.save("small")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(recorded, tmp_path) -> Path:
    for name, content in recorded.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def edit(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "small_manifest.json"
        manifest = json.loads(path.read_text())
        replaced = change(manifest)
        path.write_text(json.dumps(manifest if replaced is None else replaced))

    return apply


def raw(change: Callable[[str], str]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "small_manifest.json"
        path.write_text(change(path.read_text()))

    return apply


def set_at(*path_and_value) -> Callable[[Path], None]:
    *path, last, value = path_and_value

    def change(manifest: dict) -> None:
        target = manifest
        for step in path:
            target = target[step]
        target[last] = value

    return edit(change)


def drop(*path) -> Callable[[Path], None]:
    *path, last = path

    def change(manifest: dict) -> None:
        target = manifest
        for step in path:
            target = target[step]
        del target[last]

    return edit(change)


def weights(
    change: Callable[[bytes], bytes], file: str = "small_weights.safetensors"
) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / file
        path.write_bytes(change(path.read_bytes()))

    return apply


def header(
    change: Callable[[dict], object], file: str = "small_weights.safetensors"
) -> Callable[[Path], None]:
    def rewrite(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        entries = json.loads(content[8 : 8 + length])
        replaced = change(entries)
        text = replaced if isinstance(replaced, bytes) else json.dumps(entries).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return weights(rewrite, file)


def first_weight(**fields) -> Callable[[Path], None]:
    return header(lambda entries: entries["first.weight"].update(fields))


def duplicate_header_key(entries: dict) -> bytes:
    entry = json.dumps(entries["first.bias"])
    return f'{{"first.bias": {entry}, "first.bias": {entry}}}'.encode()


BAD = {
    # the manifest as a file
    "manifest truncated": raw(lambda text: text[: len(text) // 2]),
    "manifest empty": raw(lambda text: ""),
    "manifest not JSON": raw(lambda text: "hello"),
    "manifest not UTF-8": lambda folder: (folder / "small_manifest.json").write_bytes(
        b'{"format": "\xff\xfe"}'
    ),
    "manifest is a list": raw(lambda text: "[]"),
    "manifest is a number": raw(lambda text: "3"),
    "trailing bytes": raw(lambda text: text + "{}"),
    "duplicate keys": raw(lambda text: text.replace('"format"', '"name": "x", "format"', 1)),
    "deep nesting": raw(lambda text: "[" * 100_000),
    "deep nesting closed": raw(lambda text: '{"a":' * 5000 + "1" + "}" * 5000),
    "NaN in numbers": raw(
        lambda text: text.replace('"min": 1', '"min": NaN', 1).replace('"min":1', '"min":NaN', 1)
    ),
    "wrong format": set_at("format", "something.else"),
    "no format": drop("format"),
    "version from the future": set_at("version", "2.0.0"),
    "version not a version": set_at("version", "one"),
    "version a number": set_at("version", 1),
    # the graph
    "no nodes": drop("nodes"),
    "nodes not a list": set_at("nodes", {"a": 1}),
    "node without op": drop("nodes", 0, "op"),
    "op not text": set_at("nodes", 0, "op", 7),
    "argument of unknown kind": set_at("nodes", 0, "args", 0, ["input", {"pickle": "x"}]),
    "value not defined": set_at("nodes", 0, "args", 0, ["input", {"v": 9999}]),
    "value id negative": set_at("nodes", 0, "args", 0, ["input", {"v": -5}]),
    "value id huge": set_at("nodes", 0, "args", 0, ["input", {"v": 2**62}]),
    "value defined twice": edit(
        lambda m: m["nodes"][1]["results"][0].update(value=m["nodes"][0]["results"][0]["value"])
    ),
    "value used before it exists": edit(
        lambda m: m["nodes"][0]["args"][0].__setitem__(1, {"v": m["nodes"][-1]["results"][0]["value"]})
    ),
    "unknown dtype": set_at("inputs", 0, "dtype", "f8"),
    "negative size": set_at("nodes", 0, "results", 0, "shape", [2, -6]),
    "size too large": set_at("nodes", 0, "results", 0, "shape", [2**62, 2**62]),
    "recorded shape is not what the op gives": set_at("nodes", 0, "results", 0, "shape", ["s0", 7]),
    "recorded dtype is not what the op gives": set_at("nodes", 0, "results", 0, "dtype", "f64"),
    "dim text hostile": set_at("inputs", 0, "shape", ["(" * 5000 + "s0" + ")" * 5000, 4]),
    "dim text overflow": set_at("inputs", 0, "shape", ["s0*99999999999999999999", 4]),
    "dim text division by zero": set_at("nodes", 0, "results", 0, "shape", ["floordiv(s0, 0)", 6]),
    "dim of unknown symbol": set_at("inputs", 0, "shape", ["s9", 4]),
    "symbol range upside down": edit(lambda m: m["symbols"][0].update(min=9, max=3)),
    "output of unknown value": set_at("outputs", 0, "value", 424242),
    "no output": set_at("outputs", []),
    "tap of another rank": set_at("taps", 0, "shape", [2, 4, 1]),
    "tap of another fixed size": set_at("taps", 0, "shape", [2, 5]),
    "tap of another open size": set_at("taps", 0, "shape", [3, 6]),
    "checksum not one": set_at("parameters", 0, "checksum", "xyz"),
    "two inputs of one name": edit(lambda m: m["inputs"].append(dict(m["inputs"][0]))),
    "node in unknown call": set_at("nodes", 0, "call", 99),
    "node in unknown file": set_at("nodes", 0, "file", 99),
    "module call its own parent": edit(lambda m: m["module_calls"][1].update(parent=1)),
    "argument nobody consumes": edit(lambda m: m["nodes"][0]["args"].append(["surprise", 1])),
    # files
    "weights file leaves the folder": set_at("parameters", 0, "file", "../../etc/passwd"),
    "weights file absolute": set_at("parameters", 0, "file", "/etc/passwd"),
    "weights file missing": lambda folder: (folder / "small_weights.safetensors").unlink(),
    "trace file missing": lambda folder: (folder / "small_trace.safetensors").unlink(),
    "key missing in the weights": set_at("parameters", 0, "key", "nobody"),
    # safetensors
    "weights truncated": weights(lambda content: content[:-10]),
    "weights empty": weights(lambda content: b""),
    "weights shorter than a header": weights(lambda content: content[:5]),
    "header longer than the file": weights(lambda content: struct.pack("<Q", 2**63) + content[8:]),
    "header length overflows": weights(lambda content: b"\xff" * 8 + content[8:]),
    "header not JSON": weights(lambda content: struct.pack("<Q", 4) + b"oops" + content[12:]),
    "header duplicate keys": header(duplicate_header_key),
    "header deep nesting": header(lambda entries: b"[" * 50_000),
    "offsets outside the file": first_weight(data_offsets=[0, 2**40]),
    "offsets reversed": first_weight(data_offsets=[96, 0]),
    "offsets negative": first_weight(data_offsets=[-96, 0]),
    "offsets not numbers": first_weight(data_offsets=["a", "b"]),
    "size differs from the shape": first_weight(shape=[6, 5]),
    "shape overflows": first_weight(shape=[2**40, 2**40]),
    "shape negative": first_weight(shape=[-6, -4]),
    "dtype unknown": first_weight(dtype="F3"),
    "dtype of another size": first_weight(dtype="F64"),
    "dtype of the same size": first_weight(dtype="I32"),
    "shape of the same size": first_weight(shape=[4, 6]),
    "trace truncated": weights(lambda content: content[:-3], "small_trace.safetensors"),
    "trace header not JSON": weights(
        lambda content: struct.pack("<Q", 4) + b"oops" + content[12:], "small_trace.safetensors"
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_recording_is_one_clear_error(what: str, folder: Path, pycandle) -> None:
    BAD[what](folder)
    before = {path.name for path in folder.iterdir()}
    finished = pycandle("verify", folder / "small_manifest.json", status=2)
    assert finished.stderr.startswith("error: ") and finished.stdout == ""
    assert len(finished.stderr) < 4000
    # The same facts for machines.
    failed = pycandle.json("verify", folder / "small_manifest.json", status=2)
    assert failed["status"] == "error" and failed["error"]["message"]
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize("what", [name for name in BAD if "trace" not in name])
def test_a_bad_recording_leaves_no_output(what: str, folder: Path, pycandle) -> None:
    BAD[what](folder)
    out = folder / "out.safetensors"
    pycandle("forward", folder / "small_manifest.json", "--out", out, status=2)
    assert not out.exists()


def test_an_unchanged_recording_is_fine(folder: Path, pycandle) -> None:
    pycandle("verify", folder)
    pycandle("forward", folder, "--out", folder / "out.safetensors")
    assert (folder / "out.safetensors").exists()


def test_a_missing_recording_is_an_error_that_names_it(tmp_path, pycandle) -> None:
    assert "nowhere.json" in pycandle("inspect", tmp_path / "nowhere.json", status=2).stderr
    assert str(tmp_path) in pycandle("inspect", tmp_path, status=2).stderr


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(folder: Path, pycandle) -> None:
    target = (
        Path("/proc/nowhere/out.safetensors") if os.geteuid() == 0 else folder / "locked" / "out.safetensors"
    )
    if os.geteuid() != 0:
        target.parent.mkdir(mode=0o500)
    assert str(target.parent) in pycandle("forward", folder, "--out", target, status=2).stderr


def test_a_gap_is_exit_1_and_lists_every_place(folder: Path, pycandle) -> None:
    def unknown(manifest: dict) -> None:
        for node in manifest["nodes"]:
            if node["op"] == "aten.linear.default":
                node["op"] = "aten.linaer.default"

    edit(unknown)(folder)
    stderr = pycandle("forward", folder, status=1).stderr
    assert "aten.linaer.default" in stderr and "first" in stderr and "aten.linear.default" in stderr
    analysis = pycandle.json("codegen", "--analyze-only", "--manifest", folder, status=1)
    assert analysis["unsupported"] == 2 and analysis["total"] == analysis["supported"] + 2
    assert analysis["gaps"][0]["count"] == 2 and analysis["coverage_percent"] < 100


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": torch.zeros(2, 5)}, "4"),
        ({"x": torch.zeros(2, 4, dtype=torch.float64)}, "f64"),
        ({"x": torch.zeros(4)}, "x"),
        ({"y": torch.zeros(2, 4)}, "y"),
        ({}, "x"),
        ({"x": torch.zeros(2, 4), "z": torch.zeros(1)}, "z"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict, said: str, folder: Path, pycandle) -> None:
    save_file(inputs, folder / "in.safetensors")
    assert said in pycandle("forward", folder, "--inputs", folder / "in.safetensors", status=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["verify"],
        ["forward", ".", "--seed", "minus one"],
        ["forward", ".", "--set", "s0"],
        ["verify", ".", "--backend", "abacus"],
        ["verify", ".", "--disable-pass", "nobody"],
        ["inspect", ".", "--dump-mode", "some"],
    ],
)
def test_wrong_usage_is_exit_2(arguments: list, folder: Path, pycandle) -> None:
    finished = pycandle(*arguments, status=2, cwd=folder)
    assert finished.stderr or finished.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["forward", ".", "--threads", 0],
        ["bench", ".", "--against", "nosuch"],
        ["inspect", ".", "--no-such-flag"],
        ["bench", ".", "--rounds", 0],
        ["bench", ".", "--seconds", -1],
        ["bench", ".", "--seconds", "nan"],
        ["bench", ".", "--seconds", "inf"],
        ["verify", ".", "--atol", "nan"],
        ["verify", ".", "--rtol", "inf"],
        ["verify", ".", "--atol", -1],
        ["forward", ".", "--seed", -1],
        ["forward", ".", "--seed", 2**64],
        ["forward", ".", "--seed", "1.5"],
        ["trace", ".", "--set", f"s0={2**63}"],
        ["forward", ".", "--set", "s0=2", "--set", "s0=3"],
        ["bench", ".", "--set", "s0=2", "--set", "s0=2"],
        ["inspect", ".", "--depth", -1],
        ["init", ".", "--seed", -1],
        ["forward", ".", "--seed"],
        ["nonsense"],
        ["verify"],
    ],
)
def test_wrong_usage_is_json_where_that_is_asked_for(arguments: list, folder: Path, pycandle) -> None:
    finished = pycandle(*arguments, "--json", status=2, cwd=folder)
    found = json.loads(finished.stdout)
    assert found["status"] == "error" and not finished.stderr
    assert found["error"]["code"] == "usage" and found["error"]["message"]


def test_an_unknown_instruction_set_is_no_error_of_an_op(folder: Path, pycandle, monkeypatch) -> None:
    monkeypatch.setenv("PYCANDLE_ISA", "mmx")
    error = pycandle.json("forward", folder, "--backend", "cpu", status=2)["error"]
    assert error["code"] == "usage" and "PYCANDLE_ISA" in error["message"] and error["found"] == "mmx"
    assert not {"op", "module_path", "python"} & error.keys()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["verfiy"], "verify"),
        (["forwrd", "."], "forward"),
        (["recrod"], "record"),
        (["code-gen"], "codegen"),
        (["weights", "shwo"], "show"),
        (["forward", ".", "--bakend", "cpu"], "--backend"),
        (["inspect", ".", "--dept=2"], "--depth"),
    ],
)
def test_what_was_meant_is_suggested(typed: list, meant: str, folder: Path, pycandle) -> None:
    error = pycandle.json(*typed, status=2)["error"]
    assert error["hint"] == f"did you mean {meant}?"
    assert f"did you mean {meant}?" in pycandle(*typed, status=2).stderr


def test_a_word_that_is_near_nothing_gets_no_suggestion(pycandle) -> None:
    said = pycandle("xyzzy", status=2).stderr
    assert "there is no command xyzzy" in said and "did you mean" not in said


@pytest.mark.parametrize(
    ("typed", "what"),
    [
        ([], "a command is missing"),
        (["verify"], "model is required"),
        (["forward", "m", "--threads", "0"], "--threads: Value 0 not in range"),
        (["verify", "m", "--atol", "nan"], "--atol: expected a finite number, found nan"),
        (["report", "m", "--format", "pdf"], "--format: pdf not in {html,md,json}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_look_like_every_other_error(typed, what, pycandle) -> None:
    lines = pycandle(*typed, status=2).stderr.splitlines()
    assert lines[0].startswith(f"error: {what}") and lines[1:] == ["  hint  --help shows what there is"]


@pytest.mark.parametrize("seed", ["-1", "1.5", str(2**63)])
def test_a_seed_out_of_range_is_refused_by_record(seed: str, tmp_path, pycandle) -> None:
    said = pycandle("record", "--model", "torch.nn:ReLU", "--input", "input=f32[2]", "--seed", seed, status=2)
    assert "--seed" in said.stderr and "whole number from 0" in said.stderr
    with pytest.raises(UsageError, match="whole number from 0"):
        GoldenRecorder(tmp_path, seed=float(seed) if "." in seed else int(seed))


def test_missing_inputs_are_listed_beside_those_that_were_given(folder: Path, pycandle) -> None:
    save_file({"y": torch.zeros(2, 4), "z": torch.zeros(1)}, folder / "in.safetensors")
    error = pycandle.json("forward", folder, "--inputs", folder / "in.safetensors", status=2)["error"]
    assert (
        error["message"] == "the input x is missing"
        and error["found"] == "y, z"
        and "x: f32" in error["expected"]
    )


def test_every_missing_input_is_named(tmp_path) -> None:
    class Three(torch.nn.Module):
        def forward(self, x, y, z):
            return x + y + z

    recorder = GoldenRecorder(tmp_path)
    recorder.record(Three().eval(), *torch.ones(3, 2))
    recorder.save("m")
    with pytest.raises(Error, match="the inputs y, z are missing") as raised:
        load_model(tmp_path)(torch.ones(2))
    assert raised.value.found == "x"


def test_outputs_that_are_all_nan_are_shown_as_such(folder: Path, pycandle) -> None:
    save_file({"x": torch.full((2, 4), float("nan"))}, folder / "in.safetensors")
    text = pycandle("forward", folder, "--inputs", folder / "in.safetensors").stdout
    assert "all NaN" in text and "inf" not in text
    (output,) = pycandle.json("forward", folder, "--inputs", folder / "in.safetensors")["outputs"]
    assert output["nan"] == 6 and output["min"] is None and output["mean"] is None
    empty = {"x": torch.zeros(2, 4)}
    save_file(empty, folder / "in.safetensors")
    assert "NaN" not in pycandle("forward", folder, "--inputs", folder / "in.safetensors").stdout


def flip(folder: Path, name: str) -> None:
    """One bit of the last byte: a low bit of a bias, far below any floor."""
    path = folder / name
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_of_the_weights_is_noticed(folder: Path, pycandle) -> None:
    assert pycandle.json("doctor", folder)["status"] == "fine"
    assert "all as recorded" in pycandle("doctor", folder).stdout
    pycandle("forward", folder, "--check-weights")
    flip(folder, "small_weights.safetensors")
    found = pycandle.json("doctor", folder, status=1)
    assert found["status"] == "damaged"
    (weights,) = (f for f in found["findings"] if f["what"] == "weights")
    (name,) = weights["found"].removeprefix("damaged: ").split(", ")
    result = pycandle.json("verify", folder, status=1)
    assert result["damaged"] == [name] and result["status"] == "wrong"
    assert f"damaged: {name}" in pycandle("verify", folder, status=1).stdout
    assert name in pycandle("forward", folder, "--check-weights", status=2).stderr
    pycandle("forward", folder)  # maps the weights lazily, and looks only on request


def test_a_recording_without_checksums_still_works(folder: Path, pycandle) -> None:
    edit(lambda m: [p.pop("checksum") for p in m["parameters"]] and None)(folder)
    flip(folder, "small_weights.safetensors")
    pycandle("verify", folder)
    assert "0 of" in pycandle("doctor", folder).stdout
