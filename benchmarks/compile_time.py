"""How long the C++ of a whole model takes to compile: GPT-2 and ViT-B/16 at full size, with the library built before.

Each is recorded with random weights, written with `pycandle codegen`, and its header and main are compiled from clean, on
one core, as a release build does. Printed is processor time: other work on the machine does not count.

    .venv/bin/python benchmarks/compile_time.py
    .venv/bin/python benchmarks/compile_time.py --compiler clang++-16 --json
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pycandle

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).with_name("pycandle")
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include"))


def gpt2():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": torch.randint(0, 50257, (2, 8))}


def vit_b_16():
    import torch
    import torchvision

    return torchvision.models.vit_b_16(), {"x": torch.randn(2, 3, 224, 224)}


MODELS = {"gpt2": gpt2, "vit_b_16": vit_b_16}


def emitted(name, folder):
    """The model as a project in `folder`: the number of lines of its header."""
    import torch

    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    recorder = pycandle.GoldenRecorder(folder / "trace", taps="none")
    recorder.record(model.eval(), **inputs)
    recorder.save(name)
    manifest = folder / "trace" / f"{name}_manifest.json"
    command = [PROGRAM, "codegen", "--manifest", manifest, "--out", folder / "port"]
    subprocess.run(command, check=True, capture_output=True)
    return len((folder / "port" / "src" / "model.hpp").read_text().splitlines())


def seconds_to_compile(project, compiler="g++"):
    """Compiling and linking src/main.cpp, in seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [compiler, *FLAGS, "src/main.cpp", str(LIBRARY), "-lpthread", "-o", "main"]
    subprocess.run(command, cwd=project, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds_of_the_headers(compiler="g++"):
    """What a program without a model takes, the yardstick of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "src").mkdir()
        (Path(folder) / "src" / "main.cpp").write_text("#include <pycandle/pycandle.h>\nint main() {}\n")
        return min(seconds_to_compile(folder, compiler) for _ in range(2))


def measured(name, compilers):
    with tempfile.TemporaryDirectory() as folder:
        facts = {"model": name, "lines": emitted(name, Path(folder))}
        for compiler in compilers:
            seconds = min(seconds_to_compile(Path(folder) / "port", compiler) for _ in range(2))
            yield {**facts, "compiler": compiler, "seconds": round(seconds, 1)}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, action="append", help="only this one; repeatable")
    parser.add_argument("--compiler", action="append", help="g++ unless given; repeatable")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for name in options.model or MODELS for row in measured(name, options.compiler or ["g++"])]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(
                f"{row['model']}: {row['lines']} lines compile in {row['seconds']} s ({row['compiler']} -O2)"
            )


if __name__ == "__main__":
    main()
