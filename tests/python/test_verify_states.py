"""What a model's calls make of its states is judged as its outputs are: on every backend, recorded and as source code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch
from faults.source import BEGIN, BUILD, FLAGS, body_of, emitted, others
from safetensors.torch import load_file
from test_codegen_states import Attention, Counter, Normed, recorded
from torch import nn

from pycandle import GoldenRecorder

BACKENDS = ("reference", "cpu")


class Average(nn.Module):
    """A moving average that is zero at first: its momentum shows in the second call alone."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4, dtype=dtype))
        self.register_buffer("largest", torch.zeros(4, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(0.1 * x.mean(0))
        self.largest.copy_(torch.maximum(self.largest, x.amax(0)))
        return x - self.mean


class Shifted(nn.Module):
    """States that are set to an input and to another state as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(2, 4))
        self.register_buffer("before", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.before.copy_(self.last)
        self.last.copy_(x)
        return x + 1


class Ring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(3, 4))
        self.register_buffer("place", torch.tensor([1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.ring.index_copy_(0, self.place, x.mean(0, keepdim=True))
        self.place.copy_((self.place + 1) % 3)
        return self.ring.mean(0) + x


class Sometimes(nn.Module):
    """A branch decides what the state becomes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(
            torch.cond(x[0, 0] > 0, lambda a, b: a + b.sum(0), lambda a, b: a - b[0], (self.seen, x))
        )
        return x + self.seen


class Assigned(nn.Module):
    """Buffers that are assigned anew, and one that is an output."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count = self.count + 1
        return x * self.count, self.count


class Twice(nn.Module):
    """One state that is changed in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0)
        y = x * self.total
        self.total += y.sum(0)
        return y


def layers_of(result: dict) -> dict[tuple[str, str], dict]:
    return {(row.get("input", ""), row["tap"]): row for row in result["layers"]}


X = {"x": torch.randn(2, 4, generator=torch.Generator().manual_seed(1))}
MODELS = {
    "counter": (Counter, X, {"count", "last"}),
    "average": (Average, X, {"mean", "largest"}),
    "f16": (lambda: Average(torch.float16), {"x": X["x"].half()}, {"mean", "largest"}),
    "bf16": (lambda: Average(torch.bfloat16), {"x": X["x"].bfloat16()}, {"mean", "largest"}),
    "shifted": (Shifted, X, {"last", "before"}),
    "ring": (Ring, X, {"ring", "place"}),
    "sometimes": (Sometimes, X, {"seen"}),
    "assigned": (Assigned, X, {"count"}),
    "twice": (Twice, X, {"total"}),
    "cache": (Attention, {"x": torch.randn(2, 2, 8), "position": torch.tensor([3, 4])}, {"keys", "values"}),
    "norms": (
        Normed,
        {"x": torch.randn(2, 3, 6, 6)},
        {
            f"{module}.{name}"
            for module in ("norm", "again")
            for name in ("num_batches_tracked", "running_mean", "running_var")
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_two_calls_are_goldens_and_every_state_of_both_is_judged(name: str, tmp_path, pycandle) -> None:
    make, inputs, states = MODELS[name]
    torch.manual_seed(0)
    manifest = recorded(make(), tmp_path, inputs)
    document = json.loads(manifest.read_text())
    assert document["files"]["second_trace"] == "model_second.safetensors"
    first, second = (load_file(tmp_path / f"model_{which}.safetensors") for which in ("trace", "second"))
    assert {tap["key"] for tap in document["taps"]} <= first.keys() and first.keys() == second.keys()
    for state in states:
        assert torch.equal(first[f"updated:{state}"], second[f"state:{state}"])
    for backend in BACKENDS:
        result = pycandle.json("verify", manifest, "--backend", backend)
        judged = layers_of(result)
        for call in ("", "second call"):
            assert {f"updated:{state}" for state in states} <= {tap for of, tap in judged if of == call}
        assert result["status"] == "passed" and result["counts"]["wrong_here"] == 0, result
        assert not any(row["verdict"] == "wrong upstream" for row in result["layers"])
    against = pycandle.json("verify", manifest, "--backend", "cpu", "--against", "reference")
    assert against["status"] == "passed" and ("second call", f"updated:{min(states)}") in layers_of(against)


def test_the_second_call_is_what_the_model_itself_gives(tmp_path) -> None:
    torch.manual_seed(0)
    model = Average()
    recorded(model, tmp_path, X)
    first, second = (load_file(tmp_path / f"model_{which}.safetensors") for which in ("trace", "second"))
    assert not torch.equal(first["input:x"], second["input:x"])
    for trace in (first, second):
        torch.testing.assert_close(model(trace["input:x"]), trace["output:output"])
        torch.testing.assert_close(model.mean, trace["updated:mean"])


def test_goldens_named_second_are_not_those_of_the_second_call(tmp_path, pycandle) -> None:
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Counter(), **X)
    manifest = recorder.save("model").manifest
    before = (tmp_path / "model_second.safetensors").read_bytes()
    recorder.add_goldens("model_second", X["x"] + 1)
    recorder.save("model_second")
    assert (tmp_path / "model_second.safetensors").read_bytes() == before
    assert ("second call", "updated:count") in layers_of(pycandle.json("verify", manifest))
    inputs = {call for call, _ in layers_of(pycandle.json("verify", manifest, "--inputs", tmp_path))}
    assert inputs == {"model", "model_second"}, "calls that begin with the recorded states"


class Full(nn.Module):
    """One place is free: a second call fails, whatever its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 4))
        self.register_buffer("place", torch.tensor([2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, self.place, x.mean(0, keepdim=True))
        self.place.add_(1)
        return x + self.cache.sum(0)


def test_a_model_that_takes_one_call_is_recorded_with_it_and_a_note(tmp_path, pycandle) -> None:
    manifest = recorded(Full(), tmp_path, X)
    document = json.loads(manifest.read_text())
    assert "second_trace" not in document["files"] and not (tmp_path / "model_second.safetensors").exists()
    (note,) = [note for note in document["notes"] if "second" in note]
    assert "out of bounds" in note or "out of range" in note, note
    result = pycandle.json("verify", manifest)
    assert result["status"] == "passed" and ("", "updated:cache") in layers_of(result)
    assert [check["what"] for check in document["soundness"]["checks"]][-1] == "call 1 and its states"


def edited(manifest: Path, change) -> Path:
    """The recording with another graph, as a wrong importer would read it."""
    document = json.loads(manifest.read_text())
    change(document)
    folder = manifest.parent / "edited"
    folder.mkdir()
    for file in manifest.parent.glob("*.safetensors"):
        (folder / file.name).symlink_to(file)
    (folder / manifest.name).write_text(json.dumps(document))
    return folder / manifest.name


def another_number(old: float, new: object):
    def change(document: dict) -> None:
        given = [g for node in document["nodes"] for g in node["args"] if g[1] in (old, {"float": old})]
        given[0][1] = new

    return change


def exchanged(document: dict) -> None:
    a, b = document["states"]
    a["updated"], b["updated"] = b["updated"], a["updated"]


def left_out(document: dict) -> None:
    (state,) = [state for state in document["states"] if state["name"] == "count"]
    state["updated"] = state["value"]


MOMENTUM = "looks like a constant of 0.99 where the model uses a constant of 0.9"
WRONG = {
    "another momentum": (Average, another_number(0.9, {"float": 0.99}), {("second call", "updated:mean")}),
    "two for one": (Counter, another_number(1, 2), {("", "updated:count"), ("second call", "updated:count")}),
    "no update": (Counter, left_out, {("", "updated:count"), ("second call", "updated:count")}),
    "exchanged": (
        Average,
        exchanged,
        {(call, f"updated:{state}") for call in ("", "second call") for state in ("mean", "largest")},
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", WRONG)
def test_a_recorded_program_that_changes_a_state_otherwise_is_wrong_there(what, backend, tmp_path, pycandle):
    model, change, expected = WRONG[what]
    manifest = edited(recorded(model(), tmp_path, X), change)
    result = pycandle.json("verify", manifest, "--backend", backend, status=1)
    wrong = {key: row for key, row in layers_of(result).items() if row["verdict"] == "wrong here"}
    assert expected <= wrong.keys() and (what == "exchanged" or wrong.keys() == expected)
    if what == "another momentum":
        assert wrong["second call", "updated:mean"]["diagnosis"]["cause"] == MOMENTUM
    for row in wrong.values():
        assert re.match(r".*test_(verify|codegen)_states\.py:\d+$", row["python"]), row
    said = pycandle("verify", manifest, "--backend", backend, status=1).stdout
    assert re.search(r"wrong here: (second call: )?state (mean|count|largest) \(", said)


@pytest.mark.parametrize("where", ["program", "backend"])
def test_a_fault_that_is_injected_into_an_update_is_found_in_the_state(where: str, tmp_path) -> None:
    manifest = recorded(Average(), tmp_path, X)
    runner = BUILD / "tests" / "fault_runner"

    def said(*words: object, given: str = "") -> list[dict]:
        ran = subprocess.run(
            [runner, manifest, *words], input=given, capture_output=True, text=True, check=True
        )
        return [json.loads(line) for line in ran.stdout.splitlines()]

    nodes = said("imported" if where == "program" else "program")
    (node,) = [n["node"] for n in nodes if n.get("attributes", {}).get("value") == 0.9]
    fault = {"where": where, "node": node, "edit": "attribute", "name": "value", "value": 0.99}
    for backend in BACKENDS:
        (found,) = said("run", backend, given=json.dumps(fault))
        assert [(row["input"], row["tap"]) for row in found["wrong"]] == [("second call", "updated:mean")], (
            found
        )
        assert found["wrong"][0]["judged"] == where


# ---- source code


def captured(
    manifest: Path, folder: Path, program: Path, edits: dict[str, tuple[str, str]]
) -> dict[str, Path]:
    """The programs of the emitted code, as it is ("") and with each edit."""
    text, model, space = emitted(program, manifest, folder)
    texts = [text]
    for old, new in edits.values():
        assert re.search(old, text), f"{old} is not in\n{text}"
        texts.append(re.sub(old, new, text, count=1))
    unit = BEGIN.replace("OTHERS", others([])) + "".join(
        body_of(t, space, f"v{i}") for i, t in enumerate(texts)
    )
    saves = "".join(
        f'  faults::save<v{i}::{model}>("{i}", argv[1], argv[2], argv[3]);\n' for i in range(len(texts))
    )
    (folder / "variants.cpp").write_text(f"{unit}int main(int, char** argv) {{\n{saves}}}\n")
    library = [BUILD / "libpycandle.so", f"-Wl,-rpath,{BUILD}"]
    command = ["g++", *FLAGS, folder / "variants.cpp", "-o", folder / "variants", *library]
    built = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    ran = subprocess.run(
        [folder / "variants", manifest.parent, "model", folder], capture_output=True, text=True
    )
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return {what: folder / f"{i}.ptir" for i, what in enumerate(("", *edits))}


def wrong_in(pycandle, manifest: Path, program: Path, backend: str) -> dict[tuple[str, str], dict]:
    result = pycandle.json("verify", manifest, "--program", program, "--backend", backend, status=1)
    return {key: row for key, row in layers_of(result).items() if row["verdict"] == "wrong here"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_source_code_that_counts_otherwise_is_wrong_there(backend: str, tmp_path, pycandle) -> None:
    manifest = recorded(Counter(), tmp_path, X)
    programs = captured(
        manifest,
        tmp_path / "source",
        pycandle.path,
        {
            "two for one": (r"count = count \+ 1;", "count = count + 2;"),
            "no update": (r"last = x \* 2\.0;", ""),
            "half an update": (r"last = x \* 2\.0;", "last = x;"),
            "read only": (r"last = x \* 2\.0;", "last = last;"),
        },
    )
    both = {"", "second call"}
    right = pycandle.json("verify", manifest, "--program", programs[""], "--backend", backend)
    assert right["status"] == "passed" and ("second call", "updated:last") in layers_of(right)
    wrong = wrong_in(pycandle, manifest, programs["two for one"], backend)
    assert {(call, "updated:count") for call in both} <= wrong.keys()
    for what in ("no update", "half an update", "read only"):
        wrong = wrong_in(pycandle, manifest, programs[what], backend)
        assert wrong.keys() == {(call, "updated:last") for call in both}, what
        row = wrong["", "updated:last"]
        assert re.search(r"test_codegen_states\.py:\d+$", row["python"])
        if what != "half an update":
            assert row["diagnosis"]["cause_kind"] == "missing update" and "mul" in row["diagnosis"]["op"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_source_code_with_another_momentum_or_exchanged_states_is_wrong_there(backend, tmp_path, pycandle):
    manifest = recorded(Average(), tmp_path, X)
    programs = captured(
        manifest,
        tmp_path / "source",
        pycandle.path,
        {
            "momentum": (r"\b0\.9\b", "0.99"),
            "exchanged": (r'mean\(w\.state\("mean"\)\)', 'mean(w.state("largest"))'),
        },
    )
    momentum = wrong_in(pycandle, manifest, programs["momentum"], backend)
    assert momentum["second call", "updated:mean"]["diagnosis"]["cause"] == MOMENTUM
    assert not any(call == "" for call, _ in momentum)
    wrong = wrong_in(pycandle, manifest, programs["exchanged"], backend)
    assert {("", "updated:mean"), ("second call", "updated:mean")} <= wrong.keys()


def test_an_old_recording_without_a_second_call_is_judged_by_its_first(tmp_path, pycandle) -> None:
    manifest = recorded(Counter(), tmp_path, X)
    document = json.loads(manifest.read_text())
    del document["files"]["second_trace"]
    manifest.write_text(json.dumps(document))
    (tmp_path / "model_second.safetensors").unlink()
    result = pycandle.json("verify", manifest)
    assert result["status"] == "passed" and {row.get("input", "") for row in result["layers"]} == {""}
    document["files"]["second_trace"] = "../elsewhere.safetensors"
    manifest.write_text(json.dumps(document))
    assert "files.second_trace" in pycandle("verify", manifest, status=2).stderr
