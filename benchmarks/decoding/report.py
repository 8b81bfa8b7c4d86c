"""A run as the generated part of docs/decoding-speed.md."""

from __future__ import annotations

import datetime
from pathlib import Path

from .shapes import SHAPES

BEGIN, END = "<!-- written by make bench -->", "<!-- until here -->"


def table(rows: list[dict]) -> str:
    """Tokens a second: a line for each runner, a column for each task and number of threads."""
    columns = sorted({(r["shape"], r["task"], r["threads"]) for r in rows}, key=lambda c: (c[0], c[2], c[1]))
    names = list(dict.fromkeys(r["runner"] for r in rows))
    rates = {(r["runner"], r["shape"], r["task"], r["threads"]): r["tokens_per_second"] for r in rows}
    head = [f"{task}, {threads} thread{'s' if threads > 1 else ''}" for _, task, threads in columns]
    lines = [f"| {SHAPES[columns[0][0]].title} | {' | '.join(head)} |", "|---|" + "---:|" * len(columns)]
    for name in names:
        cells = [rates.get((name, *column)) for column in columns]
        lines.append(f"| {name} | {' | '.join('' if c is None else _digits(c) for c in cells)} |")
    return "\n".join(lines)


def _digits(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def aims_table(aims: list[dict]) -> str:
    lines = [
        "| model | task | weights | threads | PyCandle | at least | of the read bandwidth | holds |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    for aim in aims:
        limit = "" if aim["of_bandwidth"] is None else f"{100 * aim['of_bandwidth']:.0f} %"
        lines.append(
            f"| {SHAPES[aim['shape']].title} | {aim['task']} | {aim['kind']} | {aim['threads']} "
            f"| {aim['ratio']:.2f} × {aim['peer']} | {aim['at_least']:.2f} | {limit} | {'yes' if aim['holds'] else '**no**'} |"
        )
    return "\n".join(lines)


def markdown(results: dict) -> str:
    limits = "; ".join(
        f"{threads} thread{'s' if int(threads) > 1 else ''}: {gbs:.0f} GB/s"
        for threads, gbs in results["read_gbs"].items()
        if gbs
    )
    parts = [
        f"{datetime.date.today()}, {results['machine']}. Tokens a second; memory was read with {limits}."
    ]
    for shape in dict.fromkeys(r["shape"] for r in results["rows"]):
        parts.append(table([r for r in results["rows"] if r["shape"] == shape]))
    return "\n\n".join([*parts, aims_table(results["aims"])]) + "\n"


def put_into(page: Path, results: dict) -> None:
    before, rest = page.read_text().split(BEGIN, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{BEGIN}\n{markdown(results)}{END}{after}")
