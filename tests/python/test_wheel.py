"""The wheel brings the C++ library too: a project is built against it, and its program needs neither Python nor torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from pycandle import GoldenRecorder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.full


def run(*command, cwd=None, env=None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(ROOT / "scripts/wheel.sh", folder)
    (made,) = folder.glob("pycandle-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """bin/ of an environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel)
    return folder / "bin"


@pytest.fixture(scope="module")
def without_torch(installed) -> Path:
    """Its Python, once it has NumPy too: what running a model needs."""
    run(installed / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "numpy")
    return installed / "python"


@pytest.fixture(scope="module")
def project(installed, tmp_path_factory) -> Path:
    """A model that was recorded elsewhere, made into a project with what the wheel brought, and built."""
    folder = tmp_path_factory.mktemp("project") / "small"
    environment = {**os.environ, "PATH": f"{installed}:/usr/bin:/bin"}
    run("pycandle", "new", folder, "--model", "Small", env=environment)
    torch.manual_seed(0)
    recorder = GoldenRecorder(folder / "pycandle_trace")
    recorder.record(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).eval(), torch.randn(2, 6))
    recorder.save("small")
    for command, out in (("codegen", "."), ("gen-test", "tests/test_model.cpp")):
        made = ("--manifest", "pycandle_trace/small_manifest.json", "--model", "Small", "--out", out)
        run("pycandle", command, *made, cwd=folder, env=environment)
    (folder / "src/shared.cpp").write_text('#include "main.cpp"\n')
    with (folder / "CMakeLists.txt").open("a") as out:
        out.write("set_target_properties(shared PROPERTIES LINK_LIBRARIES pycandle::shared)\n")
    run("cmake", "--preset", "release", cwd=folder, env=environment)
    run("cmake", "--build", "--preset", "release", cwd=folder, env=environment)
    return folder


def test_the_wheel_has_headers_both_libraries_and_the_cmake_package(wheel) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "include/pycandle/pycandle.h",
        "include/pycandle/functional.h",
        "include/pycandle/c.h",
        "lib/libpycandle.a",
        "lib/libpycandle.so",
        "lib/cmake/pycandle/pycandleConfig.cmake",
        "lib/cmake/pycandle/pycandleTargets.cmake",
        "lib/pkgconfig/pycandle.pc",
    ):
        assert f"pycandle/{name}" in names, name


def test_recording_is_an_extra_and_running_needs_numpy_alone(wheel) -> None:
    files = zipfile.ZipFile(wheel)
    (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
    lines = files.read(name).decode().splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    assert "Provides-Extra: record" in lines
    assert [line for line in needed if "extra ==" not in line] == ["numpy>=1.26"]
    extras = [(re.match(r"\w+", line)[0], re.search(r"extra == ['\"](\w+)", line)) for line in needed]
    assert {name for name, extra in extras if extra and extra[1] == "record"} == {
        "torch",
        "safetensors",
        "rich",
    }


def test_a_model_is_loaded_and_run_in_an_environment_without_torch(without_torch, tmp_path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 3).eval()
    recorder = GoldenRecorder(tmp_path)
    recorder.record(model, torch.randn(2, 6))
    recorder.save("small")
    script = tmp_path / "run.py"
    script.write_text(
        "import importlib.util, numpy, pycandle\n"
        "assert importlib.util.find_spec('torch') is None\n"
        "assert 'GoldenRecorder' not in dir(pycandle)\n"
        "model = pycandle.load_model('.')\n"
        "(y,) = model(numpy.ones((4, 6), numpy.float32)).values()\n"
        "print(y.tolist())\n"
    )
    printed = json.loads(run(without_torch, "run.py", cwd=tmp_path))
    torch.testing.assert_close(torch.tensor(printed), model(torch.ones(4, 6)).detach(), rtol=1e-5, atol=1e-6)


def test_the_installed_program_says_where_its_cmake_package_is(installed) -> None:
    folder = Path(run(installed / "pycandle", "--cmake-dir").strip())
    assert (folder / "pycandleConfig.cmake").exists()
    assert folder.is_relative_to(installed.parent)


def test_a_project_finds_the_wheels_library_and_passes_its_tests(project) -> None:
    assert "100% tests passed" in run("ctest", "--preset", "release", cwd=project)
    linked = [f for name in ("link.txt", "build.ninja") for f in (project / "build").rglob(name)]
    assert any("site-packages/pycandle/lib/libpycandle.a" in f.read_text() for f in linked)


@pytest.mark.parametrize("program", ["main", "shared"])
def test_a_deployed_program_needs_neither_python_nor_torch(project, program) -> None:
    built = project / "build/release" / program
    needed = run("ldd", built)
    names = {line.split()[0] for line in needed.splitlines()}
    assert not [name for name in names for word in ("python", "torch", "c10") if word in name], needed
    assert "not found" not in needed
    assert ("libpycandle.so" in names) == (program == "shared")
    assert run(built, cwd=project, env={}).startswith("output: 2 3")
