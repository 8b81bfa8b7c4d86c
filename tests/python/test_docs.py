"""What the documents show is true: every command is run, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in FENCE.findall(page.read_text()) if kind in ("sh", "python")]


def make_goals() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", [page for page in PAGES if fences(page)], ids=name_of)
def test_the_commands_of_a_page_run(page: Path, tmp_path) -> None:
    """`sh` and `python` blocks run in order, in one folder that holds the examples; `make` goals must exist."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PAGER": "cat",
    }
    for number, (kind, text) in enumerate(fences(page)):
        if kind == "python":
            script = tmp_path / f"block_{number}.py"
            script.write_text(text)
            command = [sys.executable, script]
        else:
            lines = [
                line.removeprefix("$ ") for line in text.splitlines() if line and not line.startswith("#")
            ]
            for line in lines:
                if line.startswith("make "):
                    goal = line.split()[1]
                    assert goal in make_goals(), f"{line}: the Makefile has no such goal"
            lines = [
                re.sub(r"^(\S*/)?\.venv/bin/", "", line)
                for line in lines
                if not line.startswith(("make ", "git ", "cd "))
            ]
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        finished = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert finished.returncode == 0, (
            f"{name_of(page)}, block {number}:\n{text}\n{finished.stdout}\n{finished.stderr}"
        )


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```|^    .*?$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"
