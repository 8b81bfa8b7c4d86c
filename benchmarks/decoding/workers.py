"""A runner in a process of its own: python -m decoding.workers <runner> --shape … --folder … --threads n.

It loads once and says "ready". Each line that it reads is {"prompt": [tokens], "tokens": n}; it answers {"seconds", "tokens"}: of the
n tokens behind the prompt, or of the prompt itself when n is 0. candle's runner (benchmarks/candle) does the same.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import shapes

Step = Callable[[list[int]], int]  # runs tokens behind those before, and gives the next one
CAPACITY = 640  # the longest prompt, and what is decoded


def pycandle_runner(kind: str, options: argparse.Namespace) -> Callable[[], Step]:
    import pycandle

    decoder = pycandle.load_decoder(options.folder, threads=options.threads, weights=kind)
    longest = shapes.SHAPES[options.shape].config.get("n_positions", CAPACITY)

    def begun() -> Step:
        cache = decoder.new_cache(capacity=min(CAPACITY, longest))

        def step(tokens: list[int]) -> int:
            return int(decoder.step(cache, np.array([tokens]), last=True)["output.logits"][0, -1].argmax())

        return step

    return begun


def torch_runner(kind: str, options: argparse.Namespace) -> Callable[[], Step]:
    import torch

    torch.set_num_threads(options.threads)
    model = shapes.torch_model(shapes.SHAPES[options.shape])

    def begun() -> Step:
        past = None

        def step(tokens: list[int]) -> int:
            nonlocal past
            with torch.inference_mode():
                out = model(torch.tensor([tokens]), past_key_values=past, use_cache=True, logits_to_keep=1)
            past = out.past_key_values
            return int(out.logits[0, -1].argmax())

        return step

    return begun


def llama_runner(kind: str, options: argparse.Namespace) -> Callable[[], Step]:
    import llama_cpp as lib

    silent = lib.llama_log_callback(lambda *_: None)  # as long as the runner: C keeps the pointer alone
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    settings = lib.llama_model_default_params()
    settings.n_gpu_layers = 0
    file = shapes.gguf(options.folder, shapes.SHAPES[options.shape], kind)
    model = lib.llama_model_load_from_file(str(file).encode(), settings)
    context_settings = lib.llama_context_default_params()
    context_settings.n_ctx = context_settings.n_batch = context_settings.n_ubatch = CAPACITY
    context_settings.n_threads = context_settings.n_threads_batch = options.threads
    context_settings.type_k = context_settings.type_v = 0  # f32, as everybody
    context = lib.llama_init_from_model(model, context_settings)
    if not context:
        raise SystemExit(f"llama.cpp does not load {file}")
    width = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))

    def begun(_kept: object = silent) -> Step:
        lib.llama_memory_clear(lib.llama_get_memory(context), False)

        def step(tokens: list[int]) -> int:
            ids = (ctypes.c_int32 * len(tokens))(*tokens)
            if lib.llama_decode(context, lib.llama_batch_get_one(ids, len(tokens))) != 0:
                raise RuntimeError("llama_decode failed")
            return int(np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (width,)).argmax())

        return step

    return begun


RUNNERS = {"pycandle": pycandle_runner, "torch": torch_runner, "llama.cpp": llama_runner}


def answer(begun: Callable[[], Step], prompt: list[int], count: int) -> dict:
    step = begun()
    start = time.perf_counter()
    tokens = [step(prompt)]
    if count > 0:
        start = time.perf_counter()
        for _ in range(count):
            tokens.append(step(tokens[-1:]))
    return {"seconds": time.perf_counter() - start, "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runner")
    parser.add_argument("--shape", choices=shapes.SHAPES, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    name, kind = options.runner.split()
    begun = RUNNERS[name](kind, options)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        print(json.dumps(answer(begun, wanted["prompt"], wanted["tokens"])), flush=True)


if __name__ == "__main__":
    main()
