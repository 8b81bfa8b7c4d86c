"""How much memory programs take, and those that they start."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path


def peaks_of(command: list, said: list[str] | None = None) -> dict[str, int]:
    """Runs a program; the most memory that each process of its family held (VmHWM), in bytes by the name of its program. What it
    prints is added to `said`."""
    peaks: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=errors)
        while child.poll() is None:
            for pid in family_of(child.pid):
                # Not ru_maxrss: a child inherits that of the process that started it.
                name, peak = name_and_peak(pid)
                peaks[name] = max(peaks[name], peak)
            time.sleep(0.002)
        out.seek(0), errors.seek(0)
        text = out.read()
        assert child.returncode == 0, (
            f"{command}: exit {child.returncode}\n{text[-3000:]}\n{errors.read()[-3000:]}"
        )
        if said is not None:
            said.append(text)
    return {name: peak for name, peak in peaks.items() if peak > 0}


def family_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(relative for one in children for relative in family_of(int(one)))]


def name_and_peak(pid: int) -> tuple[str, int]:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    if "VmHWM:" not in status:
        return "", 0
    return status.split("Name:")[1].split()[0], int(status.split("VmHWM:")[1].split()[0]) * 1024
