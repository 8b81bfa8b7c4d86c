"""make zoo-onnx: models of the zoo as ONNX files, one row each: written, well-formed, and ONNX Runtime computes the same."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .check import PROGRAM, Failed, Stages, judged
from .entry import Entry
from .recordings import Recordings
from .report import Page, fact, parameters, seconds_of
from .runner import ROOT, Fingerprints
from .sources import SOURCES, entries, matches
from .suite import run_suite, suite_parser

STATE = ROOT / "build" / "zoo-onnx"
KEPT_BYTES = 64 << 20
PAGE = Page(
    name="zoo-onnx",
    title="The zoo as ONNX files",
    made_by="make zoo-onnx",
    section="the-zoo-as-onnx-files",
    stages=("record", "export"),
    columns={
        "kind": fact("kind"),
        "parameters": parameters,
        "ONNX nodes": fact("nodes"),
        "sizes": fact("sizes"),
        "largest error": fact("error"),
        "s": seconds_of("export"),
        "commit": fact("commit"),
    },
)


class OnnxCheck:
    """Called for each model, in a process of its own."""

    def __init__(self, recordings: Path):
        self.recordings = Recordings(recordings)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, stages, facts))

    def _check(self, entry: Entry, stages: Stages, facts: dict) -> None:
        recording = self.recordings.place(entry)
        file = recording / "model.onnx"
        try:
            facts |= stages.run("record", lambda: self.recordings.facts(entry))
            made = stages.run("export", lambda: exported(recording / "model_manifest.json", file))
            outputs = made["check"]["outputs"]
            facts["nodes"] = made["nodes"]
            facts["sizes"] = len({o["sizes"] for o in outputs})
            facts["error"] = f"{max((o['error'] for o in outputs), default=0):.1e}"
            facts["within_rounding"] = all(o["within_rounding"] for o in outputs)
        finally:
            file.unlink(missing_ok=True)
            if sum(f.stat().st_size for f in recording.glob("*")) > KEPT_BYTES:
                shutil.rmtree(recording)


def exported(manifest: Path, file: Path) -> dict:
    command = [PROGRAM, "export", manifest, "--onnx", file, "--json"]
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    facts = json.loads(run.stdout)
    if run.returncode != 0 or not facts["check"]["runner"]:
        error = facts.get("error", {})
        wrong = [o for o in facts.get("check", {}).get("outputs", []) if not o["passed"]]
        reason = (
            "not supported" if error.get("code") == "gap" else "wrong values" if wrong else "does not run"
        )
        raise Failed(reason, error.get("found") or json.dumps(wrong) or run.stderr)
    return facts


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, Path(__file__))
    page = PAGE if not options.filter and not options.source else None
    return run_suite(
        options, _chosen(options), lambda: OnnxCheck(options.state / "recordings"), prints, page, 0.95
    )


def _chosen(options: argparse.Namespace) -> list[Entry]:
    """What verifies, by the zoo's own table, and did so in the given time; the quickest first."""
    rows = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    quick = {
        k: r["seconds"] for k, r in rows.items() if r["status"] == "passed" and r["seconds"] <= options.within
    }
    found = [e for e in entries(options.source or SOURCES) if e.key in quick and matches(e, options.filter)]
    return sorted(found, key=lambda entry: quick[entry.key])


def _options() -> argparse.Namespace:
    parser = suite_parser("zoo.zoo_onnx", __doc__, STATE)
    add = parser.add_argument
    add("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    add("--within", type=float, default=60, help="what took the zoo at most this many seconds (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
