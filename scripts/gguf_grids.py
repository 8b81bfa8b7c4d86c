"""Writes src/params/checkpoints/gguf_grids.inc: the lookup tables of GGUF's iq formats, taken from the `gguf` package.

usage: PYTHONPATH=<folder with gguf> .venv/bin/python scripts/gguf_grids.py
"""

from __future__ import annotations

from pathlib import Path

from gguf import quants

TABLES = {
    "kGridIq2Xxs": quants.IQ2_XXS,
    "kGridIq2Xs": quants.IQ2_XS,
    "kGridIq2S": quants.IQ2_S,
    "kGridIq3Xxs": quants.IQ3_XXS,
    "kGridIq3S": quants.IQ3_S,
    "kGridIq1S": quants.IQ1_S,
}
OUT = Path(__file__).parent.parent / "src/params/checkpoints/gguf_grids.inc"


def table(name: str, quant) -> str:
    """The grid with its values spelled out, a row of the table for each entry."""
    quant.init_grid()
    rows, columns = quant.grid_shape
    grid = quant.grid.reshape(rows, columns).astype(int)
    entries = ["{" + ", ".join(map(str, row)) + "}" for row in grid.tolist()]
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) > 126:
            lines.append(line)
            line = "   "
        line += f" {entry},"
    body = "\n".join([*lines, line])
    return f"constexpr int8_t {name}[{rows}][{columns}] = {{\n{body}\n}};\n"


if __name__ == "__main__":
    head = "// Written by scripts/gguf_grids.py from the `gguf` package: the lookup tables of the iq formats.\n\n// clang-format off\n"
    OUT.write_text(
        head + "\n".join(table(name, quant) for name, quant in TABLES.items()) + "// clang-format on\n"
    )
