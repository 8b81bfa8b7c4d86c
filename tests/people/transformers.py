"""Attention outside of language: vision transformers, cheaper attention, experts, sets."""

import math
from typing import Any, Callable, Dict, Union

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn

from .entry import AXES, entry


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d() if callable(d) else d


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, hidden_dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden_dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=8, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        project_out = not (heads == 1 and dim_head == dim)
        self.heads = heads
        self.scale = dim_head**-0.5
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout)) if project_out else nn.Identity()

    def forward(self, x):
        b, n, _, h = *x.shape, self.heads
        q, k, v = map(lambda t: t.view(b, n, h, -1).transpose(1, 2), self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        out = torch.matmul(self.attend(dots), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class ViT(nn.Module):
    def __init__(self, *, image_size=16, patch_size=4, num_classes=5, dim=16, depth=2, pool="cls", channels=3):
        super().__init__()
        ih, iw = pair(image_size)
        self.ph, self.pw = pair(patch_size)
        assert ih % self.ph == 0 and iw % self.pw == 0, "Image dimensions must be divisible by the patch size."
        num_patches = (ih // self.ph) * (iw // self.pw)
        assert pool in {"cls", "mean"}, "pool type must be either cls (cls token) or mean (mean pooling)"
        self.to_patch_embedding = nn.Sequential(nn.LayerNorm(channels * self.ph * self.pw), nn.Linear(channels * self.ph * self.pw, dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([PreNorm(dim, Attention(dim)), PreNorm(dim, FeedForward(dim, 2 * dim))]))
        self.pool = pool
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, img):
        b, c, hh, ww = img.shape
        x = img.reshape(b, c, hh // self.ph, self.ph, ww // self.pw, self.pw).permute(0, 2, 4, 3, 5, 1).flatten(1, 2).flatten(2)
        x = self.to_patch_embedding(x)
        x = torch.cat((self.cls_token.expand(b, -1, -1), x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        x = x.mean(dim=1) if self.pool == "mean" else x[:, 0]
        return self.mlp_head(x)


class ShiftedWindows(nn.Module):
    """Swin's pair of blocks: windows, then the same after a cyclic shift with a mask."""

    def __init__(self, dim=8, res=8, window=4):
        super().__init__()
        self.res, self.ws = res, window
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.qkv = nn.ModuleList([nn.Linear(dim, 3 * dim) for _ in range(2)])
        img = torch.zeros(1, res, res, 1)
        cnt, shift = 0, window // 2
        slices = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for h in slices:
            for w in slices:
                img[:, h, w, :] = cnt
                cnt += 1
        ids = self.partition(img).squeeze(-1)
        mask = ids[:, None, :] - ids[:, :, None]
        self.register_buffer("attn_mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0))

    def partition(self, x):
        B, H, W, C = x.shape
        x = x.view(B, H // self.ws, self.ws, W // self.ws, self.ws, C)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.ws**2, C)

    def reverse(self, windows):
        n = self.res // self.ws
        x = windows.view(-1, n, n, self.ws, self.ws, windows.shape[-1])
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.res, self.res, windows.shape[-1])

    def forward(self, x):
        for i, shift in enumerate((0, self.ws // 2)):
            shortcut, h = x, self.norms[i](x)
            if shift > 0:
                h = torch.roll(h, shifts=(-shift, -shift), dims=(1, 2))
            w = self.partition(h)
            q, k, v = self.qkv[i](w).chunk(3, -1)
            attn = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if shift > 0:
                nw = self.attn_mask.shape[0]
                attn = (attn.view(-1, nw, *attn.shape[1:]) + self.attn_mask[None]).flatten(0, 1)
            h = self.reverse(attn.softmax(-1) @ v)
            x = shortcut + (h.roll((shift, shift), (1, 2)) if shift else h)
        return x


class MixerBlock(nn.Module):
    def __init__(self, patches, dim):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Sequential(nn.Linear(patches, 12), nn.GELU(), nn.Linear(12, patches))
        self.channel = nn.Sequential(nn.Linear(dim, 24), nn.GELU(), nn.Linear(24, dim))

    def forward(self, x):
        x = x + self.token(self.ln1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel(self.ln2(x))


def MLPMixer(image_size=12, patch=4, dim=10, depth=2, classes=6):
    n = (image_size // patch) ** 2

    class Tokens(nn.Module):
        def forward(self, x):
            return x.flatten(2).transpose(1, 2)

    class Pool(nn.Module):
        def forward(self, x):
            return x.mean(dim=1)

    return nn.Sequential(
        nn.Conv2d(3, dim, patch, patch), Tokens(), *[MixerBlock(n, dim) for _ in range(depth)], nn.LayerNorm(dim), Pool(), nn.Linear(dim, classes)
    )


class SpatialGatingUnit(nn.Module):
    def __init__(self, d_ffn, seq_len):
        super().__init__()
        self.norm = nn.LayerNorm(d_ffn)
        self.spatial_proj = nn.Conv1d(seq_len, seq_len, kernel_size=1)
        nn.init.constant_(self.spatial_proj.bias, 1.0)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        return u * self.spatial_proj(self.norm(v))


class gMLP(nn.Module):
    def __init__(self, dim=8, ffn=12, seq_len=6, layers=2):
        super().__init__()
        block = lambda: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, ffn * 2), nn.GELU(), SpatialGatingUnit(ffn, seq_len), nn.Linear(ffn, dim))
        self.model = nn.ModuleList([block() for _ in range(layers)])

    def forward(self, x):
        for blk in self.model:
            x = x + blk(x)
        return x


class Performer(nn.Module):
    def __init__(self, dim=8, features=16):
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3)
        q, _ = torch.linalg.qr(torch.randn(features, dim), "reduced")
        self.register_buffer("projection_matrix", q * math.sqrt(dim))

    def softmax_kernel(self, data, is_query, eps=1e-4):
        norm = data.shape[-1] ** -0.25
        ratio = self.projection_matrix.shape[0] ** -0.5
        dash = torch.einsum("...id,jd->...ij", norm * data, self.projection_matrix)
        diag = (data**2).sum(-1, keepdim=True) / 2.0 * norm**2
        stab = torch.amax(dash, dim=-1, keepdim=True) if is_query else torch.amax(dash, dim=(-1, -2), keepdim=True)
        return ratio * (torch.exp(dash - diag - stab.detach()) + eps)

    def forward(self, x):
        q, k, v = self.qkv(x).tensor_split(3, dim=-1)
        q, k = self.softmax_kernel(q, True), self.softmax_kernel(k, False)
        D_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
        context = torch.einsum("...nd,...ne->...de", k, v)
        return torch.einsum("...de,...nd,...n->...ne", context, q, D_inv)


class Linformer(nn.Module):
    def __init__(self, dim=8, seq_len=10, k=4):
        super().__init__()
        self.to_q, self.to_kv = nn.Linear(dim, dim), nn.Linear(dim, dim * 2)
        self.proj = nn.ParameterDict({"k": nn.Parameter(torch.randn(seq_len, k)), "v": nn.Parameter(torch.randn(seq_len, k))})

    def forward(self, x):
        k, v = self.to_kv(x).chunk(2, -1)
        k, v = torch.einsum("bnd,nk->bkd", k, self.proj["k"]), torch.einsum("bnd,nk->bkd", v, self.proj["v"])
        return F.softmax(self.to_q(x) @ k.mT / math.sqrt(x.size(-1)), -1) @ v


class CrossAttention(nn.Module):
    def __init__(self, dim, context_dim=None, heads=2):
        super().__init__()
        context_dim = default(context_dim, dim)
        self.h = heads
        self.norm, self.norm_context = nn.LayerNorm(dim), nn.LayerNorm(context_dim)
        self.to_q, self.to_kv, self.to_out = nn.Linear(dim, dim, False), nn.Linear(context_dim, 2 * dim, False), nn.Linear(dim, dim)

    def forward(self, x, context=None, mask=None):
        x = self.norm(x)
        context = default(context, x) if context is None else self.norm_context(context)
        split = lambda t: t.reshape(*t.shape[:2], self.h, -1).transpose(1, 2)
        q, k, v = split(self.to_q(x)), *map(split, self.to_kv(context).chunk(2, dim=-1))
        sim = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if exists(mask):
            sim.masked_fill_(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        out = sim.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    def __init__(self, input_dim=5, dim=12, num_latents=4, depth=3, weight_tie_layers=True):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        make = lambda: nn.ModuleList([CrossAttention(dim, input_dim), FeedForward(dim, 2 * dim), CrossAttention(dim)])
        shared = make()
        self.layers = nn.ModuleList([shared if weight_tie_layers and i > 0 else make() for i in range(depth)])
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 3))

    def forward(self, data, mask=None):
        x = self.latents.unsqueeze(0).repeat(data.size(0), 1, 1)
        for cross, ff, self_attn in self.layers:
            x = cross(x, context=data, mask=mask) + x
            x = ff(x) + x
            x = self_attn(x) + x
        return self.to_logits(x.mean(dim=-2))


class MAB(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(dim, dim) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.num_heads = heads
        self.dim_V = dim

    def forward(self, Q, K):
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        dim_split = self.dim_V // self.num_heads
        Q_ = torch.cat(Q.split(dim_split, 2), 0)
        K_ = torch.cat(K.split(dim_split, 2), 0)
        V_ = torch.cat(V.split(dim_split, 2), 0)
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.dim_V), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))


class SetTransformer(nn.Module):
    def __init__(self, dim_in=3, dim=8, inducing=4, num_outputs=2):
        super().__init__()
        self.proj = nn.Linear(dim_in, dim)
        self.I = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, inducing, dim)))
        self.S = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, num_outputs, dim)))
        self.mab0, self.mab1, self.pma = MAB(dim), MAB(dim), MAB(dim)
        self.dec = nn.Linear(dim, 1)

    def forward(self, X):
        X = self.proj(X)
        H = self.mab0(self.I.repeat(X.size(0), 1, 1), X)
        X = self.mab1(X, H)
        return self.dec(self.pma(self.S.repeat(X.size(0), 1, 1), X)).squeeze()


class MoE(nn.Module):
    """Two of four experts for each token, computed for all and picked by a mask."""

    def __init__(self, dim=8, num_experts=4, top_k=2):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(dim, 16), nn.SiLU(), nn.Linear(16, dim)) for _ in range(num_experts)])
        self.top_k = top_k

    def forward(self, hidden_states):
        batch, seq, dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, dim)
        routing = F.softmax(self.gate(hidden_states), dim=1, dtype=torch.float)
        weights, selected = torch.topk(routing, self.top_k, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        final = torch.zeros_like(hidden_states)
        for expert_idx, expert in enumerate(self.experts):
            w = (weights * (selected == expert_idx)).sum(-1, keepdim=True)
            final += w * expert(hidden_states)
        load = F.one_hot(selected, len(self.experts)).sum((0, 1))
        return final.reshape(batch, seq, dim), load


class DETR(nn.Module):
    """The short one from the paper's appendix."""

    def __init__(self, num_classes=4, hidden_dim=16, nheads=2, num_layers=1):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1))
        self.conv = nn.Conv2d(12, hidden_dim, 1)
        self.transformer = nn.Transformer(hidden_dim, nheads, num_layers, num_layers, dim_feedforward=24)
        self.linear_class = nn.Linear(hidden_dim, num_classes + 1)
        self.linear_bbox = nn.Linear(hidden_dim, 4)
        self.query_pos = nn.Parameter(torch.rand(5, hidden_dim))
        self.row_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))
        self.col_embed = nn.Parameter(torch.rand(10, hidden_dim // 2))

    def forward(self, inputs: Union[Tensor, Any]) -> Dict[str, Tensor]:
        h = self.conv(self.backbone(inputs))
        H, W = h.shape[-2:]
        pos = torch.cat([self.col_embed[:W].unsqueeze(0).repeat(H, 1, 1), self.row_embed[:H].unsqueeze(1).repeat(1, W, 1)], dim=-1)
        pos = pos.flatten(0, 1).unsqueeze(1)
        h = self.transformer(pos + h.flatten(2).permute(2, 0, 1), self.query_pos.unsqueeze(1).repeat(1, h.shape[0], 1))
        logits, boxes = self.linear_class(h), self.linear_bbox(h).sigmoid()
        cx, cy, w, hh = boxes.unbind(-1)
        xyxy = torch.stack([cx - 0.5 * w, cy - 0.5 * hh, cx + 0.5 * w, cy + 0.5 * hh], dim=-1)
        keep = logits.softmax(-1)[..., :-1].max(-1).values > 0.2
        return {"pred_logits": logits, "pred_boxes": xyxy, "keep": keep}


class AttentionPool(nn.Module):
    score: Callable

    def __init__(self, dim=6, act=torch.tanh):
        super().__init__()
        self.w, self.u, self.act = nn.Linear(dim, dim), nn.Parameter(torch.randn(dim)), act

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        a = self.act(self.w(x)) @ self.u
        a = torch.where(mask, a, a.new_tensor(-1e9)).softmax(1)
        return (a[..., None] * x).sum(1)


MODELS = [
    entry("vit_from_scratch", lambda: ViT(), "img=f32[batch,3,16,16]", batch=2),
    entry("vit_mean_pool", lambda: ViT(image_size=(8, 16), pool="mean"), "img=f32[batch,3,8,16]", batch=2),
    entry("swin_windows", ShiftedWindows, "x=f32[batch,8,8,8]", batch=2),
    entry("mlp_mixer", MLPMixer, "input=f32[batch,3,12,12]", batch=2),
    entry("gmlp", gMLP, "x=f32[batch,6,8]", batch=2),
    entry("performer", Performer, "x=f32[batch,n,8]", dynamic=AXES, batch=2, n=(6, 1, 9, 13)),
    entry("linformer", Linformer, "x=f32[batch,10,8]", batch=2),
    entry("perceiver", Perceiver, "data=f32[batch,n,5] mask=bool[batch,n]", dynamic=AXES, batch=2, n=(7, 2, 5, 12)),
    entry("set_transformer", SetTransformer, "X=f32[batch,n,3]", dynamic=AXES, batch=(2, 3, 4, 5), n=(7, 2, 5, 12)),
    entry("mixture_of_experts", MoE, "hidden_states=f32[batch,seq,8]", dynamic=AXES, batch=2, seq=5),
    entry("detr_demo", DETR, "inputs=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(16, 9, 24, 12), w=(20, 16, 8, 12)),
    entry(
        "attention_pooling",
        AttentionPool,
        lambda s, g: {"x": torch.randn(s["batch"], s["n"], 6, generator=g), "lengths": torch.randint(1, s["n"] + 1, (s["batch"],), generator=g)},
        dynamic={"x": {0: "batch", 1: "n"}, "lengths": {0: "batch"}},
        batch=3,
        n=(6, 2, 5, 9),
    ),
]
