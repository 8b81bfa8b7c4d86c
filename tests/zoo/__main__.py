"""make zoo: one row per model (recorded, imported, run, verified, compared with PyTorch at further shapes).

With --backend: those that pass on the reference, verified on another backend with each number of threads.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import on_backend
from .check import PROGRAM, check
from .entry import Entry
from .report import COUNTS, Page, fact, open_axes, parameters, status_count
from .runner import ROOT, STATE, Fingerprints
from .sources import SOURCES, entries, matches
from .suite import rate, run_suite, suite_parser

REQUIRED = 0.95
PAGE = Page(
    name="zoo",
    title="The zoo",
    made_by="make zoo",
    section="the-zoo",
    stages=("record", "import", "run", "verify", "elsewhere", "shapes"),
    columns={
        "kind": fact("kind"),
        "open axes": open_axes,
        "nodes": fact("nodes"),
        "parameters": parameters,
        "s": lambda row: f"{row['seconds']:.0f}",
        "peak MB": fact("peak_mb"),
        "commit": fact("commit"),
        "note": fact("note"),
    },
    counts={
        "models": COUNTS["models"],
        "not exported by torch": status_count("not exported"),
        **COUNTS,
        "passed of exported": lambda count, rows: f"{100 * rate(count):.1f} %",
    },
    reasons={"failed": "Failed", "not exported": "Not exported by torch.export alone"},
)


def main() -> int:
    options = _options()
    chosen = [e for e in entries(options.source or SOURCES) if matches(e, options.filter)]
    whole = not options.filter and not options.source
    if options.backend:
        return _on_backend(options, chosen, whole)
    options.state = options.state or STATE
    page = PAGE if whole else None
    return run_suite(options, chosen, lambda: check, Fingerprints(PROGRAM), page, options.require)


def _on_backend(options: argparse.Namespace, chosen: list[Entry], whole: bool) -> int:
    """What passes on the reference must pass there; the quickest first."""
    known = {row["key"]: row for row in json.loads((ROOT / "docs" / "zoo.json").read_text())}
    chosen = [e for e in chosen if known.get(e.key, {}).get("status") == "passed"]
    chosen.sort(key=lambda entry: known[entry.key]["seconds"])
    options.state = options.state or STATE.with_name(f"zoo-{options.backend}")
    recordings = options.recordings or options.state / "recordings"
    run = on_backend.BackendCheck(options.backend, options.threads, recordings)
    page = on_backend.page(options.backend, options.threads) if whole else None
    return run_suite(options, chosen, lambda: run, Fingerprints(PROGRAM, Path(on_backend.__file__)), page)


def _options() -> argparse.Namespace:
    parser = suite_parser("zoo", __doc__)
    add = parser.add_argument
    add("--source", action="append", choices=SOURCES, help="only this source; repeatable")
    add("--require", type=float, default=REQUIRED, help="share that must pass (%(default)s)")
    add("--backend", help="verify what passed on the reference on this one: docs/zoo-BACKEND.md")
    add("--threads", type=_numbers, default=[1, 2], help="with --backend: numbers of threads, such as 1,2")
    add("--recordings", type=Path, help="with --backend: where recordings are kept")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
