"""Options that several functions check."""

from __future__ import annotations

WEIGHT_FORMATS = ("f32", "bf16", "f16", "int8", "int4")


def check_threads(threads: int | None) -> None:
    if threads is not None and not 1 <= threads <= 1024:
        raise ValueError(f"threads must be a number from 1 to 1024, not {threads}")


def check_weight_format(weights: str) -> None:
    if weights not in WEIGHT_FORMATS:
        raise ValueError(f"weights must be one of {', '.join(WEIGHT_FORMATS)}, not {weights!r}")
