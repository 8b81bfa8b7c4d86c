"""Draws docs/images/architecture.svg from the map in src/README.md, and writes the tables of docs/architecture.md.

    .venv/bin/python scripts/draw_architecture.py

The rows of the picture are the folders in their order; WALKS below says which files a tensor passes on its way.
"""

from __future__ import annotations

import re
import textwrap
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
PAGE = ROOT / "docs" / "architecture.md"
RECORDING = "python/pycandle/recording"


class Step(NamedTuple):
    file: str
    does: str


WALKS = {
    "From Python to a program": [
        Step(f"{RECORDING}/recorder.py", "`GoldenRecorder.record(model, x)` takes the model and its inputs"),
        Step(f"{RECORDING}/tracing/exporting.py", "runs `torch.export`: `self.norm(x)` becomes `aten.layer_norm.default`"),
        Step(f"{RECORDING}/graph/graph_writer.py", "writes the node with every argument, its type and its Python line"),
        Step(f"{RECORDING}/checking/soundness.py", "runs the exported program beside the model; a difference is refused"),
        Step(f"{RECORDING}/files/goldens.py", "keeps the tensor's value as PyTorch computed it: the golden"),
        Step("src/import/manifest_reader.cpp", "reads the manifest and checks every field"),
        Step("src/import/importer.cpp", "asks the catalogue for the overload and adds the node to the graph"),
        Step("src/ops/nn/layer_norm.cpp", "the op's paragraph: `from_aten` says which overloads become `layer_norm`, `infer` its type"),
        Step("src/ir/builder.cpp", "checks the constraints, infers the type, appends the node"),
        Step("src/passes/pipeline.cpp", "the passes in order; `recognise.cpp` finds norms that people spell out"),
    ],
    "To a verdict": [
        Step("src/verify/verify.cpp", "`pycandle verify`: imports the recording once; then for each recorded value: slice, judge, diagnose"),
        Step("src/verify/judging/slices.cpp", "cuts out the part of the program from the tap back to the nearest goldens"),
        Step("src/verify/judging/trials.cpp", "runs that part on PyTorch's values: rounded, in f64, and jittered"),
        Step("src/backends/reference/walker.cpp", "computes it, node by node, with the ops' evaluators"),
        Step("src/verify/judging/judge.cpp", "decides what counts as wrong in a value: golden and ours against the rounding floor"),
        Step("src/verify/judging/layer_judge.cpp", "makes the layer's verdict of it: exact, within rounding, wrong here, wrong upstream …"),
        Step("src/verify/diagnosing/diagnose.cpp", "for a wrong layer: which op, which pass"),
        Step("src/verify/diagnosing/causes.cpp", "reruns the layer with each known mistake, and names the one that reproduces the wrong value"),
    ],
    "To a kernel": [
        Step("src/runtime/model.cpp", "a loaded model: compiles the program on a backend and runs it"),
        Step("src/backends/cpu/cpu.cpp", "compiles: decomposes every functional that no lowering claims; a program whose sizes depend on data goes to the reference"),
        Step("src/backends/cpu/planner.cpp", "for each node: constant, lowering, fused chain or evaluator; then places in memory"),
        Step("src/backends/cpu/lowerings.cpp", "collects the tables of all `lower_*.cpp` into one lookup by op"),
        Step("src/backends/cpu/lower_rows.cpp", "the lowering of `layer_norm`: a step with its arguments"),
        Step("src/backends/cpu/executable.cpp", "runs the steps"),
        Step("src/backends/cpu/kernels/dispatch.cpp", "chooses portable code, AVX2 or AVX-512 at start"),
        Step("src/backends/cpu/kernels/isa/rows.cpp", "the kernel: `layer_norm` over rows"),
    ],
    "To C++ source": [
        Step("src/emit/recover.cpp", "recovers classes, members and loops from the module calls"),
        Step("src/emit/class_names.cpp", "decides how a class is named"),
        Step("src/emit/cpp/printer.cpp", "prints the header"),
        Step("src/emit/proof/proof.cpp", "parses the printed text back into a program and compares it with the recorded one"),
    ],
}  # fmt: skip
COLOURS = {
    "From Python to a program": "#495057",
    "To a verdict": "#2f9e44",
    "To a kernel": "#d9480f",
    "To C++ source": "#1971c2",
}
_LANES = {"From Python to a program": 470, "To a verdict": 630, "To a kernel": 770, "To C++ source": 910}
_WIDTH, _TOP, _ROW = 1070, 52, 40


class Folder(NamedTuple):
    path: str
    about: str
    depth: int


def folders() -> list[Folder]:
    """The recorder, then the folders of src/ that are targets of the build, in the order of the map."""
    found = [Folder(RECORDING, "records PyTorch models: graph, goldens, weights", 0)]
    above: list[tuple[int, str]] = []
    for spaces, name, about in re.findall(r"^ {4}( *)(\w+)/ +(\S.*)$", map_of_src(), re.MULTILINE):
        above = [(depth, path) for depth, path in above if depth < len(spaces)]
        path = "/".join([*(path for _, path in above[-1:]), name]) if above else f"src/{name}"
        above.append((len(spaces), path))
        if len(above) == 1 or (ROOT / path / "CMakeLists.txt").exists():
            found.append(Folder(path, about, len(above) - 1))
    return found


def map_of_src() -> str:
    """The first indented block of src/README.md."""
    text = (ROOT / "src" / "README.md").read_text()
    return re.search(r"(?:^ {4}.*\n)+", text, re.MULTILINE).group()


def row_of(file: str, rows: list[Folder]) -> int:
    inside = [i for i, folder in enumerate(rows) if file.startswith(f"{folder.path}/")]
    return max(inside, key=lambda i: len(rows[i].path))


def svg() -> str:
    rows = folders()
    height = _TOP + _ROW * len(rows) + 10
    parts = []
    for i, folder in enumerate(rows):
        y = _TOP + i * _ROW
        parts.append(
            f'<rect x="10" y="{y}" width="{_WIDTH - 20}" height="{_ROW - 4}" rx="4" fill="#f1f3f5"/>'
        )
        name = folder.path.rsplit("/", 1)[1] + ("/ in Python" if folder.path == RECORDING else "/")
        parts.append(_text(18 + 14 * folder.depth, y + 13, name, weight="bold"))
        lines = textwrap.wrap(folder.about.replace("`", ""), 60, max_lines=2, placeholder=" …")
        parts += [_text(150, y + 13 + 12 * k, line, colour="#495057") for k, line in enumerate(lines)]
    for title, steps in WALKS.items():
        x, colour = _LANES[title], COLOURS[title]
        at: dict[int, list[str]] = {}
        for step in steps:
            at.setdefault(row_of(step.file, rows), []).append(Path(step.file).name)
        middle = {row: _TOP + row * _ROW + _ROW / 2 - 2 for row in at}
        parts.append(_text(x - 6, 40, title, colour=colour, weight="bold"))
        if title == "From Python to a program":
            branch = max(middle.values())  # the other walks begin where this one ends
        else:
            way = f"M {_LANES['From Python to a program']} {branch} V {branch + 14} H {x} V {min(middle.values())}"
            parts.append(f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(
            f'<line x1="{x}" y1="{min(middle.values())}" x2="{x}" y2="{max(middle.values())}" stroke="{colour}" stroke-width="3"/>'
        )
        for row, names in at.items():
            parts.append(f'<circle cx="{x}" cy="{middle[row]}" r="5" fill="{colour}"/>')
            lines = textwrap.wrap(", ".join(names), 28)
            first = middle[row] + 3 - 5 * (len(lines) - 1)
            parts += [_text(x + 9, first + 10 * k, line, size=9) for k, line in enumerate(lines)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="10">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        + _text(10, 20, "The folders in the order data flows, and the way of one tensor through them", size=13, weight="bold")
        + "\n" + "\n".join(parts) + "\n</svg>\n"
    )  # fmt: skip


def _text(
    x: float, y: float, text: str, size: int = 10, weight: str = "normal", colour: str = "#212529"
) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}">{escape(text)}</text>'


def page(text: str) -> str:
    """The page with the table of each walk below its heading."""
    for title, steps in WALKS.items():
        rows = "\n".join(f"| {i} | `{step.file}` | {step.does} |" for i, step in enumerate(steps, 1))
        table = f"| | file | what happens there |\n|---:|---|---|\n{rows}\n"
        text, count = re.subn(
            rf"(## {re.escape(title)}\n\n)\| \| file .*?\n(?=\n|\Z)",
            lambda found, table=table: found[1] + table,
            text,
            flags=re.DOTALL,
        )
        assert count == 1, title
    return text


def main() -> None:
    PICTURE.write_text(svg())
    PAGE.write_text(page(PAGE.read_text()))


if __name__ == "__main__":
    main()
