"""What the machine can do, and what share of it the kernels reach: benchmarks/cpu_kernels.cpp, run and read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .runners import ROOT

PROGRAM = ROOT / "build/release/benchmarks/bench_cpu_kernels"
_LIMITS = re.compile(
    r"(\w+), (\d+) threads?: FMA peak ([\d.]+) GFLOP/s, reads ([\d.]+) GB/s \(huge pages\), ([\d.]+) GB/s"
)
_KERNEL = re.compile(r"(.+?) +([\d.]+) ms +([\d.]+) (GFLOP/s|GB/s) *(?:([\d.]+) %)?(.*)")


def measured(threads: int, only: str = "") -> dict:
    """The limits and every kernel; `failed` when one seems to be faster than the machine."""
    done = subprocess.run(
        [PROGRAM, *([only] if only else []), "--threads", str(threads)],
        capture_output=True,
        text=True,
        check=False,
    )
    return {**read(done.stdout), "failed": done.returncode != 0}


def read(text: str) -> dict:
    first, *rest = text.splitlines()
    limits = _LIMITS.match(first)
    if limits is None:
        raise ValueError(f"{PROGRAM.name} said: {first}")
    kernels = []
    for line in rest:
        if found := _KERNEL.match(line):
            name, ms, rate, unit, share, remark = found.groups()
            kernels.append(
                {
                    "kernel": name,
                    "ms": float(ms),
                    "rate": float(rate),
                    "unit": unit,
                    "share": float(share) / 100 if share else None,
                    "remark": remark.strip(),
                }
            )
    return {
        "isa": limits[1],
        "threads": int(limits[2]),
        "fma_gflops": float(limits[3]),
        "read_huge_gbs": float(limits[4]),
        "read_small_gbs": float(limits[5]),
        "kernels": kernels,
    }


def built() -> Path:
    subprocess.run(
        ["cmake", "--build", ROOT / "build/release", "--target", "bench_cpu_kernels"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return PROGRAM
