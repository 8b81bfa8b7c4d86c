"""Proves that a folder of src/ can include only itself and the folders above it.

For each folder the flags are those of one of its real sources (compile_commands.json), and the headers are real too:
`#include "ops/core/catalogue.h"` in src/base must end in "No such file", `#include "base/error.h"` in src/ops must be found.

usage: check_seams.py BUILD_DIRECTORY
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

ORDER = [
    "base",
    "ir",
    "ops",
    "import",
    "params",
    "passes",
    "backends",
    "backends/reference",
    "backends/cpu/kernels",
    "backends/cpu",
    "backends/c",
    "runtime",
    "verify/judging",
    "verify/diagnosing",
    "verify",
    "suite",
    "generate",
    "capture",
    "emit",
    "emit/cpp",
    "emit/rust",
    "emit/onnx",
    "emit/proof",
    "report",
    "text",
    "cli",
]
# Folders that see less than the order allows: kernels and text know nothing of programs, and what proves emitted text does not
# share code with what prints it.
UNSEEN = {("backends/cpu/kernels", other) for other in ORDER if other not in ("base", "backends/cpu/kernels")}
UNSEEN |= {("text", other) for other in ORDER if other not in ("base", "text")}
UNSEEN |= {(other, "generate") for other in ORDER if other not in ("generate", "cli")}
UNSEEN |= {(other, "suite") for other in ORDER if other not in ("suite", "cli")}
UNSEEN |= {("backends/c", other) for other in ("backends/reference", "backends/cpu/kernels", "backends/cpu")}
UNSEEN.add(("cli", "text"))  # it has the public header
UNSEEN |= {("emit/rust", "emit/cpp"), ("emit/proof", "emit/cpp"), ("emit/proof", "emit/rust")}
UNSEEN |= {("report", "emit/rust")} | {(other, "emit/onnx") for other in ("emit/proof", "report")}
UNSEEN |= {("emit/onnx", "emit/cpp"), ("emit/onnx", "emit/rust")}
SOURCE = Path(__file__).resolve().parents[2] / "src"


def target_folder(file: Path) -> str | None:
    """The folder that a file is compiled with: a target of its own, or else a folder of src/ (src/ops has src/ops/shape)."""
    folders = [folder for folder in file.parents if SOURCE in folder.parents]
    if not folders:
        return None
    own = next((folder for folder in folders if (folder / "CMakeLists.txt").exists()), folders[-1])
    return str(own.relative_to(SOURCE))


def compile_flags(build: Path) -> dict[str, list[str]]:
    """The compiler and the include flags of each folder that has a source."""
    flags: dict[str, list[str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        folder = target_folder(Path(entry["file"]).resolve())
        if folder is None:
            continue
        words = shlex.split(entry["command"])
        for place, word in enumerate(words):  # compile_commands.json may name the launcher too
            if Path(word).name == "ccache":
                words = words[place + 1 :]
                break
        flags[folder] = [
            words[0],
            "-std=c++20",
            *(w for w in words if w.startswith("-I")),
        ]
    return flags


def a_header(folder: str) -> str | None:
    headers = sorted(h for h in (SOURCE / folder).rglob("*.h") if target_folder(h) == folder)
    return str(headers[0].relative_to(SOURCE)) if headers else None


def finds(flags: list[str], header: str) -> bool:
    run = subprocess.run(
        [*flags, "-E", "-x", "c++", "-"], input=f'#include "{header}"\n', capture_output=True, text=True
    )
    missing = f"{header}: No such file" in run.stderr or f"'{header}' file not found" in run.stderr
    if run.returncode and not missing:
        sys.exit(f"the compiler stopped for another reason: {run.stderr}")
    return not missing


def main() -> int:
    flags = compile_flags(Path(sys.argv[1]))
    wrong = [
        f"src/{folder} is not in the order" for folder in sorted(flags) if folder not in (*ORDER, "python")
    ]
    wrong += [f"src/{folder} has no source: nothing was checked" for folder in ORDER if folder not in flags]
    checked = 0
    for place, folder in enumerate(ORDER):
        for other_place, other in enumerate(ORDER):
            header = a_header(other)
            if folder not in flags or header is None:
                continue
            allowed = other_place <= place and (folder, other) not in UNSEEN
            checked += 1
            if finds(flags[folder], header) != allowed:
                wrong.append(
                    f'src/{folder}: #include "{header}" should be {"found" if allowed else "refused"}'
                )
    print("\n".join(wrong) or f"{checked} pairs of folders are as the order says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
