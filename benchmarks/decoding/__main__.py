"""How fast language models generate: PyCandle beside torch, llama.cpp and candle, in turns.

    PYTHONPATH=python:benchmarks python -m decoding --shapes gpt2-124m --threads 1,2

Each runner has a process of its own, which loads once and then runs when it is told to. A round asks every runner for every
task, so that all of them see the same moments of the machine; what counts is the ratio within a run. Tokens are the most
likely ones, and runners in f32 must agree on them. Run by `make bench`, which writes docs/decoding-speed.md's tables.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from peers import roofline, runners

from . import aims, report, shapes

TASKS = {"decode": (16, 64), "prefill 128": (128, 0), "prefill 512": (512, 0)}  # prompt, tokens behind it


class Runner:
    def __init__(self, name: str, shape: str, threads: int, folder: Path) -> None:
        self.name = name
        command = [sys.executable, "-m", "decoding.workers", name, "--shape", shape, "--folder", folder]
        command += ["--threads", threads]
        if name.startswith("candle"):
            weights = shapes.candle_weights(folder, shapes.SHAPES[shape])
            command = [runners.candle_program(), "gpt2-decoding", weights]
        count = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "RAYON")}
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **count},
        )
        if self._line() != "ready":
            raise SystemExit(f"{name} did not start")

    def _line(self) -> str:
        return self._process.stdout.readline().strip()

    def run(self, prompt: list[int], count: int) -> dict:
        self._process.stdin.write(json.dumps({"prompt": prompt, "tokens": count}) + "\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            raise SystemExit(f"{self.name} ended")
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def measured(name: str, threads: int, options: argparse.Namespace) -> tuple[list[dict], float]:
    """Rows, and the bytes a second that reading gave between the rounds."""
    shape, folder = shapes.SHAPES[name], options.files / name
    shapes.recorded(folder, shape)
    started = [Runner(runner, name, threads, folder) for runner in options.runners or _present(shape.runners)]
    times = {(runner.name, task): [] for runner in started for task in options.tasks}
    limits = []
    for round_number in range(options.rounds + 1):
        for task in options.tasks:
            length, count = TASKS[task]
            prompt = shapes.tokens_of(shape, min(length, options.longest))
            tokens = {}
            for runner in started:
                answer = runner.run(prompt, min(count, options.tokens))
                tokens[runner.name] = answer["tokens"]
                if round_number > 0:  # the first one packs weights and fills caches
                    times[runner.name, task].append(answer["seconds"])
            exact = {runner: found for runner, found in tokens.items() if runner.endswith("f32")}
            if len({tuple(found) for found in exact.values()}) > 1:
                raise SystemExit(f"{task}: {', '.join(exact)} do not give the same tokens")
        if options.limits:
            limits.append(roofline.measured(threads, "no kernel")["read_huge_gbs"])
    for runner in started:
        runner.close()
    weights = shapes.read_per_token(shape, folder)
    rows = []
    for (runner, task), found in times.items():
        length, count = TASKS[task]
        done = min(count, options.tokens) or min(length, options.longest)
        rows.append(
            {
                "shape": name,
                "task": task,
                "runner": runner,
                "threads": threads,
                "weights": weights,
                "tokens_per_second": done / statistics.median(found),
            }
        )
    return rows, statistics.median(limits) if limits else 0.0


def _present(wanted: tuple[str, ...]) -> list[str]:
    absent = runners.absent()
    for peer in sorted({name.split()[0] for name in wanted} & set(absent)):
        print(f"not installed: {peer} ({absent[peer]})")
    return [name for name in wanted if name.split()[0] not in absent]


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m decoding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument(
        "--shapes", type=words, default=["gpt2-124m", "llama-1b"], help=", ".join(shapes.SHAPES)
    )
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument(
        "--runners", type=words, help='such as "pycandle bf16,llama.cpp bf16"; else those of the shape'
    )
    parser.add_argument("--tasks", type=words, default=list(TASKS), help=", ".join(TASKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="that are decoded, at most")
    parser.add_argument("--longest", type=int, default=512, help="prompt, at most")
    parser.add_argument(
        "--limits", action=argparse.BooleanOptionalAction, default=True, help="measure the memory too"
    )
    parser.add_argument("--files", type=Path, default=shapes.ROOT / "build/bench/files/decoding")
    parser.add_argument("--out", type=Path, default=shapes.ROOT / "build/bench/decoding.json")
    parser.add_argument("--page", type=Path, help="whose tables are written, such as docs/decoding-speed.md")
    options = parser.parse_args()
    for given, known in ((options.shapes, shapes.SHAPES), (options.tasks, TASKS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"{', '.join(unknown)}? there are {', '.join(known)}")
    return options


def main() -> int:
    options = _options()
    if options.limits:
        roofline.built()
    rows, judged, limits = [], [], {}
    for name in options.shapes:
        for threads in options.threads:
            more, limits[threads] = measured(name, threads, options)
            rows += more
            judged += aims.judged(more, {threads: limits[threads]} if limits[threads] else {})
            print(report.table(more), flush=True)
    results = {"machine": processor(), "read_gbs": limits, "rows": rows, "aims": judged}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(report.aims_table(judged))
    if options.page:
        report.put_into(options.page, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
