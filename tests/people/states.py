"""Buffers that a call changes, layers in odd places, packed sequences, distributions, scripted parts."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class RunningNorm(nn.Module):
    """A running mean and variance as reinforcement learners keep them."""

    def __init__(self, dim=4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.tensor(1e-4))
        self.fc = nn.Linear(dim, 2)

    def update(self, x):
        batch_mean, batch_var, n = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        delta = batch_mean - self.mean
        total = self.count + n
        m2 = self.var * self.count + batch_var * n + delta**2 * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.var = m2 / total
        self.count = total

    def forward(self, x):
        self.update(x)
        return self.fc(torch.clamp((x - self.mean) / torch.sqrt(self.var + 1e-8), -5, 5))


class EMATeacher(nn.Module):
    """Mean teacher: the buffer follows what the student sees."""

    def __init__(self, momentum=0.9):
        super().__init__()
        self.student = nn.Linear(5, 3)
        self.register_buffer("center", torch.zeros(1, 3))
        self.momentum = momentum

    @torch.no_grad()
    def update_center(self, out):
        self.center.mul_(self.momentum).add_(out.mean(0, keepdim=True), alpha=1 - self.momentum)

    def forward(self, x):
        out = self.student(x)
        target = ((out - self.center) / 0.04).softmax(-1)
        self.update_center(out)
        return target


class CallCounter(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        y = self.lin(x) + self.last / (self.calls + 1)
        self.last.copy_(y.mean(0))
        return y, self.calls.clone()


class StreamingConv(nn.Module):
    """A causal convolution that keeps its left context between chunks."""

    def __init__(self, channels=3, kernel=4):
        super().__init__()
        self.conv = nn.Conv1d(channels, 5, kernel)
        self.register_buffer("context", torch.zeros(1, channels, kernel - 1), persistent=False)

    def forward(self, chunk):
        x = torch.cat([self.context, chunk], dim=2)
        self.context = x[:, :, -self.context.shape[2] :]
        return F.relu(self.conv(x))


class RingBuffer(nn.Module):
    """Writes each key at the next place and attends over all of them."""

    def __init__(self, size=5, dim=4):
        super().__init__()
        self.register_buffer("keys", torch.randn(size, dim))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))
        self.q = nn.Linear(dim, dim)

    def forward(self, x):
        att = (self.q(x) @ self.keys.T).softmax(-1)
        out = att @ self.keys
        self.keys.index_copy_(0, self.ptr, x.mean(0, keepdim=True))
        self.ptr.add_(1).remainder_(self.keys.shape[0])
        return out


class OddBatchNorm(nn.Module):
    """BatchNorm on the input, on logits, over sequences, without affine, without statistics."""

    def __init__(self):
        super().__init__()
        self.bn_in = nn.BatchNorm1d(4, affine=False)
        self.fc = nn.Linear(4, 6)
        self.bn_seq = nn.BatchNorm1d(6, momentum=None)
        self.bn_now = nn.BatchNorm1d(6, track_running_stats=False)
        self.bn_out = nn.BatchNorm2d(1)

    def forward(self, x):
        b, t, c = x.shape
        x = self.bn_in(x.reshape(-1, c)).view(b, t, c)
        h = self.bn_seq(self.fc(x).transpose(1, 2))
        h = F.relu(self.bn_now(h))
        return self.bn_out(h.unsqueeze(1)).squeeze(1)


class FrozenBackbone(nn.Module):
    """Frozen weights, an eval-only branch, a train override."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.head = nn.LazyLinear(5)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x)
        y = self.head(f.mean((2, 3)))
        if self.training:
            return y
        return y.softmax(dim=1), y.argmax(1)


class MixinBase:
    """A mixin with a property and a method that modules share."""

    scale = 0.5

    @property
    def device(self):
        return next(self.parameters()).device

    def rescale(self, x):
        return x * self.scale


class Child(MixinBase, nn.Module):
    scale = 2.0

    def __init__(self):
        nn.Module.__init__(self)
        self.proj = nn.Linear(3, 3)

    def forward(self, x):
        return self.rescale(self.proj(x.to(self.device)))


class GrandChild(Child):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(3, 3)

    def forward(self, x):
        return super().forward(x) + self.extra(super().forward(-x))


class HookedModel(nn.Module):
    """A forward hook changes a result, another collects features."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
        self.a.register_forward_hook(lambda module, args, out: out * 0.5 + 1)
        self.b.register_forward_pre_hook(lambda module, args: (torch.relu(args[0]),))

    def forward(self, x):
        return self.b(self.a(x))


class PackedClassifier(nn.Module):
    """Sentences of different lengths, packed for the LSTM, averaged without the padding."""

    def __init__(self, vocab=20, emb=6, hid=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(hid * 2, 3)

    def forward(self, text, text_lengths):
        embedded = self.embedding(text)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, text_lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_output, (hidden, cell) = self.rnn(packed)
        output, _ = nn.utils.rnn.pad_packed_sequence(packed_output, batch_first=True, total_length=text.size(1))
        mean = output.sum(1) / text_lengths.unsqueeze(1)
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)), mean


class GaussianPolicy(nn.Module):
    """Soft actor-critic's policy with its distributions, and the noise as an input."""

    LOG_STD_MIN, LOG_STD_MAX = -5, 2

    def __init__(self, obs=5, act=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 8), nn.ReLU())
        self.mean_linear, self.log_std_linear = nn.Linear(8, act), nn.Linear(8, act)

    def forward(self, state, noise):
        h = self.net(state)
        mean, log_std = self.mean_linear(h), torch.clamp(self.log_std_linear(h), self.LOG_STD_MIN, self.LOG_STD_MAX)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = mean + normal.scale * noise
        action = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(1 - action.pow(2) + 1e-6)
        kl = torch.distributions.kl_divergence(normal, torch.distributions.Normal(torch.zeros_like(mean), 1.0))
        return action, log_prob.sum(-1, keepdim=True), normal.entropy().sum(-1), kl.mean()


@torch.jit.script
def fused_gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


class RobustScaler(nn.Module):
    """Quantiles of the batch, a scripted function, a scripted block, and targets with a variance."""

    def __init__(self):
        super().__init__()
        self.block = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
        self.var = nn.Linear(4, 4)

    def forward(self, x, target):
        q1, median, q3 = torch.quantile(x, torch.tensor([0.25, 0.5, 0.75]), dim=1, keepdim=True)
        y = self.block(fused_gelu((x - median) / (q3 - q1 + 1e-3)))
        return y, F.gaussian_nll_loss(y, target, F.softplus(self.var(x)), reduction="none")


class FunctionalWeights(nn.Module):
    """A cosine classifier with weights normalised at each call, and low-rank updates (LoRA) on a frozen layer."""

    def __init__(self, r=2, alpha=4):
        super().__init__()
        self.base = nn.Linear(6, 5).requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, 6))
        self.lora_B = nn.Parameter(torch.zeros(5, r))
        self.scaling = alpha / r
        self.merged = False
        self.prototypes = nn.Parameter(torch.randn(3, 5))

    def forward(self, x):
        y = self.base(x)
        if not self.merged:
            y = y + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling
        return 10.0 * F.cosine_similarity(y.unsqueeze(1), self.prototypes, dim=-1)


MODELS = [
    entry("running_norm", RunningNorm, "x=f32[batch,4]", batch=(5, 3, 2, 4)),
    entry("ema_center", EMATeacher, "x=f32[batch,5]", batch=3),
    entry("call_counter", CallCounter, "x=f32[batch,3]", batch=3, constant=("output.1",)),
    entry("streaming_conv", StreamingConv, "chunk=f32[1,3,time]", dynamic=AXES, time=(8, 4, 5, 11)),
    entry("ring_buffer", RingBuffer, "x=f32[batch,4]", batch=3),
    entry("odd_batch_norm", OddBatchNorm, "x=f32[batch,t,4]", dynamic=AXES, batch=(3, 2, 4, 5), t=(5, 2, 3, 7)),
    entry("frozen_backbone", FrozenBackbone, "x=f32[batch,3,7,7]", batch=2),
    entry("inheritance", GrandChild, "x=f32[batch,3]", batch=2),
    entry("hooks", HookedModel, "x=f32[batch,4]", batch=2),
    entry(
        "packed_sequences",
        PackedClassifier,
        lambda s, g: {
            "text": torch.randint(1, 20, (s["batch"], s["n"]), generator=g),
            "text_lengths": torch.randint(1, s["n"] + 1, (s["batch"],), generator=g),
        },
        dynamic={"text": {0: "batch", 1: "n"}, "text_lengths": {0: "batch"}},
        batch=3,
        n=(6, 2, 5, 9),
    ),
    entry("gaussian_policy", GaussianPolicy, "state=f32[batch,5] noise=f32[batch,2]", batch=3),
    entry("robust_scaler", RobustScaler, "x=f32[batch,4] target=f32[batch,4]", batch=3),
    entry("lora_cosine", FunctionalWeights, "x=f32[batch,6]", batch=3),
]
