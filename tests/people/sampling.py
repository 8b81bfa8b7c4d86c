"""Points, densities and solvers: transport, splines, processes, splats, equilibria, ensembles."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


class DeformConv(nn.Module):
    """Deformable convolution written with grid_sample."""

    def __init__(self, cin=3, cout=4, k=3):
        super().__init__()
        self.k = k
        self.offset = nn.Conv2d(cin, 2 * k * k, k, padding=k // 2)
        self.mod = nn.Conv2d(cin, k * k, k, padding=k // 2)
        self.weight = nn.Parameter(torch.randn(cout, cin, k * k))
        r = torch.arange(k) - k // 2
        self.register_buffer("base", torch.stack(torch.meshgrid(r, r, indexing="ij")).view(2, -1).float(), persistent=False)

    def forward(self, x):
        B, C, H, W = x.shape
        off = self.offset(x).view(B, self.k**2, 2, H, W)
        m = 2 * torch.sigmoid(self.mod(x))
        ys, xs = torch.meshgrid(torch.arange(H, dtype=x.dtype), torch.arange(W, dtype=x.dtype), indexing="ij")
        py = ys + off[:, :, 0] + self.base[0].view(1, -1, 1, 1)
        px = xs + off[:, :, 1] + self.base[1].view(1, -1, 1, 1)
        grid = torch.stack([2 * (px + 0.5) / W - 1, 2 * (py + 0.5) / H - 1], -1)
        s = F.grid_sample(x, grid.view(B, -1, W, 2), align_corners=False, padding_mode="zeros").view(B, C, -1, H, W)
        return torch.einsum("bckhw,ock->bohw", s * m.unsqueeze(1), self.weight)


class AndersonDEQ(nn.Module):
    def __init__(self, d=4, m=3, iters=5, lam=1e-2):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2 * d, d), nn.Tanh())
        self.m, self.iters, self.lam = m, iters, lam

    def forward(self, x):
        B, d = x.shape
        g = lambda z: 0.5 * self.f(torch.cat([z, x], -1))
        X, Fx = x.new_zeros(B, self.m, d), x.new_zeros(B, self.m, d)
        Fx[:, 0] = g(X[:, 0])
        X[:, 1], Fx[:, 1] = Fx[:, 0], g(Fx[:, 0])
        H = x.new_zeros(B, self.m + 1, self.m + 1)
        H[:, 0, 1:] = H[:, 1:, 0] = 1
        y = x.new_zeros(B, self.m + 1, 1)
        y[:, 0] = 1
        for k in range(2, self.iters):
            n = min(k, self.m)
            G = Fx[:, :n] - X[:, :n]
            H[:, 1 : n + 1, 1 : n + 1] = torch.bmm(G, G.transpose(1, 2)) + self.lam * torch.eye(n)[None]
            alpha = torch.linalg.solve(H[:, : n + 1, : n + 1], y[:, : n + 1])[:, 1 : n + 1, 0]
            X[:, k % self.m] = (alpha[:, None] @ Fx[:, :n])[:, 0]
            Fx[:, k % self.m] = g(X[:, k % self.m].clone())
        return X[:, (self.iters - 1) % self.m], (Fx - X).norm(dim=(1, 2))


class Sinkhorn(nn.Module):
    def __init__(self, eps=0.5, iters=6):
        super().__init__()
        self.a, self.eps, self.iters = nn.Linear(3, 4), eps, iters

    def forward(self, x, y):
        x, y = self.a(x), self.a(y)
        C = torch.cdist(x, y, p=2) ** 2
        n, m = C.shape[-2:]
        mu = torch.full((C.shape[0], n), 1.0 / n)
        nu = torch.empty(C.shape[0], m).fill_(1.0 / m)
        u, v = torch.zeros_like(mu), torch.zeros_like(nu)
        M = lambda: (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / self.eps
        for _ in range(self.iters):
            u = self.eps * (torch.log(mu + 1e-8) - torch.logsumexp(M(), dim=-1)) + u
            v = self.eps * (torch.log(nu + 1e-8) - torch.logsumexp(M().transpose(-2, -1), dim=-1)) + v
        pi = torch.exp(M())
        return torch.sum(pi * C, dim=(-2, -1)), pi


class SlotAttention(nn.Module):
    def __init__(self, slots=3, d=6, iters=3):
        super().__init__()
        self.slots, self.iters, self.scale = slots, iters, d**-0.5
        self.mu, self.sigma = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.rand(1, 1, d))
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ReLU(inplace=True), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, inputs, noise):
        b, n, d = inputs.shape
        slots = self.mu.expand(b, self.slots, -1) + self.sigma.expand(b, self.slots, -1) * noise
        inputs = self.n1(inputs)
        k, v = self.k(inputs), self.v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.q(self.n2(slots))
            attn = (torch.einsum("bid,bjd->bij", q, k) * self.scale).softmax(dim=1) + 1e-8
            w = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, w)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(slots)
        return slots, attn


class SwitchMoE(nn.Module):
    """Tokens go to their expert by nonzero and index_add."""

    def __init__(self, d=6, experts=3, k=2):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 8), nn.GELU(), nn.Linear(8, d)) for _ in range(experts))
        self.k = k

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        w, chosen = self.gate(x).softmax(-1).topk(self.k)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            tok, slot = torch.where(chosen == i)
            out.index_add_(0, tok, expert(x[tok]) * w[tok, slot, None])
        load = F.one_hot(chosen, len(self.experts)).float().sum((0, 1)) / chosen.numel()
        return out.view(*shape), load


def searchsorted(bins, x, eps=1e-6):
    bins = bins.clone()
    bins[..., -1] += eps
    return torch.sum(x[..., None] >= bins, dim=-1) - 1


class SplineFlow(nn.Module):
    """Rational-quadratic spline coupling with an inverse."""

    def __init__(self, d=4, K=5, B=3.0):
        super().__init__()
        self.K, self.B = K, B
        self.net = nn.Sequential(nn.Linear(d // 2, 12), nn.ReLU(), nn.Linear(12, (3 * K - 1) * (d // 2)))

    def forward(self, x):
        a, b = torch.chunk(x, 2, dim=-1)
        W, H, D = torch.split(self.net(a).view(*b.shape, -1), [self.K, self.K, self.K - 1], dim=-1)
        W, H = F.softmax(W, -1) * 2 * self.B, F.softmax(H, -1) * 2 * self.B
        D = F.pad(F.softplus(D), (1, 1), value=1.0)
        cw = F.pad(W.cumsum(-1), (1, 0)) - self.B
        ch = F.pad(H.cumsum(-1), (1, 0)) - self.B
        inside = (b > -self.B) & (b < self.B)
        k = searchsorted(cw, b.clamp(-self.B, self.B)).clamp(0, self.K - 1).unsqueeze(-1)
        pick = lambda t: t.gather(-1, k)[..., 0]
        w, h, x0, y0, d0, d1 = pick(W), pick(H), pick(cw), pick(ch), pick(D), pick(D[..., 1:])
        s = h / w
        xi = ((b - x0) / w).clamp(0, 1)
        q = xi * (1 - xi)
        den = s + (d0 + d1 - 2 * s) * q
        y = y0 + h * (s * xi.pow(2) + d0 * q) / den
        logdet = torch.log(s.pow(2) * (d1 * xi.pow(2) + 2 * s * q + d0 * (1 - xi).pow(2))) - 2 * torch.log(den)
        return torch.cat([a, torch.where(inside, y, b)], -1), torch.where(inside, logdet, torch.zeros_like(logdet)).sum(-1)


class MDN(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ELU())
        self.pi, self.mu, self.ls = nn.Linear(8, k), nn.Linear(8, 2 * k), nn.Linear(8, 2 * k)

    def forward(self, x, y):
        h = self.body(x)
        mix = torch.distributions.Categorical(logits=self.pi(h))
        comp = torch.distributions.Independent(torch.distributions.Normal(self.mu(h).view(len(x), -1, 2), self.ls(h).view(len(x), -1, 2).exp()), 1)
        gmm = torch.distributions.MixtureSameFamily(mix, comp)
        return -gmm.log_prob(y), gmm.mean, mix.probs


def farthest_point_sample(xyz, npoint):
    B, N, C = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long)
    distance = torch.ones(B, N) * 1e10
    farthest = torch.zeros(B, dtype=torch.long)
    batch = torch.arange(B, dtype=torch.long)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch, farthest, :].view(B, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = torch.max(distance, -1)[1]
    return centroids


def index_points(points, idx):
    B = points.shape[0]
    view_shape = list(idx.shape)
    view_shape[1:] = [1] * (len(view_shape) - 1)
    repeat_shape = list(idx.shape)
    repeat_shape[0] = 1
    batch = torch.arange(B, dtype=torch.long).view(view_shape).repeat(repeat_shape)
    return points[batch, idx, :]


class PointNetPP(nn.Module):
    """Set abstraction, then feature propagation by inverse distances."""

    def __init__(self, npoint=4, radius=0.9, k=3):
        super().__init__()
        self.npoint, self.radius, self.k = npoint, radius, k
        self.mlp = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 1))
        self.head = nn.Conv1d(6, 2, 1)

    def forward(self, xyz):
        B, N, _ = xyz.shape
        new = index_points(xyz, farthest_point_sample(xyz, self.npoint))
        sq = -2 * new @ xyz.transpose(1, 2) + (new**2).sum(-1, keepdim=True) + (xyz**2).sum(-1).unsqueeze(1)
        idx = torch.arange(N).view(1, 1, N).repeat(B, self.npoint, 1)
        idx[sq > self.radius**2] = N
        idx = idx.sort(dim=-1)[0][:, :, : self.k]
        first = idx[:, :, :1].repeat(1, 1, self.k)
        mask = idx == N
        idx[mask] = first[mask]
        grouped = index_points(xyz, idx) - new.unsqueeze(2)
        f = self.mlp(grouped.permute(0, 3, 2, 1)).max(2)[0].transpose(1, 2)
        d, near = torch.cdist(xyz, new).topk(3, largest=False)
        w = 1.0 / (d + 1e-6)
        w = w / w.sum(-1, keepdim=True)
        back = (index_points(f, near) * w.unsqueeze(-1)).sum(2)
        return self.head(back.permute(0, 2, 1)).transpose(2, 1)


class Splat(nn.Module):
    """2-d Gaussians, sorted by depth, alpha composited."""

    def __init__(self, n=5, size=6):
        super().__init__()
        self.xy, self.log_s, self.theta = nn.Parameter(torch.rand(n, 2) * size), nn.Parameter(torch.randn(n, 2) * 0.3), nn.Parameter(torch.randn(n))
        self.color, self.opacity, self.depth = nn.Parameter(torch.randn(n, 3)), nn.Parameter(torch.randn(n)), nn.Parameter(torch.randn(n))
        self.size = size

    def forward(self, shift):
        c, s = self.theta.cos(), self.theta.sin()
        R = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
        S = torch.diag_embed(self.log_s.exp())
        cov = R @ S @ S.mT @ R.mT + 0.3 * torch.eye(2)
        inv = torch.linalg.inv(cov)
        grid = torch.cartesian_prod(torch.arange(self.size) + 0.5, torch.arange(self.size) + 0.5)
        d = grid[None, :, None] - (self.xy[None] + shift[:, None])[:, None]
        power = -0.5 * torch.einsum("bpni,nij,bpnj->bpn", d, inv, d)
        alpha = (self.opacity.sigmoid() * power.exp()).clamp_max(0.99)
        order = self.depth.argsort()
        alpha = alpha[..., order]
        T = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1 - alpha[..., :-1]], -1), -1)
        return ((T * alpha) @ self.color[order].sigmoid()).view(-1, self.size, self.size, 3)


class GP(nn.Module):
    """Gaussian process regression: posterior mean, variance and marginal likelihood."""

    def __init__(self):
        super().__init__()
        self.log_l, self.log_s, self.log_n = (nn.Parameter(torch.tensor(v)) for v in (0.0, 0.1, -1.0))

    def kernel(self, a, b):
        d = (a.unsqueeze(-2) - b.unsqueeze(-3)).div(self.log_l.exp())
        return self.log_s.exp() * torch.exp(-0.5 * d.square().sum(-1))

    def forward(self, x, y, xs):
        n = x.shape[0]
        K = self.kernel(x, x) + self.log_n.exp() * torch.eye(n)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y[:, None], L)
        Ks = self.kernel(xs, x)
        v = torch.linalg.solve_triangular(L, Ks.mT, upper=False)
        mll = -0.5 * (y[:, None] * alpha).sum() - L.diagonal().log().sum() - 0.5 * n * math.log(2 * math.pi)
        return (Ks @ alpha).squeeze(-1), self.log_s.exp() - (v * v).sum(0), mll


class Ensemble(nn.Module):
    """Deep ensemble run at once: stacked weights and vmap over functional_call."""

    def __init__(self, n=3):
        super().__init__()
        self.members = nn.ModuleList(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(n))
        self.base = [copy.deepcopy(self.members[0]).to("meta")]

    def forward(self, x):
        params = {k: torch.stack([dict(m.named_parameters())[k] for m in self.members]) for k, _ in self.members[0].named_parameters()}
        ys = torch.vmap(lambda p: torch.func.functional_call(self.members[0], p, (x,)))(params)
        return ys.mean(0), ys.std(0)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.alpha * g, None


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


class DANN(nn.Module):
    """Gradient reversal, straight-through quantised features, a scripted helper, a property that builds weights."""

    def __init__(self):
        super().__init__()
        self.f, self.c, self.d = nn.Linear(5, 6), nn.Linear(6, 3), nn.Linear(6, 2)
        self.log_step = nn.Parameter(torch.tensor(-1.0))

    @property
    def step(self):
        return self.log_step.exp()

    def forward(self, x, alpha=0.3):
        h = torch.relu(self.f(x))
        q = RoundSTE.apply(h / self.step).clamp(0, 15) * self.step
        return self.c(q), self.d(Reverse.apply(h, alpha))


MODELS = [
    entry("anderson", AndersonDEQ, "x=f32[batch,4]", batch=3),
    entry("sinkhorn", Sinkhorn, "x=f32[batch,n,3] y=f32[batch,m,3]", dynamic=AXES, batch=2, n=(4, 1, 3, 7), m=(5, 2, 6, 3)),
    entry("slot_attention", SlotAttention, "inputs=f32[batch,n,6] noise=f32[batch,3,6]", dynamic=AXES, batch=2, n=(7, 2, 5, 12)),
    entry("spline_flow", SplineFlow, "x=f32[batch,4]", batch=3),
    entry("mdn", MDN, "x=f32[batch,4] y=f32[batch,2]", batch=3),
    entry("gaussian_process", GP, "x=f32[n,2] y=f32[n] xs=f32[m,2]", dynamic=AXES, n=(6, 2, 4, 9), m=(3, 1, 4, 7)),
    entry("pointnet2", PointNetPP, "xyz=f32[batch,n,3]", dynamic=AXES, batch=2, n=(9, 4, 6, 13)),
    entry("splat", Splat, "shift=f32[batch,2]", batch=2),
    entry("deformable_grid", DeformConv, "x=f32[batch,3,h,w]", dynamic=AXES, batch=2, h=(6, 3, 5, 9), w=(7, 6, 4, 12)),
    entry("vmap_ensemble", Ensemble, "x=f32[batch,4]", batch=3),
    entry("dann", DANN, "x=f32[batch,5]", batch=3),
    entry("switch_moe", SwitchMoE, "x=f32[batch,seq,6]", dynamic=AXES, batch=2, seq=5),
]
