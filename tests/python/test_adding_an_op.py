"""docs/adding-an-op.md, followed to the letter."""

from __future__ import annotations

import re
import sys

from pages import Page, changed_files, copy_of_sources, insert, rebuilt_with, run

PAGE = Page("adding-an-op.md")


def test_someone_new_adds_a_functional_by_touching_one_file(tmp_path, pycandle) -> None:
    (script,) = PAGE.blocks("python")
    (tmp_path / "squareplus_model.py").write_text(script)
    run(sys.executable, "squareplus_model.py", cwd=tmp_path)
    shown = PAGE.blocks("text")[0].removeprefix("$ pycandle verify squareplus\n")
    assert run(pycandle.path, "verify", "squareplus", cwd=tmp_path, status=1) == shown

    source = copy_of_sources(tmp_path)
    ((file, above, paragraph),) = PAGE.insertions()
    insert(source, file, above, paragraph + "\n")
    begins = re.search(r"which begins with `([^`]+)`", PAGE.text)[1]
    entry = PAGE.blocks("cpp")[1].strip()
    text = (source / file).read_text()
    assert text.count(begins) == 1
    (source / file).write_text(text.replace(begins, entry))
    assert changed_files(source) == [file]

    built = rebuilt_with(source, file)
    assert "mylib.squareplus.default" in run(built, "ops", "squareplus", cwd=tmp_path)
    verified = run(built, "verify", "squareplus", cwd=tmp_path)
    assert "squareplus" in verified and "0 wrong" in verified
