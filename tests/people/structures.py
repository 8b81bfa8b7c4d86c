"""Graphs, proteins, detectors, codecs, diffusion transformers, adapters."""

import math
from collections import OrderedDict
from functools import reduce
from itertools import chain

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class GraphTransformer(nn.Module):
    """Graphormer: distances as attention bias, degrees as embeddings, random-walk encodings."""

    def __init__(self, d=8, heads=2, hops=3):
        super().__init__()
        self.heads, self.hops = heads, hops
        self.node = nn.Embedding(12, d)
        self.degree = nn.Embedding(10, d)
        self.dist = nn.Embedding(hops + 2, heads)
        self.rw = nn.Linear(hops, d)
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.token = nn.Parameter(torch.randn(1, 1, d))
        self.token_dist = nn.Parameter(torch.randn(heads))

    def forward(self, ids, adj):
        b, n = ids.shape
        deg = adj.sum(-1).long().clamp(max=9)
        p = adj / adj.sum(-1, keepdim=True).clamp(min=1)
        walks, reach, dist = [], torch.eye(n).expand(b, n, n), torch.full((b, n, n), self.hops + 1)
        dist[reach > 0] = 0
        power = p
        for k in range(1, self.hops + 1):
            walks.append(torch.diagonal(power, dim1=-2, dim2=-1))
            seen = (power > 0) & (dist > self.hops)
            dist = dist.masked_fill(seen, k)
            power = power @ p
        x = self.node(ids) + self.degree(deg) + self.rw(torch.stack(walks, -1))
        x = torch.cat((self.token.repeat(b, 1, 1), x), dim=1)
        bias = torch.zeros(b, self.heads, n + 1, n + 1)
        bias[:, :, 1:, 1:] = self.dist(dist).permute(0, 3, 1, 2)
        t = self.token_dist.view(1, self.heads, 1)
        bias[:, :, 1:, 0] += t
        bias[:, :, 0, :] += t
        q, k, v = self.qkv(x).view(b, n + 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.o(y.transpose(1, 2).flatten(2))[:, 0]


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=2, alpha=8, dropout=0.1):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.r, self.scaling = r, alpha / r
        self.A = nn.Parameter(base.weight.new_empty(r, base.in_features))
        self.B = nn.Parameter(base.weight.new_zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.drop = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    @property
    def weight(self):
        return self.base.weight + (self.B @ self.A) * self.scaling

    def forward(self, x):
        return self.base(x) + self.drop(x) @ self.A.T @ self.B.T * self.scaling


def lora_bert():
    enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
    model = nn.ModuleDict({"enc": enc, "head": nn.Linear(8, 3)})
    for layer in enc.layers:
        layer.linear1 = LoRALinear(layer.linear1)
        layer.linear2 = LoRALinear(layer.linear2, r=1, dropout=0)

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = model

        def forward(self, x, pad=None):
            return self.m["head"](self.m["enc"](x, src_key_padding_mask=pad)[:, 0])

    return Wrapped()


class YoloHead(nn.Module):
    def __init__(self, nc=3, anchors=((10, 13, 16, 30), (30, 61, 62, 45)), ch=(4, 6)):
        super().__init__()
        self.nc, self.no, self.nl, self.na = nc, nc + 5, len(anchors), len(anchors[0]) // 2
        self.stride = torch.tensor([8.0, 16.0])
        self.register_buffer("anchors", torch.tensor(anchors).float().view(self.nl, -1, 2))
        self.m = nn.ModuleList(nn.Conv2d(x, self.no * self.na, 1) for x in ch)

    def _make_grid(self, nx, ny, i):
        yv, xv = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
        grid = torch.stack((xv, yv), 2).expand(1, self.na, ny, nx, 2) - 0.5
        return grid, (self.anchors[i] * self.stride[i]).view(1, self.na, 1, 1, 2).expand(1, self.na, ny, nx, 2)

    def forward(self, p3, p4):
        z, x = [], [p3, p4]
        for i in range(self.nl):
            x[i] = self.m[i](x[i])
            bs, _, ny, nx = x[i].shape
            x[i] = x[i].view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            grid, anchor_grid = self._make_grid(nx, ny, i)
            xy, wh, conf = x[i].sigmoid().split((2, 2, self.nc + 1), 4)
            xy = (xy * 2 + grid) * self.stride[i]
            wh = (wh * 2) ** 2 * anchor_grid
            z.append(torch.cat((xy, wh, conf), 4).view(bs, self.na * nx * ny, self.no))
        return torch.cat(z, 1), x


class NBeats(nn.Module):
    def __init__(self, back=8, fore=3):
        super().__init__()
        self.blocks = nn.ModuleList()
        for kind in ("trend", "seasonal", "generic"):
            n = {"trend": 3, "seasonal": 4, "generic": 5}[kind]
            blk = nn.Module()
            blk.fc = nn.Sequential(*chain.from_iterable((nn.Linear(i, 6), nn.ReLU()) for i in (back, 6)))
            blk.theta_b, blk.theta_f = nn.Linear(6, n, bias=False), nn.Linear(6, n, bias=False)
            blk.kind = kind
            t = torch.linspace(0, 1, back + fore)
            if kind == "trend":
                basis = torch.stack([t**i for i in range(n)])
            elif kind == "seasonal":
                basis = torch.cat(
                    [torch.cos(2 * math.pi * torch.outer(torch.arange(1.0, 3), t)), torch.sin(2 * math.pi * torch.outer(torch.arange(1.0, 3), t))]
                )
            else:
                basis = torch.randn(n, back + fore)
            blk.register_buffer("basis", basis)
            self.blocks.append(blk)
        self.back = back

    def forward(self, x):
        forecast, parts = 0.0, OrderedDict()
        for i, blk in enumerate(self.blocks):
            h = blk.fc(x)
            b, f = blk.theta_b(h) @ blk.basis[:, : self.back], blk.theta_f(h) @ blk.basis[:, self.back :]
            x, forecast = x - b, forecast + f
            parts[f"{blk.kind}_{i}"] = f
        return forecast, parts


class Autoformer(nn.Module):
    """Auto-correlation by FFT, top-k delays, series decomposition."""

    def __init__(self, d=4, k=5, factor=1):
        super().__init__()
        self.q, self.kk, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.k, self.factor = k, factor
        self.avg = nn.AvgPool1d(kernel_size=k, stride=1, padding=0)

    def decomp(self, x):
        front = x[:, 0:1, :].repeat(1, (self.k - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.k - 1) // 2, 1)
        mean = self.avg(torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)
        return x - mean, mean

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (f(x).permute(0, 2, 1).contiguous() for f in (self.q, self.kk, self.v))
        corr = torch.fft.irfft(torch.fft.rfft(q, dim=-1) * torch.conj(torch.fft.rfft(k, dim=-1)), n=L, dim=-1)
        top = int(self.factor * math.log(L))
        weights, delay = torch.topk(corr.mean(1), top, dim=-1)
        tmp = torch.softmax(weights, dim=-1)
        init = torch.arange(L).view(1, 1, -1).expand_as(v)
        vv, agg = v.repeat(1, 1, 2), torch.zeros_like(v).float()
        for i in range(top):
            idx = init + delay[:, i].view(-1, 1, 1)
            agg = agg + torch.gather(vv, dim=-1, index=idx) * tmp[:, i].view(-1, 1, 1)
        season, trend = self.decomp(x + agg.permute(0, 2, 1))
        return season, trend


class QMix(nn.Module):
    def __init__(self, agents=3, obs=4, acts=5, state=6, embed=4):
        super().__init__()
        self.fc, self.rnn, self.q = nn.Linear(obs + agents, 8), nn.GRUCell(8, 8), nn.Linear(8, acts)
        self.w1, self.b1 = nn.Linear(state, agents * embed), nn.Linear(state, embed)
        self.w2, self.V = nn.Linear(state, embed), nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))
        self.n = agents

    def forward(self, obs, avail, h, state):
        b = obs.size(0)
        ids = torch.eye(self.n).unsqueeze(0).expand(b, -1, -1)
        x = F.relu(self.fc(torch.cat([obs, ids], -1).reshape(b * self.n, -1)))
        h = self.rnn(x, h.reshape(-1, 8))
        q = self.q(h).view(b, self.n, -1)
        q = torch.where(avail.bool(), q, -1e7)
        best, act = q.max(-1)
        hidden = F.elu(best.unsqueeze(1).bmm(self.w1(state).abs().view(b, self.n, -1)) + self.b1(state).unsqueeze(1))
        total = hidden @ self.w2(state).abs().unsqueeze(-1) + self.V(state).unsqueeze(1)
        return total.view(b), act, h.view(b, self.n, -1)


class SAGE(nn.Module):
    """GraphSAGE mean and max with scatter_reduce, GIN sum with index_add, a readout per graph."""

    def __init__(self, d=4):
        super().__init__()
        self.l, self.r = nn.Linear(2 * d, 6), nn.Linear(d, 6, bias=False)
        self.gin, self.eps = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)), nn.Parameter(torch.zeros(1))
        self.out = nn.Linear(12, 2)

    def forward(self, x, edge_index, batch):
        src, dst = edge_index
        idx = dst.unsqueeze(-1).expand(-1, x.size(1))
        mean = torch.zeros_like(x).scatter_reduce(0, idx, x[src], reduce="mean", include_self=False)
        big = torch.zeros_like(x).scatter_reduce_(0, idx, x[src], "amax", include_self=False)
        h = F.normalize(self.l(torch.cat([mean, big], 1)) + self.r(x), dim=-1)
        h = self.gin((1 + self.eps) * h + torch.zeros_like(h).index_add(0, dst, h[src]))
        pooled = h.new_zeros(3, h.size(1)).index_add(0, batch, h)
        count = torch.bincount(batch, minlength=3)[:3].clamp_(min=1)
        peak = torch.full((3, h.size(1)), -1e9).index_reduce(0, batch, h, "amax")
        return self.out(torch.cat([pooled / count[:, None], torch.where(peak < -1e8, 0.0, peak)], 1))


class TriangleUpdate(nn.Module):
    """AlphaFold: outer product mean, triangle multiplication both ways, triangle attention."""

    def __init__(self, m=4, z=6, c=3, heads=2):
        super().__init__()
        self.h = heads
        self.a, self.b, self.o = nn.Linear(m, c), nn.Linear(m, c), nn.Linear(c * c, z)
        self.ln = nn.ModuleDict({k: nn.LayerNorm(z) for k in ("out", "in", "att")})
        self.proj = nn.ModuleDict({k: nn.Linear(z, 4 * c) for k in ("out", "in")})
        self.gate, self.back = nn.ModuleDict({k: nn.Linear(z, z) for k in ("out", "in")}), nn.ModuleDict({k: nn.Linear(c, z) for k in ("out", "in")})
        self.qkv, self.bias, self.fin = nn.Linear(z, 3 * z), nn.Linear(z, heads, bias=False), nn.Linear(z, z)

    def multiply(self, z, kind):
        x = self.ln[kind](z)
        a, b, ga, gb = self.proj[kind](x).chunk(4, -1)
        a, b = a * ga.sigmoid(), b * gb.sigmoid()
        eq = "bikc,bjkc->bijc" if kind == "out" else "bkic,bkjc->bijc"
        return self.back[kind](torch.einsum(eq, a, b)) * self.gate[kind](x).sigmoid()

    def forward(self, msa, z):
        a, b = self.a(msa), self.b(msa)
        z = z + self.o(torch.einsum("bsic,bsjd->bijcd", a, b).flatten(-2) / msa.shape[1])
        for kind in ("out", "in"):
            z = z + self.multiply(z, kind)
        x = self.ln["att"](z)
        B, N, _, D = x.shape
        q, k, v = self.qkv(x).view(B, N, N, 3, self.h, -1).unbind(3)
        s = torch.einsum("bijhd,bikhd->bhijk", q, k) * (D // self.h) ** -0.5 + self.bias(x).permute(0, 3, 1, 2).unsqueeze(2)
        y = torch.einsum("bhijk,bikhd->bijhd", s.softmax(-1), v).reshape(B, N, N, D)
        return z + self.fin(y)


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiT(nn.Module):
    """adaLN-zero blocks, classifier-free guidance on half of the batch, unpatchify."""

    def __init__(self, size=8, p=2, c=2, d=8, classes=5):
        super().__init__()
        self.p, self.c = p, c
        self.patch = nn.Conv2d(c, d, p, p)
        self.pos = nn.Parameter(torch.randn(1, (size // p) ** 2, d), requires_grad=False)
        self.t = nn.Sequential(nn.Linear(6, d), nn.SiLU(), nn.Linear(d, d))
        self.y = nn.Embedding(classes + 1, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d, elementwise_affine=False, eps=1e-6) for _ in range(3))
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.mlp = nn.Sequential(OrderedDict([("fc1", nn.Linear(d, 2 * d)), ("act", nn.GELU(approximate="tanh")), ("fc2", nn.Linear(2 * d, d))]))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        self.final_ada, self.final = nn.Sequential(nn.SiLU(), nn.Linear(d, 2 * d)), nn.Linear(d, p * p * c)

    def forward(self, x, t, y, cfg_scale: float = 1.5):
        x, t, y = torch.cat([x, x]), torch.cat([t, t]), torch.cat([y, torch.full_like(y, 5)])
        h = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        freqs = torch.exp(-math.log(10000) * torch.arange(3, dtype=torch.float32) / 3)
        c = self.t(torch.cat([torch.cos(t[:, None] * freqs), torch.sin(t[:, None] * freqs)], -1)) + self.y(y)
        s1, k1, g1, s2, k2, g2 = self.ada(c).chunk(6, dim=1)
        z = modulate(self.norms[0](h), s1, k1)
        h = h + g1.unsqueeze(1) * self.attn(z, z, z)[0]
        h = h + g2.unsqueeze(1) * self.mlp(modulate(self.norms[1](h), s2, k2))
        h = self.final(modulate(self.norms[2](h), *self.final_ada(c).chunk(2, dim=1)))
        n = int(h.shape[1] ** 0.5)
        assert n * n == h.shape[1]
        img = torch.einsum("nhwpqc->nchpwq", h.reshape(h.shape[0], n, n, self.p, self.p, self.c)).reshape(h.shape[0], self.c, n * self.p, n * self.p)
        cond, uncond = torch.split(img, len(img) // 2, dim=0)
        return uncond + cfg_scale * (cond - uncond)


class Snake(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, c, 1))

    def forward(self, x):
        return x + (self.alpha + 1e-9).reciprocal() * torch.sin(self.alpha * x).pow(2)


class RVQCodec(nn.Module):
    """Encodec: strided convs, snake, residual vector quantisation, weight-normed transposed convs."""

    def __init__(self, c=4, books=3, size=8):
        super().__init__()
        wn = nn.utils.parametrizations.weight_norm
        self.enc = nn.Sequential(wn(nn.Conv1d(1, c, 7, padding=3)), Snake(c), wn(nn.Conv1d(c, c, 4, stride=2, padding=1)))
        self.codebooks = nn.Parameter(torch.randn(books, size, c))
        self.dec = nn.Sequential(wn(nn.ConvTranspose1d(c, c, 4, stride=2, padding=1)), Snake(c), wn(nn.Conv1d(c, 1, 7, padding=3)), nn.Tanh())

    def forward(self, wav):
        z = self.enc(wav).transpose(1, 2)
        residual, total, codes = z, torch.zeros_like(z), []
        for book in self.codebooks:
            d = residual.pow(2).sum(-1, keepdim=True) - 2 * residual @ book.t() + book.pow(2).sum(-1)
            idx = d.argmin(-1)
            q = F.embedding(idx, book)
            residual = residual - q
            total += q
            codes.append(idx)
        return self.dec(total.transpose(1, 2)), torch.stack(codes, 1)


class SASRec(nn.Module):
    """Sequential recommendation: candidates scored by the last step, padding masked, embedding bags of genres."""

    def __init__(self, items=20, d=8):
        super().__init__()
        self.item = nn.Embedding(items, d, padding_idx=0)
        self.pos = nn.Embedding(16, d)
        self.genre = nn.EmbeddingBag(6, d, mode="mean", padding_idx=0)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(d, eps=1e-8), nn.LayerNorm(d, eps=1e-8)
        self.ff = nn.Sequential(nn.Conv1d(d, d, 1), nn.ReLU(), nn.Conv1d(d, d, 1))

    def forward(self, log_seqs, genres, candidates):
        x = self.item(log_seqs) * self.item.embedding_dim**0.5
        x = x + self.pos(torch.arange(log_seqs.shape[1]).unsqueeze(0)) + self.genre(genres).unsqueeze(1)
        pad = (log_seqs == 0).unsqueeze(-1)
        x *= ~pad
        L = x.shape[1]
        causal = ~torch.tril(torch.ones((L, L), dtype=torch.bool))
        q = self.ln1(x)
        a, w = self.attn(q, x, x, attn_mask=causal, need_weights=True, average_attn_weights=False)
        x = self.ln2(q + a)
        x = (self.ff(x.transpose(-1, -2)).transpose(-1, -2) + x).masked_fill(pad, 0)
        return (self.item(candidates) @ x[:, -1].unsqueeze(-1)).squeeze(-1), w


class Kitchen(nn.Module):
    """Reductions and shapes of all kinds in one go."""

    def forward(self, x):
        b, n, d = x.shape
        parts = torch.tensor_split(x, 3, dim=1)
        mid = reduce(torch.maximum, [p.sum(1) for p in parts])
        a, bb = x.unflatten(-1, (2, -1)).unbind(-2)
        std, mean = torch.std_mean(x, dim=(1, 2), correction=0)
        tri = x @ x.mT
        iu = torch.triu_indices(3, 3, offset=1)
        med = x.median(dim=1)
        return {
            "mid": mid,
            "outer": torch.einsum("bni,bnj->bij", a, bb),
            "z": (x - mean[:, None, None]) / std.view(-1, 1, 1),
            "tri": tri[:, :3, :3][:, iu[0], iu[1]] if True else None,
            "med": (med.values, med.indices),
            "roll": torch.roll(x, shifts=(1, -2), dims=(1, 2)).diff(dim=1),
            "cum": torch.logcumsumexp(x, 1) - torch.cummax(x, dim=1)[0],
            "kth": torch.kthvalue(x, 2, dim=1).values + x.movedim(1, 0).swapaxes(0, 1).amin(1),
            "hist": torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])).sum(1),
            "norms": torch.stack([x.norm(p, dim=-1) for p in (1, 2, float("inf"))], -1),
        }


MODELS = [
    entry(
        "graphormer",
        GraphTransformer,
        lambda s, g: {
            "ids": torch.randint(0, 12, (s["batch"], s["n"]), generator=g),
            "adj": (torch.rand(s["batch"], s["n"], s["n"], generator=g) > 0.6).float(),
        },
        dynamic={"ids": {0: "batch", 1: "n"}, "adj": {0: "batch", 1: "n", 2: "n"}},
        batch=2,
        n=(6, 2, 5, 9),
    ),
    entry(
        "graph_sage",
        SAGE,
        lambda s, g: {
            "x": torch.randn(s["n"], 4, generator=g),
            "edge_index": torch.randint(0, s["n"], (2, s["e"]), generator=g),
            "batch": torch.randint(0, 3, (s["n"],), generator=g).sort().values,
        },
        dynamic={"x": {0: "n"}, "edge_index": {1: "e"}, "batch": {0: "n"}},
        n=(8, 3, 5, 12),
        e=(14, 5, 9, 30),
    ),
    entry("triangle", TriangleUpdate, "msa=f32[batch,s,n,4] z=f32[batch,n,n,6]", dynamic=AXES, batch=2, s=(3, 1, 2, 5), n=(5, 2, 4, 6)),
    entry(
        "yolo_head",
        YoloHead,
        "p3=f32[batch,4,h,w] p4=f32[batch,6,hh,ww]",
        dynamic=AXES,
        batch=2,
        h=(4, 2, 6, 8),
        w=(6, 4, 2, 8),
        hh=(2, 1, 3, 4),
        ww=(3, 2, 1, 4),
    ),
    entry("dit", DiT, "x=f32[batch,2,8,8] t=f32[batch] y=i64[batch]<5", batch=2),
    entry("rvq_codec", RVQCodec, "wav=f32[batch,1,time]", dynamic=AXES, batch=2, time=(16, 4, 10, 32)),
    entry("n_beats", NBeats, "x=f32[batch,8]", batch=3),
    entry("autoformer", Autoformer, "x=f32[batch,12,4]", batch=2),
    entry("qmix", QMix, "obs=f32[batch,3,4] avail=i64[batch,3,5]<2 h=f32[batch,3,8] state=f32[batch,6]", batch=2),
    entry(
        "sasrec",
        SASRec,
        lambda s, g: {
            "log_seqs": torch.randint(0, 20, (s["batch"], s["seq"]), generator=g),
            "genres": torch.randint(1, 6, (s["batch"], 3), generator=g),
            "candidates": torch.randint(1, 20, (s["batch"], 4), generator=g),
        },
        dynamic={"log_seqs": {0: "batch", 1: "seq"}, "genres": {0: "batch"}, "candidates": {0: "batch"}},
        batch=2,
        seq=5,
    ),
    entry(
        "lora_encoder_padded",
        lora_bert,
        lambda s, g: {
            "x": torch.randn(s["batch"], s["seq"], 8, generator=g),
            "pad": torch.arange(s["seq"])[None] >= torch.randint(1, s["seq"] + 1, (s["batch"], 1), generator=g),
        },
        dynamic={"x": {0: "batch", 1: "seq"}, "pad": {0: "batch", 1: "seq"}},
        batch=2,
        seq=5,
    ),
    entry("kitchen", Kitchen, "x=f32[batch,n,4]", dynamic=AXES, batch=2, n=(7, 3, 6, 12)),
]
