"""Where a layer's value differs, in the colours of the report's page."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

# As src/verify/judging/difference.cpp has them.
STOPS = ((59, 15, 112), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191))
NOTHING, MISSING = (24, 24, 27), (0, 190, 255)
SHADES = ".:-=+*#%@"


def colour(cell: str) -> tuple[int, int, int]:
    if cell == ".":
        return NOTHING
    if not "a" <= cell <= "z":
        return MISSING
    at = (ord(cell) - ord("a")) / 25 * (len(STOPS) - 1)
    place = min(int(at), len(STOPS) - 2)
    first, second = STOPS[place], STOPS[place + 1]
    return tuple(round(a + (b - a) * (at - place)) for a, b in zip(first, second, strict=True))


def picture(facts: dict, coloured: bool) -> Text:
    """The picture of a result's layer: two rows a line in half blocks, or one in shades where there are no colours."""
    found = facts.get("picture")
    rows = _rows(found) if isinstance(found, dict) else []
    if not rows:
        return Text()
    largest = found.get("largest")
    size = f" up to {largest:.2g}" if isinstance(largest, int | float) else ""
    text = Text(f"differences{size}, the last axis across\n", style="dim")
    if not coloured:
        for row in rows:
            text.append(f"|{''.join(map(_shade, row))}|\n")
        return text
    for upper, lower in zip(rows[::2], [*rows[1::2], None][: (len(rows) + 1) // 2], strict=True):
        for place, cell in enumerate(upper):
            below = _css(lower[place]) if lower else None
            text.append("▀", Style(color=_css(cell), bgcolor=below))
        text.append("\n")
    return text


def _rows(found: dict) -> list[str]:
    rows, columns, cells = found.get("rows"), found.get("columns"), found.get("cells")
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(cells, str)):
        return []
    if rows < 1 or columns < 1 or len(cells) != rows * columns:
        return []
    return [cells[row * columns : (row + 1) * columns] for row in range(rows)]


def _css(cell: str) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour(cell))


def _shade(cell: str) -> str:
    if cell == ".":
        return " "
    return SHADES[(ord(cell) - ord("a")) * len(SHADES) // 26] if "a" <= cell <= "z" else "!"
