"""Runs all tests, the slow ones too, and writes what came out to docs/test-full.md.

Each file of tests is one pytest run, so that a run that was interrupted can go on: a file that passed at this commit,
with nothing changed since, is not run again (--again runs it). --parts runs some of it, and the table says what it lacks.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "build" / "test-full"
TABLE = ROOT / "docs" / "test-full.md"


def output_of(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def tree_id() -> str:
    """Names the sources as they are now, committed or not."""
    changed = output_of("git", "status", "--porcelain", "--", ".", ":!docs")
    text = output_of("git", "rev-parse", "HEAD:src", "HEAD:python", "HEAD:tests") + changed
    text += output_of("git", "diff", "HEAD", "--", ".", ":!docs")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_ctest() -> dict:
    started = time.monotonic()
    run = subprocess.run(
        ["ctest", "--test-dir", "build/release", "-j", "2", "--output-on-failure"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    print(run.stdout[-2000:])
    line = re.search(r"(\d+) tests failed out of (\d+)", run.stdout)
    failed, total = (int(n) for n in line.groups()) if line else (1, 1)
    return {"passed": total - failed, "failed": failed, "skipped": 0, "seconds": time.monotonic() - started}


def run_pytest(file: Path, jobs: int) -> dict:
    report = STATE / "junit.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "full or not full", "-n", str(jobs)]
    run = subprocess.run([*command, f"--junitxml={report}", str(file)], cwd=ROOT)
    counts = {"passed": 0, "failed": 0, "skipped": 0, "seconds": time.monotonic() - started}
    if run.returncode not in (0, 1, 5) or not report.exists():  # 5: no test in the file
        return counts | {"failed": 1}
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        counts["failed"] += failed
        counts["skipped"] += skipped
        counts["passed"] += int(suite.get("tests", 0)) - failed - skipped
    return counts


def run_zoo(module: str, jobs: int, *flags: str) -> dict:
    """Models; each row of docs/zoo.md (docs/zoo-cpu.md: on cpu; docs/zoo-emit.md: as source code; docs/people.md) is one test.
    What torch.export itself refuses is no test of ours."""
    started = time.monotonic()
    rows_file = STATE / f"{module}.json"
    rows_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, "--jobs", str(jobs), "--json", str(rows_file), *flags]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")})
    rows = json.loads(rows_file.read_text()) if rows_file.exists() else [{"status": "failed"}]
    passed, failed = (sum(row["status"] == status for row in rows) for status in ("passed", "failed"))
    return {"passed": passed, "failed": failed, "skipped": 0, "seconds": time.monotonic() - started}


def run_databases(jobs: int, backend: str) -> dict:
    """torch's operator and module databases, every sample; docs/op-db.md and docs/op-db-cpu.md have the details."""
    started = time.monotonic()
    name = "op-db" if backend == "reference" else f"op-db-{backend}"
    report = STATE / f"{name}.json"
    report.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "op_db", "--all", "--quiet", "--jobs", str(jobs), "--json", str(report),
         "--backend", backend, "--markdown", str(ROOT / "docs" / f"{name}.md")],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
    )  # fmt: skip
    seconds = time.monotonic() - started
    if not report.exists():
        return {"passed": 0, "failed": 1, "skipped": 0, "seconds": seconds}
    outcomes = [json.loads(line) for line in report.read_text().splitlines()]
    touched = {o["entry"] for o in outcomes if o["touches"]}
    counted = [o for o in outcomes if o["entry"] in touched]
    calls, passed = sum(o["calls"] for o in counted), sum(o["passed"] for o in counted)
    return {"passed": passed, "failed": calls - passed, "skipped": 0, "seconds": seconds}


def run_torch_versions() -> dict:
    """Recording with other releases of torch; docs/torch-versions.md has the details."""
    started = time.monotonic()
    report = STATE / "torch-versions.json"
    report.unlink(missing_ok=True)
    subprocess.run([sys.executable, str(ROOT / "scripts/torch_versions.py"), "--json", str(report)], cwd=ROOT)
    rows = (
        json.loads(report.read_text()).values()
        if report.exists()
        else [{"passed": 0, "failed": 1, "skipped": 0}]
    )
    counts = {key: sum(row[key] for row in rows) for key in ("passed", "failed", "skipped")}
    return counts | {"seconds": time.monotonic() - started}


def table(results: dict[str, dict]) -> str:
    commit = output_of("git", "rev-parse", "--short", "HEAD").strip()
    total = {key: sum(r[key] for r in results.values()) for key in ("passed", "failed", "skipped", "seconds")}
    lines = [
        "# All tests, the slow ones too",
        "",
        f"Made by `make test-full` on {datetime.date.today().isoformat()}, commit {commit}, "
        f"Python {platform.python_version()}, {platform.machine()}.",
        "",
        "| tests | passed | failed | skipped | seconds |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, r in [*results.items(), ("**all**", total)]:
        lines.append(f"| {name} | {r['passed']} | {r['failed']} | {r['skipped']} | {r['seconds']:.0f} |")
    not_run = [name for name in chosen_runs(PARTS, 1) if name not in results]
    if not_run:
        lines += ["", f"Not run at this commit: {', '.join(not_run)}."]
    return "\n".join(lines) + "\n"


# In this order; all but the first take long and have tables of their own.
PARTS = ["tests", "databases", "databases-cpu", "zoo", "zoo-cpu", "zoo-emit", "people", "torch-versions"]
CTEST, DATABASES, ZOO = "C++ (ctest)", "[operator and module databases](op-db.md)", "[zoo](zoo.md)"
DATABASES_CPU, ZOO_CPU = "[those databases on cpu](op-db-cpu.md)", "[zoo on cpu](zoo-cpu.md)"
ZOO_EMIT, PEOPLE = "[zoo as source code](zoo-emit.md)", "[models as people write them](people.md)"
TORCH_VERSIONS = "[other releases of torch](torch-versions.md)"


def chosen_runs(parts: list[str], jobs: int) -> dict[str, Callable[[], dict]]:
    runs: dict[str, Callable[[], dict]] = {}
    if "tests" in parts:
        runs[CTEST] = run_ctest
        for file in sorted((ROOT / "tests").rglob("test_*.py")):
            runs[file.relative_to(ROOT).as_posix()] = partial(run_pytest, file, jobs)
    if "databases" in parts:
        runs[DATABASES] = partial(run_databases, jobs, "reference")
    if "databases-cpu" in parts:
        runs[DATABASES_CPU] = partial(run_databases, jobs, "cpu")
    if "zoo" in parts:
        runs[ZOO] = partial(run_zoo, "zoo", jobs)
    if "zoo-cpu" in parts:
        runs[ZOO_CPU] = partial(run_zoo, "zoo", jobs, "--backend", "cpu", "--threads", "1,2")
    if "zoo-emit" in parts:
        runs[ZOO_EMIT] = partial(run_zoo, "zoo.zoo_emit", jobs)
    if "people" in parts:
        runs[PEOPLE] = partial(run_zoo, "people", jobs)
    if "torch-versions" in parts:
        runs[TORCH_VERSIONS] = run_torch_versions
    return runs


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--again", action="store_true", help="run what has passed, too")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = options.parse_args()

    STATE.mkdir(parents=True, exist_ok=True)
    saved = STATE / f"{tree_id()}.json"
    results = json.loads(saved.read_text()) if saved.exists() and not arguments.again else {}
    for name, run in chosen_runs(arguments.parts, arguments.jobs).items():
        if results.get(name, {}).get("failed") == 0:
            print(f"{name}: passed before")
            continue
        print(f"== {name}", flush=True)
        results[name] = run()
        saved.write_text(json.dumps(results))
        TABLE.write_text(table(results))

    print(table(results))
    return 1 if any(r["failed"] for r in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
