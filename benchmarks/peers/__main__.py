"""python -m peers: every model on every runner, in turns; writes results, the page's tables and the picture.

Run by `make bench` (all) and `make bench-quick` (a few models, compared with benchmarks/baseline.json).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from . import aims, baseline, chart, report, roofline, runners
from .files import compiled, made
from .models import BY_NAME
from .runtimes import runtimes

_QUICK = ("minilm", "lstm", "mobilenetv2", "gpt2-128")
_QUICK_PEERS = ("torch", "onnxruntime", "openvino")


def main() -> int:
    options = _options()
    names = options.models or (_QUICK if options.quick else list(BY_NAME))
    absent = runners.absent()
    wanted = options.peers or (_QUICK_PEERS if options.quick else runners.PEERS)
    peers = [peer for peer in wanted if peer not in absent]
    for peer in wanted:
        if peer in absent:
            print(f"not installed: {peer} ({absent[peer]})")
    began = time.monotonic()
    results = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _processor(),
        "cores": os.cpu_count(),
        "threads": options.threads,
        "models": list(names),
        "roofline": [],
        "rows": [],
    }
    if options.kernels:
        roofline.built()
        results["roofline"] = [roofline.measured(threads) for threads in options.threads]
    for name in names:
        results["rows"] += _measured(BY_NAME[name], peers, absent, options)
    results["aims"] = aims.judged(results["rows"])
    results["runtimes"] = runtimes(absent)
    results["seconds"] = round(time.monotonic() - began)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    return _verdict(results, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("--models", type=lambda text: text.split(","), help="some of: " + ", ".join(BY_NAME))
    parser.add_argument(
        "--peers", type=lambda text: text.split(","), help="some of: " + ", ".join(runners.PEERS)
    )
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=None)
    parser.add_argument("--rounds", type=int, default=None, help="turns of each runner")
    parser.add_argument("--seconds", type=float, default=None, help="how long each runner is measured")
    parser.add_argument(
        "--files", type=Path, default=runners.ROOT / "build/bench/files", help="where models are kept"
    )
    parser.add_argument("--out", type=Path, default=None, help="where results.json goes")
    parser.add_argument(
        "--quick", action="store_true", help="a few models, compared with the baseline; writes no page"
    )
    parser.add_argument(
        "--kernels", action=argparse.BooleanOptionalAction, help="measure the machine and each kernel"
    )
    parser.add_argument("--no-page", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--write-baseline", action="store_true", help="keep this run's ratios in benchmarks/baseline.json"
    )
    options = parser.parse_args()
    for given, known in ((options.models, BY_NAME), (options.peers, runners.PEERS)):
        if unknown := [name for name in given or () if name not in known]:
            parser.error(f"{', '.join(unknown)}? there are {', '.join(known)}")
    options.kernels = not options.quick if options.kernels is None else options.kernels
    options.threads = options.threads or ([1] if options.quick else [1, 2])
    options.rounds = options.rounds or (3 if options.quick else 4)
    options.seconds = options.seconds or (0.6 if options.quick else 1.2)
    options.out = options.out or runners.ROOT / ("build/bench/quick" if options.quick else "build/bench")
    return options


def _measured(entry, peers: list[str], absent: dict[str, str], options) -> list[dict]:
    files = made(entry, options.files, peers)
    environment = {
        **os.environ,
        "PYTHONPATH": _python_path(),
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHINDUCTOR_CACHE_DIR": str(options.files / "inductor"),
    }
    if "torch-compile" in peers:
        compiled(runners.own_command("torch-compile", entry, files), files, options.threads, environment)
    rows = []
    for threads in options.threads:
        suitable = [peer for peer in peers if not runners.unsuitable(peer, entry)]
        command = runners.bench_command(entry, files, suitable, threads, options.rounds, options.seconds)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        try:
            found = json.loads(done.stdout)["rows"]
        except (json.JSONDecodeError, KeyError):
            found = [{"runner": "cpu", "threads": threads, "failed": (done.stdout + done.stderr).strip()}]
        for row in found:
            row["model"] = entry.name
            row["runner"] = "pycandle" if row["runner"] == "cpu" else row["runner"]
            row["bytes"] = files.bytes_of(row["runner"])
            rows.append(row)
        print(f"{entry.title}, {threads} thread{'s' if threads > 1 else ''}: {_line(found)}", flush=True)
    return rows


def _line(rows: list[dict]) -> str:
    return ", ".join(
        f"{row['runner']} "
        + (
            "FAILED " + row["failed"].splitlines()[0]
            if "failed" in row
            else f"{chart.milliseconds(row['median_ms'])} ms"
        )
        for row in rows
    )


def _python_path() -> str:
    return os.pathsep.join([str(runners.ROOT / "python"), str(runners.ROOT / "benchmarks")])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _verdict(results: dict, options) -> int:
    """Exit 1 when a runner failed or computed something else, a kernel beat the machine, or a ratio got worse."""
    failed = [row for row in results["rows"] if "failed" in row]
    for row in failed:
        print(f"failed: {row['runner']} on {row['model']}, {row['threads']} threads: {row['failed']}")
    impossible = [k for r in results["roofline"] for k in r["kernels"] if k["remark"]]
    for kernel in impossible:
        print(f"impossible: {kernel['kernel']} at {kernel['rate']} {kernel['unit']}: {kernel['remark']}")
    for aim in results["aims"]:
        print(
            f"{'holds' if aim['holds'] else 'MISSED':<7} {aim['model']:<14} {aim['threads']} threads, {aim['column']}: "
            f"{aim['ratio']:.2f} × {aim['peer']} (at most {aim['at_most']:.2f})"
        )
    fine = not failed and not impossible
    if options.quick:
        lines, unchanged = baseline.compared(results["rows"])
        print("\n".join(lines))
        fine = fine and unchanged
    elif not options.no_page:
        docs = runners.ROOT / "docs"
        report.put_into(docs / "benchmarks.md", results)
        titles = {model: BY_NAME[model].title for model in results["models"]}
        for threads in options.threads:
            (docs / f"images/benchmarks-{threads}.svg").write_text(
                chart.svg(results["rows"], titles, threads)
            )
    if options.write_baseline:
        baseline.write(results["rows"])
    print(f"{results['seconds']} s, {options.out / 'results.json'}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
