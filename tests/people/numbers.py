"""Dtypes, integers, truth values, scalars, and sizes turned into numbers."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


def mlp(*dims, act=nn.ReLU, dtype=torch.float32):
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Linear(a, b, dtype=dtype), act()]
    return nn.Sequential(*layers[:-1])


class HalfModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.net = mlp(8, 16, 4, act=nn.GELU)

    def forward(self, ids):
        return self.net(self.norm(self.emb(ids))).float().log_softmax(-1)


class MixedPrecision(nn.Module):
    """bf16 layers inside an f32 model, statistics in f64."""

    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 8)
        self.core = nn.Linear(8, 8).to(torch.bfloat16)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h = F.silu(self.inp(x))
        h = self.core(h.to(self.core.weight.dtype)).to(x.dtype) + h
        stats = torch.stack([h.double().mean(), h.double().std(unbiased=False)])
        return self.out(h), stats


class DoubleSolver(nn.Module):
    """Ridge regression in double precision, closed form."""

    def __init__(self, lam=0.1):
        super().__init__()
        self.log_lam = nn.Parameter(torch.tensor(math.log(lam), dtype=torch.float64))

    def forward(self, X, y):
        A = X.T @ X + self.log_lam.exp() * torch.eye(X.shape[1], dtype=X.dtype)
        w = torch.linalg.solve(A, X.T @ y)
        L = torch.linalg.cholesky(A)
        w2 = torch.cholesky_solve((X.T @ y).unsqueeze(1), L).squeeze(1)
        r = y - X @ w
        return w, w2, r @ r / y.shape[0]


class IntegerOnly(nn.Module):
    """A hash and a checksum: no floating point anywhere."""

    def __init__(self, buckets=97):
        super().__init__()
        self.register_buffer("mult", torch.tensor([31, 17, 101, 7], dtype=torch.int64))
        self.buckets = buckets

    def forward(self, ids):
        h = (ids * self.mult) % self.buckets
        h = h ^ (h << 3) & 0xFF
        s = h.sum(-1, dtype=torch.int32)
        return h // 3, s, torch.bincount(h.flatten(), minlength=4)[:4] if False else h.amax(0)


class Rules(nn.Module):
    """Answers are truth values."""

    def forward(self, x, low, high):
        inside = (x >= low) & (x <= high)
        some, every = inside.any(dim=-1), inside.all(-1)
        odd = torch.logical_xor(some, every)
        return inside, odd, torch.isclose(x, x.round(), atol=0.1).sum(-1) > 1, inside.any()


class Losses(nn.Module):
    """Everything that comes out is a scalar."""

    def __init__(self):
        super().__init__()
        self.net = mlp(5, 8, 4, act=nn.Softplus)
        self.crit = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 0.5, 1.5]))
        self.huber = nn.SmoothL1Loss(beta=0.5)

    def forward(self, x, y):
        logits = self.net(x)
        onehot = F.one_hot(y, 4).to(logits.dtype)
        focal = ((1 - (-F.cross_entropy(logits, y, reduction="none")).exp()) ** 2).mean()
        return {
            "ce": self.crit(logits, y),
            "huber": self.huber(logits, onehot),
            "bce": F.binary_cross_entropy_with_logits(logits, onehot, pos_weight=torch.tensor(3.0)),
            "kl": F.kl_div(logits.log_softmax(-1), onehot.add(0.1).softmax(-1), reduction="batchmean"),
            "focal": focal,
            "dice": 1 - 2 * (logits.sigmoid() * onehot).sum() / (logits.sigmoid().sum() + onehot.sum() + 1e-6),
            "acc": (logits.argmax(-1) == y).float().mean(),
        }


class ShapeNumbers(nn.Module):
    """Python floats from sizes: temperatures, averages, positions."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        b, n, d = x.shape
        temperature = math.sqrt(d) * 2.0
        att = (self.q(x) @ self.k(x).transpose(1, 2) / temperature).softmax(-1)
        mean = (att @ x).sum(1) / n
        centre = torch.arange(n) * 2 - (n - 1)
        half = x[:, : (n + 1) // 2].mean(1)
        return mean, centre / max(n, 2), half, x.flatten(1)[:, :: max(1, d // 2)], n * x.mean()


class FractionsOfSizes(nn.Module):
    """Fractions that Python computes from sizes."""

    def forward(self, x):
        n = x.shape[1]
        centre = torch.arange(n) - (n - 1) / 2
        return (x * centre).sum(1) * (1.0 / n) / math.sqrt(n)


class EmptyParts(nn.Module):
    """Slices and lists that may be empty."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, history):
        y = self.fc(torch.cat([history, x], dim=1))
        nothing = x[:, 0:0]
        extra = torch.cat([nothing, y[:, :1, :1].expand(-1, -1, 4)], 1)
        return y, nothing.sum(), extra, x.new_empty(0, 4) * 2


class GumbelRouter(nn.Module):
    """Gumbel-softmax when training, the hard choice otherwise; the noise may be given."""

    def __init__(self, n=4):
        super().__init__()
        self.logits = nn.Linear(5, n)
        self.codes = nn.Parameter(torch.randn(n, 3))

    def forward(self, x, tau=1.0, noise=None):
        logits = self.logits(x)
        if self.training:
            p = F.gumbel_softmax(logits, tau=tau, hard=True)
        elif noise is not None:
            g = -torch.log(-torch.log(noise.sigmoid() + 1e-9) + 1e-9)
            soft = ((logits + g) / tau).softmax(-1)
            hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
            p = hard - soft.detach() + soft
        else:
            p = F.one_hot(logits.argmax(-1), logits.size(-1)).type_as(logits)
        return p @ self.codes, p


class Ranker(nn.Module):
    """Sorting, ranks, top-p filtering, unique-free deduplication."""

    def __init__(self, p=0.7):
        super().__init__()
        self.score, self.p = nn.Linear(3, 1), p

    def forward(self, items):
        s = self.score(items).squeeze(-1)
        order = s.argsort(dim=-1, descending=True)
        ranks = order.argsort(dim=-1)
        probs = s.softmax(-1)
        sp, si = probs.sort(-1, descending=True)
        drop = sp.cumsum(-1) - sp > self.p
        kept = probs.masked_fill(torch.zeros_like(drop).scatter(-1, si, drop), 0.0)
        median = s.median(-1)
        return ranks, kept / kept.sum(-1, keepdim=True), median.values, s.kthvalue(2, dim=-1)[0]


class FixedPoint(nn.Module):
    """Quantised weights as people simulate them: round, clamp, scale, straight through."""

    def __init__(self, bits=4):
        super().__init__()
        self.w = nn.Parameter(torch.randn(5, 6))
        self.scale = nn.Parameter(torch.rand(5, 1) + 0.1)
        self.qmax = 2 ** (bits - 1) - 1

    def quantize(self, w):
        q = (w / self.scale.abs()).round().clamp(-self.qmax - 1, self.qmax)
        return (q - w / self.scale.abs()).detach() + w / self.scale.abs(), q.to(torch.int8)

    def forward(self, x):
        q, ints = self.quantize(self.w)
        xi = (x * 16).to(torch.int32)
        acc = (xi.unsqueeze(1) * ints).sum(-1)
        return F.linear(x, q * self.scale), acc, (acc.float() * self.scale.squeeze() / 16)


MODELS = [
    entry("f16_model", lambda: HalfModel().half(), "ids=i64[batch,seq]<20", batch=2, seq=5),
    entry("bf16_model", lambda: HalfModel().bfloat16(), "ids=i64[batch,seq]<20", batch=2, seq=5),
    entry("f64_model", lambda: mlp(6, 9, 3, act=nn.SELU, dtype=torch.float64), "input=f64[batch,6]", batch=2),
    entry("mixed_precision", MixedPrecision, "x=f32[batch,6]", batch=4),
    entry("ridge_f64", DoubleSolver, "X=f64[n,3] y=f64[n]", dynamic=AXES, n=(8, 5, 4, 12)),
    entry("integers_only", IntegerOnly, "ids=i64[batch,4]<1000", dynamic="batch", batch=3),
    entry("truth_values", Rules, "x=f32[batch,7] low=f32[] high=f32[batch,1]", dynamic={"x": {0: "batch"}, "high": {0: "batch"}}, batch=(5, 3, 8, 4)),
    entry("scalar_losses", Losses, "x=f32[batch,5] y=i64[batch]<4", batch=5),
    entry("numbers_from_sizes", ShapeNumbers, "x=f32[batch,n,6]", dynamic=AXES, batch=2, n=(5, 1, 4, 8)),
    entry(
        "fractions_of_sizes",
        FractionsOfSizes,
        "x=f32[batch,n]",
        dynamic=AXES,
        batch=2,
        n=5,
    ),
    entry("empty_tensors", EmptyParts, "x=f32[batch,3,4] history=f32[batch,0,4]", batch=2, constant=("output.1", "output.3")),
    entry("gumbel_hard", GumbelRouter, "x=f32[batch,5]", batch=6),
    entry("gumbel_noise", GumbelRouter, "x=f32[batch,5] noise=f32[batch,4]", plain={"tau": 0.5}, batch=6),
    entry("ranker", Ranker, "items=f32[batch,n,3]", dynamic=AXES, batch=2, n=(6, 2, 5, 9)),
    entry("fixed_point", FixedPoint, "x=f32[batch,6]", batch=3),
]
