"""The first token from process start: a bundle of GPT-2 124M beside llama.cpp on the same weights, both from small C programs.

    PYTHONPATH=python:benchmarks python -m first_token --threads 1,2

Both programs are started in turns, with the files in the page cache, and must print the same token. Run by `make bench`,
which writes the table of docs/decoding-speed.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from decoding import shapes
from decoding.__main__ import processor

ROOT = shapes.ROOT
SHAPE = shapes.SHAPES["gpt2-124m"]
BEGIN, END = "<!-- first token: written by make bench -->", "<!-- end of first token -->"


def programs(folder: Path) -> tuple[Path, Path]:
    """Ours and llama.cpp's, compiled against the packages of this environment."""
    import llama_cpp

    package = Path(llama_cpp.__file__).parent
    found = subprocess.run(
        [ROOT / ".venv/bin/pycandle", "--cmake-dir"], capture_output=True, text=True, check=True
    )
    configure = ["cmake", "-S", Path(__file__).parent, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-Dpycandle_DIR={found.stdout.strip()}", f"-DLLAMA={package}"]
    configure += [f"-DLLAMA_HEADERS={package.parent / 'include'}"]
    for command in (configure, ["cmake", "--build", folder]):
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return folder / "ours", folder / "llama"


def bundle(folder: Path) -> Path:
    made = folder / "gpt2.pycandle"
    if not made.exists():
        recorded = shapes.recorded(folder, SHAPE)
        subprocess.run([ROOT / ".venv/bin/pycandle", "bundle", recorded, "--out", made], check=True)
    return made


def seconds_of(command: list[str], threads: int) -> tuple[float, str]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return time.perf_counter() - begin, done.stdout.strip()


def measured(folder: Path, length: int, threads: int, rounds: int) -> dict[str, float]:
    """The median of each program, in turns; the first round fills the page cache."""
    ours, llama = programs(ROOT / "build/bench/first_token")
    prompt = [str(token) for token in shapes.tokens_of(SHAPE, length)]
    commands = {
        "PyCandle": [str(ours), str(bundle(folder)), str(threads), *prompt],
        "llama.cpp": [str(llama), str(shapes.gguf(folder, SHAPE, "f32")), str(threads), *prompt],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for round_number in range(rounds + 1):
        runs = {name: seconds_of(command, threads) for name, command in commands.items()}
        if len({token for _, token in runs.values()}) > 1:
            raise SystemExit(f"the programs disagree: {runs}")
        for name, (seconds, _) in runs.items():
            if round_number > 0:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


def table(rows: list[tuple[int, int, dict[str, float]]]) -> str:
    lines = ["| prompt | threads | PyCandle | llama.cpp | ratio |", "|---:|---:|---:|---:|---:|"]
    for length, threads, times in rows:
        ours, theirs = times["PyCandle"], times["llama.cpp"]
        lines.append(
            f"| {length} | {threads} | {1000 * ours:.0f} ms | {1000 * theirs:.0f} ms | {ours / theirs:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m first_token",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--prompts", type=numbers, default=[5, 128], help="lengths, in tokens")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--files", type=Path, default=ROOT / "build/bench/files/decoding/gpt2-124m")
    parser.add_argument("--page", type=Path, help="whose table is written")
    options = parser.parse_args()
    rows = [
        (length, threads, measured(options.files, length, threads, options.rounds))
        for length in options.prompts
        for threads in options.threads
    ]
    print(table(rows))
    if options.page:
        before, rest = options.page.read_text().split(BEGIN, 1)
        text = f"{datetime.date.today()}, {processor()}:\n\n{table(rows)}\n"
        options.page.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
