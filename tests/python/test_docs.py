"""What the documents show is true: every command is run, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from warm_python import WarmPython

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests" / "seams")]

import check_seams  # noqa: E402
import draw_architecture  # noqa: E402

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in FENCE.findall(page.read_text()) if kind in ("sh", "python")]


def make_goals() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


FOLLOWED_ELSEWHERE = {
    "docs/adding-an-op.md",  # test_adding_an_op.py runs its blocks and compares what they print
    "docs/adding-a-backend.md",  # test_adding_a_backend.py builds what it shows
}
SHOWN = [page for page in PAGES if fences(page) and name_of(page) not in FOLLOWED_ELSEWHERE]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PAGER": "cat"}


@pytest.fixture(scope="module")
def python(environment):
    python = WarmPython(environment)
    yield python
    python.close()


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_the_commands_of_a_page_run(page: Path, tmp_path, environment, python) -> None:
    """`sh` and `python` blocks run in order, in one folder that holds the examples; `make` goals must exist."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for number, (kind, text) in enumerate(fences(page)):
        if kind == "python":
            script = tmp_path / f"block_{number}.py"
            script.write_text(text)
            finished = python.run(script, tmp_path)
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


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|^    .*?$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    titles = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", without_code(page.read_text()))
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", prose):
        if target.startswith(("http:", "https:")):
            continue
        place = page.parent / target if target else page
        assert place.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(place), f"{name_of(page)} links to {target}#{anchor}"


# Tables that `make` writes; what a person wrote in them is a few lines.
GENERATED = {
    *(
        "benchmarks",
        "op-db",
        "op-db-cpu",
        "ops",
        "people",
        "test-full",
        "torch-versions",
        "zoo",
        "zoo-cpu",
        "zoo-decode",
        "zoo-emit",
        "zoo-rust",
    ),
}
WRITTEN = [page for page in (ROOT / "docs").glob("*.md") if page.stem not in {*GENERATED, "README"}]


@pytest.mark.parametrize("page", sorted(WRITTEN), ids=name_of)
def test_a_page_is_short_and_says_first_what_it_is_for(page: Path) -> None:
    text = page.read_text()
    assert len(text.split()) <= 1100, "about 1,000 words is a page: split it"
    title, first, *_ = text.split("\n\n")
    assert title.startswith("# ") and first.startswith("After this page you ")


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", index))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert listed == pages


# Paths of this repository that pages name; a path of a user's project or of a recording does not begin like this.
NAMED = re.compile(
    r"(?<![\w/.])((?:src/[\w<>*]+|web/src|tests|scripts|benchmarks|python/pycandle|include/pycandle|examples|requirements"
    r"|cmake)/[\w./*<>-]+)"
)
MADE_IN_EXAMPLES = {"tests/test_model.cpp", "tests/parity.rs"}  # of an emitted project


@pytest.mark.parametrize("page", sorted({*PAGES, ROOT / "src" / "README.md"}), ids=name_of)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    for path in NAMED.findall(page.read_text()):
        pattern = re.sub(r"<\w+>", "*", path.rstrip("./"))
        assert path in MADE_IN_EXAMPLES or any(ROOT.glob(pattern)), f"{name_of(page)} names {path}"


def test_the_map_lists_every_folder() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src", "python"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folders = {Path(name).parent for name in listed.stdout.split()}
    roots = [Path("src"), Path("python/pycandle")]
    assert folders == {
        *roots,
        *(root / path for root, part in zip(roots, map_parts(), strict=True) for path in part),
    }


def map_parts() -> list[list[str]]:
    """The folders of src/README.md in their order: those of src, and those of the Python package."""
    parts: list[list[str]] = []
    for text in (ROOT / "src" / "README.md").read_text().split("Public headers"):
        path: list[tuple[int, str]] = []
        parts.append([])
        for spaces, name in re.findall(r"^    ( *)(\w+)/ +\S", text, re.MULTILINE):
            path = [*((depth, folder) for depth, folder in path if depth < len(spaces)), (len(spaces), name)]
            parts[-1].append("/".join(folder for _, folder in path))
    return parts


def test_the_order_that_the_seams_are_checked_by_is_that_of_the_map() -> None:
    exceptions = {"verify", "backends/cpu/kernels"}  # the map says them in words
    order = [folder for folder in check_seams.ORDER if folder not in exceptions]
    assert order == [folder for folder in map_parts()[0] if folder in order]


def test_the_picture_of_the_architecture_is_drawn_from_the_map_and_its_files_exist() -> None:
    wanted = "scripts/draw_architecture.py draws it again"
    assert draw_architecture.PICTURE.read_text() == draw_architecture.svg(), wanted
    page = draw_architecture.PAGE.read_text()
    assert draw_architecture.page(page) == page, wanted
    for step in (step for steps in draw_architecture.WALKS.values() for step in steps):
        assert (ROOT / step.file).is_file(), step.file


# PyPI's `pycandle` is somebody else's package. A wheel of ours is named by its file.
FROM_PYPI = re.compile(
    r"\b(?:pip3?|pipx|uv|poetry|conda|mamba)\b[^\n|`]*\b(?:install|add)\b[^\n`#]*[\s'\"]pycandle(?![\w./-])"
    r"|\b(?:[Ii]nstall|[Uu]pgrade) pycandle\b"
)


def test_nothing_says_to_install_pycandle_from_pypi() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        file = ROOT / name
        if file == Path(__file__) or not file.is_file() or file.suffix in (".png", ".safetensors", ".pt2"):
            continue
        lines = file.read_text(errors="replace").splitlines()
        found += [f"{name}:{number}" for number, line in enumerate(lines, 1) if FROM_PYPI.search(line)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install pycandle",
        "upgrade pycandle: pip install --upgrade pycandle",
        "uv pip install 'pycandle[record]'",
        "uv add pycandle",
        "install pycandle and torch there",
    ],
)
def test_the_search_for_such_words_finds(text: str) -> None:
    assert FROM_PYPI.search(text)


def test_the_search_passes_the_wheel_by_its_file() -> None:
    assert not FROM_PYPI.search("pip install 'dist/pycandle-0.2.0-cp311-cp311-linux_x86_64.whl[record]'")
