"""Files and functions stay small enough to be read in one go."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = (
    "include/pycandle/functional.h",
    "src/capture/functional.cpp",
    "src/params/checkpoints/gguf_grids.inc",
    "models/",
)
LINES_OF_A_FILE, LINES_OF_A_FUNCTION = 600, 80


def written_by_hand(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = [ROOT / name for name in listed.stdout.split() if not name.startswith(GENERATED)]
    assert found
    return [file for file in found if file.exists()]


def test_no_file_written_by_hand_is_long() -> None:
    files = written_by_hand("*.cpp", "*.h", "*.hpp", "*.inc", "*.py", "*.rs", "*.sh", "*.cmake")
    lines = {file.relative_to(ROOT).as_posix(): len(file.read_text().splitlines()) for file in files}
    assert {name: count for name, count in lines.items() if count > LINES_OF_A_FILE} == {}


def test_no_python_function_is_long() -> None:
    long = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in written_by_hand("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= LINES_OF_A_FUNCTION
    ]
    assert long == []


NOTHING = re.compile(
    r"\s*(//.*|#.*|(inline )?namespace .*|}.*|(public|private|protected):)?$"
)  # between definitions
TYPE = re.compile(r"(template <.*> )?(struct|class|union)\b")
TABLE = re.compile(r"= \{$|^(enum|extern)\b")


def cpp_functions(lines: list[str], first: int = 1) -> Iterator[tuple[int, int]]:
    """(line, lines) of each function, as clang-format lays them out: what begins without indent ends with a brace there."""
    start, opening = None, None  # of the definition, and of its body
    for number, line in enumerate(lines):
        if start is None and NOTHING.match(line):
            continue
        start = number if start is None else start
        if opening is None and line.endswith("{"):
            opening = number
        if opening is None and line.endswith((";", "}")):  # a declaration, or a body on one line
            start = None
        elif opening is not None and line.startswith("}"):
            head = " ".join(text.strip() for text in lines[start : opening + 1])
            if TYPE.match(head):
                yield from cpp_functions(
                    [text.removeprefix(" ").removeprefix(" ") for text in lines[opening + 1 : number]],
                    first + opening + 1,
                )
            elif "(" in head and not TABLE.search(head):
                yield first + start, number - start + 1
            start, opening = None, None


def test_no_cpp_function_is_long() -> None:
    long = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in written_by_hand("*.cpp", "*.h")
        for line, count in cpp_functions(file.read_text().splitlines())
        if count > LINES_OF_A_FUNCTION
    ]
    assert long == []


def test_long_cpp_functions_are_found() -> None:
    body = "  work();\n" * 90
    for head in (
        "void long_one() {",
        "Long::Long(int a)\n    : a_(a) {",
        "template <class T>\nT long_one(\n    T x) {",
    ):
        text = f"namespace x {{\n\n{head}\n{body}}}\n\nint short_one() {{\n  return 1;\n}}\n\n}}  // namespace x\n"
        lines = 91 + len(head.splitlines())
        assert list(cpp_functions(text.splitlines())) == [(3, lines), (lines + 4, 3)]
        inside = "struct A {\n" + "".join(f"  {line}\n" for line in text.splitlines()[2:-2]) + "};\n"
        assert list(cpp_functions(inside.splitlines())) == [(2, lines), (lines + 3, 3)]
    table = f"const int kTable[] = {{\n{body}}};\nstd::vector<int> kMore = {{\n{body}}};\n"
    assert list(cpp_functions(table.splitlines())) == []
