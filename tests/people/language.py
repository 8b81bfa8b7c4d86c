"""Language models and what is built from attention over tokens."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry

# ---- nanoGPT --------------------------------------------------------------------------------------------------


@dataclass
class GPTConfig:
    block_size: int = 32
    vocab_size: int = 65
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.1
    bias: bool = True


class LayerNorm(nn.Module):
    """LayerNorm but with an optional bias."""

    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        self.n_embd = config.n_embd
        self.dropout = config.dropout
        self.flash = config.bias  # the slow path is kept for the model without biases
        if not self.flash:
            mask = torch.tril(torch.ones(config.block_size, config.block_size))
            self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.2)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.2)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        assert t <= self.config.block_size, f"Cannot forward sequence of length {t}, block size is only {self.config.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits = self.lm_head(x[:, [-1], :])
            loss = None
        return logits, loss


# ---- RoPE, ALiBi, RMSNorm, SwiGLU by hand -----------------------------------------------------------------------


class RMSNorm(nn.Module):
    eps = 1e-6

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rotate_pairs(x):
    x = x.reshape(*x.shape[:-1], -1, 2)
    x1, x2 = x.unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads, interleaved=False, base=10000):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.interleaved = interleaved
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim // 2, bias=False)  # grouped: half as many heads
        self.wv = nn.Linear(dim, dim // 2, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        freqs = 1.0 / (base ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        self.register_buffer("freqs", freqs, persistent=False)

    def rotate(self, x):
        t = torch.arange(x.shape[-2], device=x.device, dtype=self.freqs.dtype)
        angles = torch.outer(t, self.freqs)
        if self.interleaved:
            angles = angles.repeat_interleave(2, dim=-1)
            return x * angles.cos() + rotate_pairs(x) * angles.sin()
        angles = torch.cat([angles, angles], dim=-1)
        return x * angles.cos() + rotate_half(x) * angles.sin()

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.heads, self.head_dim).transpose(1, 2)
        xk = self.wk(x).view(bsz, seqlen, self.heads // 2, self.head_dim).transpose(1, 2)
        xv = self.wv(x).view(bsz, seqlen, self.heads // 2, self.head_dim).transpose(1, 2)
        xq, xk = self.rotate(xq), self.rotate(xk)
        xk, xv = (t.repeat_interleave(2, dim=1) for t in (xk, xv))
        scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(self.head_dim)
        mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(1)
        scores = F.softmax((scores + mask).float(), dim=-1).type_as(xq)
        return self.wo((scores @ xv).transpose(1, 2).reshape(bsz, seqlen, -1))


class SwiGLU(nn.Module):
    def __init__(self, dim, multiple_of=8):
        super().__init__()
        hidden = int(2 * 4 * dim / 3)
        hidden = multiple_of * ((hidden + multiple_of - 1) // multiple_of)
        self.w1, self.w2, self.w3 = (nn.Linear(a, b, bias=False) for a, b in ((dim, hidden), (hidden, dim), (dim, hidden)))

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MyLlama(nn.Module):
    def __init__(self, vocab=50, dim=32, heads=4, depth=2, interleaved=False):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleList([RMSNorm(dim), RotaryAttention(dim, heads, interleaved), RMSNorm(dim), SwiGLU(dim)]))
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for norm1, attn, norm2, ff in self.layers:
            h = h + attn(norm1(h))
            h = h + ff(norm2(h))
        return self.output(self.norm(h)).float()


def get_alibi_slopes(n_heads):
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n_heads).is_integer():
        return power_of_2(n_heads)
    closest = 2 ** math.floor(math.log2(n_heads))
    return power_of_2(closest) + get_alibi_slopes(2 * closest)[0::2][: n_heads - closest]


class ALiBiTransformer(nn.Module):
    def __init__(self, vocab=40, d_model=24, n_heads=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model, padding_idx=0)
        self.qkv = nn.Linear(d_model, d_model * 3)
        self.proj = nn.Linear(d_model, d_model)
        self.n_heads = n_heads
        self.register_buffer("slopes", torch.tensor(get_alibi_slopes(n_heads)).view(n_heads, 1, 1))

    def forward(self, ids):
        x = self.embed(ids)
        B, N, D = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.n_heads, D // self.n_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        rel = torch.arange(N)[None, :] - torch.arange(N)[:, None]
        bias = self.slopes * rel.clamp(max=0)
        causal = torch.ones(N, N, dtype=torch.bool).tril()
        pad = (ids == 0)[:, None, None, :]
        att = (q * q.size(-1) ** -0.5) @ k.mT + bias
        att = att.masked_fill(~causal, -1e9).masked_fill(pad, -1e9).softmax(-1)
        out = torch.einsum("bhnm,bhmd->bnhd", att, v).reshape(B, N, -1)
        return x + self.proj(out)


class T5RelativeBias(nn.Module):
    """Buckets of relative positions, as T5 has them."""

    def __init__(self, num_buckets=8, max_distance=20, heads=2, dim=16):
        super().__init__()
        self.num_buckets, self.max_distance, self.heads = num_buckets, max_distance, heads
        self.relative_attention_bias = nn.Embedding(num_buckets, heads)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)

    @staticmethod
    def _bucket(relative_position, num_buckets=8, max_distance=20):
        ret = 0
        n = -relative_position
        num_buckets //= 2
        ret += (n < 0).to(torch.long) * num_buckets
        n = torch.abs(n)
        max_exact = num_buckets // 2
        is_small = n < max_exact
        val_if_large = max_exact + (torch.log(n.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)).to(torch.long)
        val_if_large = torch.min(val_if_large, torch.full_like(val_if_large, num_buckets - 1))
        ret += torch.where(is_small, n, val_if_large)
        return ret

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        pos = torch.arange(n)
        rp_bucket = self._bucket(pos[None, :] - pos[:, None], self.num_buckets, self.max_distance)
        bias = self.relative_attention_bias(rp_bucket).permute(2, 0, 1).unsqueeze(0)
        return ((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)


class CachedDecoderStep(nn.Module):
    """One token at a time; the caches come in and go out as tuples of (key, value)."""

    def __init__(self, vocab=30, dim=16, heads=2, n_layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.qkvs = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(n_layers))
        self.outs = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))
        self.heads = heads

    def forward(self, token, past_key_values=None):
        x = self.emb(token)
        presents = []
        for i, (qkv, out) in enumerate(zip(self.qkvs, self.outs)):
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv(x).chunk(3, dim=-1))
            if past_key_values is not None:
                past_k, past_v = past_key_values[i]
                k = torch.cat([past_k, k], dim=2)
                v = torch.cat([past_v, v], dim=2)
            presents.append((k, v))
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + out(y.transpose(1, 2).flatten(2))
        return x @ self.emb.weight.T, tuple(presents)


_CACHES = " ".join(f"past_key_values.{layer}.{i}=f32[batch,2,past,8]" for layer in range(2) for i in range(2))

MODELS = [
    entry("nanogpt", lambda: GPT(GPTConfig()), "idx=i64[batch,seq]<65", batch=2, seq=8),
    entry("nanogpt_loss", lambda: GPT(GPTConfig(bias=False)), "idx=i64[batch,seq]<65 targets=i64[batch,seq]<65", batch=2, seq=9),
    entry("llama_by_hand", MyLlama, "tokens=i64[batch,seq]<50", batch=2, seq=7),
    entry("llama_interleaved", lambda: MyLlama(interleaved=True), "tokens=i64[batch,seq]<50", batch=2, seq=7),
    entry("alibi", ALiBiTransformer, "ids=i64[batch,seq]<40", batch=2, seq=6),
    entry("t5_relative_bias", T5RelativeBias, "x=f32[batch,seq,16]", dynamic=AXES, batch=2, seq=(11, 1, 7, 30)),
    entry("kv_cache", CachedDecoderStep, f"token=i64[batch,1]<30 {_CACHES}", dynamic=AXES, batch=2, past=(5, 1, 3, 9)),
    entry("kv_cache_first", CachedDecoderStep, "token=i64[batch,seq]<30", batch=2, seq=4),
]
