"""Draws docs/images/verify.svg, the README's picture, from what `make demo` recorded: real output, shortened."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = "build/demo/minilm_manifest.json"


def shortened(lines: list[str]) -> list[str]:
    """The heading, one encoder layer, and the end; the table's last columns are left out."""
    layer = [line for line in lines if "encoder.layer.0." in line]
    return [lines[0], *lines[1:4], "  …", *layer, "  …", *lines[-2:]]


def main() -> None:
    program = Path(sys.executable).with_name("pycandle")
    text = subprocess.run(
        [program, "verify", MANIFEST], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    console = Console(record=True, width=148, file=io.StringIO())
    console.print(Text(f"$ pycandle verify {MANIFEST}", style="bold"))
    for line in shortened(text.splitlines()):
        shown = Text(line[:148])
        shown.highlight_words(["exact"], "green")
        console.print(shown)
    console.save_svg(str(ROOT / "docs" / "images" / "verify.svg"), title="every layer against PyTorch")


if __name__ == "__main__":
    main()
