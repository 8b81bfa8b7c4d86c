"""`codegen --stateful`: the decode step of a causal model as C++, compiled, and held against the whole model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from causal_models import CAUSAL
from test_decoding import ENTRIES, MORE, recorded
from zoo.recordings import record

ROOT = Path(__file__).parents[2]
CLANG_FORMAT = Path(sys.executable).with_name("clang-format")
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"
COMPILE = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
JUDGE = """#include <cstdio>

#include <pycandle/pycandle.h>
#include <pycandle/control_flow.h>

template <class Model, class Cache>
void judge(const char* name, const char* folder) try {
  using namespace pycandle;
  const std::string manifest = std::string(folder) + "/model_manifest.json";
  const Model model(Weights::open(manifest), Checker::load("model", folder));
  const CompiledDecoder decoder = compile_decoder<Cache>(model, decode_signature_of(manifest));
  const RoundTrip trip = round_trip(decoder, manifest);
  const DecodeCheck check = check_decoding(decoder, manifest);
  std::printf("== %s: %s, %s\\n", name, trip.equal ? "equal" : trip.difference.c_str(),
              check.passed ? "proven" : check.why.c_str());
} catch (const std::exception& error) {
  std::printf("== %s: %s\\n", name, error.what());
}
"""
SAMPLE = ("gpt2", "llama", "lstm", "convolution", "shifted", "state_space")
WITH_ENCODER = ("t5", "bart", "whisper")


def make_recording(name: str, folder: Path) -> Path:
    if name in CAUSAL:
        return recorded(CAUSAL[name](), folder)
    record(ENTRIES[name], folder)
    return folder


def emitted(folder: Path, pycandle) -> tuple[str, str]:
    """The header, and the class of the model with its namespace."""
    made = pycandle.json("codegen", "--stateful", "--manifest", folder, "--out", folder / "decode.hpp")
    return (folder / "decode.hpp").read_text(), f"{made['namespace']}::{made['model']}"


def judged(models: dict[str, tuple[str, str, Path]], folder: Path) -> dict[str, str]:
    """What the compiled code of each says: of name → header, class, recording."""
    includes, calls = "", ""
    for number, (name, (header, model, recording)) in enumerate(models.items()):
        space, _, made = model.partition("::")
        includes += re.sub(
            rf"\bnamespace {space}\b", f"namespace model{number}", header.replace("#pragma once", "")
        )
        calls += f'  judge<model{number}::{made}, model{number}::Cache>("{name}", "{recording}");\n'
    source = folder / "models.cpp"
    source.write_text(f"{JUDGE}{includes}int main() {{\n{calls}}}\n")
    built = subprocess.run(
        [*COMPILE, source, LIBRARY, "-lpthread", "-o", folder / "models"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:4000]
    said = subprocess.run([folder / "models"], capture_output=True, text=True, check=True).stdout
    return dict(part.strip().split(": ", 1) for part in said.split("== ")[1:])


def edited(header: str, old: str, new: str) -> str:
    assert header.count(old) == 1, header
    return header.replace(old, new)


@pytest.fixture(scope="session")
def sample(tmp_path_factory, pycandle) -> dict[str, tuple[str, str, Path]]:
    models = {}
    for name in SAMPLE:
        folder = make_recording(name, tmp_path_factory.mktemp(name))
        models[name] = (*emitted(folder, pycandle), folder)
    return models


def test_the_code_is_the_derived_step_and_decodes_as_the_whole_model(sample, tmp_path) -> None:
    header, model, recording = sample["gpt2"]
    at_zero = edited(header, "cache.lengths.unsqueeze(1) + arange", "0 * cache.lengths.unsqueeze(1) + arange")
    said = judged({**sample, "wrong positions": (at_zero, model, recording)}, tmp_path)
    wrong = said.pop("wrong positions")
    assert said == dict.fromkeys(SAMPLE, "equal, proven")
    assert "is wrong at transformer" in wrong, "the layer is named"
    assert re.search(r"token \d+ of sequence \d", wrong) and ".py:" in wrong


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in MORE if name not in (*SAMPLE, *WITH_ENCODER)])
def test_other_models_are_written_too(name: str, tmp_path, pycandle) -> None:
    make_recording(name, tmp_path)
    assert judged({name: (*emitted(tmp_path, pycandle), tmp_path)}, tmp_path) == {name: "equal, proven"}


def test_gpt2_is_what_a_person_would_write() -> None:
    header = (ROOT / "models" / "gpt2" / "decode.hpp").read_text()
    assert 'CacheRows key{lengths, "key"}, value{lengths, "value"};' in header
    assert "CacheList<GPT2AttentionCache> h{lengths};" in header
    assert "Tensor forward(const Tensor& hidden_states, GPT2AttentionCache& cache) const {" in header
    assert "key_states = cache.key.append(functional::split_heads(key_states, num_heads));" in header
    assert "hidden_states = h[i](hidden_states, cache.h[i]);" in header
    assert "Output forward(const Tensor& input_ids, Cache& cache) const {" in header


def test_a_folder_becomes_a_project_whose_tests_are_the_decode_proof(sample, tmp_path, pycandle) -> None:
    project = tmp_path / "project"
    recording = sample["shifted"][2]
    pycandle("codegen", "--stateful", "--manifest", recording, "--out", project)
    sources = [project / "tests" / "test_model.cpp", project / "src" / "main.cpp"]
    programs = [tmp_path / "test_model", tmp_path / "main"]
    for source, program, more in zip(sources, programs, (["-lgtest", "-lgtest_main"], []), strict=True):
        command = [*COMPILE, f"-I{project / 'src'}", source, LIBRARY, *more, "-lpthread", "-o", program]
        built = subprocess.run(command, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr[:4000]
    tested = subprocess.run([programs[0]], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout
    assert "DecodesAsTheWholeModel" in tested.stdout and "IsTheDerivedStep" in tested.stdout
    assert (
        "output: 2 9 29" in subprocess.run([programs[1]], capture_output=True, text=True, check=True).stdout
    )


def test_the_programs_around_a_step_are_written_alone(sample, tmp_path, pycandle) -> None:
    recording, project = sample["shifted"][2], tmp_path / "project"
    pycandle("codegen", "--stateful", "--manifest", recording, "--out", project)
    test, bench = project / "tests" / "alone.cpp", project / "benches" / "bench_model.cpp"
    pycandle("gen-test", "--stateful", "--manifest", recording, "--out", test)
    assert "DecodesAsTheWholeModel" in test.read_text() and "compile_decoder<" in test.read_text()
    pycandle("gen-bench", "--stateful", "--manifest", recording, "--out", bench)
    formatted = subprocess.run([CLANG_FORMAT, bench], capture_output=True, text=True, check=True).stdout
    assert formatted == bench.read_text()
    command = [
        *COMPILE,
        f"-I{project / 'src'}",
        bench,
        LIBRARY,
        "-lbenchmark",
        "-lpthread",
        "-o",
        tmp_path / "bench",
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    options = ["--benchmark_min_time=0.001", "--benchmark_filter=/16", "--benchmark_format=json"]
    ran = subprocess.run([tmp_path / "bench", *options], capture_output=True, text=True, check=True)
    rows = json.loads(ran.stdout)["benchmarks"]
    assert [row["name"].split("/")[1] for row in rows] == ["prompt", "token_behind"]
    assert all(row["tokens_per_second"] > 0 for row in rows)


def test_what_has_no_step_or_none_that_can_be_written_is_refused(tmp_path, pycandle) -> None:
    make_recording("t5", tmp_path / "t5")
    error = pycandle(
        "codegen", "--stateful", "--manifest", tmp_path / "t5", "--out", tmp_path / "t5.hpp", status=1
    ).stderr
    assert "computed once, from other inputs" in error
    make_recording("bert", tmp_path / "bert")
    error = pycandle(
        "codegen", "--stateful", "--manifest", tmp_path / "bert", "--out", tmp_path / "b.hpp", status=1
    ).stderr
    assert "attention is not causal" in error and ".py:" in error
    assert not list(tmp_path.glob("*.hpp"))
