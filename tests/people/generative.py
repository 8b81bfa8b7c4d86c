"""Generators: diffusion, flows, autoencoders, adversarial networks."""

import math
from abc import abstractmethod
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

from .entry import AXES, entry

# ---- DDPM -------------------------------------------------------------------------------------------------------


def timestep_embedding(timesteps, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half).to(device=timesteps.device)
    args = timesteps[:, None].float() * freqs[None]
    embedding = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
    if dim % 2:
        embedding = torch.cat([embedding, torch.zeros_like(embedding[:, :1])], dim=-1)
    return embedding


class TimestepBlock(nn.Module):
    """Any module where forward() takes timestep embeddings as a second argument."""

    @abstractmethod
    def forward(self, x, emb):
        pass


class TimestepEmbedSequential(nn.Sequential, TimestepBlock):
    def forward(self, x, emb):
        for layer in self:
            if isinstance(layer, TimestepBlock):
                x = layer(x, emb)
            else:
                x = layer(x)
        return x


def norm_layer(channels):
    return nn.GroupNorm(4, channels)


class ResidualBlock(TimestepBlock):
    def __init__(self, in_channels, out_channels, time_channels, dropout):
        super().__init__()
        self.conv1 = nn.Sequential(norm_layer(in_channels), nn.SiLU(), nn.Conv2d(in_channels, out_channels, 3, padding=1))
        self.time_emb = nn.Sequential(nn.SiLU(), nn.Linear(time_channels, out_channels))
        self.conv2 = nn.Sequential(norm_layer(out_channels), nn.SiLU(), nn.Dropout(p=dropout), nn.Conv2d(out_channels, out_channels, 3, padding=1))
        if in_channels != out_channels:
            self.shortcut = nn.Conv2d(in_channels, out_channels, kernel_size=1)
        else:
            self.shortcut = nn.Identity()

    def forward(self, x, t):
        h = self.conv1(x)
        h += self.time_emb(t)[:, :, None, None]
        return self.conv2(h) + self.shortcut(x)


class AttentionBlock(nn.Module):
    def __init__(self, channels, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
        self.norm = norm_layer(channels)
        self.qkv = nn.Conv2d(channels, channels * 3, kernel_size=1, bias=False)
        self.proj = nn.Conv2d(channels, channels, kernel_size=1)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(B * self.num_heads, -1, H * W).chunk(3, dim=1)
        scale = 1.0 / math.sqrt(math.sqrt(C // self.num_heads))
        attn = torch.einsum("bct,bcs->bts", q * scale, k * scale).softmax(dim=-1)
        h = torch.einsum("bts,bcs->bct", attn, v)
        return self.proj(h.reshape(B, -1, H, W)) + x


class UNetModel(nn.Module):
    def __init__(self, in_channels=3, model_channels=8, channel_mult=(1, 2), num_res_blocks=1, attention_resolutions=(2,), num_heads=2):
        super().__init__()
        self.model_channels = model_channels
        time_embed_dim = model_channels * 4
        self.time_embed = nn.Sequential(nn.Linear(model_channels, time_embed_dim), nn.SiLU(), nn.Linear(time_embed_dim, time_embed_dim))
        self.down_blocks = nn.ModuleList([TimestepEmbedSequential(nn.Conv2d(in_channels, model_channels, kernel_size=3, padding=1))])
        chans, ch, ds = [model_channels], model_channels, 1
        for level, mult in enumerate(channel_mult):
            for _ in range(num_res_blocks):
                layers = [ResidualBlock(ch, mult * model_channels, time_embed_dim, 0.1)]
                ch = mult * model_channels
                if ds in attention_resolutions:
                    layers.append(AttentionBlock(ch, num_heads=num_heads))
                self.down_blocks.append(TimestepEmbedSequential(*layers))
                chans.append(ch)
            if level != len(channel_mult) - 1:
                self.down_blocks.append(TimestepEmbedSequential(nn.Conv2d(ch, ch, 3, stride=2, padding=1)))
                chans.append(ch)
                ds *= 2
        self.middle_block = TimestepEmbedSequential(ResidualBlock(ch, ch, time_embed_dim, 0.1), AttentionBlock(ch, num_heads))
        self.up_blocks = nn.ModuleList([])
        for level, mult in list(enumerate(channel_mult))[::-1]:
            for i in range(num_res_blocks + 1):
                layers = [ResidualBlock(ch + chans.pop(), model_channels * mult, time_embed_dim, 0.1)]
                ch = model_channels * mult
                if level and i == num_res_blocks:
                    layers.append(nn.Upsample(scale_factor=2, mode="nearest"))
                self.up_blocks.append(TimestepEmbedSequential(*layers))
        self.out = nn.Sequential(norm_layer(ch), nn.SiLU(), nn.Conv2d(model_channels, in_channels, kernel_size=3, padding=1))

    def forward(self, x, timesteps):
        hs = []
        emb = self.time_embed(timestep_embedding(timesteps, self.model_channels))
        h = x
        for module in self.down_blocks:
            h = module(h, emb)
            hs.append(h)
        h = self.middle_block(h, emb)
        for module in self.up_blocks:
            h = module(torch.cat([h, hs.pop()], dim=1), emb)
        return self.out(h)


class DDIMSampler(nn.Module):
    """Steps of a sampler around a small noise predictor; the schedule is a buffer."""

    def __init__(self, steps=4, total=100):
        super().__init__()
        self.eps = nn.Sequential(nn.Linear(6 + 8, 16), nn.Mish(), nn.Linear(16, 6))
        betas = torch.linspace(1e-4, 0.02, total)
        self.register_buffer("alphas_cumprod", torch.cumprod(1.0 - betas, dim=0))
        self.times = list(range(total - 1, 0, -total // steps))

    def forward(self, x):
        for t, t_prev in zip(self.times, self.times[1:] + [0]):
            a, a_prev = self.alphas_cumprod[t], self.alphas_cumprod[t_prev]
            emb = timestep_embedding(torch.full((x.shape[0],), t, dtype=torch.long), 8)
            eps = self.eps(torch.cat([x, emb], -1))
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-3, 3)
            x = a_prev.sqrt() * x0 + torch.sqrt(1 - a_prev) * eps
        return x


# ---- flows --------------------------------------------------------------------------------------------------------


class RealNVP(nn.Module):
    def __init__(self, nets, nett, masks):
        super().__init__()
        self.register_buffer("mask", masks)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(masks))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(masks))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def forward(self, x):
        z, logp = self.f(x)
        prior = -0.5 * (z**2 + math.log(2 * math.pi)).sum(-1)
        return prior + logp, self.g(z * 0.5)


def real_nvp():
    nets = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 8), nn.LeakyReLU(), nn.Linear(8, 2), nn.Tanh())
    nett = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 8), nn.LeakyReLU(), nn.Linear(8, 2))
    return RealNVP(nets, nett, torch.tensor([[0.0, 1.0], [1.0, 0.0]] * 2))


class InvConv(nn.Module):
    """Glow's invertible 1×1 convolution."""

    def __init__(self, channels):
        super().__init__()
        q, _ = torch.linalg.qr(torch.randn(channels, channels))
        self.weight = nn.Parameter(q)

    def forward(self, x, reverse=False):
        _, _, h, w = x.shape
        dlogdet = torch.slogdet(self.weight)[1] * h * w
        weight = torch.inverse(self.weight) if reverse else self.weight
        z = F.conv2d(x, weight.unsqueeze(2).unsqueeze(3))
        return z, -dlogdet if reverse else dlogdet


class GlowStep(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.loc, self.scale = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.ones(1, c, 1, 1))
        self.invconv = InvConv(c)
        self.net = nn.Sequential(nn.Conv2d(c // 2, 8, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(8, c, 3, padding=1))

    def forward(self, x):
        _, _, h, w = x.shape
        logdet = h * w * self.scale.abs().log().sum()
        x = self.scale * (x + self.loc)
        x, det = self.invconv(x)
        a, b = x.chunk(2, 1)
        log_s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([a, (b + t) * s], 1), logdet + det + s.log().flatten(1).sum(1)


class Glow(nn.Module):
    def __init__(self, steps=2):
        super().__init__()
        self.flows = nn.ModuleList(GlowStep(12) for _ in range(steps))

    def forward(self, x):
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(b, c * 4, h // 2, w // 2)
        total = 0
        for flow in self.flows:
            x, logdet = flow(x)
            total = total + logdet
        return x, total


# ---- autoencoders -------------------------------------------------------------------------------------------------


class VAE(nn.Module):
    def __init__(self, d=20, h=12, z=4):
        super().__init__()
        self.fc1 = nn.Linear(d, h)
        self.fc21 = nn.Linear(h, z)
        self.fc22 = nn.Linear(h, z)
        self.fc3 = nn.Linear(z, h)
        self.fc4 = nn.Linear(h, d)
        self.d = d

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, self.d))
        recon = self.decode(self.reparameterize(mu, logvar))
        BCE = F.binary_cross_entropy(recon, x.view(-1, self.d).sigmoid(), reduction="sum")
        KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return recon, mu, logvar, BCE + KLD


class VectorQuantizer(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost=0.25):
        super().__init__()
        self._embedding_dim = embedding_dim
        self._num_embeddings = num_embeddings
        self._embedding = nn.Embedding(num_embeddings, embedding_dim)
        self._commitment_cost = commitment_cost

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        flat = inputs.view(-1, self._embedding_dim)
        distances = (
            torch.sum(flat**2, dim=1, keepdim=True) + torch.sum(self._embedding.weight**2, dim=1) - 2 * torch.matmul(flat, self._embedding.weight.t())
        )
        idx = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(idx.shape[0], self._num_embeddings, device=inputs.device)
        encodings.scatter_(1, idx, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(inputs.shape)
        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        loss = F.mse_loss(quantized, inputs.detach()) + self._commitment_cost * e_latent_loss
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity, idx


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
        self.vq = VectorQuantizer(16, 4)
        self.dec = nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, x):
        loss, quantized, perplexity, _ = self.vq(self.enc(x))
        return loss, self.dec(quantized), perplexity


class IWAEDecoder(nn.Module):
    """The noise is an input, as people do who want repeatable results."""

    def __init__(self):
        super().__init__()
        self.net = nn.ModuleDict({"mu": nn.Linear(8, 3), "logvar": nn.Linear(8, 3), "out": nn.Linear(3, 8)})

    def forward(self, x, *, eps):
        h = SimpleNamespace(mu=self.net["mu"](x), logvar=self.net["logvar"](x).clamp(-5, 5))
        z = h.mu + eps * (h.logvar / 2).exp()  # [k, b, 3]
        log_p = -F.mse_loss(self.net["out"](z), x.expand(eps.shape[0], -1, -1), reduction="none").sum(-1)
        log_q = (-0.5 * eps**2 - h.logvar / 2).sum(-1)
        return torch.logsumexp(log_p - log_q, dim=0) - math.log(eps.shape[0])


MODELS = [
    entry("ddpm_unet", UNetModel, "x=f32[batch,3,8,8] timesteps=i64[batch]<1000", batch=2),
    entry("ddim_sampler", DDIMSampler, "x=f32[batch,6]", batch=3),
    entry("real_nvp", real_nvp, "x=f32[batch,2]", batch=5),
    entry("glow", Glow, "x=f32[batch,3,4,4]", batch=2),
    entry("vae", VAE, "x=f32[batch,4,5]", batch=3),
    entry("vq_vae", VQVAE, "x=f32[batch,3,h,8]", dynamic=AXES, batch=2, h=(8, 4, 10, 16)),
    entry("iwae", IWAEDecoder, "x=f32[batch,8] eps=f32[k,batch,3]", dynamic=AXES, batch=2, k=5, fixed=("k",), note="math.log(k) fixes k"),
]
