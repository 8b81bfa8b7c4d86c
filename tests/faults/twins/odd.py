"""Programs that hide a mistake: in a large number beside it, in a sum that absorbs it, in values that prove nothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .twin import BF16, F32, PLAIN, Twin, Variant, random, tokens, turned


class Beside(nn.Module):
    def __init__(self, **knobs) -> None:
        super().__init__()
        self.fc, self.factor, self.large = nn.Linear(8, 8), knobs.get("factor", 1.0), knobs.get("large", 1e30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc(x)
        return torch.cat([h * self.large, h * self.factor], -1)


class Thick(nn.Module):
    """Residual blocks over channels of which one is 100 times the others."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.ups = nn.ModuleList(nn.Linear(32, 64) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(64, 32) for _ in range(2))
        self.sign, self.share = knobs.get("sign", 1), knobs.get("share", 1.0)
        self.of_position, self.mean = knobs.get("of_position", 1.0), knobs.get("mean", False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1])) * self.of_position
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            y = down(F.gelu(up(norm(x)))) * self.share
            x = x - y if self.sign < 0 else x + y
        return x.mean(1) if self.mean else x


THICK = (
    turned("minus for plus", "operation", sign=-1),
    turned("half of the MLP", "constant or scale or missing factor", share=0.5),
    turned("0.99 of the MLP", "constant or scale or missing factor", share=0.99),
    turned("positions times 0.9", "constant or scale or missing factor", of_position=0.9),
)


class Near(nn.Module):
    """Half-precision mistakes of a few units."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.fc, self.norm, self.back = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 32)
        self.gelu, self.share = knobs.get("gelu", "none"), knobs.get("share", 1.0)
        self.heat, self.bias = knobs.get("heat", 1.0), knobs.get("bias", 0.0)
        self.norm.eps = knobs.get("eps", 1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.norm(self.fc(x)), approximate=self.gelu)
        z = self.back(y)
        z = z * self.share if self.share != 1 else z
        x = x + z + self.bias if self.bias else x + z
        return torch.softmax(x / self.heat if self.heat != 1 else x, -1)


NEAR = (
    turned("tanh GELU", "gelu form", gelu="tanh"),
    turned("0.99 of a branch", "missing factor or scale or constant", share=0.99),
    turned("0.995 of a branch", "missing factor or scale or constant", share=0.995),
    turned("temperature 1.01", "missing factor or scale or constant", heat=1.01),
    turned("0.004 more", "constant or missing residual", bias=0.004),
    turned("another epsilon", "epsilon", eps=1e-3),
    turned("a large epsilon", "epsilon", eps=1e-2),
)


TWINS = (
    Twin(
        "beside",
        Beside,
        random(4, 8),
        (turned("5 for 1", "constant or scale or missing factor", factor=5.0),),
        (Variant(F32),),
    ),
    Twin(
        "beside_bf16",
        lambda **k: Beside(large=1e4, **k),
        random(4, 8),
        (turned("1.1 for 1", "constant or scale or missing factor", factor=1.1),),
        (Variant(BF16), Variant(F32)),
    ),
    Twin(
        "thick",
        Thick,
        tokens(64, 2, 12),
        THICK,
        (Variant(F32, True), Variant(BF16, True), Variant(torch.float16, True), Variant(BF16)),
        "embed.weight",
    ),
    Twin("near", Near, random(2, 6, 32), NEAR, PLAIN),
)
