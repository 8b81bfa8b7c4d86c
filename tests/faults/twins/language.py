"""Small language models, written by hand as people write them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from .twin import BF16, F16, F32, PLAIN, Twin, Variant, stored, tokens, turned


class RootNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-5, upcast: bool = True) -> None:
        super().__init__()
        self.weight, self.eps, self.upcast = nn.Parameter(torch.ones(width)), eps, upcast

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float() if self.upcast else x
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


class RopeAttention(nn.Module):
    """Positions turned by hand, key-value heads repeated by hand, a window over the keys."""

    def __init__(self, width: int = 48, heads: int = 4, groups: int = 2, **knobs) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.base = knobs.get("base", 10000.0)
        self.divisor = knobs.get("divisor", self.size)
        self.interleaved = knobs.get("interleaved", False)
        self.backwards = knobs.get("backwards", False)
        self.tiled = knobs.get("tiled", False)
        self.scale = knobs.get("scale", 1 / math.sqrt(self.size))
        self.window = knobs.get("window", 5)
        self.diagonal = knobs.get("diagonal", 0)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(0, self.size, 2).float()
        speed = 1.0 / self.base ** (steps / self.divisor)
        angles = torch.outer(torch.arange(x.shape[-2]).float(), speed)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        sin = -sin if self.backwards else sin
        if self.interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q = self.turned(self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2))
        k = self.turned(self.k(x).view(batch, length, self.groups, self.size).transpose(1, 2))
        v = self.v(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        times = self.heads // self.groups
        if self.tiled:
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        else:
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = q @ k.transpose(-2, -1) * self.scale
        at = torch.arange(length)
        distance = at[:, None] - at[None, :]
        seen = (distance >= self.diagonal) & (distance < self.window)
        scores = scores.masked_fill(~seen, float("-inf"))
        y = torch.softmax(scores.float(), -1).to(x.dtype) @ v
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    def __init__(self, width: int, inner: int, **knobs) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.act = knobs.get("act", "silu")
        self.swapped = knobs.get("swapped", False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate(x), self.up(x)
        if self.swapped:
            gate, up = up, gate
        if self.act:
            gate = getattr(F, self.act)(gate)
        return self.down(gate * up)


class RopeBlock(nn.Module):
    def __init__(self, width: int, **knobs) -> None:
        super().__init__()
        norm = {key: knobs[key] for key in ("eps", "upcast") if key in knobs}
        self.norm_1, self.norm_2 = RootNorm(width, **norm), RootNorm(width, **norm)
        self.attn, self.mlp = RopeAttention(width, **knobs), Gated(width, 2 * width, **knobs)
        self.sign, self.share = knobs.get("sign", 1), knobs.get("share", 1.0)
        self.kept, self.order = knobs.get("kept", 1.0), knobs.get("order", "pre")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm_1(x))
        if self.order == "post":
            return self.norm_2(x + self.mlp(x))
        y = self.mlp(self.norm_2(x))
        if self.share != 1:
            y = y * self.share
        if self.kept != 1:
            x = x * self.kept
        return x - y if self.sign < 0 else x + y


class RopeModel(nn.Module):
    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed = nn.Embedding(61, 48)
        self.blocks = nn.ModuleList(RopeBlock(48, **knobs) for _ in range(2))
        self.norm, self.head = RootNorm(48), nn.Linear(48, 61, bias=False)
        self.has_norm = knobs.get("has_norm", True)
        self.factor = knobs.get("factor", 0.0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        if self.factor:
            x = x * self.factor
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x) if self.has_norm else x)


ROPE = (
    turned("RoPE with another base", "constant", base=500.0),
    turned("RoPE divided by another width", "constant", divisor=10),
    turned("RoPE in pairs", "rotary pairing", interleaved=True),
    turned("RoPE backwards", "rotary direction", backwards=True),
    turned("key-value heads tiled", "head order or repeated heads", tiled=True),
    turned("another attention scale", "scale or constant", scale=1 / math.sqrt(48)),
    turned("attention scale off by 1 %", "scale or constant", scale=1.01 / math.sqrt(12)),
    turned("a window of one more", "off by one or comparison", window=6),
    turned("a window of one less", "off by one or comparison", window=4),
    turned("sees one ahead", "off by one or comparison", diagonal=-1),
    turned("another epsilon", "epsilon or constant", eps=1e-3),
    turned("a slightly other epsilon", "epsilon or constant", eps=1e-6),
    turned("norm without its upcast", "compute dtype or accumulation dtype", half_only=True, upcast=False),
    turned("GELU for SiLU", "activation", act="gelu"),
    turned("no activation", "activation or missing activation", act=""),
    turned(
        "gate and up exchanged", "operand order or wrong layer or wrong input or wrong weight", swapped=True
    ),
    turned("minus for plus", "operation", sign=-1),
    turned("half of the MLP", "missing factor or scale or constant", share=0.5),
    turned("a residual times 0.99", "missing factor or scale or constant", kept=0.99),
    turned("norm behind the MLP", "norm order or wrong input or missing layer", order="post"),
    turned("no last norm", "missing layer", has_norm=False),
    turned("embedding times sqrt of width", "missing factor or scale or constant", factor=math.sqrt(48)),
    stored("negated", "blocks.0.attn.q.weight"),
    stored("times 1.02", "blocks.1.norm_2.weight"),
    stored("times 1.02", "blocks.0.mlp.down.weight"),
    stored("rows swapped", "blocks.1.attn.k.weight"),
    stored("column halves swapped", "blocks.0.attn.o.weight"),
    stored("rounded to 5 bits", "blocks.0.mlp.gate.weight"),
    stored("row zeroed", "embed.weight"),
    stored("rows reversed", "blocks.1.mlp.up.weight"),
    stored("column zeroed", "head.weight"),
)


class AlibiAttention(nn.Module):
    def __init__(self, width: int, heads: int = 4, **knobs) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.power, self.sign = knobs.get("power", 8.0), knobs.get("slope_sign", -1)
        self.first, self.filled = knobs.get("first", 1), knobs.get("filled", float("-inf"))
        self.order = knobs.get("parts", (0, 1, 2))
        self.scaled_before = knobs.get("scaled_before", True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, -1)
        q, k, v = (parts[i].view(batch, length, self.heads, -1).transpose(1, 2) for i in self.order)
        slopes = 2.0 ** (-self.power * (torch.arange(self.heads) + self.first) / self.heads)
        at = torch.arange(length)
        bias = self.sign * slopes[:, None, None] * (at[:, None] - at[None, :]).abs()
        scores = q @ k.transpose(-2, -1)
        if self.scaled_before:
            scores = scores / math.sqrt(width // self.heads) + bias.to(x.dtype)
        else:
            scores = (scores + bias.to(x.dtype)) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, self.filled)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class AlibiBlock(nn.Module):
    def __init__(self, width: int, **knobs) -> None:
        super().__init__()
        eps = knobs.get("eps", 1e-5)
        self.norm_1, self.norm_2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attn = AlibiAttention(width, **knobs)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.gelu, self.order = knobs.get("gelu", "tanh"), knobs.get("order", "pre")
        self.parallel, self.sign = knobs.get("parallel", False), knobs.get("sign", 1)
        self.share = knobs.get("share", 1.0)

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate=self.gelu))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.order == "post":
            x = self.norm_1(x + self.attn(x))
            return self.norm_2(x + self.mlp(x))
        if self.parallel:
            return x + self.attn(self.norm_1(x)) + self.mlp(self.norm_2(x))
        x = x + self.attn(self.norm_1(x))
        y = self.mlp(self.norm_2(x))
        y = y * self.share if self.share != 1 else y
        return x - y if self.sign < 0 else x + y


class AlibiModel(nn.Module):
    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(53, 32), nn.Embedding(40, 32)
        self.blocks = nn.ModuleList(AlibiBlock(32, **knobs) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.of_position, self.first = knobs.get("of_position", 1.0), knobs.get("first_position", 0)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        at = self.position(torch.arange(ids.shape[1]) + self.first)
        at = at * self.of_position if self.of_position != 1 else at
        x = self.embed(ids) + at
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.weight.T


ALIBI = (
    turned("slopes of another power", "constant", power=4.0),
    turned("slopes from zero", "off by one or constant or index offset", first=0),
    turned("slopes of the other sign", "constant or operation", slope_sign=1),
    turned("scaled after the bias", "scale place", is_listed=False, scaled_before=False),
    turned("masked with -10", "constant", filled=-10.0),
    turned("keys before queries", "part order or operand order", parts=(1, 0, 2)),
    turned("values before keys", "part order or operand order", parts=(0, 2, 1)),
    turned("erf GELU", "gelu form", gelu="none"),
    turned("another epsilon", "epsilon", eps=1e-3),
    turned("a slightly other epsilon", "epsilon", eps=1e-6),
    turned("norms behind", "norm order or wrong input or missing layer", order="post"),
    turned("attention and MLP side by side", "wrong input or missing residual", parallel=True),
    turned("minus for plus", "operation", sign=-1),
    turned("half of the MLP", "missing factor or scale or constant", share=0.5),
    turned("positions times 0.9", "missing factor or scale or constant", of_position=0.9),
    turned("positions from 1", "index offset or off by one", first_position=1),
    stored("bias zeroed", "blocks.0.attn.qkv.bias"),
    stored("bias zeroed", "blocks.1.up.bias"),
    stored("times 1.02", "blocks.0.norm_1.weight"),
    stored("times 1.02", "position.weight"),
    stored("negated", "blocks.1.norm_2.bias"),
    stored("rows swapped", "blocks.0.up.weight"),
    stored("rounded to 5 bits", "blocks.1.attn.out.weight"),
    stored("column halves swapped", "blocks.1.down.weight"),
    stored("column zeroed", "position.weight"),
)


class SineModel(nn.Module):
    """Positions of sines, an encoder of torch's own layers."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed = nn.Embedding(47, 32)
        layer = nn.TransformerEncoderLayer(
            32,
            4,
            48,
            batch_first=True,
            norm_first=knobs.get("norm_first", False),
            activation=knobs.get("act", F.gelu),
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.base, self.layout = knobs.get("base", 10000.0), knobs.get("layout", "pairs")
        self.first, self.factor = knobs.get("first", 0), knobs.get("factor", math.sqrt(32))
        self.reduce, self.out = knobs.get("reduce", "mean"), nn.Linear(32, 7)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(0, 32, 2).float()
        angles = (torch.arange(ids.shape[1]).float() + self.first)[:, None] / self.base ** (steps / 32)
        if self.layout == "pairs":
            at = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        elif self.layout == "turned":
            at = torch.stack([angles.cos(), angles.sin()], -1).flatten(-2)
        else:
            at = torch.cat([angles.sin(), angles.cos()], -1)
        x = self.embed(ids) * self.factor
        x = self.encoder(x + at.to(x.dtype))
        x = x.mean(1) if self.reduce == "mean" else x[:, 0] if self.reduce == "first" else x.amax(1)
        return self.out(x)


SINE = (
    turned("sines of another base", "constant or rotary base or sinusoid base", base=1000.0),
    turned("sines first, then cosines", "part order or rotary pairing or sinusoid layout", layout="halves"),
    turned("cosines before sines", "part order or operand order or sinusoid layout", layout="turned"),
    turned("positions from 1", "off by one or index offset or constant", first=1),
    turned("embedding times 1", "constant or missing factor or scale", factor=1.0),
    turned("norms before", "norm order or wrong input or missing layer", norm_first=True),
    turned("ReLU for GELU", "activation", act=F.relu),
    turned("largest for mean", "reduction", reduce="largest"),
    turned("first for mean", "reduction", is_listed=False, reduce="first"),
    stored("negated", "encoder.layers.0.self_attn.in_proj_weight"),
    stored("rows swapped", "encoder.layers.1.linear1.weight"),
    stored("bias zeroed", "encoder.layers.1.linear2.bias"),
    stored("times 1.02", "encoder.layers.0.norm2.weight"),
)


class RelativeModel(nn.Module):
    """Buckets of distances, as T5 has them, and attention of torch with a mask of three dims."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed = nn.Embedding(41, 24)
        self.q, self.k, self.v = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)
        self.bias, self.norm, self.out = nn.Embedding(16, 1), nn.LayerNorm(24), nn.Linear(24, 24)
        self.exact, self.farthest = knobs.get("exact", 4), knobs.get("farthest", 10)
        self.is_masked, self.scale = knobs.get("is_masked", True), knobs.get("scale")
        self.sign, self.last = knobs.get("sign", 1), knobs.get("last", 7)
        self.shown = knobs.get("shown", 7)

    def bucket(self, distance: torch.Tensor) -> torch.Tensor:
        behind = (self.sign * distance > 0).long() * 8
        n = distance.abs()
        share = torch.log(n.float().clamp(min=1) / self.exact) / math.log(self.farthest / self.exact)
        far = (self.exact + (share * (8 - self.exact)).long()).clamp(max=self.last)
        return behind + torch.where(n < self.exact, n, far)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        at = torch.arange(ids.shape[1])
        bias = self.bias(self.bucket(at[None, :] - at[:, None]))[..., 0]
        mask = bias[None] + torch.where(ids[:, None, :] > self.shown, 0.0, float("-inf")).to(x.dtype)
        given = mask if self.is_masked else None
        y = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), given, scale=self.scale)
        return self.out(self.norm(x + y))


RELATIVE = (
    turned("fewer exact buckets", "off by one or constant", exact=3),
    turned("another farthest distance", "constant", is_listed=False, farthest=16),
    turned("before for behind", "operation or operand order or constant", sign=-1),
    turned("the last bucket one less", "off by one or clamp bound", last=6),
    turned("without its mask", "missing mask", is_masked=False),
    turned("padding of more ids", "constant", shown=12),
    turned("another scale", "scale", scale=0.25),
    stored("rows reversed", "bias.weight"),
    stored("negated", "k.weight"),
    stored("bias zeroed", "v.bias"),
)


NARROW, THICK = Variant(BF16), Variant(BF16, True)
TWINS = (
    Twin("rope", RopeModel, tokens(61, 2, 12), ROPE, (Variant(F32), NARROW, THICK), "embed.weight"),
    Twin("alibi", AlibiModel, tokens(53, 2, 10), ALIBI, (Variant(F32), Variant(F16), THICK), "embed.weight"),
    Twin("sine", SineModel, tokens(47, 2, 9), SINE, (Variant(F32, True), *PLAIN), "embed.weight"),
    Twin("relative", RelativeModel, tokens(41, 2, 11), RELATIVE, PLAIN),
)
