"""How fast GPT-2 generates: PyCandle with weights in several formats beside torch with its own cache, in turns.

    PYTHONPATH=python python benchmarks/decoding.py --threads 1,2

Each runner has a process of its own, which loads once and then runs when it is told to. A round asks every runner for every
task, so that all of them see the same moments of the machine; what counts is the ratio within a run. Tokens are the most
likely ones, and f32 runners must agree on them. Run by `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZES = {
    "124m": {},
    "tiny": {
        "n_layer": 2,
        "n_embd": 64,
        "n_head": 4,
        "vocab_size": 211,
        "n_positions": 128,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
}
FORMATS = ("f32", "bf16", "int8", "int4")
RUNNERS = ("torch", *FORMATS)
TASKS = ("decode", "prefill")
ROOT = Path(__file__).parents[1]


def gpt2(size: str):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(**SIZES[size], use_cache=False)).eval()


def recorded(folder: Path, size: str) -> Path:
    """The recording that PyCandle decodes with; made once."""
    if not (folder / "gpt2_manifest.json").exists():
        import torch

        from pycandle import GoldenRecorder

        model = gpt2(size)
        recorder = GoldenRecorder(output_dir=folder)
        recorder.record(model, torch.randint(0, model.config.vocab_size, (2, 9)))
        recorder.save("gpt2")
    return folder


def prompt_of(size: str, length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, SIZES[size].get("vocab_size", 50257), (1, length))


# ---- what runs in the processes of the runners

Step = Callable[[np.ndarray], int]  # runs tokens [1, new] behind those before, and gives the next one


def pycandle_runner(weights: str, options: argparse.Namespace) -> Callable[[], Step]:
    import pycandle

    decoder = pycandle.load_decoder(options.folder, threads=options.threads, weights=weights)

    def begun() -> Step:
        cache = decoder.new_cache(capacity=options.prompt + options.tokens + options.prefill)

        def step(tokens: np.ndarray) -> int:
            return int(decoder.step(cache, tokens, last=True)["output.logits"][0, -1].argmax())

        return step

    return begun


def torch_runner(options: argparse.Namespace) -> Callable[[], Step]:
    import torch

    torch.set_num_threads(options.threads)
    model = gpt2(options.size)

    def begun() -> Step:
        past = None

        def step(tokens: np.ndarray) -> int:
            nonlocal past
            with torch.inference_mode():
                out = model(torch.from_numpy(tokens), past_key_values=past, use_cache=True, logits_to_keep=1)
            past = out.past_key_values
            return int(out.logits[0, -1].argmax())

        return step

    return begun


def worker(options: argparse.Namespace) -> None:
    runner = options.worker
    begun = torch_runner(options) if runner == "torch" else pycandle_runner(runner, options)
    prompt, long_prompt = prompt_of(options.size, options.prompt), prompt_of(options.size, options.prefill)
    print("ready", flush=True)
    for line in sys.stdin:
        step = begun()
        if line.strip() == "prefill":
            start = time.perf_counter()
            tokens = [step(long_prompt)]
        else:
            tokens = [step(prompt)]
            start = time.perf_counter()
            for _ in range(options.tokens):
                tokens.append(step(np.array([tokens[-1:]])))
        print(json.dumps({"seconds": time.perf_counter() - start, "tokens": tokens}), flush=True)


# ---- what asks them


class Runner:
    def __init__(self, name: str, threads: int, options: argparse.Namespace) -> None:
        self.name = name
        command = [sys.executable, __file__, "--worker", name, "--threads", str(threads)]
        command += ["--size", options.size, "--folder", str(options.folder)]
        for task in ("prompt", "tokens", "prefill"):
            command += [f"--{task}", str(getattr(options, task))]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        if self._line() != "ready":
            raise SystemExit(f"{name} did not start")

    def _line(self) -> str:
        return self._process.stdout.readline().strip()

    def run(self, task: str) -> dict:
        self._process.stdin.write(task + "\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def measured(threads: int, options: argparse.Namespace) -> list[dict]:
    runners = [Runner(name, threads, options) for name in options.runners]
    times = {(runner.name, task): [] for runner in runners for task in TASKS}
    for round_number in range(options.rounds + 1):
        for task in TASKS:
            tokens = {}
            for runner in runners:
                answer = runner.run(task)
                tokens[runner.name] = answer["tokens"]
                if round_number > 0:  # the first one packs weights and fills caches
                    times[runner.name, task].append(answer["seconds"])
            exact = [tokens[name] for name in ("torch", "f32") if name in tokens]
            if any(other != exact[0] for other in exact[1:]):
                raise SystemExit(f"{task}: torch and f32 do not give the same tokens")
    for runner in runners:
        runner.close()
    counts = {"decode": options.tokens, "prefill": options.prefill}
    return [
        {
            "task": task,
            "runner": "torch f32" if name == "torch" else f"pycandle {name}",
            "threads": threads,
            "tokens_per_second": counts[task] / statistics.median(found),
        }
        for (name, task), found in times.items()
    ]


def table(rows: list[dict]) -> str:
    lines = ["| task | threads | runner | tokens a second | beside torch |", "|---|---:|---|---:|---:|"]
    of_torch = {(r["task"], r["threads"]): r["tokens_per_second"] for r in rows if r["runner"] == "torch f32"}
    for row in sorted(rows, key=lambda r: (r["task"], r["threads"])):
        base = of_torch.get((row["task"], row["threads"]))
        ratio = f"{row['tokens_per_second'] / base:.2f} ×" if base else ""
        lines.append(
            f"| {row['task']} | {row['threads']} | {row['runner']} | {row['tokens_per_second']:.1f} | {ratio} |"
        )
    return "\n".join(lines)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="124m")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--runners", type=lambda text: text.split(","), default=list(RUNNERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=16, help="tokens before those that are decoded")
    parser.add_argument("--tokens", type=int, default=64, help="that are decoded")
    parser.add_argument("--prefill", type=int, default=128, help="tokens of the long prompt")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/bench/files/gpt2-decoding")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/decoding.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        options.threads = options.threads[0]
        worker(options)
        return
    if unknown := [name for name in options.runners if name not in RUNNERS]:
        parser.error(f"{', '.join(unknown)}? there are {', '.join(RUNNERS)}")
    recorded(options.folder, options.size)
    rows = [row for threads in options.threads for row in measured(threads, options)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(
        json.dumps({"machine": processor(), "size": options.size, "rows": rows}, indent=1) + "\n"
    )
    print(f"GPT-2 {options.size} on {processor()}\n{table(rows)}")


if __name__ == "__main__":
    main()
