"""Types that share a name and a namespace are one type to the linker: it keeps one of their functions for both."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPENS = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{")
TYPE = re.compile(
    r"^(?:template <[^>]*> )?(?:struct|class|union|enum class) (\w+)(?: final)?(?: :[^;]*)? ?\{"
)


def types_of(file: Path) -> list[str]:
    found, spaces = [], []
    for line in file.read_text().splitlines():
        if opened := OPENS.match(line):
            spaces.append(opened[1] or str(file))  # without a name it is the file's own
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif defined := TYPE.match(line):
            found.append("::".join([*spaces, defined[1]]))
    return found


def test_no_two_files_define_a_type_of_one_name() -> None:
    places = defaultdict(set)
    for folder in ("src", "include"):
        for file in sorted((ROOT / folder).rglob("*.h")) + sorted((ROOT / folder).rglob("*.cpp")):
            for name in types_of(file):
                places[name].add(file.relative_to(ROOT).as_posix())
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
