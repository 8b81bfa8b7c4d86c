"""`pycandle new` and `pycandle init`: a project from nothing, and what they leave alone."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import threading
import time
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from terminals import on_terminal, screen


def paths(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_new_project_records_as_it_is(pycandle, tmp_path):
    project = tmp_path / "my_llm"
    pycandle("new", "my_llm", "--model", "GPT2", cwd=tmp_path)
    assert json.loads((project / ".pycandle/project.json").read_text()) == {"name": "my_llm", "model": "GPT2"}
    assert {"CMakeLists.txt", "CMakePresets.json", "README.md", ".gitignore"} <= set(paths(project))
    pycandle("init", "--no-env", "--seed", 7, cwd=project)
    noted = json.loads((project / ".pycandle/environment.json").read_text())
    assert noted["seed"] == 7 and noted["packages"]["torch"].startswith("2.")
    said = pycandle(
        "record", "--script", ".pycandle/scripts/recorder.py", "--name", "my_llm", "--json", cwd=project
    )
    assert ".." not in said.stdout
    manifest = project / "pycandle_trace/my_llm_manifest.json"
    assert json.loads(manifest.read_text())["model"]["seed"] == 7
    pycandle("verify", manifest)


def test_the_second_init_keeps_what_was_edited(pycandle, tmp_path):
    pycandle("init", "--no-env", tmp_path)
    script = tmp_path / ".pycandle/scripts/recorder.py"
    script.write_text("# mine\n")
    (tmp_path / ".pycandle/scripts/spy.py").unlink()
    said = json.loads(pycandle("init", "--no-env", "--json", tmp_path).stdout)
    assert script.read_text() == "# mine\n"
    assert said["created"] == [".pycandle/scripts/spy.py"]
    assert ".pycandle/scripts/recorder.py" in said["kept"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["there"], "the folder exists"),
        (["two words"], "cannot be a project's name"),
        (["fine", "--model", "3d"], "cannot be the name of a class"),
        (["file/below"], "cannot be made"),
    ],
)
def test_new_refuses_and_leaves_nothing(pycandle, tmp_path, arguments, message):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("a file, not a folder")
    before = paths(tmp_path)
    assert message in pycandle("new", *arguments, status=2, cwd=tmp_path).stderr
    assert paths(tmp_path) == before


def test_init_needs_a_folder_and_a_python_that_can_record(pycandle, tmp_path):
    assert "no such folder" in pycandle("init", tmp_path / "absent", status=2).stderr
    said = pycandle("init", "--no-env", "--python", "/bin/false", tmp_path, status=2).stderr
    assert "none was found that runs" in said and "/bin/false" in said
    assert paths(tmp_path) == []


@pytest.mark.full
def test_init_makes_an_environment_that_records(pycandle, tmp_path):
    pycandle("init", tmp_path)
    python = tmp_path / ".pycandle/venv/bin/python"
    found = subprocess.run(
        [python, "-c", "import torch; print(torch.__file__)"], capture_output=True, text=True, check=True
    )
    assert str(tmp_path) in found.stdout
    pycandle("record", cwd=tmp_path)
    assert list((tmp_path / "pycandle_trace").glob("*_manifest.json"))


def fake_wheel(folder: Path, name: str, version: str) -> None:
    """A package that is nothing but its name: what an environment is filled with must not be downloaded here."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def small_python(tmp_path) -> Path:
    """A Python that has pycandle and, by name, torch."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("torch", "numpy"):
        fake_wheel(wheels, name, "9.9")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "small"], check=True)
    python = tmp_path / "small/bin/python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-index", "--find-links", wheels, "torch", "numpy"],
        check=True,
    )
    (site,) = (tmp_path / "small/lib").glob("python3*/site-packages")
    (site / "pycandle.pth").write_text(str(Path(__file__).parents[2] / "python"))
    return python


def test_init_falls_back_to_venv_where_there_is_no_uv(pycandle, small_python, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "wheels"))  # no uv there
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    project = tmp_path / "project"
    project.mkdir()
    said = pycandle("init", project, "--python", small_python).stderr
    assert "by venv and pip" in said
    python = project / ".pycandle/venv/bin/python"
    facts = subprocess.run(
        [python, "-c", "import torch, pycandle; print(torch.__file__, pycandle.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(project) in facts.stdout.split()[0]


class SlowIndex(SimpleHTTPRequestHandler):
    """Packages from far away."""

    def do_GET(self) -> None:
        if self.path.endswith(".whl"):
            time.sleep(3)
        super().do_GET()

    def log_message(self, *_) -> None:
        pass


def test_init_says_what_pip_is_at_while_it_takes_long(pycandle, small_python, tmp_path, monkeypatch):
    handler = functools.partial(SlowIndex, directory=tmp_path / "wheels")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PATH", str(tmp_path / "wheels"))  # no uv there
        (tmp_path / "project").mkdir()
        command = [pycandle.path, "init", tmp_path / "project", "--python", small_python]
        said = on_terminal(command, columns=200)
        server.shutdown()
    assert re.search(r"init: (Collecting|Downloading) \S*(numpy|torch)\S*.*: \d s", said), said
    assert not any("Collecting" in line or "Downloading" in line for line in screen(said))
    assert "made .pycandle/venv" in said


def test_an_environment_that_cannot_be_made_leaves_nothing(pycandle, small_python, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "wheels"))  # no uv there
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    project = tmp_path / "project"
    project.mkdir()
    said = pycandle("init", project, "--python", small_python, status=2).stderr
    assert "venv and pip could not make the environment" in said and "--no-env" in said
    assert "No matching distribution found for" in said, "what pip said"
    assert not (project / ".pycandle/venv").exists()


def test_timing_records_nothing(pycandle, tmp_path):
    pycandle("init", "--no-env", tmp_path)
    (timing,) = json.loads(pycandle("record", "--time", "--json", cwd=tmp_path).stdout)["timings"]
    assert 0 < timing["best_ms"] <= timing["median_ms"] and timing["calls"] >= 5
    assert not (tmp_path / "pycandle_trace").exists()
