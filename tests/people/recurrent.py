"""Recurrences: loops over time, encoders with decoders, state spaces, and sequence labelling."""

import random
from typing import List, NamedTuple, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class TimeMix(nn.Module):
    """RWKV's time mixing, with the recurrence as a loop."""

    def __init__(self, n_embd):
        super().__init__()
        self.time_decay = nn.Parameter(torch.linspace(-2, 1, n_embd))
        self.time_first = nn.Parameter(torch.ones(n_embd) * 0.3)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.time_mix_k, self.time_mix_v, self.time_mix_r = (nn.Parameter(torch.rand(1, 1, n_embd)) for _ in range(3))
        self.key = nn.Linear(n_embd, n_embd, bias=False)
        self.value = nn.Linear(n_embd, n_embd, bias=False)
        self.receptance = nn.Linear(n_embd, n_embd, bias=False)
        self.output = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        xx = self.time_shift(x)
        k = self.key(x * self.time_mix_k + xx * (1 - self.time_mix_k))
        v = self.value(x * self.time_mix_v + xx * (1 - self.time_mix_v))
        r = torch.sigmoid(self.receptance(x * self.time_mix_r + xx * (1 - self.time_mix_r)))
        w = -torch.exp(self.time_decay)
        aa, bb = torch.zeros(B, C), torch.zeros(B, C)
        pp = torch.full((B, C), -1e38)
        out = []
        for t in range(T):
            kt, vt = k[:, t], v[:, t]
            ww = self.time_first + kt
            p = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
            out.append((e1 * aa + e2 * vt) / (e1 * bb + e2))
            ww = pp + w
            p = torch.maximum(ww, kt)
            e1, e2 = torch.exp(ww - p), torch.exp(kt - p)
            aa, bb, pp = e1 * aa + e2 * vt, e1 * bb + e2, p
        return self.output(r * torch.stack(out, dim=1))


class RWKV(nn.Module):
    def __init__(self, vocab=30, n_embd=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, n_embd)
        self.ln0 = nn.LayerNorm(n_embd)
        self.att = TimeMix(n_embd)
        self.ln1 = nn.LayerNorm(n_embd)
        self.ffn_key = nn.Linear(n_embd, 4 * n_embd, bias=False)
        self.ffn_value = nn.Linear(4 * n_embd, n_embd, bias=False)
        self.head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx):
        x = self.ln0(self.emb(idx))
        x = x + self.att(self.ln1(x))
        x = x + self.ffn_value(torch.square(torch.relu(self.ffn_key(x))))
        return self.head(x)


class LSTMLanguageModel(nn.Module):
    def __init__(self, ntoken=40, ninp=12, nhid=12, nlayers=2, tie_weights=True):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=0.5)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("When using the tied flag, nhid must be equal to emsize")
            self.decoder.weight = self.encoder.weight
        self.ntoken = ntoken

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output)
        decoded = decoded.view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hid, bidirectional=True)
        self.fc = nn.Linear(hid * 2, hid)

    def forward(self, src):
        outputs, hidden = self.rnn(self.embedding(src))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))
        return outputs, hidden


class Attention(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.attn = nn.Linear(hid * 3, hid)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, hidden, encoder_outputs, mask):
        src_len = encoder_outputs.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        encoder_outputs = encoder_outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, encoder_outputs), dim=2)))
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask == 0, -1e10)
        return F.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid, attention):
        super().__init__()
        self.attention = attention
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRUCell(hid * 2 + emb, hid)
        self.fc_out = nn.Linear(hid * 3 + emb, vocab)

    def forward(self, input, hidden, encoder_outputs, mask):
        embedded = self.embedding(input)
        a = self.attention(hidden, encoder_outputs, mask).unsqueeze(1)
        weighted = torch.bmm(a, encoder_outputs.permute(1, 0, 2)).squeeze(1)
        hidden = self.rnn(torch.cat((embedded, weighted), dim=1), hidden)
        prediction = self.fc_out(torch.cat((hidden, weighted, embedded), dim=1))
        return prediction, hidden, a.squeeze(1)


class Seq2Seq(nn.Module):
    """Translates: the decoder feeds its own best word back."""

    def __init__(self, src_pad_idx=0, vocab=20, emb=8, hid=8):
        super().__init__()
        self.encoder = Encoder(vocab, emb, hid)
        self.decoder = Decoder(vocab, emb, hid, Attention(hid))
        self.src_pad_idx = src_pad_idx

    def create_mask(self, src):
        return (src != self.src_pad_idx).permute(1, 0)

    def forward(self, src, trg, teacher_forcing_ratio=0.0):
        trg_len = 5
        outputs = []
        encoder_outputs, hidden = self.encoder(src)
        input = trg[0, :]
        mask = self.create_mask(src)
        for t in range(1, trg_len):
            output, hidden, _ = self.decoder(input, hidden, encoder_outputs, mask)
            outputs.append(output)
            teacher_force = teacher_forcing_ratio > 0 and random.random() < teacher_forcing_ratio
            top1 = output.argmax(1)
            input = trg[t] if teacher_force else top1
        return torch.stack(outputs)


class PointerNetwork(nn.Module):
    def __init__(self, hid=10, steps=3):
        super().__init__()
        self.encoder = nn.LSTM(2, hid, batch_first=True)
        self.cell = nn.LSTMCell(2, hid)
        self.W1, self.W2 = nn.Linear(hid, hid, bias=False), nn.Linear(hid, hid, bias=False)
        self.vt = nn.Linear(hid, 1, bias=False)
        self.start = nn.Parameter(torch.randn(2))
        self.steps = steps

    def forward(self, points: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        enc, (h, c) = self.encoder(points)
        h, c = h[-1], c[-1]
        mask = torch.zeros(points.shape[:2], dtype=torch.bool)
        x = self.start.expand(points.shape[0], -1)
        logs, picks = [], []
        for _ in range(self.steps):
            h, c = self.cell(x, (h, c))
            u = self.vt(torch.tanh(self.W1(enc) + self.W2(h)[:, None])).squeeze(-1)
            log = F.log_softmax(u.masked_fill(mask, -1e4), dim=-1)
            idx = log.argmax(-1)
            mask = mask.scatter(1, idx[:, None], True)
            x = points[torch.arange(points.size(0)), idx]
            logs.append(log)
            picks.append(idx)
        return torch.stack(logs, 1), torch.stack(picks, 1)


class SelectiveScan(nn.Module):
    """Mamba's block in plain PyTorch."""

    def __init__(self, d_model=8, d_state=4, d_conv=3, expand=2):
        super().__init__()
        self.d_inner = int(expand * d_model)
        self.dt_rank = max(1, d_model // 4)
        self.d_state = d_state
        self.in_proj = nn.Linear(d_model, self.d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner)
        A = torch.arange(1, d_state + 1, dtype=torch.float32).repeat(self.d_inner, 1)
        self.A_log = nn.Parameter(torch.log(A))
        self.D = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, x):
        (b, l, d) = x.shape
        x, res = self.in_proj(x).split([self.d_inner, self.d_inner], dim=-1)
        x = self.conv1d(x.transpose(1, 2))[..., :l].transpose(1, 2)
        y = self.ssm(F.silu(x)) * F.silu(res)
        return self.out_proj(y)

    def ssm(self, x):
        n = self.A_log.shape[1]
        A = -torch.exp(self.A_log.float())
        delta, B, C = self.x_proj(x).split(split_size=[self.dt_rank, n, n], dim=-1)
        delta = F.softplus(self.dt_proj(delta))
        deltaA = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        deltaB_u = torch.einsum("bld,bln,bld->bldn", delta, B, x)
        h = torch.zeros((x.shape[0], x.shape[2], n), device=deltaA.device)
        ys = []
        for i in range(x.shape[1]):
            h = deltaA[:, i] * h + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i, :]))
        return torch.stack(ys, dim=1) + x * self.D


class CRF(nn.Module):
    """The log partition by the forward algorithm, and Viterbi's best score."""

    def __init__(self, in_dim=6, num_tags=5):
        super().__init__()
        self.emit = nn.Linear(in_dim, num_tags)
        self.transitions = nn.Parameter(torch.randn(num_tags, num_tags))
        self.start, self.end = (nn.Parameter(torch.randn(num_tags)) for _ in "se")

    def forward(self, feats, tags):
        emissions = self.emit(feats)
        alpha = best = self.start + emissions[:, 0]
        gold = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        for t in range(1, feats.size(1)):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions, dim=1) + emissions[:, t]
            best = (best.unsqueeze(2) + self.transitions).max(dim=1).values + emissions[:, t]
            gold = gold + self.transitions[tags[:, t - 1], tags[:, t]]
            gold = gold + emissions[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
        return {
            "nll": torch.logsumexp(alpha + self.end, 1) - (gold + self.end[tags[:, -1]]),
            "viterbi": (best + self.end).max(1)[0],
        }


class HMM(nn.Module):
    def __init__(self, states=4, symbols=6):
        super().__init__()
        self.log_pi = nn.Parameter(torch.randn(states))
        self.log_A = nn.Parameter(torch.randn(states, states))
        self.log_B = nn.Parameter(torch.randn(states, symbols))

    def forward(self, obs):
        pi, A, B = self.log_pi.log_softmax(0), self.log_A.log_softmax(1), self.log_B.log_softmax(1)
        alpha = pi + B[:, obs[:, 0]].T
        for o in obs.T[1:]:
            alpha = torch.logsumexp(alpha[:, :, None] + A[None], 1) + B[:, o].t()
        return alpha.logsumexp(-1).sum()


class KalmanOutput(NamedTuple):
    mean: torch.Tensor
    cov: torch.Tensor
    innovations: List[torch.Tensor]


class KalmanFilter(nn.Module):
    def __init__(self, dim=4, obs=2):
        super().__init__()
        self.F = nn.Parameter(torch.eye(dim) + 0.1 * torch.randn(dim, dim))
        self.H = nn.Parameter(torch.randn(obs, dim))
        self.q, self.r = nn.Parameter(torch.rand(dim)), nn.Parameter(torch.rand(obs))

    def forward(self, z):
        Q, R = torch.diag(self.q.abs() + 0.1), torch.diag(self.r.abs() + 0.1)
        I = torch.eye(self.F.shape[0])
        x = torch.zeros(z.shape[0], self.F.shape[0])
        P = I.expand(z.shape[0], -1, -1)
        residuals = []
        for t in range(z.shape[1]):
            x = x @ self.F.T
            P = self.F @ P @ self.F.T + Q
            y = z[:, t] - x @ self.H.T
            S = self.H @ P @ self.H.T + R
            K = P @ self.H.T @ torch.linalg.inv(S)
            x = x + torch.einsum("bij,bj->bi", K, y)
            P = (I - K @ self.H) @ P
            residuals.append(y)
        return KalmanOutput(x, P, residuals)


class CharRNN(nn.Module):
    """Starts from its own zeros unless a state is given, and gives the state back."""

    def __init__(self, tokens=26, n_hidden=8, n_layers=1):
        super().__init__()
        self.tokens, self.n_layers, self.n_hidden = tokens, n_layers, n_hidden
        self.lstm = nn.LSTM(tokens, n_hidden, n_layers, batch_first=True)
        self.fc = nn.Linear(n_hidden, tokens)

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
        )

    def forward(self, x, hidden: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        if hidden is None:
            hidden = self.init_hidden(x.size(0))
        x = F.one_hot(x, self.tokens).float()
        r_output, hidden = self.lstm(x, hidden)
        out = self.fc(r_output.contiguous().view(-1, self.n_hidden))
        return out.view(x.size(0), -1, self.tokens), hidden


MODELS = [
    entry("rwkv", RWKV, "idx=i64[batch,6]<30", dynamic="batch", batch=2),
    entry(
        "lstm_language_model",
        LSTMLanguageModel,
        "input=i64[seq,batch]<40 hidden.0=f32[2,batch,12] hidden.1=f32[2,batch,12]",
        dynamic=AXES,
        batch=2,
        seq=5,
    ),
    entry("seq2seq_attention", Seq2Seq, "src=i64[seq,batch]<20 trg=i64[5,batch]<20", dynamic=AXES, batch=3, seq=6),
    entry("pointer_network", PointerNetwork, "points=f32[batch,n,2]", dynamic=AXES, batch=2, n=(6, 4, 5, 9)),
    entry("mamba_scan", SelectiveScan, "x=f32[batch,7,8]", batch=2),
    entry("crf", CRF, "feats=f32[batch,5,6] tags=i64[batch,5]<5", dynamic="batch", batch=2),
    entry("hmm_forward", HMM, "obs=i64[batch,5]<6", dynamic="batch", batch=3),
    entry("kalman_filter", KalmanFilter, "z=f32[batch,4,2]", batch=2),
    entry("char_rnn", CharRNN, "x=i64[batch,seq]<26", batch=2, seq=5),
]
