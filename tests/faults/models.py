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


class Vision(nn.Module):
    """Padding, pools and resizing, each with an option that is easily got wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.border = nn.ReplicationPad2d((2, 1, 0, 3))
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.InstanceNorm2d(8, affine=True)
        self.act = nn.Mish()
        self.halve = nn.MaxPool2d(2)
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.scale = nn.BatchNorm2d(8)
        self.bend = nn.Hardswish()
        self.smooth = nn.AvgPool2d(3, 2, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.zoom = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.channels = nn.Conv1d(8, 6, 3, padding=1)
        self.last = nn.AdaptiveMaxPool1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.halve(self.act(self.norm(self.first(self.border(x)))))
        x = x + self.bend(self.scale(self.mix(x)))
        x = self.zoom(self.up(self.smooth(x)))
        return self.last(self.channels(x.flatten(2)))


class Turned(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2) - 0.3 * x


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = torch.ones(6, 6, dtype=torch.bool).tril()
        return torch.where(keep, x, torch.tanh(x)) / 1.5


class Steps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.floor(x * 3.0) / 3.0 + torch.exp(x).log1p()


class RootMeanSquare(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 0.1) * self.weight


class Pooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.mean(1), x.amax(1)], -1)


class Heads(nn.Module):
    """Attention written out, as people do."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(x.shape[0], 6, 3, 2, 3).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * 0.4
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape[0], 6, 6))


class Axes(nn.Module):
    """Dims of one size: what goes the wrong way still fits."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            nn.Linear(6, 6), Turned(), RootMeanSquare(), Heads(), Masked(), nn.Linear(6, 6), Steps(), Pooled()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps(x)


class Gate(nn.Module):
    """A recurrent cell written out."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(5, 24), nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        reset, update, new = self.of_input(x).chunk(3, -1)
        of_reset, of_update, of_new = self.of_state(h).chunk(3, -1)
        z = torch.sigmoid(update + of_update)
        n = torch.tanh(new + torch.sigmoid(reset + of_reset) * of_new)
        return (1.0 - z) * n + z * h


class Turn(nn.Module):
    """Positions turned in pairs, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("angles", torch.arange(4) * torch.tensor([[0.3], [0.7]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x[:, :4], x[:, 4:8]
        cos, sin = self.angles[0].cos(), self.angles[1].sin()
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.turn = Gate(), Gate(), Turn()
        self.start = nn.Parameter(torch.zeros(8))
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x, self.turn(self.second(x, self.start.expand(x.shape[0], 8))))
        return h + self.down(F.gelu(self.up(self.norm(h)), approximate="tanh")) + self.start


class Meter(nn.Module):
    """Buffers that forward() changes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.last = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)
        self.register_buffer("average", torch.linspace(-1, 1, 6))
        self.register_buffer("count", torch.full((6,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        self.count.add_(1.0)
        self.average.mul_(0.75).add_(y.mean(0) / self.count)
        return self.last(self.norm(y - self.average))


def small_vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    sizes = {"num_layers": 2, "num_heads": 4, "hidden_dim": 24, "mlp_dim": 40, "num_classes": 7}
    model = VisionTransformer(image_size=24, patch_size=8, **sizes)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # torchvision's are next to nothing: without one would be right as well
            nn.init.normal_(parameter, std=0.3)
    return model


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
    Subject("vision", Vision, random(2, 3, 12, 14)),
    Subject("axes", Axes, random(2, 6, 6)),
    Subject("cells", Cells, random(3, 5)),
    Subject("meter", Meter, random(4, 6)),
    Subject("vit", small_vit, random(2, 3, 24, 24)),
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
