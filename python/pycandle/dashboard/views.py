"""What the dashboard shows, as text: the same for the screens and for --once."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from . import heat
from .results import Layer, Result, mark, style

BARS = "▁▂▃▄▅▆▇█"


def state(result: Result) -> Text:
    """One line: what is judged, how far it is, the verdict so far."""
    header = result.header
    if not header:
        return Text("waiting for a result", style="dim")
    line = Text.assemble((str(header.get("name", "?")), "bold"), f" · {header.get('backend', '?')} · ")
    planned = result.planned
    wrong = sum(layer.is_wrong for layer in result.layers)
    if result.complete:
        status = str(result.complete.get("status", "?"))
        line.append(f"{len(result.layers)} layers · ")
        line.append(status, style="bold green" if status == "passed" else "bold red")
    else:
        line.append(f"{len(result.layers)}" + (f" of {planned}" if planned else "") + " layers so far")
        if planned:
            line.append(f" · {bar(len(result.layers) / planned, 12)}")
        if (left := result.seconds_left()) is not None:
            line.append(f" · about {duration(left)} left")
    if wrong:
        line.append(f" · {wrong} wrong", style="bold red")
    if result.bad_lines:
        line.append(f" · {result.bad_lines} lines that are no result", style="yellow")
    return line


def duration(seconds: float) -> str:
    """As the command line says it: 9 s, 3 min 20 s, 1 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
    )


def bar(share: float, width: int) -> str:
    filled = round(min(max(share, 0.0), 1.0) * width)
    return "█" * filled + "░" * (width - filled)


def counts(result: Result) -> Text:
    line = Text()
    for verdict, count in result.counts().items():
        share = 100 * count / len(result.layers)
        line.append(f"{mark(verdict)} {count} {verdict}", style=style(verdict))
        line.append(f" {share:.0f} %   ", style="dim")
    if result.skipped:
        line.append(f"· {len(result.skipped)} not judged", style="dim")
    return line


def drift(layers: list[Layer], width: int) -> Text:
    """Errors in rounding floors along the depth, on a log scale; a column is the worst of its layers."""
    line = Text()
    if not layers or width <= 0:
        return line
    columns = min(width, len(layers))
    for column in range(columns):
        part = layers[column * len(layers) // columns : (column + 1) * len(layers) // columns]
        worst = max(part, key=lambda layer: (layer.is_wrong, layer.floors))
        # From a hundredth of a floor to a million.
        floors = min(max(worst.floors, 1e-2), 1e6) if not math.isnan(worst.floors) else 1e6
        height = (math.log10(floors) + 2) / 8
        line.append(BARS[min(int(height * len(BARS)), len(BARS) - 1)], style=style(worst.verdict))
    return line


def milliseconds(value: float) -> str:
    return f"{value:.3f} ms" if value >= 0.1 else f"{1000 * value:.1f} µs"


def ending(text: str, room: int) -> str:
    """A path says most at its end."""
    return text if len(text) <= room else "…" + text[1 - room :]


def short(number: float) -> str:
    return "0" if number == 0 else f"{number:.1e}" if math.isfinite(number) else str(number)


def floors_text(layer: Layer) -> str:
    return (
        "exact"
        if layer.verdict == "exact"
        else f"{layer.floors:,.2f}"
        if layer.floors < 1e4
        else short(layer.floors)
    )


def details(layer: Layer, coloured: bool = True) -> Text:
    """All that the result says of one layer."""
    facts = layer.facts
    text = Text()

    def line(name: str, value: object, look: str = "") -> None:
        if value not in (None, "", []):
            text.append(f"{name:<10}", style="dim")
            text.append(f"{value}\n", style=look)

    text.append(f"{mark(layer.verdict)} {layer.verdict}: ", style=style(layer.verdict))
    text.append(f"{layer.tap} ({facts.get('op', '')})\n", style="bold")
    cause = facts.get("diagnosis") or {}
    line("cause", cause.get("cause"), "bold red")
    line("python", f"{facts.get('python', '')}:  {facts.get('source', '')}" if facts.get("python") else "")
    line("c++", f"{facts['cpp']}:  {facts.get('cpp_source', '')}" if facts.get("cpp") else "")
    line("value", f"{facts.get('dtype', '')}{facts.get('shape', '')}")
    line("input", facts.get("input"))
    line("why", facts.get("why"))
    line("op", " ".join(str(cause[key]) for key in ("op", "python") if cause.get(key)))
    line(
        "error",
        f"rms {short(layer.number('error_rms'))}, floor {short(layer.number('floor_rms'))}: {floors_text(layer)}",
    )
    line(
        "most",
        f"{short(layer.number('max_abs'))} at {facts['largest_difference']}"
        if facts.get("largest_difference")
        else "",
    )
    whole = facts.get("cumulative")
    line("whole run", f"rms {short(Layer(whole).number('rms'))}" if isinstance(whole, dict) else "")
    line("decisions", facts.get("decisions"))
    line("errors", errors(facts.get("errors")))
    text.append_text(heat.picture(facts, coloured))
    if facts.get("ulps") and layer.verdict != "exact":
        text.append_text(ulps(facts["ulps"]))
    return text


def errors(found: object) -> str:
    """How many elements differ by which power of ten, in one line of bars."""
    counts = found.get("counts") if isinstance(found, dict) else None
    if not isinstance(counts, list) or not counts or not all(isinstance(count, int) for count in counts):
        return ""
    most = max(counts) or 1
    drawn = "".join(BARS[min(int(count / most * 8), 7)] if count else " " for count in counts)
    first = found.get("first")
    if not isinstance(first, int):
        return ""
    return f"1e{first} {drawn} 1e{first + len(counts)}"


def ulps(buckets: list[int]) -> Text:
    """How many elements are 0, 1, 2–3, 4–7, … units in the last place apart."""
    most = max(buckets) or 1
    text = Text("units in the last place\n", style="dim")
    for place, count in enumerate(buckets):
        if count:
            low = 0 if place == 0 else 2 ** (place - 1)
            name = (
                str(low) if place < 2 else f"{low}–{2 * low - 1}" if place + 1 < len(buckets) else f"{low}+"
            )
            text.append(f"{name:>9} {bar(count / most, 24)} {count:,}\n")
    return text


def layer_table(layers: Iterable[Layer]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "layer", "op", "floors", "python"):
        table.add_column(
            name, overflow="ellipsis", no_wrap=True, justify="right" if name == "floors" else "left"
        )
    for layer in layers:
        where = str(layer.facts.get("python", "")).rsplit("/", 1)[-1]
        table.add_row(
            Text(mark(layer.verdict), style=style(layer.verdict)),
            Text(layer.tap),
            Text(str(layer.facts.get("op", ""))),
            floors_text(layer),
            Text(where),
        )
    return table
