"""What one model must satisfy as source code: it is emitted, compiles without a warning under both compilers, passes the
test that was generated for it, and is the recorded program."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

from . import reading
from .check import PROGRAM, Failed, Stages, judged
from .entry import Entry
from .recordings import Recordings
from .report import COUNTS, Count, Page, fact, parameters, seconds_of
from .runner import ROOT, digest

BUILD = Path(os.environ.get("PYCANDLE_BUILD", ROOT / "build" / "release"))
LIBRARY = BUILD / "libpycandle.so"
FLAGS = ("-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include"))
COMPILERS = {"g++": ("g++-12", "headers.h.gch"), "clang": ("clang++-16", "headers.h.pch")}
LIBRARIES = (str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}", "-lgtest_main", "-lgtest", "-lpthread")
# What a generated test includes first, nothing else: parsed once for all models.
HEADERS = "#include <gtest/gtest.h>\n#include <pycandle/pycandle.h>\n"
SOURCE_STAGES = ("codegen", "g++", "test", "round trip")
SOURCE_COLUMNS = {"Python lines": fact("python_lines"), "C++ lines": fact("emitted_lines")}


# reading.py says what these are.
READING_COLUMNS = {
    "classes / Python's": "read_classes",
    "numbers": "read_numbers",
    "names": "read_names",
    "lines / Python's": "read_lines",
    "longest line": "read_longest",
}


def _lines(name: str) -> Count:
    return lambda count, rows: sum(row[name] for row in rows if row["status"] == "passed")


def _read(name: str) -> Count:
    return lambda count, rows: reading.summed([row for row in rows if row["status"] == "passed"], name)


PAGE = Page(
    name="zoo-emit",
    title="The zoo as source code",
    made_by="make zoo-emit",
    section="the-zoo-as-source-code",
    stages=("record", *SOURCE_STAGES, "clang", "clang test"),
    columns={
        "nodes": fact("nodes"),
        "parameters": parameters,
        **SOURCE_COLUMNS,
        "classes": fact("classes"),
        **{title: fact(name) for title, name in READING_COLUMNS.items()},
        "g++ s": fact("build_seconds"),
        "clang s": fact("clang_build_seconds"),
        "test s": seconds_of("test"),
        "clang test s": seconds_of("clang test"),
        "commit": fact("commit"),
    },
    counts={
        **COUNTS,
        "Python lines": _lines("python_lines"),
        "C++ lines": _lines("emitted_lines"),
        **{title: _read(name) for title, name in READING_COLUMNS.items()},
    },
)


class EmitCheck:
    """Called for each model, in a process of its own; recordings are kept in `state` for the next run."""

    def __init__(self, state: Path, with_clang: bool = True):
        self.state = state
        self.compilers = {k: v for k, v in COMPILERS.items() if with_clang or k != "clang"}
        self.headers = ROOT / "build" / "emit-headers"
        self.recordings = Recordings(state / "recordings")

    def prepare(self) -> None:
        """The headers, parsed once for each compiler and kept; tests side by side may both do it."""
        self.headers.mkdir(parents=True, exist_ok=True)
        header = self.headers / "headers.h"
        if not header.exists() or header.read_text() != HEADERS:
            header.write_text(HEADERS)
        sources = digest(sorted((ROOT / "include" / "pycandle").glob("*.h")))
        for compiler, result in self.compilers.values():
            stamp, now = self.headers / f"{result}.stamp", " ".join((sources, compiler, *FLAGS, HEADERS))
            if stamp.exists() and stamp.read_text() == now:
                continue
            made = f"{result}.{os.getpid()}"
            command = [compiler, *FLAGS, "-x", "c++-header", "headers.h", "-o", made]
            subprocess.run(command, cwd=self.headers, check=True)
            (self.headers / made).rename(self.headers / result)  # another run may be reading the old one
            stamp.write_text(now)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, folder, stages, facts))

    def _check(self, entry: Entry, folder: Path, stages: Stages, facts: dict) -> None:
        recording = self.recordings.place(entry)
        facts |= stages.run("record", lambda: self.recordings.facts(entry))
        self.check_source(recording / "model_manifest.json", folder, stages, facts)

    def check_source(self, manifest: Path, folder: Path, stages: Stages, facts: dict) -> None:
        """Emits, compiles and tests a recorded model in this folder."""
        recording = manifest.parent
        facts |= stages.run("codegen", lambda: _emitted(manifest, folder))
        text, recorded = (folder / "model.hpp").read_text(), json.loads(manifest.read_text())
        facts |= reading.read(text, recorded).facts()
        facts["build_seconds"] = stages.run("g++", lambda: self._built("g++", folder))
        stages.run("test", lambda: _tested("g++", folder, recording, "-*.IsTheRecordedProgram", "test"))
        stages.run(
            "round trip", lambda: _tested("g++", folder, recording, "*.IsTheRecordedProgram", "round trip")
        )
        if "clang" in self.compilers:
            facts["clang_build_seconds"] = stages.run("clang", lambda: self._built("clang", folder))
            stages.run("clang test", lambda: _tested("clang", folder, recording, "*", "clang test"))

    def _built(self, name: str, folder: Path) -> float:
        """Compiles and links the test; the processor time of that."""
        compiler, parsed = self.compilers[name]
        headers = {
            "g++": ("-include", str(self.headers / "headers.h"), "-Winvalid-pch"),
            "clang": ("-include-pch", str(self.headers / parsed)),
        }
        before = _seconds_of_children()
        run([compiler, *FLAGS, *headers[name], "-c", "test_model.cpp", "-o", f"{name}.o"], folder, name)
        run([compiler, f"{name}.o", "-o", f"test_{name}", *LIBRARIES], folder, f"{name} link")
        return round(_seconds_of_children() - before, 1)


def _seconds_of_children() -> float:
    """Processor time: what else the machine does is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _emitted(manifest: Path, folder: Path) -> dict:
    out = run(
        [PROGRAM, "codegen", "--manifest", manifest, "--out", folder / "model.hpp", "--json"],
        folder,
        "codegen",
    )
    made = json.loads(out)
    test = ["gen-test", "--manifest", manifest, "--model", made["model"], "--out", folder / "test_model.cpp"]
    run([PROGRAM, *test], folder, "gen-test")
    text = (folder / "model.hpp").read_text()
    return {
        "emitted_lines": made["files"][0]["lines"],
        "classes": len(re.findall(r"^struct \w+ : nn::Module<", text, re.M)),
        "notes": made["notes"],
    }


def _tested(compiler: str, folder: Path, recording: Path, tests: str, word: str) -> None:
    command = [f"./test_{compiler}", f"--gtest_filter={tests}", "--gtest_brief=1"]
    run(command, folder, word, PYCANDLE_TRACE=str(recording))


def run(command: list, folder: Path, word: str, **environment: str) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout
    said = "\n".join(
        line for line in (done.stdout + done.stderr).splitlines() if "Running main()" not in line
    )
    how = f"signal {-done.returncode}: " if done.returncode < 0 else ""
    raise Failed(word, f"{how}{said[:3000]}")
