"""The models that faults are put into, and those whose clean runs must not alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from zoo.basics import BY_NAME

from pycandle import GoldenRecorder, perturb


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.mix = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False)
        self.norm = nn.GroupNorm(4, 8)
        self.act = nn.SiLU()
        self.mean = nn.AvgPool2d(3, 2, 1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.last = nn.Conv2d(8, 4, 1)
        self.whole = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.stem(x))
        x = x + self.act(self.norm(self.mix(x)))
        x = self.up(self.mean(x))
        return self.head(self.whole(self.last(x)).flatten(1))


class Reflect(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (2, 1), mode="reflect")


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([b * torch.sigmoid(a), a], -1)


class Window(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[..., 2:9] - x[..., 1:8].roll(1, -1)


class Spread(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.5)


class Soft(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 1.7, -1)


class Running(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, 1)


class Pieces(nn.Module):
    """Data movement and arithmetic, each in a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            nn.Linear(9, 9),
            Reflect(),
            Halves(),
            Window(),
            nn.LeakyReLU(0.1),
            Spread(),
            Soft(),
            Running(),
            nn.Linear(7, 7),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps(x)


class Deep(nn.Module):
    def __init__(self, depth: int = 40) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Unstable(nn.Module):
    """Softmax of large logits, and the variance of nearly constant input."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.norm = nn.Linear(16, 16), nn.LayerNorm(16, eps=1e-12)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(300 * self.logits(x), -1), self.norm(1000 + 1e-3 * x)


@dataclass(frozen=True)
class Subject:
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[torch.Generator], dict]
    dtype: torch.dtype = torch.float32


def basic(name: str, dtype: torch.dtype = torch.float32) -> Subject:
    case = BY_NAME[name]
    suffix = "" if dtype is torch.float32 else "_" + str(dtype).removeprefix("torch.")
    return Subject(name + suffix, case.make, lambda g: case.inputs(case.recorded, g), dtype)


def random(*shape: int) -> Callable[[torch.Generator], dict]:
    return lambda g: {"x": torch.randn(*shape, generator=g)}


FAULTED = [
    basic("gpt2"),
    basic("llama"),
    basic("bert"),
    basic("t5"),
    basic("lstm_bidirectional_2_layers"),
    basic("gru_bidirectional_2_layers"),
    basic("rnn_tanh_2_layers"),
    basic("multihead_attention"),
    basic("transformer"),
    Subject("convolutions", Convolutions, random(2, 3, 15, 15)),
    Subject("pieces", Pieces, random(3, 7, 9)),
    basic("lstm"),
]
CLEAN = [
    *FAULTED,
    basic("gpt2", torch.bfloat16),
    basic("bert", torch.float16),
    basic("llama", torch.bfloat16),
    basic("t5", torch.bfloat16),
    Subject("deep", Deep, random(3, 16)),
    Subject("deep_bfloat16", Deep, random(3, 16), torch.bfloat16),
    Subject("unstable", Unstable, random(5, 16)),
]
CLEAN_SEEDS = 6


def recorded(subject: Subject, folder: Path) -> Path:
    """The manifest of the model in this folder, recorded when it is not there, with goldens of several inputs."""
    manifest = folder / subject.name / f"{subject.name}_manifest.json"
    last = manifest.with_name(f"seed{CLEAN_SEEDS - 1}_trace.safetensors")
    if manifest.exists() and last.exists():
        return manifest
    torch.manual_seed(7)
    model = subject.make().eval()
    perturb(model, seed=7)
    model = model.to(subject.dtype)

    def inputs(seed: int) -> dict:
        given = subject.inputs(torch.Generator().manual_seed(seed))
        return {k: v.to(subject.dtype) if v.is_floating_point() else v for k, v in given.items()}

    recorder = GoldenRecorder(manifest.parent)
    recorder.record(model, **inputs(0))
    recorder.save(subject.name)
    for seed in range(1, CLEAN_SEEDS):
        recorder.add_goldens(f"seed{seed}", **inputs(seed))
    return manifest
