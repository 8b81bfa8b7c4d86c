"""What PyCandle's tokens a second must be beside the best peer that keeps weights in as many bytes, in the same run."""

from __future__ import annotations

from dataclasses import dataclass

BYTES = {"f32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5625}  # of a weight
NEAR_THE_LIMIT = 0.9  # of the read bandwidth: an aim of decoding holds there too


@dataclass(frozen=True)
class Aim:
    shape: str
    task: str
    kind: str  # of PyCandle's weights
    peers: tuple[str, ...]
    at_least: dict[int, float]  # by threads


_F32 = ("torch f32", "llama.cpp f32", "candle f32")
_BF16, _Q8, _Q4 = ("llama.cpp bf16",), ("llama.cpp q8_0",), ("llama.cpp q4_0",)
AIMS = [
    Aim("gpt2-124m", "decode", "f32", _F32, {1: 1.3, 2: 1.1}),
    Aim("gpt2-124m", "decode", "bf16", _BF16, {1: 1.35, 2: 1.15}),
    Aim("gpt2-124m", "decode", "int8", _Q8, {1: 1.8, 2: 1.4}),
    Aim("gpt2-124m", "decode", "int4", _Q4, {1: 1.2, 2: 1.2}),
    Aim("gpt2-124m", "prefill 128", "bf16", _BF16, {1: 1.4, 2: 1.4}),
    Aim("gpt2-124m", "prefill 512", "bf16", _BF16, {1: 1.4, 2: 1.4}),
    *(
        Aim("llama-1b", task, kind, peers, {1: 1.0, 2: 1.0})
        for task in ("decode", "prefill 128")
        for kind, peers in (("bf16", _BF16), ("int4", _Q4))
    ),
]


def judged(rows: list[dict], read_gbs: dict[int, float]) -> list[dict]:
    """An entry for each aim whose runners are all among the rows. read_gbs: by threads, measured in the same run."""
    found = []
    rates = {(r["shape"], r["task"], r["threads"], r["runner"]): r for r in rows}
    for aim in AIMS:
        for threads, at_least in aim.at_least.items():
            ours = rates.get((aim.shape, aim.task, threads, f"pycandle {aim.kind}"))
            theirs = [rates[key] for p in aim.peers if (key := (aim.shape, aim.task, threads, p)) in rates]
            if ours is None or not theirs:
                continue
            best = max(theirs, key=lambda row: row["tokens_per_second"])
            ratio = ours["tokens_per_second"] / best["tokens_per_second"]
            limit = None
            if aim.task == "decode" and threads in read_gbs:
                bytes_read = ours["weights"] * BYTES[aim.kind]
                limit = ours["tokens_per_second"] * bytes_read / (read_gbs[threads] * 1e9)
            found.append(
                {
                    "shape": aim.shape,
                    "task": aim.task,
                    "kind": aim.kind,
                    "threads": threads,
                    "peer": best["runner"],
                    "ratio": ratio,
                    "at_least": at_least,
                    "of_bandwidth": limit,
                    "holds": ratio >= at_least or (limit or 0) >= NEAR_THE_LIMIT,
                }
            )
    return found
