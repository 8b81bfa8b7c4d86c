"""models/ is what codegen writes today, and code that a C++ programmer would keep."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import models  # noqa: E402

NAMES = [str(model.header.relative_to(models.MODELS)) for model in models.ALL]
CLANG_FORMAT = Path(sys.executable).with_name("clang-format")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def header(name: str) -> Path:
    return models.MODELS / name


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("recordings")


FEW = 9  # layers, a number that none of these files has
LANGUAGES = [(model, ".hpp") for model in models.ALL] + [(model, ".rs") for model in models.IN_RUST]
SHOWN = [f"{model.name}/{model.header.stem}{ending}" for model, ending in LANGUAGES]


@pytest.mark.parametrize(("model", "ending"), LANGUAGES, ids=SHOWN)
def test_a_shown_model_is_what_codegen_writes(model: models.Model, ending: str, recordings) -> None:
    """With few layers, which is quicker: the text differs in their number alone."""
    kept = model.header.with_suffix(ending).read_text()
    if not model.layers:
        assert models.emitted(model, recordings, ending) == kept, "make models writes it again"
        return
    assert not re.search(rf"\b{FEW}\b", kept)
    few = models.emitted(model.with_layers(FEW), recordings, ending)
    assert re.sub(rf"\b{FEW}\b", str(model.layers), few) == kept, "make models writes it again"


@pytest.mark.full
@pytest.mark.parametrize(
    "model", [model for model in models.ALL if model.layers], ids=lambda model: model.title
)
def test_a_shown_model_is_what_codegen_writes_for_all_layers(model: models.Model, tmp_path) -> None:
    assert models.emitted(model, tmp_path) == model.header.read_text(), "make models writes it again"


def test_the_table_of_models_is_up_to_date() -> None:
    assert (ROOT / "models" / "README.md").read_text() == models.readme(), "make models writes it again"


@pytest.mark.parametrize("path", models.PAGES, ids=lambda path: path.name)
def test_the_emitted_code_that_a_page_shows_is_what_codegen_writes(path: Path) -> None:
    text = path.read_text()
    assert "<!-- " in text
    assert models.page(text) == text, "make models writes it again"


def functions(text: str) -> list[tuple[str, int]]:
    """Head and number of lines of each function: they end where their closing brace stands at their own indent."""
    found = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"  \S.*\) const \{$", line):
            end = next(i for i in range(number, len(lines)) if lines[i] == "  }")
            found.append((line.strip(), end - number + 1))
        elif re.match(r"  (explicit )?\w+\(", line):
            end = next(i for i in range(number, len(lines)) if lines[i].endswith("{}"))
            found.append((line.strip(), end - number + 1))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_shown_model_reads_well(name: str) -> None:
    text = header(name).read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert all(lines <= 60 for _, lines in functions(text)), functions(text)
    assert not re.search(r"\b(const Tensor|Tensor|auto) \w+_\d+ =", text), "a numbered temporary"
    assert "Variant" not in text
    formatted = subprocess.run(
        [CLANG_FORMAT, header(name)], capture_output=True, text=True, check=True
    ).stdout
    assert formatted == text


def test_the_shown_models_are_short() -> None:
    gpt2, resnet = header("gpt2/model.hpp").read_text(), header("resnet34/model.hpp").read_text()
    assert len(gpt2.splitlines()) <= 200
    assert len(resnet.splitlines()) <= 160
    assert gpt2.count("struct GPT2Block ") == 1
    assert "for (const GPT2Block& block : h)" in gpt2


@pytest.mark.parametrize("model", models.IN_RUST, ids=lambda model: f"{model.name}/{model.rust.name}")
def test_a_shown_model_reads_well_in_rust(model: models.Model) -> None:
    text = model.rust.read_text()
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"\blet (mut )?\w+_\d+ =", text), "a numbered temporary"
    assert text.count("todo!") == 0
    check = ["rustfmt", "--check", "--edition", "2021", model.rust]
    assert subprocess.run(check, capture_output=True, text=True).stdout == ""


def test_the_shown_models_are_short_in_rust() -> None:
    lines = {model.rust: len(model.rust.read_text().splitlines()) for model in models.IN_RUST}
    assert lines[models.GPT2.rust] <= 220
    assert lines[models.LLAMA.rust] <= 260


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["g++", "clang++-16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_shown_model_compiles_under_both_compilers(name: str, compiler: str, tmp_path) -> None:
    (tmp_path / "uses.cpp").write_text(f'#include "{header(name)}"\n')
    command = [compiler, "-std=c++20", "-O0", "-c", *WARNINGS, f"-I{ROOT / 'include'}", tmp_path / "uses.cpp"]
    command += ["-o", tmp_path / "uses.o"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
