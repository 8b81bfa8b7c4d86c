"""The whole way, as a user goes it: new, init, record, codegen, gen-test, gen-bench, build, test."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

RECORDER = """
import torch
from spy import GoldenRecorder
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=97)
recorder = GoldenRecorder(output_dir="../../pycandle_trace")
recorder.record(GPT2LMHeadModel(config).eval(), input_ids=torch.randint(0, 97, (2, 8)))
recorder.save("my_llm")
"""
MANIFEST = "pycandle_trace/my_llm_manifest.json"


@pytest.fixture(scope="module")
def project(pycandle, tmp_path_factory):
    """A project of an own, up to its first build."""
    folder = tmp_path_factory.mktemp("workflow") / "my_llm"
    pycandle("new", folder, "--model", "GPT2")
    pycandle("init", "--no-env", cwd=folder)
    (folder / ".pycandle/scripts/recorder.py").write_text(RECORDER)
    pycandle("record", "--script", ".pycandle/scripts/recorder.py", "--name", "my_llm", cwd=folder)
    for command, out in (
        ("codegen", "src/model.hpp"),
        ("gen-test", "tests/test_model.cpp"),
        ("gen-bench", "benches/bench_model.cpp"),
    ):
        pycandle(command, "--manifest", MANIFEST, "--model", "GPT2", "--out", out, cwd=folder)
    where = pycandle("--cmake-dir").stdout.strip()
    run(
        folder,
        "cmake",
        "--preset",
        "release",
        f"-Dpycandle_DIR={where}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O0",  # quick to compile
    )
    build(folder)
    return folder


def run(folder, *command, status=0, **environment) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert (done.returncode == 0) == (status == 0), done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def build(folder, *target) -> None:
    run(folder, "cmake", "--build", "--preset", "release", *target)


def rebuild_the_test(folder) -> None:
    build(folder, "--target", "test_model")


def test_the_project_passes_its_own_tests(project) -> None:
    said = run(project, "ctest", "--preset", "release")
    for name in (
        "AgreesLayerByLayer",
        "GivesTheRecordedOutput",
        "AgreesAtAnotherShape",
        "IsTheRecordedProgram",
    ):
        assert f"GPT2.{name}" in said
    assert "100% tests passed, 0 tests failed out of 4" in said


def test_the_benchmark_sweeps_the_open_sizes_and_knows_torchs_time(project) -> None:
    flags = ["--benchmark_min_time=0.01", "--benchmark_format=csv"]
    said = run(project, "build/release/bench_model", *flags, PYCANDLE_TORCH_MS="2.5")
    assert "GPT2/recorded" in said and "GPT2/s0:4" in said and "GPT2/s1:64" in said
    assert "GPT2/s1:128" not in said, "the model has 64 positions"
    head, first = [
        line.split(",") for line in said.splitlines() if "ratio_to_torch" in line or "recorded" in line
    ]
    facts = dict(zip([cell.strip('"') for cell in head], first, strict=True))
    assert float(facts["torch_ms"]) == 2.5
    assert float(facts["ratio_to_torch"]) == pytest.approx(float(facts["real_time"]) / 2.5, rel=1e-3)


def test_a_renamed_class_and_a_printed_tensor_change_nothing(project) -> None:
    header = project / "src/model.hpp"
    text = header.read_text()
    loop = "for (const GPT2Block& block : h) hidden_states = block(hidden_states);"
    assert loop in text
    edited = text.replace(loop, loop + '\n    std::cout << "after the blocks: " << hidden_states << "\\n";')
    header.write_text("#include <iostream>\n" + edited.replace("GPT2Block", "Layer"))
    try:
        rebuild_the_test(project)
        assert "100% tests passed" in run(project, "ctest", "--preset", "release")
        said = run(project, "build/release/test_model", "--gtest_filter=*GivesTheRecordedOutput")
        assert "after the blocks: f32[" in said
    finally:
        header.write_text(text)


def test_a_change_that_is_meant_is_accepted(project, pycandle) -> None:
    header = project / "src/model.hpp"
    text = header.read_text()
    residual = "hidden_states = attn_output + hidden_states;"
    assert residual in text
    header.write_text(text.replace(residual, "hidden_states = hidden_states + attn_output;"))
    try:
        rebuild_the_test(project)
        said = run(project, "ctest", "--preset", "release", status=1)
        assert "75% tests passed, 1 tests failed out of 4" in said, "every layer is right"
        assert "in transformer.h.0@0, GPT2Block, and the same in 1 more" in said
        assert "+ add(" in said and "src/model.hpp:" in said and "proven equal" in said
        command = next(line for line in said.splitlines() if "pycandle accept " in line).split("pycandle ")[1]
        assert command.startswith("accept . --reason ")
        pycandle("accept", ".", "--reason", "as the paper has it", "--by", "Ann", cwd=project)
        assert "100% tests passed" in run(project, "ctest", "--preset", "release")
        said = run(project, "build/release/test_model", "--gtest_filter=*IsTheRecordedProgram")
        assert "was accepted by Ann on" in said and "as the paper has it (proven equal)" in said
        header.write_text(header.read_text() + "\n")
        stale = pycandle("accept", ".", "--reason", "once more", cwd=project, status=2).stderr
        assert "changed after its program was kept" in stale and "run its tests again" in stale
    finally:
        header.write_text(text)
        (project / "accepted.json").unlink(missing_ok=True)


def wrong_layers(project, pycandle, said: str) -> list[dict]:
    """What the command that a failing test prints says is wrong."""
    _, command = next(line for line in said.splitlines() if "Next: pycandle " in line).split(
        "Next: pycandle "
    )
    result = json.loads(pycandle(*command.split(), "--json", cwd=project, status=1).stdout)
    return [layer for layer in result["layers"] if layer["verdict"] == "wrong here"]


def test_a_wrong_edit_is_caught_with_the_layers_name(project, pycandle) -> None:
    header = project / "src/model.hpp"
    text = header.read_text()
    assert '.approximate = "tanh"' in text
    header.write_text(text.replace('.approximate = "tanh"', '.approximate = "none"'))
    try:
        rebuild_the_test(project)
        said = run(project, "ctest", "--preset", "release", status=1)
        assert "transformer.h.0.mlp.act" in said and '"tanh"' in said
        wrong = wrong_layers(project, pycandle, said)
        assert wrong[0]["tap"] == "transformer.h.0.mlp.act@0/output" and wrong[0]["diagnosis"]["op"] == "gelu"
        assert wrong[0]["diagnosis"]["cause"] == "looks like the erf GELU where the model uses the tanh GELU"
    finally:
        header.write_text(text)


def test_a_layer_that_is_left_out_is_named_by_its_values(project, pycandle) -> None:
    header = project / "src/model.hpp"
    text = header.read_text()
    residual = "hidden_states = attn_output + hidden_states;"
    assert residual in text
    header.write_text(text.replace(residual, "hidden_states = attn_output;"))
    try:
        rebuild_the_test(project)
        said = run(project, "ctest", "--preset", "release", "-R", "LayerByLayer", status=1)
        first = next(line for line in said.splitlines() if "is off by" in line)
        assert "transformer.h.0.ln_2@0/output" in first
        diagnosis = wrong_layers(project, pycandle, said)[0]["diagnosis"]
        assert (diagnosis["op"], diagnosis["cause_kind"]) == ("add", "missing residual")
        assert diagnosis["path"] == "transformer.h.0@0"
    finally:
        header.write_text(text)
