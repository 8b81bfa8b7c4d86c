"""Trains a classifier of handwritten digits and makes it a page that works offline: the model as C, as WebAssembly, inside the page.

    python examples/digits/run.py --out digits        # then open digits/index.html in a browser

It needs scikit-learn for the images, and clang with lld for WebAssembly.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

from pycandle import GoldenRecorder

HERE = Path(__file__).resolve().parent
TARGET = [
    "--target=wasm32",
    "-std=c11",
    "-O3",
    "-msimd128",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,--export-dynamic",
]


class Digits(nn.Module):
    """8 × 8 grey pixels, 0 to 1, to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.conv_1(image)))
        x = self.pool(torch.relu(self.conv_2(x)))
        return self.head(x.flatten(1)).softmax(-1)


def trained(images: torch.Tensor, labels: torch.Tensor, rounds: int) -> Digits:
    torch.manual_seed(0)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(rounds):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.nll_loss(model(images[batch]).clamp_min(1e-9).log(), labels[batch]).backward()
            optimizer.step()
    return model.eval()


def program() -> str:
    beside = Path(sys.executable).with_name("pycandle")
    return str(beside) if beside.exists() else "pycandle"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("digits"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--clang", default="clang-16")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    model = trained(images[:1500], labels[:1500], options.rounds)
    right = (model(images[1500:]).argmax(1) == labels[1500:]).float().mean()
    print(f"{100 * right:.1f} % of the images that it has not seen")

    recorder = GoldenRecorder(out)
    recorder.record(model, images[:1])
    recorder.save("digits")
    generate = ["codegen", "--manifest", out, "--target", "c", "--freestanding", "--embed-weights"]
    subprocess.run([program(), *map(str, generate), "--out", str(out / "digits.c")], check=True)
    wasm = out / "digits.wasm"
    subprocess.run(
        [options.clang, *TARGET, f"-I{out}", str(HERE / "page.c"), str(out / "digits.c"), "-o", str(wasm)],
        check=True,
    )

    examples = images[1500:1520, 0].flatten(1)
    page = (HERE / "page.html").read_text()
    page = page.replace("{{wasm}}", base64.b64encode(wasm.read_bytes()).decode())
    page = page.replace(
        "{{examples}}", json.dumps([[round(v, 4) for v in image] for image in examples.tolist()])
    )
    (out / "index.html").write_text(page)
    print(out / "index.html")


if __name__ == "__main__":
    main()
