"""torch's internals are used in `torch_compat` alone, so that a new torch is mended in one place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

import pycandle
from pycandle import GoldenRecorder
from pycandle.recording.torch_versions import TESTED, untested

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pycandle.__file__).parent
COMPAT = PACKAGE / "recording" / "torch_compat"
OTHERS = sorted(p for p in PACKAGE.rglob("*.py") if COMPAT not in p.parents)

# torch documents these, underscore or not.
DOCUMENTED = {"torch._check", "torch._assert"}
# Names of Python and of ours, and modules of torchaudio and torchvision whose functions patches replace.
NOT_TORCH = {"sys._getframe", "_asdict", "_core"}
OTHER_LIBRARIES = ("filtering", "poolers")
SYMBOLIC = {"expr", "shape_env", "pytype"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def of_torch(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "torch" and (any(map(is_private, parts)) or module.startswith("torch.fx.experimental"))


def internals(source: str) -> list[str]:
    """The uses of torch's internals in Python source, as `line: what`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: import {a.name}" for a in node.names if of_torch(a.name)]
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("torch"):
            names = [f"{node.module}.{a.name}" for a in node.names]
            found += [f"{node.lineno}: from {name}" for name in names if of_torch(name)]
        elif isinstance(node, ast.Attribute) and _is_internal(node):
            found.append(f"{node.lineno}: {dotted(node)}")
    return found


def _is_internal(node: ast.Attribute) -> bool:
    name = dotted(node)
    if node.attr in SYMBOLIC or node.attr.startswith("maybe_as_"):
        return name.split(".")[-2] == "node"  # of a SymInt
    if not is_private(node.attr) or node.attr in NOT_TORCH or name in NOT_TORCH | DOCUMENTED:
        return False
    if re.match(r"(torch\.ops\.|_?aten\.)", name):
        return False  # the name of an operator
    owner = name.split(".")[0]
    return owner not in ("self", "cls", "_core", *OTHER_LIBRARIES) and not node.attr.startswith("_pycandle")


@pytest.mark.parametrize("file", OTHERS, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_torchs_internals_are_used_in_torch_compat_alone(file: Path) -> None:
    assert internals(file.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "import torch._dynamo",
        "from torch.utils import _pytree",
        "from torch.fx.experimental.sym_node import SymNode",
        "from torch.nn.modules.batchnorm import _NormBase",
        "torch._C._set_grad_enabled(False)",
        "overload._schema.arguments",
        "module._buffers['x']",
        "size.node.expr",
        "size.node.maybe_as_int()",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert len(internals(line)) >= 1


def test_the_search_passes_public_names_and_operators() -> None:
    passes = "import torch.fx\ntorch.ops.aten._unique2\ntorch._check(x)\nself._x\nsys._getframe(1)\ntorch.__version__"
    assert internals(passes) == []


def test_every_entry_says_which_release_has_it() -> None:
    for file in COMPAT.glob("*.py"):
        tree = ast.parse(file.read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                assert re.search(r"\(2\.\d+[);]", ast.get_docstring(node) or ""), (
                    f"{node.name} in {file.name}"
                )
        (listed,) = re.findall(r"__all__ = \[(.*?)\n\]", file.read_text(), re.DOTALL)
        for line in filter(str.strip, listed.splitlines()):
            assert re.search(r"# .+ \(2\.\d+\)$", line), line


# ---- releases -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.8.0", "2.11.0+cu130", "2.15.0"])
def test_a_tested_release_passes_without_a_word(version: str) -> None:
    assert untested(version) == ""


@pytest.mark.parametrize("version", ["2.7.1", "3.0.0", "2.80.0", "none"])
def test_another_release_is_told_and_recording_goes_on(version: str, monkeypatch, tmp_path) -> None:
    said = untested(version)
    assert version in said and f"{TESTED[0]} to {TESTED[-1]}" in said
    monkeypatch.setattr("pycandle.recording.recorder.torch.__version__", version)
    with pytest.warns(UserWarning, match="was tested with torch"):
        recorder = GoldenRecorder(tmp_path)
    recorder.record(torch.nn.Linear(2, 2).eval(), torch.ones(1, 2))


def test_the_table_of_releases_has_a_row_for_each_tested_one() -> None:
    table = (ROOT / "docs" / "torch-versions.md").read_text()
    rows = {
        tuple(row[0].split(".")[:2]): row
        for row in re.findall(r"^\| ([\d.]+) (?:\|[^|]*){4}\| (\d+) \|", table, re.M)
    }
    assert set(rows) == {tuple(series.split(".")) for series in TESTED}
    assert all(failed == "0" for _, failed in rows.values())
