"""Many small models as C++ in one go: each is recorded and emitted, all are compiled together, and each is held against its
recording."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from pycandle import GoldenRecorder, perturb

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"
BEGIN = """#include <pycandle/pycandle.h>
#include <pycandle/control_flow.h>

#include <cstdio>

template <class Model>
void judge(const char* name, const char* manifest) try {
  using namespace pycandle;
  const Model model(Weights::open(manifest));
  const RoundTrip trip = round_trip(compile(model, signature_of(manifest)), manifest);
  std::printf("%s: %s\\n", name, trip.equal ? "equal" : trip.difference.c_str());
} catch (const std::exception& error) {
  std::printf("%s: %s\\n", name, error.what());
}
"""


def emitted_together(models: dict[str, tuple[Callable, dict]], folder: Path, pycandle) -> dict[str, str]:
    """The header of each model. They compile without a warning, and each is its recorded program."""
    texts, includes, calls = {}, "", ""
    for name, (make, inputs) in models.items():
        manifest = _recorded(make, inputs, folder / name)
        made = pycandle.json("codegen", "--manifest", manifest, "--out", folder / f"{name}.hpp")
        texts[name] = text = (folder / f"{name}.hpp").read_text()
        space = made["namespace"]
        if f"namespace {space} " in includes:  # two models of one name
            space = f"{space}_of_{name}"
            text = re.sub(r"\nnamespace \w+ \{", f"\nnamespace {space} {{", text)
        includes += text.replace("#pragma once", "")
        calls += f'  judge<{space}::{made["model"]}>("{name}", "{manifest}");\n'
    source = folder / "models.cpp"
    source.write_text(f"{BEGIN}{includes}int main() {{\n{calls}}}\n")
    compiler = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    command = [*compiler, source, LIBRARY, "-lpthread", "-o", folder / "models"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    said = subprocess.run([folder / "models"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [f"{name}: equal" for name in models]
    return texts


def _recorded(make: Callable[[], nn.Module], inputs: dict, folder: Path) -> Path:
    torch.manual_seed(0)
    model = make().eval()
    perturb(model, seed=0)
    recorder = GoldenRecorder(folder)
    recorder.record(model, **inputs)
    recorder.save("model")
    return folder / "model_manifest.json"
