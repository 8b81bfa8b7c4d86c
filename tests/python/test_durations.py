"""`make test` ends with what each test file took."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.2)

def test_one(slow): pass
def test_two(): pass
"""


def test_the_files_are_listed_with_their_seconds_fixtures_included(tmp_path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parents[1] / "conftest.py").read_text())
    (tmp_path / "test_slow.py").write_text(TESTS)
    (tmp_path / "test_quick.py").write_text("def test_three(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=1", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if "seconds by file" in line)
    slow, quick, whole = (line.split() for line in lines[start + 1 : start + 4])
    assert slow[1:] == ["2", "tests", "test_slow.py"] and float(slow[0]) >= 0.2
    assert quick[1:] == ["1", "tests", "test_quick.py"]
    assert whole[1:] == ["3", "tests", "all"]
