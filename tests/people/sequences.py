"""Sequence models: scans, memories, attention of other kinds, searches, forecasts."""

import math
from functools import partial
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


def segsum(x):
    T = x.size(-1)
    x_cumsum = torch.cumsum(x, dim=-1)
    x_segsum = x_cumsum[..., :, None] - x_cumsum[..., None, :]
    mask = torch.tril(torch.ones(T, T, device=x.device, dtype=bool), diagonal=0)
    return x_segsum.masked_fill(~mask, -torch.inf)


class SSD(nn.Module):
    """Mamba-2 minimal."""

    def __init__(self, d=8, heads=2, n=4, block_len=4):
        super().__init__()
        self.h, self.n, self.block_len = heads, n, block_len
        self.in_proj = nn.Linear(d, 2 * d + 2 * n + heads, bias=False)
        self.conv = nn.Conv1d(d + 2 * n, d + 2 * n, 4, padding=3, groups=d + 2 * n)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, heads + 1).float()))
        self.dt_bias = nn.Parameter(torch.zeros(heads))
        self.D = nn.Parameter(torch.ones(heads))
        self.out = nn.Linear(d, d)
        self.d = d

    def forward(self, u):
        b, l, _ = u.shape
        z, xBC, dt = torch.split(self.in_proj(u), [self.d, self.d + 2 * self.n, self.h], dim=-1)
        dt = F.softplus(dt + self.dt_bias)
        xBC = F.silu(self.conv(xBC.transpose(1, 2))[..., :l].transpose(1, 2))
        x, B, C = torch.split(xBC, [self.d, self.n, self.n], dim=-1)
        X = x.view(b, l, self.h, -1) * dt.unsqueeze(-1)
        A = -torch.exp(self.A_log) * dt
        c = l // self.block_len
        X = X.reshape(b, c, self.block_len, self.h, -1)
        A = A.reshape(b, c, self.block_len, self.h).permute(0, 3, 1, 2)
        B = B.reshape(b, c, self.block_len, 1, self.n).expand(-1, -1, -1, self.h, -1)
        C = C.reshape(b, c, self.block_len, 1, self.n).expand(-1, -1, -1, self.h, -1)
        A_cumsum = torch.cumsum(A, dim=-1)
        L = torch.exp(segsum(A))
        Y_diag = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", C, B, L, X)
        decay_states = torch.exp((A_cumsum[:, :, :, -1:] - A_cumsum))
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", B, decay_states, X)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
        decay_chunk = torch.exp(segsum(F.pad(A_cumsum[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", decay_chunk, states)[:, :-1]
        Y_off = torch.einsum("bclhn,bchpn,bhcl->bclhp", C, states, torch.exp(A_cumsum))
        y = (Y_diag + Y_off).reshape(b, l, self.h, -1) + x.view(b, l, self.h, -1) * self.D[:, None]
        return self.out(y.reshape(b, l, -1) * F.silu(z))


class NeuralCDE(nn.Module):
    """Linear interpolation, RK4 with 3/8 rule."""

    def __init__(self, c=3, h=5):
        super().__init__()
        self.initial = nn.Linear(c, h)
        self.func = nn.Sequential(nn.Linear(h, 8), nn.ReLU(), nn.Linear(8, h * c), nn.Tanh())
        self.readout = nn.Linear(h, 2)
        self.h, self.c = h, c

    def field(self, t, z, X):
        i = int(min(math.floor(t), X.size(1) - 2))
        dX = X[:, i + 1] - X[:, i]
        return torch.bmm(self.func(z).view(-1, self.h, self.c), dX.unsqueeze(-1)).squeeze(-1)

    def forward(self, X):
        z = self.initial(X[:, 0])
        zs = [z]
        for i in range(X.size(1) - 1):
            f = partial(self.field, X=X)
            k1 = f(i, z)
            k2 = f(i + 1 / 3, z + k1 / 3)
            k3 = f(i + 2 / 3, z + (k2 - k1 / 3))
            k4 = f(i + 1, z + (k1 - k2 + k3))
            z = z + (k1 + 3 * (k2 + k3) + k4) * 0.125
            zs.append(z)
        return self.readout(z), torch.stack(zs, 1)


class BeamStep(nn.Module):
    """One step of beam search: scores, parents and tokens, reordered states."""

    def __init__(self, vocab=11, d=6, beam=3):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(vocab, d), nn.GRUCell(d, d), nn.Linear(d, vocab)
        self.beam, self.eos = beam, 2

    def forward(self, tokens, h, scores, finished):
        B, K = tokens.shape
        h = self.cell(self.emb(tokens).view(B * K, -1), h.reshape(B * K, -1))
        logp = F.log_softmax(self.out(h), dim=-1).view(B, K, -1)
        V = logp.shape[-1]
        only_eos = torch.full((V,), float("-inf"))
        only_eos[self.eos] = 0.0
        logp = torch.where(finished[..., None], only_eos, logp)
        total = (scores[..., None] + logp).view(B, -1)
        scores, flat = total.topk(self.beam, dim=-1, sorted=True)
        parent, token = torch.div(flat, V, rounding_mode="floor"), flat % V
        rows = (torch.arange(B).unsqueeze(1) * K + parent).view(-1)
        h = h.index_select(0, rows).view(B, self.beam, -1)
        finished = finished.gather(1, parent) | token.eq(self.eos)
        return {"tokens": token, "parents": parent, "scores": scores, "h": h, "finished": finished}


class Viterbi(nn.Module):
    def __init__(self, tags=5, d=6):
        super().__init__()
        self.emit = nn.Linear(d, tags)
        self.trans = nn.Parameter(torch.randn(tags, tags))
        self.start = nn.Parameter(torch.randn(tags))

    def forward(self, x, mask):
        e = self.emit(x)
        score = self.start + e[:, 0]
        back = []
        for t in range(1, x.shape[1]):
            s, idx = (score.unsqueeze(2) + self.trans).max(dim=1)
            s = s + e[:, t]
            m = mask[:, t].unsqueeze(1)
            score = torch.where(m, s, score)
            back.append(torch.where(m, idx, torch.arange(score.shape[1]).expand_as(idx)))
        best, last = score.max(-1)
        path = [last]
        for idx in reversed(back):
            last = idx.gather(1, last.unsqueeze(1)).squeeze(1)
            path.append(last)
        return best, torch.stack(path[::-1], 1)


class ConvLSTM(nn.Module):
    def __init__(self, c=2, h=3):
        super().__init__()
        self.h = h
        self.gates = nn.Conv2d(c + h, 4 * h, 3, padding="same")
        self.peep = nn.ParameterList([nn.Parameter(torch.randn(h, 1, 1)) for _ in range(3)])

    def forward(self, frames, state: Optional[tuple] = None):
        B, T, C, H, W = frames.size()
        h, c = state or (frames.new_zeros(B, self.h, H, W), frames.new_zeros(B, self.h, H, W))
        out = []
        for t in range(T):
            i, f, g, o = self.gates(torch.cat([frames[:, t], h], 1)).chunk(4, 1)
            i = torch.sigmoid(i + self.peep[0] * c)
            f = torch.sigmoid(f + self.peep[1] * c)
            c = f * c + i * g.tanh()
            o = torch.sigmoid(o + self.peep[2] * c)
            h = o * torch.tanh(c)
            out += [h]
        return torch.stack(out, dim=1), (h, c)


class LSHAttention(nn.Module):
    """Reformer: rotations, buckets, sort, chunks, unsort."""

    def __init__(self, d=6, buckets=4, chunk=4):
        super().__init__()
        self.qk, self.v = nn.Linear(d, d, False), nn.Linear(d, d)
        self.register_buffer("rot", torch.randn(d, buckets // 2))
        self.chunk = chunk

    def forward(self, x):
        b, n, d = x.shape
        qk, v = self.qk(x), self.v(x)
        r = qk @ self.rot
        buckets = torch.cat([r, -r], -1).argmax(-1)
        order = (buckets * n + torch.arange(n)).argsort(-1)
        undo = order.argsort(-1)
        take = lambda t: t.gather(1, order.unsqueeze(-1).expand(-1, -1, t.shape[-1]))
        sq, sv = take(qk).view(b, -1, self.chunk, d), take(v).view(b, -1, self.chunk, d)
        sk = F.normalize(sq, p=2, dim=-1)
        look = lambda t: torch.cat([t, t.roll(1, 1)], 2)
        dots = sq @ look(sk).transpose(-1, -2) / d**0.5
        p = torch.exp(dots - dots.logsumexp(-1, keepdim=True))
        o = (p @ look(sv)).view(b, n, d)
        return o.gather(1, undo[..., None].expand_as(o))


class DeltaNet(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.q, self.k, self.v, self.b = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1)

    def forward(self, x):
        q, k, v = self.q(x), F.normalize(F.silu(self.k(x)), dim=-1), self.v(x)
        beta = self.b(x).sigmoid()
        S = x.new_zeros(x.size(0), x.size(2), x.size(2))
        ys = []
        for t in range(x.size(1)):
            kt, vt = k[:, t], v[:, t]
            S = S + torch.einsum("bi,bj->bij", beta[:, t] * (vt - torch.einsum("bij,bj->bi", S, kt)), kt)
            ys.append(torch.einsum("bij,bj->bi", S, q[:, t]))
        return torch.stack(ys, 1), S


class S4D(nn.Module):
    """Diagonal SSM: a kernel of complex exponentials, convolution by FFT."""

    def __init__(self, h=4, n=6):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(h) - 3)
        self.C = nn.Parameter(torch.view_as_real(torch.randn(h, n // 2, dtype=torch.cfloat)))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(h, n // 2)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(n // 2).repeat(h, 1).float())
        self.D = nn.Parameter(torch.randn(h))
        self.out = nn.Sequential(nn.Conv1d(h, 2 * h, 1), nn.GLU(dim=-2))

    def forward(self, u):
        L = u.size(-1)
        dt = torch.exp(self.log_dt)
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(L)
        C = C * (torch.exp(dtA) - 1.0) / A
        K = 2 * torch.einsum("hn, hnl -> hl", C, torch.exp(K)).real
        k_f, u_f = torch.fft.rfft(K, n=2 * L), torch.fft.rfft(u, n=2 * L)
        y = torch.fft.irfft(u_f * k_f, n=2 * L)[..., :L] + u * self.D.unsqueeze(-1)
        return self.out(F.gelu(y))


class RelShiftAttention(nn.Module):
    """Transformer-XL / Conformer relative positions with a memory that is a state."""

    def __init__(self, d=8, heads=2, mem=3):
        super().__init__()
        self.h, self.dh = heads, d // heads
        self.qkv, self.r = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.u, self.v = nn.Parameter(torch.randn(heads, d // heads)), nn.Parameter(torch.randn(heads, d // heads))
        self.register_buffer("inv", 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))
        self.register_buffer("mem", torch.zeros(1, mem, d))

    def forward(self, x):
        m = self.mem.expand(x.size(0), -1, -1)
        c = torch.cat([m, x], 1)
        B, n, K = x.size(0), x.size(1), c.size(1)
        pos = torch.arange(K - 1, -1, -1.0)
        s = torch.outer(pos, self.inv)
        r = self.r(torch.cat([s.sin(), s.cos()], -1)).view(K, self.h, self.dh)
        q, k, v = self.qkv(c).view(B, K, 3, self.h, self.dh).unbind(2)
        q = q[:, -n:]
        AC = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        BD = torch.einsum("bihd,jhd->bhij", q + self.v, r)
        BD = F.pad(BD, (1, 0)).view(B, self.h, K + 1, n)[:, :, 1:].reshape(B, self.h, n, K)
        mask = torch.ones(n, K, dtype=torch.bool).triu(1 + self.mem.size(1))
        a = ((AC + BD) / self.dh**0.5).masked_fill(mask, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bjhd->bihd", a, v).reshape(B, n, -1)
        self.mem.copy_(c[:1, -self.mem.size(1) :].detach())
        return x + y


class CTCGreedy(nn.Module):
    def __init__(self, vocab=6):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(4, 8, 3, 2, 1), nn.Hardswish(), nn.Conv1d(8, vocab, 3, padding=1))

    def forward(self, x, lengths):
        logp = self.net(x.transpose(1, 2)).permute(2, 0, 1).log_softmax(2)
        best = logp.argmax(2).t()
        lengths = torch.div(lengths + 1, 2, rounding_mode="trunc")
        prev = torch.cat([torch.full_like(best[:, :1], -1), best[:, :-1]], 1)
        keep = (best != prev) & (best != 0) & (torch.arange(best.size(1)) < lengths.unsqueeze(1))
        pos = keep.cumsum(1) - 1
        out = best.new_zeros(best.size(0), best.size(1) + 1)
        out.scatter_(1, torch.where(keep, pos, best.size(1)), torch.where(keep, best, 0))
        return out[:, :-1], keep.sum(1), logp.max(2).values.sum(0)


class DecisionTransformer(nn.Module):
    """Returns, states and actions interleaved."""

    def __init__(self, s=4, a=3, d=8, max_t=20):
        super().__init__()
        self.t, self.r, self.s, self.a = nn.Embedding(max_t, d), nn.Linear(1, d), nn.Linear(s, d), nn.Embedding(a, d)
        self.ln = nn.LayerNorm(d)
        layer = nn.TransformerEncoderLayer(d, 2, 16, batch_first=True, dropout=0.0)
        self.blocks = nn.TransformerEncoder(layer, num_layers=2)
        self.pa, self.ps, self.pr = nn.Linear(d, a), nn.Linear(d, s), nn.Linear(d, 1)

    def forward(self, states, actions, rtg, timesteps):
        B, T, _ = states.shape
        te = self.t(timesteps)
        h = torch.stack((self.r(rtg) + te, self.s(states) + te, self.a(actions) + te), dim=1).permute(0, 2, 1, 3).reshape(B, 3 * T, -1)
        mask = nn.Transformer.generate_square_subsequent_mask(3 * T)
        h = self.blocks(self.ln(h), mask=mask, is_causal=True).reshape(B, T, 3, -1).permute(0, 2, 1, 3)
        return self.ps(h[:, 2]), self.pa(h[:, 1]), self.pr(h[:, 2])


class State(NamedTuple):
    deter: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor


class RSSM(nn.Module):
    """Dreamer's world model, imagined along given actions."""

    def __init__(self, a=2, s=3, h=5):
        super().__init__()
        self.inp, self.cell, self.prior = nn.Linear(s + a, 6), nn.GRUCell(6, h), nn.Linear(h, 2 * s)
        self.reward = nn.Sequential(nn.LayerNorm(h + s), nn.Linear(h + s, 1), nn.Flatten(0))

    def step(self, state: State, action):
        x = F.silu(self.inp(torch.cat((state.mean, action), -1)))
        deter = self.cell(x, state.deter)
        mean, std = self.prior(deter).chunk(2, -1)
        return State(deter, mean, F.softplus(std) + 0.1)

    def forward(self, actions, state: State):
        states, rewards = [], []
        for a in actions.unbind(dim=1):
            state = self.step(state, a)
            states.append(state)
            rewards.append(self.reward(torch.cat(state[:2], -1)))
        return State(*[torch.stack(x, 1) for x in zip(*states)]), torch.stack(rewards, -1)


class MLA(nn.Module):
    """DeepSeek's latent attention with decoupled rotary keys, soft-capped, QK-normed."""

    def __init__(self, d=8, h=2, dn=4, dr=4, dv=3, qr=6, kvr=6):
        super().__init__()
        self.h, self.dn, self.dr, self.dv, self.kvr = h, dn, dr, dv, kvr
        self.wq_a, self.q_norm, self.wq_b = nn.Linear(d, qr, bias=False), nn.RMSNorm(qr, eps=1e-6), nn.Linear(qr, h * (dn + dr), bias=False)
        self.wkv_a, self.kv_norm, self.wkv_b = nn.Linear(d, kvr + dr, bias=False), nn.RMSNorm(kvr), nn.Linear(kvr, h * (dn + dv), bias=False)
        self.wo = nn.Linear(h * dv, d, bias=False)
        freqs = 1.0 / (10000.0 ** (torch.arange(0, dr, 2)[: dr // 2].float() / dr))
        self.register_buffer("freqs_cis", torch.polar(torch.ones(32, dr // 2), torch.outer(torch.arange(32), freqs)), persistent=False)

    def rotary(self, x, f):
        y = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
        return torch.view_as_real(y * f.view(1, x.size(1), 1, y.size(-1))).flatten(3).to(x.dtype)

    def forward(self, x):
        b, s, _ = x.size()
        f = self.freqs_cis[:s]
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(b, s, self.h, -1)
        qn, qr = torch.split(q, [self.dn, self.dr], dim=-1)
        kv, kr = torch.split(self.wkv_a(x), [self.kvr, self.dr], dim=-1)
        kr = self.rotary(kr.unsqueeze(2), f)
        wkv_b = self.wkv_b.weight.view(self.h, -1, self.kvr)
        qn = torch.einsum("bshd,hdc->bshc", qn, wkv_b[:, : self.dn])
        c = self.kv_norm(kv)
        scores = (torch.einsum("bshc,btc->bsht", qn, c) + torch.einsum("bshr,btr->bsht", self.rotary(qr, f), kr.squeeze(2))) * (
            self.dn + self.dr
        ) ** -0.5
        scores = 30.0 * torch.tanh(scores / 30.0)
        scores += torch.full((s, s), float("-inf")).triu_(1).unsqueeze(1)
        o = torch.einsum("bsht,btc->bshc", scores.softmax(dim=-1, dtype=torch.float32).type_as(x), c)
        return self.wo(torch.einsum("bshc,hdc->bshd", o, wkv_b[:, -self.dv :]).flatten(2))


class RNNT(nn.Module):
    def __init__(self, vocab=7, d=6):
        super().__init__()
        self.enc = nn.LSTM(4, d, num_layers=2, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * d, d)
        self.emb, self.pred = nn.Embedding(vocab, d, padding_idx=0), nn.GRU(d, d, batch_first=True)
        self.joint = nn.Sequential(nn.Linear(2 * d, d), nn.Tanh(), nn.Linear(d, vocab))

    def forward(self, x, y):
        f = self.proj(self.enc(x)[0])
        g, _ = self.pred(self.emb(F.pad(y, (1, 0), value=0)))
        T, U = f.size(1), g.size(1)
        h = torch.cat([f.unsqueeze(2).expand(-1, -1, U, -1), g.unsqueeze(1).expand(-1, T, -1, -1)], dim=-1)
        return self.joint(h).log_softmax(-1)


MODELS = [
    entry("ssd_mamba2", SSD, "u=f32[batch,8,8]", batch=2),
    entry("neural_cde", NeuralCDE, "X=f32[batch,4,3]", batch=2),
    entry("delta_net", DeltaNet, "x=f32[batch,4,6]", batch=2),
    entry("s4d", S4D, "u=f32[batch,4,time]", dynamic=AXES, batch=2, time=(9, 3, 5, 12)),
    entry("transformer_xl", RelShiftAttention, "x=f32[batch,seq,8]", dynamic=AXES, batch=2, seq=5),
    entry("lsh_attention", LSHAttention, "x=f32[batch,8,6]", batch=2),
    entry("mla", MLA, "x=f32[batch,seq,8]", dynamic=AXES, batch=2, seq=6),
    entry("beam_step", BeamStep, "tokens=i64[batch,3]<11 h=f32[batch,3,6] scores=f32[batch,3] finished=bool[batch,3]", dynamic="batch", batch=2),
    entry("viterbi", Viterbi, "x=f32[batch,5,6] mask=bool[batch,5]", batch=3),
    entry(
        "ctc_greedy",
        CTCGreedy,
        lambda s, g: {"x": torch.randn(s["batch"], s["t"], 4, generator=g), "lengths": torch.randint(1, s["t"] + 1, (s["batch"],), generator=g)},
        dynamic={"x": {0: "batch", 1: "t"}, "lengths": {0: "batch"}},
        batch=3,
        t=(9, 4, 5, 16),
    ),
    entry("rnn_transducer", RNNT, "x=f32[batch,t,4] y=i64[batch,u]<7", dynamic=AXES, batch=2, t=(6, 1, 5, 9), u=(3, 1, 2, 5)),
    entry("conv_lstm", ConvLSTM, "frames=f32[batch,3,2,h,w]", dynamic=AXES, batch=2, h=(5, 3, 4, 8), w=(6, 4, 5, 7)),
    entry("conv_lstm_state", ConvLSTM, "frames=f32[batch,3,2,5,6] state.0=f32[batch,3,5,6] state.1=f32[batch,3,5,6]", batch=2),
    entry(
        "decision_transformer",
        DecisionTransformer,
        "states=f32[batch,t,4] actions=i64[batch,t]<3 rtg=f32[batch,t,1] timesteps=i64[batch,t]<20",
        dynamic=AXES,
        batch=2,
        t=(4, 1, 3, 6),
    ),
    entry(
        "rssm",
        RSSM,
        lambda s, g: {
            "actions": torch.randn(s["batch"], 4, 2, generator=g),
            "state": State(*(torch.randn(s["batch"], n, generator=g) for n in (5, 3, 3))),
        },
        batch=2,
    ),
]
