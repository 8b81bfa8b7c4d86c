"""Pages of the docs that tests follow to the letter, in a copy of the sources."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Page:
    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / name).read_text()

    def blocks(self, kind: str) -> list[str]:
        return re.findall(rf"^```{kind}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)

    def insertions(self) -> list[tuple[str, str, str]]:
        """Every "Put this into `file`, above `line`:" with the code that follows."""
        return re.findall(
            r"^Put this into `([^`]+)`, above `([^`]+)`:\n\n```cpp\n(.*?)^```",
            self.text,
            re.MULTILINE | re.DOTALL,
        )


def run(*command, cwd: Path, status: int = 0) -> str:
    finished = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=2400, check=False
    )
    assert finished.returncode == status, f"{command}\n{finished.stdout[-5000:]}\n{finished.stderr[-5000:]}"
    return finished.stdout + finished.stderr


def copy_of_sources(folder: Path) -> Path:
    source = folder / "source"
    for part in ("src", "cmake", "include", "tests"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "python/pycandle").mkdir(parents=True)
    (source / "web/dist").mkdir(parents=True)
    for file in ("CMakeLists.txt", "CMakePresets.json", "python/pycandle/version.py", "web/dist/report.html"):
        shutil.copy(ROOT / file, source / file)
    return source


def insert(source: Path, file: str, above: str, code: str) -> None:
    """Puts the lines above the one line that begins so."""
    path = source / file
    lines = path.read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.startswith(above)]
    assert len(places) == 1, f"{file} has {len(places)} lines that begin with {above!r}"
    path.write_text("".join([*lines[: places[0]], code, *lines[places[0] :]]))


def changed_files(source: Path) -> list[str]:
    """The files of the copy that are not as in this repository."""
    return sorted(
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file()
        and "build" not in file.relative_to(source).parts
        and file.read_bytes() != (ROOT / file.relative_to(source)).read_bytes()
    )


def build(source: Path) -> Path:
    """The program. ccache, where there is one, knows every file that was not changed."""
    folder = source / "build" / "release"
    run(
        "cmake",
        "-S",
        source,
        "-B",
        folder,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DPYCANDLE_TESTS=OFF",
        cwd=source,
    )
    run("cmake", "--build", folder, "--target", "pycandle_cli", cwd=source)
    return folder / "bin" / "pycandle"


def rebuilt_with(source: Path, file: str) -> Path:
    """The program after one source file has changed, as a second `make build` makes it: the file of the copy is compiled, and
    linked before the archive that has the file of this repository."""
    folder = ROOT / "build" / "release"
    entries = json.loads((folder / "compile_commands.json").read_text())
    (entry,) = [entry for entry in entries if entry["file"] == str(ROOT / file)]
    command = shlex.split(entry["command"])
    changed, program = source / "changed.o", source / "pycandle"
    command[command.index("-o") + 1] = changed
    command[command.index("-c") + 1] = source / file
    run(*command, cwd=folder)
    link = run("ninja", "-t", "commands", "bin/pycandle", cwd=folder).splitlines()[-1]
    assert link.count(" -o bin/pycandle ") == 1, link
    run("sh", "-c", link.replace(" -o bin/pycandle ", f" {changed} -o {program} "), cwd=folder)
    return program
