"""make zoo-rust: models of the zoo as Rust crates on Candle, one row each (emitted, compiled without a warning, tested)."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from .check import PROGRAM, Failed, Refused, Stages, judged
from .entry import Entry
from .recordings import Recordings
from .report import COUNTS, Page, fact, seconds_of, status_count
from .runner import ROOT, Fingerprints
from .suite import quick_entries, quick_suite_parser, run_suite

STATE = ROOT / "build" / "zoo-rust"
CRATE = ROOT / "rust" / "pycandle"
BUILT = ROOT / "build" / "rust"  # what is compiled of Candle is shared by all crates

PAGE = Page(
    name="zoo-rust",
    title="The zoo in Rust",
    made_by="make zoo-rust",
    section="the-zoo-in-rust",
    stages=("record", "codegen", "cargo test"),
    columns={
        "nodes": fact("nodes"),
        "Python lines": fact("python_lines"),
        "Rust lines": fact("emitted_lines"),
        "structs": fact("classes"),
        "longest line": fact("longest_line"),
        "values compared": fact("compared"),
        "cargo test s": seconds_of("cargo test"),
        "commit": fact("commit"),
    },
    counts={**COUNTS, "refused": status_count("refused")},
    reasons={"failed": "Failed", "refused": "Refused by name"},
)


class RustCheck:
    """Called for each model, in a process of its own. Recordings are those of the zoo as C++, where they are there."""

    def __init__(self, recordings: Path):
        self.recordings = Recordings(recordings)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, folder, stages, facts))

    def _check(self, entry: Entry, folder: Path, stages: Stages, facts: dict) -> None:
        facts |= stages.run("record", lambda: self.recordings.facts(entry))
        manifest = self.recordings.place(entry) / "model_manifest.json"
        with _free_place() as crate:
            facts |= stages.run("codegen", lambda: _emitted(manifest, crate))
            facts |= stages.run("cargo test", lambda: _tested(crate))


@contextmanager
def _free_place() -> Iterator[Path]:
    """A folder that no other process has: cargo keeps what it built by its path, so that each model takes that of another."""
    (STATE / "crates").mkdir(parents=True, exist_ok=True)
    for number in count():
        with (STATE / "crates" / f"{number}.lock").open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place = STATE / "crates" / f"model_{number}"
            shutil.rmtree(place, ignore_errors=True)
            yield place
            return


def _emitted(manifest: Path, crate: Path) -> dict:
    command = [PROGRAM, "codegen", "--manifest", manifest, "--target", "candle", "--out", crate, "--json"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode not in (0, 1):
        raise Failed("codegen", said)
    made = json.loads(said[said.index("{") :])
    if done.returncode == 1:
        error = made["error"]
        kind, reason = (Refused, error["found"][:120]) if error["code"] == "gap" else (Failed, "codegen")
        raise kind(reason, f"{error['message']}: {error['found']}")
    text = (crate / "src" / "lib.rs").read_text()
    return {
        "emitted_lines": len(text.splitlines()),
        "classes": len(re.findall(r"^impl \w+ \{", text, re.MULTILINE)) - text.count("impl Default for"),
        "longest_line": max(map(len, text.splitlines())),
        "notes": made["notes"],
    }


def _tested(crate: Path) -> dict:
    """Its generated test passes, and nothing is warned of. Crates that it stands on are optimised, itself not."""
    itself = f"profile.release.package.{crate.name}.opt-level=0"
    command = ["cargo", "test", "--release", "--config", itself, "--test", "parity"]
    environment = {"CARGO_TARGET_DIR": str(BUILT)}
    done = subprocess.run(
        command, cwd=crate, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr)[-3000:]
    if done.returncode != 0:
        raise Failed("compile" if "could not compile" in done.stderr else "test", said)
    if "warning" in done.stderr:
        raise Failed("warning", said)
    lines = [json.loads(line) for line in (crate / "target" / "result.jsonl").read_text().splitlines()]
    return {"compared": sum("layer" in line or "output" in line for line in lines)}


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, Path(__file__), *sorted((CRATE / "src").rglob("*.rs")))
    page = PAGE if not options.filter and not options.source else None
    return run_suite(options, quick_entries(options), lambda: RustCheck(options.recordings), prints, page)


def _options() -> argparse.Namespace:
    parser = quick_suite_parser("zoo.zoo_rust", __doc__, STATE, within=30)
    kept = Path(os.environ.get("PYCANDLE_ZOO_RECORDINGS", ROOT / "build" / "zoo-emit" / "recordings"))
    parser.add_argument(
        "--recordings", type=Path, default=kept, help="where recordings are kept (%(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
