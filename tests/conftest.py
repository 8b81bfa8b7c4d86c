"""What all Python tests share: torch that does not die in bf16 products, and what each test file took."""

import contextlib
import ctypes
import gc
import os
from collections import Counter

import pytest

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()  # before anything here imports torch


def _make_terminals_possible() -> None:
    """A bare root, as of a container, may have no /dev/pts: then this process and its children get one of their own."""
    with contextlib.suppress(OSError):
        for end in os.openpty():
            os.close(end)
        return
    new_mounts, private = 0x20000, 1 << 18  # CLONE_NEWNS, MS_PRIVATE
    libc = ctypes.CDLL(None)
    if os.geteuid() == 0 and libc.unshare(new_mounts) == 0:
        libc.mount(b"none", b"/dev", None, private, None)
        libc.mount(b"devpts", b"/dev/pts", b"devpts", 0, b"newinstance,ptmxmode=0666")


_make_terminals_possible()


@pytest.fixture(autouse=True, scope="module")
def _young_garbage_alone():
    """What is alive before a file is no garbage later: torch's objects are a million, and looking through them took a third
    of the time of a small recording."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter, config) -> None:
    """With --durations: a list of the test files, the slowest first. Seconds of all processes together."""
    if config.getoption("durations") is None:
        return
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if hasattr(report, "nodeid") and hasattr(report, "duration"):
            file = report.nodeid.split("::")[0]
            seconds[file] += report.duration
            tests[file] += report.when == "call"
    terminalreporter.section("seconds by file")
    for file, spent in seconds.most_common():
        terminalreporter.write_line(f"{spent:7.1f}  {tests[file]:4d} tests  {file}")
    terminalreporter.write_line(f"{seconds.total():7.1f}  {tests.total():4d} tests  all")
