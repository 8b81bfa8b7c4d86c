"""Files and functions stay small enough to be read in one go. clang-tidy (make lint) measures the functions of src/."""

import ast
import subprocess
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
    files = written_by_hand("*.cpp", "*.h", "*.hpp", "*.inc", "*.py", "*.sh", "*.cmake")
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
