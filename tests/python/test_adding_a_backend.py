"""docs/adding-a-backend.md, followed to the letter, what the suite finds when the toy backend is broken, and what is said of
libraries that are no backend."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from pages import ROOT, Page

PAGE = Page("adding-a-backend.md")
BUILD = ROOT / "build" / "release"


class Fault(NamedTuple):
    """What a text of the toy backend becomes when TOY_FAULT is the fault's name, and the op whose tests must fail."""

    name: str
    right: str
    wrong: str
    op: str


# BROKEN stands for: this fault is the one that is switched on.
FAULTS = [
    Fault("wrong axis", '(c.integer("dim") == c.rank("x") - 1 ||', '(BROKEN || c.integer("dim") == c.rank("x") - 1 ||', "softmax"),
    Fault("transpose not done", 'out.strides = permuted(x.strides, c.integers("permutation"));',
          'out.strides = BROKEN ? row_major_strides(out.sizes) : permuted(x.strides, c.integers("permutation"));', "transpose"),
    Fault("step ignored", "x.strides[i] * steps[i]", "x.strides[i] * (BROKEN ? 1 : steps[i])", "slice"),
    Fault("start ignored", "starts[i] * x.strides[i]", "(BROKEN ? 0 : starts[i]) * x.strides[i]", "slice"),
    Fault("NaN in maximum", "std::isnan(a) || a > b ? a : b", "(!BROKEN && std::isnan(a)) || a > b ? a : b", "maximum"),
    Fault("sum in f32 from the largest on", "sum += v;", "sum = BROKEN ? static_cast<double>(static_cast<float>(sum) * 1.0001F + v) : sum + v;", "reduce_sum"),
    Fault("halves round away from zero", "std::nearbyint(x)", "(BROKEN ? std::round(x) : std::nearbyint(x))", "round"),
    Fault("division by the reciprocal", "return a / b;", "return BROKEN ? a * (1 / b) * 1.00001F : a / b;", "softmax"),
    Fault("softmax overflows", "std::exp(row[i] - largest) / sum", "std::exp(row[i] - (BROKEN ? 0 : largest)) / sum", "softmax"),
    Fault("softmax not normalised", "static_cast<float>(std::exp(row[i]", "(BROKEN ? 1.0001F : 1.0F) * static_cast<float>(std::exp(row[i]", "softmax"),
    Fault("contraction one short", "k < depth; ++k", "k < depth - (BROKEN ? 1 : 0); ++k", "matmul"),
    Fault("batches mixed up", "(i / rows * columns + j)", "((BROKEN ? 0 : i / rows * columns) + j)", "matmul"),
    Fault("empty contraction", "if (out.size() == 0 || depth == 0) return out;",
          "if (BROKEN && depth == 0) std::fill_n(out.mutable_as<float>(), out.size(), 1.0F);\n  if (out.size() == 0 || depth == 0) return out;", "matmul"),
    Fault("product and sum exchanged", "std::fma(a, b, c)", "(BROKEN ? std::fma(a, c, b) : std::fma(a, b, c))", "add"),
    Fault("subtraction the other way", "return a - b;", "return BROKEN ? b - a : a - b;", "softmax"),
    Fault("sum as a mean", "static_cast<float>(sum) : largest", "static_cast<float>(BROKEN ? sum / static_cast<double>(row.size()) : sum) : largest", "reduce_sum"),
    Fault("stale state", "request.states ? (*request", "request.states && !BROKEN ? (*request", "average"),
    Fault("state not written back", "if (p_.states[i].updated != kNoValue)", "if (p_.states[i].updated != kNoValue && !BROKEN)", "average"),
    Fault("an output is missing", "for (const Output& o : p_.outputs) outputs", "for (const Output& o : p_.outputs) if (!BROKEN || outputs.empty()) outputs", "topk"),
    Fault("another seed each time", "evaluator{sizes, request.seed,", "evaluator{sizes, BROKEN ? static_cast<uint64_t>(std::rand()) : request.seed,", "add"),
]  # fmt: skip


def run(*command, cwd: Path, status: int = 0, **environment: str) -> str:
    words = [str(word) for word in command]
    variables = {
        **os.environ,
        "PATH": f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        **environment,
    }
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=1200, check=False, env=variables
    )
    assert done.returncode == status, (
        f"{words}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", place, "--component", "library", cwd=place)
    return place


def write_files(folder: Path) -> None:
    """The example that the page says to copy; what the page shows of it is there."""
    shutil.copytree(ROOT / "examples/toy_backend", folder, dirs_exist_ok=True)
    backend = (folder / "toy.cpp").read_text()
    (shown,) = PAGE.blocks("cpp")
    assert all(part.strip() in backend for part in shown.split("\n\n"))


@pytest.fixture(scope="module")
def toy(prefix, tmp_path_factory) -> Path:
    """The page's folder, built against the installed package as the page says."""
    folder = tmp_path_factory.mktemp("toy")
    write_files(folder)
    build = PAGE.blocks("sh")[0].replace(
        "-S .", f"-S . -Dpycandle_DIR={next(prefix.rglob('cmake/pycandle'))}"
    )
    run("bash", "-euc", build.replace("cmake --build build", "cmake --build build --target toy"), cwd=folder)
    return folder


def document_in(shown: str) -> dict:
    """What --json printed; a run of over ten seconds says behind it how far it is."""
    return json.JSONDecoder().raw_decode(shown)[0]


def results_of(library: Path, *options: str, status: int = 0, **environment: str) -> dict:
    text = run(
        "pycandle",
        "test-backend",
        library,
        "--json",
        *options,
        cwd=library.parent,
        status=status,
        **environment,
    )
    return document_in(text)


def test_someone_new_builds_a_backend_that_is_right(toy) -> None:
    result = results_of(toy / "build/libtoy.so")
    wrong = [
        f"{t['op']}: {t['name']}: {t['why']}" for t in result["tests"] if t["outcome"] in ("wrong", "failed")
    ]
    assert result["status"] == "fine" and not wrong, "\n".join(wrong[:20])
    total = result["total"]
    assert total["passed"] > 5000 and total["refused"] < total["tests"] / 20
    assert result["ops"]["softmax"]["claimed"] > 0 and result["ops"]["gelu"]["decomposed"] > 0


@pytest.mark.full
def test_the_page_to_its_end(prefix, tmp_path) -> None:
    """Its commands in order, with the GoogleTest program."""
    write_files(tmp_path)
    for block in PAGE.blocks("sh")[:2]:
        block = block.replace("-S .", f"-S . -Dpycandle_DIR={next(prefix.rglob('cmake/pycandle'))}")
        shown = run("bash", "-euc", block, cwd=tmp_path)
    assert "[  PASSED  ]" in shown


def broken_toy(toy: Path, folder: Path) -> Path:
    """The toy with every fault in it, each switched on by its name."""
    files = {name: (toy / name).read_text() for name in ("kernels.h", "toy.cpp")}
    for fault in FAULTS:
        (name,) = [name for name, text in files.items() if fault.right in text]
        switch = f'(std::getenv("TOY_FAULT") && !std::strcmp(std::getenv("TOY_FAULT"), "{fault.name}"))'
        files[name] = files[name].replace(fault.right, fault.wrong.replace("BROKEN", switch), 1)
    for name, text in files.items():
        (folder / name).write_text(
            text.replace("#include <algorithm>", "#include <algorithm>\n#include <bit>\n#include <cstdlib>")
        )
    (folder / "toy_test.cpp").write_text((toy / "toy_test.cpp").read_text())
    (folder / "CMakeLists.txt").write_text((toy / "CMakeLists.txt").read_text())
    return folder


@pytest.fixture(scope="module")
def broken(toy, prefix, tmp_path_factory) -> Path:
    folder = broken_toy(toy, tmp_path_factory.mktemp("broken"))
    package = next(prefix.rglob("cmake/pycandle"))
    run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-Dpycandle_DIR={package}", cwd=folder)
    run("cmake", "--build", "build", "--target", "toy", cwd=folder)
    return folder / "build/libtoy.so"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_suite_finds_a_fault_and_names_the_op(fault: Fault, broken) -> None:
    result = results_of(broken, "--filter", fault.op, status=1, TOY_FAULT=fault.name)
    wrong = {test["op"] for test in result["tests"] if test["outcome"] in ("wrong", "failed")}
    assert fault.op in wrong, f"{fault.name}: {wrong or 'nothing is wrong'}"
    assert results_of(broken, "--filter", fault.op)["status"] == "fine"


def test_there_are_enough_faults() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 20


# ---- libraries that are no backend, or a bad one

BAD = """
#include <stdexcept>
#include "backends/kit.h"
namespace {{
using namespace pycandle;
struct Bad final : Executable {{
  const Program p;
  explicit Bad(Program program) : p(std::move(program)) {{}}
  std::vector<Array> run(const RunRequest& request) const override {{ {run} }}
}};
struct BadBackend final : Backend {{
  std::string name() const override {{ return "bad"; }}
  bool claims(const Call&) const override {{ return false; }}
  std::unique_ptr<Executable> compile(const Program& p, const OpTable&, std::shared_ptr<const ParameterSource>,
                                      const PipelineOptions&, std::vector<PassTiming>*) const override {{ {compile} }}
}};
}}
PYCANDLE_BACKEND(*new BadBackend);
"""
COMPILES = "return std::make_unique<Bad>(p);"
OF_SHAPE = "std::vector<Array> out; for (const Output& o : p.outputs) out.push_back(Array({dtype}, {shape})); return out;"
RIGHT_SHAPE = "evaluate(p.graph.type(o.value).shape, bind_inputs(p, request.inputs))"


def compiled(source: str, folder: Path, prefix: Path, *flags: str) -> Path:
    (folder / "bad.cpp").write_text(source)
    headers = prefix / "include"
    run("c++", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{headers}/pycandle/kit", f"-I{headers}", *flags,
        "bad.cpp", "-o", "libbad.so", cwd=folder)  # fmt: skip
    return folder / "libbad.so"


BAD_CASES = {
    "throws": (BAD.format(run='throw std::runtime_error("out of luck");', compile=COMPILES), 3, "libbad.so failed while it ran"),
    "throws no exception": (BAD.format(run="throw 7;", compile=COMPILES), 3, "no std::exception"),
    "throws in compile": (BAD.format(run="return {};", compile='throw std::logic_error("no");'), 3, "failed while it compiled"),
    "no executable": (BAD.format(run="return {};", compile="return nullptr;"), 2, "gave no executable"),
    "no outputs": (BAD.format(run="return {};", compile=COMPILES), 2, "another number of outputs"),
    "wrong shape": (
        BAD.format(run=OF_SHAPE.format(dtype="p.graph.type(o.value).dtype", shape="{1, 2, 3, 4, 5}"), compile=COMPILES), 2, "another type"),
    "wrong dtype": (BAD.format(run=OF_SHAPE.format(dtype="DType::i16", shape=RIGHT_SHAPE), compile=COMPILES), 2, "another type"),
}  # fmt: skip


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    import torch

    from pycandle import GoldenRecorder

    folder = tmp_path_factory.mktemp("recording")
    torch.manual_seed(0)
    recorder = GoldenRecorder(output_dir=folder)
    recorder.record(
        torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Softmax(-1)).eval(), torch.randn(3, 4)
    )
    recorder.save("small")
    return folder


@pytest.mark.parametrize("case", BAD_CASES)
def test_a_bad_backend_is_one_error(case: str, prefix, recording, tmp_path) -> None:
    source, status, text = BAD_CASES[case]
    library = compiled(source, tmp_path, prefix)
    shown = run("pycandle", "forward", recording, "--backend", library, cwd=tmp_path, status=status)
    assert shown.startswith("error: libbad.so ") and text in shown, shown


def test_a_crash_is_a_test_that_failed(prefix, tmp_path) -> None:
    source = BAD.format(run="*static_cast<volatile int*>(nullptr) = 1; return {};", compile=COMPILES)
    result = results_of(compiled(source, tmp_path, prefix), "--filter", "tanh", status=1)
    assert result["total"]["failed"] == result["total"]["tests"] > 1
    assert all("it crashed: Segmentation fault" in test["why"] for test in result["tests"])


def test_what_is_no_backend_is_refused(prefix, recording, tmp_path, toy) -> None:
    def refusal(library: Path) -> str:
        shown = run("pycandle", "forward", recording, "--backend", library, cwd=tmp_path, status=2)
        assert shown.startswith("error: "), shown
        return shown

    assert "no entry point" in refusal(compiled("int nothing = 0;", tmp_path, prefix))
    old = compiled(
        BAD.format(run="return {};", compile=COMPILES), tmp_path, prefix, "-DPYCANDLE_KIT_VERSION=0"
    )
    assert "another version" in refusal(old) and "backend kit 0" in refusal(old)
    missing = "namespace pycandle { void not_there(); }\n" + BAD.format(
        run="not_there(); return {};", compile=COMPILES
    )
    assert "cannot be loaded" in refusal(compiled(missing, tmp_path, prefix))
    (tmp_path / "text.so").write_text("pycandle backend")
    assert "no shared library" in refusal(tmp_path / "text.so")
    assert "there is no backend" in refusal(tmp_path / "absent.so")
    cut = tmp_path / "cut.so"
    cut.write_bytes((toy / "build/libtoy.so").read_bytes()[:20000])
    assert str(cut) in refusal(cut)


def test_the_path_finds_backends_by_name(toy, prefix, recording, tmp_path) -> None:
    folders = f"{tmp_path}:{toy / 'build'}"
    compiled("int nothing = 0;", tmp_path, prefix)
    found = run(
        "pycandle", "forward", recording, "--backend", "toy", cwd=tmp_path, PYCANDLE_BACKEND_PATH=folders
    )
    assert "small · toy" in found and "f32[3, 5]" in found
    doctor = run("pycandle", "doctor", cwd=tmp_path, status=1, PYCANDLE_BACKEND_PATH=folders)
    assert "backend toy" in doctor and "libbad.so has no entry point" in doctor
    shown = run(
        "pycandle",
        "forward",
        recording,
        "--backend",
        "none",
        cwd=tmp_path,
        status=2,
        PYCANDLE_BACKEND_PATH=folders,
    )
    assert "toy" in shown and "pycandle doctor says why" in shown


def test_python_runs_and_lists_plugins(toy, recording, tmp_path) -> None:
    script = f"""
import numpy, pycandle
assert "toy" in pycandle.list_backends(), pycandle.list_backends()
x = numpy.linspace(-1, 1, 12, dtype=numpy.float32).reshape(3, 4)
for backend in ("toy", {str(toy / "build/libtoy.so")!r}):
    ours = pycandle.load_model({str(recording)!r}, backend=backend)(x)
    theirs = pycandle.load_model({str(recording)!r}, backend="reference")(x)
    numpy.testing.assert_allclose(ours["output"], theirs["output"], rtol=1e-6)
"""
    run(sys.executable, "-c", script, cwd=tmp_path, PYCANDLE_BACKEND_PATH=str(toy / "build"))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_our_own_backends_pass(backend: str, tmp_path) -> None:
    result = document_in(run("pycandle", "test-backend", backend, "--json", cwd=tmp_path))
    assert result["status"] == "fine" and result["total"]["refused"] == 0


# No operator of torch is recorded as these: they come from decompositions, decode steps, ONNX files and what is recognised in a
# larger program; or the data decides how large their results are; dropout records as nothing.
WITHOUT_TESTS = {
    "adaptive_window", "adaptive_window_argmax", "convolution", "reduce_window", "window_argmax",
    "cache_append", "cache_last", "cached_attention", "dim", "dynamic_slice", "dynamic_update", "scan", "stored_as",
    "numbers", "tree_ensemble", "dropout", "quick_gelu", "rotary_embedding", "snake", "nms", "batched_nms",
}  # fmt: skip


def test_the_pack_is_small_and_has_ops_states_and_control_flow() -> None:
    pack = ROOT / "tests" / "backend" / "pack"
    assert sum(file.stat().st_size for file in pack.iterdir()) < 20e6
    lines = [json.loads(line) for line in (pack / "cases.jsonl").read_text().splitlines()]
    assert len(lines) > 6000 and {"softmax", "matmul", "average", "cached", "branch", "loop"} <= {
        line["op"] for line in lines
    }
    called = {name for line in lines for name in re.findall(r" = (\w+)\(", line["program"])}
    ops = {op["name"] for op in json.loads(run("pycandle", "ops", "--json", cwd=ROOT))}
    assert ops - called == WITHOUT_TESTS, "python -m tests.backend.make_pack"


def test_every_function_of_the_kit_is_in_every_host() -> None:
    """A name that a header declares and a process lacks would be an error at loading."""
    objects = [
        file
        for target in ("base", "ir", "ops", "params", "passes", "backends")
        for file in (BUILD / f"CMakeFiles/pycandle_{target}.dir").rglob("*.o")
    ]
    wanted = set()
    for line in run("nm", "--defined-only", *objects, cwd=BUILD).splitlines():
        match = re.fullmatch(r"[0-9a-f]+ T (_ZNK?8pycandle\S+)", line)
        wanted |= {match[1]} if match else set()
    visible = set()
    for line in run("readelf", "-sW", *objects, cwd=BUILD).splitlines():
        match = re.search(r"FUNC +GLOBAL DEFAULT +\d+ (_ZNK?8pycandle\S+)", line)
        visible |= {match[1]} if match else set()
    wanted &= visible
    assert len(wanted) > 200
    hosts = [BUILD / "bin/pycandle", BUILD / "libpycandle.so", *(BUILD / "python/pycandle").glob("_core*.so")]
    assert len(hosts) == 3
    for host in hosts:
        shown = {line.split()[-1] for line in run("nm", "-D", "--defined-only", host, cwd=BUILD).splitlines()}
        assert not wanted - shown, f"{host.name} lacks {sorted(wanted - shown)[:5]}"
