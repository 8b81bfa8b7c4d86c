"""Draws docs/images/verify.svg, the README's picture, from a real run.

    .venv/bin/python scripts/picture.py

A small GPT-2 is recorded and emitted as C++. One number of the emitted code is changed, and `pycandle verify --program` is
asked what is wrong. Nothing in the picture is written by hand but the commands.
"""

from __future__ import annotations

import difflib
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ["PATH"] = (
    f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # CMake asks `pycandle --cmake-dir`
)

import torch
from rich.console import Console
from rich.text import Text
from transformers import GPT2Config, GPT2LMHeadModel

from pycandle import GoldenRecorder, perturb

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "verify.svg"
PROGRAM = Path(sys.executable).with_name("pycandle")
WIDTH = 118
RIGHT, WRONG = "ln_f(c.n_embd, {.eps = c.layer_norm_epsilon}, ", "ln_f(c.n_embd, {.eps = 1e-6}, "
VERIFY = ("verify", "gpt2_trace", "--program", ".pycandle/captured/gpt2.ptir")


def emitted(folder: Path) -> Path:
    """A project with the C++ of a small GPT-2, recorded beside it."""
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=3,
        n_embd=64,
        n_head=4,
        vocab_size=500,
        n_positions=64,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = GPT2LMHeadModel(config).eval()
    perturb(model, seed=0)
    recorder = GoldenRecorder(folder / "port" / "gpt2_trace", progress=lambda text: None)
    recorder.record(model, input_ids=torch.randint(0, 500, (2, 12)))
    recorder.save("gpt2")
    done = ("codegen", "--manifest", "gpt2_trace", "--out", ".")
    subprocess.run([PROGRAM, *done], cwd=folder / "port", check=True, capture_output=True)
    return folder / "port"


def broken(project: Path) -> list[str]:
    """Another epsilon in the last norm; the project's own test keeps the program that this makes. Returns the changed lines."""
    header = project / "src" / "model.hpp"
    text = header.read_text()
    assert text.count(RIGHT) == 1
    changed = text.replace(RIGHT, WRONG)
    header.write_text(changed)
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]):
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert subprocess.run(["ctest", "--preset", "release"], cwd=project, capture_output=True).returncode != 0
    assert (project / VERIFY[-1]).exists()
    lines = list(difflib.unified_diff(text.splitlines(), changed.splitlines(), lineterm="", n=0))
    return [line for line in lines if line[0] in "-+" and line[:3] not in ("---", "+++")]


def said(project: Path) -> str:
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    done = subprocess.run(
        [PROGRAM, *VERIFY], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def drawn(difference: list[str], text: str) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text("$ git diff --unified=0 src/model.hpp", style="bold"))
    for line in difference:
        console.print(Text(line, style="red" if line[0] == "-" else "green"))
    console.print(Text(f"$ pycandle {' '.join(VERIFY)}", style="bold"))
    for line in text.rstrip().splitlines():
        shown = Text(line)
        shown.highlight_words(["exact", "within rounding"], "green")
        shown.highlight_regex(r"wrong here.*|WRONG HERE", "bold red")
        shown.highlight_regex(r"^  (in|code|why|cause|most|next) ", "bold yellow")
        console.print(shown, soft_wrap=False)
    return console.export_svg(title="one wrong number in emitted code", unique_id="verify")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = emitted(Path(folder))
        difference = broken(project)
        PICTURE.write_text(drawn(difference, said(project)))


if __name__ == "__main__":
    main()
