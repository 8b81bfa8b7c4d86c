"""docs/adding-a-kernel.md, followed to the letter."""

from __future__ import annotations

import json
import sys

import pytest
from pages import Page, build, changed_files, copy_of_sources, insert, run

PAGE = Page("adding-a-kernel.md")


def changed(folder) -> list[str]:
    source = copy_of_sources(folder)
    for file, above, code in PAGE.insertions():
        insert(source, file, above, code)
    return changed_files(source)


def test_a_primitive_with_a_kernel_touches_three_files_and_its_class_one_more(tmp_path) -> None:
    files = changed(tmp_path)
    assert len(files) == 4 and files[0] == "include/pycandle/nn.h"
    assert [file for file in files if file.startswith("src/ops/")] == ["src/ops/elementwise/elementwise.cpp"]


@pytest.mark.full
def test_someone_new_adds_a_kernel(tmp_path) -> None:
    """It is verified on both backends, runs in its kernel, is emitted as its class, and is named as a cause."""
    (script,) = PAGE.blocks("python")
    (tmp_path / "bump_model.py").write_text(script)
    run(sys.executable, "bump_model.py", cwd=tmp_path)
    changed(tmp_path)
    built = build(tmp_path / "source")

    for backend in ("reference", "cpu"):
        assert "0 wrong" in run(built, "verify", "bump", "--backend", backend, cwd=tmp_path)
    assert "evaluator" not in run(built, "forward", "bump", "--profile", cwd=tmp_path)
    run(built, "codegen", "--manifest", "bump", "--out", "model.hpp", cwd=tmp_path)
    assert "nn::Bump act" in (tmp_path / "model.hpp").read_text()

    path = tmp_path / "bump" / "bump_manifest.json"
    manifest = json.loads(path.read_text())
    (node,) = [node for node in manifest["nodes"] if node["op"] == "mylib.bump.default"]
    node["op"], node["args"] = "aten.tanh.default", [["self", node["args"][0][1]]]
    path.write_text(json.dumps(manifest))
    wrong = run(built, "verify", "bump", cwd=tmp_path, status=1)
    assert "looks like tanh where the model uses a bump" in wrong
