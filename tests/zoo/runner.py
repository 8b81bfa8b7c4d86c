"""Runs entries in processes of their own, with limits, and goes on where an earlier run stopped.

The parent imports torch and the model libraries once and forks for each model, so that a model costs no import and
cannot harm another. Every finished model is a line of `results.jsonl`; the last line of a model is the one that counts.
"""

from __future__ import annotations

import datetime
import gc
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from pycandle import GoldenRecorder

from .entry import Entry
from .sources import module_name

ROOT = Path(__file__).resolve().parents[2]
STATE = ROOT / "build" / "zoo"


@dataclass(frozen=True)
class Limits:
    seconds: float = 300
    gigabytes: float = 10


# ---- what has been done ---------------------------------------------------------------------------------------


class Results:
    """The rows so far, on disk as they come."""

    def __init__(self, folder: Path = STATE):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "results.jsonl"
        self.rows: dict[str, dict] = {}
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["key"]] = row

    def add(self, row: dict) -> None:
        self.rows[row["key"]] = row
        with self.file.open("a") as out:
            out.write(json.dumps(row) + "\n")


class Fingerprints:
    """Names everything a row depends on: the program, the recorder, the check and the entry's own file."""

    def __init__(self, *made_by: Path, file_of: Callable[[Entry], Path] | None = None):
        common = [*made_by, *sorted((ROOT / "python" / "pycandle").rglob("*.py"))]
        common += [ROOT / "tests" / "zoo" / name for name in ("check.py", "entry.py")]
        self._common = digest(common)
        self._file_of = file_of or (lambda e: ROOT / "tests" / "zoo" / f"{module_name(e.source)}.py")
        self._of_source: dict[str, str] = {}

    def of(self, entry: Entry) -> str:
        if entry.source not in self._of_source:
            self._of_source[entry.source] = digest([self._file_of(entry)])
        return f"{self._common}-{self._of_source[entry.source]}"


def digest(files: list[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


def commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "python", "tests", "cmake")
    return git("rev-parse", "--short=9", "HEAD").strip() + ("+" if changed else "")


def remaining(entries: list[Entry], results: Results, fingerprints: Fingerprints, keep: bool) -> list[Entry]:
    """What a run has to do: what is new, what failed, and what was made from other sources (unless `keep`)."""

    def is_done(entry: Entry) -> bool:
        row = results.rows.get(entry.key)
        if row is None or row["status"] == "failed":
            return False
        return keep or row["fingerprint"] == fingerprints.of(entry)

    return [entry for entry in entries if not is_done(entry)]


# ---- running --------------------------------------------------------------------------------------------------


Check = Callable[
    [Entry, Path, Callable[[str], None]], dict
]  # entry, its folder, what is told each stage → facts


def run_and_keep(
    todo: list[Entry], check: Check, results: Results, fingerprints: Fingerprints, jobs: int, limits: Limits
) -> None:
    """Runs them, adds their rows to the results and says how far it is."""
    _preload({entry.source for entry in todo})
    made = {"commit": commit(), "date": datetime.date.today().isoformat()}
    prints = {entry.key: fingerprints.of(entry) for entry in todo}
    started, done, bad = time.monotonic(), 0, 0

    def finished(row: dict) -> None:
        nonlocal done, bad
        row = {**row, **made, "fingerprint": prints[row["key"]]}
        results.add(row)
        done += 1
        bad += row["status"] == "failed"
        spent = time.monotonic() - started
        left = spent / done * (len(todo) - done)
        word = row["status"] if row["status"] == "passed" else f"{row['status']} ({row['reason']})"
        print(
            f"[{done}/{len(todo)}] {row['key']}: {word}, {row['seconds']:.0f} s, {row['peak_mb']} MB"
            f" · {bad} failed · about {left / 60:.0f} min left",
            flush=True,
        )

    run_all(todo, jobs, limits, finished, check)


def _preload(sources: set[str]) -> None:
    """What every child would import; forked, it costs once."""
    with tempfile.TemporaryDirectory() as folder:  # torch.export imports much of torch at its first use
        GoldenRecorder(folder).record(torch.nn.Linear(2, 2).eval(), torch.zeros(2, 2))
    if sources & {"transformers", "basics"}:
        import transformers.modeling_utils  # noqa: F401
    gc.freeze()  # a child need not look through all of that for garbage


@dataclass
class _Child:
    entry: Entry
    pid: int
    started: float
    folder: Path


def run_all(
    entries: list[Entry], jobs: int, limits: Limits, finished: Callable[[dict], None], check: Check
) -> None:
    """Calls `finished` with each row as it comes; slow ones do not hold up the others."""
    waiting, running = list(entries), {}
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children do not outlive a kill
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                child = _start(waiting.pop(0), limits, check)
                running[child.pid] = child
            time.sleep(0.05)
            for child in list(running.values()):
                row = _look(child, limits)
                if row is not None:
                    del running[child.pid]
                    shutil.rmtree(child.folder, ignore_errors=True)
                    finished(row)
    finally:
        signal.signal(signal.SIGTERM, before)
        for child in running.values():
            os.killpg(child.pid, signal.SIGKILL)
            shutil.rmtree(child.folder, ignore_errors=True)


def _start(entry: Entry, limits: Limits, check: Check) -> _Child:
    folder = Path(tempfile.mkdtemp(prefix="pycandle-zoo-"))
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _be_child(entry, folder, limits, check)
    return _Child(entry, pid, time.monotonic(), folder)


def _be_child(entry: Entry, folder: Path, limits: Limits, check: Check) -> None:
    """Never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        size = int(limits.gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        facts = check(entry, folder, lambda stage: (folder / "stage").write_text(stage) and None)
        (folder / "facts.part").write_text(json.dumps(facts))
        os.rename(folder / "facts.part", folder / "facts.json")
    except BaseException as error:
        word = "memory" if isinstance(error, MemoryError) else "check"
        (folder / "facts.json").write_text(
            json.dumps({"status": "failed", "reason": word, "detail": f"{type(error).__name__}: {error}"})
        )
    finally:
        os._exit(0)


def _look(child: _Child, limits: Limits) -> dict | None:
    """The row of a child that is done, or out of time."""
    seconds = time.monotonic() - child.started
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    if pid == 0:
        if seconds <= limits.seconds:
            return None
        os.killpg(child.pid, signal.SIGKILL)
        _, status, usage = os.wait4(child.pid, 0)
    facts = _facts(child, status, seconds > limits.seconds)
    entry = child.entry
    return {
        "key": entry.key,
        "source": entry.source,
        "name": entry.name,
        "kind": entry.kind,
        "note": entry.note,
        **facts,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": usage.ru_maxrss // 1024,
    }


def _facts(child: _Child, status: int, late: bool) -> dict:
    file = child.folder / "facts.json"
    if file.exists():
        facts = json.loads(file.read_text())
        if "allocate memory" in facts.get("detail", "") or "bad_alloc" in facts.get("detail", ""):
            facts["reason"] = "memory"
        return facts
    stage = (child.folder / "stage").read_text() if (child.folder / "stage").exists() else "start"
    log = (
        (child.folder / "log").read_text(errors="replace")[-1500:] if (child.folder / "log").exists() else ""
    )
    if late:
        return {"status": "failed", "reason": "time", "stage": stage, "detail": f"out of time at {stage}"}
    detail = f"the process ended by signal {os.WTERMSIG(status)} at {stage}: {log}"
    return {"status": "failed", "reason": "crash", "stage": stage, "detail": detail}
