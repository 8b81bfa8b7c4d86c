"""docs/adding-an-op.md, followed to the letter in a copy of the sources."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "adding-an-op.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(*command, cwd: Path, status: int = 0) -> str:
    finished = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=1500, check=False
    )
    assert finished.returncode == status, f"{command}\n{finished.stdout[-5000:]}\n{finished.stderr[-5000:]}"
    return finished.stdout + finished.stderr


def test_someone_new_adds_a_functional_by_touching_one_file(tmp_path, pycandle) -> None:
    (script,) = blocks("python")
    (tmp_path / "squareplus_model.py").write_text(script)
    run(sys.executable, "squareplus_model.py", cwd=tmp_path)
    refused = run(pycandle.path, "verify", "squareplus", cwd=tmp_path, status=1)
    assert "mylib.squareplus.default" in refused and "squareplus_model.py:" in refused

    source = tmp_path / "source"
    for part in ("src", "cmake", "include", "tests"):
        if (ROOT / part).exists():
            shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(ROOT / file, source / file)

    paragraph, entry = blocks("cpp")
    family = source / "src" / "ops" / "nn" / "activation.cpp"
    text = family.read_text()
    assert text.count("OpDef relu() {") == 1
    text = text.replace("OpDef relu() {", paragraph + "\nOpDef relu() {")
    assert len(re.findall(r"return \{relu\(\),", text)) == 1
    family.write_text(re.sub(r"return \{relu\(\),", entry.strip(), text))

    # ccache, where there is one, knows every other file already.
    build = source / "build" / "release"
    run(
        "cmake",
        "-S",
        source,
        "-B",
        build,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DPYCANDLE_TESTS=OFF",
        cwd=tmp_path,
    )
    run("cmake", "--build", build, "--target", "pycandle_cli", cwd=tmp_path)
    built = build / "bin" / "pycandle"

    assert "mylib.squareplus.default" in run(built, "ops", "squareplus", cwd=tmp_path)
    verified = run(built, "verify", "squareplus", cwd=tmp_path)
    assert "squareplus" in verified and "0 wrong" in verified
