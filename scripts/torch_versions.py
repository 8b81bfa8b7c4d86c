"""Records with each release of torch that people have, and writes what came out to docs/torch-versions.md.

One environment at a time, in a temporary folder that goes afterwards: each takes about 5 GB. All rows but those of other Pythons
use the extension that `make build` made. A row that is not run keeps what the table says of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "torch-versions.md"
SAMPLE = ["recorder", "recorded_graphs", "data_sizes", "float_sizes", "scripted", "quantizers"]
PACKAGES = ["torchvision", "safetensors", "rich", "pytest", "jsonschema"]

# What torch.export of a release and earlier ones refuses by itself, and the tests of it.
LIMITS = {
    "2.8": {
        "`torch.cond` on inputs with open axes": [
            "test_sizes_inside_a_branch_are_dim_texts",
            "test_shapes_that_the_process_met_before_have_no_say",
        ],
    },
    "2.9": {
        "slices of an axis whose size depends on data": [
            "test_a_slice_of_such_an_axis_has_the_size_that_python_gives_it"
        ],
    },
}

sys.path.insert(0, str(ROOT / "python"))
from pycandle.recording.torch_versions import TESTED  # noqa: E402

OWN = re.search(r"torch==(\d+\.\d+)", (ROOT / "requirements/record.in").read_text())[1]


def number(series: str) -> tuple[int, ...]:
    return tuple(map(int, series.split(".")))


@dataclass(frozen=True)
class Row:
    torch: str  # "2.8"
    python: str  # "3.11"
    numpy: str  # a version, or "newest"

    @property
    def key(self) -> str:
        return f"torch {self.torch}, Python {self.python}"

    def refused(self) -> list[str]:
        """Tests that torch.export of this release cannot pass."""
        limits = [limit for last, limit in LIMITS.items() if number(self.torch) <= number(last)]
        return [test for limit in limits for tests in limit.values() for test in tests]


# The oldest release gets the oldest NumPy, the one of requirements/ every Python.
ROWS = [
    *(Row(torch, "3.11", "1.26" if torch == TESTED[0] else "newest") for torch in TESTED),
    *(Row(OWN, python, "newest") for python in ("3.12", "3.13")),
]


def run(*command: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], cwd=ROOT, text=True, **options)


def uv() -> str:
    return shutil.which("uv") or str(ROOT / ".uv/bin/uv")


def find_python(version: str) -> str | None:
    """By uv, or one of pyenv's, whose names on the PATH may refuse to run."""
    found = run(uv(), "python", "find", "--no-python-downloads", version, capture_output=True)
    if found.returncode == 0:
        return found.stdout.strip()
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))), None)


def newest_series() -> str:
    """Of the registry: `2.15`."""
    resolved = run(
        uv(), "pip", "compile", "-q", "--no-deps", "--no-header", "-", input="torch\n", capture_output=True, check=True
    )  # fmt: skip
    return re.search(r"torch==(\d+\.\d+)", resolved.stdout)[1]


def make_environment(row: Row, folder: Path, cache: Path) -> Path:
    """Its Python."""
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(cache)}
    run(uv(), "venv", "-q", "--python", find_python(row.python), folder / "venv", env=environment, check=True)
    python = folder / "venv/bin/python"
    numpy = "numpy" if row.numpy == "newest" else f"numpy=={row.numpy}.*"
    wanted = [f"torch=={row.torch}.*", numpy, *PACKAGES, *([] if row.python == "3.11" else ["nanobind"])]
    run(uv(), "pip", "install", "-q", "--python", python, *wanted, env=environment, check=True)
    return python


def package_for(row: Row, python: Path, folder: Path) -> Path:
    """The folder to import pycandle from: the sources themselves, or a copy with an extension for that Python."""
    if row.python == "3.11":
        return ROOT / "python"
    build = folder / "build"
    chosen = ["-DPYCANDLE_PYTHON=ON", "-DPYCANDLE_TESTS=OFF", f"-DPython_EXECUTABLE={python}"]
    run("cmake", "--preset", "release", "-B", build, *chosen, check=True, stdout=subprocess.DEVNULL)
    run("cmake", "--build", build, "--target", "_core", check=True, stdout=subprocess.DEVNULL)
    ignored = shutil.ignore_patterns("_core*.so", "__pycache__")
    shutil.copytree(ROOT / "python/pycandle", folder / "package/pycandle", ignore=ignored)
    for extension in (build / "python/pycandle").glob("_core*.so"):
        shutil.copy(extension, folder / "package/pycandle")
    return folder / "package"


def versions_in(python: Path) -> dict[str, str]:
    code = "import importlib.metadata as m, json, platform; print(json.dumps({'python': platform.python_version(), "
    code += "**{n: m.version(n) for n in ('torch', 'torchvision', 'numpy')}}))"
    return json.loads(run(python, "-c", code, capture_output=True, check=True).stdout)


def run_sample(row: Row, python: Path, package: Path, folder: Path) -> dict[str, int]:
    report = folder / "junit.xml"
    settings = {
        "PYTHONPATH": os.pathsep.join(map(str, (package, ROOT / "tests"))),
        "PYCANDLE_PROGRAM": str(ROOT / ".venv/bin/pycandle"),
        "OMP_NUM_THREADS": "1",
    }
    chosen = ["-k", f"not ({' or '.join(row.refused())})"] if row.refused() else []
    files = [ROOT / "tests/python" / f"test_{name}.py" for name in SAMPLE]
    run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *chosen, *files,
        env=os.environ | settings,
    )  # fmt: skip
    if not report.exists():
        return {"passed": 0, "failed": 1, "skipped": 0}
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    return {"passed": int(suite.get("tests", 0)) - failed - skipped, "failed": failed, "skipped": skipped}


def try_row(row: Row, cache: Path | None) -> dict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pycandle-torch-") as name:
        folder = Path(name)
        try:
            python = make_environment(row, folder, cache or folder / "cache")
            package = package_for(row, python, folder)
            result = versions_in(python) | run_sample(row, python, package, folder)
        except subprocess.CalledProcessError as error:
            print(f"{row.key}: {' '.join(error.cmd[:4])} … failed")
            result = {"torch": row.torch, "torchvision": "?", "numpy": row.numpy, "python": row.python}
            result |= {"passed": 0, "failed": 1, "skipped": 0}
    commit = run("git", "rev-parse", "--short", "HEAD", capture_output=True, check=True).stdout.strip()
    date = datetime.date.today().isoformat()
    return result | {"seconds": round(time.monotonic() - started), "commit": commit, "date": date}


COLUMNS = ["torch", "torchvision", "numpy", "python", "passed", "failed", "skipped", "commit", "date"]


def known_rows() -> dict[str, dict]:
    """What the table says, by torch's series and Python's."""
    found = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS) and cells[0][:1].isdigit():
            row = dict(zip(COLUMNS, cells, strict=True))
            found[key_of(row)] = row
    return found


def key_of(row: dict) -> str:
    torch, python = (".".join(row[name].split(".")[:2]) for name in ("torch", "python"))
    return Row(torch, python, "").key


def write_table(rows: dict[str, dict]) -> None:
    ordered = sorted(
        rows.values(), key=lambda r: [[int(n) for n in r[c].split(".")[:2]] for c in ("python", "torch")]
    )
    lines = [
        "# Releases of torch that recording was tested with",
        "",
        "Recording works with the torch you have. `pycandle doctor` says which one was found and whether it is in this table;",
        "with another one `GoldenRecorder` warns and goes on. torchaudio's models need torch 2.11 or earlier, since later",
        "releases have no torchaudio.",
        "",
        "Each row is an environment of its own in which a sample of the recorder's tests ran: "
        + ", ".join(f"`test_{name}.py`" for name in SAMPLE)
        + ". `make test-full` runs them all; one row:",
        "",
        "    .venv/bin/python scripts/torch_versions.py --torch 2.8",
        "",
        *(
            f"torch.export of {last} and earlier refuses {' and '.join(limit)}: not counted."
            for last, limit in LIMITS.items()
        ),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---:|---:|---:|---|---|",
        *(f"| {' | '.join(str(row[column]) for column in COLUMNS)} |" for row in ordered),
    ]
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--torch", nargs="+", help="these releases alone, such as 2.8")
    options.add_argument("--python", nargs="+", help="these Pythons alone, such as 3.12")
    options.add_argument("--cache", type=Path, help="keep downloads here, for the next run")
    options.add_argument("--json", type=Path, help="write the counts of this run here")
    arguments = options.parse_args()

    newest = newest_series()
    rows = ROWS if newest in TESTED else [*ROWS, Row(newest, "3.11", "newest")]
    rows = [r for r in rows if not arguments.torch or r.torch in arguments.torch]
    rows = [r for r in rows if not arguments.python or r.python in arguments.python]
    made = {}
    for row in rows:
        if find_python(row.python) is None:
            print(f"{row.key}: this machine has no Python {row.python}")
            continue
        print(f"== {row.key}", flush=True)
        made[row.key] = try_row(row, arguments.cache)
        write_table(known_rows() | {row.key: made[row.key]})
    if arguments.json:
        arguments.json.write_text(json.dumps(made, indent=2))
    for key, row in made.items():
        print(
            f"{key}: {row['passed']} passed, {row['failed']} failed, {row['skipped']} skipped, {row['seconds']} s"
        )
    return 1 if any(row["failed"] for row in made.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
