"""Recorded models as C++ source: what it looks like, that it compiles, and that it is the recorded program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from zoo.basics import BY_NAME, CASES, Case, tokens

from pycandle import GoldenRecorder, perturb

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"
CLANG_FORMAT = Path(sys.executable).with_name("clang-format")


def recorded(model: nn.Module, folder: Path, inputs: dict, dynamic=None) -> Path:
    torch.manual_seed(0)
    perturb(model.eval(), seed=0)
    recorder = GoldenRecorder(folder, dynamic=dynamic)
    recorder.record(model, **inputs)
    recorder.save("model")
    return folder / "model_manifest.json"


def recorded_case(case: Case, folder: Path) -> Path:
    torch.manual_seed(0)
    inputs = case.inputs(case.recorded, torch.Generator().manual_seed(0))
    return recorded(case.make(), folder, inputs, case.dynamic)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Path:
    return recorded_case(BY_NAME["gpt2"], tmp_path_factory.mktemp("gpt2"))


class Awkward(nn.Module):
    """Names that are C++'s own, a module called twice, a weight of a child used by its parent, a dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.int = nn.Linear(6, 6)
        self.größe = nn.Linear(6, 6)
        self.layers = nn.ModuleDict({"switch": nn.LSTM(6, 6, batch_first=True), "template": nn.Linear(6, 6)})
        self.steps = nn.ModuleList([nn.Linear(6, 6)])
        self.register_buffer("default", torch.arange(6.0))

    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> dict:
        double = torch.relu(self.int(x))
        double = self.int(double) + self.default
        output, (hidden, _) = self.layers["switch"](double)
        short = output * self.größe.weight[0] + self.layers["template"](self.steps[0](output))
        return {"logits": short[:, -1], "state": hidden.transpose(0, 1)}


@pytest.fixture(scope="session")
def awkward(tmp_path_factory) -> Path:
    inputs = {"x": torch.randn(2, 5, 6), "unused": torch.randn(2, 3)}
    dynamic = {"x": {0: "batch", 1: "seq"}}
    return recorded(Awkward(), tmp_path_factory.mktemp("awkward"), inputs, dynamic)


DRIVER = """
#include <cstdio>
#include "model.hpp"

int main(int, char** argv) try {
  using namespace pycandle;
  const std::string manifest = argv[1];
  const Checker checker = Checker::load("model", argv[2]);
  const MODEL model(Weights::open(manifest), checker);
  const Compiled run = compile(model, signature_of(manifest));
  const RoundTrip trip = round_trip(run, manifest);
  if (!trip.equal) {
    std::printf("not the recorded program: %s\\n", trip.difference.c_str());
    return 1;
  }
  const auto outputs = run.run(checker.inputs());
  for (const auto& [name, golden] : checker.outputs()) {
    const CheckResult result = checker.verify("@0/" + name, outputs.at(name));
    if (!result.passed) {
      std::printf("%s\\n", result.why.c_str());
      return 1;
    }
  }
  std::printf("%zu layers checked\\n", checker.results().size());
  return 0;
} catch (const std::exception& e) {
  std::printf("%s\\n", e.what());
  return 1;
}
"""


def compiled_and_run(manifest: Path, folder: Path, pycandle) -> int:
    """Emits, compiles with warnings as errors, and runs: the number of layers that were compared."""
    made = pycandle.json("codegen", "--manifest", manifest, "--out", folder / "model.hpp")
    driver = DRIVER.replace("MODEL", f"{made['namespace']}::{made['model']}")
    (folder / "driver.cpp").write_text(driver)
    compiler = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    command = [*compiler, folder / "driver.cpp", LIBRARY, "-lpthread", "-o", folder / "driver"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run([folder / "driver", manifest, manifest.parent], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return int(ran.stdout.split()[0])


def test_gpt2_is_short_with_its_blocks_in_a_loop(gpt2, tmp_path, pycandle) -> None:
    pycandle("codegen", "--manifest", gpt2, "--out", tmp_path / "gpt2.hpp")
    text = (tmp_path / "gpt2.hpp").read_text()
    assert len(text.splitlines()) <= 200
    assert text.count("struct GPT2Block : nn::Module<GPT2Block>") == 1
    assert "for (const GPT2Block& block : h) hidden_states = block(hidden_states);" in text
    assert re.search(r"// GPT2Block, transformers/models/gpt2/modeling_gpt2.py:\d+ \(2 instances\)", text)
    assert not re.search(r"\b\w+_\d+ =", text), "a numbered temporary where Python had a name"
    assert "input_ids.dim(1)" in text, "sizes are said in terms of the inputs"
    assert "int64_t n_embd = 32;" in text and "c_attn(c.n_embd, 3 * c.n_embd," in text, (
        "numbers in Python's words"
    )
    assert "split_heads(key_states, num_heads)" in text


def test_gpt2_compiles_and_is_the_recorded_program(gpt2, tmp_path, pycandle) -> None:
    assert compiled_and_run(gpt2, tmp_path, pycandle) >= 10


def test_awkward_names_and_shapes_come_out_right(awkward, tmp_path, pycandle) -> None:
    assert compiled_and_run(awkward, tmp_path, pycandle) >= 3
    text = (tmp_path / "model.hpp").read_text()
    for name in (
        "int_",
        "groesse_weight",
        "switch_",
        "template_",
        "steps_0",
        "default_",
        "Tensor logits, state;",
        "/*unused*/",
    ):
        assert name in text, name


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_compiles_and_is_the_recorded_program(case: Case, tmp_path, pycandle) -> None:
    manifest = recorded_case(case, tmp_path)
    compiled_and_run(manifest, tmp_path, pycandle)


def swin() -> Case:
    from torchvision.models import SwinTransformer

    sizes = {
        "patch_size": [2, 2],
        "embed_dim": 8,
        "depths": [2, 4],
        "num_heads": [2, 2],
        "window_size": [2, 2],
    }
    inputs = lambda s, g: {"x": torch.randn(s["batch"], 3, 16, 16, generator=g)}  # noqa: E731
    return Case("swin", lambda: SwinTransformer(**sizes, num_classes=5), inputs, {"batch": 2}, [])


def gemma3() -> Case:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=4, sliding_window_pattern=3, use_cache=False,
    )  # fmt: skip
    return Case("gemma3", lambda: Gemma3ForCausalLM(config), tokens(97), {"batch": 2, "seq": 9}, [])


def albert() -> Case:
    from transformers import AlbertConfig, AlbertModel

    config = AlbertConfig(
        vocab_size=97, embedding_size=16, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4,
    )  # fmt: skip
    return Case("albert", lambda: AlbertModel(config), tokens(97), {"batch": 2, "seq": 9}, [])


@pytest.mark.full
@pytest.mark.parametrize(
    ("case", "shows"),
    [
        (swin, "struct ShiftedWindowAttention "),  # every second block shifts its windows
        (gemma3, "struct Gemma3DecoderLayerWithoutSliding "),  # local layers, and now and then a global one
        (albert, "for (int64_t i = 0; i < 3; ++i)"),  # one layer, called again and again
    ],
)
def test_awkward_structures_are_the_recorded_program(case, shows, tmp_path, pycandle) -> None:
    compiled_and_run(recorded_case(case(), tmp_path), tmp_path, pycandle)
    assert shows in (tmp_path / "model.hpp").read_text()


class Optional(nn.Module):
    """An input that is not always given, torch's own attention, and a forward that goes on and on."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = self.attention(x, x, x, need_weights=False)[0]
        total, product = x, x
        for step in range(1, 31):
            total = torch.tanh(total) / step + x
            product = torch.tanh(product) * total
        return total + product if mask is None else (total + product) * mask


def test_a_long_forward_is_several_functions_and_attention_is_torchs(tmp_path, pycandle) -> None:
    compiled_and_run(recorded(Optional(), tmp_path, {"x": torch.randn(2, 5, 8)}), tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "nn::MultiheadAttention attention;" in text
    assert "attention(8, 2, {.batch_first = true}, w /" in text
    ends = [i for i, line in enumerate(text.splitlines()) if line == "  }"]
    starts = [i for i, line in enumerate(text.splitlines()) if line.endswith(") const {")]
    assert len(starts) > 1 and max(e - s for s, e in zip(starts, ends, strict=True)) <= 60
    assert "mask" not in text, "an input that was not given"
    assert not re.search(r"\w_\d+ =", text), "names that Python takes again and again are taken again"


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: x * 2, (x,))


@pytest.mark.full
def test_control_flow_is_written_as_functions(tmp_path, pycandle) -> None:
    manifest = recorded(Chooses(), tmp_path, {"x": torch.randn(3, 4)})
    compiled_and_run(manifest, tmp_path, pycandle)
    text = (tmp_path / "model.hpp").read_text()
    assert "const auto yes = [](const Tensors& v) {" in text and "functional::cond(" in text


def test_what_is_emitted_is_deterministic_and_clang_format_leaves_it(
    awkward, gpt2, tmp_path, pycandle
) -> None:
    for number, manifest in enumerate((awkward, gpt2)):
        pycandle("codegen", "--manifest", manifest, "--out", tmp_path / f"a{number}")
        pycandle("codegen", "--manifest", manifest, "--out", tmp_path / f"b{number}")
        header = tmp_path / f"a{number}" / "src" / "model.hpp"
        assert header.read_bytes() == (tmp_path / f"b{number}" / "src" / "model.hpp").read_bytes()
        bench = tmp_path / f"a{number}" / "benches" / "bench_model.cpp"
        pycandle("gen-bench", "--manifest", manifest, "--out", bench)
        around = ("src/main.cpp", "tests/test_model.cpp")
        for file in (header, bench, *(tmp_path / f"a{number}" / name for name in around)):
            formatted = subprocess.run(
                [CLANG_FORMAT, file], capture_output=True, text=True, check=True
            ).stdout
            assert formatted == file.read_text()


def test_a_folder_becomes_a_project(gpt2, tmp_path, pycandle) -> None:
    pycandle("codegen", "--manifest", gpt2, "--out", tmp_path / "port", "--model", "Gpt2")
    there = {str(f.relative_to(tmp_path / "port")) for f in (tmp_path / "port").rglob("*") if f.is_file()}
    assert {"CMakeLists.txt", "src/model.hpp", "src/main.cpp", "tests/test_model.cpp"} <= there
    assert "struct Gpt2 : nn::Module<Gpt2>" in (tmp_path / "port" / "src" / "model.hpp").read_text()
    assert "find_package(pycandle" in (tmp_path / "port" / "CMakeLists.txt").read_text()


def run_main(program: Path, *arguments, cwd: Path, status: int = 0, **environment) -> str:
    """What it says where; an error is one line."""
    ran = subprocess.run(
        [program, *arguments], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    if status == 0:
        assert ran.stdout.startswith("output.logits: 2 6\noutput.state: 2 1 6\n")
    else:
        assert ran.stdout == "" and ran.stderr.startswith("error: ") and ran.stderr.count("\n") == 1
    return ran.stderr


def test_an_emitted_program_finds_its_recording_from_any_folder(awkward, tmp_path, pycandle) -> None:
    place = tmp_path / "place"
    shutil.copytree(awkward.parent, place / "traces")
    pycandle("codegen", "--manifest", place / "traces", "--out", place / "port")
    readme = (place / "port" / "README.md").read_text()
    assert "from the recording `model` (`../traces/model_manifest.json`)" in readme
    assert "Awkward" in readme and "x f32[s0, s1, 6]" in readme
    program = place / "port" / "main"
    compiler = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*compiler, place / "port/src/main.cpp", LIBRARY, "-lpthread", "-o", program], check=True)
    run_main(program, cwd=Path("/"))
    run_main(program, cwd=place)
    moved = tmp_path / "moved"
    place.rename(moved)  # also the source files: from the program's own place
    run_main(moved / "port" / "main", cwd=Path("/"))
    (moved / "traces").rename(tmp_path / "elsewhere")
    error = run_main(moved / "port" / "main", cwd=Path("/"), status=2)
    assert "the recording model is not there" in error and "PYCANDLE_TRACE" in error
    assert str(moved / "traces") in error and str(place / "traces") in error, "it says where it looked"
    run_main(moved / "port" / "main", tmp_path / "elsewhere", cwd=Path("/"))
    run_main(moved / "port" / "main", cwd=Path("/"), PYCANDLE_TRACE=str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere" / "model_weights.safetensors").unlink()
    error = run_main(moved / "port" / "main", tmp_path / "elsewhere", cwd=Path("/"), status=2)
    assert "model_weights.safetensors" in error


def test_over_edited_code_it_refuses_shows_and_merges(gpt2, tmp_path, pycandle) -> None:
    out = tmp_path / "model.hpp"
    emit = ("codegen", "--manifest", gpt2, "--out", out)
    pycandle(*emit)
    pycandle(*emit, "--check")
    edited = "// mine\n" + out.read_text()
    out.write_text(edited)
    assert "was edited" in pycandle(*emit, status=2).stderr
    assert out.read_text() == edited
    pycandle(*emit, "--check", status=1)
    assert "-// mine" in pycandle(*emit, "--diff").stdout
    pycandle(*emit, "--merge", "--model", "Gpt2")
    assert out.read_text().startswith("// mine") and "struct Gpt2 " in out.read_text()


def test_output_that_is_somebody_elses_stays(gpt2, tmp_path, pycandle) -> None:
    (tmp_path / "model.hpp").write_text("int mine;\n")
    error = pycandle("codegen", "--manifest", gpt2, "--out", tmp_path / "model.hpp", status=2).stderr
    assert "not made by codegen" in error
    assert (tmp_path / "model.hpp").read_text() == "int mine;\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "2nd model"], "not one that a class can have"),
        (["--target", "fortran"], "fortran"),
        (["--out", "/proc/nowhere/model.hpp"], "cannot be made"),
        (["--out", "model.cpp"], "neither a header nor a folder"),
    ],
)
def test_wrong_usage_is_one_clear_error(gpt2, tmp_path, pycandle, arguments, says) -> None:
    given = ["--out", tmp_path / "model.hpp"] if "--out" not in arguments else []
    done = pycandle("codegen", "--manifest", gpt2, *given, *arguments, status=2, cwd=tmp_path)
    assert says in done.stderr and not done.stdout, "nothing is said to be written"
    assert not (tmp_path / "model.hpp").exists()


def test_a_project_is_written_whole_or_not_at_all(gpt2, tmp_path, pycandle) -> None:
    mine = tmp_path / "port" / "tests" / "test_model.cpp"
    mine.parent.mkdir(parents=True)
    mine.write_text("int mine;\n")
    error = pycandle("codegen", "--manifest", gpt2, "--out", tmp_path / "port", status=2).stderr
    assert "not made by codegen; nothing was written" in error and "test_model.cpp" in error
    assert [f for f in tmp_path.rglob("*") if f.is_file()] == [mine]


def contents(folder: Path) -> dict[str, str | None]:
    return {str(p.relative_to(folder)): p.read_text() if p.is_file() else None for p in folder.rglob("*")}


def test_a_disk_that_fills_up_leaves_a_project_as_it_was(tmp_path, pycandle) -> None:
    """A limit on the size of files stands for the full disk: the largest file is not the first."""
    made = {
        width: recorded(nn.Linear(4, width), tmp_path / str(width), {"input": torch.randn(2, 4)})
        for width in (4, 8)
    }
    port = tmp_path / "ports" / "port"
    pycandle("codegen", "--manifest", made[4], "--out", port)
    before = contents(port)
    limit = max(len(text) for text in before.values() if text) - 1

    def full(out: Path) -> str:
        command = [pycandle.path, "codegen", "--manifest", made[8], "--out", out]
        limited = ["prlimit", f"--fsize={limit}", *command]  # which says so by an error, not by a signal
        ran = subprocess.run(limited, capture_output=True, text=True, restore_signals=False)
        assert ran.returncode == 2, ran.stderr
        return ran.stderr

    assert "cannot write" in full(port) and contents(port) == before
    assert "cannot write" in full(port.with_name("another")) and list(port.parent.iterdir()) == [port]


@pytest.mark.parametrize("command", ["gen-test", "gen-bench"])
def test_programs_around_a_model_are_refused_as_clearly(gpt2, tmp_path, pycandle, command) -> None:
    out = tmp_path / "tests" / "made.cpp"
    pycandle("codegen", "--manifest", gpt2, "--out", tmp_path / "src" / "model.hpp", "--model", "Gpt2")
    unknown = pycandle(command, "--manifest", gpt2, "--out", out, "--model", "Bert", status=2).stderr
    assert "has no model of that name" in unknown and "--model Gpt2" in unknown and "Bert" in unknown
    nowhere = pycandle(command, "--manifest", gpt2, "--out", "/proc/nowhere/made.cpp", status=2).stderr
    assert "cannot be made" in nowhere
    absent = pycandle(command, "--manifest", tmp_path / "absent.json", "--out", out, status=2).stderr
    assert "absent.json" in absent
    assert not out.exists()
    out.parent.mkdir()
    out.write_text("int mine;\n")
    there = pycandle(command, "--manifest", gpt2, "--out", out, "--model", "Gpt2", status=2).stderr
    assert "not made by codegen" in there and out.read_text() == "int mine;\n"
    made = ("--manifest", gpt2, "--out", tmp_path / "tests" / "other.cpp", "--model", "Gpt2")
    pycandle(command, *made)
    (tmp_path / "tests" / "other.cpp").open("a").write("int mine;\n")
    assert "--diff" in pycandle(command, *made, status=2).stderr
    assert "-int mine;" in pycandle(command, *made, "--diff").stdout


def test_a_recording_without_weights_is_refused(gpt2, tmp_path, pycandle) -> None:
    manifest = json.loads(gpt2.read_text())
    for parameter in manifest["parameters"]:
        parameter["file"] = None
    bare = tmp_path / "bare_manifest.json"
    bare.write_text(json.dumps(manifest))
    error = pycandle("codegen", "--manifest", bare, "--out", tmp_path / "model.hpp", status=2).stderr
    assert "has no weights" in error and not (tmp_path / "model.hpp").exists()


def test_gaps_are_refused_or_marked(gpt2, tmp_path, pycandle) -> None:
    manifest = json.loads(gpt2.read_text())
    node = next(n for n in manifest["nodes"] if n["op"] == "aten.tanh.default")
    node["op"] = "mylib.unheard_of.default"
    broken = tmp_path / "gap_manifest.json"
    broken.write_text(json.dumps(manifest))
    out = tmp_path / "model.hpp"
    error = pycandle("codegen", "--manifest", broken, "--out", out, status=1).stderr
    assert "mylib.unheard_of" in error and not out.exists()
    pycandle("codegen", "--manifest", broken, "--out", out, "--allow-gaps")
    assert 'todo("mylib.unheard_of.default is not supported' in out.read_text()
    todos = pycandle.json("todos", out, "--check", status=1)["todos"]
    assert len(todos) == 1 and "mylib.unheard_of" in todos[0]["what"]
    (tmp_path / "uses.cpp").write_text('#include "model.hpp"\n')
    compiler = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([*compiler, tmp_path / "uses.cpp"], check=True)
