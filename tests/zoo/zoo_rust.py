"""make zoo-rust: models of the zoo as Rust crates on Candle, one row each (emitted, compiled without a warning, tested)."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from .check import PROGRAM, Failed, Refused, Stages, judged
from .emit import run
from .entry import Entry
from .recordings import Recordings
from .report import COUNTS, Page, fact, seconds_of, status_count
from .runner import ROOT, Fingerprints
from .sources import SOURCES, entries, matches
from .suite import run_suite, suite_parser

STATE = ROOT / "build" / "zoo-rust"
CRATE = ROOT / "rust" / "pycandle"
BUILT = ROOT / "build" / "rust"  # what is compiled of candle is shared by all crates

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
        crate = folder / "crate_of_the_zoo"  # one name: cargo keeps one build of it, not one for each model
        facts |= stages.run("codegen", lambda: _emitted(manifest, crate))
        stages.run("cargo test", lambda: _tested(crate))


def _emitted(manifest: Path, crate: Path) -> dict:
    command = [PROGRAM, "codegen", "--manifest", manifest, "--target", "candle", "--out", crate, "--json"]
    try:
        made = json.loads(run(command, crate.parent, "codegen"))
    except Failed as failure:
        said = str(failure)
        if '"code": "gap"' not in said:
            raise
        error = json.loads(said[said.index("{") :])["error"]
        raise Refused(error["found"][:120], said) from None
    text = (crate / "src" / "lib.rs").read_text()
    return {
        "emitted_lines": len(text.splitlines()),
        "classes": len(re.findall(r"^pub struct \w+ \{\n.*?checker: ", text, re.MULTILINE | re.DOTALL)),
        "notes": made["notes"],
    }


def _tested(crate: Path) -> None:
    """Candle itself is compiled before, so that no time of a model has it."""
    environment = {"CARGO_TARGET_DIR": str(BUILT), "CARGO_PROFILE_DEV_DEBUG": "0"}
    run(["cargo", "test", "--quiet", "--test", "parity"], crate, "cargo test", **environment)


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, Path(__file__), *sorted((CRATE / "src").rglob("*.rs")))
    page = PAGE if not options.filter and not options.source else None
    return run_suite(options, _chosen(options), lambda: RustCheck(options.recordings), prints, page)


def _chosen(options: argparse.Namespace) -> list[Entry]:
    """What verifies, by the zoo's own table, and did so in the given time; the quickest first."""
    rows = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    quick = {
        k: r["seconds"] for k, r in rows.items() if r["status"] == "passed" and r["seconds"] <= options.within
    }
    found = [e for e in entries(options.source or SOURCES) if e.key in quick and matches(e, options.filter)]
    return sorted(found, key=lambda entry: quick[entry.key])


def _options() -> argparse.Namespace:
    parser = suite_parser("zoo.zoo_rust", __doc__, STATE)
    add = parser.add_argument
    add("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    add("--within", type=float, default=30, help="what took the zoo at most this many seconds (%(default)s)")
    kept = Path(os.environ.get("PYCANDLE_ZOO_RECORDINGS", ROOT / "build" / "zoo-emit" / "recordings"))
    add("--recordings", type=Path, default=kept, help="where recordings are kept (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
