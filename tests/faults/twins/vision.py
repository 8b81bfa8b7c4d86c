"""Pictures: convolutions, resizing, patches, and two-dim attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .twin import F32, PLAIN, Twin, Variant, random, stored, turned


class Stack(nn.Module):
    """Convolutions with norms and a squeeze."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.stem = nn.Conv2d(
            3, 12, 3, knobs.get("stride", 2), knobs.get("padding", 1), padding_mode=knobs.get("mode", "zeros")
        )
        self.norm_1 = nn.BatchNorm2d(12, eps=knobs.get("eps", 1e-3))
        self.depth = nn.Conv2d(12, 12, (3, 5), padding=(1, 2), groups=12, bias=False)
        self.norm_2 = nn.GroupNorm(knobs.get("groups", 3), 12)
        self.point = nn.Conv2d(12, 12, 1)
        self.less, self.more = nn.Conv2d(12, 4, 1), nn.Conv2d(4, 12, 1)
        self.high, self.gate = knobs.get("high", 1.5), knobs.get("gate", torch.sigmoid)
        self.pool, self.is_bgr = knobs.get("pool", F.avg_pool2d), knobs.get("is_bgr", False)
        self.kept, self.head = knobs.get("kept", True), nn.Linear(12, 6)
        self.is_largest = knobs.get("is_largest", False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flip(1) if self.is_bgr else x
        x = torch.clamp(self.norm_1(self.stem(x)), 0, self.high)
        y = F.silu(self.norm_2(self.depth(x)))
        squeezed = y.amax((2, 3), keepdim=True) if self.is_largest else y.mean((2, 3), keepdim=True)
        y = y * self.gate(self.more(F.relu(self.less(squeezed))))
        x = x + self.point(y) if self.kept else self.point(y)
        x = self.pool(x, 2)
        return self.head(x.mean((2, 3)))


STACK = (
    turned("another epsilon", "epsilon", eps=1e-2),
    turned("torch's epsilon", "epsilon", eps=1e-5),
    turned("other groups", "groups or off by one", groups=4),
    turned("no upper bound", "activation or clamp bound", high=None),
    turned("hard sigmoid", "activation", gate=F.hardsigmoid),
    turned("largest for mean of a pool", "pool kind or reduction", pool=F.max_pool2d),
    turned("largest for mean of a squeeze", "reduction", is_largest=True),
    turned("blue first", "channel order or direction order or part order", is_bgr=True),
    turned("no residual", "missing residual", kept=False),
    turned("reflected border", "padding mode", mode="reflect"),
    stored("flipped", "stem.weight"),
    stored("flipped", "depth.weight"),
    stored("columns reversed", "stem.weight"),
    stored("rows swapped", "point.weight"),
    stored("bias zeroed", "more.bias"),
    stored("negated", "norm_2.bias"),
    stored("times 1.02", "norm_1.running_var"),
    stored("times 1.02", "norm_2.weight"),
)


class Resized(nn.Module):
    def __init__(self, **knobs) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(12, 6, 3, padding=1)
        self.mode, self.antialias = knobs.get("mode", "bilinear"), knobs.get("antialias", True)
        self.aligned, self.skip_first = knobs.get("aligned", False), knobs.get("skip_first", True)
        self.nearest, self.area = knobs.get("nearest", "nearest-exact"), knobs.get("area", "area")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        small = F.interpolate(
            x, size=(7, 5), mode=self.mode, antialias=self.antialias, align_corners=self.aligned
        )
        large = F.interpolate(small, size=(16, 12), mode=self.nearest)
        parts = [x, large] if self.skip_first else [large, x]
        y = self.second(torch.cat(parts, 1))
        return F.interpolate(y, size=(5, 4), mode=self.area)


RESIZED = (
    turned("without antialias", "antialias", antialias=False),
    turned("bicubic", "interpolation mode", mode="bicubic"),
    turned("aligned corners", "align corners", antialias=True, aligned=True),
    turned("nearest of torch", "interpolation mode", nearest="nearest"),
    turned("bilinear for area", "interpolation mode", area="bilinear"),
    turned("the skip behind", "part order", skip_first=False),
    stored("flipped", "second.weight"),
    stored("transposed", "first.weight"),
)


class Patches(nn.Module):
    """A picture cut by hand, mixed over tokens and channels."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed, self.norm_1, self.norm_2 = nn.Linear(48, 16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.tokens_1, self.tokens_2 = nn.Linear(9, 18), nn.Linear(18, 9)
        self.channels_1, self.channels_2 = nn.Linear(16, 32), nn.Linear(32, 16)
        self.first = nn.Parameter(torch.zeros(1, 9, 16))
        self.order, self.swap = knobs.get("order", (0, 2, 4, 1, 3, 5)), knobs.get("swap", False)
        self.mean, self.std = knobs.get("mean", 0.45), knobs.get("std", 0.225)
        self.act, self.reduce = knobs.get("act", F.gelu), knobs.get("reduce", "mean")
        self.layer_scale = nn.Parameter(torch.full((16,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x - self.mean) / self.std
        x = x.reshape(-1, 3, 3, 4, 3, 4).permute(*self.order).reshape(x.shape[0], 9, 48)
        x = self.embed(x) + self.first
        y = self.norm_1(x)
        y = self.tokens_2(self.act(self.tokens_1(y.transpose(1, 2)))).transpose(1, 2)
        x = x + y
        x = x + self.layer_scale * self.channels_2(self.act(self.channels_1(self.norm_2(x))))
        return x.mean(1) if self.reduce == "mean" else x.sum(1)


PATCHES = (
    turned("channels last in a patch", "dim order", order=(0, 2, 4, 3, 5, 1)),
    turned("patches column by column", "dim order", order=(0, 4, 2, 1, 3, 5)),
    turned("another mean", "constant", mean=0.5),
    turned("another deviation", "constant or scale", std=0.25),
    turned("quick GELU", "activation or gelu form", act=lambda x: x * torch.sigmoid(1.702 * x)),
    turned("sum for mean", "reduction", reduce="sum"),
    stored("negated", "layer_scale", "stored weight or operation"),
    stored("row zeroed", "embed.weight"),
    stored("columns swapped", "channels_1.weight"),
    stored("columns swapped", "first"),
)


class Levels(nn.Module):
    """Clamping, rounding and choosing."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(10, 12), nn.Linear(12, 12), nn.Linear(12, 4)
        self.low, self.high = knobs.get("low", -0.7), knobs.get("high", 0.9)
        self.round, self.steps = knobs.get("round", torch.round), knobs.get("steps", 8.0)
        self.last_tie, self.alpha = knobs.get("last_tie", False), knobs.get("alpha", 1.0)
        self.shrink, self.bits = knobs.get("shrink", 0.5), knobs.get("bits", 7)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.clamp(self.first(x), self.low, self.high)
        # Halves are common here: a third of the values is one.
        x = self.round((x * 4).round() / 2 * 1.0) / self.steps + F.elu(x, self.alpha)
        y = F.hardshrink(self.second(x), self.shrink)
        level = (y.abs() * 12).long().clamp(0, self.bits)
        if self.last_tie:
            best = level.shape[-1] - 1 - level.flip(-1).argmax(-1)
        else:
            best = level.argmax(-1)
        return self.third(y) + level[..., :4], best


LEVELS = (
    turned("another lower bound", "clamp bound", low=-0.8),
    turned("another upper bound", "clamp bound", high=1.0),
    turned("no upper bound", "clamp bound", high=None),
    turned("half up for half even", "rounding mode", round=lambda x: torch.floor(x + 0.5)),
    turned("floor for round", "rounding mode or operation", round=torch.floor),
    turned("7 steps for 8", "constant or scale", steps=7.0),
    turned("another alpha", "slope or constant", alpha=0.5),
    turned("another shrinkage", "clamp bound or constant or slope", shrink=0.4),
    turned("the last of equals", "tie rule", is_listed=False, last_tie=True),
    turned("a bound of one less", "clamp bound or off by one", bits=6),
    stored("bias zeroed", "second.bias"),
    stored("rows reversed", "third.weight"),
)


class Parts(nn.Module):
    """A split that two layers use, and one of them wrongly."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.mix, self.left, self.right = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 12)
        self.operand, self.sizes = knobs.get("operand", 1), knobs.get("sizes", (12, 12, 12))
        self.shift, self.axis = knobs.get("shift", 1), knobs.get("axis", 1)
        self.least, self.number = knobs.get("least", 0), knobs.get("number", 8.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.mix(x).split(self.sizes, -1)
        a = self.left(parts[0] * torch.sigmoid(parts[self.operand]))
        b = self.right(parts[2] - parts[1] * 0.25)
        c = torch.roll(a + b, self.shift, self.axis)
        return torch.maximum(c * self.number, b) + self.least


PARTS = (
    turned("one wrong operand", "wrong input or operand order", operand=2),
    turned("rolled by one more", "off by one or direction order", shift=2),
    turned("rolled the other way", "direction order or constant", shift=-1),
    turned("rolled along another axis", "axis or dim or axes", axis=2),
    turned("7 for 8", "constant", number=7.0),
    turned("one more at the end", "constant or missing residual", least=1),
    stored("columns swapped", "left.weight"),
    stored("rows reversed", "mix.weight"),
    stored("negated", "right.bias"),
)


class Experts(nn.Module):
    """Two of four experts, by hand; cosine similarity and norms of vectors."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.router, self.head = nn.Linear(10, 4), nn.Linear(10, 10)
        self.experts = nn.ModuleList(nn.Linear(10, 10) for _ in range(4))
        self.count, self.before = knobs.get("count", 2), knobs.get("before", True)
        self.is_normal, self.p = knobs.get("is_normal", True), knobs.get("p", 2)
        self.heat, self.eps = knobs.get("heat", 0.5), knobs.get("eps", 1e-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.router(x) / self.heat
        if self.before:
            weight, chosen = torch.topk(scores.softmax(-1), self.count, -1)
            weight = weight / weight.sum(-1, keepdim=True) if self.is_normal else weight
        else:
            weight, chosen = torch.topk(scores, self.count, -1)
            weight = weight.sigmoid()
        every = torch.stack([expert(x) for expert in self.experts], -2)
        taken = torch.gather(every, -2, chosen[..., None].expand(*chosen.shape, 10))
        y = (taken * weight[..., None]).sum(-2)
        return self.head(y + F.normalize(x, self.p, -1, self.eps))


EXPERTS = (
    turned("one expert more", "off by one", count=3),
    turned(
        "weights not normalised",
        "normalisation or missing layer or missing division",
        is_listed=False,
        is_normal=False,
    ),
    turned("sigmoid of chosen scores", "", before=False),
    turned("another temperature", "constant or scale", heat=0.6),
    turned("absolute norm", "norm kind or reduction or constant or operation", is_listed=False, p=1),
    stored("rows swapped", "router.weight"),
    stored("negated", "experts.2.weight"),
    stored("bias zeroed", "experts.1.bias"),
)

TWINS = (
    Twin("stack", Stack, random(2, 3, 16, 14), STACK, (*PLAIN, Variant(F32, True)), "depth.weight"),
    Twin("resized", Resized, random(2, 3, 16, 12), RESIZED, (Variant(F32),)),
    Twin("patches", Patches, random(2, 3, 12, 12), PATCHES),
    Twin("levels", Levels, random(6, 10), LEVELS),
    Twin("parts", Parts, random(2, 5, 12), PARTS),
    Twin("experts", Experts, random(3, 4, 10), EXPERTS),
)
