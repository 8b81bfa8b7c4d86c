"""What a busy neighbour costs: a model on two threads alone, and beside processes that never sleep.

    .venv/bin/python benchmarks/busy_neighbour.py pycandle_trace/gpt2_manifest.json --neighbours 1

With n cores, t threads and b neighbours a fair share is min(1, n / (t + b)) of the speed alone; threads that wait for each
other actively fall far below that. Turns of both are measured one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(os.environ.get("PYCANDLE_PROGRAM", Path(sys.executable).with_name("pycandle")))


def median_ms(options: argparse.Namespace) -> float:
    limits = ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    run = subprocess.run(
        [PROGRAM, "bench", options.model, *limits, "--json"], check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)["rows"][0]["median_ms"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    alone, beside = [], []
    for _ in range(options.rounds):
        alone.append(median_ms(options))
        busy = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.neighbours)
        ]
        try:
            beside.append(median_ms(options))
        finally:
            for process in busy:
                process.kill()
                process.wait()
    share = min(1.0, (os.cpu_count() or 1) / (options.threads + options.neighbours))
    slowdown = min(beside) / min(alone)
    print(
        f"alone {min(alone):.3f} ms, beside {options.neighbours} busy {min(beside):.3f} ms: {slowdown:.2f} times"
    )
    print(f"a fair share is {1 / share:.2f} times")


if __name__ == "__main__":
    main()
