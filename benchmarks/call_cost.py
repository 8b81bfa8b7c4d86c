"""What a call of a compiled model costs outside its kernels.

GPT-2 with all its layers and hardly any numbers in them: what is left of a call is the walk over the plan, the pointers
that are filled in, and the threads that are not woken. Below 50 µs.

    .venv/bin/python benchmarks/call_cost.py
    .venv/bin/python benchmarks/call_cost.py --layers 48 --json
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pycandle

PROGRAM = Path(sys.executable).with_name("pycandle")


def recorded_gpt2(folder, layers):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=16,
        n_positions=16,
        n_embd=8,
        n_head=2,
        n_layer=layers,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    torch.manual_seed(0)
    recorder = pycandle.GoldenRecorder(folder, taps="none")
    recorder.record(GPT2LMHeadModel(config).eval(), input_ids=torch.randint(0, 16, (1, 4)))
    return recorder.save("gpt2").manifest


def measured(folder, layers, seconds=1.0):
    manifest = recorded_gpt2(folder, layers)

    def ask(*arguments):
        command = [PROGRAM, *map(str, arguments), "--backend", "cpu", "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    profile = ask("forward", manifest, "--profile", "--threads", 1)["profile"]
    rows = ask("bench", manifest, "--threads", "1,2", "--seconds", seconds)["rows"]
    return {
        "layers": layers,
        "steps": sum(row["steps"] for row in profile["kernels"]),
        "microseconds": {row["threads"]: row["median_ms"] * 1e3 for row in rows},
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(folder, options.layers)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for threads, microseconds in found["microseconds"].items():
        print(f"{found['steps']} steps, {threads} threads: {microseconds:.0f} µs a call")


if __name__ == "__main__":
    main()
