"""make zoo-bench: one published model of each family at its published size, beside torch eager, sorted by ratio."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pycandle import GoldenRecorder

from . import published
from .check import PROGRAM, Failed, Stages, inputs_of, judged, prepared_model, seeded
from .entry import Entry
from .report import cell
from .runner import ROOT, Fingerprints, Results
from .sources import matches
from .suite import run_suite, suite_parser

STATE = ROOT / "build" / "zoo-bench"
PAGE = ROOT / "docs" / "zoo-bench.md"
WORTH_MS = 5.0  # what torch takes at least, for a model to count
MOST_EVALUATED = 0.2
BAR = 0.95


class BenchCheck:
    """Called for each model, in a process of its own. The recording goes away with it."""

    def __init__(self, threads: int, seconds: float):
        self.threads = threads
        self.seconds = seconds

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, folder, stages, facts))

    def _check(self, entry: Entry, folder: Path, stages: Stages, facts: dict) -> None:
        stages.run("record", lambda: _record(entry, folder))
        facts |= stages.run("bench", lambda: self._bench(folder / "model_manifest.json"))

    def _bench(self, manifest: Path) -> dict:
        command = [PROGRAM, "bench", manifest, "--backend", "cpu", "--threads", self.threads, "--rounds", 3,
                   "--seconds", self.seconds, "--against", "torch", "--python", sys.executable, "--json"]  # fmt: skip
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        try:
            rows = {row["runner"]: row for row in json.loads(done.stdout)["rows"]}
        except (json.JSONDecodeError, KeyError):
            raise Failed("bench", (done.stderr or done.stdout)[-2000:]) from None
        for row in rows.values():
            if "failed" in row:
                raise Failed("bench", f"{row['runner']}: {row['failed']}")
        ours, theirs = rows["cpu"], rows["torch"]
        return {
            "ms": ours["median_ms"],
            "torch_ms": theirs["median_ms"],
            "ratio": ours["median_ms"] / theirs["median_ms"],
            "evaluated": ours["evaluated"],
            "threads": self.threads,
        }


def _record(entry: Entry, folder: Path) -> None:
    model = prepared_model(entry, 0)
    recorder = GoldenRecorder(folder, dynamic=entry.dynamic, taps="none")
    recorder.record(model, **inputs_of(entry, model, entry.sizes, seeded(0)))
    recorder.save("model")


def holds(row: dict) -> bool:
    return row["ratio"] <= 1 and row["evaluated"] < MOST_EVALUATED


def table(rows: list[dict]) -> str:
    """The slowest beside torch first: the list to work down."""
    timed = sorted((row for row in rows if "ratio" in row), key=lambda row: -row["ratio"])
    counted = [row for row in timed if row["torch_ms"] >= WORTH_MS]
    fine = sum(holds(row) for row in counted)
    lines = [
        "# The zoo beside torch eager",
        "",
        "Made by `make zoo-bench`: one published model of each family at its published size, f32, batch 1, "
        f"{'1 thread' if all(row['threads'] == 1 for row in timed) else 'several threads'}, random weights, on "
        f"{_processor()}. *Ratio* is PyCandle's median time by torch's; *evaluators* is the share of the time on evaluators "
        "of the reference, for operators without a kernel.",
        "",
        f"{fine} of the {len(counted)} models that take torch {WORTH_MS:.0f} ms or more are no slower than torch and spend less "
        f"than {MOST_EVALUATED:.0%} on evaluators.",
        "",
        "| model | ratio | ms | torch ms | evaluators |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in timed:
        lines.append(
            f"| {row['key']} | {row['ratio']:.2f} | {row['ms']:.3g} | {row['torch_ms']:.3g} | {row['evaluated']:.0%} |"
        )
    failed = [row for row in rows if "ratio" not in row]
    if failed:
        lines += ["", "Not timed:", ""]
        lines += [f"- {row['key']}: {row['reason']}: {cell(row['detail'])}" for row in failed]
    return "\n".join(lines) + "\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown processor"


def main() -> int:
    options = _options()
    chosen = [entry for entry in published.entries() if matches(entry, options.filter)]
    prints = Fingerprints(PROGRAM, Path(__file__), file_of=lambda entry: Path(published.__file__))
    check = BenchCheck(options.threads, options.for_each)
    status = run_suite(options, chosen, lambda: check, prints, None)
    if options.list:
        return status
    rows = [
        row for row in Results(options.state).rows.values() if row["key"] in {entry.key for entry in chosen}
    ]
    text = table(rows)
    print(text)
    if not options.filter and len(rows) == len(chosen):
        PAGE.write_text(text)
    counted = [row for row in rows if row.get("torch_ms", 0) >= WORTH_MS]
    return status or int(sum(map(holds, counted)) < BAR * len(counted))


def _options() -> argparse.Namespace:
    parser = suite_parser("zoo.zoo_bench", __doc__, STATE)
    parser.set_defaults(jobs=1, gigabytes=100)  # torch maps the file of weights once for each of them
    add = parser.add_argument
    add("--threads", type=int, default=1, help="of each runner (%(default)s)")
    add("--for-each", type=float, default=1.0, help="seconds in which each runner is timed (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
