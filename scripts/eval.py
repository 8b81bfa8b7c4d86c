"""PyTorch and PyCandle side by side, in one process.

    scripts/eval.py --model resnet34 --workload validate
    scripts/eval.py --model mobilenet_v2 --workload trace --stop-on-first-mismatch
    scripts/eval.py --model gpt2 --workload bench --threads 1 2 --bench-tokens 1 64

validate   the outputs of both, on inputs that were not recorded
trace      every value that crosses a module's boundary, in order
bench      the time of a forward pass, in turns
run        PyCandle alone: what comes out, and how long it took

The model is recorded first; weights are random unless --checkpoint names a file. Exit status 1: something does not agree."""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from known_models import KNOWN

import pycandle

WORKLOADS = ("validate", "trace", "bench", "run")
ALLOWED = 16  # times the rounding of PyTorch's own f32 run, at the maximum


class Subject:
    """A model in PyTorch, and its recording."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        self.name, self.known, self.tiny = name, KNOWN[name], options.tiny
        self.torch = self.known.built(options.tiny, options.checkpoint)
        recorder = pycandle.GoldenRecorder(folder, progress=lambda text: None)
        recorder.record(self.torch, **self.known.inputs(options.tiny))
        recorder.save(name)
        self.folder = folder
        self.options = options

    def inputs(self, size: int = 0, seed: int = 2) -> dict[str, torch.Tensor]:
        return self.known.inputs(self.tiny, size, seed)

    def loaded(self, threads: int | None = None, backend: str | None = None) -> pycandle.Model:
        pycandle.set_dump_dir(self.options.dump_dir)
        return pycandle.load_model(self.folder, backend or self.options.backend, threads)

    def outputs(self, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        """By PyCandle's names."""
        with torch.no_grad():
            given = model(**inputs)
        if isinstance(given, torch.Tensor):
            return {"output": given.double().numpy()}
        return {
            f"output.{key}": value.double().numpy() for key, value in given.items() if torch.is_tensor(value)
        }


def in_double(
    model: torch.nn.Module, inputs: dict[str, torch.Tensor], subject: Subject
) -> dict[str, np.ndarray]:
    wide = {name: x.double() if x.is_floating_point() else x for name, x in inputs.items()}
    model.double()
    try:
        return subject.outputs(model, wide)
    finally:
        model.float()


def validate(subject: Subject) -> list[dict]:
    rows = []
    ours = subject.loaded()
    sizes = (1, 5, 16) if subject.known.tokens else (0,)
    for size in sizes:
        inputs = subject.inputs(size)
        found = ours.forward(**{name: x.numpy() for name, x in inputs.items()})
        theirs, exact = subject.outputs(subject.torch, inputs), in_double(subject.torch, inputs, subject)
        for name, value in theirs.items():
            floor = max(abs(value - exact[name]).max(), 2**-24 * abs(exact[name]).max())
            error = float(abs(found[name].astype(np.float64) - exact[name]).max())
            rows.append(
                {
                    "model": subject.name,
                    "workload": "validate",
                    "what": f"{name} of {size} tokens" if size else name,
                    "difference": float(abs(found[name] - value).max()),
                    "error": error,
                    "torch_error": float(abs(value - exact[name]).max()),
                    "agrees": bool(error <= ALLOWED * floor),
                }
            )
    return rows


def trace(subject: Subject) -> list[dict]:
    """`pycandle verify`: each layer from PyTorch's own inputs to it, against the rounding that is possible there."""
    command = [Path(sys.executable).with_name("pycandle"), "verify", subject.folder, "--json", "--all"]
    backend = subject.options.backend or pycandle.get_backend()
    finished = subprocess.run(
        [*map(str, command), "--backend", backend], capture_output=True, text=True, check=False
    )
    if finished.returncode not in (0, 1):
        sys.exit(finished.stderr or finished.stdout)
    rows = []
    for layer in json.loads(finished.stdout)["layers"]:
        agrees = not layer["verdict"].startswith("wrong")
        rows.append(
            {
                "model": subject.name,
                "workload": "trace",
                "what": layer["tap"],
                "verdict": layer["verdict"],
                "agrees": agrees,
            }
        )
        if not agrees and subject.options.stop_on_first_mismatch:
            break
    return rows


def seconds(call, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def bench(subject: Subject) -> list[dict]:
    rows = []
    for threads in subject.options.threads:
        torch.set_num_threads(threads)
        ours = subject.loaded(threads)
        for size in subject.options.bench_tokens if subject.known.tokens else (0,):
            inputs = subject.inputs(size)
            arrays = {name: x.numpy() for name, x in inputs.items()}

            def theirs(inputs=inputs) -> None:
                with torch.no_grad():
                    subject.torch(**inputs)

            def mine(arrays=arrays, ours=ours) -> None:
                ours.forward(**arrays)

            theirs(), mine(), mine()  # the second call packs the weights
            turns = [(seconds(theirs, 2), seconds(mine, 2)) for _ in range(subject.options.rounds)]
            torch_time, our_time = (statistics.median(column) for column in zip(*turns, strict=True))
            rows.append(
                {
                    "model": subject.name,
                    "workload": "bench",
                    "what": f"{size} tokens" if size else "1 image",
                    "threads": threads,
                    "torch_ms": torch_time * 1e3,
                    "pycandle_ms": our_time * 1e3,
                    "times_faster": torch_time / our_time,
                }
            )
    return rows


def run(subject: Subject) -> list[dict]:
    model = subject.loaded(subject.options.threads[0])
    arrays = {name: x.numpy() for name, x in subject.inputs().items()}
    begin = time.perf_counter()
    outputs = model.forward(**arrays)
    spent = time.perf_counter() - begin
    return [
        {
            "model": subject.name,
            "workload": "run",
            "what": name,
            "shape": "x".join(map(str, value.shape)),
            "mean": float(value.mean()),
            "max": float(value.max()),
            "ms": spent * 1e3,
        }
        for name, value in outputs.items()
    ]


def shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def print_rows(rows: list[dict], form: str) -> None:
    if form == "json":
        print(json.dumps(rows, indent=1))
        return
    for workload in dict.fromkeys(row["workload"] for row in rows):
        group = [row for row in rows if row["workload"] == workload]
        columns = list(group[0])
        if form == "csv":
            writer = csv.DictWriter(sys.stdout, columns)
            writer.writeheader()
            writer.writerows(group)
            continue
        lines = [columns, *([shown(row[c]) for c in columns] for row in group)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(KNOWN))
    parser.add_argument("--suite", action="store_true", help="every model")
    parser.add_argument("--workload", choices=WORKLOADS, default="validate")
    parser.add_argument(
        "--backend", choices=pycandle.list_backends(), help="PYCANDLE_BACKEND, or cpu, otherwise"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--bench-tokens", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--rounds", type=int, default=5, help="of bench: turns that each side gets")
    parser.add_argument("--stop-on-first-mismatch", action="store_true")
    parser.add_argument("--checkpoint", type=Path, help="weights of the model: any file of docs/weights.md")
    parser.add_argument("--tiny", action="store_true", help="a small model of the same architecture")
    parser.add_argument("--dump-dir", help="write the program after each pass into this folder")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    options = parser.parse_args(arguments)
    if bool(options.model) == options.suite:
        parser.error("name one --model, or take the whole --suite")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    torch.set_num_threads(max(options.threads))
    rows = []
    for name in sorted(KNOWN) if options.suite else [options.model]:
        with tempfile.TemporaryDirectory() as folder:
            subject = Subject(name, Path(folder), options)
            found = globals()[options.workload](subject)
        rows += found
        if options.stop_on_first_mismatch and not all(row.get("agrees", True) for row in found):
            break
    print_rows(rows, options.format)
    return 0 if all(row.get("agrees", True) for row in rows) else 1


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.exit(main())
