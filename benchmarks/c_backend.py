"""Emitted C beside emx-onnx-cgen's (PyPI): the same models, compiler, flags and inputs, one thread, in one run.

usage: c_backend.py [--emx PYTHON | --beside-cpu] [--models resnet8,ds_cnn,…] [--seconds 1]

PYTHON is an interpreter that has the package emx-onnx-cgen (by default this one). A model that it does not compile is listed.
--beside-cpu: instead of that, ours compiled without -march beside the cpu backend with its portable kernels.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

PYCANDLE = Path(os.environ.get("PYCANDLE_PROGRAM", Path(sys.executable).with_name("pycandle")))


def conv(a: int, b: int, kernel, stride=1, padding=0, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(a, b, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU()
    )


class Block(nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.one = conv(a, b, 3, stride, 1)
        self.two, self.norm = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.short = nn.Conv2d(a, b, 1, stride, bias=False) if stride != 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.two(self.one(x))) + self.short(x))


def resnet8():
    layers = [conv(3, 16, 3, 1, 1), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), torch.randn(
        1, 3, 32, 32
    )


def ds_cnn():
    layers = [conv(1, 64, (10, 4), 2, (5, 1))]
    for _ in range(4):
        layers += [conv(64, 64, 3, 1, 1, 64), conv(64, 64, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12)), torch.randn(
        1, 1, 49, 10
    )


def mobilenet_025():
    widths = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]
    widths += [(128, 128, 1)] * 5 + [(128, 256, 2), (256, 256, 1)]
    layers = [conv(3, 8, 3, 2, 1)]
    for a, b, stride in widths:
        layers += [conv(a, a, 3, stride, 1, a), conv(a, b, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2)), torch.randn(
        1, 3, 96, 96
    )


def autoencoder():
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640)), torch.randn(1, 640)


def resnet34():
    import torchvision

    return torchvision.models.resnet34(weights=None), torch.randn(1, 3, 224, 224)


class First(nn.Module):
    """The first output alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(ids, attention_mask=torch.ones_like(ids), return_dict=False)[0]


def minilm():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    return First(BertModel(config)), torch.randint(0, 30522, (1, 64))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return First(GPT2LMHeadModel(GPT2Config(use_cache=False))), torch.randint(0, 50257, (1, 64))


MODELS = {f.__name__: f for f in (resnet8, ds_cnn, mobilenet_025, autoencoder, resnet34, minilm, gpt2)}

HARNESS = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <math.h>
%(declaration)s
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
static void *bytes_of(const char *path, size_t n) {
  FILE *f = fopen(path, "rb"); void *p = aligned_alloc(64, (n + 127) / 64 * 64);
  if (!f || !p || fread(p, 1, n, f) != n) exit(3);
  fclose(f); return p;
}
int main(int n, char **words) {
  const double seconds = n > 1 ? atof(words[1]) : 1;
  void *x = bytes_of("input.bin", %(in_bytes)d); float *y = aligned_alloc(64, (%(out_bytes)d + 127) / 64 * 64);
  if (!y) return 3;
  %(init)s
  %(call)s
  double best = 1e9; const double begin = now();
  do { const double a = now(); %(call)s const double took = now() - a; if (took < best) best = took; } while (now() - begin < seconds);
  FILE *f = fopen("output.bin", "wb"); fwrite(y, 1, %(out_bytes)d, f); fclose(f);
  printf("%%.9f\n", best);
  return 0;
}
"""

FLAGS = ["-O3", "-w"]
NATIVE = ["-march=native"]


def run(command: list, cwd: Path, timeout: int = 900, **environment: str) -> str:
    words, variables = list(map(str, command)), {**os.environ, **environment}
    done = subprocess.run(
        words, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, env=variables
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout)[-300:])
    return done.stdout


def build(folder: Path, values: dict, sources: list[str], flags: list[str]) -> None:
    (folder / "main.c").write_text(HARNESS % values)
    run(["cc", *FLAGS, *flags, "main.c", *sources, "-lm", "-o", "timed"], folder)


def ours(folder: Path, manifest: Path, sizes: dict, flags: list[str]) -> int:
    folder.mkdir()
    run([PYCANDLE, "codegen", "--manifest", manifest, "--target", "c", "--out", "net.c"], folder)
    header = (folder / "net.h").read_text()
    weights = int(re.search(r"NET_WEIGHT_BYTES (\d+)", header)[1])
    values = {"declaration": '#include "net.h"', "call": "net_run(x, y);"}
    values["init"] = f'if (net_init(bytes_of("net.weights", {weights})) != 0) return 4;'
    build(folder, {**values, **sizes}, ["net.c"], flags)
    return int(re.search(r"NET_ARENA_BYTES (\d+)", header)[1])


WIDTH = {
    "float": 4,
    "double": 8,
    "int64_t": 8,
    "int32_t": 4,
    "int16_t": 2,
    "int8_t": 1,
    "uint8_t": 1,
    "_Bool": 1,
    "bool": 1,
}


def theirs(folder: Path, onnx: Path, sizes: dict, python: str) -> int:
    folder.mkdir()
    run([python, "-m", "emx_onnx_cgen", "compile", onnx, folder / "net.c"], folder)
    text = (folder / "net.c").read_text()
    entry = re.search(r"^void (\w+)\(([^;{]*)\) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    load = re.search(r"^_Bool (\w+_load)\(", text, re.MULTILINE)
    data = list(folder.glob("*.bin"))
    kinds = [part.replace("const", "").split()[0] for part in entry[2].split(",")]
    values = {
        "declaration": f"void {entry[1]}();" + (f"\n_Bool {load[1]}(const char *);" if load else ""),
        "init": f'if (!{load[1]}("{data[0].name}")) return 4;' if load and data else "",
        "call": f"{entry[1]}(({kinds[0]} *)x, y);",
    }
    build(folder, {**values, **sizes}, ["net.c"], NATIVE)
    temporaries = 0
    for kind, dims in re.findall(
        rf"^\s+(?:static )?({'|'.join(WIDTH)}) \w+((?:\[\d+\])+);", entry[3], re.MULTILINE
    ):
        count = 1
        for n in re.findall(r"\d+", dims):
            count *= int(n)
        temporaries += count * WIDTH[kind]
    for kind, dims, rows in re.findall(
        r"(\w+) \(\*\w+\)((?:\[\d+\])*) = malloc\(sizeof\(\*\w+\) \* (\d+)\)", entry[3]
    ):
        count = int(rows)
        for n in re.findall(r"\d+", dims):
            count *= int(n)
        temporaries += count * WIDTH[kind]
    return temporaries


class Case(NamedTuple):
    model: nn.Module
    example: torch.Tensor
    manifest: Path
    wanted: torch.Tensor

    def sizes(self) -> dict:
        return {
            "in_bytes": self.example.numel() * self.example.element_size(),
            "out_bytes": self.wanted.numel() * 4,
        }


def recorded(name: str, folder: Path) -> Case:
    from pycandle import GoldenRecorder

    torch.manual_seed(0)
    model, example = MODELS[name]()
    model.eval()
    recorder = GoldenRecorder(folder / "recording", progress=lambda text: None)
    recorder.record(model, example)
    manifest = recorder.save(name).manifest
    with torch.no_grad():
        return Case(model, example, manifest, model(example))


def time_of(folder: Path, case: Case, seconds: float) -> float:
    (folder / "input.bin").write_bytes(case.example.numpy().tobytes())
    took = float(run(["./timed", seconds], folder))
    y = torch.frombuffer(bytearray((folder / "output.bin").read_bytes()), dtype=torch.float32)
    error = (y - case.wanted.flatten()).abs().max().item() / case.wanted.abs().max().item()
    if not error < 1e-3:
        raise RuntimeError(f"{folder}: wrong by {error}")
    return took


def beside_cpu(name: str, folder: Path, seconds: float) -> str:
    case = recorded(name, folder)
    ours(folder / "ours", case.manifest, case.sizes(), [])
    bench = [
        PYCANDLE,
        "bench",
        case.manifest,
        "--backend",
        "cpu",
        "--threads",
        "1",
        "--seconds",
        seconds,
        "--rounds",
        2,
        "--json",
    ]
    best = {"ours": math.inf, "cpu": math.inf}
    for _ in range(2):
        best["ours"] = min(best["ours"], time_of(folder / "ours", case, seconds))
        found = json.loads(run(bench, folder, PYCANDLE_ISA="portable"))
        best["cpu"] = min(best["cpu"], found["rows"][0]["best_ms"] / 1e3)
    return (
        f"| {name} | {best['ours'] * 1e3:.3f} | {best['cpu'] * 1e3:.3f} | {best['ours'] / best['cpu']:.2f} |"
    )


def measure(name: str, folder: Path, python: str, seconds: float) -> str:
    case = recorded(name, folder)
    arena = ours(folder / "ours", case.manifest, case.sizes(), NATIVE)
    why = ""
    try:
        torch.onnx.export(
            case.model, (case.example,), str(folder / "net.onnx"), dynamo=False, opset_version=17
        )
        temporaries = theirs(folder / "theirs", folder / "net.onnx", case.sizes(), python)
    except (RuntimeError, subprocess.TimeoutExpired, TypeError) as problem:
        why = " ".join(str(problem).split())[-60:]
    times = {}
    for who in ["ours"] if why else ["ours", "theirs", "ours", "theirs"]:
        times[who] = min(time_of(folder / who, case, seconds), times.get(who, math.inf))
    row = f"| {name} | {times['ours'] * 1e3:.3f} | "
    if why:
        return row + f"not compiled: {why} | | {arena / 1024:.0f} | |"
    ratio = times["theirs"] / times["ours"]
    return (
        row + f"{times['theirs'] * 1e3:.3f} | {ratio:.1f} | {arena / 1024:.0f} | {temporaries / 1024:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--emx", default=sys.executable)
    parser.add_argument("--beside-cpu", action="store_true")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.beside_cpu:
        print(
            "| model | without -march, ms | cpu, portable kernels, ms | of its time |\n|---|---:|---:|---:|"
        )
        for name in options.models.split(","):
            with tempfile.TemporaryDirectory() as folder:
                print(beside_cpu(name, Path(folder), options.seconds), flush=True)
        return
    print("| model | ours, ms | emx-onnx-cgen, ms | times faster | our arena, KB | its temporaries, KB |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder), options.emx, options.seconds), flush=True)


if __name__ == "__main__":
    main()
