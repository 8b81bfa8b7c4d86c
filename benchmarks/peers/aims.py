"""What PyCandle's times must be, as ratios of times within one run. Lower is better; the aim is the most allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Aim:
    model: str
    best_of: tuple[str, ...]  # the quickest of these
    at_most: float
    column: str = "median_ms"


_ALL = ("torch", "torch-compile", "onnxruntime", "openvino", "candle")
AIMS = [
    Aim("vit-b16", ("openvino",), 0.97),
    Aim("minilm", ("openvino",), 0.95),
    Aim("lstm", ("onnxruntime",), 0.9),
    *(Aim(gpt2, ("torch", "llama.cpp"), 1 / 1.3) for gpt2 in ("gpt2-128", "gpt2-512")),
    *(Aim(gpt2, ("onnxruntime", "openvino"), 1.0) for gpt2 in ("gpt2-128", "gpt2-512")),
    Aim("resnet34", _ALL, 0.6),
    Aim("mobilenetv2", _ALL, 0.85),
    Aim("convnext-tiny", _ALL, 0.9),
    Aim("resnet34-32", ("openvino",), 1 / 1.3),
    *(Aim(model, ("openvino",), 0.5, "first_ms") for model in ("vit-b16", "minilm", "gpt2-128", "resnet34")),
]


def judged(rows: list[dict]) -> list[dict]:
    """An entry for each aim and number of threads whose runners are all among the rows."""
    found = []
    times = {(r["model"], r["threads"], r["runner"]): r for r in rows if "failed" not in r}
    for aim in AIMS:
        for threads in sorted({r["threads"] for r in rows}):
            ours = times.get((aim.model, threads, "pycandle"))
            theirs = [times[aim.model, threads, p] for p in aim.best_of if (aim.model, threads, p) in times]
            if ours is None or not theirs:
                continue
            quickest = min(theirs, key=lambda row: row[aim.column])
            ratio = ours[aim.column] / quickest[aim.column]
            found.append(
                {
                    "model": aim.model,
                    "threads": threads,
                    "column": aim.column,
                    "peer": quickest["runner"],
                    "ratio": ratio,
                    "at_most": aim.at_most,
                    "holds": ratio <= aim.at_most,
                }
            )
    return found
