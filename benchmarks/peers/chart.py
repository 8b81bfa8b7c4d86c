"""The times of a run as an SVG picture: a bar for each runner, as long as its time is a multiple of PyCandle's."""

from __future__ import annotations

from html import escape

COLOURS = {
    "pycandle": "#d9480f",
    "openvino": "#1971c2",
    "onnxruntime": "#2f9e44",
    "torch-compile": "#e8890c",
    "torch": "#f2b134",
    "candle": "#868e96",
    "llama.cpp": "#9c36b5",
}
_BAR, _GAP, _LEFT, _WIDTH, _MOST = 12, 16, 190, 900, 4.0


def milliseconds(ms: float) -> str:
    """Three digits, and no exponents: 1,070 and 8.95."""
    rounded = float(f"{ms:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def svg(rows: list[dict], titles: dict[str, str], threads: int) -> str:
    """Bars longer than four times ours are cut, and say so by their number."""
    parts: list[str] = []
    y = 34
    scale = (_WIDTH - _LEFT - 130) / _MOST
    for model, title in titles.items():
        found = [r for r in rows if (r["model"], r["threads"]) == (model, threads) and "failed" not in r]
        ours = next((r["median_ms"] for r in found if r["runner"] == "pycandle"), None)
        if ours is None:
            continue
        parts.append(_text(_LEFT - 12, y + _BAR * len(found) / 2 + 4, title, "end", "bold"))
        for row in sorted(found, key=lambda r: r["median_ms"]):
            ratio = row["median_ms"] / ours
            width = min(ratio, _MOST) * scale
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{COLOURS[row["runner"]]}"/>'
            )
            label = f"{row['runner']} {milliseconds(row['median_ms'])} ms" + (
                "" if ratio <= _MOST else f" ({ratio:.1f} ×)"
            )
            parts.append(_text(_LEFT + width + 6, y + _BAR - 3, label))
            y += _BAR
        y += _GAP
    heading = (
        f"Time of one run, {threads} thread{'s' if threads > 1 else ''}, f32, batch 1 (shorter is better)"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" font-family="sans-serif" font-size="10">\n'
        f'<rect width="{_WIDTH}" height="{y}" fill="white"/>\n'
        + _text(_LEFT, 20, heading, "start", "bold")
        + "\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
    )
