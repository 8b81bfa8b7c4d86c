"""What one model must satisfy on a backend other than the reference: every tap verifies, at the recorded inputs and at
another shape, with each number of threads."""

from __future__ import annotations

import datetime
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .check import Stages, judged, verify
from .entry import Entry
from .recordings import Recordings
from .report import cell, readable_count, summary, without_paths
from .runner import ROOT

KEPT_BYTES = 64 << 20  # larger recordings are not kept: all of them would fill a disk


class BackendCheck:
    """Called for each model, in a process of its own."""

    def __init__(self, backend: str, threads: list[int], recordings: Path):
        self.backend = backend
        self.threads = threads
        self.recordings = Recordings(recordings)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, stages, facts))

    def _check(self, entry: Entry, stages: Stages, facts: dict) -> None:
        recording = self.recordings.place(entry)
        try:
            facts |= stages.run("record", lambda: self.recordings.facts(entry))
            traces = self.recordings.traces(entry)
            facts["shapes"] = len(traces)
            goldens = [word for trace in traces for word in ("--trace", str(trace))]
            for threads in self.threads:
                extra = ("--backend", self.backend, "--threads", str(threads), *goldens)
                stages.run(stage_of(threads), lambda e=extra: verify(recording / "model_manifest.json", *e))
        finally:
            if sum(file.stat().st_size for file in recording.glob("*")) > KEPT_BYTES:
                shutil.rmtree(recording)


def stage_of(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def markdown(backend: str, threads: list[int], rows: list[dict], not_run: list[str]) -> str:
    commits = Counter(row["commit"] for row in rows)
    stages = [stage_of(n) for n in threads]
    heads = (
        "model",
        "kind",
        "result",
        *stages,
        "shapes",
        "nodes",
        "parameters",
        *(f"s, {s}" for s in stages),
        "commit",
    )
    numbers = ",".join(map(str, threads))
    lines = [
        f"# The zoo on the {backend} backend",
        "",
        f'Made by `make zoo ZOO_FLAGS="--backend {backend} --threads {numbers}"` on {datetime.date.today().isoformat()}. '
        "How to run it and what a row means: [testing-models.md](testing-models.md#the-zoo-on-another-backend).",
        "Rows by commit: " + ", ".join(f"{name} ({count})" for name, count in commits.most_common()) + ".",
        "",
        "| source | models | passed | failed |",
        "|---|---:|---:|---:|",
    ]
    for source, count in summary(rows).items():
        lines.append(f"| {source} | {count.total()} | {count['passed']} | {count['failed']} |")
    if not_run:
        lines += ["", f"Not run yet ({len(not_run)}): {', '.join(not_run)}."]
    failed = [row for row in rows if row["status"] == "failed"]
    lines += ["", "## Failed", ""]
    lines += ["| model | at | reason | in full |", "|---|---|---|---|"] if failed else ["None."]
    lines += [f"| {r['key']} | {r['stage']} | {r['reason']} | {cell(r['detail'])} |" for r in failed]
    lines += ["", "## All", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in sorted(rows, key=lambda r: r["key"]):
        passed, spent = row.get("stages", {}), row.get("seconds_of", {})
        result = row["status"] if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
        marks = [{"passed": "✓", "failed": "✗"}.get(passed.get(stage, ""), "") for stage in stages]
        seconds = [spent.get(stage, "") for stage in stages]
        cells = (
            row["key"], row["kind"], result, *marks, row.get("shapes", ""), row.get("nodes", ""), readable_count(row.get("parameters")),
            *seconds, row["commit"],
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def write(backend: str, threads: list[int], rows: list[dict], not_run: list[str]) -> None:
    table = ROOT / "docs" / f"zoo-{backend}.md"
    table.write_text(markdown(backend, threads, rows, not_run))
    kept = [{**row, "detail": cell(row["detail"])} if "detail" in row else row for row in rows]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in sorted(kept, key=lambda r: r["key"]))
    table.with_suffix(".json").write_text(without_paths(f"[\n{lines}\n]\n"))
