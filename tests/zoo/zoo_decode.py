"""Every model of the zoo that generates, through the proof of its decode step: `python -m zoo.zoo_decode`, docs/zoo-decode.md.

A row says that the step which was derived is the forward pass at every position, on both backends, or why there is none.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

from . import transformers_models as models
from .entry import Entry
from .recordings import Recordings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "zoo-decode.md"
SPEECH = ("whisper", "speech_to_text", "speecht5", "moonshine")  # those of AUDIO that write text
BACKENDS = ("reference", "cpu")


def entries() -> list[Entry]:
    speech = [entry for entry in models.AUDIO if entry.name in SPEECH]
    return [*models.DECODERS, *models.EXPERTS_MODELS, *models.STATE_SPACES, *models.SEQ2SEQ, *speech]


def proven(program: Path, folder: Path, backend: str) -> dict:
    """What `verify --decode` says: {"passed": …, "caches": […]}, or {"refused": reason}."""
    command = [program, "verify", folder, "--decode", "--backend", backend, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if "passed" in answer:
        return answer
    error = answer.get("error", answer)
    return {"refused": error.get("message") or done.stderr.splitlines()[0]}


def row(entry: Entry, recordings: Recordings, program: Path, only_recorded: bool) -> tuple[str, str, str]:
    """(model, result, what is kept or the reason)"""
    if only_recorded and not recordings.traces(entry):
        return entry.name, "not run", "no recording was there"
    try:
        recordings.facts(entry)
    except Exception as error:  # one model that does not record must not end the table
        return entry.name, "not recorded", str(error).splitlines()[0]
    answers = [proven(program, recordings.place(entry), backend) for backend in BACKENDS]
    if "refused" in answers[0]:
        return entry.name, "no step", answers[0]["refused"].removeprefix("no decode step can be derived: ")
    result = "proven" if all(answer.get("passed") for answer in answers) else "WRONG"
    return entry.name, result, f"{len(answers[0]['caches'])} caches"


Row = tuple[str, str, str, str]


def kept_rows(page: str) -> dict[str, Row]:
    """The rows of a page, by the name of their model."""
    found = [
        tuple(cell.strip() for cell in line.split("|")[1:-1])
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    return {cells[0]: cells for cells in found if len(cells) == 4}


def page(rows: list[Row]) -> str:
    count = sum(result == "proven" for _, result, _, _ in rows)
    lines = [
        "# The zoo, token by token",
        "",
        "Made by `make zoo-decode`. What a decode step and its proof are: [decoding.md](decoding.md).",
        f"{count} of {len(rows)} models have a step that is the forward pass at every position, on "
        f"{' and '.join(BACKENDS)}; {sum(result == 'not run' for _, result, _, _ in rows)} were not run.",
        "",
        "| model | result | what is kept, or why there is no step | run on |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=Path, default=ROOT / "build" / "zoo" / "recordings")
    parser.add_argument("--program", type=Path, default=Path(sys.executable).with_name("pycandle"))
    parser.add_argument(
        "--models",
        type=lambda text: text.split(","),
        help="only these; other rows of the page stay as they are",
    )
    parser.add_argument("--only-recorded", action="store_true", help="record nothing: the others are not run")
    arguments = parser.parse_args()
    names = [entry.name for entry in entries()]
    if unknown := sorted(set(arguments.models or ()) - set(names)):
        parser.error(f"no such models: {', '.join(unknown)}")
    recordings, today = Recordings(arguments.recordings), str(datetime.date.today())
    wrong = False
    for entry in entries():
        if entry.name not in (arguments.models or names):
            continue
        found = (*row(entry, recordings, arguments.program, arguments.only_recorded), today)
        wrong = wrong or found[1] == "WRONG"
        print(*found, sep=" · ", flush=True)
        kept = {
            **kept_rows(PAGE.read_text()),
            entry.name: found,
        }  # what is done stays when the rest is stopped
        PAGE.write_text(page([kept.get(name, (name, "not run", "", "")) for name in names]))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
