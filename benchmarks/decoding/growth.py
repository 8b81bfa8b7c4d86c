"""What a long cache costs: the time of a token behind more and more others, beside the time that reading their rows takes.

    PYTHONPATH=python:benchmarks python -m decoding.growth

GPT-2 124M with room for 4,160 positions, batch 1, f32. Lengths take turns, and so does the loop that reads memory. Writes
docs/images/decoding-growth.svg and build/bench/growth.json; run by `make bench`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from peers import roofline

from . import shapes

LENGTHS = (16, 512, 1024, 2048, 3072, 4096)
STEPS = 8  # at each length, in each round
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 320, 60, 40


def measured(
    folder: Path, shape: shapes.Shape, lengths: tuple[int, ...], threads: int, rounds: int, limits: bool
) -> dict:
    import pycandle

    decoder = pycandle.load_decoder(shapes.recorded(folder, shape), threads=threads)
    capacity = lengths[-1] + (rounds + 1) * STEPS
    whole = decoder.new_cache(capacity=capacity)
    tokens = shapes.tokens_of(shape, lengths[-1])
    for begin in range(0, len(tokens), 512):
        decoder.step(whole, np.array([tokens[begin : begin + 512]]), last=True)
    caches = {}
    for length in lengths:
        caches[length] = whole.fork([0])
        caches[length].truncate(0, length)
    times, bandwidths = {length: [] for length in lengths}, []
    for number in range(rounds + 1):
        for length, cache in caches.items():
            start = time.perf_counter()
            for _ in range(STEPS):
                decoder.step(cache, np.array([[tokens[0]]]), last=True)
            if number > 0:
                times[length].append((time.perf_counter() - start) / STEPS)
        if limits:
            bandwidths.append(roofline.measured(threads, "no kernel")["read_huge_gbs"])
    row_bytes = whole.bytes // capacity
    gbs = statistics.median(bandwidths) if bandwidths else None
    start = statistics.median(times[lengths[0]])
    return {
        "threads": threads,
        "read_gbs": gbs,
        "bytes_of_a_token": row_bytes,
        "rows": [
            {
                "length": length,
                "ms": 1e3 * statistics.median(times[length]),
                "at_most_ms": 1e3 * (start + (length - lengths[0]) * row_bytes / (gbs * 1e9))
                if gbs
                else None,
            }
            for length in lengths
        ],
    }


def svg(found: dict, title: str) -> str:
    """Two lines: the time of a token, and that of the shortest cache plus reading the rows."""
    rows = found["rows"]
    most = 1.1 * max(max(row["ms"], row["at_most_ms"] or 0) for row in rows)
    longest = rows[-1]["length"]

    def at(length: float, ms: float) -> str:
        x = _LEFT + (_WIDTH - _LEFT - 20) * length / longest
        return f"{x:.1f},{_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 40) * ms / most:.1f}"

    def line(key: str, colour: str) -> str:
        points = " ".join(at(row["length"], row[key]) for row in rows if row[key] is not None)
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'

    def text(x: float, y: float, words: str, anchor: str = "start", colour: str = "black") -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        text(_LEFT, 16, f"{title}: milliseconds a token, by tokens in the cache"),
        text(_LEFT, 31, "measured", colour="#d9480f"),
        text(
            _LEFT + 60,
            31,
            "the first, and reading the rows at the bandwidth of the same run",
            colour="#1971c2",
        ),
        f'<polyline points="{at(0, most)} {at(0, 0)} {at(longest, 0)}" fill="none" stroke="black"/>',
    ]
    for row in rows:
        x, y = at(row["length"], 0).split(",")
        parts.append(text(float(x), float(y) + 16, f"{row['length']:,}", "middle"))
    for share in (0.25, 0.5, 0.75):
        x, y = at(0, most * share).split(",")
        parts.append(text(float(x) - 6, float(y) + 4, f"{most * share:.1f}", "end"))
    return "\n".join([*parts, line("at_most_ms", "#1971c2"), line("ms", "#d9480f"), "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--lengths", type=lambda text: tuple(int(n) for n in text.split(",")), default=LENGTHS
    )
    parser.add_argument("--shape", choices=shapes.SHAPES, default="gpt2-long")
    parser.add_argument(
        "--limits", action=argparse.BooleanOptionalAction, default=True, help="measure the memory too"
    )
    parser.add_argument("--files", type=Path, default=shapes.ROOT / "build/bench/files/decoding")
    parser.add_argument("--out", type=Path, default=shapes.ROOT / "build/bench/growth.json")
    parser.add_argument("--picture", type=Path, help="such as docs/images/decoding-growth.svg")
    options = parser.parse_args()
    if options.limits:
        roofline.built()
    shape = shapes.SHAPES[options.shape]
    found = measured(
        options.files / options.shape, shape, options.lengths, options.threads, options.rounds, options.limits
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    for row in found["rows"]:
        limit = "" if row["at_most_ms"] is None else f", reading the rows allows {row['at_most_ms']:.2f}"
        print(f"{row['length']:>6,} tokens: {row['ms']:.2f} ms a token{limit}")
    if options.picture:
        options.picture.write_text(svg(found, shape.title))
    return 0


if __name__ == "__main__":
    sys.exit(main())
