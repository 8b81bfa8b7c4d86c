"""Small models of the pack: layers together, sizes that change, states, control flow, sizes that data decides."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from op_db.tracing import contiguous
from safetensors.torch import load_file
from torch import nn

from pycandle import GoldenRecorder, _core


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 4)

    def forward(self, x):
        return F.softmax(self.second(F.gelu(self.first(x))), -1)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4)
        self.depthwise, self.head = nn.Conv2d(4, 4, 3, groups=4), nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.head(F.hardswish(self.depthwise(x)).mean((2, 3)))


class Attention(nn.Module):
    dynamic = "all"

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, 8))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 5), nn.LSTM(5, 6, batch_first=True, bidirectional=True)

    def forward(self, tokens):
        y, (h, _) = self.lstm(self.embedding(tokens))
        return y, h.argmax(-1)


class Average(nn.Module):
    """A running mean: every call changes what the next one sees."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, -2.0, 0.5]))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        before = self.mean.clone()
        self.count += 1
        self.mean.mul_(0.5).add_(x.mean(0), alpha=0.5)
        return x - before, self.mean * self.count


class Cached(nn.Module):
    """Rows of a cache, written where the position says."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(5, 4))

    def forward(self, row, position):
        self.cache.index_copy_(0, position, row)
        return self.cache.sum(0), torch.softmax(self.cache @ row.mT, 0)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.tanh(self.layer(x)), lambda x: x * 2 - 1, (x,))


class Loop(nn.Module):
    def forward(self, x, steps):
        from torch._higher_order_ops.while_loop import while_loop

        def halve(i, x):
            return i + 1, x * 0.5 + 1

        return while_loop(lambda i, x: i < steps, halve, (torch.zeros((), dtype=torch.int64), x))[1]


class Selected(nn.Module):
    def forward(self, x):
        picked = x[x > 0]
        return picked * 2, torch.nonzero(x > 0.5)


class Spectrum(nn.Module):
    def forward(self, x):
        y = torch.fft.rfft(x)
        return torch.fft.irfft(y * torch.exp(-y.abs()), n=x.shape[-1]), y.angle()


def _drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(seed))


MODELS: list[tuple[str, Callable[[], nn.Module], list[tuple]]] = [
    ("mlp", Mlp, [(_drawn(3, 6),), (_drawn(7, 6, seed=1),), (_drawn(1, 6, seed=2),)]),
    ("convolutions", Convolutions, [(_drawn(2, 2, 9, 9),), (_drawn(5, 2, 9, 9, seed=1),)]),
    ("attention", Attention, [(_drawn(2, 5, 8),), (_drawn(1, 9, 8, seed=1),), (_drawn(2, 5, 8, seed=2),)]),
    ("recurrent", Recurrent, [(_tokens(2, 5),), (_tokens(2, 5, seed=1),)]),
    ("average", Average, [(_drawn(4, 3),), (_drawn(4, 3, seed=1),), (_drawn(4, 3, seed=2),)]),
    (
        "cached",
        Cached,
        [(_drawn(1, 4, seed=i), torch.tensor([at])) for i, at in enumerate((0, 3, 0))],
    ),
    ("branch", Branch, [(_drawn(2, 3).abs(),), (-_drawn(2, 3, seed=1).abs(),)]),
    ("loop", Loop, [(_drawn(3), torch.tensor(4)), (_drawn(3, seed=1), torch.tensor(0))]),
    ("selected", Selected, [(_drawn(9),), (_drawn(9, seed=1),)]),
    ("spectrum", Spectrum, [(_drawn(2, 8),)]),
]


def cases() -> list:
    return [_case(*model) for model in MODELS]


def _made(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    model = make().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # fresh norms are 1 and 0, which hides what is wrong
        for tensor in (*model.parameters(), *(b for n, b in model.named_buffers() if "running" in n)):
            tensor.add_(0.2 * torch.rand(tensor.shape, generator=generator))
    return model


def _case(name: str, make: Callable[[], nn.Module], calls: list[tuple]):
    from backend.make_pack import Call, Case

    model = _made(make)
    with tempfile.TemporaryDirectory() as folder:
        recorder = GoldenRecorder(output_dir=folder, dynamic=getattr(make, "dynamic", None))
        recorder.record(model, *(a.clone() for a in calls[0]))
        recorder.save(name)
        loaded = _core.load_model(str(Path(folder) / f"{name}_manifest.json"), "reference")
        program = loaded.ptir
        states = [(s[0], s) for s in loaded.state_types]
        weights = load_file(Path(folder) / f"{name}_weights.safetensors")
    model = _made(make)  # as before the recording
    buffers = dict(model.named_buffers())
    initial = [(s, buffers[s].clone()) for s, _ in states]
    made = []
    for given in calls:
        with torch.no_grad():
            result = model(*given)
        outputs = [t.clone() for t in (result if isinstance(result, tuple) else (result,))]
        made.append(
            Call(
                [contiguous(a) for a in given],
                [contiguous(t) for t in outputs],
                [buffers[s].clone() for s, _ in states],
            )
        )
    named = [(n, contiguous(t)) for n, t in sorted(weights.items()) if n not in dict(initial)]
    return Case(name, f"{make.__name__}, {len(calls)} calls", program, made, parameters=named, states=initial)
